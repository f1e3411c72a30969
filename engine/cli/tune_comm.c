/* tune_comm.c - `hires-engine tune-comm`: what messages between ranks cost here, kept for planning.
 */
#include "base/host.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/private_directory.h"
#include "engine/cli/cli.h"
#include "engine/planning/known_machine.h"
#include "engine/planning/machine_file.h"
#include "engine/run/agree.h"
#include "engine/run/joined.h"
#include "engine/run/tune.h"
#include "engine/run/tune_devices.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct request {
    const char *comm, *cache, *device;
    int64_t largest;
    bool json;
};

static enum hrf_status measure_alone(int64_t largest_bytes, struct hrf_machine *m,
                                     struct hrf_error *err)
{
    char host[64];
    hrf_process_host_name(host, sizeof host);
    *m = (struct hrf_machine){ .is_one_process = true,
                               .ranks_per_node = hrf_process_cpu_count(),
                               .ports_per_node = 1,
                               .n_nodes = 1,
                               .device = "cpu" };
    snprintf(m->name, sizeof m->name, "%s", host);
    m->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / m->ranks_per_node;
    m->copy_rate = hrf_tune_copy_rate();
    m->rates.bytes = 2 * m->copy_rate;
    HRF_TRY(hrf_tune_loop(largest_bytes, &m->links[0], err));
    m->n_links = 1;
    return HRF_OK;
}

/* Loads what is known about this machine and measures the rest. */
static enum hrf_status find_kept(const struct request *r, struct hrf_machine *m,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(hrf_known_machine_path(r->cache, &path, err));
    return hrf_path_exists(path) ? hrf_machine_read(path, m, err)
                                 : measure_alone(r->largest, m, err);
}

/* Replaces an earlier result for the same transport, placement and kind of memory. */
static enum hrf_status keep_link(struct hrf_machine *m, const struct hrf_link *link,
                                 struct hrf_error *err)
{
    int32_t at = 0;
    while (at < m->n_links &&
           (strcmp(m->links[at].comm, link->comm) != 0 ||
            m->links[at].placement != link->placement || m->links[at].is_gpus != link->is_gpus))
        at++;
    if (at == HRF_MACHINE_MAX_LINKS)
        return hrf_error_set(err, HRF_E_USER,
                             "the table is full (%d links); delete it to start again",
                             HRF_MACHINE_MAX_LINKS);
    m->n_links += at == m->n_links;
    m->links[at] = *link;
    return HRF_OK;
}

/* ---- ranks that are processes ---- */

/* Finds the first rank on rank 0's machine and the first one on another machine; -1: none. The
 * result is the same on every rank. */
static enum hrf_status find_partners(struct hrf_comm *comm, int32_t partners[HRF_N_PLACEMENTS],
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE bool *is_same_node = hrf_calloc((size_t)comm->n_ranks, sizeof *is_same_node);
    HRF_TRY(hrf_find_same_node(comm, is_same_node, err));
    for (int p = 0; p < HRF_N_PLACEMENTS; p++)
        partners[p] = -1;
    for (int32_t i = comm->n_ranks - 1; i > 0; i--)
        partners[is_same_node[i] ? HRF_PLACEMENT_NODE : HRF_PLACEMENT_NETWORK] = i;
    return hrf_broadcast(comm, partners, HRF_N_PLACEMENTS * sizeof partners[0], err);
}

static enum hrf_status measure_processes(const struct request *r, const struct hrf_joined *joined,
                                         struct hrf_machine *m, struct hrf_error *err)
{
    int32_t partners[HRF_N_PLACEMENTS];
    if (joined->comm->n_ranks < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "messages need two ranks: mpirun -n 2 hires-flow tune-comm --comm mpi "
                             "on one machine, srun --mpi=pmix -N 2 -n 3 ... also between two");
    HRF_TRY(find_partners(joined->comm, partners, err));
    for (int p = HRF_PLACEMENT_NODE; p <= HRF_PLACEMENT_NETWORK; p++) {
        struct hrf_comm *pair;
        struct hrf_link link;
        const bool plays = joined->comm->rank == 0 || joined->comm->rank == partners[p];
        if (partners[p] < 0)
            continue;
        HRF_TRY(joined->mpi->group(joined->comm, plays ? 0 : -1, &pair, err));
        if (pair != NULL)
            HRF_TRY(hrf_tune_link(pair, (enum hrf_placement)p, r->largest, &link, err));
        if (joined->comm->rank == 0)
            HRF_TRY(keep_link(m, &link, err));
    }
    return HRF_OK;
}

/* ---- GPUs ---- */

static const struct transport {
    const char *name;
    enum hrf_transport transport;
} transports[] = {
    { "ipc", HRF_TRANSPORT_IPC },
    { "mpi", HRF_TRANSPORT_HOST },
    { "nccl", HRF_TRANSPORT_NCCL },
};
enum { N_TRANSPORTS = sizeof transports / sizeof transports[0] };

static double seconds_of(const struct hrf_link_point *p)
{
    return p->send + p->transit + p->receive;
}

static void print_pair(const struct hrf_tuned_pair *pair)
{
    printf("%s, ranks %d and %d, same %s%s: in both directions at once\n%12s %10s %10s\n",
           pair->link.comm, pair->a, pair->b, hrf_placement_name(pair->link.placement),
           pair->is_one_gpu ? ", one GPU" : "", "bytes", "us", "GB/s a way");
    for (int32_t i = 0; i < pair->link.n_points; i++) {
        const struct hrf_link_point *p = &pair->link.points[i];
        printf("%12.0f %10.2f %10.2f\n", p->bytes, seconds_of(p) * 1e6,
               p->bytes / seconds_of(p) * 1e-9);
    }
}

/* A plan must work with the slowest pair. */
static const struct hrf_tuned_pair *find_slowest(const struct hrf_tuned_pair *pairs, int32_t n,
                                                 enum hrf_placement placement)
{
    const struct hrf_tuned_pair *slowest = NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_tuned_pair *p = &pairs[i];
        const int32_t last = p->link.n_points - 1;
        if (last < 0 || p->link.placement != placement)
            continue;
        const bool is_rather = slowest == NULL || (slowest->is_one_gpu && !p->is_one_gpu);
        if (is_rather ||
            (slowest->is_one_gpu == p->is_one_gpu &&
             seconds_of(&p->link.points[last]) > seconds_of(&slowest->link.points[last])))
            slowest = p;
    }
    return slowest;
}

static enum hrf_status keep_slowest(const struct hrf_tuned_pair *pairs, int32_t n, bool is_quiet,
                                    struct hrf_machine *machine, struct hrf_error *err)
{
    for (int32_t i = 0; i < n && !is_quiet; i++)
        if (pairs[i].link.n_points > 0)
            print_pair(&pairs[i]);
    for (int p = 0; p < HRF_N_PLACEMENTS; p++) {
        const struct hrf_tuned_pair *slowest = find_slowest(pairs, n, (enum hrf_placement)p);
        if (slowest != NULL)
            HRF_TRY(keep_link(machine, &slowest->link, err));
    }
    return HRF_OK;
}

/* Measures between the GPUs of all pairs of ranks: by every transport (`asked` is "auto"), or by
 * one, which must then be possible. Prints the result of each pair unless `is_quiet`. For each
 * placement the slowest pair is stored, preferably of ranks with different GPUs. */
static enum hrf_status tune_gpus(const struct hrf_joined *joined, const char *asked,
                                 int64_t largest_bytes, bool is_quiet, struct hrf_machine *machine,
                                 struct hrf_error *err)
{
    struct hrf_comm *comm = joined->comm;
    if (comm == NULL || comm->n_ranks < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "messages between GPUs are measured between processes with one GPU "
                             "each: mpirun -n 2 hires-flow tune-comm --device cuda --comm auto");
    const int32_t n_pairs = hrf_tuned_pairs(comm->n_ranks);
    HRF_AUTO_FREE struct hrf_tuned_pair *pairs = hrf_calloc((size_t)n_pairs, sizeof *pairs);
    const bool is_all = strcmp(asked, "auto") == 0;
    for (int i = 0; i < N_TRANSPORTS; i++) {
        struct hrf_error why = { .text = "" };
        if (!is_all && strcmp(asked, transports[i].name) != 0)
            continue;
        const enum hrf_status status = hrf_tune_devices(comm, transports[i].transport,
                                                        largest_bytes, pairs, &why);
        if (status == HRF_E_UNSUPPORTED && is_all &&
            transports[i].transport == HRF_TRANSPORT_NCCL) {
            if (comm->rank == 0)
                fprintf(stderr, "NCCL is skipped: %s\n", why.text);
            continue;
        }
        if (status != HRF_OK) {
            *err = why;
            return status;
        }
        if (comm->rank == 0)
            HRF_TRY(keep_slowest(pairs, n_pairs, is_quiet, machine, err));
    }
    return HRF_OK;
}

/* ---- the table ---- */

static void print_text(const struct hrf_machine *m, const char *path)
{
    printf("%s: %d ranks, copies %.1f GB/s\n", m->name, m->ranks_per_node, m->copy_rate * 1e-9);
    for (int32_t i = 0; i < m->n_links; i++) {
        const struct hrf_link *link = &m->links[i];
        printf("%s%s, same %s: time of a message in microseconds\n%12s %10s %10s %10s %10s\n",
               link->comm, link->is_gpus ? " between GPUs" : "",
               hrf_placement_name(link->placement), "bytes", "send", "transit", "receive", "GB/s");
        for (int32_t k = 0; k < link->n_points; k++) {
            const struct hrf_link_point *p = &link->points[k];
            const double all = p->send + p->transit + p->receive;
            printf("%12.0f %10.2f %10.2f %10.2f %10.2f\n", p->bytes, p->send * 1e6,
                   p->transit * 1e6, p->receive * 1e6, p->bytes / all * 1e-9);
        }
    }
    printf("kept in %s\n", path);
}

static enum hrf_status keep(const struct hrf_machine *m, const char *cache, bool as_json,
                            struct hrf_error *err)
{
    HRF_AUTO_JSON json = hrf_machine_json(m);
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(hrf_known_machine_path(cache, &path, err));
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    HRF_TRY(hrf_private_directory_open(directory, err));
    HRF_TRY(hrf_json_write_file(path, json, err));
    if (as_json)
        hrf_json_print(json);
    else
        print_text(m, path);
    return HRF_OK;
}

static enum hrf_status tune(const void *context, const struct hrf_joined *joined,
                            struct hrf_error *err)
{
    const struct request *r = context;
    struct hrf_machine m = { .n_links = 0 };
    if (hrf_joined_is_first(joined))
        HRF_TRY(find_kept(r, &m, err));
    if (r->device != NULL) {
        HRF_TRY(
            tune_gpus(joined, r->comm != NULL ? r->comm : "auto", r->largest, r->json, &m, err));
    } else if (joined->comm != NULL) {
        HRF_TRY(measure_processes(r, joined, &m, err));
    } else {
        struct hrf_machine fresh;
        HRF_TRY(measure_alone(r->largest, &fresh, err));
        for (int32_t i = 0; i < m.n_links; i++) /* other transports' stay */
            if (strcmp(m.links[i].comm, "loop") != 0 || m.links[i].is_gpus)
                HRF_TRY(keep_link(&fresh, &m.links[i], err));
        m = fresh;
    }
    return hrf_joined_is_first(joined) ? keep(&m, r->cache, r->json, err) : HRF_OK;
}

int hrf_engine_tune_comm(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .largest = 0 };
    const struct hrf_option options[] = {
        { "comm", "C",
          "transport: between threads (loop, default) or between processes started by mpirun or "
          "srun (mpi); between GPUs auto (default), mpi, ipc or nccl",
          HRF_OPTION(&r.comm) },
        { "device", "cuda", "measure between GPUs, one for each process", HRF_OPTION(&r.device) },
        { "largest", "BYTES", "the largest message (default 16 MiB; between GPUs 256 MiB)",
          HRF_OPTION_NUMBER(&r.largest, 256, 0x1p32) },
        { "cache", "DIR", "folder for the table (default: the user's cache)",
          HRF_OPTION(&r.cache) },
        { "json", NULL, "print the table as JSON: a machine file", HRF_OPTION(&r.json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    const bool is_cuda = r.device != NULL && strcmp(r.device, "cuda") == 0;
    if (r.largest == 0)
        r.largest = (int64_t)(is_cuda ? 256 : 16) << 20;
    if (r.device != NULL && !is_cuda)
        status = hrf_error_set(&err, HRF_E_USER, "--device must be cuda, or not given");
    if (status == HRF_OK)
        status = hrf_joined_run(r.comm == NULL && is_cuda ? "auto" : r.comm, "auto", tune, &r,
                                &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
