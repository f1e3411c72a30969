/* shape.h - the type of the elements of a value, and its shape. */
#ifndef HRF_ENGINE_IR_SHAPE_H
#define HRF_ENGINE_IR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HRF_MAX_RANK    6
#define HRF_MAX_SPATIAL 2

enum hrf_dtype {
    HRF_DTYPE_NONE,
    HRF_F32,
    HRF_F64,
    HRF_F16,
    HRF_B16, /* bfloat16 */
    HRF_S8,
    HRF_U8,
    HRF_S32,
    HRF_S64,
    HRF_BOOL
};
size_t hrf_dtype_size(enum hrf_dtype dtype);
const char *hrf_dtype_name(enum hrf_dtype dtype);
static inline bool hrf_dtype_is_half(enum hrf_dtype dtype)
{
    return dtype == HRF_F16 || dtype == HRF_B16;
}
/* The floats that kernels compute with: not F64. */
static inline bool hrf_dtype_is_float(enum hrf_dtype dtype)
{
    return dtype == HRF_F32 || hrf_dtype_is_half(dtype);
}
static inline bool hrf_dtype_is_byte(enum hrf_dtype dtype)
{
    return dtype == HRF_S8 || dtype == HRF_U8;
}

struct hrf_shape {
    int32_t rank;
    int64_t dims[HRF_MAX_RANK];
};
/* Number of elements; 1 for rank 0; -1 if a dim or the rank is unknown or the product exceeds
 * HRF_MAX_ELEMENTS. */
int64_t hrf_shape_count(const struct hrf_shape *shape);
/* The most elements a value may have. Its size in bytes is then far below INT64_MAX. */
#define HRF_MAX_ELEMENTS ((int64_t)1 << 48)
/* The size of the last axis; 1 for rank 0. */
static inline int64_t hrf_shape_last(const struct hrf_shape *shape)
{
    return shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
}
/* Numbers that lie side by side in memory: a pixel's channels of an image, else the last axis. */
static inline int64_t hrf_shape_innermost(const struct hrf_shape *shape)
{
    return shape->rank == 4 ? shape->dims[1] : hrf_shape_last(shape);
}
bool hrf_shape_equal(const struct hrf_shape *a, const struct hrf_shape *b);
/* "1x3x256x256"; out holds at least 128 bytes. */
void hrf_shape_text(const struct hrf_shape *shape, char out[128]);

#endif
