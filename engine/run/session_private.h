/* session_private.h - the session's insides, for the bench, which times single steps. */
#ifndef HRF_ENGINE_RUN_SESSION_PRIVATE_H
#define HRF_ENGINE_RUN_SESSION_PRIVATE_H

#include "engine/backend/backend.h"
#include "engine/plan/plan.h"
#include "engine/run/session.h"

struct hrf_session {
    struct hrf_graph *graph; /* after the passes */
    const struct hrf_backend_ops *ops;
    struct hrf_backend *backend;
    struct hrf_peers *peers; /* borrowed; NULL: it has none */
    struct hrf_plan *plan;
    struct hrf_kernel **kernels; /* [n_nodes] */
    int32_t n_kernels;
    struct hrf_kernel_call *calls; /* [n_nodes], with every pointer in place */
    const void **inputs;           /* of all calls */
    unsigned char *arena;
    bool is_lent; /* arena and workspace are somebody else's */
    void *workspace;
    struct hrf_session_memory memory;
    double operations;
    struct hrf_strbuf notes;
    hrf_session_observer *observe; /* NULL: nobody */
    void *observer;
};

#endif
