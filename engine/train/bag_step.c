/* bag_step.c - two passes of an encoder over a bag (bag_step.h). */
#include "engine/train/bag_step.h"

#include <string.h>

struct hrf_bag_step {
    struct hrf_train_step *step; /* borrowed */
    float **gradients;           /* [weights of the step], in ONNX order */
    int32_t n;
    int64_t batch, width;
};

static int64_t weights_of(const struct hrf_bag_step *s, int32_t i)
{
    return hrf_shape_count(&hrf_train_step_weights(s->step)[i].shape);
}

enum hrf_status hrf_bag_step_create(struct hrf_train_step *step, struct hrf_bag_step **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_bag_step) s = hrf_calloc(1, sizeof *s);
    const struct hrf_shape *shape = hrf_train_step_target_shape(step);
    const int32_t n = hrf_train_step_n_weights(step);
    s->step = step;
    s->batch = shape->dims[0];
    s->width = hrf_shape_count(shape) / s->batch;
    s->gradients = hrf_calloc((size_t)n + 1, sizeof *s->gradients);
    for (; s->n < n; s->n++) {
        s->gradients[s->n] = hrf_try_calloc((size_t)weights_of(s, s->n) + 1, sizeof(float));
        HRF_CHECK_MEMORY(s->gradients[s->n] != NULL, err, "no memory for the gradient to '%s'",
                         hrf_train_step_weights(step)[s->n].name);
    }
    HRF_MOVE(*out, s);
    return HRF_OK;
}

void hrf_bag_step_destroy(struct hrf_bag_step *s)
{
    if (s == NULL)
        return;
    for (int32_t i = 0; i < s->n; i++)
        hrf_free(s->gradients[i]);
    hrf_free(s->gradients);
    hrf_free(s);
}

void hrf_bag_step_begin(struct hrf_bag_step *s)
{
    for (int32_t i = 0; i < s->n; i++)
        memset(s->gradients[i], 0, (size_t)weights_of(s, i) * sizeof(float));
}

static int64_t images_of(const struct hrf_bag_step *s, int64_t n, int64_t first)
{
    return n - first < s->batch ? n - first : s->batch;
}

enum hrf_status hrf_bag_step_embed(struct hrf_bag_step *s, int64_t n, hrf_bag_images *images,
                                   void *context, float *embeddings, struct hrf_error *err)
{
    const struct hrf_bag_part all = { n, NULL };
    HRF_AUTO_FREE float *batch = hrf_alloc_array((size_t)(s->batch * s->width), sizeof *batch);
    for (int64_t first = 0; first < n; first += s->batch) {
        HRF_TRY(images(context, &all, first, hrf_train_step_forward_images(s->step), err));
        HRF_TRY(hrf_train_step_forward(s->step, batch, err));
        memcpy(embeddings + first * s->width, batch,
               (size_t)(images_of(s, n, first) * s->width) * sizeof *embeddings);
    }
    return HRF_OK;
}

static void add_gradients(struct hrf_bag_step *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        const int64_t n = weights_of(s, i);
        const float *gradient = hrf_train_step_gradient(s->step, i);
        for (int64_t k = 0; k < n; k++)
            s->gradients[i][k] += gradient[k];
    }
}

enum hrf_status hrf_bag_step_run(struct hrf_bag_step *s, const struct hrf_bag_part *part,
                                 hrf_bag_images *images, void *context, const float *seeds,
                                 struct hrf_error *err)
{
    const size_t width = (size_t)s->width;
    for (int64_t first = 0; first < part->n; first += s->batch) {
        const int64_t n = images_of(s, part->n, first);
        float *targets = hrf_train_step_targets(s->step);
        double product;
        HRF_TRY(images(context, part, first, hrf_train_step_images(s->step), err));
        memset(targets, 0, (size_t)s->batch * width * sizeof *targets);
        for (int64_t i = 0; i < n; i++) {
            const int64_t image = part->which != NULL ? part->which[first + i] : first + i;
            memcpy(targets + (size_t)i * width, seeds + (size_t)image * width,
                   width * sizeof *seeds);
        }
        HRF_TRY(hrf_train_step_run(s->step, &product, err));
        add_gradients(s);
    }
    return HRF_OK;
}

const float *hrf_bag_step_gradient(const struct hrf_bag_step *s, int32_t i)
{
    return s->gradients[i];
}
