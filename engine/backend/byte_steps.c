/* byte_steps.c - see byte_steps.h. */
#include "engine/backend/byte_steps.h"

#include "engine/backend/compute.h"

#include <math.h>

/* The integer that stands for 1 in exponentials. */
#define EXPONENTIAL_OF_0 0x1p19

/* `lowest`: the value that the smallest element of the type becomes. */
static struct hrf_byte_steps steps_of(enum hrf_dtype type, int32_t zero_point, double factor,
                                      int32_t lowest)
{
    const int32_t min = (type == HRF_S8 ? -128 : 0) - zero_point;
    return (struct hrf_byte_steps){
        .factor = (float)factor, .low = (float)min, .high = (float)(min + 255), .zero = lowest - min
    };
}

struct hrf_attention_steps hrf_attention_steps_of(const struct hrf_spec *spec)
{
    const struct hrf_attributes *t = &spec->attributes;
    const struct hrf_operand *x = spec->inputs, *y = &spec->output;
    const double scores = (double)x[HRF_ATTENTION_Q].quantization.scale *
                          (double)x[HRF_ATTENTION_K].quantization.scale *
                          (double)t->attention.scale;
    const double values = (double)t->attention.weights.scale *
                          (double)x[HRF_ATTENTION_V].quantization.scale;
    struct hrf_attention_steps s;
    s.scores = steps_of(t->attention.scores.dtype, t->attention.scores.zero_point,
                        scores / (double)t->attention.scores.scale, 0);
    s.weights = steps_of(t->attention.weights.dtype, t->attention.weights.zero_point, 1, 0);
    s.weight_scale = (double)t->attention.weights.scale;
    s.output = steps_of(y->dtype, y->quantization.zero_point,
                        values / (double)y->quantization.scale, y->dtype == HRF_S8 ? -128 : 0);
    for (int i = 0; i < 256; i++)
        s.exponentials[i] = (uint32_t)rint(exp(-i * (double)t->attention.scores.scale) *
                                           EXPONENTIAL_OF_0);
    return s;
}
