/* The worker of an infer job, with a tiny model on a small slide: which patch gets which score,
 * what an earlier attempt left, how often a tile plan is decoded, and what is refused in which
 * words. */
#include "engine/worker/worker.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "engine/onnx/onnx.h"
#include "tests/unit/settings.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATCH = 32, SIDE = 8, N_PATCHES = SIDE * SIDE, N_TASKS = 2, BATCH = 4, N_CLASSES = 2 };
enum { N_TASK = N_PATCHES / N_TASKS }; /* patches of a task */

static char slide_path[128], plan_path[128], model_path[128], spec_path[128];
static int n_decoded;
static atomic_int n_read; /* patches */

enum hrf_status __real_hrf_tile_plan_decode(const void *bytes, size_t n_bytes,
                                            const struct hrf_record_identity *expected,
                                            const char *where, struct hrf_tile_plan **out,
                                            struct hrf_error *err);
enum hrf_status __wrap_hrf_tile_plan_decode(const void *bytes, size_t n_bytes,
                                            const struct hrf_record_identity *expected,
                                            const char *where, struct hrf_tile_plan **out,
                                            struct hrf_error *err);
enum hrf_status __wrap_hrf_tile_plan_decode(const void *bytes, size_t n_bytes,
                                            const struct hrf_record_identity *expected,
                                            const char *where, struct hrf_tile_plan **out,
                                            struct hrf_error *err)
{
    n_decoded++;
    return __real_hrf_tile_plan_decode(bytes, n_bytes, expected, where, out, err);
}

enum hrf_status __real_hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x, int64_t y,
                                              int64_t first_row, int64_t n_rows,
                                              hrf_take_rows *take, void *context,
                                              int64_t *decode_ns, struct hrf_error *err);
enum hrf_status __wrap_hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x, int64_t y,
                                              int64_t first_row, int64_t n_rows,
                                              hrf_take_rows *take, void *context,
                                              int64_t *decode_ns, struct hrf_error *err);
enum hrf_status __wrap_hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x, int64_t y,
                                              int64_t first_row, int64_t n_rows,
                                              hrf_take_rows *take, void *context,
                                              int64_t *decode_ns, struct hrf_error *err)
{
    atomic_fetch_add(&n_read, 1);
    return __real_hrf_patch_reader_visit(reader, x, y, first_row, n_rows, take, context, decode_ns,
                                         err);
}

static int red_of(int patch) /* patches are ordered x outer, y fastest */
{
    return 3 * patch + 10;
}

static void patch_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    (void)context;
    (void)level;
    rgba[0] = (unsigned char)red_of((int)(x / PATCH * SIDE + y / PATCH));
    rgba[1] = rgba[2] = 0;
}

static float expected_score(int patch)
{
    return (float)(1 / (1 + exp(1 - 4 * red_of(patch) / 255.0)));
}

/* Global average pooling and one linear layer: class 1 gets 4 * red - 1 + `bias`, class 0 gets 0.
 * With a bias of NaN, which no file may hold, class 0 gets -1, and a square root follows. */
static void write_model(float bias)
{
    static const struct hrf_shape open = { .rank = -1 };
    const struct hrf_shape image = { 4, { 1, 3, PATCH, PATCH } }, matrix = { 2, { N_CLASSES, 3 } },
                           vector = { 1, { N_CLASSES } };
    const float weights[] = { 0, 0, 0, 4, 0, 0 },
                biases[] = { isnan(bias) ? -1 : 0, isnan(bias) ? 0 : bias - 1 };
    struct hrf_attributes flatten = hrf_attributes_default(), plain = flatten, gemm = flatten;
    HRF_AUTO(hrf_graph) g = NULL;
    int32_t x, w, b, pooled, flat, y;
    flatten.axis = 1;
    gemm.gemm.transpose_b = true;
    assert_int_equal(hrf_graph_create("tiny", &g, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "x", HRF_F32, &image, NULL, &x, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "w", HRF_F32, &matrix, weights, &w, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "b", HRF_F32, &vector, biases, &b, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "p", HRF_F32, &open, NULL, &pooled, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "f", HRF_F32, &open, NULL, &flat, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "y", HRF_F32, &open, NULL, &y, NULL), HRF_OK);
    const int32_t of_gemm[] = { flat, w, b };
    assert_int_equal(
        hrf_graph_add_node(g, HRF_OP_GLOBAL_AVERAGE_POOL, "pool", &x, 1, &pooled, 1, &plain, NULL),
        HRF_OK);
    assert_int_equal(
        hrf_graph_add_node(g, HRF_OP_FLATTEN, "flatten", &pooled, 1, &flat, 1, &flatten, NULL),
        HRF_OK);
    assert_int_equal(hrf_graph_add_node(g, HRF_OP_GEMM, "gemm", of_gemm, 3, &y, 1, &gemm, NULL),
                     HRF_OK);
    if (isnan(bias)) {
        const int32_t in = y;
        assert_int_equal(hrf_graph_add_value(g, "root", HRF_F32, &open, NULL, &y, NULL), HRF_OK);
        assert_int_equal(hrf_graph_add_node(g, HRF_OP_SQRT, "sqrt", &in, 1, &y, 1, &plain, NULL),
                         HRF_OK);
    }
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_int_equal(hrf_onnx_write(g, model_path, NULL), HRF_OK);
}

static struct hrf_record_identity identity = { .task = "task" }; /* the rest: write_plan() */

static void write_plan(int64_t width)
{
    static struct hrf_patch patches[N_PATCHES];
    static char empty[1] = "";
    for (int i = 0; i < N_PATCHES; i++)
        patches[i] = (struct hrf_patch){ i / SIDE * PATCH, i % SIDE * PATCH };
    struct hrf_tile_plan plan = { .identity = { .task = "" },
                                  .slide_path = slide_path,
                                  .vendor = empty,
                                  .width = width,
                                  .height = SIDE * PATCH,
                                  .n_levels = 1,
                                  .mpp_x = 0.5,
                                  .mpp_y = 0.5,
                                  .mpp_source = empty,
                                  .patch_size = PATCH,
                                  .patch_mpp = 0.5,
                                  .patch_stride = PATCH,
                                  .patch_width0 = PATCH,
                                  .patch_height0 = PATCH,
                                  .stride_x0 = PATCH,
                                  .stride_y0 = PATCH,
                                  .grid_columns = SIDE,
                                  .grid_rows = SIDE,
                                  .read_downsample = 1,
                                  .tissue_method = empty,
                                  .n_patches = N_PATCHES,
                                  .patches = patches,
                                  .thumbnail_downsample = 1 };
    struct hrf_bytes record = { NULL, 0 };
    assert_int_equal(hrf_tile_plan_seal(&plan, NULL), HRF_OK);
    assert_int_equal(hrf_slide_content(slide_path, HRF_CONTENT_SPREAD, identity.slide, NULL),
                     HRF_OK);
    memcpy(plan.identity.slide, identity.slide, sizeof identity.slide);
    snprintf(identity.plan, sizeof identity.plan, "%s", plan.hash);
    snprintf(plan.identity.plan, sizeof plan.identity.plan, "%s", plan.hash);
    assert_int_equal(hrf_tile_plan_encode(&plan, &record, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(plan_path, record.data, record.n_bytes, NULL), HRF_OK);
    hrf_bytes_release(&record);
}

static int make_folder(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1,
                         .level = { { SIDE * PATCH, SIDE * PATCH } },
                         .pixel = patch_pixel };
    pyramid_folder(test_folder);
    pyramid_path(test_folder, "slide.tif", slide_path);
    pyramid_path(test_folder, "plan.rec", plan_path);
    pyramid_path(test_folder, "model.onnx", model_path);
    pyramid_path(test_folder, "spec.json", spec_path);
    pyramid_write(&p, slide_path);
    return 0;
}

static int write_inputs(void **state)
{
    (void)state;
    write_model(0);
    write_plan(SIDE * PATCH);
    n_decoded = 0;
    atomic_store(&n_read, 0);
    return 0;
}

static int remove_records(void **state)
{
    (void)state;
    static const char *const names[] = { "t0.rec", "t0.json", "t0.part", "t1.rec", "t1.json",
                                         "t2.rec", "t2.json", "t3.rec",  "t3.json" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        pyramid_path(test_folder, names[i], path);
        unlink(path);
    }
    return 0;
}

/* The networks of a job, its memory, and for each network what an earlier attempt left of the first
 * shard. */
struct networks {
    struct hrf_job_network items[2];
    char *parts[2];
    size_t n;
    int64_t memory_bytes;
};

/* Patches in a batch: that jobs ask for, and that the last job ended with. */
static int64_t asked_batch = BATCH, used_batch;

/* Runs the job of two shards in every network; `shift` is added to the first patch of the second.
 */
static enum hrf_status run_networks(struct networks *networks, int64_t shift, struct hrf_error *err)
{
    static char run_id[] = "00000000000000000000000000000000", job_id[] = "j0",
                sha256[HRF_HASH_HEX];
    static char ids[][3] = { "t0", "t1", "t2", "t3" }, name[] = "slide";
    struct hrf_job_task tasks[2 * N_TASKS];
    const int n = (int)networks->n;
    struct hrf_worker worker = { .spec = NULL };
    assert_int_equal(hrf_hash_file(model_path, sha256, NULL), HRF_OK);
    for (int i = 0; i < N_TASKS * n; i++)
        tasks[i] = (struct hrf_job_task){ .id = ids[i],
                                          .network = i % n,
                                          .identity = identity,
                                          .slide_name = name,
                                          .slide_path = slide_path,
                                          .partial = i < n ? networks->parts[i] : NULL,
                                          .tile_plan = plan_path,
                                          .first_patch = i / n * N_TASK + (i / n > 0 ? shift : 0),
                                          .n_patches = N_TASK };
    const struct hrf_job_spec spec = { .run_id = run_id,
                                       .job_id = job_id,
                                       .attempt = 1,
                                       .kind = HRF_JOB_INFER,
                                       .model_sha256 = sha256,
                                       .n_threads = 2,
                                       .n_ranks = 1,
                                       .networks = networks->items,
                                       .n_networks = networks->n,
                                       .tasks = tasks,
                                       .n_tasks = (size_t)(N_TASKS * n) };
    HRF_AUTO(hrf_workflow) settings = default_settings();
    set_text(&settings->model.file, model_path);
    for (int i = 0; i < 3; i++) {
        settings->model.input.mean[i] = 0;
        settings->model.input.std[i] = 1;
    }
    settings->engine.device = HRF_DEVICE_CPU;
    settings->engine.batch = asked_batch;
    settings->engine.memory_bytes = networks->memory_bytes;
    assert_int_equal(hrf_job_spec_write(&spec, settings, spec_path, NULL), HRF_OK);
    const enum hrf_status status = hrf_worker_run_job(&worker, spec_path, HRF_JOB_INFER, err);
    used_batch = worker.batch;
    hrf_worker_release(&worker);
    return status;
}

static enum hrf_status run_job(char *partial, int64_t shift, struct hrf_error *err)
{
    struct networks one = { .items = { { .precision = HRF_FP32 } },
                            .parts = { partial },
                            .n = 1,
                            .memory_bytes = 1 << 30 };
    return run_networks(&one, shift, err);
}

static void expect_scores(const char *id, int first, const bool given[N_TASK])
{
    struct hrf_task_status outcome;
    HRF_AUTO_FREE char *record = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    size_t n_bytes;
    struct hrf_error err = { .text = "" };
    assert_int_equal(hrf_task_collect(test_folder, id, &outcome, &record, &n_bytes, &err), HRF_OK);
    if (outcome.outcome != HRF_TASK_DONE)
        fail_msg("%s", outcome.failure.error.text);
    hrf_task_status_release(&outcome);
    assert_int_equal(hrf_scores_decode(record, n_bytes, &identity, id, &scores, NULL), HRF_OK);
    assert_int_equal(scores->n_patches, N_TASK);
    for (int i = 0; i < N_TASK; i++) {
        const float p = scores->probabilities[i * N_CLASSES + 1];
        const float wanted = given != NULL && given[i] ? 0.25f : expected_score(first + i);
        const float limit = scores->precision == HRF_FP32 ? 1e-5f : 0.02f;
        if (!(fabsf(p - wanted) < limit))
            fail_msg("patch %d has the score %g, not %g", first + i, (double)p, (double)wanted);
    }
}

static void expect_failed(const char *id, const char *reason)
{
    struct hrf_task_status outcome;
    char *record = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_task_collect(test_folder, id, &outcome, &record, &n_bytes, NULL), HRF_OK);
    assert_int_equal(outcome.outcome, HRF_TASK_FAILED);
    if (strstr(outcome.failure.error.text, reason) == NULL)
        fail_msg("'%s' does not hold '%s'", outcome.failure.error.text, reason);
    hrf_free(record);
    hrf_task_status_release(&outcome);
}

static void every_patch_gets_its_own_score(void **state)
{
    (void)state;
    struct hrf_error err = { .text = "" };
    if (run_job(NULL, 0, &err) != HRF_OK)
        fail_msg("%s", err.text);
    expect_scores("t0", 0, NULL);
    expect_scores("t1", N_TASK, NULL);
    assert_int_equal(n_decoded, 1); /* both tasks are of one tile plan */
}

/* 64 patches are two batches of at most 40: of 32, rounded up to an eighth of 40. */
static void batches_are_as_even_as_the_whole_slide_allows(void **state)
{
    (void)state;
    struct hrf_error err = { .text = "" };
    asked_batch = 40;
    const enum hrf_status status = run_job(NULL, 0, &err);
    asked_batch = BATCH;
    if (status != HRF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(used_batch, 35);
    expect_scores("t0", 0, NULL);
    expect_scores("t1", N_TASK, NULL);
}

/* A part: 0.75 and 0.25 for the patches of two batches and for one patch of a third, else NaN. */
static char *write_part(bool given[N_TASK])
{
    static char part_path[128], cpu[] = "cpu", host[] = "host";
    float p[N_TASK * N_CLASSES];
    int64_t order[N_TASK];
    char *bytes = NULL;
    size_t n_bytes;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    struct hrf_bytes record = { NULL, 0 };
    assert_int_equal(hrf_file_read(plan_path, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
    assert_int_equal(__real_hrf_tile_plan_decode(bytes, n_bytes, NULL, "plan", &plan, NULL),
                     HRF_OK);
    hrf_free(bytes);
    hrf_feed_order(plan, 0, N_TASK, order);
    for (int i = 0; i < N_TASK * N_CLASSES; i++)
        p[i] = NAN;
    for (int k = 0; k < 2 * BATCH + 1; k++) {
        p[order[k] * N_CLASSES] = 0.75f;
        p[order[k] * N_CLASSES + 1] = 0.25f;
        given[order[k]] = k < 2 * BATCH;
    }
    const struct hrf_scores part = { .identity = identity,
                                     .precision = HRF_FP32,
                                     .device = cpu,
                                     .host = host,
                                     .decoder = "cpu",
                                     .n_patches = N_TASK,
                                     .n_classes = N_CLASSES,
                                     .probabilities = p };
    pyramid_path(test_folder, "t0.part", part_path);
    assert_int_equal(hrf_scores_encode(&part, &record, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(part_path, record.data, record.n_bytes, NULL), HRF_OK);
    hrf_bytes_release(&record);
    return part_path;
}

static void whole_batches_of_an_earlier_attempt_are_not_scored_again(void **state)
{
    (void)state;
    bool given[N_TASK] = { false };
    struct hrf_error err = { .text = "" };
    if (run_job(write_part(given), 0, &err) != HRF_OK)
        fail_msg("%s", err.text);
    expect_scores("t0", 0, given);
    expect_scores("t1", N_TASK, NULL);
}

static void a_damaged_part_is_not_used(void **state)
{
    (void)state;
    bool given[N_TASK] = { false };
    char *path = write_part(given), *bytes = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_file_read(path, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, bytes, n_bytes / 2, NULL), HRF_OK);
    hrf_free(bytes);
    assert_int_equal(run_job(path, 0, NULL), HRF_OK);
    expect_scores("t0", 0, NULL);
}

static void a_number_that_is_no_probability_fails_its_task_by_name(void **state)
{
    (void)state;
    struct hrf_error err = { .text = "" };
    write_model(NAN);
    if (run_job(NULL, 0, &err) != HRF_OK)
        fail_msg("%s", err.text);
    expect_failed("t1", "the model gives patch 32 the probability NaN of class 0 in fp32; does it "
                        "end in softmax or sigmoid");
}

static void patches_beyond_the_tile_plan_are_refused(void **state)
{
    (void)state;
    assert_int_equal(run_job(NULL, 1, NULL), HRF_OK);
    expect_scores("t0", 0, NULL);
    expect_failed("t1", "task t1 asks for patches 33..65 of a tile plan that has 64");
}

static void a_slide_that_is_not_the_one_that_was_tiled_is_refused(void **state)
{
    (void)state;
    write_plan(SIDE * PATCH + 1);
    assert_int_equal(run_job(NULL, 0, NULL), HRF_OK);
    expect_failed("t0", "is not the file that was tiled (257 x 256 px then, 256 x 256 now)");
    write_plan(SIDE * PATCH);
    const int64_t n_bytes = hrf_path_size(slide_path);
    assert_int_equal(truncate(slide_path, n_bytes + 1), 0); /* of the same pixels even */
    assert_int_equal(run_job(NULL, 0, NULL), HRF_OK);
    expect_failed("t0", "is not the file that the run has listed");
    assert_int_equal(truncate(slide_path, n_bytes), 0);
}

static void a_job_of_another_kind_is_refused(void **state)
{
    (void)state;
    struct hrf_worker worker = { .spec = NULL };
    struct hrf_error err = { .text = "" };
    assert_int_equal(run_job(NULL, 0, NULL), HRF_OK); /* for its spec */
    assert_int_equal(hrf_worker_run_job(&worker, spec_path, HRF_JOB_CALIBRATE, &err), HRF_E_USER);
    hrf_worker_release(&worker);
    assert_non_null(strstr(err.text, "is the spec of a job of kind 'infer', not 'calibrate'"));
}

static void a_model_that_has_changed_is_refused(void **state)
{
    (void)state;
    struct hrf_worker worker = { .spec = NULL };
    struct hrf_error err = { .text = "" };
    assert_int_equal(run_job(NULL, 0, NULL), HRF_OK);
    write_model(1);
    assert_int_equal(hrf_worker_run_job(&worker, spec_path, HRF_JOB_INFER, &err), HRF_E_USER);
    hrf_worker_release(&worker);
    assert_non_null(strstr(err.text, "has changed since the run planned with it"));
}

static struct networks two(enum hrf_precision precision, char *scales, int64_t memory_bytes)
{
    return (struct networks){ .items = { { .precision = HRF_FP32 }, { precision, scales } },
                              .n = 2,
                              .memory_bytes = memory_bytes };
}

static void expect_all_scores(void)
{
    for (int i = 0; i < 2 * N_TASKS; i++) {
        const char id[3] = { 't', (char)('0' + i), '\0' };
        expect_scores(id, i / 2 * N_TASK, NULL);
    }
}

static int64_t peak_bytes(const char *id, int n_sharing)
{
    struct hrf_task_status outcome;
    HRF_AUTO_FREE char *record = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_task_collect(test_folder, id, &outcome, &record, &n_bytes, NULL), HRF_OK);
    hrf_task_status_release(&outcome);
    assert_int_equal(hrf_scores_decode(record, n_bytes, &identity, id, &scores, NULL), HRF_OK);
    assert_true(scores->timing.reads * n_sharing == N_TASK);
    return scores->peak_memory_bytes;
}

/* Every patch is read once while both networks fit into the memory together, and once more when
 * they do not. */
static void a_patch_is_read_once_for_all_networks_that_fit(void **state)
{
    (void)state;
    struct networks networks = two(HRF_BF16, NULL, 1 << 30);
    struct hrf_error err = { .text = "" };
    if (run_networks(&networks, 0, &err) != HRF_OK)
        fail_msg("%s", err.text);
    expect_all_scores();
    assert_int_equal(atomic_load(&n_read), N_PATCHES);
    networks.memory_bytes = peak_bytes("t0", 2) + peak_bytes("t1", 2);
    atomic_store(&n_read, 0);
    if (run_networks(&networks, 0, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(atomic_load(&n_read), N_PATCHES);
    networks.memory_bytes--;
    remove_records(NULL);
    atomic_store(&n_read, 0);
    assert_int_equal(run_networks(&networks, 0, NULL), HRF_OK);
    expect_all_scores();
    (void)peak_bytes("t3", 1);
    assert_int_equal(atomic_load(&n_read), 2 * N_PATCHES);
}

static void a_network_that_cannot_be_made_fails_alone(void **state)
{
    (void)state;
    static char nowhere[] = "/nowhere/scales";
    struct networks networks = two(HRF_INT8, nowhere, 1 << 30);
    assert_int_equal(run_networks(&networks, 0, NULL), HRF_OK);
    expect_scores("t0", 0, NULL);
    expect_failed("t1", "/nowhere/scales");
    expect_scores("t2", N_TASK, NULL);
    expect_failed("t3", "/nowhere/scales");
}

/* What one network has scored is not lost when the other has nothing: it takes part again, and both
 * are right. */
static void parts_of_all_networks_are_taken_over(void **state)
{
    (void)state;
    bool given[N_TASK] = { false };
    struct networks networks = two(HRF_BF16, NULL, 1 << 30);
    networks.parts[0] = networks.parts[1] = write_part(given);
    assert_int_equal(run_networks(&networks, 0, NULL), HRF_OK);
    expect_scores("t0", 0, given);
    expect_scores("t1", 0, given);
    assert_int_equal(atomic_load(&n_read), N_PATCHES - 2 * BATCH);
    networks.parts[1] = NULL;
    assert_int_equal(run_networks(&networks, 0, NULL), HRF_OK);
    expect_scores("t0", 0, NULL);
    expect_scores("t1", 0, NULL);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, write_inputs, remove_records)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(every_patch_gets_its_own_score),
        ROW(batches_are_as_even_as_the_whole_slide_allows),
        ROW(whole_batches_of_an_earlier_attempt_are_not_scored_again),
        ROW(a_damaged_part_is_not_used),
        ROW(a_number_that_is_no_probability_fails_its_task_by_name),
        ROW(patches_beyond_the_tile_plan_are_refused),
        ROW(a_slide_that_is_not_the_one_that_was_tiled_is_refused),
        ROW(a_patch_is_read_once_for_all_networks_that_fit),
        ROW(a_network_that_cannot_be_made_fails_alone),
        ROW(parts_of_all_networks_are_taken_over),
        ROW(a_job_of_another_kind_is_refused),
        ROW(a_model_that_has_changed_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_test_folder);
}
