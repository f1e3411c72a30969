/* planner.c - prepares networks, predicts layouts and searches the best one (planner.h). */
#include "engine/run/planner.h"

#include "base/array.h"
#include "engine/backend/backend.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/plan/tensor_parallel.h"
#include "engine/run/made_ranges.h"
#include "engine/run/rank.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The network for one size of micro-batch, and one number of ranks that divide its channels and of
 * those that divide its images. */
struct prepared {
    int64_t per_microbatch;
    int32_t tensor, image_parts;
    struct hrf_graph *graph;
};

struct hrf_planner {
    struct hrf_planner_config config;
    struct hrf_cost_table costs; /* the configuration's costs, with `weights` */
    struct hrf_cost_weights weights;
    struct hrf_made_ranges made;
    int64_t n_images;
    struct prepared *prepared;
    size_t n_prepared, capacity;
    double operations;
};

void hrf_planner_destroy(struct hrf_planner *planner)
{
    if (planner == NULL)
        return;
    for (size_t i = 0; i < planner->n_prepared; i++)
        hrf_graph_destroy(planner->prepared[i].graph);
    hrf_free(planner->prepared);
    hrf_cost_weights_release(&planner->weights);
    hrf_made_ranges_release(&planner->made);
    hrf_free(planner);
}

enum hrf_status hrf_planner_create(const struct hrf_planner_config *config,
                                   struct hrf_planner **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_planner) planner = hrf_calloc(1, sizeof *planner);
    planner->config = *config;
    planner->costs = *config->costs;
    planner->costs.weights = &planner->weights;
    if (planner->config.memory_bytes == 0)
        planner->config.memory_bytes = config->machine->memory_bytes;
    const struct hrf_shape *in = &config->graph->values[config->graph->inputs[0]].shape;
    planner->n_images = in->rank > 0 ? in->dims[0] : 1;
    if (config->graph->n_images > 0) /* the graph is that of a micro-batch */
        planner->n_images = config->graph->n_images;
    if (hrf_precision_row(config->precision)->needs_scales)
        HRF_TRY(hrf_made_ranges_init(config->graph, &planner->made, err));
    HRF_MOVE(*out, planner);
    return HRF_OK;
}

const char *hrf_planner_backend(const struct hrf_machine *machine, char note[512])
{
    const struct hrf_backend_ops *ops;
    struct hrf_error why = { .text = "" };
    bool has_gpus = machine->has_gpus;
    for (int32_t i = 0; i < machine->n_links; i++)
        has_gpus |= machine->links[i].is_gpus || strcmp(machine->links[i].comm, "nccl") == 0 ||
                    strcmp(machine->links[i].comm, "ipc") == 0;
    note[0] = '\0';
    if (!has_gpus)
        return "cpu";
    if (hrf_backend_open("cuda", &ops, &why) == HRF_OK)
        return "cuda";
    snprintf(note, 512,
             "predicted of networks as processors compute them, since GPU support cannot be "
             "loaded: %.380s\n",
             why.text);
    return "cpu";
}

/* ---- prepared networks ---- */

static bool has_constants(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && graph->values[node->inputs[i]].data != NULL)
            return true;
    return false;
}

/* The memory that a kernel of the node's kind needs; it is determined once for each kind. */
static enum hrf_status ask_kernel(struct hrf_planner *planner, const struct hrf_backend_ops *ops,
                                  struct hrf_backend *backend, const struct hrf_graph *graph,
                                  const struct hrf_node *node, struct hrf_error *err)
{
    struct hrf_kernel *kernel = NULL;
    HRF_AUTO_FREE char *key = hrf_cost_key(graph, node);
    if (hrf_cost_weight_bytes(&planner->costs, key) >= 0)
        return HRF_OK;
    const enum hrf_status status = hrf_backend_compile(ops, backend, graph, node, &kernel, err);
    /* Weights that are too large to be packed on this machine may fit on the planned one. */
    if (status != HRF_OK)
        return status == HRF_E_NOMEM ? HRF_OK : status;
    const int64_t n_bytes = (int64_t)kernel->weight_bytes;
    hrf_kernel_destroy(kernel);
    hrf_cost_weights_add(&planner->weights, key, n_bytes);
    return HRF_OK;
}

static enum hrf_status ask_kernels(struct hrf_planner *planner, const struct hrf_graph *graph,
                                   struct hrf_error *err)
{
    const struct hrf_backend_config config = { .n_threads = 1 };
    const struct hrf_backend_ops *ops;
    struct hrf_backend *backend = NULL;
    HRF_TRY(hrf_backend_open(planner->config.device, &ops, err));
    HRF_TRY(ops->create(&config, &backend, err));
    if (ops->enter != NULL)
        ops->enter(backend);
    enum hrf_status status = ops->prepare != NULL ? ops->prepare(backend, graph, NULL, err)
                                                  : HRF_OK;
    for (int32_t n = 0; n < graph->n_nodes && status == HRF_OK; n++)
        if (has_constants(graph, &graph->nodes[n]))
            status = ask_kernel(planner, ops, backend, graph, &graph->nodes[n], err);
    ops->destroy(backend);
    return status;
}

/* The graph of a step for a micro-batch. */
static enum hrf_status make_step(const struct hrf_graph *network,
                                 const struct hrf_batch_split *shares, struct hrf_graph **out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    hrf_pass_mark_weights(graph);
    struct hrf_shape part = graph->values[graph->inputs[0]].shape;
    if (shares->per_microbatch != shares->n_images) {
        part.dims[0] = shares->per_microbatch;
        graph->n_images = shares->n_images;
        HRF_TRY(hrf_graph_set_input_shape(graph, 0, &part, err));
    }
    HRF_TRY(hrf_pass_training_step(graph, HRF_LOSS_MSE, NULL, &gradients, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

static enum hrf_status prepare(struct hrf_planner *planner, const struct hrf_layout_plan *layout,
                               const struct hrf_batch_split *shares, struct prepared *p,
                               struct hrf_error *err)
{
    const char *backend = planner->config.prepared_as;
    const struct hrf_session_config config = { .device = backend != NULL ? backend : "cpu",
                                               .precision = planner->config.precision,
                                               .ranges = planner->made.ranges,
                                               .n_ranges = planner->made.n_ranges };
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_graph) step = NULL;
    double operations = 0;
    if (planner->config.is_step)
        HRF_TRY(make_step(planner->config.graph, shares, &step, err));
    HRF_TRY(hrf_work_prepare(layout, shares, step != NULL ? step : planner->config.graph, &config,
                             &p->graph, &operations, &notes, err));
    if (planner->config.device != NULL)
        HRF_TRY(ask_kernels(planner, p->graph, err));
    p->per_microbatch = shares->per_microbatch;
    p->tensor = layout->tensor;
    p->image_parts = hrf_layout_image_parts(layout);
    planner->operations = operations * (double)shares->n_images / (double)shares->per_microbatch;
    return HRF_OK;
}

static const struct prepared *find_prepared(const struct hrf_planner *planner,
                                            const struct hrf_layout_plan *layout,
                                            const struct hrf_batch_split *shares)
{
    for (size_t i = 0; i < planner->n_prepared; i++) {
        const struct prepared *p = &planner->prepared[i];
        if (p->per_microbatch == shares->per_microbatch && p->tensor == layout->tensor &&
            p->image_parts == hrf_layout_image_parts(layout))
            return p;
    }
    return NULL;
}

static enum hrf_status get_prepared(struct hrf_planner *planner,
                                    const struct hrf_layout_plan *layout,
                                    const struct hrf_batch_split *shares,
                                    const struct prepared **out, struct hrf_error *err)
{
    struct prepared fresh = { .graph = NULL };
    *out = find_prepared(planner, layout, shares);
    if (*out != NULL)
        return HRF_OK;
    HRF_RESERVE(planner->prepared, planner->capacity, planner->n_prepared + 1);
    const enum hrf_status status = prepare(planner, layout, shares, &fresh, err);
    if (status != HRF_OK) {
        hrf_graph_destroy(fresh.graph);
        return status;
    }
    planner->prepared[planner->n_prepared] = fresh;
    *out = &planner->prepared[planner->n_prepared++];
    return HRF_OK;
}

const struct hrf_graph *hrf_planner_graph(const struct hrf_planner *planner,
                                          const struct hrf_layout_plan *layout)
{
    struct hrf_batch_split shares;
    if (hrf_layout_share(layout, planner->n_images, &shares, NULL) != HRF_OK)
        return NULL;
    const struct prepared *p = find_prepared(planner, layout, &shares);
    return p != NULL ? p->graph : NULL;
}

double hrf_planner_operations(const struct hrf_planner *planner)
{
    return planner->operations;
}

/* ---- one layout ---- */

enum hrf_status hrf_planner_predict(struct hrf_planner *planner,
                                    const struct hrf_layout_plan *layout,
                                    struct hrf_prediction **out, struct hrf_error *err)
{
    const struct prepared *p;
    struct hrf_batch_split shares;
    HRF_AUTO(hrf_partition) partition = NULL;
    HRF_TRY(hrf_layout_share(layout, planner->n_images, &shares, err));
    HRF_TRY(get_prepared(planner, layout, &shares, &p, err));
    HRF_TRY(hrf_work_check(p->graph, layout, err));
    const struct hrf_cutting cutting = { &planner->costs, planner->config.machine };
    HRF_TRY(hrf_work_partition(p->graph, layout, &cutting, &partition, err));
    return hrf_predict(partition, planner->n_images, &planner->costs, planner->config.machine, out,
                       err);
}

enum hrf_status hrf_planner_predict_bands(struct hrf_planner *planner, enum hrf_bands_rows rows,
                                          struct hrf_bands_prediction *out, struct hrf_error *err)
{
    const struct hrf_layout_plan single = hrf_layout_single();
    const struct prepared *p;
    struct hrf_batch_split shares;
    HRF_TRY(hrf_layout_share(&single, planner->n_images, &shares, err));
    HRF_TRY(get_prepared(planner, &single, &shares, &p, err));
    const struct hrf_bands_options options = { .limit_bytes = planner->config.memory_bytes,
                                               .rows = rows,
                                               .costs = &planner->costs };
    return hrf_bands_predict(p->graph, &options, out, err);
}

bool hrf_planner_fits(const struct hrf_planner *planner, const struct hrf_prediction *prediction)
{
    const int64_t limit = planner->config.memory_bytes;
    return limit <= 0 || hrf_prediction_peak_bytes(prediction) <= limit;
}

/* ---- the best of many ---- */

struct choice {
    struct hrf_planner *planner;
    struct hrf_prediction *best;  /* of those that fit */
    struct hrf_prediction *least; /* memory, of all */
};

static void keep_better(struct hrf_prediction **kept, struct hrf_prediction **fresh, bool is_better)
{
    if (*kept != NULL && !is_better)
        return;
    hrf_prediction_destroy(*kept);
    *kept = *fresh;
    *fresh = NULL;
}

static enum hrf_status consider(struct choice *c, const struct hrf_layout_plan *layout,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_prediction) p = NULL;
    HRF_TRY(hrf_planner_predict(c->planner, layout, &p, err));
    if (hrf_planner_fits(c->planner, p))
        keep_better(&c->best, &p, c->best != NULL && p->seconds < c->best->seconds);
    else
        keep_better(&c->least, &p,
                    c->least != NULL &&
                        hrf_prediction_peak_bytes(p) < hrf_prediction_peak_bytes(c->least));
    return HRF_OK;
}

/* A layout that this network cannot have (more stages than nodes, too few images) is skipped. What
 * is wrong with all layouts is an error. */
static enum hrf_status try_layout(struct choice *c, const struct hrf_layout_plan *layout,
                                  struct hrf_error *err)
{
    struct hrf_batch_split shares;
    const int32_t most = c->planner->n_prepared > 0 ? c->planner->prepared[0].graph->n_nodes
                                                    : c->planner->config.graph->n_nodes;
    if (layout->stages > most ||
        hrf_layout_share(layout, c->planner->n_images, &shares, NULL) != HRF_OK)
        return HRF_OK;
    return consider(c, layout, err);
}

static enum hrf_status try_microbatches(struct choice *c, struct hrf_layout_plan layout,
                                        struct hrf_error *err)
{
    const int64_t most = c->planner->n_images / layout.data;
    const int64_t useful = layout.stages > 1 ? 16 * (int64_t)layout.stages : 1;
    for (layout.microbatches = 1; layout.microbatches <= most && layout.microbatches <= useful;
         layout.microbatches *= 2)
        for (int both = 0; both < 2; both++) {
            layout.bidirectional = both;
            if (!both || (layout.stages > 1 && layout.microbatches > 1))
                HRF_TRY(try_layout(c, &layout, err));
        }
    return HRF_OK;
}

/* Row strips, and the grid that is nearest to a square, which has the shortest borders. */
static enum hrf_status try_grids(struct choice *c, struct hrf_layout_plan layout, int32_t parts,
                                 struct hrf_error *err)
{
    layout.rows = parts;
    layout.columns = 1;
    HRF_TRY(try_microbatches(c, layout, err));
    for (int32_t columns = (int32_t)sqrt((double)parts); columns > 1; columns--)
        if (parts % columns == 0) {
            layout.rows = parts / columns;
            layout.columns = columns;
            return try_microbatches(c, layout, err);
        }
    return HRF_OK;
}

/* The ranks of a stage divide the image, or, of a transformer, its heads and channels. */
static enum hrf_status try_tensors(struct choice *c, struct hrf_layout_plan layout, int32_t n_ranks,
                                   struct hrf_error *err)
{
    for (layout.tensor = 1; layout.tensor <= n_ranks; layout.tensor++) {
        if (layout.tensor > 1 && (c->planner->config.is_step || c->planner->n_prepared == 0 ||
                                  !hrf_tensor_finds_heads(c->planner->prepared[0].graph)))
            return HRF_OK;
        if (n_ranks % layout.tensor == 0)
            HRF_TRY(try_grids(c, layout, n_ranks / layout.tensor, err));
    }
    return HRF_OK;
}

static enum hrf_status try_all(struct choice *c, int32_t n_ranks, struct hrf_error *err)
{
    for (int32_t data = 1; data <= n_ranks; data++)
        for (int32_t stages = 1; n_ranks % data == 0 && stages <= n_ranks / data; stages++) {
            const struct hrf_layout_plan layout = { .data = data, .stages = stages };
            if (n_ranks / data % stages == 0)
                HRF_TRY(try_tensors(c, layout, n_ranks / data / stages, err));
        }
    return HRF_OK;
}

static enum hrf_status refuse(const struct choice *c, int32_t n_ranks, struct hrf_error *err)
{
    char text[128] = "";
    if (c->least == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "no layout of %d ranks can share a batch of %lld; take fewer ranks or "
                             "a larger batch",
                             n_ranks, (long long)c->planner->n_images);
    hrf_layout_text(&c->least->layout, text);
    return hrf_error_set(err, HRF_E_USER,
                         "no layout of %d ranks keeps below %.2f GiB a rank; %s needs least, %.2f "
                         "GiB: take more ranks, a smaller batch or a lower precision",
                         n_ranks, (double)c->planner->config.memory_bytes / 0x1p30, text,
                         (double)hrf_prediction_peak_bytes(c->least) / 0x1p30);
}

enum hrf_status hrf_planner_choose(struct hrf_planner *planner, int32_t n_ranks,
                                   struct hrf_prediction **out, struct hrf_error *err)
{
    struct choice choice = { .planner = planner };
    enum hrf_status status = try_all(&choice, n_ranks, err);
    if (status == HRF_OK && choice.best == NULL)
        status = refuse(&choice, n_ranks, err);
    if (status == HRF_OK)
        *out = choice.best;
    else
        hrf_prediction_destroy(choice.best);
    hrf_prediction_destroy(choice.least);
    return status;
}
