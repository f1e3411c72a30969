/* onednn.h - what kernels through oneDNN share: its statuses as ours, and which of its
 * implementations is taken. For this folder only. */
#ifndef HRF_ENGINE_BACKEND_CPU_ONEDNN_H
#define HRF_ENGINE_BACKEND_CPU_ONEDNN_H

#include "base/error.h"
#include "engine/backend/compute.h"

#include <oneapi/dnnl/dnnl.h>

/* A oneDNN status as ours; `what` names the node and the call. */
enum hrf_status hrf_dnnl_error(struct hrf_error *err, dnnl_status_t status, const char *node,
                               const char *what);
#define HRF_CHECK_DNNL(call, name, what)                                                           \
    do {                                                                                           \
        dnnl_status_t dnnl_status_ = (call);                                                       \
        if (dnnl_status_ != dnnl_success)                                                          \
            return hrf_dnnl_error(err, dnnl_status_, name, what);                                  \
    } while (0)

/* False for an implementation, by its name, that oneDNN offers for a node and does not do right. */
typedef bool hrf_dnnl_is_sound(const char *implementation, const struct hrf_spec *spec);
/* The fastest sound implementation: oneDNN's order is by speed. */
dnnl_status_t hrf_dnnl_choose(dnnl_primitive_desc_iterator_t iterator, hrf_dnnl_is_sound *is_sound,
                              const struct hrf_spec *spec, dnnl_primitive_desc_t *out);
void hrf_dnnl_destroy_memory(dnnl_memory_t memory); /* NULL: nothing */

#endif
