/* read_ahead.c - see read_ahead.h. One mutex guards everything but a piece's bytes while they are
 * read. */
#include "tiler/slide/read_ahead.h"

#include "base/array.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* GROUP: tiles that follow each other in the list and are read together, sorted by place. GAP:
 * bytes between two tiles that are read rather than asked for apart. PIECE: of one read. THREADS:
 * reads under way, for tiles that lie apart. */
enum { GROUP_BYTES = 4 << 20, GAP_BYTES = 64 << 10, PIECE_BYTES = 2 << 20, THREADS = 4 };
enum { MAX_SPARE = HRF_READ_AHEAD_BYTES / PIECE_BYTES };

struct span {
    uint64_t offset;
    uint32_t n_bytes;
    int32_t group;
    int64_t tile;
    bool is_taken;
};

enum piece_state { UNREAD, READING, THERE, GONE };

struct piece {
    uint64_t offset;
    size_t n_bytes;
    int32_t group;
    int64_t n_left;  /* tiles that were not put back */
    int64_t n_users; /* tiles that were taken and not put back */
    enum piece_state state;
    unsigned char *data;
};

struct hrf_read_ahead {
    int fd;
    int64_t n_tiles;
    int64_t *span_of; /* [n_tiles]: 1 + the tile's span; 0: it is not listed */
    struct span *spans;
    size_t n_spans, capacity;
    int64_t *piece_of; /* [n_spans] */
    struct piece *pieces;
    int64_t n_pieces, next; /* the piece to be read next */
    int64_t wanted;         /* the last piece that somebody waits for; -1: none */
    pthread_t threads[THREADS];
    int n_threads;
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t has_read,
        has_room;                    /* those who decode wait for a piece, the threads for memory */
    unsigned char *spare[MAX_SPARE]; /* [n_spare] of PIECE_BYTES: their pages are there */
    int n_spare;
    size_t held; /* bytes of pieces and spare memory */
    struct hrf_read_counts counts;
};

enum hrf_status hrf_read_ahead_create(int fd, int64_t n_tiles, struct hrf_read_ahead **out,
                                      struct hrf_error *err)
{
    struct hrf_read_ahead *ahead = hrf_calloc(1, sizeof *ahead);
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->has_read, NULL);
    pthread_cond_init(&ahead->has_room, NULL);
    ahead->fd = fd;
    ahead->n_tiles = n_tiles;
    ahead->wanted = -1;
    ahead->span_of = hrf_try_calloc((size_t)n_tiles + 1, sizeof ahead->span_of[0]);
    if (ahead->span_of == NULL) {
        hrf_read_ahead_destroy(ahead);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to read %lld tiles ahead",
                             (long long)n_tiles);
    }
    *out = ahead;
    return HRF_OK;
}

void hrf_read_ahead_stop(struct hrf_read_ahead *ahead)
{
    pthread_mutex_lock(&ahead->lock);
    ahead->stop = true;
    pthread_cond_broadcast(&ahead->has_read);
    pthread_cond_broadcast(&ahead->has_room);
    pthread_mutex_unlock(&ahead->lock);
}

void hrf_read_ahead_destroy(struct hrf_read_ahead *ahead)
{
    if (ahead == NULL)
        return;
    hrf_read_ahead_stop(ahead);
    for (int i = 0; i < ahead->n_threads; i++)
        pthread_join(ahead->threads[i], NULL);
    for (int64_t i = 0; i < ahead->n_pieces; i++)
        hrf_free(ahead->pieces[i].data);
    while (ahead->n_spare > 0)
        hrf_free(ahead->spare[--ahead->n_spare]);
    pthread_cond_destroy(&ahead->has_read);
    pthread_cond_destroy(&ahead->has_room);
    pthread_mutex_destroy(&ahead->lock);
    hrf_free(ahead->pieces);
    hrf_free(ahead->piece_of);
    hrf_free(ahead->spans);
    hrf_free(ahead->span_of);
    hrf_free(ahead);
}

void hrf_read_ahead_add(struct hrf_read_ahead *ahead, int64_t tile, uint64_t offset,
                        uint32_t n_bytes)
{
    if (tile < 0 || tile >= ahead->n_tiles || ahead->span_of[tile] != 0 || n_bytes == 0 ||
        ahead->pieces != NULL)
        return;
    HRF_RESERVE(ahead->spans, ahead->capacity, ahead->n_spans + 1);
    ahead->spans[ahead->n_spans++] = (struct span){ offset, n_bytes, 0, tile, false };
    ahead->span_of[tile] = (int64_t)ahead->n_spans;
}

/* ---- pieces ---- */

static int compare_spans(const void *a, const void *b)
{
    const struct span *u = a, *v = b;
    if (u->group != v->group)
        return u->group < v->group ? -1 : 1;
    return u->offset < v->offset ? -1 : u->offset > v->offset;
}

static void sort_spans(struct hrf_read_ahead *ahead)
{
    size_t in_group = 0;
    int32_t group = 0;
    for (size_t i = 0; i < ahead->n_spans; i++) {
        if (in_group >= GROUP_BYTES) {
            group++;
            in_group = 0;
        }
        ahead->spans[i].group = group;
        in_group += ahead->spans[i].n_bytes;
    }
    qsort(ahead->spans, ahead->n_spans, sizeof ahead->spans[0], compare_spans);
    for (size_t i = 0; i < ahead->n_spans; i++)
        ahead->span_of[ahead->spans[i].tile] = (int64_t)i + 1;
}

/* Two tiles may share their bytes, and a file may hold any offsets. */
static bool joins(const struct piece *piece, const struct span *span)
{
    const uint64_t end = piece->offset + piece->n_bytes;
    return span->group == piece->group && span->offset <= end + GAP_BYTES &&
           span->offset + span->n_bytes - piece->offset <= PIECE_BYTES;
}

static void make_pieces(struct hrf_read_ahead *ahead)
{
    ahead->piece_of = hrf_alloc_array(ahead->n_spans + 1, sizeof ahead->piece_of[0]);
    ahead->pieces = hrf_calloc(ahead->n_spans + 1, sizeof ahead->pieces[0]);
    sort_spans(ahead);
    for (size_t i = 0; i < ahead->n_spans; i++) {
        const struct span *span = &ahead->spans[i];
        struct piece *piece = ahead->n_pieces > 0 ? &ahead->pieces[ahead->n_pieces - 1] : NULL;
        if (piece == NULL || !joins(piece, span)) {
            piece = &ahead->pieces[ahead->n_pieces++];
            *piece = (struct piece){ .offset = span->offset, .group = span->group };
        }
        const uint64_t end = span->offset + span->n_bytes - piece->offset;
        piece->n_bytes = end > piece->n_bytes ? (size_t)end : piece->n_bytes;
        piece->n_left++;
        ahead->piece_of[i] = ahead->n_pieces - 1;
    }
}

/* ---- the threads that read ---- */

static bool read_piece(int fd, const struct piece *piece, unsigned char *data, int64_t *n_reads)
{
    for (size_t done = 0; done < piece->n_bytes;) {
        const ssize_t got = pread(fd, data + done, piece->n_bytes - done,
                                  (off_t)(piece->offset + done));
        (*n_reads)++;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Memory for a piece of that size: pieces of more than half the usual size take all of it, so that
 * it can be used again. */
static size_t memory_of(const struct piece *piece)
{
    const bool is_usual = piece->n_bytes > PIECE_BYTES / 2 && piece->n_bytes <= PIECE_BYTES;
    return is_usual ? PIECE_BYTES : piece->n_bytes;
}

static void drop(struct hrf_read_ahead *ahead, struct piece *piece)
{
    const size_t n_bytes = memory_of(piece);
    if (n_bytes == PIECE_BYTES && piece->data != NULL && ahead->n_spare < MAX_SPARE) {
        ahead->spare[ahead->n_spare++] = piece->data;
    } else {
        ahead->held -= n_bytes;
        hrf_free(piece->data);
    }
    piece->data = NULL;
    piece->state = GONE;
    pthread_cond_signal(&ahead->has_room);
}

/* Frees spare memory where the piece would be too much beside it. */
static bool read_ahead_fits(struct hrf_read_ahead *ahead, size_t n_bytes)
{
    if (n_bytes == PIECE_BYTES && ahead->n_spare > 0)
        return true;
    while (ahead->n_spare > 0 && ahead->held + n_bytes > HRF_READ_AHEAD_BYTES) {
        hrf_free(ahead->spare[--ahead->n_spare]);
        ahead->held -= PIECE_BYTES;
    }
    return ahead->held == 0 || ahead->held + n_bytes <= HRF_READ_AHEAD_BYTES;
}

/* Makes room for the next piece. While somebody waits for it, pieces that nobody has taken for
 * longest are dropped; otherwise it waits. False: it has to wait. */
static bool make_room(struct hrf_read_ahead *ahead)
{
    const size_t n_bytes = memory_of(&ahead->pieces[ahead->next]);
    for (int64_t i = 0;
         i < ahead->next && ahead->wanted >= ahead->next && !read_ahead_fits(ahead, n_bytes); i++)
        if (ahead->pieces[i].state == THERE && ahead->pieces[i].n_users == 0)
            drop(ahead, &ahead->pieces[i]);
    return read_ahead_fits(ahead, n_bytes);
}

static unsigned char *take_memory(struct hrf_read_ahead *ahead, size_t n_bytes)
{
    if (n_bytes == PIECE_BYTES && ahead->n_spare > 0)
        return ahead->spare[--ahead->n_spare];
    ahead->held += n_bytes;
    if ((int64_t)ahead->held > ahead->counts.peak_bytes)
        ahead->counts.peak_bytes = (int64_t)ahead->held;
    return hrf_try_alloc(n_bytes);
}

/* Reads the next piece. Called with the lock, which it gives up meanwhile. */
static void read_next(struct hrf_read_ahead *ahead)
{
    struct piece *piece = &ahead->pieces[ahead->next++];
    int64_t n_reads = 0;
    if (piece->state != UNREAD)
        return;
    piece->state = READING;
    unsigned char *data = take_memory(ahead, memory_of(piece));
    pthread_mutex_unlock(&ahead->lock);
    const bool is_good = data != NULL && read_piece(ahead->fd, piece, data, &n_reads);
    pthread_mutex_lock(&ahead->lock);
    piece->data = data;
    piece->state = THERE;
    if (!is_good)
        drop(ahead, piece);
    ahead->counts.n_reads += n_reads;
    ahead->counts.n_bytes += is_good ? (int64_t)piece->n_bytes : 0;
    pthread_cond_broadcast(&ahead->has_read);
}

static void *reader_main(void *context)
{
    struct hrf_read_ahead *ahead = context;
    pthread_mutex_lock(&ahead->lock);
    while (!ahead->stop && ahead->next < ahead->n_pieces) {
        if (make_room(ahead))
            read_next(ahead);
        else
            pthread_cond_wait(&ahead->has_room, &ahead->lock);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

enum hrf_status hrf_read_ahead_start(struct hrf_read_ahead *ahead, struct hrf_error *err)
{
    if (ahead->pieces != NULL) /* it has begun */
        return HRF_OK;
    make_pieces(ahead);
    for (int i = 0; i < THREADS && i < ahead->n_pieces; i++) {
        const int native = pthread_create(&ahead->threads[i], NULL, reader_main, ahead);
        if (native != 0 && i == 0)
            return hrf_error_set_errno(err, native, "cannot start a thread that reads ahead");
        if (native != 0)
            break;
        ahead->n_threads++;
    }
    return HRF_OK;
}

/* ---- those who decode ---- */

/* Waits until the piece is read. Whoever asks for a later group than the next one has skipped what
 * lies between. */
static bool await_piece(struct hrf_read_ahead *ahead, int64_t index)
{
    struct piece *piece = &ahead->pieces[index];
    if (piece->state == UNREAD && index >= ahead->next) {
        if (piece->group > ahead->pieces[ahead->next].group + 1)
            while (ahead->pieces[ahead->next].group < piece->group)
                ahead->pieces[ahead->next++].state = GONE;
        ahead->wanted = index > ahead->wanted ? index : ahead->wanted;
        pthread_cond_broadcast(&ahead->has_room);
    }
    while (!ahead->stop && (piece->state == UNREAD || piece->state == READING))
        pthread_cond_wait(&ahead->has_read, &ahead->lock);
    return piece->state == THERE;
}

const unsigned char *hrf_read_ahead_take(struct hrf_read_ahead *ahead, int64_t tile)
{
    const unsigned char *data = NULL;
    pthread_mutex_lock(&ahead->lock);
    const int64_t at = tile >= 0 && tile < ahead->n_tiles ? ahead->span_of[tile] - 1 : -1;
    if (at >= 0 && ahead->n_threads > 0 && !ahead->stop && !ahead->spans[at].is_taken) {
        struct span *span = &ahead->spans[at];
        struct piece *piece = &ahead->pieces[ahead->piece_of[at]];
        if (await_piece(ahead, ahead->piece_of[at]) && !span->is_taken) {
            data = piece->data + (span->offset - piece->offset);
            piece->n_users++;
            ahead->counts.n_taken++;
        }
        span->is_taken = true;
    }
    pthread_mutex_unlock(&ahead->lock);
    return data;
}

void hrf_read_ahead_put(struct hrf_read_ahead *ahead, int64_t tile)
{
    pthread_mutex_lock(&ahead->lock);
    struct piece *piece = &ahead->pieces[ahead->piece_of[ahead->span_of[tile] - 1]];
    piece->n_users--;
    if (--piece->n_left == 0)
        drop(ahead, piece);
    else if (piece->n_users == 0 && ahead->wanted >= ahead->next) /* it may be dropped */
        pthread_cond_signal(&ahead->has_room);
    pthread_mutex_unlock(&ahead->lock);
}

struct hrf_read_counts hrf_read_ahead_counts(struct hrf_read_ahead *ahead)
{
    pthread_mutex_lock(&ahead->lock);
    const struct hrf_read_counts counts = ahead->counts;
    pthread_mutex_unlock(&ahead->lock);
    return counts;
}
