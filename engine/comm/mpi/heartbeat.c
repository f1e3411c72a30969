/* heartbeat.c - the thread that exchanges progress counts between ranks (heartbeat.h). */
#include "engine/comm/mpi/heartbeat.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/comm/mpi/mpi_error.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { TAG = 0, PERIOD_MS = 250 };

struct peer {
    atomic_llong steps;   /* its last reported count */
    atomic_llong seen_ns; /* when that count changed, by this rank's clock */
    long long sent; /* this rank's count in the message to it; used by the heartbeat thread only */
    MPI_Request request;
    bool is_sending;
};

struct hrf_mpi_heartbeat {
    long long (*steps)(void *context);
    void *context;
    MPI_Comm comm; /* a communicator of its own, so that its messages meet no others */
    int rank, n_ranks;
    struct peer *peers; /* [n_ranks] */
    pthread_t thread;
    bool has_thread;
    atomic_bool stop;
};

static void heartbeat_take(struct hrf_mpi_heartbeat *h)
{
    for (;;) {
        MPI_Status status;
        MPI_Message message;
        int there = 0;
        long long steps = 0;
        if (MPI_Improbe(MPI_ANY_SOURCE, TAG, h->comm, &there, &message, &status) != MPI_SUCCESS ||
            !there)
            return;
        MPI_Mrecv(&steps, 1, MPI_LONG_LONG, &message, MPI_STATUS_IGNORE);
        struct peer *peer = &h->peers[status.MPI_SOURCE];
        if (steps != atomic_load(&peer->steps))
            atomic_store(&peer->seen_ns, hrf_clock_ns());
        atomic_store(&peer->steps, steps);
    }
}

/* MPI accepts 8 bytes at once, unless the connection to that rank is not yet made; this does not
 * wait for it. */
static void tell(struct hrf_mpi_heartbeat *h, int to, long long steps)
{
    struct peer *peer = &h->peers[to];
    int done = 1;
    if (peer->is_sending &&
        (MPI_Test(&peer->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done))
        return;
    peer->sent = steps;
    peer->is_sending = MPI_Isend(&peer->sent, 1, MPI_LONG_LONG, to, TAG, h->comm, &peer->request) ==
                       MPI_SUCCESS;
}

static void *beat(void *context)
{
    struct hrf_mpi_heartbeat *h = context;
    long long reported = -1;
    while (!atomic_load(&h->stop)) {
        const long long steps = h->steps(h->context);
        heartbeat_take(h);
        for (int r = 0; r < h->n_ranks && steps != reported; r++) {
            if (r != h->rank)
                tell(h, r, steps);
        }
        reported = steps;
        hrf_clock_sleep_ms(PERIOD_MS);
    }
    return NULL;
}

static enum hrf_status init(struct hrf_mpi_heartbeat *h, struct hrf_error *err)
{
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &h->comm), "cannot start MPI");
    TRY_MPI(MPI_Comm_set_errhandler(h->comm, MPI_ERRORS_RETURN), "cannot set up MPI");
    TRY_MPI(MPI_Comm_size(h->comm, &h->n_ranks), "cannot count the ranks");
    TRY_MPI(MPI_Comm_rank(h->comm, &h->rank), "cannot number the ranks");
    h->peers = hrf_calloc((size_t)h->n_ranks, sizeof h->peers[0]);
    return HRF_OK;
}

enum hrf_status hrf_mpi_heartbeat_create(long long (*steps)(void *context), void *context,
                                         struct hrf_mpi_heartbeat **out, struct hrf_error *err)
{
    struct hrf_mpi_heartbeat *h = hrf_calloc(1, sizeof *h);
    h->steps = steps;
    h->context = context;
    const enum hrf_status status = init(h, err);
    if (status != HRF_OK) {
        hrf_mpi_heartbeat_destroy(h);
        return status;
    }
    *out = h;
    return HRF_OK;
}

enum hrf_status hrf_mpi_heartbeat_start(struct hrf_mpi_heartbeat *h, struct hrf_error *err)
{
    for (int i = 0; i < h->n_ranks; i++)
        atomic_store(&h->peers[i].seen_ns, hrf_clock_ns());
    if (h->n_ranks == 1)
        return HRF_OK;
    const int code = pthread_create(&h->thread, NULL, beat, h);
    h->has_thread = code == 0;
    return code == 0 ? HRF_OK
                     : hrf_error_set_errno(err, code, "cannot start a thread of rank %d", h->rank);
}

int64_t hrf_mpi_heartbeat_seen_ns(const struct hrf_mpi_heartbeat *h, int32_t rank)
{
    return atomic_load(&h->peers[rank].seen_ns);
}

void hrf_mpi_heartbeat_stop(struct hrf_mpi_heartbeat *h)
{
    if (h == NULL || !h->has_thread)
        return;
    atomic_store(&h->stop, true);
    pthread_join(h->thread, NULL);
    h->has_thread = false;
}

void hrf_mpi_heartbeat_destroy(struct hrf_mpi_heartbeat *h)
{
    if (h == NULL)
        return;
    hrf_mpi_heartbeat_stop(h);
    hrf_free(h->peers);
    hrf_free(h);
}
