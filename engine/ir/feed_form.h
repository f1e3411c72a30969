/* feed_form.h - in which form a batch of images lies in memory when a network is fed with it.
 *
 * Dense [n][rows][columns][channels]: bytes as they were read, which a device normalises, or
 * normalised numbers in the type that the network computes in.
 */
#ifndef HRF_ENGINE_IR_FEED_FORM_H
#define HRF_ENGINE_IR_FEED_FORM_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>

/* The default, all zeros, is float32. */
struct hrf_feed_form {
    bool raw;                             /* bytes as read */
    enum hrf_dtype type;                  /* F32 (or NONE, the same), F16, B16, S8, U8 */
    struct hrf_quantization quantization; /* of S8 and U8 */
};

static inline bool hrf_feed_form_is_same(const struct hrf_feed_form *a,
                                         const struct hrf_feed_form *b)
{
    if (a->raw && b->raw) /* bytes are the same for every type */
        return true;
    const bool is_quantized = hrf_dtype_is_byte(a->type);
    return a->raw == b->raw && a->type == b->type &&
           (!is_quantized || (a->quantization.scale == b->quantization.scale &&
                              a->quantization.zero_point == b->quantization.zero_point));
}

/* Bytes of one number. */
static inline size_t hrf_feed_form_bytes(const struct hrf_feed_form *form)
{
    if (form->raw)
        return 1;
    return form->type == HRF_DTYPE_NONE ? sizeof(float) : hrf_dtype_size(form->type);
}

#endif
