/* tune_gpus.c - `tune-comm --device cuda`: between the GPUs of all pairs of ranks, by each carrier.
 */
#include "engine/cli/tune.h"
#include "engine/run/tune_devices.h"

#include <stdio.h>
#include <string.h>

static const struct carrier {
    const char *name;
    enum hrf_carrier carrier;
} carriers[] = {
    { "ipc", HRF_CARRIER_IPC },
    { "mpi", HRF_CARRIER_HOST },
    { "nccl", HRF_CARRIER_NCCL },
};
enum { N_CARRIERS = sizeof carriers / sizeof carriers[0] };

static double seconds_of(const struct hrf_link_point *p)
{
    return p->send + p->transit + p->receive;
}

static void print_pair(const struct hrf_tuned_pair *pair)
{
    printf("%s, ranks %d and %d, same %s%s: both ways at once\n%12s %10s %10s\n", pair->link.comm,
           pair->a, pair->b, hrf_placement_name(pair->link.placement),
           pair->is_one_gpu ? ", one GPU" : "", "bytes", "us", "GB/s a way");
    for (int32_t i = 0; i < pair->link.n_points; i++) {
        const struct hrf_link_point *p = &pair->link.points[i];
        printf("%12.0f %10.2f %10.2f\n", p->bytes, seconds_of(p) * 1e6,
               p->bytes / seconds_of(p) * 1e-9);
    }
}

/* A plan may count on no more than its slowest pair gives. */
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

static enum hrf_status keep(const struct hrf_tuned_pair *pairs, int32_t n, bool is_quiet,
                            struct hrf_machine *machine, struct hrf_error *err)
{
    for (int32_t i = 0; i < n && !is_quiet; i++)
        if (pairs[i].link.n_points > 0)
            print_pair(&pairs[i]);
    for (int p = 0; p < HRF_N_PLACEMENTS; p++) {
        const struct hrf_tuned_pair *slowest = find_slowest(pairs, n, (enum hrf_placement)p);
        if (slowest != NULL)
            HRF_TRY(hrf_tune_keep_link(machine, &slowest->link, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_tune_gpus(const struct hrf_joined *joined, const char *asked,
                              int64_t largest_bytes, bool is_quiet, struct hrf_machine *machine,
                              struct hrf_error *err)
{
    struct hrf_comm *comm = joined->comm;
    if (comm == NULL || comm->n_ranks < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "messages between GPUs are measured between processes, one a GPU: "
                             "mpirun -n 2 hires-flow tune-comm --device cuda --comm auto");
    const int32_t n_pairs = hrf_tuned_pairs(comm->n_ranks);
    HRF_AUTO_FREE struct hrf_tuned_pair *pairs = hrf_calloc((size_t)n_pairs, sizeof *pairs);
    if (pairs == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %d pairs of ranks", n_pairs);
    const bool is_all = strcmp(asked, "auto") == 0;
    for (int i = 0; i < N_CARRIERS; i++) {
        struct hrf_error why = { .text = "" };
        if (!is_all && strcmp(asked, carriers[i].name) != 0)
            continue;
        const enum hrf_status status = hrf_tune_devices(comm, carriers[i].carrier, largest_bytes,
                                                        pairs, &why);
        if (status == HRF_E_UNSUPPORTED && is_all && carriers[i].carrier == HRF_CARRIER_NCCL) {
            if (comm->rank == 0)
                fprintf(stderr, "nccl is left out: %s\n", why.text);
            continue;
        }
        if (status != HRF_OK) {
            *err = why;
            return status;
        }
        if (comm->rank == 0)
            HRF_TRY(keep(pairs, n_pairs, is_quiet, machine, err));
    }
    return HRF_OK;
}
