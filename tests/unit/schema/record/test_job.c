/* Job specs, task results and the fence, through real files with the oddest names. */
#include "base/alloc.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/record/job.h"
#include "schema/record/rank_record.h"
#include "schema/record/sentinel.h"
#include "tests/unit/directory.h"
#include "tests/unit/settings.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

static struct hrf_workflow *infer_settings(void)
{
    struct hrf_workflow *settings = default_settings();
    set_text(&settings->model.file, "/m/\xE9.onnx");
    settings->engine.memory_bytes = 8LL << 30;
    settings->tiler.tissue.method = HRF_TISSUE_CLAM;
    settings->engine.parallel.spatial_rows = 2;
    return settings;
}

static struct hrf_job_spec infer_spec(struct hrf_job_task tasks[N_ODD], char ids[N_ODD][16])
{
    static char sha[] = "abc";
    static char plan[] = "/p", scales[] = "/scales";
    static struct hrf_job_network networks[] = {
        { .precision = HRF_FP32, .stain_jitter = 0.05, .jitter_seed = 7 },
        { .precision = HRF_INT8, .scales = scales }
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
                                  .model_sha256 = sha,
                                  .n_threads = 2,
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
    HRF_AUTO(hrf_workflow) settings = infer_settings();
    assert_int_equal(hrf_job_spec_write(&spec, settings, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, NULL), HRF_OK);
    assert_string_equal(back->run_id, run_id);
    assert_string_equal(back->job_id, job_id);
    assert_int_equal(back->attempt, 3);
    assert_int_equal(back->kind, HRF_JOB_INFER);
    assert_string_equal(back->settings->model.file, settings->model.file);
    assert_string_equal(back->layout, "spatial=2");
    assert_memory_equal(&back->settings->model.input, &settings->model.input,
                        sizeof settings->model.input);
    assert_true(back->settings->engine.memory_bytes == 8LL << 30 && back->n_threads == 2 &&
                back->settings->tiler.tissue.method == HRF_TISSUE_CLAM &&
                hrf_workflow_n_scores(back->settings) == 2);
    HRF_AUTO_JSON told = hrf_settings_json(settings);
    HRF_AUTO_JSON read = hrf_settings_json(back->settings);
    assert_true(json_equal(told, read));
    assert_int_equal(back->n_networks, 2);
    assert_int_equal(back->networks[0].precision, HRF_FP32);
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
    char id[] = "t0001", name[] = "s";
    HRF_AUTO(hrf_workflow) settings = default_settings();
    struct hrf_job_task task = { .id = id,
                                 .identity = { .task = "k" },
                                 .slide_name = name,
                                 .slide_path = name,
                                 .mpp_fallback = 0.25 };
    struct hrf_job_spec spec = { .run_id = run_id,
                                 .job_id = job_id,
                                 .attempt = 1,
                                 .kind = HRF_JOB_TILE,
                                 .tissue_sha256 = id,
                                 .tasks = &task,
                                 .n_tasks = 1 },
                        *back = NULL;
    settings->tiler.tissue.method = HRF_TISSUE_ONNX;
    set_text(&settings->tiler.tissue.model, "m.onnx");
    settings->tiler.tissue.min_tissue = 0.3;
    settings->tiler.tissue.std[2] = 3;
    settings->tiler.patch.edge = HRF_EDGE_SHIFT;
    settings->tiler.quality.fold = 0.25;
    assert_int_equal(hrf_job_spec_write(&spec, settings, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, NULL), HRF_OK);
    assert_null(back->tasks[0].tile_plan);
    assert_true(back->tasks[0].mpp_fallback == 0.25);
    HRF_AUTO_JSON told = hrf_settings_json(settings);
    HRF_AUTO_JSON read = hrf_settings_json(back->settings);
    assert_true(json_equal(told, read));
    assert_string_equal(back->tissue_sha256, id);
    hrf_job_spec_destroy(back);
    settings->tiler.tissue.std[2] = 0;
    assert_int_equal(hrf_job_spec_write(&spec, settings, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &back, NULL), HRF_E_USER);
}

/* Sets `path` ("settings/engine.batch", "tasks/0/id") of a good spec to a JSON text; "": removes
 * it. */
static void write_changed(const char *path, const char *value)
{
    struct hrf_job_task tasks[N_ODD];
    char ids[N_ODD][16], part[64];
    const struct hrf_job_spec spec = infer_spec(tasks, ids);
    HRF_AUTO(hrf_workflow) settings = infer_settings();
    HRF_AUTO_JSON root = NULL;
    assert_int_equal(hrf_job_spec_write(&spec, settings, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_json_read_file(file("spec.json"), &root, NULL), HRF_OK);
    json_t *at = root;
    for (; strchr(path, '/') != NULL; path = strchr(path, '/') + 1) {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(path, "/"), path);
        at = json_is_array(at) ? json_array_get(at, (size_t)strtol(part, NULL, 10))
                               : json_object_get(at, part);
    }
    if (value[0] != '\0')
        hrf_json_put(at, path, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(at, path);
    json_object_del(root, "sha256");
    assert_int_equal(hrf_fields_seal(root, NULL), HRF_OK);
    assert_int_equal(hrf_json_write_file(file("spec.json"), root, NULL), HRF_OK);
}

static void a_spec_that_cannot_be_used_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *path, *value, *expected;
    } cases[] = {
        { "attempt", "2", "" },
        { "version", "2",
          "a job's spec of version 2, and this hires-flow reads version 1; use "
          "the hires-flow that wrote it, or have it made again" },
        { "networks", "", "'networks' must be an array, it is missing" },
        { "networks", "[]", "'networks' has 0, not 1 to 8" },
        { "tasks/1/network", "2", "task t0001 asks for network 2 of 2" },
        { "kind", "\"sleep\"", "unknown kind 'sleep'" },
        { "tasks/0/tile_plan", "null", "'tile_plan' is null" },
        { "tasks/0/id", "\"../t\"",
          "'../t' cannot be an id: 1 to 63 letters, digits, '_' and '-'" },
        { "tasks/0/id", "\"\"", "'' cannot be an id: 1 to 63 letters, digits, '_' and '-'" },
        { "job_id", "\"a/b\"", "'a/b' cannot be an id: 1 to 63 letters, digits, '_' and '-'" },
        { "tasks/0/first_patch", "-5", "task t0000: patches -5 and on, 7 of them" },
        { "tasks/0/id", "", "'id' is missing" },
        { "settings", "3", "'settings' must be an object, it is an integer" },
        { "settings/engine.batch", "", "'engine.batch' is missing" },
        { "settings/engine.batch", "0", "'engine.batch' is out of its range, or of another type" },
        { "settings/tiler.mode", "\"cube\"",
          "'tiler.mode' is out of its range, or of another type" },
        { "settings/model.input.std", "[1, 1, 0]",
          "'model.input.std' is out of its range, or of another type" },
        { "settings/engine.color", "1", "1 settings that this build does not know" },
        { "settings/model.file", "null", "the model or its hash is missing" },
        { "n_threads", "-1", "0 ranks of -1 threads" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_job_spec *back = NULL;
        struct hrf_error err = { .status = HRF_OK };
        write_changed(cases[i].path, cases[i].value);
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
    HRF_AUTO(hrf_workflow) settings = infer_settings();
    struct hrf_error err = { .status = HRF_OK };
    char *text = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_job_spec_write(&spec, settings, file("spec.json"), NULL), HRF_OK);
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
    assert_true(back.seconds == 1.5 && back.failure.error.status == HRF_OK);
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
    static const char reason[] = "cannot read 'a\nb\xFF.svs': \"TIFF\" error";
    struct hrf_task_status status = { .outcome = HRF_TASK_FAILED,
                                      .failure = { .error = { .status = HRF_E_AGAIN,
                                                              .id = HRF_ERROR_FILE_STALE,
                                                              .domain = "errno",
                                                              .native = ESTALE,
                                                              .setting = "dataset.files" } } },
                           back;
    const struct hrf_error *error = &back.failure.error;
    char *bytes = NULL;
    size_t n = 1;
    snprintf(status.failure.error.text, sizeof status.failure.error.text, "%s", reason);
    assert_int_equal(hrf_task_commit(directory, &task, NULL, 0, &status, NULL), HRF_OK);
    assert_int_equal(hrf_task_collect(directory, "t2", &back, &bytes, &n, NULL), HRF_OK);
    assert_int_equal(back.outcome, HRF_TASK_FAILED);
    assert_int_equal(error->status, HRF_E_AGAIN);
    assert_int_equal(error->id, HRF_ERROR_FILE_STALE);
    assert_string_equal(error->domain, "errno");
    assert_int_equal(error->native, ESTALE);
    assert_string_equal(error->setting, "dataset.files");
    assert_string_equal(error->text, reason);
    assert_null(bytes);
    assert_int_equal(n, 0);
    hrf_task_status_release(&back);
}

static void a_failure_names_the_file_that_its_machine_lacks(void **state)
{
    (void)state;
    char slide[] = "/nowhere/a.svs";
    const struct hrf_error error = { .status = HRF_E_EXTERNAL, .text = "cannot open it" };
    const char *const paths[] = { NULL, directory, slide };
    struct hrf_failure failure = { .lacks = NULL }, back;
    hrf_failure_fill(&failure, &error, paths, 2);
    assert_null(failure.lacks);
    hrf_failure_fill(&failure, &error, paths, 3);
    assert_string_equal(failure.lacks, slide);
    assert_int_equal(failure.lacks_errno, ENOENT);
    assert_int_equal(hrf_failure_read(directory, &back, NULL), HRF_E_AGAIN);
    hrf_failure_write(directory, &failure);
    assert_int_equal(hrf_failure_read(directory, &back, NULL), HRF_OK);
    assert_string_equal(back.lacks, slide);
    assert_int_equal(back.lacks_errno, ENOENT);
    assert_string_equal(back.host, failure.host);
    assert_string_equal(back.error.text, error.text);
    hrf_failure_release(&back);
    hrf_failure_release(&failure);
    write_text("error.json", "{\"error\": 3}");
    assert_int_equal(hrf_failure_read(directory, &back, NULL), HRF_E_USER);
    assert_int_equal(unlink(file("error.json")), 0);
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
        cmocka_unit_test(the_longest_reason_of_a_rank_is_read_whatever_it_holds),
        cmocka_unit_test(processor_time_is_of_all_ranks_or_not_known),
        cmocka_unit_test(a_committed_task_is_collected),
        cmocka_unit_test(a_failed_task_keeps_its_reason_whatever_it_holds),
        cmocka_unit_test(a_failure_names_the_file_that_its_machine_lacks),
        cmocka_unit_test(a_record_that_is_not_the_committed_one_is_refused),
        cmocka_unit_test(a_revoked_attempt_commits_nothing),
        cmocka_unit_test(progress_is_read_as_it_was_last_written),
        cmocka_unit_test(batches_of_a_slide_are_even_and_as_few_as_before),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
