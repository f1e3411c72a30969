/* float16.h - conversion between float and IEEE 754 binary16.
 *
 * Conversions round half to even; a number that rounds to 65536 or more becomes infinity, and a NaN
 * stays a NaN. The functions are inline and have selects instead of branches, so that the compiler
 * vectorises loops over them.
 */
#ifndef HRF_BASE_FLOAT16_H
#define HRF_BASE_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t hrf_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float hrf_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Subnormals are rounded by adding a float whose last bit has the weight of the last bit of the
 * result. */
static inline uint16_t hrf_half_from_float(float value)
{
    const uint32_t bits = hrf_float_bits(value), sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t odd = magnitude >> 13 & 1u;
    const uint32_t normal = (magnitude + 0xc8000fffu + odd) >> 13;
    const float magic = 0.5f; /* exponent of 2^-24 * 2^23 */
    const uint32_t small = hrf_float_bits(hrf_float_of_bits(magnitude) + magic) -
                           hrf_float_bits(magic);
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half; /* rounds to 65536 or more */
    half = magnitude > 0x7f800000u ? 0x7e00u : half;  /* NaN */
    return (uint16_t)(sign | half);
}

static inline float hrf_half_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    const uint32_t shifted = rest << 13;
    const float scaled = hrf_float_of_bits(shifted) * 0x1p112f; /* the exponents' difference */
    uint32_t value = hrf_float_bits(scaled);
    value = rest >= 0x7c00u ? shifted | 0x7f800000u : value; /* infinity, NaN */
    return hrf_float_of_bits(value | sign);
}

#endif
