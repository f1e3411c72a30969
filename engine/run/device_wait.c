/* device_wait.c - waits for a device that may in turn wait for other ranks' devices: polls it, and
 * checks in between that the other ranks make progress. */
#include "engine/run/device_peers_private.h"

#include "base/clock.h"
#include "base/min_max.h"

#include <sched.h>
#include <time.h>

/* Polls without a pause at first, because most calls end soon, then gives up the processor between
 * polls: for a thousandth of the time waited so far, at least 50 us, at most 1 ms. */
static void rest(int64_t waited_ns)
{
    const struct timespec nap = { 0, (long)hrf_min(hrf_max(waited_ns / 1000, 50000), 1000000) };
    if (waited_ns > 2000000)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

static enum hrf_status watch_all(const struct hrf_device_waiter *w, int64_t since_ns,
                                 struct hrf_error *err)
{
    struct hrf_comm *comm = w->peers->comm;
    for (int32_t q = 0; q < w->peers->partition->n_ranks; q++)
        if (q != w->peers->rank)
            HRF_TRY(comm->ops->watch(comm, hrf_peers_comm_rank(w->peers, q), since_ns, err));
    return HRF_OK;
}

static enum hrf_status look_around(const struct hrf_device_waiter *w, int64_t since_ns,
                                   struct hrf_error *err)
{
    const struct hrf_comm *comm = w->peers->comm;
    if (w->check != NULL)
        HRF_TRY(w->check(w->context, err));
    HRF_TRY(watch_all(w, since_ns, err));
    const int64_t waited_ms = (hrf_clock_ns() - since_ns) / 1000000;
    if (waited_ms <= comm->deadline_ms)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_AGAIN,
                         "what rank %d has queued on its GPU was not done within %lld s, and all "
                         "ranks of its group wait: %s",
                         comm->rank, (long long)waited_ms / 1000, w->advice);
}

enum hrf_status hrf_device_wait(const struct hrf_device_waiter *w, int32_t slot,
                                struct hrf_error *err)
{
    enum { LOOK_NS = 2000000 };
    const int64_t start = hrf_clock_ns();
    int64_t looked = start;
    bool is_done = false;
    for (;;) {
        HRF_TRY(w->ops->is_done(w->backend, slot, &is_done, err));
        const int64_t now = hrf_clock_ns();
        if (is_done)
            return w->is_void_after_abort ? watch_all(w, now, err) : HRF_OK;
        if (now - looked > LOOK_NS) {
            HRF_TRY(look_around(w, start, err));
            looked = now;
        }
        rest(now - start);
    }
}
