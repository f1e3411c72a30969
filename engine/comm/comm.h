/* comm.h - messages between the ranks of one network. One interface, several ways to carry them.
 *
 * A message is named by sender, receiver and tag; one sender's messages of one tag arrive in order.
 * send() copies and never waits, so that no order of sends and receives can deadlock; receive()
 * waits until the message is there, the group was aborted, or the sender has made no progress for
 * the deadline: it hangs or has died. A rank shows progress by counting `steps`; waiting counts
 * too, so that the one that is stuck is blamed and not those that wait for it. Whoever fails aborts
 * the group, and every other rank's next call says so, with the first reason. A comm is used by its
 * rank's thread alone.
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
    /* HRF_E_BUG when the message has another size. */
    enum hrf_status (*receive)(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                               size_t n_bytes, struct hrf_error *err);
    /* Optional (NULL: nothing is gained by it). A receive() of just these bytes will come, and the
     * message may be put there from now on. */
    enum hrf_status (*expect)(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                              size_t n_bytes, struct hrf_error *err);
    /* Optional. Never waits; called now and then while messages are under way. */
    enum hrf_status (*progress)(struct hrf_comm *comm, struct hrf_error *err);
    /* A rank of which a message of this tag waits, -1: there is none. */
    int32_t (*waiting)(struct hrf_comm *comm, int64_t tag);
    /* For a rank that has waited since `since_ns` (hrf_clock_ns) for something else than a message,
     * to which rank `peer` contributes: HRF_E_AGAIN when that is in vain, as receive() would say
     * it. Never waits; counts as progress. */
    enum hrf_status (*watch)(struct hrf_comm *comm, int32_t peer, int64_t since_ns,
                             struct hrf_error *err);
    /* Ends the group for every rank; `why` is what they are told. */
    void (*abort)(struct hrf_comm *comm, const char *why);
};

/* What messages are for; whoever sends or receives says so before. */
enum hrf_comm_use {
    HRF_COMM_CONTROL, /* what ranks decide together, batches that are handed out */
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

/* Each kind puts this first in a struct of its own. */
struct hrf_comm {
    const struct hrf_comm_ops *ops;
    int32_t rank, n_ranks;
    bool is_one_process;            /* ranks are threads: they see each other's pointers */
    int64_t deadline_ms;            /* without progress of the sender */
    atomic_llong steps;             /* this rank's progress */
    int64_t n_messages, sent_bytes; /* so far */
    double waited;                  /* s, in receive */
    enum hrf_comm_use use;
    struct hrf_comm_count counts[HRF_N_COMM_USES]; /* so far */
};
/* For the kinds: a message of so many bytes was sent, one was received. */
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
