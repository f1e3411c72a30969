/* byte_steps.h - how attention on bytes (BYTE_ATTENTION) rounds: the constants that every back end
 * computes it by, so that all give the same bytes. Sums of products of integers are exact. Parses
 * as C17 and as C++17.
 */
#ifndef HRF_ENGINE_BACKEND_BYTE_STEPS_H
#define HRF_ENGINE_BACKEND_BYTE_STEPS_H

#include <stdint.h>

struct hrf_spec;

#ifdef __cplusplus
extern "C" {
#endif

/* A sum times `factor`, clipped to [low, high], rounded half to even, is in steps from the zero
 * point; plus `zero` it is the byte, or counts from the lowest byte. */
struct hrf_byte_steps {
    float factor, low, high;
    int32_t zero;
};

struct hrf_attention_steps {
    struct hrf_byte_steps scores;  /* counted from the lowest byte */
    struct hrf_byte_steps weights; /* as unsigned bytes; of exponentials over their sum */
    struct hrf_byte_steps output;  /* as bytes of its type */
    double weight_scale;
    /* exp(-d) as integers, for scores d steps below the largest one. Sums of HRF_ATTENTION_LONG of
     * them fit 32 bits. */
    uint32_t exponentials[256];
};

/* Of a BYTE_ATTENTION. */
struct hrf_attention_steps hrf_attention_steps_of(const struct hrf_spec *spec);

#ifdef __cplusplus
}
#endif
#endif
