/* doctor_slurm.c - what the site's Slurm is like, and what each finding means for a run. */
#include "base/clock.h"
#include "base/path.h"
#include "orchestrator/cli/doctor.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/node_fit.h"
#include "orchestrator/executor/slurm/parse.h"
#include "orchestrator/launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* PROBE_MS: for two ranks on two machines, which may first have to become free. */
enum { PROBE_MS = 60000, SKEW_MS = 5000 };

static bool ask(const char *const argv[], int64_t deadline_ms, struct hrf_slurm_output *out,
                char *why, size_t size)
{
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_slurm_run(argv, deadline_ms, out, &err) != HRF_OK) {
        snprintf(why, size, "%.*s", (int)size - 1, err.text);
        return false;
    }
    if (hrf_slurm_succeeded(out))
        return true;
    if (out->result.timed_out)
        snprintf(why, size, "no answer in %lld s", (long long)deadline_ms / 1000);
    else
        hrf_slurm_error_line(out->errors.text, why, size);
    hrf_slurm_output_release(out);
    return false;
}

static void look_at_commands(struct hrf_doctor *doctor)
{
    static const char *const tools[] = { "sbatch", "squeue", "scancel", "scontrol", "srun" };
    char missing[128] = "", why[300];
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
        struct hrf_slurm_output out;
        const char *const argv[] = { tools[i], "--version", NULL };
        if (ask(argv, HRF_SLURM_DEADLINE_MS, &out, why, sizeof why))
            hrf_slurm_output_release(&out);
        else
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", tools[i]);
    }
    if (missing[0] != '\0')
        hrf_doctor_add(doctor, HRF_BAD, "slurm", "jobs cannot be submitted, monitored or cancelled",
                       "these commands do not work:%s", missing);
}

static void look_at_controller(struct hrf_doctor *doctor)
{
    static const char *const queue[] = { "squeue", "-h", "-o", HRF_SLURM_SQUEUE_FORMAT, NULL };
    struct hrf_slurm_output out;
    char why[300];
    const double start = hrf_clock_seconds();
    if (!ask(queue, HRF_SLURM_DEADLINE_MS, &out, why, sizeof why)) {
        hrf_doctor_add(doctor, HRF_BAD, "controller",
                       "no job can be submitted; running jobs continue and write their results",
                       "%s", why);
        return;
    }
    hrf_slurm_output_release(&out);
    hrf_doctor_add(doctor, HRF_GOOD, "controller",
                   "queried once for all jobs, at most every 2 s, less often if it is slow",
                   "answers squeue in %.0f ms", 1000 * (hrf_clock_seconds() - start));
}

static void report_config(struct hrf_doctor *doctor, const struct hrf_slurm_limits *l)
{
    hrf_doctor_add(doctor, HRF_GOOD, "slurm", "versions 21.08 to 26.05 are supported", "version %s",
                   l->version);
    hrf_doctor_add(doctor, HRF_GOOD, "arrays",
                   "more jobs are submitted as several arrays, one after another",
                   "up to %lld jobs each (MaxArraySize %lld, MaxJobCount %lld)",
                   (long long)hrf_slurm_max_array(l), (long long)l->max_array_size,
                   (long long)l->max_job_count);
    hrf_doctor_add(doctor, HRF_GOOD, "accounting",
                   l->has_accounting    ? "queried for jobs that the controller no longer knows"
                   : l->has_completions ? "not needed; the log of ended jobs is queried for jobs "
                                          "that the controller no longer knows"
                                        : "not needed; a job's own record says how it ended",
                   "%s, job completions: %s, ended jobs stay visible for %lld s",
                   l->has_accounting ? "available" : "none",
                   l->completions[0] != '\0' ? l->completions : "none",
                   (long long)l->min_job_age_s);
    hrf_doctor_add(
        doctor, l->can_requeue ? HRF_GOOD : HRF_WARNING, "requeue",
        l->can_requeue
            ? "Slurm restarts a job whose node failed or that was preempted"
            : "after a node failure or a preemption a job waits until a driver submits it again",
        "JobRequeue %d, PreemptMode %s", (int)l->can_requeue, l->preempt_mode);
}

/* Returns the number of machines of the partition; 0: unknown. */
static int64_t look_at_config(struct hrf_doctor *doctor, const char *partition)
{
    static const char *const config[] = { "scontrol", "show", "config", NULL };
    static const char *const partitions[] = { "scontrol", "show", "partition", "-o", NULL };
    struct hrf_slurm_limits limits;
    struct hrf_slurm_partition p;
    struct hrf_slurm_output out;
    char why[300];
    if (!ask(config, HRF_SLURM_DEADLINE_MS, &out, why, sizeof why))
        return 0; /* the line about the controller says so */
    hrf_slurm_config_parse(out.output.text, &limits);
    hrf_slurm_output_release(&out);
    report_config(doctor, &limits);
    if (!ask(partitions, HRF_SLURM_DEADLINE_MS, &out, why, sizeof why))
        return 0;
    const bool found = hrf_slurm_partition_parse(out.output.text, partition, &p);
    hrf_slurm_output_release(&out);
    if (!found)
        hrf_doctor_add(doctor, HRF_BAD, "partition",
                       "set executor.slurm.partition to one that `sinfo` lists",
                       partition != NULL ? "there is no '%s'" : "there is no default partition%.0s",
                       partition != NULL ? partition : "");
    else
        hrf_doctor_add(doctor, strcmp(p.state, "UP") == 0 ? HRF_GOOD : HRF_BAD, "partition",
                       p.max_minutes > 0 ? "jobs with a longer time limit would never start"
                                         : "jobs may have any time limit",
                       "%s is %s: %lld nodes, %lld cores, at most %lld minutes for a job", p.name,
                       p.state, (long long)p.n_nodes, (long long)p.n_cpus,
                       (long long)p.max_minutes);
    if (found)
        hrf_doctor_add(doctor, HRF_GOOD, "warning",
                       "time that a job has to write its last scores; scores more than a minute "
                       "old are kept in any case",
                       "a job that is cancelled has %lld s (KillWait), one that is preempted "
                       "%lld s more (GraceTime)",
                       (long long)limits.kill_wait_s, (long long)p.grace_s);
    return found ? p.n_nodes : 0;
}

/* Reports what the partition's nodes have, and whether a tiling and an inference job fit them. */
static void look_at_fit(struct hrf_doctor *doctor, const struct hrf_workflow_executor *settings)
{
    static const char *const kinds[] = { "tile", "infer" };
    struct hrf_slurm_offer offer;
    bool fits = true;
    if (!hrf_slurm_offer_ask(settings->slurm.partition, NULL, &offer) || offer.n_nodes == 0)
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct hrf_error why = { .status = HRF_OK };
        if (hrf_slurm_fit_ask(settings, kinds[i], &why) == HRF_OK)
            continue;
        fits = false;
        hrf_doctor_add(doctor, HRF_BAD, "fit", "such jobs would be refused, or wait for ever",
                       "%s jobs: %s", kinds[i], why.text);
    }
    if (fits)
        hrf_doctor_add(doctor, HRF_GOOD, "fit", "the jobs of a run fit them",
                       "%s has %lld nodes with at most %lld processors, %.3g GiB and %lld GPUs",
                       offer.partition.name, (long long)offer.n_nodes, (long long)offer.max_cpus,
                       (double)offer.max_memory_bytes / 0x1p30, (long long)offer.max_gpus);
}

static bool has_pmix(struct hrf_doctor *doctor)
{
    static const char *const list[] = { "srun", "--mpi=list", NULL };
    struct hrf_slurm_output out;
    char why[300] = "";
    bool found = false;
    if (ask(list, HRF_SLURM_DEADLINE_MS, &out, why, sizeof why)) {
        /* It prints on either stream, by version. */
        found = strstr(out.output.text, "pmix") != NULL || strstr(out.errors.text, "pmix") != NULL;
        hrf_slurm_output_release(&out);
    }
    if (!found)
        hrf_doctor_add(doctor, HRF_WARNING, "pmix",
                       "only jobs with one rank can run: nodes and ranks_per_node must be 1",
                       "srun --mpi=list does not name pmix%s%s", why[0] != '\0' ? ": " : "", why);
    return found;
}

/* Checks that two ranks of a job can connect to each other. */
static void probe_ranks(struct hrf_doctor *doctor, const struct hrf_workflow_executor *settings,
                        const char *directory, int64_t n_nodes)
{
    HRF_AUTO_FREE char *engine = NULL, *chdir = NULL, *partition = NULL;
    struct hrf_slurm_output out;
    char why[300] = "";
    if (hrf_launch_find_engine(&engine, NULL) != HRF_OK)
        return;
    chdir = hrf_format("--chdir=%s", directory);
    if (settings->slurm.partition != NULL)
        partition = hrf_format("--partition=%s", settings->slurm.partition);
    const char *argv[20] = { "srun",     "--mpi=pmix",     "--ntasks=2", "--mem=500M",
                             "--time=2", "--immediate=30", "--quiet",    chdir };
    size_t n = 8;
    if (settings->slurm.partition != NULL)
        argv[n++] = partition;
    if (n_nodes > 1)
        argv[n++] = "--nodes=2";
    argv[n++] = engine;
    argv[n++] = "ranks";
    argv[n++] = "--expect";
    argv[n++] = "2";
    const double start = hrf_clock_seconds();
    if (!ask(argv, PROBE_MS, &out, why, sizeof why)) {
        hrf_doctor_add(doctor, HRF_WARNING, "ranks",
                       "jobs with several ranks may not start; jobs with one rank do",
                       "two ranks could not connect to each other: %s", why);
        return;
    }
    hrf_doctor_add(doctor, HRF_GOOD, "ranks", "the ranks of a job share its patches",
                   "%.*s, %.1f s", (int)strcspn(out.output.text, "\n"), out.output.text,
                   hrf_clock_seconds() - start);
    hrf_slurm_output_release(&out);
}

/* Has a job write a file where runs are written: checks that it appears here, and compares the
 * clock of the job's machine with this machine's. */
static void probe_sharing(struct hrf_doctor *doctor, const struct hrf_workflow_executor *settings,
                          const char *directory)
{
    HRF_AUTO_FREE char *absolute = NULL, *path = NULL, *partition = NULL;
    struct hrf_slurm_output out;
    char why[300] = "";
    if (hrf_path_absolute(directory, &absolute, NULL) != HRF_OK)
        return;
    path = hrf_format("%s/.hires-flow-doctor-%ld", absolute, (long)getpid());
    if (settings->slurm.partition != NULL)
        partition = hrf_format("--partition=%s", settings->slurm.partition);
    const char *argv[12] = { "srun",           "--ntasks=1", "--mem=100M", "--time=1",
                             "--immediate=30", "--quiet",    "--chdir=/" };
    size_t n = 7;
    if (settings->slurm.partition != NULL)
        argv[n++] = partition;
    argv[n++] = "touch";
    argv[n++] = path;
    const int64_t before = hrf_clock_wall_ms();
    if (!ask(argv, PROBE_MS, &out, why, sizeof why)) {
        hrf_doctor_add(doctor, HRF_BAD, "sharing", "jobs cannot write results",
                       "a job could not write into '%s': %s", absolute, why);
        return;
    }
    hrf_slurm_output_release(&out);
    struct stat info;
    const int64_t deadline = hrf_clock_wall_ms() + 60000; /* attribute caches of NFS */
    while (stat(path, &info) != 0 && hrf_clock_wall_ms() < deadline)
        hrf_clock_sleep_ms(100);
    const int64_t seen_ms = hrf_clock_wall_ms() - before;
    if (stat(path, &info) != 0) {
        hrf_doctor_add(doctor, HRF_BAD, "sharing",
                       "choose a folder in which every node of the cluster sees the same files",
                       "a file that a job wrote into '%s' does not appear here", absolute);
        return;
    }
    const int64_t then = (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
    const int64_t skew = then < before             ? then - before
                         : then > before + seen_ms ? then - before - seen_ms
                                                   : 0;
    unlink(path);
    hrf_doctor_add(doctor, HRF_GOOD, "sharing", "results of jobs arrive here",
                   "a file that a job wrote into '%s' appears after %.1f s", absolute,
                   (double)seen_ms / 1000);
    hrf_doctor_add(doctor, llabs(skew) > SKEW_MS ? HRF_WARNING : HRF_GOOD, "clocks",
                   "no decision depends on clocks, but times in reports may look odd",
                   "a node's clock differs by %.1f s: it is %s this machine's",
                   (double)llabs(skew) / 1000, skew < 0 ? "behind" : "ahead of");
}

void hrf_doctor_slurm(struct hrf_doctor *doctor, const struct hrf_workflow_executor *settings,
                      const char *directory, bool is_needed, bool probe)
{
    static const char *const version[] = { "sbatch", "--version", NULL };
    struct hrf_slurm_output out;
    char why[300];
    if (!ask(version, HRF_SLURM_DEADLINE_MS, &out, why, sizeof why)) {
        hrf_doctor_add(doctor, is_needed ? HRF_BAD : HRF_GOOD, "slurm",
                       "only runs with executor.type: local work",
                       "not available on this machine: %s", why);
        return;
    }
    hrf_slurm_output_release(&out);
    if (probe)
        fputs("running two short test jobs in this cluster's queue; this takes up to two minutes "
              "(--no-probe skips them)\n",
              stderr);
    look_at_commands(doctor);
    look_at_controller(doctor);
    const int64_t n_nodes = look_at_config(doctor, settings->slurm.partition);
    look_at_fit(doctor, settings);
    if (!probe)
        return;
    probe_sharing(doctor, settings, directory);
    if (has_pmix(doctor))
        probe_ranks(doctor, settings, directory, n_nodes);
}
