/* ranked_step.c - a step over several ranks (ranked_step.h). */
#include "engine/train/ranked_step.h"

#include "engine/run/agree.h"
#include "engine/run/network.h"

#include <stdio.h>
#include <string.h>

struct hrf_ranked_step {
    struct hrf_network *network;
    struct hrf_network *forward;           /* with has_forward: of the network alone */
    struct hrf_comm *comm;                 /* borrowed; NULL: ranks are threads */
    struct hrf_shape images, targets;      /* of the whole batch */
    float *image_numbers, *target_numbers; /* N, H, W, C */
    int64_t own_first, n_own;              /* images of the batch that this process computes with */
    char text[192];
};

void hrf_ranked_step_destroy(struct hrf_ranked_step *s)
{
    if (s == NULL)
        return;
    hrf_network_destroy(s->network);
    hrf_network_destroy(s->forward);
    hrf_free(s->image_numbers);
    hrf_free(s->target_numbers);
    hrf_free(s);
}

enum hrf_status hrf_ranked_step_divide(const struct hrf_layout_plan *layout, bool uses_batch,
                                       struct hrf_graph *graph, struct hrf_error *err)
{
    struct hrf_batch_split shares;
    if (layout->data * layout->microbatches == 1)
        return HRF_OK;
    struct hrf_shape part = graph->values[graph->inputs[0]].shape;
    HRF_TRY(hrf_layout_share(layout, part.rank > 0 ? part.dims[0] : 1, &shares, err));
    if (uses_batch)
        HRF_TRY(hrf_layout_check_batch_statistics(layout, shares.n_images, err));
    part.dims[0] = shares.per_microbatch;
    graph->n_images = shares.n_images;
    return hrf_graph_set_input_shape(graph, 0, &part, err);
}

static enum hrf_status allocate(struct hrf_ranked_step *s, struct hrf_error *err)
{
    s->image_numbers = hrf_try_calloc((size_t)hrf_shape_count(&s->images) + 1, sizeof(float));
    s->target_numbers = hrf_try_calloc((size_t)hrf_shape_count(&s->targets) + 1, sizeof(float));
    HRF_CHECK_MEMORY(s->image_numbers != NULL && s->target_numbers != NULL, err,
                     "no memory for a batch");
    return HRF_OK;
}

/* The trained weights become inputs, and these variable constants once no pass can compute with
 * their numbers any more. */
static enum hrf_status make_network(struct hrf_graph *graph, const struct hrf_trained_list *trained,
                                    const struct hrf_train_step_config *config,
                                    enum hrf_precision precision, int64_t kept_bytes,
                                    struct hrf_network **out, struct hrf_error *err)
{
    const size_t most = (size_t)graph->n_values + 1;
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array(most, sizeof *values);
    HRF_AUTO_FREE float **numbers = hrf_alloc_array(2 * most, sizeof *numbers);
    const int32_t n = hrf_trained_find(graph, trained, values, numbers, numbers + most);
    HRF_TRY(hrf_graph_open_constants(graph, values, n, err));
    const struct hrf_network_config how = {
        .session = { .device = config->device,
                     .precision = precision,
                     .n_threads = config->n_threads,
                     .memory_limit_bytes = config->memory_limit_bytes,
                     .memory_kept_bytes = kept_bytes,
                     .variables = numbers,
                     .rounded = numbers + most,
                     .n_variables = n },
        .layout = config->layout,
        .comm = config->comm,
    };
    return hrf_network_create(graph, &how, out, err);
}

/* Both networks keep their memory: a rank's is not lent. */
static enum hrf_status make_forward(struct hrf_ranked_step *s, const struct hrf_graph *network,
                                    const struct hrf_trained_list *trained,
                                    const struct hrf_train_step_config *config, int64_t *kept_bytes,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    if (!config->has_forward)
        return HRF_OK;
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    hrf_trained_mark(trained, graph);
    HRF_TRY(make_network(graph, trained, config, HRF_FP32, *kept_bytes, &s->forward, err));
    const struct hrf_session_memory memory = hrf_network_memory(s->forward);
    *kept_bytes += hrf_session_memory_total(&memory);
    return HRF_OK;
}

/* Of its group's images, unless it is a stage that is not fed any. */
static enum hrf_status find_own(struct hrf_ranked_step *s, const struct hrf_layout_plan *layout,
                                struct hrf_error *err)
{
    struct hrf_batch_split shares;
    s->n_own = s->images.dims[0];
    if (s->comm == NULL)
        return HRF_OK;
    const struct hrf_box fed = hrf_network_fed(s->network, 0);
    HRF_TRY(hrf_layout_share(layout, s->n_own, &shares, err));
    s->own_first = s->comm->rank / hrf_layout_group_ranks(layout) * shares.per_group;
    const int64_t left = s->n_own - s->own_first;
    s->n_own = hrf_box_is_empty(&fed) || left < 0 ? 0
               : left < shares.per_group          ? left
                                                  : shares.per_group;
    return HRF_OK;
}

enum hrf_status hrf_ranked_step_create(struct hrf_graph *graph, const struct hrf_graph *network,
                                       const struct hrf_trained_list *trained,
                                       const struct hrf_train_step_config *config,
                                       const struct hrf_shape *images, struct hrf_ranked_step **out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_ranked_step) s = hrf_calloc(1, sizeof *s);
    char layout[128];
    s->comm = config->comm;
    s->images = *images;
    s->targets = graph->values[graph->inputs[1]].shape;
    if (graph->n_images > 0)
        s->targets.dims[0] = graph->n_images;
    hrf_layout_text(config->layout, layout);
    snprintf(s->text, sizeof s->text, "on %d ranks, %s", hrf_layout_ranks(config->layout), layout);
    int64_t kept_bytes = config->memory_kept_bytes;
    HRF_TRY(make_forward(s, network, trained, config, &kept_bytes, err));
    HRF_TRY(make_network(graph, trained, config, config->precision, kept_bytes, &s->network, err));
    HRF_TRY(allocate(s, err));
    HRF_TRY(find_own(s, config->layout, err));
    HRF_MOVE(*out, s);
    return HRF_OK;
}

void hrf_ranked_step_own_images(const struct hrf_ranked_step *s, int64_t *first, int64_t *n)
{
    *first = s->own_first;
    *n = s->n_own;
}

float *hrf_ranked_step_images(struct hrf_ranked_step *s)
{
    return s->image_numbers;
}

float *hrf_ranked_step_targets(struct hrf_ranked_step *s)
{
    return s->target_numbers;
}

const struct hrf_shape *hrf_ranked_step_target_shape(const struct hrf_ranked_step *s)
{
    return &s->targets;
}

/* The inputs: images, targets, and which of the images count, all of them. */
static enum hrf_status read_input(void *context, int32_t input, int64_t first, int64_t n,
                                  const struct hrf_box *box, float *out, struct hrf_error *err)
{
    const struct hrf_ranked_step *s = context;
    struct hrf_array_source source = { input == 0 ? s->image_numbers : s->target_numbers,
                                       input == 0 ? s->images : s->targets };
    if (input < 2)
        return hrf_read_array(&source, input, first, n, box, out, err);
    for (int64_t i = 0; i < n; i++)
        out[i] = 1;
    return HRF_OK;
}

enum hrf_status hrf_ranked_step_run(struct hrf_ranked_step *s, bool is_changed,
                                    struct hrf_error *err)
{
    if (is_changed)
        HRF_TRY(hrf_network_refresh(s->network, err));
    return hrf_network_run(s->network, read_input, s, err);
}

enum hrf_status hrf_ranked_step_forward(struct hrf_ranked_step *s, bool is_changed, float *output,
                                        struct hrf_error *err)
{
    const size_t n_bytes = (size_t)hrf_shape_count(&s->targets) * sizeof *output;
    if (is_changed)
        HRF_TRY(hrf_network_refresh(s->forward, err));
    HRF_TRY(hrf_network_run(s->forward, read_input, s, err));
    const float *found = hrf_network_output(s->forward, 0); /* processes: on the first one */
    if (found != NULL)
        memcpy(output, found, n_bytes);
    return s->comm != NULL ? hrf_broadcast(s->comm, output, n_bytes, err) : HRF_OK;
}

const float *hrf_ranked_step_output(const struct hrf_ranked_step *s, int32_t i)
{
    return hrf_network_output(s->network, i);
}

const char *hrf_ranked_step_text(const struct hrf_ranked_step *s)
{
    return s->text;
}
