/* bag_step.c - two passes of an encoder over a bag (bag_step.h). */
#include "engine/train/bag_step.h"

#include "engine/backend/compute.h"
#include "engine/train/step_private.h"

#include <assert.h>
#include <string.h>

struct hrf_bag_step {
    struct hrf_train_step *step;         /* the second pass; borrowed */
    struct hrf_trained_list trained;     /* of it; the items' contents are borrowed */
    struct hrf_weighted_session forward; /* the first */
    float **gradients;                   /* [trained.n], in ONNX order */
    int64_t batch, width;
    bool is_changed;
};

static enum hrf_status create_forward(struct hrf_bag_step *s, const struct hrf_graph *encoder,
                                      const struct hrf_train_step_config *config,
                                      struct hrf_error *err)
{
    struct hrf_train_step_config how = *config;
    HRF_AUTO(hrf_graph) graph = NULL;
    how.precision = HRF_FP32; /* what follows reads embeddings as a run gives them */
    HRF_TRY(hrf_graph_copy(encoder, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    hrf_trained_mark(&s->trained, graph);
    return hrf_weighted_session_create(graph, &s->trained, NULL, &how, false, 0, &s->forward, err);
}

static enum hrf_status create_sums(struct hrf_bag_step *s, struct hrf_error *err)
{
    s->gradients = hrf_calloc((size_t)s->trained.n + 1, sizeof *s->gradients);
    for (int32_t i = 0; i < s->trained.n; i++) {
        const int64_t n = hrf_shape_count(&s->trained.items[i].shape);
        s->gradients[i] = hrf_try_alloc_array((size_t)n + 1, sizeof(float));
        HRF_CHECK_MEMORY(s->gradients[i] != NULL, err, "no memory for the gradient to '%s'",
                         s->trained.items[i].name);
    }
    return HRF_OK;
}

enum hrf_status hrf_bag_step_create(const struct hrf_graph *encoder, struct hrf_train_step *step,
                                    const struct hrf_train_step_config *config,
                                    struct hrf_bag_step **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_bag_step) s = hrf_calloc(1, sizeof *s);
    const struct hrf_shape *shape = hrf_train_step_target_shape(step);
    const size_t n = (size_t)hrf_train_step_n_weights(step);
    assert(config->loss == HRF_LOSS_LINEAR && !config->uses_batch);
    s->step = step;
    s->batch = shape->dims[0];
    s->width = hrf_shape_count(shape) / s->batch;
    s->trained.items = hrf_calloc(n + 1, sizeof *s->trained.items);
    s->trained.n = (int32_t)n;
    memcpy(s->trained.items, hrf_train_step_weights(step), n * sizeof *s->trained.items);
    HRF_TRY(create_forward(s, encoder, config, err));
    HRF_TRY(create_sums(s, err));
    HRF_MOVE(*out, s);
    return HRF_OK;
}

void hrf_bag_step_destroy(struct hrf_bag_step *s)
{
    if (s == NULL)
        return;
    hrf_weighted_session_release(&s->forward);
    for (int32_t i = 0; s->gradients != NULL && i < s->trained.n; i++)
        hrf_free(s->gradients[i]);
    hrf_free(s->gradients);
    hrf_free(s->trained.items);
    hrf_free(s);
}

static int64_t images_of(const struct hrf_bag_step *s, int64_t n, int64_t first)
{
    return n - first < s->batch ? n - first : s->batch;
}

enum hrf_status hrf_bag_step_embed(struct hrf_bag_step *s, int64_t n, hrf_bag_images *images,
                                   void *context, float *embeddings, struct hrf_error *err)
{
    const struct hrf_bag_part all = { n, NULL };
    struct hrf_session *session = s->forward.session;
    if (s->is_changed)
        HRF_TRY(hrf_session_refresh(session, err));
    s->is_changed = false;
    for (int64_t first = 0; first < n; first += s->batch) {
        HRF_TRY(images(context, &all, first, hrf_session_input(session, 0), err));
        HRF_TRY(hrf_session_run(session, err));
        memcpy(embeddings + first * s->width, hrf_session_output(session, 0),
               (size_t)(images_of(s, n, first) * s->width) * sizeof *embeddings);
    }
    return HRF_OK;
}

static void add_gradients(struct hrf_bag_step *s, bool is_first)
{
    for (int32_t i = 0; i < s->trained.n; i++) {
        const int64_t n = hrf_shape_count(&s->trained.items[i].shape);
        const float *gradient = hrf_train_step_gradient(s->step, i);
        if (is_first)
            memcpy(s->gradients[i], gradient, (size_t)n * sizeof *gradient);
        for (int64_t k = 0; k < n && !is_first; k++)
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
        add_gradients(s, first == 0);
    }
    return HRF_OK;
}

const float *hrf_bag_step_gradient(const struct hrf_bag_step *s, int32_t i)
{
    return s->gradients[i];
}

void hrf_bag_step_set_changed(struct hrf_bag_step *s)
{
    s->is_changed = true;
}
