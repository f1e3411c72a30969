/* Slurm's commands see nothing of an outer job, nor what a user set to change their words. */
#include "base/alloc.h"
#include "orchestrator/executor/slurm/command.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The environment of a command, a variable a line, with a line's end before the first. */
static char *environment(struct hrf_slurm_output *out)
{
    static const char *const argv[] = { "env", NULL };
    assert_int_equal(hrf_slurm_run(argv, 10000, out, NULL), HRF_OK);
    assert_true(hrf_slurm_succeeded(out));
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&text, "\n%s", out->output.text);
    hrf_slurm_output_release(out);
    return hrf_strbuf_detach(&text);
}

static void nothing_of_an_outer_job_or_of_a_users_settings_is_seen(void **state)
{
    (void)state;
    static const char *const gone[] = {
        "SLURM_JOB_ID",     "SLURM_NTASKS",     "SLURM_MEM_PER_NODE", "SLURM_ARRAY_TASK_ID",
        "SBATCH_PARTITION", "SBATCH_ARRAY_INX", "SBATCH_NO_REQUEUE",  "SBATCH_EXPORT",
        "SQUEUE_FORMAT",    "SQUEUE_STATES",    "SQUEUE_USERS",       "SACCT_FORMAT",
        "SCANCEL_STATE",    "SALLOC_PARTITION", "SRUN_CPUS_PER_TASK", "PMIX_RANK",
        "PMI_RANK",         "OMPI_COMM_WORLD",  "PRTE_MCA_x",
    };
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        assert_int_equal(setenv(gone[i], "wrong", 1), 0);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("SLURM_TIME_FORMAT", "relative", 1);
    setenv("SLURM_BITSTR_LEN", "8", 1);
    struct hrf_slurm_output out;
    char *text = environment(&out);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        if (strstr(text, gone[i]) != NULL)
            fail_msg("%s is seen", gone[i]);
    assert_null(strstr(text, "=wrong"));
    assert_null(strstr(text, "de_DE"));
    assert_null(strstr(text, "relative"));
    assert_non_null(strstr(text, "\nLC_ALL=C\n"));
    assert_non_null(strstr(text, "\nSLURM_TIME_FORMAT=standard\n"));
    assert_non_null(strstr(text, "\nSLURM_BITSTR_LEN=0\n"));
    hrf_free(text);
}

static void only_what_is_named_is_passed(void **state)
{
    (void)state;
    static const char *const gone[] = { "LD_PRELOAD", "LD_AUDIT",  "PYTHONPATH", "AWS_SECRET",
                                        "EDITOR",     "PATHOLOGY", "HOMEPAGE",   "BASH_FUNC_x%%" };
    static const char *const passed[] = { "HRF_LOG",     "LD_LIBRARY_PATH",    "XDG_CACHE_HOME",
                                          "LMOD_CMD",    "MODULEPATH",         "BASH_ENV",
                                          "APPTAINER_X", "BASH_FUNC_module%%", "USER" };
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        assert_int_equal(setenv(gone[i], "/nothing", 1), 0);
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        assert_int_equal(setenv(passed[i], "/here", 1), 0);
    struct hrf_slurm_output out;
    char *text = environment(&out);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        if (strstr(text, gone[i]) != NULL)
            fail_msg("%s is passed", gone[i]);
        unsetenv(gone[i]);
    }
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
        HRF_AUTO_FREE char *line = hrf_format("\n%s=/here\n", passed[i]);
        if (strstr(text, line) == NULL)
            fail_msg("%s is not passed", passed[i]);
        unsetenv(passed[i]);
    }
    hrf_free(text);
}

static void what_says_which_cluster_stays(void **state)
{
    (void)state;
    setenv("SLURM_CONF", "/site/slurm.conf", 1);
    setenv("SLURM_CLUSTERS", "hpc2", 1);
    setenv("TZ", "Asia/Tokyo", 1);
    struct hrf_slurm_output out;
    char *text = environment(&out);
    assert_non_null(strstr(text, "\nSLURM_CONF=/site/slurm.conf\n"));
    assert_non_null(strstr(text, "\nSLURM_CLUSTERS=hpc2\n"));
    assert_non_null(strstr(text, "\nTZ=Asia/Tokyo\n"));
    assert_non_null(strstr(text, "\nPATH="));
    hrf_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_an_outer_job_or_of_a_users_settings_is_seen),
        cmocka_unit_test(only_what_is_named_is_passed),
        cmocka_unit_test(what_says_which_cluster_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
