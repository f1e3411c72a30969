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
    return strcmp(kind, "infer") == 0;
}

int64_t hrf_slurm_ranks(const struct hrf_workflow_executor *settings, const char *kind)
{
    return has_many_ranks(kind) ? settings->slurm.nodes * settings->slurm.ranks_per_node : 1;
}

char *hrf_slurm_directory(int64_t number)
{
    return hrf_format("jobs/array-%04lld", (long long)number);
}

char *hrf_slurm_output_path(int64_t number, int64_t place)
{
    return hrf_format("jobs/array-%04lld/%lld.out", (long long)number, (long long)place);
}

void hrf_slurm_quote(const char *text, struct hrf_strbuf *out)
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
        hrf_slurm_quote(job->settings->slurm.modules.items[i], out);
        hrf_strbuf_adds(out, " || exit 75\n");
    }
    for (size_t i = 0; i < job->settings->slurm.prologue.n_items; i++)
        hrf_strbuf_addf(out, "%s\n", job->settings->slurm.prologue.items[i]);
    hrf_strbuf_adds(out, "directory=");
    hrf_slurm_quote(s->run_directory, out);
    hrf_strbuf_adds(out, "\nspecs=(\n");
    for (size_t i = 0; i < s->n_jobs; i++) {
        hrf_strbuf_adds(out, "    ");
        hrf_slurm_quote(below(s->spec_paths[i], s->run_directory), out);
        hrf_strbuf_addc(out, '\n');
    }
    hrf_strbuf_adds(out, ")\nexec ");
    hrf_slurm_quote(job->program, out);
    hrf_strbuf_adds(out, " launch \"$directory/${specs[SLURM_ARRAY_TASK_ID]}\"\n");
}

static enum hrf_status add(struct hrf_text_list *list, struct hrf_error *err, const char *format,
                           ...) HRF_PRINTF(3, 4);

static enum hrf_status add(struct hrf_text_list *list, struct hrf_error *err, const char *format,
                           ...)
{
    struct hrf_strbuf word = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&word, format, args);
    va_end(args);
    enum hrf_status status = hrf_strbuf_status(&word, err);
    if (status == HRF_OK)
        status = hrf_text_list_add(list, word.text, err);
    hrf_strbuf_release(&word);
    return status;
}

static enum hrf_status add_text(struct hrf_text_list *list, const char *option, const char *value,
                                struct hrf_error *err)
{
    return value != NULL && value[0] != '\0' ? add(list, err, "%s=%s", option, value) : HRF_OK;
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
                           strcmp(kind, "tissue") == 0;
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

static enum hrf_status add_resources(const struct hrf_slurm_job *job, struct hrf_text_list *out,
                                     struct hrf_error *err)
{
    const struct hrf_submission *s = job->submission;
    const struct hrf_slurm_need need = hrf_slurm_need_of(job);
    const int64_t memory = hrf_state_grow(need.memory_bytes, s->memory_level,
                                          job->max_memory_bytes);
    const int64_t minutes = hrf_state_grow(need.minutes, s->time_level, job->max_minutes);
    const int64_t lead = minutes * 15 < SIGNAL_LEAD_S ? minutes * 15 : SIGNAL_LEAD_S;
    HRF_TRY(add(out, err, "--nodes=%lld", (long long)need.n_nodes));
    HRF_TRY(add(out, err, "--ntasks=%lld", (long long)(need.n_nodes * need.n_ranks)));
    HRF_TRY(add(out, err, "--ntasks-per-node=%lld", (long long)need.n_ranks));
    HRF_TRY(add(out, err, "--cpus-per-task=%lld", (long long)(need.n_cpus / need.n_ranks)));
    HRF_TRY(add(out, err, "--mem=%lldM", (long long)(memory >> 20)));
    HRF_TRY(add(out, err, "--time=%lld", (long long)minutes));
    HRF_TRY(add(out, err, "--signal=B:USR1@%lld", (long long)lead));
    return need.n_gpus > 0 ? add(out, err, "--gres=gpu:%lld", (long long)need.n_gpus) : HRF_OK;
}

static enum hrf_status add_site(const struct hrf_slurm_job *job, struct hrf_text_list *out,
                                struct hrf_error *err)
{
    const struct hrf_text_list *options = &job->settings->slurm.options;
    HRF_TRY(add_text(out, "--partition", job->settings->slurm.partition, err));
    HRF_TRY(add_text(out, "--account", job->settings->slurm.account, err));
    HRF_TRY(add_text(out, "--qos", job->settings->slurm.qos, err));
    HRF_TRY(add_text(out, "--constraint", job->settings->slurm.constraint, err));
    HRF_TRY(add_text(out, "--exclude", job->submission->exclude, err));
    for (size_t i = 0; i < options->n_items; i++)
        HRF_TRY(hrf_text_list_add(out, options->items[i], err));
    return HRF_OK;
}

enum hrf_status hrf_slurm_sbatch(const struct hrf_slurm_job *job, struct hrf_text_list *out,
                                 struct hrf_error *err)
{
    const struct hrf_submission *s = job->submission;
    char name[96], limit[32] = "";
    HRF_AUTO_FREE char *directory = hrf_slurm_directory(s->number);
    HRF_CHECK_MEMORY(directory != NULL, err, "no memory for a path");
    hrf_slurm_name(s->run_id, s->number, name);
    if (job->at_once > 0 && (int64_t)s->n_jobs > job->at_once)
        snprintf(limit, sizeof limit, "%%%lld", (long long)job->at_once);
    HRF_TRY(hrf_text_list_add(out, "sbatch", err));
    HRF_TRY(hrf_text_list_add(out, "--parsable", err));
    HRF_TRY(add(out, err, "--job-name=%s", name));
    HRF_TRY(add(out, err, "--comment=hires-flow %s", s->kind));
    HRF_TRY(add(out, err, "--array=0-%zu%s", s->n_jobs - 1, limit));
    HRF_TRY(add(out, err, "--chdir=%s", s->run_directory));
    HRF_TRY(add(out, err, "--output=%s/%%a.out", directory));
    HRF_TRY(hrf_text_list_add(out, "--open-mode=append", err));
    HRF_TRY(hrf_text_list_add(out, "--requeue", err));
    /* ALL is the environment of sbatch, which hrf_slurm_run() has filtered. A list of names after
     * --export= would make Slurm start the user's login shell on the node to get the other
     * variables, and hold the job if that takes too long (sbatch(1), --get-user-env). */
    HRF_TRY(hrf_text_list_add(out, "--export=ALL", err));
    HRF_TRY(add_resources(job, out, err));
    HRF_TRY(add_site(job, out, err));
    return add(out, err, "%s/%s/job.sh", s->run_directory, directory);
}

enum hrf_status hrf_slurm_wrap(const struct hrf_workflow_executor *settings, const char *kind,
                               struct hrf_text_list *out, struct hrf_error *err)
{
    const struct hrf_text_list *container = &settings->slurm.container;
    const int64_t ranks = hrf_slurm_ranks(settings, kind);
    if (ranks > 1) {
        HRF_TRY(hrf_text_list_add(out, "srun", err));
        HRF_TRY(hrf_text_list_add(out, "--mpi=pmix", err));
        HRF_TRY(hrf_text_list_add(out, "--kill-on-bad-exit=1", err));
        HRF_TRY(hrf_text_list_add(out, "--export=ALL", err));
        HRF_TRY(add(out, err, "--nodes=%lld", (long long)settings->slurm.nodes));
        HRF_TRY(add(out, err, "--ntasks=%lld", (long long)ranks));
        HRF_TRY(add(out, err, "--ntasks-per-node=%lld", (long long)settings->slurm.ranks_per_node));
        HRF_TRY(add(out, err, "--cpus-per-task=%lld", (long long)settings->slurm.cpus_per_rank));
        if (settings->slurm.gpus_per_rank > 0)
            HRF_TRY(
                add(out, err, "--gpus-per-task=%lld", (long long)settings->slurm.gpus_per_rank));
    }
    for (size_t i = 0; i < container->n_items; i++)
        HRF_TRY(hrf_text_list_add(out, container->items[i], err));
    return HRF_OK;
}
