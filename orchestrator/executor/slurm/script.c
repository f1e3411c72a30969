/* script.c - writes the batch script and the command lines of sbatch and srun from a workflow's
 * settings. */
#include "orchestrator/executor/slurm/script.h"

#include "base/alloc.h"
#include "orchestrator/executor/slurm/node_fit.h"
#include "orchestrator/executor/slurm/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SIGNAL_LEAD_S: how long before the time limit Slurm sends the warning signal, which may come up
 * to a minute early (sbatch(1), --signal). Short jobs use a quarter of their time. */
enum { DEFAULT_MINUTES = 60, SIGNAL_LEAD_S = 120, DEFAULT_RANK_MIB = 2048 };

void hrf_slurm_name(const char *run_id, int64_t number, char out[96])
{
    snprintf(out, 96, "%s%.40s-%lld", HRF_SLURM_NAME_PREFIX, run_id, (long long)number);
}

int64_t hrf_slurm_minutes(const char *duration)
{
    if (duration == NULL)
        return DEFAULT_MINUTES;
    const int64_t minutes = (hrf_workflow_seconds(duration) + 59) / 60;
    return minutes > 0 ? minutes : 1;
}

static bool has_many_ranks(const char *kind)
{
    return strcmp(kind, "infer") == 0 || strcmp(kind, "network") == 0;
}

int64_t hrf_slurm_ranks(const struct hrf_workflow_executor *settings, const char *kind)
{
    return has_many_ranks(kind) ? settings->slurm.nodes * settings->slurm.ranks_per_node : 1;
}

char *hrf_slurm_directory(int64_t number)
{
    return hrf_format("jobs/array-%04lld", (long long)number);
}

char *hrf_slurm_output_path(int64_t number, int64_t array_index)
{
    return hrf_format("jobs/array-%04lld/%lld.out", (long long)number, (long long)array_index);
}

/* Appends `text` in single quotes, escaped for bash. */
static void add_quoted(const char *text, struct hrf_strbuf *out)
{
    hrf_strbuf_addc(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            hrf_strbuf_adds(out, "'\\''");
        else
            hrf_strbuf_addc(out, *text);
    }
    hrf_strbuf_addc(out, '\'');
}

/* The part of `path` below the run directory; it consists of names that this program chose. */
static const char *below(const char *path, const char *directory)
{
    const size_t n = strlen(directory);
    return strncmp(path, directory, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

void hrf_slurm_script(const struct hrf_slurm_job *job, struct hrf_strbuf *out)
{
    const struct hrf_submission *s = job->submission;
    hrf_strbuf_addf(out, "#!/bin/bash\n# hires-flow: %s, %zu job%s\n", s->kind, s->n_jobs,
                    s->n_jobs == 1 ? "" : "s");
    for (size_t i = 0; i < job->settings->slurm.modules.n_items; i++) {
        hrf_strbuf_adds(out, "module load ");
        add_quoted(job->settings->slurm.modules.items[i], out);
        hrf_strbuf_adds(out, " || exit 75\n");
    }
    for (size_t i = 0; i < job->settings->slurm.prologue.n_items; i++)
        hrf_strbuf_addf(out, "%s\n", job->settings->slurm.prologue.items[i]);
    hrf_strbuf_adds(out, "directory=");
    add_quoted(s->run_directory, out);
    hrf_strbuf_adds(out, "\nspecs=(\n");
    for (size_t i = 0; i < s->n_jobs; i++) {
        hrf_strbuf_adds(out, "    ");
        add_quoted(below(s->spec_paths[i], s->run_directory), out);
        hrf_strbuf_addc(out, '\n');
    }
    hrf_strbuf_adds(out, ")\nexec ");
    add_quoted(job->program, out);
    hrf_strbuf_adds(out, " launch \"$directory/${specs[SLURM_ARRAY_TASK_ID]}\"\n");
}

static void add_format(struct hrf_text_list *list, const char *format, ...) HRF_PRINTF(2, 3);

static void add_format(struct hrf_text_list *list, const char *format, ...)
{
    HRF_AUTO_RELEASE(hrf_strbuf) word = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&word, format, args);
    va_end(args);
    hrf_text_list_add(list, word.text);
}

static void add_text(struct hrf_text_list *list, const char *option, const char *value)
{
    if (value != NULL && value[0] != '\0')
        add_format(list, "%s=%s", option, value);
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return limit > 0 && value > limit ? limit : value;
}

struct hrf_slurm_need hrf_slurm_need_of(const struct hrf_slurm_job *job)
{
    const char *kind = job->submission->kind, *time = job->settings->slurm.time;
    const bool many = has_many_ranks(kind), is_engine = strcmp(kind, "tile") != 0;
    const bool is_on_cpu = !is_engine || strcmp(kind, "head") == 0 || strcmp(kind, "train") == 0 ||
                           strcmp(kind, "network") == 0 || strcmp(kind, "tissue") == 0;
    const int64_t ranks = many ? job->settings->slurm.ranks_per_node : 1;
    const int64_t memory = job->settings->slurm.mem_per_node_bytes;
    const int64_t minutes = hrf_slurm_minutes(time);
    return (struct hrf_slurm_need){
        .n_nodes = many ? job->settings->slurm.nodes : 1,
        .n_ranks = ranks,
        .n_cpus = ranks * (is_engine ? job->settings->slurm.cpus_per_rank : 1),
        .n_gpus = is_on_cpu ? 0 : ranks * job->settings->slurm.gpus_per_rank,
        .memory_bytes = memory > 0 ? memory
                                   : at_most(ranks * DEFAULT_RANK_MIB << 20, job->max_memory_bytes),
        .minutes = time != NULL ? minutes : at_most(minutes, job->max_minutes)
    };
}

static void add_resources(const struct hrf_slurm_job *job, struct hrf_text_list *out)
{
    const struct hrf_submission *s = job->submission;
    const struct hrf_slurm_need need = hrf_slurm_need_of(job);
    const int64_t memory = hrf_state_grow(need.memory_bytes, s->memory_level,
                                          job->max_memory_bytes);
    const int64_t minutes = hrf_state_grow(need.minutes, s->time_level, job->max_minutes);
    const int64_t lead = minutes * 15 < SIGNAL_LEAD_S ? minutes * 15 : SIGNAL_LEAD_S;
    add_format(out, "--nodes=%lld", (long long)need.n_nodes);
    add_format(out, "--ntasks=%lld", (long long)(need.n_nodes * need.n_ranks));
    add_format(out, "--ntasks-per-node=%lld", (long long)need.n_ranks);
    add_format(out, "--cpus-per-task=%lld", (long long)(need.n_cpus / need.n_ranks));
    add_format(out, "--mem=%lldM", (long long)(memory >> 20));
    add_format(out, "--time=%lld", (long long)minutes);
    add_format(out, "--signal=B:USR1@%lld", (long long)lead);
    if (need.n_gpus > 0)
        add_format(out, "--gres=gpu:%lld", (long long)need.n_gpus);
}

static void add_site(const struct hrf_slurm_job *job, struct hrf_text_list *out)
{
    const struct hrf_text_list *options = &job->settings->slurm.options;
    add_text(out, "--partition", job->settings->slurm.partition);
    add_text(out, "--account", job->settings->slurm.account);
    add_text(out, "--qos", job->settings->slurm.qos);
    add_text(out, "--constraint", job->settings->slurm.constraint);
    add_text(out, "--exclude", job->submission->exclude);
    for (size_t i = 0; i < options->n_items; i++)
        hrf_text_list_add(out, options->items[i]);
}

void hrf_slurm_sbatch(const struct hrf_slurm_job *job, struct hrf_text_list *out)
{
    const struct hrf_submission *s = job->submission;
    char name[96], limit[32] = "";
    HRF_AUTO_FREE char *directory = hrf_slurm_directory(s->number);
    hrf_slurm_name(s->run_id, s->number, name);
    if (job->at_once > 0 && (int64_t)s->n_jobs > job->at_once)
        snprintf(limit, sizeof limit, "%%%lld", (long long)job->at_once);
    hrf_text_list_add(out, "sbatch");
    hrf_text_list_add(out, "--parsable");
    add_format(out, "--job-name=%s", name);
    add_format(out, "--comment=hires-flow %s", s->kind);
    add_format(out, "--array=0-%zu%s", s->n_jobs - 1, limit);
    add_format(out, "--chdir=%s", s->run_directory);
    add_format(out, "--output=%s/%%a.out", directory);
    hrf_text_list_add(out, "--open-mode=append");
    hrf_text_list_add(out, "--requeue");
    /* ALL is the environment of sbatch, which hrf_slurm_run() has filtered. A list of names after
     * --export= would make Slurm start the user's login shell on the node to get the other
     * variables, and hold the job if that takes too long (sbatch(1), --get-user-env). */
    hrf_text_list_add(out, "--export=ALL");
    add_resources(job, out);
    add_site(job, out);
    add_format(out, "%s/%s/job.sh", s->run_directory, directory);
}

void hrf_slurm_wrap(const struct hrf_workflow_executor *settings, const char *kind,
                    struct hrf_text_list *out)
{
    const struct hrf_text_list *container = &settings->slurm.container;
    const int64_t ranks = hrf_slurm_ranks(settings, kind);
    if (ranks > 1) {
        hrf_text_list_add(out, "srun");
        hrf_text_list_add(out, "--mpi=pmix");
        hrf_text_list_add(out, "--kill-on-bad-exit=1");
        hrf_text_list_add(out, "--export=ALL");
        add_format(out, "--nodes=%lld", (long long)settings->slurm.nodes);
        add_format(out, "--ntasks=%lld", (long long)ranks);
        add_format(out, "--ntasks-per-node=%lld", (long long)settings->slurm.ranks_per_node);
        add_format(out, "--cpus-per-task=%lld", (long long)settings->slurm.cpus_per_rank);
        if (settings->slurm.gpus_per_rank > 0)
            add_format(out, "--gpus-per-task=%lld", (long long)settings->slurm.gpus_per_rank);
    }
    for (size_t i = 0; i < container->n_items; i++)
        hrf_text_list_add(out, container->items[i]);
}
