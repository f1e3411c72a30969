/* machine.h - the machine that a layout is planned for: devices and what joins them.
 *
 * Rank r stands on node r / ranks_per_node. A message between two ranks takes the fastest link of
 * their placement that the machine has, by its size: all ranks choose the same one, because they
 * choose by the same table. A link is a table of what a message of so many bytes costs: the sender
 * is busy for `send`, the receiver for `receive`, and `transit` lies between them; of `transit`,
 * what it takes beyond an empty message occupies the sender's port, so that messages queue there.
 * Every rank has a port within its node, every node `ports_per_node` to the others.
 * Pure arithmetic; immutable once made, any thread may read.
 */
#ifndef HRF_ENGINE_PLAN_MACHINE_H
#define HRF_ENGINE_PLAN_MACHINE_H

#include "engine/plan/cost.h"

enum hrf_placement { HRF_PLACE_PROCESS, HRF_PLACE_NODE, HRF_PLACE_NETWORK, HRF_N_PLACEMENTS };
const char *hrf_placement_name(enum hrf_placement placement); /* "process" */

struct hrf_link_point {
    double bytes;
    double send, transit, receive; /* s */
};
enum { HRF_LINK_MAX_POINTS = 32 };
struct hrf_link {
    char comm[16]; /* who carries it: "loop", "mpi", "ipc", "nccl" */
    bool is_gpus;  /* from one GPU's memory into another's, measured as a whole: in `transit` */
    enum hrf_placement placement;
    struct hrf_link_point points[HRF_LINK_MAX_POINTS]; /* by bytes, ascending */
    int32_t n_points;                                  /* >= 1 */
};
/* Between two points in proportion; beyond the last by the slope of the last two. */
struct hrf_link_point hrf_link_at(const struct hrf_link *link, double n_bytes);
/* latency (s) and bandwidth (bytes/s) as a table. */
struct hrf_link hrf_link_simple(const char *comm, enum hrf_placement placement, double latency,
                                double bandwidth);

enum { HRF_MACHINE_MAX_LINKS = 16 };
struct hrf_machine {
    char name[96];
    char device[64];
    bool is_one_process;    /* ranks are threads of one process */
    int32_t ranks_per_node; /* >= 1 */
    int32_t ports_per_node; /* >= 1 */
    int32_t n_nodes;        /* 0 = as many as are asked for */
    int64_t memory_bytes;   /* of a rank; 0 = not known */
    double copy_rate;       /* bytes/s of a copy within a rank's memory, read and written once */
    struct hrf_cost_rates rates;
    struct hrf_link links[HRF_MACHINE_MAX_LINKS];
    int32_t n_links;
    bool has_gpus; /* what is planned lies on GPUs: only their links count, else only the others */
};

enum hrf_placement hrf_machine_placement(const struct hrf_machine *machine, int32_t a, int32_t b);
/* The link that carries a message soonest there; NULL when the machine has none of the placement.
 * A link within a node serves ranks of one process too, where there is nothing better. */
const struct hrf_link *hrf_machine_link(const struct hrf_machine *machine,
                                        enum hrf_placement placement, double n_bytes);

/* Of carriers that are possible between two ranks the one that brings a message soonest, by the
 * links between GPUs of that placement (those within a node serve ranks of one process where it has
 * none): an index of `names`, entries may be NULL. -1: none of them was measured. */
int hrf_machine_carrier(const struct hrf_machine *machine, enum hrf_placement placement,
                        double n_bytes, const char *const *names, int n_names);

#endif
