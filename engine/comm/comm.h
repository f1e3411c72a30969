/* comm.h - messages between the ranks of one network: one interface for several back ends.
 *
 * A message is identified by sender, receiver and tag. Messages of one sender and tag arrive in
 * order. send() copies the bytes and never waits, so that no order of sends and receives can
 * deadlock. receive() waits until the message has arrived, the group was aborted, or the sender has
 * shown no progress for the deadline, because it hangs or has died. A rank shows progress by
 * counting `steps` up. Waiting counts as progress, too, so that the error names the rank that is
 * stuck and not those that wait for it. A rank that fails aborts the group; the next call on every
 * other rank then fails with the first reason. Only the rank's own thread uses a comm.
 */
#ifndef HRF_ENGINE_COMM_COMM_H
#define HRF_ENGINE_COMM_COMM_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_comm;

struct hrf_comm_ops {
    const char *name; /* "loop", "mpi" */
    enum hrf_status (*send)(struct hrf_comm *comm, int32_t to, int64_t tag, const void *bytes,
                            size_t n_bytes, struct hrf_error *err);
    /* HRF_E_BUG if the message has another size. */
    enum hrf_status (*receive)(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                               size_t n_bytes, struct hrf_error *err);
    /* Optional (NULL: not needed). Announces a receive() into exactly this memory: the comm may
     * write the message there from now on. */
    enum hrf_status (*expect)(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                              size_t n_bytes, struct hrf_error *err);
    /* Optional. Advances messages in flight; called from time to time. Never waits. */
    enum hrf_status (*progress)(struct hrf_comm *comm, struct hrf_error *err);
    /* A rank from which a message with this tag has arrived and was not yet received; -1: none. */
    int32_t (*waiting)(struct hrf_comm *comm, int64_t tag);
    /* For a rank that has waited since `since_ns` (hrf_clock_ns) for something other than a message
     * that rank `peer` contributes to. HRF_E_AGAIN if `peer` shows no progress, with the same text
     * as receive(). Never waits; counts as progress. */
    enum hrf_status (*watch)(struct hrf_comm *comm, int32_t peer, int64_t since_ns,
                             struct hrf_error *err);
    /* Ends the group for every rank; their calls fail with the text `why`. */
    void (*abort)(struct hrf_comm *comm, const char *why);
};

/* The purpose of messages, for statistics. The caller sets comm->use before it sends or
 * receives. */
enum hrf_comm_use {
    HRF_COMM_CONTROL, /* votes of ranks, distribution of batches */
    HRF_COMM_EXCHANGE,
    HRF_COMM_REDUCE,
    HRF_COMM_OUTPUT,
    HRF_N_COMM_USES
};
static inline const char *hrf_comm_use_name(enum hrf_comm_use use)
{
    static const char *const names[] = { "control", "exchange", "reduce", "output" };
    return names[use];
}
struct hrf_comm_count {
    int64_t messages, bytes;   /* sent */
    double sending, receiving; /* s, in send() and in receive(), waiting included */
};
static inline void hrf_comm_count_add(struct hrf_comm_count *sum, const struct hrf_comm_count *part)
{
    sum->messages += part->messages;
    sum->bytes += part->bytes;
    sum->sending += part->sending;
    sum->receiving += part->receiving;
}
static inline struct hrf_comm_count hrf_comm_count_since(const struct hrf_comm_count *now,
                                                         const struct hrf_comm_count *before)
{
    return (struct hrf_comm_count){ now->messages - before->messages, now->bytes - before->bytes,
                                    now->sending - before->sending,
                                    now->receiving - before->receiving };
}

/* Every back end puts this first in its own struct. */
struct hrf_comm {
    const struct hrf_comm_ops *ops;
    int32_t rank, n_ranks;
    bool is_one_process;            /* ranks are threads and may use each other's pointers */
    int64_t deadline_ms;            /* how long a sender may show no progress */
    atomic_llong steps;             /* this rank's progress */
    int64_t n_messages, sent_bytes; /* so far */
    double waited;                  /* s, in receive */
    enum hrf_comm_use use;
    struct hrf_comm_count counts[HRF_N_COMM_USES]; /* so far */
    /* The part of them that hrf_network_count() has already returned: networks may share a comm. */
    struct hrf_comm_count reported[HRF_N_COMM_USES];
};
/* For back ends: these count a message that was sent, and one that was received. */
static inline void hrf_comm_count_sent(struct hrf_comm *comm, size_t n_bytes, double seconds)
{
    const struct hrf_comm_count one = { 1, (int64_t)n_bytes, seconds, 0 };
    hrf_comm_count_add(&comm->counts[comm->use], &one);
    comm->n_messages++;
    comm->sent_bytes += (int64_t)n_bytes;
}
static inline void hrf_comm_count_received(struct hrf_comm *comm, double seconds)
{
    comm->counts[comm->use].receiving += seconds;
}

#endif
