/* What Slurm's commands print (tests/golden/slurm-output), as values. */
#include "base/alloc.h"
#include "base/path.h"
#include "orchestrator/executor/slurm/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static void every_state_and_reason_of_a_real_queue_is_known(void **state)
{
    (void)state;
    struct hrf_slurm_table t = table_of("22.05/squeue.out");
    assert_true(t.n_entries > 100);
    assert_null(t.unknown);
    for (size_t i = 0; i < t.n_entries; i++) {
        bool never;
        assert_int_equal(t.entries[i].submission, 1); /* the job with the odd name is not ours */
        assert_int_not_equal(t.entries[i].sight, HRF_JOB_UNKNOWN);
        if (t.entries[i].sight == HRF_JOB_WAITING)
            assert_non_null(hrf_slurm_reason(t.entries[i].reason, &never));
    }
    hrf_slurm_table_release(&t);
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
    assert_int_equal(hrf_slurm_table_find(&table, 2, 8)->sight, HRF_JOB_WAITING);
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
    assert_int_equal(hrf_slurm_table_twin(&t, hrf_slurm_table_find(&t, 1, 3))->id, 4712);
    assert_null(hrf_slurm_table_twin(&t, hrf_slurm_table_find(&t, 1, 5)));
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
    assert_int_equal(table.entries[0].sight, HRF_JOB_RUNNING); /* not known to have ended */
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
        enum hrf_job_sight sight;
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
    enum hrf_job_sight sight;
    enum hrf_cause cause;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(hrf_slurm_state(cases[i].word, &sight, &cause));
        assert_int_equal(sight, cases[i].sight);
        assert_int_equal(cause, cases[i].cause);
    }
    assert_false(hrf_slurm_state("COMPLETE", &sight, &cause));
    assert_int_equal(sight, HRF_JOB_UNKNOWN);
    assert_false(hrf_slurm_state("", &sight, &cause));
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
    assert_null(hrf_slurm_reason("SolarFlare", &never));
    assert_false(never);
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
        { "22.05/sbatch-taken", true, HRF_SLURM_TAKEN, 18 },
        { "24.05/sbatch-banner", true, HRF_SLURM_TAKEN, 1234568 },
        { "24.05/sbatch-cluster", true, HRF_SLURM_TAKEN, 1234567 },
        { "24.05/version", true, HRF_SLURM_UNSURE, 0 }, /* it names no job */
        { "22.05/sbatch-stalled", false, HRF_SLURM_UNSURE, 0 },
        { "22.05/sbatch-down", false, HRF_SLURM_FULL, 0 },
        { "24.05/sbatch-limit", false, HRF_SLURM_FULL, 0 },
        { "22.05/sbatch-array", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-constraint", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-gpus", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-memory", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-missing", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-option", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-partition", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/sbatch-time", false, HRF_SLURM_REFUSED, 0 },
        { "22.05/nothing", false, HRF_SLURM_UNSURE, 0 }, /* silent: killed, most likely */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64], cluster[64] = "";
        int64_t id = 0;
        size_t n;
        snprintf(name, sizeof name, "%s.out", cases[i].name);
        HRF_AUTO_FREE char *output = captured(name, &n);
        snprintf(name, sizeof name, "%s.err", cases[i].name);
        HRF_AUTO_FREE char *errors = captured(name, &n);
        if (hrf_slurm_sbatch_answer(cases[i].exited_well, output, errors, &id, cluster) !=
            cases[i].answer)
            fail_msg("%s is judged wrongly", cases[i].name);
        assert_int_equal(id, cases[i].id);
        if (strcmp(cases[i].name, "24.05/sbatch-cluster") == 0)
            assert_string_equal(cluster, "hpc2");
    }
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
    assert_int_equal(limits.message_timeout_s, 10);
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
    assert_int_equal(end.exit_signal, 0);
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
    assert_int_equal(end.exit_signal, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_reason_of_a_real_queue_is_known),
        cmocka_unit_test(ranges_steps_and_limits_of_waiting_arrays_are_spread_out),
        cmocka_unit_test(jobs_of_other_runs_and_versions_are_told_apart),
        cmocka_unit_test(an_answer_that_is_cut_off_is_no_answer),
        cmocka_unit_test(banners_and_strange_lines_are_no_jobs),
        cmocka_unit_test(states_mean_what_the_manual_says),
        cmocka_unit_test(reasons_are_sentences_and_some_never_end),
        cmocka_unit_test(what_sbatch_says_is_judged),
        cmocka_unit_test(the_line_that_says_why_is_found),
        cmocka_unit_test(the_limits_of_a_site_are_read),
        cmocka_unit_test(the_limits_of_a_partition_are_read),
        cmocka_unit_test(the_end_of_a_job_is_read_from_the_controller_and_from_accounting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
