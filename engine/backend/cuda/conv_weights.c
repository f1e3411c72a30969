/* conv_weights.c - the order of weights in which cuDNN and the own kernel read them. */
#include "engine/backend/cuda/cuda_private.h"
#include "engine/backend/cuda/cudnn_conv.h"

#include <string.h>

struct sizes {
    int64_t out_channels, depth, area; /* depth: channels of a group */
};

/* Where weight (m, c, i) stands in the constant: a convolution's [M][C / group][area], a transposed
 * one's [C][M / group][area] in floating point, a matrix [M][C] or [C][M]. c counts in the group.
 */
static int64_t weight_at(const struct hrf_spec *spec, const struct sizes *s, int64_t m, int64_t c,
                         int64_t i)
{
    const struct hrf_operand *w = &spec->inputs[HRF_CONV_WEIGHTS];
    if (spec->op == HRF_OP_GEMM && !spec->attributes.gemm.transpose_b)
        return c * s->out_channels + m;
    if (spec->op == HRF_OP_CONV_TRANSPOSE && w->dtype == HRF_F32) {
        const int64_t per_group = s->out_channels / spec->attributes.group;
        return ((m / per_group * s->depth + c) * per_group + m % per_group) * s->area + i;
    }
    return (m * s->depth + c) * s->area + i;
}

void hrf_cuda_order_weights(const struct hrf_spec *spec, const struct hrf_cudnn_conv *conv,
                            int64_t in_channels, int64_t out_channels, void *to)
{
    const struct hrf_operand *w = &spec->inputs[HRF_CONV_WEIGHTS];
    const size_t size = hrf_dtype_size(w->dtype);
    const int64_t wide = conv->w[1];
    if (conv->gives == HRF_CUDNN_GIVES_X) { /* [K][C / group][area], those of the convolution */
        const int64_t area = conv->w[2] * conv->w[3];
        for (int64_t i = 0; i < conv->w[0] * wide * area; i++)
            memcpy((char *)to + ((i / wide / area * area + i % area) * wide + i / area % wide) *
                                    (int64_t)size,
                   (const char *)w->constant + i * (int64_t)size, size);
        return;
    }
    const struct sizes s = { .out_channels = out_channels,
                             .depth = w->shape.rank == 4 ? in_channels / spec->attributes.group
                                                         : in_channels,
                             .area = conv->w[2] * conv->w[3] };
    for (int64_t m = 0; m < out_channels; m++)
        for (int64_t c = 0; c < s.depth; c++)
            for (int64_t i = 0; i < s.area; i++)
                memcpy((char *)to + ((m * s.area + i) * wide + c) * (int64_t)size,
                       (const char *)w->constant + weight_at(spec, &s, m, c, i) * (int64_t)size,
                       size);
}

void hrf_cuda_order_depthwise(const struct hrf_spec *spec, void *to)
{
    const struct hrf_operand *w = &spec->inputs[HRF_CONV_WEIGHTS];
    const int64_t channels = w->shape.dims[0], area = w->shape.dims[2] * w->shape.dims[3];
    const int64_t size = (int64_t)hrf_dtype_size(w->dtype);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < area; i++)
            memcpy((char *)to + (i * channels + c) * size,
                   (const char *)w->constant + (c * area + i) * size, (size_t)size);
}
