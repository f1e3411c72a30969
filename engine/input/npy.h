/* npy.h - NumPy's array files, versions 1 to 3: float32 arrays in, float32 and 8-bit ones out.
 *
 * Source: numpy.lib.format. Reads little-endian float32 and float64 in C order and rounds float64
 * to float32. For any other type or order the error names what was found.
 */
#ifndef HRF_ENGINE_INPUT_NPY_H
#define HRF_ENGINE_INPUT_NPY_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/ir/graph.h"

#include <stddef.h>

/* *data is dense, in the order of the shape, and owned by the caller (hrf_free). `where` names the
 * source in error messages. */
HRF_CHECKED enum hrf_status hrf_npy_parse(const void *bytes, size_t n_bytes, const char *where,
                                          struct hrf_shape *shape, float **data,
                                          struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_npy_read(const char *path, struct hrf_shape *shape, float **data,
                                         struct hrf_error *err);
/* Writes `data` of `dtype` F32, S8 or U8 as a version 1 file. The file appears complete or not at
 * all. */
HRF_CHECKED enum hrf_status hrf_npy_write(const char *path, enum hrf_dtype dtype,
                                          const struct hrf_shape *shape, const void *data,
                                          struct hrf_error *err);

#endif
