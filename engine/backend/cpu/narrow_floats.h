/* narrow_floats.h - 16-bit floats in memory for loops that compute in float32, with the bits of
 * engine/ir/number.h. One thread. */
#ifndef HRF_ENGINE_BACKEND_CPU_NARROW_FLOATS_H
#define HRF_ENGINE_BACKEND_CPU_NARROW_FLOATS_H

#include "engine/ir/graph.h"

/* Numbers of a tensor that a loop computes at a time, so that their copies in float32 stay in the
 * first-level cache. */
enum { HRF_HALVES_PIECE = 2048 };

/* n floats from an array of F32, F16 or B16, and back. */
void hrf_cpu_widen(enum hrf_dtype type, const void *from, float *to, int64_t n);
void hrf_cpu_narrow(enum hrf_dtype type, const float *from, void *to, int64_t n);
/* Elements [first, first + n) of a tensor as floats: where they are if they are F32, else copied to
 * `own`. */
const float *hrf_cpu_read(enum hrf_dtype type, const void *from, int64_t first, int64_t n,
                          float *own);
/* Where to compute elements from `first` on: in the tensor if it is F32, else in `own`, from where
 * hrf_cpu_finish() brings them. */
float *hrf_cpu_place(enum hrf_dtype type, void *to, int64_t first, float *own);
void hrf_cpu_finish(enum hrf_dtype type, void *to, int64_t first, int64_t n, const float *own);

/* Of F16 and B16. Only where hrf_cpu_has_avx512() says so. */
void hrf_widen_avx512(enum hrf_dtype type, const void *from, float *to, int64_t n);
void hrf_narrow_avx512(enum hrf_dtype type, const float *from, void *to, int64_t n);

#endif
