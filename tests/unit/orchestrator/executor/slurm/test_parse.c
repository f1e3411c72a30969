/* What Slurm's commands print (tests/golden/slurm-output), as values. */
#include "base/alloc.h"
#include "base/file.h"
#include "orchestrator/executor/slurm/parse.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Heap; "" when there is no such file: the command printed nothing. */
static char *captured(const char *name, size_t *n)
{
    const char *source = getenv("HRF_SOURCE_DIR");
    HRF_AUTO_FREE char *path = hrf_format("%s/tests/golden/slurm-output/%s",
                                          source != NULL ? source : ".", name);
    char *text = NULL;
    if (hrf_file_read(path, 1 << 20, &text, n, NULL) == HRF_OK)
        return text;
    *n = 0;
    return hrf_strdup("");
}

static struct hrf_slurm_table table_of(const char *name)
{
    struct hrf_slurm_table table;
    size_t n;
    char *text = captured(name, &n);
    assert_true(n > 0);
    assert_int_equal(hrf_slurm_table_parse(text, n, "RUN", &table, NULL), HRF_OK);
    return table;
}

/* Captured from a real Slurm each. */
static const char *const versions[] = { "20.11.9", "22.05", "24.05.8" };
enum { N_VERSIONS = sizeof versions / sizeof versions[0] };

/* The file of a version, heap; fails when it is not there. */
static char *captured_of(const char *version, const char *name, size_t *n)
{
    HRF_AUTO_FREE char *path = hrf_format("%s/%s", version, name);
    char *text = captured(path, n);
    if (*n == 0)
        fail_msg("there is no %s of %s", name, version);
    return text;
}

static void every_state_and_reason_of_real_queues_is_known(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_VERSIONS; k++) {
        HRF_AUTO_FREE char *name = hrf_format("%s/squeue.out", versions[k]);
        struct hrf_slurm_table t = table_of(name);
        assert_true(t.n_entries > 100);
        assert_null(t.unknown);
        for (size_t i = 0; i < t.n_entries; i++) {
            bool never;
            const struct hrf_slurm_entry *e = &t.entries[i];
            assert_int_equal(e->submission, 1); /* the job with the odd name is not ours */
            assert_int_not_equal(e->observed, HRF_JOB_UNKNOWN);
            if (e->observed == HRF_JOB_WAITING && hrf_slurm_reason(e->reason, &never) == NULL)
                fail_msg("%s: '%s' is not known", versions[k], e->reason);
        }
        hrf_slurm_table_release(&t);
    }
}

/* What is asked for in one go and line for line is the same queue. */
static void arrays_of_real_queues_are_spread_out_as_slurm_does(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_VERSIONS; k++) {
        HRF_AUTO_FREE char *name = hrf_format("%s/squeue.out", versions[k]);
        HRF_AUTO_FREE char *each = hrf_format("%s/squeue-each.out", versions[k]);
        struct hrf_slurm_table a = table_of(name), b = table_of(each);
        assert_int_equal(a.n_entries, b.n_entries + 1); /* -r forgets the 40 of 1-40:3 */
        for (size_t i = 0; i < b.n_entries; i++) {
            const struct hrf_slurm_entry *e = &b.entries[i], *same = a.entries;
            while (same < a.entries + a.n_entries &&
                   (same->id != e->id || same->array_index != e->array_index))
                same++;
            assert_true(same < a.entries + a.n_entries);
            assert_int_equal(same->observed, e->observed);
        }
        hrf_slurm_table_release(&a);
        hrf_slurm_table_release(&b);
    }
}

static void sites_and_ends_of_all_real_versions_are_read(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_VERSIONS; k++) {
        struct hrf_slurm_limits limits;
        struct hrf_slurm_partition p;
        struct hrf_slurm_end end;
        size_t n;
        HRF_AUTO_FREE char *config = captured_of(versions[k], "scontrol-config.out", &n);
        HRF_AUTO_FREE char *partition = captured_of(versions[k], "scontrol-partition.out", &n);
        HRF_AUTO_FREE char *job = captured_of(versions[k], "scontrol-job-failed.out", &n);
        hrf_slurm_config_parse(config, &limits);
        assert_true(strncmp(limits.version, versions[k], strlen(versions[k])) == 0);
        assert_int_equal(limits.min_job_age_s, 300);
        assert_int_equal(limits.kill_wait_s, 5);
        assert_true(limits.max_array_size > 0 && limits.max_job_count > 0);
        assert_true(limits.can_requeue && limits.has_completions && !limits.has_accounting);
        assert_non_null(strstr(limits.site, "|login(10.73.0.254)||6817|/run/cluster/state"));
        assert_true(hrf_slurm_partition_parse(partition, NULL, &p));
        assert_string_equal(p.name, "main");
        assert_string_equal(p.state, "UP");
        assert_int_equal(p.max_minutes, 60);
        assert_int_equal(p.n_nodes, 4);
        assert_true(hrf_slurm_partition_parse(partition, "low", &p));
        assert_int_equal(p.grace_s, 2);
        assert_true(hrf_slurm_job_parse(job, &end));
        assert_string_equal(end.name, "hf-RUN-1");
        assert_string_equal(end.state, "FAILED");
        assert_int_equal(end.exit_code, 7);
    }
}

static void ranges_steps_and_limits_of_waiting_arrays_are_spread_out(void **state)
{
    (void)state;
    struct hrf_slurm_table table;
    char *text = hrf_strdup("13_[1-40:3%2]|PENDING|JobHeldUser||hf-RUN-1\n"
                            "14_[0-2,5,7-8%4]|PENDING|Resources||hf-RUN-2\n"
                            "15_3|RUNNING|None|n1|hf-RUN-2\n16|RUNNING|None|n[1-2]|hf-RUN-3\n");
    assert_int_equal(hrf_slurm_table_parse(text, strlen(text), "RUN", &table, NULL), HRF_OK);
    assert_int_equal(table.n_entries, 14 + 6 + 1 + 1);
    for (int64_t i = 1; i <= 40; i += 3)
        assert_int_equal(hrf_slurm_table_find(&table, 1, i)->id, 13);
    assert_null(hrf_slurm_table_find(&table, 1, 2));
    assert_null(hrf_slurm_table_find(&table, 2, 4));
    assert_int_equal(hrf_slurm_table_find(&table, 2, 8)->observed, HRF_JOB_WAITING);
    assert_int_equal(hrf_slurm_table_find(&table, 2, 3)->id, 15);
    assert_string_equal(hrf_slurm_table_find(&table, 3, 0)->nodes, "n[1-2]");
    hrf_slurm_table_release(&table);
}

/* By value, of the captured queue: first line of each kind. */
static void jobs_of_other_runs_and_versions_are_told_apart(void **state)
{
    (void)state;
    struct hrf_slurm_table t = table_of("25.11/squeue.out");
    assert_int_equal(t.n_entries, 102);
    assert_int_equal(hrf_slurm_table_find(&t, 1, 99)->id, 4711);
    assert_int_equal(hrf_slurm_table_find(&t, 1, 3)->id, 4711); /* the lowest of two */
    assert_int_equal(hrf_slurm_table_duplicate(&t, hrf_slurm_table_find(&t, 1, 3))->id, 4712);
    assert_null(hrf_slurm_table_duplicate(&t, hrf_slurm_table_find(&t, 1, 5)));
    hrf_slurm_table_release(&t);
}

static void an_answer_that_is_cut_off_is_no_answer(void **state)
{
    (void)state;
    struct hrf_slurm_table table;
    struct hrf_error err;
    size_t n;
    char *whole = captured("22.05/squeue.out", &n);
    assert_true(n > 0 && whole[n - 1] == '\n');
    for (size_t cut = 1; cut < n; cut++) { /* wherever it ends, but behind a whole line */
        if (whole[n - cut - 1] == '\n')
            continue;
        char *text = hrf_strndup(whole, n - cut);
        assert_int_equal(hrf_slurm_table_parse(text, n - cut, "RUN", &table, &err), HRF_E_AGAIN);
    }
    hrf_free(whole);
    char *limited = captured("22.05/squeue-cut.out", &n); /* SLURM_BITSTR_LEN=8 */
    assert_int_equal(hrf_slurm_table_parse(limited, n, "RUN", &table, &err), HRF_OK);
    hrf_slurm_table_release(&table);
}

static void banners_and_strange_lines_are_no_jobs(void **state)
{
    (void)state;
    struct hrf_slurm_table table;
    char *text = hrf_strdup(
        "Welcome | to | the | machine | room\n\n|||||\n"
        "x_1|RUNNING|None|n1|hf-RUN-1\n1_[|RUNNING|None|n1|hf-RUN-1\n"
        "1_[2-1]|PENDING|None||hf-RUN-9\n5_[0-99999999]|PENDING|None||hf-RUN-1\n"
        "7_1|MELTING|Hot|n1|hf-RUN-1\n8|RUNNING|None|n1|hf-RUN-1x\n"
        "9|RUNNING|None|n1|hf-OTHER-1\n");
    assert_int_equal(hrf_slurm_table_parse(text, strlen(text), "RUN", &table, NULL), HRF_OK);
    assert_int_equal(table.n_entries, 1);
    assert_string_equal(table.unknown, "MELTING");
    assert_int_equal(table.entries[0].observed, HRF_JOB_RUNNING); /* not known to have ended */
    hrf_slurm_table_release(&table);
    assert_int_equal(hrf_slurm_table_parse(hrf_strdup(""), 0, "RUN", &table, NULL), HRF_OK);
    assert_int_equal(table.n_entries, 0);
    hrf_slurm_table_release(&table);
}

static void states_mean_what_the_manual_says(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum hrf_job_observation observed;
        enum hrf_cause cause;
    } cases[] = {
        { "PENDING", HRF_JOB_WAITING, HRF_CAUSE_NONE },
        { "COMPLETING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
        { "COMPLETED", HRF_JOB_ENDED, HRF_CAUSE_NONE },
        { "CANCELLED by 1000", HRF_JOB_ENDED, HRF_CAUSE_CANCELLED },
        { "CANCELLED+", HRF_JOB_ENDED, HRF_CAUSE_CANCELLED },
        { "NODE_FAIL", HRF_JOB_ENDED, HRF_CAUSE_NODE },
        { "OUT_OF_MEMORY", HRF_JOB_ENDED, HRF_CAUSE_MEMORY },
        { "TIMEOUT", HRF_JOB_ENDED, HRF_CAUSE_TIME_LIMIT },
        { "PREEMPTED", HRF_JOB_ENDED, HRF_CAUSE_PREEMPTED },
        { "REQUEUE_HOLD", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    };
    enum hrf_job_observation observed;
    enum hrf_cause cause;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(hrf_slurm_state(cases[i].word, &observed, &cause));
        assert_int_equal(observed, cases[i].observed);
        assert_int_equal(cause, cases[i].cause);
    }
    assert_false(hrf_slurm_state("COMPLETE", &observed, &cause));
    assert_int_equal(observed, HRF_JOB_UNKNOWN);
    assert_false(hrf_slurm_state("", &observed, &cause));
}

static void reasons_are_sentences_and_some_never_end(void **state)
{
    (void)state;
    bool never;
    assert_string_equal(hrf_slurm_reason("Resources", &never), "for machines that are busy");
    assert_false(never);
    assert_non_null(hrf_slurm_reason("PartitionConfig", &never));
    assert_true(never);
    assert_non_null(hrf_slurm_reason("AssocMaxWallDurationPerJobLimit", &never));
    assert_true(never);
    assert_non_null(hrf_slurm_reason("AssocGrpCpuLimit", &never));
    assert_false(never);
    assert_non_null(hrf_slurm_reason("ReqNodeNotAvail, UnavailableNodes:n[1-2]", &never));
    assert_false(never); /* most often it passes */
    assert_non_null(
        hrf_slurm_reason("Nodes required for job are DOWN, DRAINED or reserved for jobs "
                         "in higher priority partitions",
                         &never));
    assert_false(never);
    assert_non_null(hrf_slurm_reason("job requeued in held state", &never));
    assert_true(never);
    assert_null(hrf_slurm_reason("SolarFlare", &never));
    assert_false(never);
}

static void check_answer(const char *name, bool exited_well, enum hrf_slurm_answer wanted,
                         int64_t wanted_id)
{
    char cluster[64] = "";
    int64_t id = 0;
    size_t n;
    HRF_AUTO_FREE char *out = hrf_format("%s.out", name), *err = hrf_format("%s.err", name);
    HRF_AUTO_FREE char *output = captured(out, &n), *errors = captured(err, &n);
    if (hrf_slurm_sbatch_answer(exited_well, output, errors, &id, cluster) != wanted)
        fail_msg("%s is judged wrongly", name);
    assert_int_equal(id, wanted_id);
    if (strcmp(name, "24.05/sbatch-cluster") == 0)
        assert_string_equal(cluster, "hpc2");
}

static void what_sbatch_says_is_judged(void **state)
{
    (void)state;
    static const struct {
        const char *name; /* of the capture, without .out and .err */
        bool exited_well;
        enum hrf_slurm_answer answer;
        int64_t id;
    } cases[] = {
        { "20.11.9/sbatch-taken", true, HRF_SLURM_TAKEN, 19 },
        { "22.05/sbatch-taken", true, HRF_SLURM_TAKEN, 18 },
        { "24.05.8/sbatch-taken", true, HRF_SLURM_TAKEN, 18 },
        { "24.05/sbatch-banner", true, HRF_SLURM_TAKEN, 1234568 },
        { "24.05/sbatch-cluster", true, HRF_SLURM_TAKEN, 1234567 },
        { "24.05/version", true, HRF_SLURM_UNSURE, 0 }, /* it names no job */
        { "24.05/sbatch-limit", false, HRF_SLURM_FULL, 0 },
        { "22.05/nothing", false, HRF_SLURM_UNSURE, 0 },    /* silent: killed, most likely */
        { "*/sbatch-stalled", false, HRF_SLURM_UNSURE, 0 }, /* of each real version */
        { "*/sbatch-down", false, HRF_SLURM_FULL, 0 },
        { "*/sbatch-array", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-constraint", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-gpus", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-memory", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-missing", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-option", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-partition", false, HRF_SLURM_REFUSED, 0 },
        { "*/sbatch-time", false, HRF_SLURM_REFUSED, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool each = cases[i].name[0] == '*';
        for (size_t k = 0; k < (each ? N_VERSIONS : 1); k++) {
            HRF_AUTO_FREE char *name = hrf_format("%s%s", each ? versions[k] : "",
                                                  cases[i].name + each);
            check_answer(name, cases[i].exited_well, cases[i].answer, cases[i].id);
        }
    }
}

/* 2^64 + 1 would be job 1 of 64 bits: somebody else's, and cancelled in the end. */
static void a_number_too_large_for_a_job_is_none(void **state)
{
    (void)state;
    char cluster[64];
    int64_t id = 0;
    assert_int_equal(hrf_slurm_sbatch_answer(true, "18446744073709551617\n", "", &id, cluster),
                     HRF_SLURM_UNSURE);
    assert_int_equal(id, 0);
}

static void the_line_that_says_why_is_found(void **state)
{
    (void)state;
    char line[200];
    size_t n;
    HRF_AUTO_FREE char *errors = captured("22.05/sbatch-memory.err", &n);
    hrf_slurm_error_line(errors, line, sizeof line);
    assert_string_equal(line, "Batch job submission failed: Requested node configuration is not "
                              "available");
    hrf_slurm_error_line("no such words\nat all\n", line, sizeof line);
    assert_string_equal(line, "no such words");
    hrf_slurm_error_line("", line, sizeof line);
    assert_string_equal(line, "");
}

/* What `sinfo -h -o %T` says of one node: a line for each state or partition. */
static void a_node_that_does_not_respond_is_told_by_its_star(void **state)
{
    (void)state;
    static const struct {
        const char *text, *state;
        bool is_silent;
    } cases[] = {
        { "idle\n", "idle", false },
        { "allocated\n", "allocated", false },
        { "allocated*\n", "allocated*", true },
        { "idle*\nidle*\n", "idle*", true },
        { "down\n", "down", true },
        { "down*\n", "down*", true },
        { "draining\n", "draining", false },
        { "drained*\n", "drained*", true },
        { "", "", false },
        { "\n", "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char word[32] = "";
        assert_int_equal(hrf_slurm_node_is_silent(cases[i].text, word, sizeof word),
                         cases[i].is_silent);
        assert_string_equal(word, cases[i].state);
    }
    char small[4] = "";
    assert_false(hrf_slurm_node_is_silent("allocated*", small, sizeof small));
}

static void too_little_memory_is_told_by_slurm_and_the_kernel_alone(void **state)
{
    (void)state;
    assert_true(hrf_slurm_says_out_of_memory(
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.batch"));
    assert_true(hrf_slurm_says_out_of_memory(
        "slurmstepd: error: Exceeded job memory limit at some point."));
    assert_false(hrf_slurm_says_out_of_memory("slide 'a' has no memory of it"));
    assert_false(hrf_slurm_says_out_of_memory(""));
}

static void the_limits_of_a_site_are_read(void **state)
{
    (void)state;
    struct hrf_slurm_limits limits;
    size_t n;
    HRF_AUTO_FREE char *real = captured("22.05/scontrol-config.out", &n);
    hrf_slurm_config_parse(real, &limits);
    assert_string_equal(limits.version, "22.05.8");
    assert_int_equal(limits.max_array_size, 1001);
    assert_int_equal(limits.max_job_count, 500);
    assert_int_equal(limits.min_job_age_s, 300);
    assert_int_equal(limits.max_array_tasks, 0);
    assert_false(limits.has_accounting);
    assert_true(limits.can_requeue);
    assert_string_equal(limits.mpi_default, "none");
    assert_string_equal(limits.completions, "jobcomp/filetxt");
    assert_true(limits.has_completions);
    assert_string_equal(limits.site, "run-29486|login(10.73.0.254)||6817|/run/cluster/state");
    HRF_AUTO_FREE char *newer = captured("24.05/scontrol-config.out", &n);
    hrf_slurm_config_parse(newer, &limits);
    assert_true(limits.has_accounting);
    assert_false(limits.can_requeue);
    assert_string_equal(limits.tmp_fs, "/local/%n");
    hrf_slurm_config_parse("SchedulerParameters = a=1,max_array_tasks=50,b\n", &limits);
    assert_int_equal(limits.max_array_tasks, 50);
    hrf_slurm_config_parse("slurm_load_ctl_conf error: Unable to contact slurm controller\n",
                           &limits);
    assert_int_equal(limits.max_array_size, 0);
}

static void the_limits_of_a_partition_are_read(void **state)
{
    (void)state;
    struct hrf_slurm_partition p;
    size_t n;
    HRF_AUTO_FREE char *text = captured("22.05/scontrol-partition.out", &n);
    assert_true(hrf_slurm_partition_parse(text, NULL, &p));
    assert_string_equal(p.name, "main");
    assert_int_equal(p.max_minutes, 60);
    assert_int_equal(p.n_nodes, 4);
    assert_int_equal(p.n_cpus, 16);
    assert_int_equal(p.max_mem_bytes, 0);
    assert_true(hrf_slurm_partition_parse(text, "down", &p));
    assert_string_equal(p.state, "DOWN");
    assert_int_equal(p.max_minutes, 0);
    assert_false(hrf_slurm_partition_parse(text, "nowhere", &p));
    assert_true(hrf_slurm_partition_parse("PartitionName=x MaxTime=2-01:30:00 MaxMemPerNode=2048\n",
                                          "x", &p));
    assert_int_equal(p.max_minutes, 2 * 1440 + 90);
    assert_true(p.max_mem_bytes == (int64_t)2 << 30);
}

static void the_end_of_a_job_is_read_from_the_controller_and_from_accounting(void **state)
{
    (void)state;
    struct hrf_slurm_end end;
    size_t n;
    HRF_AUTO_FREE char *job = captured("22.05/scontrol-job-failed.out", &n);
    assert_true(hrf_slurm_job_parse(job, &end));
    assert_string_equal(end.name, "hf-RUN-1");
    assert_string_equal(end.state, "FAILED");
    assert_string_equal(end.reason, "NonZeroExitCode");
    assert_int_equal(end.exit_code, 7);
    HRF_AUTO_FREE char *gone = captured("22.05/scontrol-gone.err", &n);
    assert_false(hrf_slurm_job_parse(gone, &end));
    HRF_AUTO_FREE char *rows = captured("21.08/sacct.out", &n);
    assert_true(hrf_slurm_sacct_parse(rows, "hf-RUN-1", &end)); /* the last line counts */
    assert_string_equal(end.state, "NODE_FAIL");
    assert_int_equal(end.exit_code, 1);
    assert_false(hrf_slurm_sacct_parse(rows, "hf-RUN-2", &end));
    assert_false(hrf_slurm_sacct_parse("", "hf-RUN-1", &end));
    assert_true(hrf_slurm_sacct_parse("a|CANCELLED by 7|0:15|n1\n", "a", &end));
    assert_string_equal(end.state, "CANCELLED by 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_reason_of_real_queues_is_known),
        cmocka_unit_test(arrays_of_real_queues_are_spread_out_as_slurm_does),
        cmocka_unit_test(sites_and_ends_of_all_real_versions_are_read),
        cmocka_unit_test(ranges_steps_and_limits_of_waiting_arrays_are_spread_out),
        cmocka_unit_test(jobs_of_other_runs_and_versions_are_told_apart),
        cmocka_unit_test(an_answer_that_is_cut_off_is_no_answer),
        cmocka_unit_test(banners_and_strange_lines_are_no_jobs),
        cmocka_unit_test(states_mean_what_the_manual_says),
        cmocka_unit_test(reasons_are_sentences_and_some_never_end),
        cmocka_unit_test(what_sbatch_says_is_judged),
        cmocka_unit_test(a_number_too_large_for_a_job_is_none),
        cmocka_unit_test(the_line_that_says_why_is_found),
        cmocka_unit_test(a_node_that_does_not_respond_is_told_by_its_star),
        cmocka_unit_test(too_little_memory_is_told_by_slurm_and_the_kernel_alone),
        cmocka_unit_test(the_limits_of_a_site_are_read),
        cmocka_unit_test(the_limits_of_a_partition_are_read),
        cmocka_unit_test(the_end_of_a_job_is_read_from_the_controller_and_from_accounting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
