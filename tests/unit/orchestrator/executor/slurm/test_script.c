/* Scripts and command lines against tests/golden/slurm; HRF_REFRESH=1 writes them anew. */
#include "base/file.h"
#include "orchestrator/executor/slurm/script.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN "0123456789abcdef0123456789abcdef"

static void compare(const char *name, const char *found)
{
    const char *source = getenv("HRF_SOURCE_DIR");
    HRF_AUTO_FREE char *path = hrf_format("%s/tests/golden/slurm/%s", source != NULL ? source : ".",
                                          name);
    HRF_AUTO_FREE char *expected = NULL;
    size_t n;
    if (getenv("HRF_REFRESH") != NULL)
        assert_int_equal(hrf_file_write_atomic(path, found, strlen(found), NULL), HRF_OK);
    assert_int_equal(hrf_file_read(path, 1 << 20, &expected, &n, NULL), HRF_OK);
    assert_string_equal(found, expected);
}

/* The script, sbatch's words and the worker's, as one text. */
static void check(const char *name, const struct hrf_slurm_job *job)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    struct hrf_text_list words = { NULL, 0 }, wrap = { NULL, 0 };
    hrf_slurm_script(job, &text);
    hrf_slurm_sbatch(job, &words);
    hrf_strbuf_adds(&text, "---- sbatch\n");
    for (size_t i = 0; i < words.n_items; i++)
        hrf_strbuf_addf(&text, "%s\n", words.items[i]);
    hrf_slurm_wrap(job->settings, job->submission->kind, &wrap);
    hrf_strbuf_adds(&text, "---- before the worker\n");
    for (size_t i = 0; i < wrap.n_items; i++)
        hrf_strbuf_addf(&text, "%s\n", wrap.items[i]);
    compare(name, text.text);
    hrf_strbuf_release(&text);
    hrf_text_list_release(&words);
    hrf_text_list_release(&wrap);
}

static void a_plain_job_says_all_its_resources(void **state)
{
    (void)state;
    static const char *const specs[] = { "/runs/a/jobs/tile-0001.a1/spec.json",
                                         "/runs/a/jobs/tile-0002.a1/spec.json" };
    const struct hrf_workflow_executor settings = {
        .slurm = { .nodes = 1, .ranks_per_node = 1, .cpus_per_rank = 2 }
    };
    const struct hrf_submission submission = { .run_directory = "/runs/a",
                                               .run_id = RUN,
                                               .number = 1,
                                               .kind = "tile",
                                               .spec_paths = specs,
                                               .n_jobs = 2,
                                               .exclude = "" };
    check("plain.txt", &(struct hrf_slurm_job){ .settings = &settings,
                                                .submission = &submission,
                                                .program = "/opt/bin/hires-flow" });
}

static void a_job_of_many_ranks_gets_all_that_a_site_asks_for(void **state)
{
    (void)state;
    static const char *const specs[] = { "/a b/it's/$(touch pwned)/jobs/infer-0003.a2/spec.json" };
    char partition[] = "gpu", account[] = "lab", qos[] = "long", constraint[] = "a100&ib",
         time[] = "1-02:00:30", module[] = "openmpi/4.1; rm -rf ~", line[] = "export X=1",
         word1[] = "apptainer", word2[] = "exec", word3[] = "--nv", word4[] = "site image.sif",
         option[] = "--reservation=lab";
    char *modules[] = { module }, *prologue[] = { line }, *options[] = { option };
    char *container[] = { word1, word2, word3, word4 };
    const struct hrf_workflow_executor settings = { .slurm = { .partition = partition,
                                                               .account = account,
                                                               .qos = qos,
                                                               .constraint = constraint,
                                                               .time = time,
                                                               .nodes = 2,
                                                               .ranks_per_node = 4,
                                                               .cpus_per_rank = 8,
                                                               .gpus_per_rank = 1,
                                                               .mem_per_node_bytes = (int64_t)64
                                                                                     << 30,
                                                               .modules = { modules, 1 },
                                                               .prologue = { prologue, 1 },
                                                               .container = { container, 4 },
                                                               .options = { options, 1 } } };
    const struct hrf_submission submission = { .run_directory = "/a b/it's/$(touch pwned)",
                                               .run_id = RUN,
                                               .number = 3,
                                               .kind = "infer",
                                               .spec_paths = specs,
                                               .n_jobs = 1,
                                               .time_level = 1,
                                               .memory_level = 2,
                                               .exclude = "n3,n7" };
    check("site.txt", &(struct hrf_slurm_job){ .settings = &settings,
                                               .submission = &submission,
                                               .program = "/opt/it's here/hires-flow",
                                               .max_memory_bytes = (int64_t)128 << 30 });
}

static void more_is_asked_for_up_to_what_the_partition_gives(void **state)
{
    (void)state;
    static const char *const specs[] = { "/r/jobs/a/spec.json", "/r/jobs/b/spec.json",
                                         "/r/jobs/c/spec.json" };
    char time[] = "00:01:00";
    const struct hrf_workflow_executor settings = {
        .slurm = { .time = time, .nodes = 1, .ranks_per_node = 2, .cpus_per_rank = 1 }
    };
    struct hrf_submission submission = { .run_directory = "/r",
                                         .run_id = RUN,
                                         .number = 12345,
                                         .kind = "calibrate",
                                         .spec_paths = specs,
                                         .n_jobs = 3,
                                         .time_level = 40,
                                         .memory_level = 40,
                                         .exclude = "" };
    check("grown.txt", &(struct hrf_slurm_job){ .settings = &settings,
                                                .submission = &submission,
                                                .program = "/hires-flow",
                                                .max_minutes = 90,
                                                .max_memory_bytes = (int64_t)4000 << 20,
                                                .at_once = 2 });
}

static void durations_are_whole_minutes(void **state)
{
    (void)state;
    assert_int_equal(hrf_slurm_minutes(NULL), 60);
    assert_int_equal(hrf_slurm_minutes("00:00:01"), 1);
    assert_int_equal(hrf_slurm_minutes("02:00:00"), 120);
    assert_int_equal(hrf_slurm_minutes("3-00:10:00"), 3 * 1440 + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_job_says_all_its_resources),
        cmocka_unit_test(a_job_of_many_ranks_gets_all_that_a_site_asks_for),
        cmocka_unit_test(more_is_asked_for_up_to_what_the_partition_gives),
        cmocka_unit_test(durations_are_whole_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
