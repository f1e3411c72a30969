#include "engine/run/peers.h"

#include "base/crash.h"
#include "engine/ir/number.h"

#include <string.h>

/* ---- who is who ---- */

int32_t hrf_peers_comm_rank(const struct hrf_peers *peers, int32_t rank)
{
    const struct hrf_layout_plan *l = &peers->partition->layout;
    const int32_t n = hrf_layout_stage_ranks(l);
    if (peers->is_mirrored)
        rank = (l->stages - 1 - rank / n) * n + rank % n;
    return peers->base + rank;
}

/* One direction's exchanges and reductions have tags of their own. Messages of one tag arrive in
 * order, so micro-batches need not be told apart. */
int64_t hrf_peers_tag(const struct hrf_peers *peers, bool is_reduce, int32_t index)
{
    return ((int64_t)index * 2 + is_reduce) * 2 + peers->is_mirrored;
}

/* ---- boxes of pixels ---- */

struct picture {
    const struct hrf_exchange *exchange;
    struct hrf_box box; /* what lies there */
    char *pixels;
};

static int64_t pixel_bytes(const struct hrf_exchange *x)
{
    return x->channels * (int64_t)x->element_bytes;
}

static char *pixel(const struct picture *p, int64_t image, int64_t row, int64_t column)
{
    const int64_t rows = p->box.hi[0] - p->box.lo[0], columns = p->box.hi[1] - p->box.lo[1];
    return p->pixels + ((image * rows + row - p->box.lo[0]) * columns + column - p->box.lo[1]) *
                           pixel_bytes(p->exchange);
}

/* The part lies in the picture in one piece. */
static bool is_in_one_piece(const struct picture *p, const struct hrf_box *part)
{
    return p->exchange->n_images == 1 &&
           (part->hi[0] - part->lo[0] == 1 ||
            (part->lo[1] == p->box.lo[1] && part->hi[1] == p->box.hi[1]));
}

static void copy_part(const struct picture *to, const struct picture *from,
                      const struct hrf_box *part)
{
    const size_t n = (size_t)((part->hi[1] - part->lo[1]) * pixel_bytes(to->exchange));
    for (int64_t image = 0; image < to->exchange->n_images; image++)
        for (int64_t row = part->lo[0]; row < part->hi[0]; row++) {
            char *target = pixel(to, image, row, part->lo[1]);
            const char *source = pixel(from, image, row, part->lo[1]);
            if (target != source)
                memcpy(target, source, n);
        }
}

static enum hrf_status send_part(struct hrf_peers *peers, const struct picture *from, int32_t to,
                                 const struct hrf_box *part, int64_t tag, struct hrf_error *err)
{
    const size_t n = (size_t)hrf_exchange_bytes(from->exchange, part);
    const void *bytes = pixel(from, 0, part->lo[0], part->lo[1]);
    if (!is_in_one_piece(from, part)) {
        const struct picture packed = { from->exchange, *part, peers->scratch };
        copy_part(&packed, from, part);
        bytes = peers->scratch;
    }
    return peers->comm->ops->send(peers->comm, hrf_peers_comm_rank(peers, to), tag, bytes, n, err);
}

static enum hrf_status receive_part(struct hrf_peers *peers, const struct picture *to, int32_t from,
                                    const struct hrf_box *part, int64_t tag, struct hrf_error *err)
{
    const size_t n = (size_t)hrf_exchange_bytes(to->exchange, part);
    const bool direct = is_in_one_piece(to, part);
    void *bytes = direct ? pixel(to, 0, part->lo[0], part->lo[1]) : peers->scratch;
    HRF_TRY(peers->comm->ops->receive(peers->comm, hrf_peers_comm_rank(peers, from), tag, bytes, n,
                                      err));
    if (!direct) {
        const struct picture packed = { to->exchange, *part, peers->scratch };
        copy_part(to, &packed, part);
    }
    return HRF_OK;
}

static void set_use(struct hrf_peers *peers, enum hrf_comm_use use)
{
    if (peers->comm != NULL) /* bands have none */
        peers->comm->use = use;
}

/* Tells the comm early where what comes in one piece is to lie. */
static enum hrf_status expect_parts(struct hrf_peers *peers, const struct picture *to, int64_t tag,
                                    struct hrf_error *err)
{
    const struct hrf_exchange *x = to->exchange;
    struct hrf_comm *comm = peers->comm;
    for (int32_t q = 0; q < peers->partition->n_ranks; q++) {
        const struct hrf_box part = hrf_exchange_sent(x, q, peers->rank);
        if (!hrf_box_is_empty(&part) && is_in_one_piece(to, &part))
            HRF_TRY(comm->ops->expect(comm, hrf_peers_comm_rank(peers, q), tag,
                                      pixel(to, 0, part.lo[0], part.lo[1]),
                                      (size_t)hrf_exchange_bytes(x, &part), err));
    }
    return HRF_OK;
}

/* Bands: kept rows come before the new ones, and what later bands need of both stays. Rows only
 * move towards the beginning, so each can be copied by itself. */
static void move_kept(const struct hrf_peers *peers, int32_t exchange, const struct picture *from,
                      const struct picture *to)
{
    const struct hrf_exchange *x = to->exchange;
    const struct hrf_kept_moves m = hrf_kept_moves(peers->partition, exchange, peers->rank);
    const struct hrf_box whole = hrf_box_whole(&peers->partition->graph->values[x->value].shape);
    struct picture places[2];
    for (int i = 0; i < 2; i++) {
        places[i] = (struct picture){
            x, whole, (char *)peers->kept + peers->partition->kept[x->kept].offset
        };
        places[i].box.lo[0] = m.place_lo[i];
        places[i].box.hi[0] = m.place_lo[i] + m.room;
    }
    if (!hrf_box_is_empty(&m.loaded))
        copy_part(to, &places[0], &m.loaded);
    if (!hrf_box_is_empty(&m.stays))
        copy_part(&places[1], &places[0], &m.stays);
    if (!hrf_box_is_empty(&m.added))
        copy_part(&places[1], from, &m.added);
}

enum hrf_status hrf_peers_begin(struct hrf_peers *peers, int32_t exchange, const void *in,
                                void *out, struct hrf_error *err)
{
    const struct hrf_exchange *x = &peers->partition->exchanges[exchange];
    const int32_t me = peers->rank, n = peers->partition->n_ranks;
    const struct picture from = { x, x->local[me], (char *)(uintptr_t)in };
    const struct picture to = { x, x->need[me], out };
    const int64_t tag = hrf_peers_tag(peers, false, exchange);
    set_use(peers, HRF_COMM_EXCHANGE);
    if (peers->comm != NULL && peers->comm->ops->expect != NULL && hrf_exchange_takes(x, me))
        HRF_TRY(expect_parts(peers, &to, tag, err));
    for (int32_t i = 1; i < n; i++) { /* not all to the same rank first */
        const int32_t q = (me + i) % n;
        const struct hrf_box part = hrf_exchange_sent(x, me, q);
        if (!hrf_box_is_empty(&part))
            HRF_TRY(send_part(peers, &from, q, &part, tag, err));
    }
    if (x->kept >= 0)
        move_kept(peers, exchange, &from, &to);
    if (!hrf_exchange_takes(x, me))
        return HRF_OK;
    const struct hrf_box kept = hrf_box_intersect(&x->local[me], &x->need[me]);
    if (!hrf_box_is_empty(&kept))
        copy_part(&to, &from, &kept);
    return HRF_OK;
}

enum hrf_status hrf_peers_end(struct hrf_peers *peers, int32_t exchange, void *out,
                              struct hrf_error *err)
{
    const struct hrf_exchange *x = &peers->partition->exchanges[exchange];
    const struct picture to = { x, x->need[peers->rank], out };
    const int64_t tag = hrf_peers_tag(peers, false, exchange);
    set_use(peers, HRF_COMM_EXCHANGE);
    for (int32_t q = 0; q < peers->partition->n_ranks && hrf_exchange_takes(x, peers->rank); q++) {
        const struct hrf_box part = hrf_exchange_sent(x, q, peers->rank);
        if (!hrf_box_is_empty(&part))
            HRF_TRY(receive_part(peers, &to, q, &part, tag, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_peers_exchange(struct hrf_peers *peers, int32_t exchange, const void *in,
                                   void *out, struct hrf_error *err)
{
    HRF_TRY(hrf_peers_begin(peers, exchange, in, out, err));
    return hrf_peers_end(peers, exchange, out, err);
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
    else
        for (int64_t i = 0; i < r->count; i++)
            ((double *)sum)[i] += ((const double *)part)[i];
}

enum hrf_status hrf_peers_reduce(struct hrf_peers *peers, int32_t reduce, const void *in, void *out,
                                 struct hrf_error *err)
{
    const struct hrf_reduce *r = &peers->partition->reduces[reduce];
    const size_t n_bytes = (size_t)r->count * hrf_dtype_size(r->dtype);
    const int64_t tag = hrf_peers_tag(peers, true, reduce);
    bool is_first = true;
    set_use(peers, HRF_COMM_REDUCE);
    for (int32_t q = r->first; q < r->first + r->n && in != NULL; q++)
        if (q != peers->rank)
            HRF_TRY(peers->comm->ops->send(peers->comm, hrf_peers_comm_rank(peers, q), tag, in,
                                           n_bytes, err));
    for (int32_t q = r->first; q < r->first + r->n; q++) {
        const void *part = in;
        if (!r->gives[q])
            continue;
        if (q != peers->rank) {
            HRF_TRY(peers->comm->ops->receive(peers->comm, hrf_peers_comm_rank(peers, q), tag,
                                              peers->scratch, n_bytes, err));
            part = peers->scratch;
        }
        if (is_first)
            memcpy(out, part, n_bytes);
        else
            add(r, out, part);
        is_first = false;
    }
    return HRF_OK;
}

/* ---- making one ---- */

static size_t largest_message(const struct hrf_partition *p, int32_t rank)
{
    int64_t largest = 1;
    for (int32_t e = 0; e < p->n_exchanges; e++)
        for (int32_t q = 0; q < p->n_ranks; q++) {
            const struct hrf_box parts[] = { hrf_exchange_sent(&p->exchanges[e], rank, q),
                                             hrf_exchange_sent(&p->exchanges[e], q, rank) };
            for (int i = 0; i < 2; i++) {
                const int64_t n = hrf_exchange_bytes(&p->exchanges[e], &parts[i]);
                largest = n > largest ? n : largest;
            }
        }
    for (int32_t i = 0; i < p->n_reduces; i++) {
        const int64_t n = p->reduces[i].count * (int64_t)hrf_dtype_size(p->reduces[i].dtype);
        largest = n > largest ? n : largest;
    }
    return (size_t)largest;
}

enum hrf_status hrf_peers_init(struct hrf_peers *peers, const struct hrf_partition *partition,
                               struct hrf_comm *comm, int32_t rank, int32_t base, bool is_mirrored,
                               struct hrf_error *err)
{
    *peers = (struct hrf_peers){ .partition = partition,
                                 .comm = comm,
                                 .rank = rank,
                                 .base = base,
                                 .is_mirrored = is_mirrored,
                                 .scratch_bytes = largest_message(partition, rank) };
    if (partition->n_exchanges > HRF_PEERS_MAX_TAG / 4 ||
        partition->n_reduces > HRF_PEERS_MAX_TAG / 4)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "%d exchanges and %d sums over ranks; %d of each are the most",
                             partition->n_exchanges, partition->n_reduces, HRF_PEERS_MAX_TAG / 4);
    peers->scratch = hrf_alloc(peers->scratch_bytes);
    if (peers->scratch == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for messages of %zu bytes",
                             peers->scratch_bytes);
    return HRF_OK;
}

void hrf_peers_release(struct hrf_peers *peers)
{
    hrf_free(peers->scratch);
    hrf_rank_map_destroy(peers->map);
    peers->scratch = NULL;
    peers->map = NULL;
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
