/* onnx_names.h - a table from names to numbers; for this folder only. Names are borrowed. */
#ifndef HRF_ENGINE_ONNX_ONNX_NAMES_H
#define HRF_ENGINE_ONNX_ONNX_NAMES_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

struct hrf_name_slot {
    const char *name; /* NULL: free */
    int32_t value;
};
struct hrf_names {
    struct hrf_name_slot *slots;
    size_t n_slots, n_used; /* n_slots: a power of two */
};

/* Adds or replaces. */
void hrf_names_set(struct hrf_names *names, const char *name, int32_t value);
/* `missing` when there is none. */
int32_t hrf_names_get(const struct hrf_names *names, const char *name, int32_t missing);
void hrf_names_release(struct hrf_names *names);

#endif
