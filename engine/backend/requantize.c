/* requantize.c - the constants by which integer sums become 8-bit results. */
#include "engine/backend/compute.h"

#include <float.h>

void hrf_requantize_destroy(struct hrf_requantize *requantize)
{
    if (requantize == NULL)
        return;
    hrf_free(requantize->multiplier);
    hrf_free(requantize->bias);
    hrf_free(requantize);
}

static void requantize_fill(const struct hrf_spec *spec, float out_scale, struct hrf_requantize *r)
{
    const float *scales = spec->inputs[HRF_CONV_SCALES].constant;
    const float *bias = hrf_spec_has(spec, HRF_CONV_BIAS) ? spec->inputs[HRF_CONV_BIAS].constant
                                                          : NULL;
    const float in_scale = spec->inputs[HRF_CONV_X].quantization.scale;
    for (int64_t c = 0; c < r->n_channels; c++) {
        const float sum_scale = in_scale * scales[c];
        r->multiplier[c] = sum_scale / out_scale;
        r->bias[c] = bias != NULL ? bias[c] / sum_scale : 0.0f;
    }
}

struct hrf_requantize *hrf_requantize_create(const struct hrf_spec *spec)
{
    struct hrf_requantize *r = hrf_calloc(1, sizeof *r);
    const bool is_float = spec->output.dtype == HRF_F32;
    const float out_scale = is_float ? 1.0f : spec->output.quantization.scale;
    const struct hrf_attributes *a = &spec->attributes;
    r->n_channels = hrf_shape_count(&spec->inputs[HRF_CONV_SCALES].shape);
    r->multiplier = hrf_alloc_array((size_t)r->n_channels, sizeof(float));
    r->bias = hrf_alloc_array((size_t)r->n_channels, sizeof(float));
    requantize_fill(spec, out_scale, r);
    r->residual_scale = 1.0f;
    if (hrf_spec_has(spec, HRF_CONV_RESIDUAL)) {
        const struct hrf_quantization *q = &spec->inputs[HRF_CONV_RESIDUAL].quantization;
        r->residual_scale = q->scale / out_scale;
        r->residual_zero_point = q->zero_point;
    }
    r->activation = a->activation;
    r->slope = a->alpha;
    r->low = a->activation_min <= -FLT_MAX ? -FLT_MAX : a->activation_min / out_scale;
    r->high = a->activation_max >= FLT_MAX ? FLT_MAX : a->activation_max / out_scale;
    return r;
}
