/* tune_devices.c - measures the cost of messages between GPUs (tune_devices.h). */
#include "engine/run/tune_devices.h"

#include "base/clock.h"
#include "base/host.h"
#include "base/sort.h"
#include "engine/run/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 256, MAX_ROUNDS = 15, MIN_ROUNDS = 5, MAX_IN_A_ROW = 32, WARM_UP = 2 };
static const double round_bytes = 256e6; /* limit for all exchanges of a round together */

/* A plan that consists of messages only: in step `size * n_pairs + pair` the two ranks of that pair
 * exchange a row. */
struct stage {
    struct hrf_partition partition;
    struct hrf_plan *plan;
    int32_t n_pairs, n_sizes;
};

struct tuner {
    struct hrf_comm *comm;
    struct stage stage;
    struct hrf_peers peers;
    const struct hrf_backend_ops *ops;
    struct hrf_backend *backend;
    struct hrf_device_peers *device;
    void *rows; /* of the largest exchange, both directions together */
};

struct device_location {
    char host[64], address[32];
};

static void pair_of(int32_t pair, int32_t *a, int32_t *b)
{
    *b = 1;
    while (pair >= *b) {
        pair -= *b;
        (*b)++;
    }
    *a = pair;
}

/* The size of the row that the ranks of a step exchange. */
static int64_t row_bytes(const struct stage *s, int32_t step)
{
    return (int64_t)SMALLEST << 2 * (step / s->n_pairs);
}

/* The first rank of a pair owns the first row, the other rank the second one. */
static void add_step(struct stage *s, int32_t i, int32_t me)
{
    int32_t pair[2];
    const int64_t n = row_bytes(s, i);
    struct hrf_step *step = &s->plan->steps[s->plan->n_steps++];
    *step = (struct hrf_step){ .kind = HRF_STEP_KERNEL, .first_transfer = s->plan->n_transfers };
    pair_of(i % s->n_pairs, &pair[0], &pair[1]);
    if (me != pair[0] && me != pair[1])
        return;
    const struct hrf_area rows[2] = { { HRF_MEMORY_ARENA, 0, 1, 1, n, n, n },
                                      { HRF_MEMORY_ARENA, n, 1, 1, n, n, n } };
    const int mine = me == pair[1];
    struct hrf_transfer t = {
        HRF_TRANSFER_SEND, pair[!mine], 2 * i, false, rows[mine], rows[mine]
    };
    hrf_transfers_append(s->plan, &t);
    t.kind = HRF_TRANSFER_RECEIVE;
    t.to = t.from = rows[!mine];
    step->n_transfers = 2;
    hrf_transfers_append(s->plan, &t);
}

static void set_stage(struct stage *s, const struct hrf_comm *comm, int64_t largest_bytes)
{
    s->n_pairs = hrf_tuned_pairs(comm->n_ranks);
    for (int64_t n = SMALLEST; n <= largest_bytes && s->n_sizes < HRF_LINK_MAX_POINTS; n *= 4)
        s->n_sizes++;
    const size_t n = (size_t)(s->n_pairs * s->n_sizes);
    s->plan = hrf_calloc(1, sizeof *s->plan);
    s->plan->steps = hrf_calloc(n, sizeof *s->plan->steps);
    for (int32_t i = 0; i < (int32_t)n; i++)
        add_step(s, i, comm->rank);
    s->partition = (struct hrf_partition){ .n_ranks = comm->n_ranks };
    s->partition.layout = hrf_layout_single();
}

static void release(struct tuner *t, bool together)
{
    const struct hrf_device_ops *device = t->ops != NULL ? t->ops->device : NULL;
    if (t->device != NULL && together)
        hrf_device_peers_ready(t->device);
    hrf_device_peers_leave(t->device);
    hrf_device_peers_destroy(t->device);
    if (t->rows != NULL)
        device->release(t->backend, t->rows);
    if (t->backend != NULL)
        t->ops->destroy(t->backend);
    hrf_peers_release(&t->peers);
    hrf_plan_destroy(t->stage.plan);
}

static enum hrf_status set_up(struct tuner *t, enum hrf_transport transport, int64_t largest_bytes,
                              struct hrf_error *err)
{
    const struct hrf_backend_config config = {
        .n_threads = 1, .device_index = t->comm->is_one_process ? t->comm->rank : -1
    };
    set_stage(&t->stage, t->comm, largest_bytes);
    HRF_TRY(hrf_peers_init(&t->peers, &t->stage.partition, t->comm, t->comm->rank, 0, false, err));
    hrf_peers_bind(&t->peers, t->stage.plan);
    HRF_TRY(hrf_backend_open("cuda", &t->ops, err));
    HRF_TRY(t->ops->create(&config, &t->backend, err));
    if (t->ops->enter != NULL)
        t->ops->enter(t->backend);
    HRF_TRY(t->ops->device->allocate(t->backend, (size_t)largest_bytes * 2, &t->rows, err));
    t->peers.memory[HRF_MEMORY_ARENA] = t->rows;
    return hrf_device_peers_create(&t->peers, t->ops->device, t->backend, transport, NULL,
                                   &t->device, err);
}

/* Runs `n` exchanges one after the other and returns the seconds of one. */
static enum hrf_status play(struct tuner *t, int32_t exchange, int32_t n, double *seconds,
                            struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    for (int32_t i = 0; i < n; i++)
        HRF_TRY(hrf_device_peers_run(t->device, exchange, err));
    HRF_TRY(t->ops->device->mark(t->backend, 0, err));
    HRF_TRY(hrf_device_peers_wait(t->device, 0, err));
    *seconds = (hrf_clock_seconds() - start) / n;
    return HRF_OK;
}

static enum hrf_status measure(struct tuner *t, int32_t exchange, double *median,
                               struct hrf_error *err)
{
    const double n_bytes = (double)row_bytes(&t->stage, exchange);
    const int32_t fitting = round_bytes / n_bytes < MAX_IN_A_ROW ? (int32_t)(round_bytes / n_bytes)
                                                                 : MAX_IN_A_ROW;
    const int32_t in_a_row = fitting > 0 ? fitting : 1;
    const int32_t n_rounds = in_a_row == MAX_IN_A_ROW ? MAX_ROUNDS : MIN_ROUNDS;
    double seconds[MAX_ROUNDS];
    for (int32_t round = -WARM_UP; round < n_rounds; round++)
        HRF_TRY(play(t, exchange, in_a_row, &seconds[round < 0 ? 0 : round], err));
    *median = hrf_median(seconds, (size_t)n_rounds);
    return HRF_OK;
}

/* Measures one pair at a time; all ranks synchronise between pairs. */
static enum hrf_status measure_all(struct tuner *t, double *medians, struct hrf_error *err)
{
    for (int32_t i = 0; i < t->stage.plan->n_steps; i++) {
        struct hrf_vote vote = { .status = HRF_OK };
        int32_t a, b;
        pair_of(i % t->stage.n_pairs, &a, &b);
        medians[i] = -1;
        if (t->comm->rank == a || t->comm->rank == b)
            HRF_TRY(measure(t, i, &medians[i], err));
        HRF_TRY(hrf_agree(t->comm, &vote, err));
    }
    return HRF_OK;
}

static const char *transport_name(const struct tuner *t, enum hrf_transport transport)
{
    return transport == HRF_TRANSPORT_IPC    ? "ipc"
           : transport == HRF_TRANSPORT_NCCL ? "nccl"
                                             : t->comm->ops->name;
}

/* Called on rank 0 with the medians of all ranks; each rank has measured its own pairs. */
static void set_pairs(const struct tuner *t, enum hrf_transport transport, const double *medians,
                      const struct device_location *locations, struct hrf_tuned_pair *pairs)
{
    const struct stage *s = &t->stage;
    for (int32_t p = 0; p < s->n_pairs; p++) {
        int32_t a, b;
        pair_of(p, &a, &b);
        const bool is_same_node = strcmp(locations[a].host, locations[b].host) == 0;
        struct hrf_link link = { .is_gpus = true,
                                 .placement = t->comm->is_one_process ? HRF_PLACEMENT_PROCESS
                                              : is_same_node          ? HRF_PLACEMENT_NODE
                                                                      : HRF_PLACEMENT_NETWORK };
        snprintf(link.comm, sizeof link.comm, "%s", transport_name(t, transport));
        for (int32_t i = 0; i < s->n_sizes; i++) {
            const int32_t e = i * s->n_pairs + p;
            const double seconds = medians[(size_t)a * (size_t)s->plan->n_steps + (size_t)e];
            if (seconds >= 0)
                link.points[link.n_points++] = (struct hrf_link_point){
                    .bytes = (double)row_bytes(s, e), .transit = seconds
                };
        }
        pairs[p] = (struct hrf_tuned_pair){
            a, b, is_same_node && strcmp(locations[a].address, locations[b].address) == 0, link
        };
    }
}

/* Drops results for pairs that used another transport. */
static void forget_others(const struct tuner *t, enum hrf_transport transport, double *medians)
{
    for (int32_t i = 0; i < t->stage.plan->n_steps; i++) {
        int32_t a, b;
        pair_of(i % t->stage.n_pairs, &a, &b);
        if (t->comm->rank == a &&
            strcmp(hrf_device_peers_transport(t->device, b, 1), transport_name(t, transport)) != 0)
            medians[i] = -1;
    }
}

static enum hrf_status tell(struct tuner *t, enum hrf_transport transport, const double *medians,
                            struct hrf_tuned_pair *pairs, struct hrf_error *err)
{
    const size_t n = (size_t)t->comm->n_ranks;
    const size_t n_bytes = (size_t)t->stage.plan->n_steps * sizeof *medians;
    struct device_location own = { .host = "" };
    HRF_AUTO_FREE struct device_location *locations = hrf_calloc(n, sizeof *locations);
    HRF_AUTO_FREE double *all = hrf_calloc(n, n_bytes);
    hrf_process_host_name(own.host, sizeof own.host);
    snprintf(own.address, sizeof own.address, "%s", t->ops->device->address(t->backend));
    HRF_TRY(hrf_gather(t->comm, &own, sizeof own, locations, err));
    HRF_TRY(hrf_gather(t->comm, medians, n_bytes, all, err));
    if (t->comm->rank == 0)
        set_pairs(t, transport, all, locations, pairs);
    return HRF_OK;
}

enum hrf_status hrf_tune_devices(struct hrf_comm *comm, enum hrf_transport transport,
                                 int64_t largest_bytes, struct hrf_tuned_pair *pairs,
                                 struct hrf_error *err)
{
    struct tuner t = { .comm = comm };
    /* With IPC, pairs that cannot share memory use the host, because requiring IPC for every pair
     * would fail for all of them. */
    enum hrf_status status = set_up(
        &t, transport == HRF_TRANSPORT_IPC ? HRF_TRANSPORT_AUTO : transport, largest_bytes, err);
    HRF_AUTO_FREE double *medians = NULL;
    if (status == HRF_OK)
        medians = hrf_calloc((size_t)t.stage.plan->n_steps + 1, sizeof *medians);
    if (status == HRF_OK)
        status = measure_all(&t, medians, err);
    if (status == HRF_OK) {
        forget_others(&t, transport, medians);
        status = tell(&t, transport, medians, pairs, err);
    }
    release(&t, status == HRF_OK);
    return status;
}
