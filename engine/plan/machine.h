/* machine.h - the machine that a layout is planned for: devices and the links between them.
 *
 * Rank r is on node r / ranks_per_node. A message between two ranks takes the link of their
 * placement that is fastest for its size; all ranks choose the same link because they use the same
 * table. A link is a table of costs by message size: the sender is busy for `send`, the receiver
 * for `receive`, and `transit` passes between them. The part of `transit` that exceeds the transit
 * of an empty message occupies the port of the sender, so that messages queue there. Every rank has
 * one port for messages within its node; every node has `ports_per_node` ports for those to other
 * nodes. Pure arithmetic; immutable once made, so that any thread may read it.
 */
#ifndef HRF_ENGINE_PLAN_MACHINE_H
#define HRF_ENGINE_PLAN_MACHINE_H

#include "engine/plan/cost.h"

enum hrf_placement {
    HRF_PLACEMENT_PROCESS,
    HRF_PLACEMENT_NODE,
    HRF_PLACEMENT_NETWORK,
    HRF_N_PLACEMENTS
};
const char *hrf_placement_name(enum hrf_placement placement); /* "process" */

struct hrf_link_point {
    double bytes;
    double send, transit, receive; /* s */
};
enum { HRF_LINK_MAX_POINTS = 32 };
struct hrf_link {
    char comm[16]; /* the back end that carries it: "loop", "mpi", "ipc", "nccl" */
    bool is_gpus;  /* between the memories of two GPUs; `transit` is the whole time */
    enum hrf_placement placement;
    struct hrf_link_point points[HRF_LINK_MAX_POINTS]; /* by bytes, ascending */
    int32_t n_points;                                  /* >= 1 */
};
/* Interpolates between two points; extrapolates beyond the last with the slope of the last two. */
struct hrf_link_point hrf_link_at(const struct hrf_link *link, double n_bytes);
/* A link from latency (s) and bandwidth (bytes/s). */
struct hrf_link hrf_link_simple(const char *comm, enum hrf_placement placement, double latency,
                                double bandwidth);

enum { HRF_MACHINE_MAX_LINKS = 16 };
struct hrf_machine {
    char name[96];
    char device[64];
    bool is_one_process;    /* ranks are threads of one process */
    int32_t ranks_per_node; /* >= 1 */
    int32_t ports_per_node; /* >= 1 */
    int32_t n_nodes;        /* 0: unlimited */
    int64_t memory_bytes;   /* per rank; 0: not known */
    double copy_rate;       /* bytes/s of a copy in a rank's memory; each byte counts once */
    struct hrf_cost_rates rates;
    struct hrf_link links[HRF_MACHINE_MAX_LINKS];
    int32_t n_links;
    bool has_gpus; /* tensors are on GPUs: only links with is_gpus count, else only the others */
};

enum hrf_placement hrf_machine_placement(const struct hrf_machine *machine, int32_t a, int32_t b);
/* The fastest link for a message with that placement; NULL if the machine has none. Ranks of one
 * process use a link within the node if they have none of their own. */
const struct hrf_link *hrf_machine_link(const struct hrf_machine *machine,
                                        enum hrf_placement placement, double n_bytes);

/* Chooses among the transports that are possible between two ranks the fastest for a message, by
 * the links between GPUs of that placement; ranks of one process use links within the node if they
 * have none of their own. Returns an index into `names`, whose entries may be NULL; -1: none of
 * them was measured. */
int hrf_machine_transport(const struct hrf_machine *machine, enum hrf_placement placement,
                          double n_bytes, const char *const *names, int n_names);

#endif
