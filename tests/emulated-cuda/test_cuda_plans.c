/* Plans of cuDNN over the emulated library: made beforehand, taken back or refused. */
#include "base/alloc.h"
#include "base/directory.h"
#include "base/file.h"
#include "engine/backend/cuda/plan_cache.h"
#include "engine/backend/cuda/plan_set.h"
#include "tests/unit/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two that run, and one that no engine takes: in groups, in 8 bits. */
enum { N_CONVS = 3, N_PLANS = 3 };
static struct hrf_cudnn_conv convs[N_CONVS] = {
    { .type = HRF_F32,
      .out_type = HRF_F32,
      .x = { 1, 16, 9, 9 },
      .w = { 24, 16, 3, 3 },
      .y = { 1, 24, 9, 9 },
      .window = { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
      .allow_tf32 = true },
    { .type = HRF_S8,
      .out_type = HRF_S8,
      .x = { 1, 3, 9, 9 }, /* widened to 4 */
      .w = { 8, 3, 1, 1 },
      .y = { 1, 8, 9, 9 },
      .window = { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } },
      .has_bias = true },
    { .type = HRF_S8,
      .out_type = HRF_S8,
      .x = { 1, 8, 9, 9 },
      .w = { 8, 1, 1, 1 },
      .y = { 1, 8, 9, 9 },
      .window = { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } } },
};

struct fixture {
    char folder[256], sets[300], set[320];
    struct hrf_cuda_device *device;
    cudnnHandle_t cudnn;
    struct hrf_cudnn_device *properties;
};

static void open_device(struct fixture *f)
{
    struct hrf_error err = { .text = "" };
    must(hrf_cuda_device_open(0, &f->device, &err), &err);
    assert_int_equal(cudnnCreate(&f->cudnn), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetStream(f->cudnn, f->device->stream), CUDNN_STATUS_SUCCESS);
    must(hrf_cudnn_device_of(f->cudnn, &f->properties, &err), &err);
}

static void close_device(struct fixture *f)
{
    hrf_cudnn_device_destroy(f->properties);
    (void)cudnnDestroy(f->cudnn);
    hrf_cuda_device_destroy(f->device);
}

/* A set for the device as it was described, made without it. */
static void make_set(const struct fixture *f)
{
    HRF_AUTO_FREE char *json = NULL;
    HRF_AUTO(hrf_cudnn_device) described = NULL;
    struct hrf_error err = { .text = "" };
    int32_t n_plans = -1;
    must(hrf_cudnn_device_json(f->properties, &json, &err), &err);
    must(hrf_cudnn_device_parse(json, &described, &err), &err);
    must(hrf_plan_set_begin(f->set, json, &err), &err);
    for (int i = 0; i < N_CONVS; i++)
        must(hrf_plan_set_add(f->set, described, 1 << 30, &convs[i], &n_plans, &err), &err);
    assert_int_equal(n_plans, 0); /* of the last */
    must(hrf_plan_set_add(f->set, described, 1 << 30, &convs[0], &n_plans, &err), &err);
    assert_int_equal(n_plans, 2);
}

static int set_up(void **state)
{
    struct fixture *f = hrf_calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/test_cuda_plans.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->sets, sizeof f->sets, "%s/cuda-plans", f->folder);
    snprintf(f->set, sizeof f->set, "%s/emulated", f->sets);
    open_device(f);
    make_set(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    (void)unsetenv("HRF_EMULATED_CUDA");
    (void)unsetenv("HRF_EMULATED_CUDNN");
    close_device(f);
    assert_int_equal(hrf_path_remove_tree(f->folder, NULL), HRF_OK);
    hrf_free(f);
    return 0;
}

/* Asks for all convolutions; gives how many plans were built for that, and the notes. */
static long start(const struct fixture *f, const char *kept, struct hrf_strbuf *notes)
{
    HRF_AUTO(hrf_plan_cache) cache = NULL;
    struct hrf_error err = { .text = "" };
    const long before = hrf_emulated_plans_built();
    hrf_strbuf_clear(notes);
    cache = hrf_plan_cache_create(kept, f->device, f->cudnn, f->properties);
    must(hrf_plan_cache_use_sets(cache, f->sets, &err), &err);
    must(hrf_plan_cache_prepare(cache, convs, N_CONVS, 2, &err), &err);
    for (int i = 0; i < N_CONVS; i++) {
        struct hrf_planned_conv planned;
        must(hrf_plan_cache_get(cache, &convs[i], &planned, &err), &err);
        assert_int_equal(planned.plan != NULL, i < 2);
        assert_int_equal(planned.conv.x[1], i == 1 ? 4 : convs[i].x[1]);
    }
    hrf_plan_cache_notes(cache, notes);
    return hrf_emulated_plans_built() - before;
}

static void expect(const struct hrf_strbuf *notes, const char *words)
{
    if (strstr(notes->text, words) == NULL)
        fail_msg("no '%s' in the notes: %s", words, notes->text);
}

static void a_first_start_with_plans_made_beforehand_builds_none(void **state)
{
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    char kept[400];
    snprintf(kept, sizeof kept, "%s/kept", f->folder);
    assert_int_equal(start(f, kept, &notes), 0);
    expect(&notes, "3 convolutions tuned");
    expect(&notes, "(3 by plans made beforehand), 0 read");
    assert_int_equal(start(f, kept, &notes), 0); /* what was tuned is kept */
    assert_string_equal(notes.text, "");
    hrf_strbuf_release(&notes);
}

static void plans_of_another_driver_are_refused_by_name_and_built(void **state)
{
    struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    close_device(f);
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "new-driver", 1), 0);
    open_device(f);
    assert_int_equal(start(f, NULL, &notes), N_PLANS);
    expect(&notes, "emulated' is for Emulated GPU with driverVer 13000, here it is 13010");
    expect(&notes, "(0 by plans made beforehand)");
    hrf_strbuf_release(&notes);
}

/* The set says that it fits and cuDNN says that it does not: what it says counts. */
static void plans_that_cudnn_refuses_are_named_and_built(void **state)
{
    struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_error err = { .text = "" };
    close_device(f);
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "new-driver", 1), 0);
    open_device(f);
    HRF_AUTO_FREE char *json = NULL;
    must(hrf_cudnn_device_json(f->properties, &json, &err), &err);
    must(hrf_plan_set_begin(f->set, json, &err), &err);
    assert_int_equal(start(f, NULL, &notes), N_PLANS);
    expect(&notes, "plans made beforehand are built anew: cuDNN, a stored plan: not supported");
    hrf_strbuf_release(&notes);
}

static void a_damaged_or_missing_file_of_a_set_is_built_anew(void **state)
{
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_text_list names;
    int n_damaged = 0;
    assert_int_equal(hrf_path_list_directory(f->set, &names, NULL), HRF_OK);
    assert_int_equal(names.n_items, N_CONVS + 1);
    for (size_t i = 0; i < names.n_items; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", f->set, names.items[i]);
        if (strcmp(names.items[i], "set.json") == 0)
            continue;
        if (n_damaged++ == 0)
            assert_int_equal(hrf_path_remove_tree(path, NULL), HRF_OK);
        else
            assert_int_equal(hrf_file_write_atomic(path, "{\"convolution\": 3}", 18, NULL), HRF_OK);
    }
    hrf_text_list_release(&names);
    assert_int_equal(start(f, NULL, &notes), N_PLANS);
    expect(&notes, "plans made beforehand are built anew: ");
    hrf_strbuf_release(&notes);
}

/* Comes first: the count is of the whole process, and so far one thread has built. */
static void plans_are_built_by_several_threads(void **state)
{
    const struct fixture *f = *state;
    HRF_AUTO(hrf_plan_cache) cache = NULL;
    struct hrf_error err = { .text = "" };
    assert_int_equal(hrf_emulated_plans_at_once(), 1);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", "builds-ms=300", 1), 0);
    cache = hrf_plan_cache_create(NULL, f->device, f->cudnn, f->properties);
    must(hrf_plan_cache_prepare(cache, convs, N_CONVS, 2, &err), &err);
    assert_int_equal(hrf_emulated_plans_at_once(), 2);
}

static void an_engine_that_fails_at_run_time_is_not_chosen(void **state)
{
    const struct fixture *f = *state;
    static const char *const variants[] = { "fails=7", "fails=8", "contracts,fails=7" };
    static const int64_t chosen[] = { 8, 7, 8 };
    for (int i = 0; i < 3; i++) {
        HRF_AUTO(hrf_plan_cache) cache = NULL;
        struct hrf_planned_conv planned;
        struct hrf_error err = { .text = "" };
        assert_int_equal(setenv("HRF_EMULATED_CUDNN", variants[i], 1), 0);
        cache = hrf_plan_cache_create(NULL, f->device, f->cudnn, f->properties);
        must(hrf_plan_cache_get(cache, &convs[0], &planned, &err), &err);
        assert_int_equal(planned.plan->engine, chosen[i]);
    }
}

/* The engine and the notes of one convolution, tuned by that library; -1: none. */
static int64_t tune(const struct fixture *f, const char *library, const struct hrf_cudnn_conv *conv,
                    struct hrf_strbuf *notes)
{
    HRF_AUTO(hrf_plan_cache) cache = NULL;
    struct hrf_planned_conv planned;
    struct hrf_error err = { .text = "" };
    hrf_strbuf_clear(notes);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", library, 1), 0);
    cache = hrf_plan_cache_create(NULL, f->device, f->cudnn, f->properties);
    must(hrf_plan_cache_get(cache, conv, &planned, &err), &err);
    hrf_plan_cache_notes(cache, notes);
    return planned.plan != NULL ? planned.plan->engine : -1;
}

static void an_engine_whose_results_are_wrong_is_named_and_not_chosen(void **state)
{
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_cudnn_conv sum = convs[0];
    sum.has_residual = true;
    sum.residual_type = HRF_F32;
    assert_int_equal(tune(f, "clobbers=8", &sum, &notes), 7);
    expect(&notes, "engine 8 for a convolution is left out: ");
    expect(&notes, " results in the residual's place are wrong");
    assert_int_equal(tune(f, "truncates", &convs[1], &notes), -1);
    expect(&notes, "engine 7 for a convolution is left out: ");
    expect(&notes, "no engine is left for a convolution");
    assert_true(tune(f, "contracts", &convs[1], &notes) == 7);
    hrf_strbuf_release(&notes);
}

/* The same engine, built from the device's properties. */
static void a_library_that_refuses_its_handle_is_given_the_properties(void **state)
{
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tune(f, "refuses-handles", &convs[i], &notes),
                         tune(f, "", &convs[i], &notes));
        assert_null(strstr(notes.text, "could be built"));
    }
    assert_int_equal(tune(f, "refuses-handles", &convs[2], &notes), -1);
    hrf_strbuf_release(&notes);
}

/* Behind GELU and Swish, too, the quickest of those that round alike. */
static void int8_engines_before_a_formula_are_timed(void **state)
{
    static const enum hrf_activation activations[] = { HRF_ACT_GELU, HRF_ACT_GELU_TANH,
                                                       HRF_ACT_SWISH };
    static const enum hrf_dtype types[] = { HRF_F32, HRF_B16, HRF_F16 };
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    for (int i = 0; i < 9; i++) {
        struct hrf_cudnn_conv conv = convs[1];
        conv.x[1] = conv.w[1] = 64;
        conv.y[1] = conv.w[0] = 32;
        conv.out_type = types[i / 3];
        conv.activation.kind = activations[i % 3];
        assert_int_equal(tune(f, "lists-a=7+8,prefers=99", &conv, &notes), 8);
        if (tune(f, "lists-a=7+8,prefers=99,contracts=8", &conv, &notes) != 7)
            fail_msg("convolution %d: %s", i, notes.text);
        expect(&notes, "1 engines for INT8 were not timed");
    }
    hrf_strbuf_release(&notes);
}

static void the_first_of_another_engine_is_tried_too(void **state)
{
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    /* Small images are quicker by 8, which stands last, or in another of cuDNN's lists. */
    assert_int_equal(tune(f, "lists-a=7+7+7+7+7+8+8,prefers=1", &convs[0], &notes), 7);
    assert_int_equal(tune(f, "lists-a=7+7+7+7+7+8+8,prefers=99", &convs[0], &notes), 8);
    assert_int_equal(tune(f, "lists-a=7+7,lists-fall-back=7+8,prefers=99", &convs[0], &notes), 8);
    assert_int_equal(tune(f, "lists-a=7+7,lists-fall-back=7,prefers=99", &convs[0], &notes), 7);
    hrf_strbuf_release(&notes);
}

/* Of INT8's engines the quickest of those that round alike, whatever is quickest for a shape. */
static void int8_engines_that_round_otherwise_are_not_mixed(void **state)
{
    static const struct {
        const char *library;
        int64_t engine; /* of those 7 and 8; at this size 8 is the quicker one */
        int n_otherwise;
    } cases[] = { { "lists-a=7+8,prefers=99", 8, 0 },
                  { "lists-a=7+8,prefers=99,contracts=7", 8, 1 },
                  { "lists-a=7+8,prefers=99,contracts=8", 7, 1 },
                  { "lists-a=7+8,prefers=99,contracts", 8, 0 },
                  { "lists-a=7+8,prefers=99,nudges=8", 7, 1 },
                  { "lists-a=7+8,prefers=99,contracts=7,nudges=8", 7, 1 },
                  { "lists-a=8+7,prefers=99,nudges=8,contracts=7", 7, 1 },
                  { "lists-a=7+8,prefers=99,mixes=8", 8, 0 },
                  { "lists-a=7+8,prefers=99,mixes-scale=8", 7, 1 } };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    for (int i = 0; i < N_CASES * 6; i++) {
        struct hrf_cudnn_conv conv = convs[1];
        char said[64];
        conv.x[1] = conv.w[1] = i % 4 == 3 ? 64 : 4;
        conv.has_residual = i % 2 == 1;
        conv.residual_type = HRF_S8;
        conv.out_type = i % 3 == 2 ? HRF_F32 : HRF_S8;
        conv.activation.kind = i % 5 == 0 ? HRF_ACT_RELU : HRF_ACT_NONE;
        if (conv.out_type == HRF_F32 && strstr(cases[i / 6].library, "nudges") != NULL)
            continue; /* nothing is rounded to whole numbers */
        if (tune(f, cases[i / 6].library, &conv, &notes) != cases[i / 6].engine)
            fail_msg("convolution %d, %s: %s", i, cases[i / 6].library, notes.text);
        snprintf(said, sizeof said, "%d engines for INT8 were not timed", cases[i / 6].n_otherwise);
        assert_int_equal(strstr(notes.text, said) != NULL, cases[i / 6].n_otherwise > 0);
    }
    hrf_strbuf_release(&notes);
}

/* What cuDNN has for a strip rounds otherwise than all it has for the image: that is told. */
static void shapes_of_a_kind_that_are_rounded_in_two_ways_are_named(void **state)
{
    const struct fixture *f = *state;
    HRF_AUTO(hrf_plan_cache) cache = NULL;
    struct hrf_planned_conv planned;
    struct hrf_error err = { .text = "" };
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_cudnn_conv strip = convs[1];
    strip.x[2] = strip.y[2] = 5;
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", "", 1), 0);
    cache = hrf_plan_cache_create(NULL, f->device, f->cudnn, f->properties);
    must(hrf_plan_cache_get(cache, &convs[1], &planned, &err), &err);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", "contracts", 1), 0);
    must(hrf_plan_cache_get(cache, &strip, &planned, &err), &err);
    hrf_plan_cache_notes(cache, &notes);
    expect(&notes, "INT8 may differ by a step between layouts: a convolution is scale and bias "
                   "rounded once at 9 x 5 pixels and each step rounded at 9 x 9");
    hrf_strbuf_release(&notes);
}

/* What engines compute in one pass and in the right precision is what the trial says is right:
 * every type, with all that a convolution has before and after it, a second output too. */
static void engines_that_are_right_pass_their_trial(void **state)
{
    static const enum hrf_activation activations[] = { HRF_ACT_NONE,       HRF_ACT_RELU,
                                                       HRF_ACT_LEAKY_RELU, HRF_ACT_GELU,
                                                       HRF_ACT_GELU_TANH,  HRF_ACT_SWISH,
                                                       HRF_ACT_CLIP };
    static const enum hrf_dtype types[] = { HRF_F32, HRF_F16, HRF_B16, HRF_S8 };
    const struct fixture *f = *state;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    for (int i = 0; i < 56; i++) {
        struct hrf_cudnn_conv conv = convs[0];
        const bool is_int8 = types[i % 4] == HRF_S8;
        conv.type = conv.residual_type = conv.out_type = types[i % 4];
        conv.allow_tf32 = false;
        conv.x[0] = conv.y[0] = 3;
        conv.has_bias = i % 3 != 0;
        conv.has_residual = i % 5 < 3;
        conv.activation.kind = activations[i % (is_int8 ? 3 : 7)];
        conv.activation.slope = 0.25;
        conv.activation.low = -0.5;
        conv.activation.high = 3;
        conv.has_prologue = !is_int8 && i % 2 == 1;
        conv.before.kind = i % 3 == 0 ? HRF_ACT_RELU : HRF_ACT_NONE;
        if (i % 7 == 0) {
            conv.out_type = HRF_F32;
            conv.window.stride[0] = conv.window.stride[1] = 2;
            conv.y[2] = conv.y[3] = 5;
        }
        conv.has_second = conv.out_type == conv.type && i % 8 > 3;
        conv.after = conv.before;
        assert_int_equal(tune(f, "", &conv, &notes) >= 7, 1);
        if (strstr(notes.text, "left out") != NULL)
            fail_msg("convolution %d: %s", i, notes.text);
    }
    hrf_strbuf_release(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plans_are_built_by_several_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_engine_that_fails_at_run_time_is_not_chosen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_engine_whose_results_are_wrong_is_named_and_not_chosen,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(engines_that_are_right_pass_their_trial, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_library_that_refuses_its_handle_is_given_the_properties,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(int8_engines_before_a_formula_are_timed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_of_another_engine_is_tried_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(int8_engines_that_round_otherwise_are_not_mixed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(shapes_of_a_kind_that_are_rounded_in_two_ways_are_named,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_first_start_with_plans_made_beforehand_builds_none,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_of_another_driver_are_refused_by_name_and_built,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_that_cudnn_refuses_are_named_and_built, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_or_missing_file_of_a_set_is_built_anew, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
