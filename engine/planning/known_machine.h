/* known_machine.h - what is known of the machine that a layout is planned for, and where it is
 * known from.
 */
#ifndef HRF_ENGINE_PLANNING_KNOWN_MACHINE_H
#define HRF_ENGINE_PLANNING_KNOWN_MACHINE_H

#include "engine/plan/machine.h"

struct hrf_known {
    struct hrf_machine machine;
    struct hrf_cost_table costs;  /* of as many ranks at once as there will be */
    struct hrf_cost_table single; /* of one rank by itself; may be empty: then as `costs` */
    char machine_source[512];     /* a file, or that it is assumed */
    char cost_source[512];
    bool is_assumed; /* nothing was measured here and no machine was given */
};

struct hrf_known_request {
    const char *cluster; /* machine file; NULL: this machine, as tune-comm found it */
    const char *costs;   /* cost file; NULL: what 'profile' has kept, on this machine */
    const char *cache;
    const char *device;
    int32_t n_threads, n_ranks;
    int32_t
        per_node; /* > 0: ranks are processes, so many on a machine; 0: threads of one process */
};

/* Rough figures stand in for what was never measured on this machine, and the sources say so. */
HRF_CHECKED enum hrf_status hrf_known_find(const struct hrf_known_request *request,
                                           struct hrf_known *out, struct hrf_error *err);
/* Where tune-comm keeps what it has measured of this machine: a heap path. HRF_E_USER: other users
 * may write there. */
HRF_CHECKED enum hrf_status hrf_known_machine_path(const char *cache, char **out,
                                                   struct hrf_error *err);
/* What tune-comm has measured between this machine's GPUs; false: nothing. */
bool hrf_known_gpu_links(struct hrf_machine *out);
void hrf_known_release(struct hrf_known *known);

#endif
