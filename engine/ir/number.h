/* number.h - conversion between float and the narrow types: float16, bfloat16, 8-bit integers.
 *
 * All conversions round half to even. 8-bit integers saturate; floats beyond the range become
 * infinity. A NaN stays a NaN; in 8 bits it becomes the zero point. The loops over arrays are
 * written so that the compiler vectorises them.
 */
#ifndef HRF_ENGINE_IR_NUMBER_H
#define HRF_ENGINE_IR_NUMBER_H

#include "engine/ir/graph.h"

uint16_t hrf_f16_from_float(float value); /* beyond 65504: infinity */
float hrf_f16_to_float(uint16_t bits);
uint16_t hrf_b16_from_float(float value);
float hrf_b16_to_float(uint16_t bits);
/* n floats from an array of `dtype` (F32, F16, B16), and back. */
void hrf_floats_from(enum hrf_dtype dtype, const void *from, float *to, int64_t n);
void hrf_floats_to(enum hrf_dtype dtype, const float *from, void *to, int64_t n);
/* `value` converted to `dtype` and back. */
float hrf_round_to(enum hrf_dtype dtype, float value);
void hrf_round_floats(enum hrf_dtype dtype, const float *from, float *to, int64_t n);

/* The largest finite number of F16 or B16, and the smallest with all of its significant bits. */
float hrf_dtype_most(enum hrf_dtype dtype);
float hrf_dtype_least(enum hrf_dtype dtype);

/* The integer nearest to value / scale + zero_point, in the range of S8 or U8. */
int32_t hrf_quantize(float value, enum hrf_dtype dtype, const struct hrf_quantization *q);
/* The same for a value that was already divided by the scale. */
int32_t hrf_saturate(float steps, enum hrf_dtype dtype, int32_t zero_point);

#endif
