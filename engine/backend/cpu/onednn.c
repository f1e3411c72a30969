/* onednn.c - see onednn.h. */
#include "engine/backend/cpu/onednn.h"

enum hrf_status hrf_dnnl_error(struct hrf_error *err, dnnl_status_t status, const char *node,
                               const char *what)
{
    enum hrf_status ours = status == dnnl_out_of_memory   ? HRF_E_NOMEM
                           : status == dnnl_unimplemented ? HRF_E_UNSUPPORTED
                                                          : HRF_E_EXTERNAL;
    return hrf_error_set_foreign(err, ours, "onednn", (int)status,
                                 "node '%s': oneDNN refused it (%s, status %d)", node, what,
                                 (int)status);
}

dnnl_status_t hrf_dnnl_choose(dnnl_primitive_desc_iterator_t iterator, hrf_dnnl_is_sound *is_sound,
                              const struct hrf_spec *spec, dnnl_primitive_desc_t *out)
{
    for (;;) {
        dnnl_primitive_desc_t desc = dnnl_primitive_desc_iterator_fetch(iterator);
        const char *name = "";
        if (desc == NULL)
            return dnnl_out_of_memory;
        dnnl_status_t status = dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0,
                                                         (void *)&name);
        if (status == dnnl_success && is_sound(name, spec)) {
            *out = desc;
            return dnnl_success;
        }
        dnnl_primitive_desc_destroy(desc);
        if (status == dnnl_success)
            status = dnnl_primitive_desc_iterator_next(iterator);
        if (status != dnnl_success)
            return status;
    }
}

void hrf_dnnl_destroy_memory(dnnl_memory_t memory)
{
    if (memory != NULL)
        dnnl_memory_destroy(memory);
}
