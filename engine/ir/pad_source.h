/* pad_source.h - what PAD copies into the border of an axis. */
#ifndef HRF_ENGINE_IR_PAD_SOURCE_H
#define HRF_ENGINE_IR_PAD_SOURCE_H

#include "engine/ir/attributes.h"

/* The position of the input, of `size`, that position `at` is a copy of; `at` counts from the
 * input's first position and may lie outside. -1: it holds the constant. */
static inline int64_t hrf_pad_source(enum hrf_pad_mode mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    switch (mode) {
    case HRF_PAD_EDGE:
        return at < 0 ? 0 : size - 1;
    case HRF_PAD_REFLECT:
        return at < 0 ? -at : 2 * (size - 1) - at;
    case HRF_PAD_WRAP:
        return (at + size) % size; /* pads are at most the size */
    default:
        return -1;
    }
}

#endif
