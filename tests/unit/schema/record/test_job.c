/* Job specs, task results and the fence, through real files with the oddest names. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/record/job.h"
#include "schema/record/rank_record.h"
#include "schema/record/sentinel.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void write_text(const char *name, const char *text)
{
    assert_int_equal(hrf_file_write_atomic(file(name), text, strlen(text), NULL), HRF_OK);
}

static char run_id[] = "0123456789abcdef0123456789abcdef", job_id[] = "infer-0001";
static char *const odd_names[] = { (char[]){ "with space.svs" },
                                   (char[]){ "two\nlines" },
                                   (char[]){ "\"double\" and 'single' and \\" },
                                   (char[]){ "\xF0\x9F\x94\xAC \xC3\xA9" },
                                   (char[]){ "\xFF\xFE latin \xE9" },
                                   (char[]){ "\x01\x7F\t" },
                                   (char[]){ "../../etc/passwd" },
                                   (char[]){ "{\"base16\":\"41\"}" } };
enum { N_ODD = sizeof odd_names / sizeof odd_names[0] };

static struct hrf_job_spec infer_spec(struct hrf_job_task tasks[N_ODD], char ids[N_ODD][16])
{
    static char model[] = "/m/\xE9.onnx", sha[] = "abc", precision[] = "fp32", device[] = "cpu";
    static char plan[] = "/p", int8[] = "int8", scales[] = "/scales";
    static struct hrf_job_network networks[] = {
        { .precision = precision, .stain_jitter = 0.05, .jitter_seed = 7 },
        { .precision = int8, .scales = scales }
    };
    for (int i = 0; i < N_ODD; i++) {
        snprintf(ids[i], sizeof ids[i], "t%04d", i);
        tasks[i] = (struct hrf_job_task){ .id = ids[i],
                                          .identity = { "k", "fingerprint", "plan" },
                                          .slide_name = odd_names[i],
                                          .slide_path = odd_names[N_ODD - 1 - i],
                                          .mpp_override = 0.1 + 0.2,
                                          .tile_plan = plan,
                                          .first_patch = 1LL << 33,
                                          .n_patches = 7,
                                          .network = i % 2 };
    }
    return (struct hrf_job_spec){ .run_id = run_id,
                                  .job_id = job_id,
                                  .attempt = 3,
                                  .kind = HRF_JOB_INFER,
                                  .engine = { .model_file = model,
                                              .model_sha256 = sha,
                                              .n_classes = 2,
                                              .mean = { 0.485, 0.456, 0.406 },
                                              .std = { 0.229, 0.224, 0.225 },
                                              .device = device,
                                              .batch = 32,
                                              .memory_bytes = 8LL << 30,
                                              .n_threads = 2 },
                                  .networks = networks,
                                  .n_networks = 2,
                                  .tasks = tasks,
                                  .n_tasks = N_ODD };
}

static void an_infer_spec_comes_back_with_any_names(void **state)
{
    (void)state;
    struct hrf_job_task tasks[N_ODD];
    char ids[N_ODD][16];
    struct hrf_job_spec spec = infer_spec(tasks, ids), *back = NULL;
    assert_int_equal(hrf_job_spec_write(&spec, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, NULL), HRF_OK);
    assert_string_equal(back->run_id, run_id);
    assert_string_equal(back->job_id, job_id);
    assert_int_equal(back->attempt, 3);
    assert_int_equal(back->kind, HRF_JOB_INFER);
    assert_string_equal(back->engine.model_file, spec.engine.model_file);
    assert_memory_equal(back->engine.mean, spec.engine.mean, sizeof spec.engine.mean);
    assert_memory_equal(back->engine.std, spec.engine.std, sizeof spec.engine.std);
    assert_true(back->engine.memory_bytes == 8LL << 30 && back->engine.batch == 32 &&
                back->engine.n_threads == 2 && back->engine.n_classes == 2);
    assert_int_equal(back->n_networks, 2);
    assert_string_equal(back->networks[0].precision, "fp32");
    assert_null(back->networks[0].scales);
    assert_true(back->networks[0].stain_jitter == 0.05 && back->networks[0].jitter_seed == 7);
    assert_string_equal(hrf_job_network_name(&back->networks[0]), "jitter");
    assert_string_equal(hrf_job_network_name(&back->networks[1]), "int8");
    assert_string_equal(back->networks[1].scales, "/scales");
    assert_int_equal(back->n_tasks, N_ODD);
    for (int i = 0; i < N_ODD; i++) {
        assert_string_equal(back->tasks[i].id, ids[i]);
        assert_string_equal(back->tasks[i].slide_name, odd_names[i]);
        assert_string_equal(back->tasks[i].slide_path, odd_names[N_ODD - 1 - i]);
        assert_true(back->tasks[i].mpp_override == 0.1 + 0.2 &&
                    back->tasks[i].first_patch == 1LL << 33 && back->tasks[i].n_patches == 7);
        assert_int_equal(back->tasks[i].network, i % 2);
    }
    hrf_job_spec_destroy(back);
}

static void a_tile_spec_comes_back(void **state)
{
    (void)state;
    char mode[] = "patch", method[] = "otsu", model[] = "m.onnx", id[] = "t0001", name[] = "s";
    struct hrf_job_task task = { .id = id,
                                 .identity = { .task = "k" },
                                 .slide_name = name,
                                 .slide_path = name,
                                 .mpp_fallback = 0.25 };
    struct hrf_job_spec spec = { .run_id = run_id,
                                 .job_id = job_id,
                                 .attempt = 1,
                                 .kind = HRF_JOB_TILE,
                                 .tiler = { .mode = mode,
                                            .patch_size = 256,
                                            .patch_stride = 128,
                                            .patch_mpp = 0.5,
                                            .tissue_method = method,
                                            .tissue = { .model_file = model,
                                                        .model_sha256 = id,
                                                        .mpp = 8,
                                                        .threshold = 0.25,
                                                        .size = 224,
                                                        .class = -1,
                                                        .mean = { 0, 0.5, 1 },
                                                        .std = { 1, 2, 3 },
                                                        .n_threads = 2 },
                                            .min_tissue = 0.3,
                                            .min_patches = 16 },
                                 .tasks = &task,
                                 .n_tasks = 1 },
                        *back = NULL;
    assert_int_equal(hrf_job_spec_write(&spec, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, NULL), HRF_OK);
    assert_string_equal(back->tiler.mode, "patch");
    assert_string_equal(back->tiler.tissue_method, "otsu");
    assert_true(back->tiler.patch_size == 256 && back->tiler.patch_stride == 128 &&
                back->tiler.patch_mpp == 0.5 && back->tiler.min_tissue == 0.3 &&
                back->tiler.min_patches == 16);
    assert_null(back->tasks[0].tile_plan);
    assert_true(back->tasks[0].mpp_fallback == 0.25);
    const struct hrf_job_tissue *tissue = &back->tiler.tissue;
    assert_string_equal(tissue->model_file, model);
    assert_string_equal(tissue->model_sha256, id);
    assert_true(tissue->mpp == 8 && tissue->threshold == 0.25 && tissue->size == 224 &&
                tissue->class == -1 && tissue->n_threads == 2);
    assert_memory_equal(tissue->mean, spec.tiler.tissue.mean, sizeof tissue->mean);
    assert_memory_equal(tissue->std, spec.tiler.tissue.std, sizeof tissue->std);
    hrf_job_spec_destroy(back);
    spec.tiler.tissue.std[2] = 0;
    assert_int_equal(hrf_job_spec_write(&spec, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, NULL), HRF_E_USER);
}

#define ENGINE                                                                                     \
    "\"engine\":{\"model_file\":\"m\",\"model_sha256\":\"a\",\"n_classes\":2,\"mean\":[0,0,0],"    \
    "\"std\":[1,1,1],\"precision\":\"fp32\",\"device\":\"cpu\",\"batch\":1,\"memory_bytes\":0,"    \
    "\"n_threads\":0,\"scales\":null,\"class_map\":false,\"layout\":null}"
#define TASK(id, plan, first)                                                                      \
    "{\"id\":\"" id "\",\"key\":\"k\",\"slide_name\":\"s\",\"slide_path\":\"s\","                  \
    "\"mpp_override\":0,\"mpp_fallback\":0,\"tile_plan\":" plan ",\"first_patch\":" first ","      \
    "\"n_patches\":1}"
#define SPEC(version, job, kind, engine, task)                                                     \
    "{\"version\":" version ",\"run_id\":\"r\",\"job_id\":\"" job                                  \
    "\",\"attempt\":1,\"kind\":\"" kind "\"," engine ",\"tasks\":[" task "]}"

static void a_spec_that_cannot_be_used_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { SPEC("1", "j", "infer", ENGINE, TASK("t", "\"p\"", "0")), "" },
        { SPEC("3", "j", "infer", ENGINE, TASK("t", "\"p\"", "0")),
          "version 3 of the job's spec, this build reads 2" },
        { SPEC("2", "j", "infer", ENGINE, TASK("t", "\"p\"", "0")),
          "'networks' must be an array, it is missing" },
        { SPEC("2", "j", "infer", ENGINE ",\"networks\":[]", TASK("t", "\"p\"", "0")),
          "'networks' has 0, not 1 to 8" },
        { SPEC("2", "j", "infer", ENGINE ",\"networks\":[{\"precision\":\"fp32\",\"scales\":null}]",
               TASK("t", "\"p\",\"network\":1", "0")),
          "task t asks for network 1 of 1" },
        { SPEC("1", "j", "sleep", ENGINE, TASK("t", "\"p\"", "0")), "unknown kind 'sleep'" },
        { SPEC("1", "j", "tile", ENGINE, TASK("t", "\"p\"", "0")),
          "'tiler' must be an object, it is missing" },
        { SPEC("1", "j", "infer", ENGINE, TASK("t", "null", "0")), "'tile_plan' is null" },
        { SPEC("1", "j", "infer", ENGINE, TASK("../t", "\"p\"", "0")),
          "'../t' cannot be an id: 1 to 63 letters, digits, '_' and '-'" },
        { SPEC("1", "j", "infer", ENGINE, TASK("", "\"p\"", "0")),
          "'' cannot be an id: 1 to 63 letters, digits, '_' and '-'" },
        { SPEC("1", "a/b", "infer", ENGINE, TASK("t", "\"p\"", "0")),
          "'a/b' cannot be an id: 1 to 63 letters, digits, '_' and '-'" },
        { SPEC("1", "j", "infer", ENGINE, TASK("t", "\"p\"", "-5")),
          "task t: patches -5 and on, 1 of them" },
        { SPEC("1", "j", "infer", "\"engine\":3", TASK("t", "\"p\"", "0")),
          "'engine' must be an object, it is an integer" },
        { SPEC("1", "j", "infer", ENGINE, "3"), "'id' must be a string, it is missing" },
        { "[]", "'version' must be an integer, it is missing" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_job_spec *back = NULL;
        struct hrf_error err = { .status = HRF_OK };
        write_text("spec.json", cases[i].text);
        enum hrf_status status = hrf_job_spec_read(file("spec.json"), &back, &err);
        assert_int_equal(status, cases[i].expected[0] == '\0' ? HRF_OK : HRF_E_USER);
        if (status != HRF_OK)
            assert_string_equal(err.text + strlen(file("spec.json")) + 2, cases[i].expected);
        hrf_job_spec_destroy(back);
    }
}

/* The one digit that changes keeps it a good spec but for its checksum. */
static void a_spec_that_changed_or_is_gone_is_to_be_written_again(void **state)
{
    (void)state;
    struct hrf_job_task tasks[N_ODD];
    char ids[N_ODD][16];
    struct hrf_job_spec spec = infer_spec(tasks, ids), *back = NULL;
    struct hrf_error err = { .status = HRF_OK };
    char *text = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_job_spec_write(&spec, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_file_read(file("spec.json"), 1 << 20, &text, &n_bytes, NULL), HRF_OK);
    char *digit = strstr(text, "\"n_patches\": ");
    assert_non_null(digit);
    digit += strlen("\"n_patches\": ");
    *digit = *digit == '9' ? '8' : (char)(*digit + 1);
    write_text("spec.json", text);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, &err), HRF_E_AGAIN);
    assert_non_null(strstr(err.text, "spec.json' is damaged: its checksum is"));
    assert_non_null(strstr(err.text, "the job is submitted again with a new one"));
    text[n_bytes / 2] = '\0';
    write_text("spec.json", text);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, &err), HRF_E_AGAIN);
    assert_int_equal(unlink(file("spec.json")), 0);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, &err), HRF_E_AGAIN);
    hrf_free(text);
}

static void reading_a_spec_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct hrf_job_task tasks[N_ODD];
    char ids[N_ODD][16];
    struct hrf_job_spec spec = infer_spec(tasks, ids), *back = NULL;
    assert_int_equal(hrf_job_spec_write(&spec, file("spec.json"), NULL), HRF_OK);
    enum hrf_status status = HRF_E_NOMEM;
    for (int64_t n = 1; status != HRF_OK; n++) {
        hrf_alloc_fail_after(n);
        status = hrf_job_spec_read(file("spec.json"), &back, NULL);
        assert_true(status == HRF_OK || (status == HRF_E_NOMEM && back == NULL));
    }
    hrf_alloc_fail_after(0);
    assert_string_equal(back->tasks[4].slide_name, odd_names[4]);
    hrf_job_spec_destroy(back);
}

/* Texts are cut where a message is cut: in the middle of a character, whose bytes are then written
 * as three each. */
static void the_longest_reason_of_a_rank_is_read_whatever_it_holds(void **state)
{
    (void)state;
    struct hrf_rank_record r = { .rank = 3, .n_ranks = 4, .state = HRF_RANK_FAILED }, back;
    memset(r.reason, 0xc3, sizeof r.reason - 1);
    memset(r.host, 'h', sizeof r.host - 1);
    assert_int_equal(hrf_rank_write(directory, &r, NULL), HRF_OK);
    assert_int_equal(hrf_rank_read(directory, 3, &back, NULL), HRF_OK);
    assert_int_equal(back.state, HRF_RANK_FAILED);
    assert_string_equal(back.host, r.host);
    assert_int_equal(strlen(back.reason), sizeof back.reason - 1);
    assert_int_equal(unlink(file("rank-0003.json")), 0);
}

/* A sum over some of the ranks would pass for that of the job. */
static void processor_time_is_of_all_ranks_or_not_known(void **state)
{
    (void)state;
    int64_t cpu_ms = 1, peak_bytes = 1;
    struct hrf_rank_record r = { .rank = 0, .n_ranks = 2, .cpu_ms = 1500, .peak_bytes = 7000 };
    assert_int_equal(hrf_rank_write(directory, &r, NULL), HRF_OK);
    hrf_rank_sum_usage(directory, 2, &cpu_ms, &peak_bytes);
    assert_true(cpu_ms == 0 && peak_bytes == 0);
    r = (struct hrf_rank_record){ .rank = 1, .n_ranks = 2, .cpu_ms = 500, .peak_bytes = 9000 };
    assert_int_equal(hrf_rank_write(directory, &r, NULL), HRF_OK);
    hrf_rank_sum_usage(directory, 2, &cpu_ms, &peak_bytes);
    assert_true(cpu_ms == 2000 && peak_bytes == 9000);
    r.cpu_ms = 0; /* it was killed */
    assert_int_equal(hrf_rank_write(directory, &r, NULL), HRF_OK);
    hrf_rank_sum_usage(directory, 2, &cpu_ms, &peak_bytes);
    assert_int_equal(cpu_ms, 0);
    assert_int_equal(unlink(file("rank-0000.json")), 0);
    assert_int_equal(unlink(file("rank-0001.json")), 0);
}

static void a_committed_task_is_collected(void **state)
{
    (void)state;
    static const char record[] = "some\0bytes";
    char id[] = "t0001";
    const struct hrf_job_task task = { .id = id, .identity = { "key", "slide", "plan" } };
    struct hrf_task_status status = { .outcome = HRF_TASK_DONE, .seconds = 1.5 }, back;
    char *bytes = NULL;
    size_t n = 0;
    struct hrf_error err;
    assert_int_equal(hrf_task_collect(directory, "t0001", &back, &bytes, &n, &err), HRF_E_AGAIN);
    assert_string_equal(err.text, "task t0001 has not ended");
    assert_int_equal(hrf_task_commit(directory, &task, record, sizeof record, &status, NULL),
                     HRF_OK);
    assert_int_equal(hrf_task_collect(directory, "t0001", &back, &bytes, &n, NULL), HRF_OK);
    assert_int_equal(back.outcome, HRF_TASK_DONE);
    assert_int_equal(back.record_bytes, sizeof record);
    assert_string_equal(back.record_sha256, status.record_sha256);
    assert_string_equal(back.task_key, "key");
    assert_true(back.seconds == 1.5 && back.reason == NULL);
    assert_int_equal(n, sizeof record);
    assert_memory_equal(bytes, record, sizeof record);
    hrf_free(bytes);
    hrf_task_status_release(&back);
}

static void a_failed_task_keeps_its_reason_whatever_it_holds(void **state)
{
    (void)state;
    char id[] = "t2";
    const struct hrf_job_task task = { .id = id, .identity = { .task = "key" } };
    char reason[] = "cannot read 'a\nb\xFF.svs': \"TIFF\" error";
    struct hrf_task_status status = { .outcome = HRF_TASK_FAILED,
                                      .retryable = true,
                                      .reason = reason },
                           back;
    char *bytes = NULL;
    size_t n = 1;
    assert_int_equal(hrf_task_commit(directory, &task, NULL, 0, &status, NULL), HRF_OK);
    assert_int_equal(hrf_task_collect(directory, "t2", &back, &bytes, &n, NULL), HRF_OK);
    assert_int_equal(back.outcome, HRF_TASK_FAILED);
    assert_true(back.retryable);
    assert_string_equal(back.reason, reason);
    assert_null(bytes);
    assert_int_equal(n, 0);
    hrf_task_status_release(&back);
}

static void a_record_that_is_not_the_committed_one_is_refused(void **state)
{
    (void)state;
    char id[] = "t3";
    const struct hrf_job_task task = { .id = id, .identity = { .task = "key" } };
    struct hrf_task_status status = { .outcome = HRF_TASK_DONE }, back;
    char *bytes = NULL;
    size_t n = 0;
    struct hrf_error err;
    assert_int_equal(hrf_task_commit(directory, &task, "abc", 3, &status, NULL), HRF_OK);
    write_text("t3.rec", "abd");
    assert_int_equal(hrf_task_collect(directory, "t3", &back, &bytes, &n, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "t3.rec' is not what its status names (3 bytes, "));
    write_text("t3.rec", "ab");
    assert_int_equal(hrf_task_collect(directory, "t3", &back, &bytes, &n, &err), HRF_E_USER);
    assert_int_equal(unlink(file("t3.rec")), 0);
    assert_int_not_equal(hrf_task_collect(directory, "t3", &back, &bytes, &n, &err), HRF_OK);
    write_text("t3.json", "{\"version\":1,");
    assert_int_equal(hrf_task_collect(directory, "t3", &back, &bytes, &n, &err), HRF_E_USER);
}

static void a_revoked_attempt_commits_nothing(void **state)
{
    (void)state;
    char id[] = "t4";
    const struct hrf_job_task task = { .id = id, .identity = { .task = "key" } };
    struct hrf_task_status status = { .outcome = HRF_TASK_DONE };
    struct hrf_error err;
    assert_false(hrf_fence_is_set(directory));
    assert_int_equal(hrf_fence_set(directory, NULL), HRF_OK);
    assert_int_equal(hrf_fence_set(directory, NULL), HRF_OK);
    assert_true(hrf_fence_is_set(directory));
    assert_int_equal(hrf_task_commit(directory, &task, "abc", 3, &status, &err), HRF_E_AGAIN);
    assert_non_null(strstr(err.text, "this attempt was given up"));
    assert_false(hrf_path_exists(file("t4.json")));
    assert_int_equal(unlink(file(HRF_FENCE_NAME)), 0);
}

static void progress_is_read_as_it_was_last_written(void **state)
{
    (void)state;
    int64_t done = -1, total = -1;
    assert_false(hrf_task_progress_read(directory, "t5", &done, &total));
    hrf_task_progress_write(directory, "t5", 19999, 20000);
    hrf_task_progress_write(directory, "t5", 7, 20);
    assert_true(hrf_task_progress_read(directory, "t5", &done, &total));
    assert_true(done == 7 && total == 20);
    write_text("t5.progress", "nonsense");
    assert_false(hrf_task_progress_read(directory, "t5", &done, &total));
}

/* Over all sizes of slides: no more batches than whole ones would be, none larger, and of a slide
 * whose last batch is the only one that is not full less is computed in vain. */
static void batches_of_a_slide_are_even_and_as_few_as_before(void **state)
{
    (void)state;
    static const int64_t most[] = { 1, 3, 7, 8, 32, 100, 65536 };
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++)
        for (int64_t n = 0; n < 20 * most[i] && n < 5000; n++) {
            const int64_t batch = hrf_job_batch(most[i], n), step = most[i] < 8 ? 1 : most[i] / 8;
            const int64_t before = (n + most[i] - 1) / most[i], now = (n + batch - 1) / batch;
            assert_true(batch >= 1 && batch <= most[i]);
            assert_true(batch % step == 0 || batch == most[i]);
            assert_true(now == before);
            assert_true(now * batch - n < now * step + now || batch == most[i]);
        }
    assert_int_equal(hrf_job_batch(32, 0), 32);
    assert_int_equal(hrf_job_batch(32, 2), 4);
    assert_int_equal(hrf_job_batch(32, 33), 20);
    assert_int_equal(hrf_job_batch(32, 2352), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_infer_spec_comes_back_with_any_names),
        cmocka_unit_test(a_tile_spec_comes_back),
        cmocka_unit_test(a_spec_that_cannot_be_used_is_refused_by_name),
        cmocka_unit_test(a_spec_that_changed_or_is_gone_is_to_be_written_again),
        cmocka_unit_test(reading_a_spec_survives_every_failed_allocation),
        cmocka_unit_test(the_longest_reason_of_a_rank_is_read_whatever_it_holds),
        cmocka_unit_test(processor_time_is_of_all_ranks_or_not_known),
        cmocka_unit_test(a_committed_task_is_collected),
        cmocka_unit_test(a_failed_task_keeps_its_reason_whatever_it_holds),
        cmocka_unit_test(a_record_that_is_not_the_committed_one_is_refused),
        cmocka_unit_test(a_revoked_attempt_commits_nothing),
        cmocka_unit_test(progress_is_read_as_it_was_last_written),
        cmocka_unit_test(batches_of_a_slide_are_even_and_as_few_as_before),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
