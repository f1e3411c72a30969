/* simulate.h - plays programs of ranks on a machine, without the machine.
 *
 * A program is what a rank does in order: compute for so long, send, receive. A rank does one
 * thing at a time. send() never waits for the receiver; a receive waits until the message has
 * arrived. That is what the executor does (engine/comm/comm.h). Messages of one sender, receiver
 * and tag arrive in order. Events are played in the order of their times, so that messages that
 * queue at a port do so as they would. Pure: same in, same out; no clock.
 */
#ifndef HRF_ENGINE_PLAN_SIMULATE_H
#define HRF_ENGINE_PLAN_SIMULATE_H

#include "engine/plan/machine.h"

enum hrf_sim_kind {
    HRF_SIM_COMPUTE, /* `seconds` */
    HRF_SIM_COPY,    /* `seconds`: within the rank's memory, for an exchange */
    HRF_SIM_SEND,
    HRF_SIM_RECEIVE,
    HRF_SIM_WAIT, /* in spans only: for a message that is not there yet */
    HRF_SIM_N_KINDS
};
const char *hrf_sim_kind_name(enum hrf_sim_kind kind);

enum { HRF_SIM_ANY_SIZE = -1 };
struct hrf_sim_step {
    enum hrf_sim_kind kind;
    int32_t label;        /* the caller's own: which node */
    int32_t peer;         /* SEND, RECEIVE */
    int64_t tag, n_bytes; /* n_bytes of a RECEIVE: HRF_SIM_ANY_SIZE, or just so many */
    double seconds;       /* COMPUTE, COPY */
};

struct hrf_sim_program {
    struct hrf_sim_step *steps;
    int32_t n_steps;
    size_t capacity; /* private */
};
HRF_CHECKED enum hrf_status hrf_sim_add(struct hrf_sim_program *program,
                                        const struct hrf_sim_step *step, struct hrf_error *err);

struct hrf_sim_span {
    enum hrf_sim_kind kind;
    int32_t label, peer;
    double start, end; /* s */
};

struct hrf_sim_rank {
    double seconds[HRF_SIM_N_KINDS]; /* by what it did */
    double end;                      /* of its last step */
    int64_t sent_bytes, n_sent;
    struct hrf_sim_span *spans; /* those longer than nothing, in order */
    int32_t n_spans;
    size_t capacity; /* private */
};

struct hrf_simulation {
    struct hrf_sim_rank *ranks; /* [n_ranks] */
    int32_t n_ranks;
    double seconds; /* until the last rank is done */
};

/* programs[n_ranks]. HRF_E_USER: the machine has no link that a message would need. HRF_E_BUG:
 * ranks wait for messages that nobody sends (the first is named), messages were left over, or one
 * is taken with another size than it was sent with. */
HRF_CHECKED enum hrf_status hrf_simulate(const struct hrf_sim_program *programs, int32_t n_ranks,
                                         const struct hrf_machine *machine,
                                         struct hrf_simulation **out, struct hrf_error *err);
void hrf_simulation_destroy(struct hrf_simulation *simulation);
HRF_DEFINE_AUTO(hrf_simulation)

#endif
