/* tuned_network.c - see tuned_network.h. */
#include "training/loop/tuned_network.h"

#include "engine/onnx/onnx.h"
#include "engine/planning/request.h"
#include "schema/record/input_entry.h"
#include "training/loop/last_layer.h"

#include <string.h>

/* Takes what the recipe does not say from the model's file, as a run does. */
static enum hrf_status find_form(struct hrf_fine_tuning *t, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = t->recipe;
    struct hrf_model_input input = { .is_known = false };
    HRF_AUTO_FREE char *entry = NULL;
    HRF_TRY(hrf_onnx_read_entry(r->model, HRF_MODEL_INPUT_KEY, &entry, err));
    if (entry != NULL)
        HRF_TRY(hrf_model_input_parse(entry, strlen(entry), r->model, &input, err));
    if (r->tiler_mode != HRF_TILER_SLIDE) /* slides that are images go in as they are */
        HRF_TRY(hrf_model_input_prepare(&input, r->model, &r->input, t->list->side,
                                        &t->form.preparation, err));
    const bool is_of_file = input.is_known && !r->has_colours;
    memcpy(t->form.mean, is_of_file ? input.mean : r->mean, sizeof t->form.mean);
    memcpy(t->form.std, is_of_file ? input.std : r->std, sizeof t->form.std);
    t->form.side = t->form.preparation.size > 0 ? t->form.preparation.size : t->list->side;
    return HRF_OK;
}

/* The size of slides that are images is the tiler's alone. */
static enum hrf_status set_input(const struct hrf_fine_tuning *t, struct hrf_graph *graph,
                                 struct hrf_error *err)
{
    const struct hrf_shape own = graph->values[graph->inputs[0]].shape;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_engine_set_image_input(
        graph, hrf_train_recipe_at_once(t->recipe), t->form.side, &why);
    if (status == HRF_E_USER && t->recipe->tiler_mode == HRF_TILER_SLIDE && own.rank == 4 &&
        own.dims[2] > 0 && own.dims[2] != t->form.side)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes images of %lld px alone, and tiler.slide.size is %lld: "
                             "set it to %lld, or take a network for images of any size",
                             t->recipe->model, (long long)own.dims[2], (long long)t->form.side,
                             (long long)own.dims[2]);
    return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
}

enum hrf_status hrf_tuned_network_shape(const struct hrf_fine_tuning *t,
                                        const struct hrf_graph *graph, struct hrf_graph **out,
                                        struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(set_input(t, copy, err));
    HRF_TRY(hrf_graph_infer_shapes(copy, err));
    const struct hrf_shape *shape = &copy->values[copy->inputs[0]].shape;
    if (shape->dims[0] != hrf_train_recipe_at_once(t->recipe))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes batches of %lld only: set %s to that, or export "
                             "it with an open batch",
                             t->recipe->model, (long long)shape->dims[0],
                             t->recipe->head != HRF_TRAIN_NONE ? "train.patch_batch"
                                                               : "train.batch");
    if (shape->rank != 4 || shape->dims[1] != 3)
        return hrf_error_set(err, HRF_E_USER, "'%s' takes no images of 3 channels",
                             t->recipe->model);
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

static bool has_head(const struct hrf_fine_tuning *t)
{
    return t->recipe->head != HRF_TRAIN_NONE;
}

enum hrf_status hrf_tuned_network_with_classes(const struct hrf_fine_tuning *t, int64_t seed,
                                               struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(t->graph, &copy, err));
    if (has_head(t)) { /* which reads the output as it is */
        HRF_MOVE(*out, copy);
        return HRF_OK;
    }
    if (t->recipe->method == HRF_METHOD_FINE_TUNING &&
        (t->recipe->output != HRF_LABEL_NUMBERS || t->is_renewed))
        hrf_last_layer_fit(copy, t->recipe->output);
    const int64_t n_classes = (int64_t)t->recipe->classes.n_items;
    if (t->added_to > 0)
        HRF_TRY(hrf_last_layer_add(copy, t->added_to, n_classes, seed, err));
    else if (t->is_renewed)
        HRF_TRY(hrf_last_layer_renew(copy, n_classes, seed, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

/* The numbers that the graph gives a picture, or a pixel of it. */
static enum hrf_status find_width(const struct hrf_fine_tuning *t, const struct hrf_graph *shaped,
                                  int64_t *width, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    if (t->recipe->output != HRF_LABEL_PIXELS)
        return hrf_engine_check_embedding(shaped, width, err);
    HRF_TRY(hrf_engine_check_output(shaped, "segmentation", err));
    const struct hrf_shape *shape = &shaped->values[shaped->outputs[0]].shape;
    *width = shape->rank == 4 ? shape->dims[1] : 0;
    HRF_TRY(hrf_graph_copy(shaped, &copy, err));
    HRF_TRY(hrf_engine_finish_scores(copy, *width, "segmentation", err));
    return t->form.preparation.size == 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "pictures of %lld px, and '%s' takes %lld: pictures with masks are "
                               "not resized",
                               (long long)t->list->side, t->recipe->model, (long long)t->form.side);
}

static enum hrf_status check_classes(struct hrf_fine_tuning *t, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = t->recipe;
    const int64_t n_classes = (int64_t)r->classes.n_items;
    HRF_AUTO(hrf_graph) shaped = NULL;
    HRF_AUTO(hrf_graph) renewed = NULL;
    HRF_AUTO_RELEASE(hrf_text_list) trained = { .items = NULL };
    int64_t width = 0;
    HRF_TRY(hrf_tuned_network_shape(t, t->graph, &shaped, err));
    HRF_TRY(find_width(t, shaped, &width, err));
    const bool is_probe = r->method != HRF_METHOD_FINE_TUNING;
    t->width = is_probe || has_head(t) ? (size_t)width : 0;
    if (has_head(t))
        return hrf_last_layers_list(shaped, r->layers, &trained, err);
    t->added_to = is_probe || r->last_layer == HRF_LAST_LAYER_ADD ? width : 0;
    t->is_renewed = t->added_to > 0 || r->last_layer == HRF_LAST_LAYER_FRESH ||
                    (r->last_layer == HRF_LAST_LAYER_AUTO && width != n_classes);
    if (!t->is_renewed && width != n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' gives %lld numbers, and there are %lld classes: leave "
                             "model.last_layer out, and its last layer is made anew",
                             r->model, (long long)width, (long long)n_classes);
    HRF_TRY(hrf_tuned_network_with_classes(t, 0, &renewed, err));
    hrf_graph_destroy(shaped);
    shaped = NULL;
    HRF_TRY(hrf_tuned_network_shape(t, renewed, &shaped, err));
    HRF_TRY(find_width(t, shaped, &width, err));
    return hrf_last_layers_list(shaped, r->layers, &trained, err);
}

enum hrf_status hrf_tuned_network_open(struct hrf_fine_tuning *t, struct hrf_error *err)
{
    const char *path = t->recipe->model;
    HRF_TRY(hrf_onnx_read_named(path, t->model_sha256, &t->graph, err));
    if (t->graph->n_inputs != 1 || t->graph->n_outputs != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has %d inputs and %d outputs; what is trained has one of each",
                             path, (int)t->graph->n_inputs, (int)t->graph->n_outputs);
    HRF_TRY(find_form(t, err));
    return check_classes(t, err);
}
