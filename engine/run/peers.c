/* peers.c - carries out the transfers of a plan in host memory over a comm (peers.h). */
#include "engine/run/peers.h"

#include "base/crash.h"
#include "engine/ir/number.h"

#include <assert.h>
#include <string.h>

int32_t hrf_peers_comm_rank(const struct hrf_peers *peers, int32_t rank)
{
    assert(rank + peers->base >= 0 && rank + peers->base < peers->comm->n_ranks);
    return peers->base +
           (peers->is_mirrored ? hrf_layout_mirror(&peers->partition->layout, rank) : rank);
}

/* ---- reductions ---- */

static float as_float(enum hrf_dtype dtype, const void *x, int64_t i)
{
    if (dtype == HRF_S8)
        return ((const int8_t *)x)[i];
    if (dtype == HRF_U8)
        return ((const uint8_t *)x)[i];
    float value;
    hrf_floats_from(dtype, (const char *)x + i * (int64_t)hrf_dtype_size(dtype), &value, 1);
    return value;
}

static void keep_larger(const struct hrf_reduce *r, void *sum, const void *part)
{
    const size_t size = hrf_dtype_size(r->dtype);
    for (int64_t i = 0; i < r->count; i++)
        if (as_float(r->dtype, part, i) > as_float(r->dtype, sum, i))
            memcpy((char *)sum + (size_t)i * size, (const char *)part + (size_t)i * size, size);
}

static void add(const struct hrf_reduce *r, void *sum, const void *part)
{
    if (r->is_max)
        keep_larger(r, sum, part);
    else if (r->dtype == HRF_S32)
        for (int64_t i = 0; i < r->count; i++)
            ((int32_t *)sum)[i] += ((const int32_t *)part)[i];
    else if (r->dtype == HRF_F32)
        for (int64_t i = 0; i < r->count; i++)
            ((float *)sum)[i] += ((const float *)part)[i];
    else
        for (int64_t i = 0; i < r->count; i++)
            ((double *)sum)[i] += ((const double *)part)[i];
}

/* ---- transfers ---- */

enum hrf_status hrf_peers_send(const struct hrf_peers *peers, int32_t to, int64_t tag,
                               const void *bytes, size_t n_bytes, struct hrf_error *err)
{
    return peers->comm->ops->send(peers->comm, hrf_peers_comm_rank(peers, to),
                                  hrf_peers_tag(peers, tag), bytes, n_bytes, err);
}

enum hrf_status hrf_peers_receive(const struct hrf_peers *peers, int32_t from, int64_t tag,
                                  void *bytes, size_t n_bytes, struct hrf_error *err)
{
    return peers->comm->ops->receive(peers->comm, hrf_peers_comm_rank(peers, from),
                                     hrf_peers_tag(peers, tag), bytes, n_bytes, err);
}

static void copy(const struct hrf_peers *peers, const struct hrf_transfer *t)
{
    const struct hrf_area *from = &t->from, *to = &t->to;
    assert(from->n_images == to->n_images && from->n_rows == to->n_rows &&
           from->row_bytes == to->row_bytes);
    for (int64_t image = 0; image < to->n_images; image++)
        for (int64_t row = 0; row < to->n_rows; row++)
            memcpy(hrf_peers_at(peers, to) + image * to->image_stride + row * to->row_stride,
                   hrf_peers_at(peers, from) + image * from->image_stride + row * from->row_stride,
                   (size_t)to->row_bytes);
}

static void reduce(const struct hrf_peers *peers, const struct hrf_transfer *t)
{
    const void *part = hrf_peers_at(peers, &t->from);
    if (t->is_first)
        memcpy(hrf_peers_at(peers, &t->to), part, (size_t)hrf_area_bytes(&t->to));
    else
        add(&peers->partition->reduces[t->tag / 2], hrf_peers_at(peers, &t->to), part);
}

static enum hrf_status run(struct hrf_peers *peers, const struct hrf_transfer *t,
                           struct hrf_error *err)
{
    struct hrf_comm *comm = peers->comm;
    const bool sends = t->kind == HRF_TRANSFER_SEND;
    char *at = hrf_peers_at(peers, sends ? &t->from : &t->to);
    const size_t n = (size_t)hrf_area_bytes(sends ? &t->from : &t->to);
    switch (t->kind) {
    case HRF_TRANSFER_EXPECT:
        return comm->ops->expect == NULL
                   ? HRF_OK
                   : comm->ops->expect(comm, hrf_peers_comm_rank(peers, t->peer),
                                       hrf_peers_tag(peers, t->tag), at, n, err);
    case HRF_TRANSFER_SEND:
        return hrf_peers_send(peers, t->peer, t->tag, at, n, err);
    case HRF_TRANSFER_RECEIVE:
        return hrf_peers_receive(peers, t->peer, t->tag, at, n, err);
    case HRF_TRANSFER_PACK:
    case HRF_TRANSFER_UNPACK:
    case HRF_TRANSFER_COPY:
        copy(peers, t);
        return HRF_OK;
    case HRF_TRANSFER_REDUCE:
        reduce(peers, t);
        break;
    }
    return HRF_OK;
}

enum hrf_status hrf_peers_run(struct hrf_peers *peers, int32_t step, struct hrf_error *err)
{
    const struct hrf_step *s = &peers->plan->steps[step];
    for (int32_t i = s->first_transfer; i < s->first_transfer + s->n_transfers; i++) {
        const struct hrf_transfer *t = &peers->plan->transfers[i];
        if (peers->comm != NULL)
            peers->comm->use = hrf_transfer_is_reduction(t) ? HRF_COMM_REDUCE : HRF_COMM_EXCHANGE;
        HRF_TRY(run(peers, t, err));
    }
    return HRF_OK;
}

/* ---- making one ---- */

enum hrf_status hrf_peers_init(struct hrf_peers *peers, const struct hrf_partition *partition,
                               struct hrf_comm *comm, int32_t rank, int32_t base, bool is_mirrored,
                               struct hrf_error *err)
{
    *peers = (struct hrf_peers){
        .partition = partition, .comm = comm, .rank = rank, .base = base, .is_mirrored = is_mirrored
    };
    if (partition->n_exchanges > HRF_PEERS_MAX_TAG / 4 ||
        partition->n_reduces > HRF_PEERS_MAX_TAG / 4)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the layout has %d exchanges of halos and %d sums over ranks, and at "
                             "most %d of each are possible: use fewer ranks, or stages= or data=",
                             partition->n_exchanges, partition->n_reduces, HRF_PEERS_MAX_TAG / 4);
    return HRF_OK;
}

void hrf_peers_release(struct hrf_peers *peers)
{
    hrf_free(peers->memory[HRF_MEMORY_MESSAGE]);
    hrf_rank_map_destroy(peers->map);
    peers->memory[HRF_MEMORY_MESSAGE] = NULL;
    peers->map = NULL;
}

void hrf_peers_bind(struct hrf_peers *peers, const struct hrf_plan *plan)
{
    peers->plan = plan;
    peers->memory[HRF_MEMORY_MESSAGE] = hrf_alloc((size_t)plan->message_bytes + 1);
}

enum hrf_status hrf_peers_progress(struct hrf_peers *peers, struct hrf_error *err)
{
    struct hrf_comm *comm = peers->comm;
    if (comm == NULL)
        return HRF_OK;
    atomic_fetch_add(&comm->steps, 1);
    hrf_crash_point("engine.step");
    return comm->ops->progress != NULL ? comm->ops->progress(comm, err) : HRF_OK;
}

/* ---- back ends ---- */

static enum hrf_status send_prepared(void *context, int32_t to, const void *bytes, size_t n_bytes,
                                     struct hrf_error *err)
{
    struct hrf_comm *comm = context;
    comm->use = HRF_COMM_CONTROL;
    return comm->ops->send(comm, to, HRF_TAG_PREPARE, bytes, n_bytes, err);
}

static enum hrf_status receive_prepared(void *context, int32_t from, void *bytes, size_t n_bytes,
                                        struct hrf_error *err)
{
    struct hrf_comm *comm = context;
    comm->use = HRF_COMM_CONTROL;
    return comm->ops->receive(comm, from, HRF_TAG_PREPARE, bytes, n_bytes, err);
}

static void count_step(void *context)
{
    struct hrf_comm *comm = context;
    atomic_fetch_add(&comm->steps, 1);
}

struct hrf_backend_ranks hrf_peers_ranks(struct hrf_comm *comm)
{
    return (struct hrf_backend_ranks){ .context = comm,
                                       .rank = comm->rank,
                                       .n_ranks = comm->n_ranks,
                                       .send = send_prepared,
                                       .receive = receive_prepared,
                                       .progress = count_step };
}
