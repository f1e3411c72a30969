/* node_fit.c - compares what a job asks for with what its partition's nodes have (node_fit.h). */
#include "orchestrator/executor/slurm/node_fit.h"

#include "orchestrator/executor/slurm/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True if `name` is an item of the list "main,low,high". */
static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        if (length == n && strncmp(at, name, n) == 0)
            return true;
        at += length;
    }
    return false;
}

/* "gpu:2", "gpu:a100:4(S:0-1),shard:8" -> GPUs of all kinds. */
static int64_t count_gpus(const char *gres)
{
    int64_t n = 0;
    for (const char *at = gres; *at != '\0'; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        size_t end = 0;
        while (end < length && at[end] != '(')
            end++;
        size_t digits = end;
        while (digits > 0 && at[digits - 1] >= '0' && at[digits - 1] <= '9')
            digits--;
        if (strncmp(at, "gpu", 3) == 0 && (at[3] == ':' || length == 3))
            n += digits < end && at[digits - 1] == ':' ? strtoll(at + digits, NULL, 10) : 1;
        at += length;
    }
    return n;
}

static int64_t number_of(const char *line, const char *key)
{
    char word[64];
    return hrf_slurm_find_word(line, key, word, sizeof word) ? strtoll(word, NULL, 10) : 0;
}

void hrf_slurm_nodes_parse(const char *text, const struct hrf_slurm_need *need,
                           struct hrf_slurm_offer *out)
{
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        char partitions[1024], gres[256] = "";
        const char *here = line;
        line += strcspn(line, "\n");
        if (!hrf_slurm_find_word(here, "Partitions", partitions, sizeof partitions) ||
            !is_listed(partitions, out->partition.name))
            continue;
        hrf_slurm_find_word(here, "Gres", gres, sizeof gres);
        int64_t cpus = number_of(here, "CPUEfctv");
        cpus = cpus > 0 ? cpus : number_of(here, "CPUTot");
        const int64_t memory = number_of(here, "RealMemory") << 20, gpus = count_gpus(gres);
        out->n_nodes++;
        out->max_cpus = cpus > out->max_cpus ? cpus : out->max_cpus;
        out->max_gpus = gpus > out->max_gpus ? gpus : out->max_gpus;
        out->max_memory_bytes = memory > out->max_memory_bytes ? memory : out->max_memory_bytes;
        out->n_fitting += need != NULL && need->n_cpus <= cpus && need->n_gpus <= gpus &&
                          need->memory_bytes <= memory;
    }
}

/* Refuses a request: the text names each resource that does not fit, with what is asked for and
 * what the largest nodes have. */
static enum hrf_status node_fit_refuse(const struct hrf_slurm_need *need,
                                       const struct hrf_slurm_offer *offer, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) asked = HRF_STRBUF_INIT;
    HRF_AUTO_RELEASE(hrf_strbuf) there = HRF_STRBUF_INIT;
    HRF_AUTO_RELEASE(hrf_strbuf) keys = HRF_STRBUF_INIT;
    const bool memory = need->memory_bytes > offer->max_memory_bytes;
    const bool cpus = need->n_cpus > offer->max_cpus, gpus = need->n_gpus > offer->max_gpus;
    const bool all = !memory && !cpus && !gpus; /* no node has everything */
    if (memory || all) {
        hrf_strbuf_addf(&asked, "%.3g GiB", (double)need->memory_bytes / 0x1p30);
        hrf_strbuf_addf(&there, "%.3g GiB", (double)offer->max_memory_bytes / 0x1p30);
        hrf_strbuf_adds(&keys, "mem_per_node");
    }
    if (cpus || all) {
        hrf_strbuf_addf(&asked, "%s%lld processors", asked.length > 0 ? " and " : "",
                        (long long)need->n_cpus);
        hrf_strbuf_addf(&there, "%s%lld processors", there.length > 0 ? " and " : "",
                        (long long)offer->max_cpus);
        hrf_strbuf_addf(&keys, "%scpus_per_rank", keys.length > 0 ? ", " : "");
    }
    if (gpus || (all && need->n_gpus > 0)) {
        hrf_strbuf_addf(&asked, "%s%lld GPUs", asked.length > 0 ? " and " : "",
                        (long long)need->n_gpus);
        hrf_strbuf_addf(&there, "%s%lld GPUs", there.length > 0 ? " and " : "",
                        (long long)offer->max_gpus);
        hrf_strbuf_addf(&keys, "%sgpus_per_rank", keys.length > 0 ? ", " : "");
    }
    if (need->n_ranks > 1)
        hrf_strbuf_addf(&keys, "%sranks_per_node", keys.length > 0 ? ", " : "");
    hrf_error_set(err, HRF_E_USER,
                  "%s of a node asked for %lld rank%s, the nodes of %s have at most %s%s; lower %s "
                  "(executor.slurm), or name another partition",
                  asked.text, (long long)need->n_ranks, need->n_ranks == 1 ? "" : "s",
                  offer->partition.name, there.text,
                  all && offer->n_fitting == 0 ? ", and none has all of it"
                  : all                        ? ", and too few have all of it"
                                               : "",
                  keys.text);
    return HRF_E_USER;
}

enum hrf_status hrf_slurm_fit(const struct hrf_slurm_need *need,
                              const struct hrf_slurm_offer *offer, struct hrf_error *err)
{
    const struct hrf_slurm_partition *p = &offer->partition;
    if (p->state[0] != '\0' && strcmp(p->state, "UP") != 0)
        return hrf_error_set(err, HRF_E_USER, "it would wait for ever: partition %s is %s", p->name,
                             p->state);
    if (p->max_minutes > 0 && need->minutes > p->max_minutes)
        return hrf_error_set(err, HRF_E_USER,
                             "it would wait for ever: {executor.slurm.time} is %lld minutes, "
                             "partition %s gives at most %lld",
                             (long long)need->minutes, p->name, (long long)p->max_minutes);
    if (p->n_nodes > 0 && need->n_nodes > p->n_nodes)
        return hrf_error_set(err, HRF_E_USER,
                             "it would wait for ever: {executor.slurm.nodes} is %lld, partition %s "
                             "has %lld",
                             (long long)need->n_nodes, p->name, (long long)p->n_nodes);
    if (p->max_mem_bytes > 0 && need->memory_bytes > p->max_mem_bytes)
        return hrf_error_set(err, HRF_E_USER,
                             "%.3g GiB of a node asked for %lld rank%s, partition %s gives at most "
                             "%.3g GiB; lower {executor.slurm.mem_per_node}",
                             (double)need->memory_bytes / 0x1p30, (long long)need->n_ranks,
                             need->n_ranks == 1 ? "" : "s", p->name,
                             (double)p->max_mem_bytes / 0x1p30);
    if (offer->n_nodes > 0 && offer->n_fitting < need->n_nodes)
        return node_fit_refuse(need, offer, err);
    return HRF_OK;
}

bool hrf_slurm_offer_ask(const char *name, const struct hrf_slurm_need *need,
                         struct hrf_slurm_offer *out)
{
    static const char *const partitions[] = { "scontrol", "show", "partition", "-o", NULL };
    static const char *const nodes[] = { "scontrol", "show", "node", "-o", NULL };
    struct hrf_slurm_output answer;
    *out = (struct hrf_slurm_offer){ .n_nodes = 0 };
    if (!hrf_slurm_ask(partitions, &answer))
        return false;
    const bool found = hrf_slurm_partition_parse(answer.output.text, name, &out->partition);
    hrf_slurm_output_release(&answer);
    if (found && hrf_slurm_ask(nodes, &answer)) {
        hrf_slurm_nodes_parse(answer.output.text, need, out);
        hrf_slurm_output_release(&answer);
    }
    return found;
}

void hrf_slurm_offer_limits(const struct hrf_slurm_offer *offer, struct hrf_slurm_job *job)
{
    const int64_t given = offer->partition.max_mem_bytes, max = offer->max_memory_bytes;
    job->max_minutes = offer->partition.max_minutes;
    job->max_memory_bytes = given > 0 && (max == 0 || given < max) ? given : max;
}

enum hrf_status hrf_slurm_fit_ask(const struct hrf_workflow_executor *settings, const char *kind,
                                  struct hrf_error *err)
{
    const struct hrf_submission submission = { .kind = kind, .exclude = "" };
    struct hrf_slurm_job job = { .settings = settings, .submission = &submission };
    struct hrf_slurm_offer offer;
    if (!hrf_slurm_offer_ask(settings->slurm.partition, NULL, &offer))
        return HRF_OK;
    hrf_slurm_offer_limits(&offer, &job);
    const struct hrf_slurm_need need = hrf_slurm_need_of(&job);
    if (!hrf_slurm_offer_ask(settings->slurm.partition, &need, &offer))
        return HRF_OK;
    return hrf_slurm_fit(&need, &offer, err);
}
