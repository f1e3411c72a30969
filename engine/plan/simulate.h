/* simulate.h - a discrete-event simulator for programs of ranks on a machine.
 *
 * The program of a rank is a list of steps: compute for some time, send, receive. A rank does one
 * thing at a time. A send never waits for the receiver; a receive waits until the message has
 * arrived, as in the executor (engine/comm/comm.h). Messages of one sender, receiver and tag arrive
 * in order. Events are processed in the order of their times, so that messages queue at ports
 * realistically. Pure: equal input gives equal output; no clock.
 */
#ifndef HRF_ENGINE_PLAN_SIMULATE_H
#define HRF_ENGINE_PLAN_SIMULATE_H

#include "engine/plan/machine.h"

enum hrf_sim_kind {
    HRF_SIM_COMPUTE, /* `seconds` */
    HRF_SIM_COPY,    /* `seconds`: a copy in the rank's memory, for an exchange */
    HRF_SIM_SEND,
    HRF_SIM_RECEIVE,
    HRF_SIM_WAIT, /* in spans only: waiting for a message */
    HRF_SIM_N_KINDS
};
const char *hrf_sim_kind_name(enum hrf_sim_kind kind);

enum { HRF_SIM_ANY_SIZE = -1 };
struct hrf_sim_step {
    enum hrf_sim_kind kind;
    int32_t label;        /* chosen by the caller, for example the node */
    int32_t peer;         /* SEND, RECEIVE */
    int64_t tag, n_bytes; /* n_bytes of a RECEIVE: exact, or HRF_SIM_ANY_SIZE */
    double seconds;       /* COMPUTE, COPY */
};

struct hrf_sim_program {
    struct hrf_sim_step *steps;
    int32_t n_steps;
    size_t capacity; /* private */
};
void hrf_sim_add(struct hrf_sim_program *program, const struct hrf_sim_step *step);

struct hrf_sim_span {
    enum hrf_sim_kind kind;
    int32_t label, peer;
    double start, end; /* s */
};

struct hrf_sim_rank {
    double seconds[HRF_SIM_N_KINDS]; /* by activity */
    double end;                      /* of its last step */
    int64_t sent_bytes, n_sent;
    struct hrf_sim_span *spans; /* longer than zero, in order of time */
    int32_t n_spans;
    size_t capacity; /* private */
};

struct hrf_simulation {
    struct hrf_sim_rank *ranks; /* [n_ranks] */
    int32_t n_ranks;
    double seconds; /* until the last rank has finished */
};

/* programs[n_ranks]. HRF_E_USER: the machine lacks a link that a message needs. HRF_E_BUG: ranks
 * wait for messages that nobody sends (the error names the first), a message is never received, or
 * a receive has another size than its message. */
HRF_CHECKED enum hrf_status hrf_simulate(const struct hrf_sim_program *programs, int32_t n_ranks,
                                         const struct hrf_machine *machine,
                                         struct hrf_simulation **out, struct hrf_error *err);
void hrf_simulation_destroy(struct hrf_simulation *simulation);
HRF_DEFINE_AUTO(hrf_simulation)

#endif
