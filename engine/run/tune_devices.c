#include "engine/run/tune_devices.h"

#include "base/clock.h"
#include "base/process.h"
#include "engine/run/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 256, MOST_ROUNDS = 15, LEAST_ROUNDS = 5, MOST_IN_A_ROW = 32, WARM_UP = 2 };
static const double round_bytes = 256e6; /* of a round's exchanges together, at most */

/* A partition of which nothing is computed: exchange `size * n_pairs + pair` is of that pair. Each
 * of the two has one row and needs both. */
struct stage {
    struct hrf_partition partition;
    struct hrf_exchange *exchanges;
    struct hrf_box *boxes;
    int32_t n_pairs, n_sizes;
};

struct tuner {
    struct hrf_comm *comm;
    struct stage stage;
    struct hrf_peers peers;
    const struct hrf_backend_ops *ops;
    struct hrf_backend *backend;
    struct hrf_device_peers *device;
    void *rows; /* of the largest exchange: both */
};

struct place {
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

static enum hrf_status set_stage(struct stage *s, int32_t n_ranks, int64_t largest_bytes,
                                 struct hrf_error *err)
{
    s->n_pairs = hrf_tuned_pairs(n_ranks);
    for (int64_t n = SMALLEST; n <= largest_bytes && s->n_sizes < HRF_LINK_MAX_POINTS; n *= 4)
        s->n_sizes++;
    const size_t n = (size_t)(s->n_pairs * s->n_sizes);
    s->exchanges = hrf_calloc(n, sizeof *s->exchanges);
    s->boxes = hrf_calloc(n * (size_t)n_ranks * 2, sizeof *s->boxes);
    if (s->exchanges == NULL || s->boxes == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu exchanges", n);
    for (int32_t i = 0; i < s->n_pairs * s->n_sizes; i++) {
        int32_t pair[2];
        struct hrf_box *own = s->boxes + (size_t)i * (size_t)n_ranks * 2, *need = own + n_ranks;
        pair_of(i % s->n_pairs, &pair[0], &pair[1]);
        for (int64_t row = 0; row < 2; row++) {
            own[pair[row]] = (struct hrf_box){ { row, 0 }, { row + 1, 1 } };
            need[pair[row]] = (struct hrf_box){ { 0, 0 }, { 2, 1 } };
        }
        s->exchanges[i] = (struct hrf_exchange){ .n_images = 1,
                                                 .channels = (int64_t)SMALLEST
                                                             << 2 * (i / s->n_pairs),
                                                 .element_bytes = 1,
                                                 .source = HRF_NO_EXCHANGE,
                                                 .kept = -1,
                                                 .have = own,
                                                 .local = own,
                                                 .need = need };
    }
    s->partition = (struct hrf_partition){ .n_ranks = n_ranks,
                                           .exchanges = s->exchanges,
                                           .n_exchanges = s->n_pairs * s->n_sizes };
    s->partition.layout = hrf_layout_single();
    return HRF_OK;
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
    hrf_free(t->stage.exchanges);
    hrf_free(t->stage.boxes);
}

static enum hrf_status set_up(struct tuner *t, enum hrf_carrier carrier, int64_t largest_bytes,
                              struct hrf_error *err)
{
    const struct hrf_backend_config config = { .n_threads = 1,
                                               .place = t->comm->is_one_process ? t->comm->rank
                                                                                : -1 };
    HRF_TRY(set_stage(&t->stage, t->comm->n_ranks, largest_bytes, err));
    HRF_TRY(hrf_peers_init(&t->peers, &t->stage.partition, t->comm, t->comm->rank, 0, false, err));
    HRF_TRY(hrf_backend_open("cuda", &t->ops, err));
    HRF_TRY(t->ops->create(&config, &t->backend, err));
    if (t->ops->enter != NULL)
        t->ops->enter(t->backend);
    HRF_TRY(t->ops->device->allocate(t->backend, (size_t)largest_bytes * 2, &t->rows, err));
    return hrf_device_peers_create(&t->peers, t->ops->device, t->backend, carrier, NULL, &t->device,
                                   err);
}

/* `n` exchanges in a row, of which each waits for the one before; seconds of one. */
static enum hrf_status play(struct tuner *t, int32_t exchange, int32_t n, double *seconds,
                            struct hrf_error *err)
{
    const struct hrf_exchange *x = &t->stage.exchanges[exchange];
    char *own = (char *)t->rows + x->local[t->comm->rank].lo[0] * x->channels;
    const double start = hrf_clock_seconds();
    for (int32_t i = 0; i < n; i++) {
        HRF_TRY(hrf_device_peers_begin(t->device, exchange, own, t->rows, false, err));
        HRF_TRY(hrf_device_peers_end(t->device, exchange, t->rows, false, err));
    }
    HRF_TRY(t->ops->device->mark(t->backend, 0, err));
    HRF_TRY(hrf_device_peers_wait(t->device, 0, err));
    *seconds = (hrf_clock_seconds() - start) / n;
    return HRF_OK;
}

static int compare(const void *a, const void *b)
{
    const double u = *(const double *)a, v = *(const double *)b;
    return u < v ? -1 : u > v;
}

static enum hrf_status measure(struct tuner *t, int32_t exchange, double *median,
                               struct hrf_error *err)
{
    const double n_bytes = (double)t->stage.exchanges[exchange].channels;
    const int32_t fitting = round_bytes / n_bytes < MOST_IN_A_ROW ? (int32_t)(round_bytes / n_bytes)
                                                                  : MOST_IN_A_ROW;
    const int32_t in_a_row = fitting > 0 ? fitting : 1;
    const int32_t n_rounds = in_a_row == MOST_IN_A_ROW ? MOST_ROUNDS : LEAST_ROUNDS;
    double seconds[MOST_ROUNDS];
    for (int32_t round = -WARM_UP; round < n_rounds; round++)
        HRF_TRY(play(t, exchange, in_a_row, &seconds[round < 0 ? 0 : round], err));
    qsort(seconds, (size_t)n_rounds, sizeof seconds[0], compare);
    *median = seconds[n_rounds / 2];
    return HRF_OK;
}

/* Each pair by itself; all come together before the next one's turn. */
static enum hrf_status measure_all(struct tuner *t, double *medians, struct hrf_error *err)
{
    for (int32_t i = 0; i < t->stage.partition.n_exchanges; i++) {
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

static const char *carrier_name(const struct tuner *t, enum hrf_carrier carrier)
{
    return carrier == HRF_CARRIER_IPC    ? "ipc"
           : carrier == HRF_CARRIER_NCCL ? "nccl"
                                         : t->comm->ops->name;
}

/* On rank 0, of all ranks' medians (those of its pairs count). */
static void set_pairs(const struct tuner *t, enum hrf_carrier carrier, const double *medians,
                      const struct place *places, struct hrf_tuned_pair *pairs)
{
    const struct stage *s = &t->stage;
    for (int32_t p = 0; p < s->n_pairs; p++) {
        int32_t a, b;
        pair_of(p, &a, &b);
        const bool is_beside = strcmp(places[a].host, places[b].host) == 0;
        struct hrf_link link = { .is_gpus = true,
                                 .placement = t->comm->is_one_process ? HRF_PLACE_PROCESS
                                              : is_beside             ? HRF_PLACE_NODE
                                                                      : HRF_PLACE_NETWORK };
        snprintf(link.comm, sizeof link.comm, "%s", carrier_name(t, carrier));
        for (int32_t i = 0; i < s->n_sizes; i++) {
            const int32_t e = i * s->n_pairs + p;
            const double seconds =
                medians[(size_t)a * (size_t)s->partition.n_exchanges + (size_t)e];
            if (seconds >= 0)
                link.points[link.n_points++] = (struct hrf_link_point){
                    .bytes = (double)s->exchanges[e].channels, .transit = seconds
                };
        }
        pairs[p] = (struct hrf_tuned_pair){
            a, b, is_beside && strcmp(places[a].address, places[b].address) == 0, link
        };
    }
}

/* What another carrier took is not this one's. */
static void forget_others(const struct tuner *t, enum hrf_carrier carrier, double *medians)
{
    for (int32_t i = 0; i < t->stage.partition.n_exchanges; i++) {
        int32_t a, b;
        pair_of(i % t->stage.n_pairs, &a, &b);
        if (t->comm->rank == a &&
            strcmp(hrf_device_peers_carrier(t->device, b, 1), carrier_name(t, carrier)) != 0)
            medians[i] = -1;
    }
}

static enum hrf_status tell(struct tuner *t, enum hrf_carrier carrier, const double *medians,
                            struct hrf_tuned_pair *pairs, struct hrf_error *err)
{
    const size_t n = (size_t)t->comm->n_ranks;
    const size_t n_bytes = (size_t)t->stage.partition.n_exchanges * sizeof *medians;
    struct place own = { .host = "" };
    HRF_AUTO_FREE struct place *places = hrf_calloc(n, sizeof *places);
    HRF_AUTO_FREE double *all = hrf_calloc(n, n_bytes);
    if (places == NULL || all == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the figures of %zu ranks", n);
    hrf_process_host_name(own.host, sizeof own.host);
    snprintf(own.address, sizeof own.address, "%s", t->ops->device->address(t->backend));
    HRF_TRY(hrf_gather(t->comm, &own, sizeof own, places, err));
    HRF_TRY(hrf_gather(t->comm, medians, n_bytes, all, err));
    if (t->comm->rank == 0)
        set_pairs(t, carrier, all, places, pairs);
    return HRF_OK;
}

enum hrf_status hrf_tune_devices(struct hrf_comm *comm, enum hrf_carrier carrier,
                                 int64_t largest_bytes, struct hrf_tuned_pair *pairs,
                                 struct hrf_error *err)
{
    struct tuner t = { .comm = comm };
    /* Pairs that have no memory in common go through the host: an IPC that every pair must have
     * would measure none of the others. */
    enum hrf_status status = set_up(&t, carrier == HRF_CARRIER_IPC ? HRF_CARRIER_AUTO : carrier,
                                    largest_bytes, err);
    HRF_AUTO_FREE double *medians = hrf_calloc((size_t)t.stage.partition.n_exchanges + 1,
                                               sizeof *medians);
    if (status == HRF_OK && medians == NULL)
        status = hrf_error_set(err, HRF_E_NOMEM, "no memory for the figures of a carrier");
    if (status == HRF_OK)
        status = measure_all(&t, medians, err);
    if (status == HRF_OK) {
        forget_others(&t, carrier, medians);
        status = tell(&t, carrier, medians, pairs, err);
    }
    release(&t, status == HRF_OK);
    return status;
}
