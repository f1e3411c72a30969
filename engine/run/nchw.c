/* nchw.c - arrays as ONNX lays them out, in and out of a network (nchw.h). */
#include "engine/run/nchw.h"

#include <string.h>

static int64_t image_at(const struct hrf_shape *all, int64_t i)
{
    return all->rank > 0 && i >= all->dims[0] ? all->dims[0] - 1 : i;
}

enum hrf_status hrf_nchw_read(void *context, int32_t input, int64_t first, int64_t n,
                              const struct hrf_box *box, float *out, struct hrf_error *err)
{
    (void)input;
    (void)err;
    const struct hrf_nchw_source *source = context;
    const struct hrf_shape *s = &source->shape;
    const int64_t per_image = hrf_shape_count(s) / (s->rank > 0 ? s->dims[0] : 1);
    if (s->rank == 3) { /* tokens lie in memory as ONNX has them */
        const size_t part = (size_t)((box->hi[0] - box->lo[0]) * s->dims[2]);
        for (int64_t i = first; i < first + n; i++, out += part)
            memcpy(out, source->data + image_at(s, i) * per_image + box->lo[0] * s->dims[2],
                   part * sizeof *out);
        return HRF_OK;
    }
    if (s->rank != 4) {
        for (int64_t i = first; i < first + n; i++, out += per_image)
            memcpy(out, source->data + image_at(s, i) * per_image, (size_t)per_image * sizeof *out);
        return HRF_OK;
    }
    const int64_t channels = s->dims[1], rows = s->dims[2], columns = s->dims[3];
    for (int64_t i = first; i < first + n; i++)
        for (int64_t y = box->lo[0]; y < box->hi[0]; y++)
            for (int64_t x = box->lo[1]; x < box->hi[1]; x++)
                for (int64_t c = 0; c < channels; c++)
                    *out++ =
                        source->data[((image_at(s, i) * channels + c) * rows + y) * columns + x];
    return HRF_OK;
}

void hrf_nchw_from_output(const float *output, const struct hrf_shape *shape, float *out)
{
    if (shape->rank != 4) {
        memcpy(out, output, (size_t)hrf_shape_count(shape) * sizeof *out);
        return;
    }
    const int64_t channels = shape->dims[1], area = shape->dims[2] * shape->dims[3];
    for (int64_t n = 0; n < shape->dims[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < area; i++)
                out[(n * channels + c) * area + i] = output[(n * area + i) * channels + c];
}
