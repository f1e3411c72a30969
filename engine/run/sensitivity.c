/* sensitivity.c - loss and time of INT8 by layer (sensitivity.h).
 *
 * The loss is measured in a float32 session: the layer's input is rounded to 8 bits and back in a
 * copy, its weights likewise, and all else is computed as ever. Rounding is that of lowering: by
 * row with smoothing for products of tokens, by the tensor's range elsewhere.
 */
#include "engine/run/sensitivity.h"

#include "base/clock.h"
#include "base/vector_1.h" /* hrf_v_round() vectorises, unlike rintf() */
#include "engine/ir/number.h"
#include "engine/ir/op.h"
#include "engine/passes/lower.h"
#include "engine/run/output_loss.h"
#include "engine/run/session_private.h"

#include <math.h>
#include <string.h>

enum { N_TIMINGS = 5 };
enum { INT8, FP32, BF16 }; /* of the times */

struct study {
    struct hrf_session *session; /* float32, with every tensor */
    struct hrf_graph *graph;     /* the session's, with its weights */
    struct hrf_session *low;     /* INT8 */
    const struct hrf_calibrated *calibrated;
    const float *images;
    float *exact; /* the session's output */
    int64_t n_images, n_values;
    float *rounded;              /* a copy of a layer's input */
    struct hrf_kernel **kernels; /* [steps]: those of the layer with rounded weights; NULL */
};

/* ---- layers ---- */

static bool is_product(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_op_precision(node->op) == HRF_PRECISION_PRODUCT &&
           graph->values[node->inputs[HRF_CONV_WEIGHTS]].data != NULL;
}

/* True if `name`, a value of a lowered graph, is the lowered form of `wanted`. */
static bool is_named(const char *name, const char *wanted)
{
    const size_t n = strlen(wanted);
    return strncmp(name, wanted, n) == 0 &&
           (name[n] == '\0' || strcmp(name + n, ".low") == 0 || strcmp(name + n, ".f32") == 0);
}

static bool reads(const struct hrf_graph *graph, const struct hrf_node *node, const char *tensor)
{
    return hrf_op_precision(node->op) == HRF_PRECISION_PRODUCT &&
           is_named(graph->values[node->inputs[HRF_CONV_X]].name, tensor);
}

/* How a layer's input is rounded. 'r': a product of the INT8 graph reads the tensor row by row,
 * 't': by the tensor's scale, 0: none of 8 bits does. ('b': to bfloat16.) */
static char form_of(const struct study *s, const char *tensor)
{
    const struct hrf_graph *low = s->low->graph;
    for (int32_t i = 0; i < low->n_nodes; i++) {
        const struct hrf_node *node = &low->nodes[i];
        if (!reads(low, node, tensor) ||
            low->values[node->inputs[HRF_CONV_WEIGHTS]].dtype != HRF_S8)
            continue;
        return node->op == HRF_OP_TOKEN_PRODUCT ? 'r' : 't';
    }
    return 0;
}

static const struct hrf_range *find_range(const struct study *s, const char *tensor)
{
    for (int32_t i = 0; i < s->calibrated->n_ranges; i++)
        if (strcmp(s->calibrated->ranges[i].value, tensor) == 0)
            return &s->calibrated->ranges[i];
    return NULL;
}

/* ---- rounding ---- */

static void round_numbers(const float *x, const float *factors, int64_t n, float *out)
{
    float most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fmaxf(most, fabsf(factors != NULL ? x[k] / factors[k] : x[k]));
    const float scale = most >= 0x1p-100f ? most / 127 : 1;
    for (int64_t k = 0; k < n; k++) {
        const float f = factors != NULL ? factors[k] : 1;
        out[k] = hrf_v_round(x[k] / f / scale) * scale * f;
    }
}

static void round_tensor(const float *x, int64_t n, const struct hrf_range *range, float *out)
{
    struct hrf_quantization q;
    enum hrf_dtype type;
    hrf_lower_quantization(range->low, range->high, false, &type, &q);
    const float low = type == HRF_U8 ? 0 : -128, high = type == HRF_U8 ? 255 : 127;
    for (int64_t i = 0; i < n; i++)
        out[i] = hrf_v_round(fminf(high, fmaxf(low, x[i] / q.scale))) * q.scale;
}

static void round_bf16(const float *x, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = hrf_round_to(HRF_B16, x[i]);
}

/* The weights of a product, rounded with one scale for each output, in their own order. `factors`:
 * smoothing of the input; NULL: none. */
static void round_weights(const struct hrf_node *node, const struct hrf_value *w,
                          const float *factors, float *out)
{
    const int64_t n = hrf_shape_count(&w->shape);
    const bool by_columns = node->op == HRF_OP_GEMM && !node->attributes.gemm.transpose_b;
    const bool transposed = node->op == HRF_OP_CONV_TRANSPOSE;
    const int64_t n_out = w->shape.dims[by_columns || transposed ? 1 : 0];
    const int64_t depth = n / n_out, area = transposed ? w->shape.dims[2] * w->shape.dims[3] : 1;
    const float *from = w->data;
    for (int64_t m = 0; m < n_out; m++) {
        float most = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < depth; k++) {
                const int64_t at = by_columns   ? k * n_out + m
                                   : transposed ? (k / area * n_out + m) * area + k % area
                                                : m * depth + k;
                const float f = factors != NULL ? factors[k] : 1, v = from[at] * f;
                const float scale = most >= 0x1p-100f ? most / 127 : 1;
                if (pass == 0)
                    most = fmaxf(most, fabsf(v));
                else
                    out[at] = hrf_v_round(v / scale) * scale / f;
            }
    }
}

/* ---- the loss of one layer ---- */

/* Compiles kernels of the layer's products with rounded weights. */
static enum hrf_status compile_layer(struct study *s, const char *tensor, char form,
                                     const float *factors, struct hrf_error *err)
{
    struct hrf_session *session = s->session;
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        const struct hrf_node *node = &s->graph->nodes[session->plan->steps[i].node];
        if (!is_product(s->graph, node) || !reads(s->graph, node, tensor) ||
            session->plan->steps[i].part != HRF_PART_WHOLE)
            continue;
        struct hrf_value *w = &s->graph->values[node->inputs[HRF_CONV_WEIGHTS]];
        void *own = w->data;
        HRF_AUTO_FREE float *rounded = hrf_try_alloc_array((size_t)hrf_shape_count(&w->shape),
                                                           sizeof *rounded);
        HRF_CHECK_MEMORY(rounded != NULL, err, "no memory to measure layers");
        if (form == 'b')
            round_bf16(w->data, hrf_shape_count(&w->shape), rounded);
        else
            round_weights(node, w, factors, rounded);
        w->data = rounded;
        const enum hrf_status status = hrf_backend_compile(session->ops, session->backend, s->graph,
                                                           node, &s->kernels[i], err);
        w->data = own;
        HRF_TRY(status);
    }
    return HRF_OK;
}

static enum hrf_status run_layer(struct study *s, int32_t step, struct hrf_error *err)
{
    struct hrf_kernel *kernel = s->kernels[step];
    const struct hrf_node *node = &s->graph->nodes[s->session->plan->steps[step].node];
    const void *inputs[HRF_CONV_MAX_INPUTS] = { NULL };
    for (int32_t k = 0; k < node->n_inputs; k++)
        inputs[k] = s->session->calls[step].inputs[k];
    inputs[HRF_CONV_X] = s->rounded;
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(workspace != NULL, err, "no memory to measure layers");
    const struct hrf_kernel_call call = { .inputs = inputs,
                                          .output = s->session->calls[step].output,
                                          .workspace = workspace };
    return kernel->run(kernel, &call, err);
}

static void round_input(struct study *s, int32_t step, const char *tensor, char form,
                        const float *factors)
{
    const struct hrf_node *node = &s->graph->nodes[s->session->plan->steps[step].node];
    const struct hrf_shape *shape = &s->graph->values[node->inputs[HRF_CONV_X]].shape;
    const float *x = s->session->calls[step].inputs[HRF_CONV_X];
    const int64_t n = hrf_shape_count(shape), depth = hrf_shape_innermost(shape);
    if (form == 't')
        round_tensor(x, n, find_range(s, tensor), s->rounded);
    if (form == 'b')
        round_bf16(x, n, s->rounded);
    for (int64_t i = 0; i < n && form == 'r'; i += depth)
        round_numbers(x + i, factors, depth, s->rounded + i);
}

static enum hrf_status run_all(struct study *s, const char *tensor, char form, const float *factors,
                               struct hrf_error *err)
{
    struct hrf_session *session = s->session;
    const int64_t n_in = hrf_shape_count(hrf_session_input_shape(session, 0));
    memcpy(hrf_session_input(session, 0), s->images, (size_t)n_in * sizeof *s->images);
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        if (s->kernels[i] == NULL) {
            HRF_TRY(hrf_session_time_step(session, i, err));
            continue;
        }
        round_input(s, i, tensor, form, factors);
        HRF_TRY(run_layer(s, i, err));
    }
    return HRF_OK;
}

/* The loss of the session's output against the exact one, summed over the images. */
static double loss_of(const struct study *s, struct hrf_session *session, enum hrf_layer_loss loss)
{
    const float *y = hrf_session_output(session, 0);
    double sum = 0;
    for (int64_t i = 0; i < s->n_images; i++)
        sum += hrf_output_loss(loss, s->exact + i * s->n_values, y + i * s->n_values, s->n_values);
    return sum;
}

static enum hrf_status find_factors(const struct study *s, const char *tensor, float **factors,
                                    struct hrf_error *err)
{
    const int32_t value = hrf_graph_find_value(s->graph, tensor);
    return hrf_lower_find_smoothing(s->graph, value, find_range(s, tensor), factors, err);
}

static enum hrf_status measure_loss(struct study *s, const char *tensor, enum hrf_layer_loss loss,
                                    char form, double *sum, int64_t *n_images,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE float *factors = NULL;
    if (form == 'r')
        HRF_TRY(find_factors(s, tensor, &factors, err));
    enum hrf_status status = compile_layer(s, tensor, form, factors, err);
    if (status == HRF_OK)
        status = run_all(s, tensor, form, factors, err);
    for (int32_t i = 0; i < s->session->plan->n_steps; i++) {
        hrf_kernel_destroy(s->kernels[i]);
        s->kernels[i] = NULL;
    }
    HRF_TRY(status);
    *sum += loss_of(s, s->session, loss);
    *n_images += s->n_images;
    return HRF_OK;
}

/* ---- time ---- */

/* A session that is timed; each step counts with its fastest run. */
struct timed {
    struct hrf_session *session;
    double *seconds; /* [steps] */
};

static enum hrf_status time_once(struct timed *t, bool is_first, struct hrf_error *err)
{
    struct hrf_session *session = t->session;
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        const double start = hrf_clock_thread_seconds();
        HRF_TRY(hrf_session_time_step(session, i, err));
        const double took = hrf_clock_thread_seconds() - start;
        t->seconds[i] = is_first ? took : fmin(t->seconds[i], took);
    }
    return HRF_OK;
}

static void add_times(const struct timed *t, int which, int64_t n_images,
                      struct hrf_observations *o)
{
    const struct hrf_session *session = t->session;
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        const struct hrf_node *node = &session->graph->nodes[session->plan->steps[i].node];
        const double seconds = t->seconds[i] / (double)n_images;
        o->seconds[which] += seconds;
        for (int32_t l = 0; l < o->n_layers; l++)
            if (reads(session->graph, node, o->layers[l].tensor))
                o->layers[l].seconds[which] += seconds;
    }
}

/* Times all sessions alternately by the processor time of one thread, so that other load on the
 * machine matters little. */
static enum hrf_status time_all(const struct study *s, struct timed timed[HRF_OBSERVE_TIMES],
                                struct hrf_observations *o, struct hrf_error *err)
{
    for (int k = 0; k < HRF_OBSERVE_TIMES; k++) {
        timed[k].seconds = hrf_calloc((size_t)timed[k].session->plan->n_steps + 1, sizeof(double));
    }
    for (int run = 0; run < N_TIMINGS; run++)
        for (int k = 0; k < HRF_OBSERVE_TIMES; k++)
            HRF_TRY(time_once(&timed[k], run == 0, err));
    for (int k = 0; k < HRF_OBSERVE_TIMES; k++)
        add_times(&timed[k], k, s->n_images, o);
    return HRF_OK;
}

static enum hrf_status measure_times(const struct study *s, const struct hrf_graph *graph,
                                     const struct hrf_session_config *config,
                                     struct hrf_observations *observations, struct hrf_error *err)
{
    static const enum hrf_precision precisions[HRF_OBSERVE_TIMES] = { HRF_INT8, HRF_FP32,
                                                                      HRF_BF16 };
    struct timed timed[HRF_OBSERVE_TIMES] = { { .session = s->low } };
    enum hrf_status status = HRF_OK;
    for (int k = 1; k < HRF_OBSERVE_TIMES && status == HRF_OK; k++) {
        struct hrf_session_config own = *config;
        own.precision = precisions[k];
        own.n_threads = 1;
        status = hrf_session_create(graph, &own, &timed[k].session, err);
    }
    if (status == HRF_OK)
        status = time_all(s, timed, observations, err);
    for (int k = 0; k < HRF_OBSERVE_TIMES; k++) {
        hrf_free(timed[k].seconds);
        if (k > 0)
            hrf_session_destroy(timed[k].session);
    }
    return status;
}

/* ---- all of it ---- */

/* Adds the layers that INT8 has. */
static void find_layers(const struct study *s, struct hrf_observations *observations)
{
    for (int32_t i = 0; i < s->graph->n_nodes; i++) {
        const struct hrf_node *node = &s->graph->nodes[i];
        if (!is_product(s->graph, node))
            continue;
        const char *tensor = s->graph->values[node->inputs[HRF_CONV_X]].name;
        const char form = form_of(s, tensor);
        if (form == 0 || (form == 't' && find_range(s, tensor) == NULL))
            continue;
        hrf_observations_layer(observations, tensor)->is_measured = true;
    }
}

static enum hrf_status measure(struct study *s, const struct hrf_graph *graph,
                               const struct hrf_session_config *config,
                               struct hrf_observations *observations, struct hrf_error *err)
{
    const enum hrf_layer_loss loss = observations->loss;
    find_layers(s, observations);
    HRF_TRY(measure_times(s, graph, config, observations, err));
    for (int32_t l = 0; l < observations->n_layers; l++) {
        struct hrf_observed_layer *layer = &observations->layers[l];
        if (!layer->is_measured)
            continue;
        layer->is_measured = false;
        layer->n_timed++;
        HRF_TRY(measure_loss(s, layer->tensor, loss, form_of(s, layer->tensor), &layer->loss,
                             &layer->n_images, err));
        if (layer->seconds[BF16] < layer->seconds[FP32])
            HRF_TRY(measure_loss(s, layer->tensor, loss, 'b', &layer->bf16_loss,
                                 &layer->n_bf16_images, err));
    }
    observations->n_timed++;
    return HRF_OK;
}

/* Measures all layers in INT8 together, on as many images as fill batches. */
static enum hrf_status measure_whole(struct study *s, int64_t n_images,
                                     struct hrf_observations *observations, struct hrf_error *err)
{
    const int64_t n_in = hrf_shape_count(hrf_session_input_shape(s->session, 0));
    const float *const images = s->images;
    for (int64_t first = 0; first + s->n_images <= n_images; first += s->n_images) {
        s->images = images + first / s->n_images * n_in;
        HRF_TRY(run_all(s, NULL, 0, NULL, err));
        memcpy(s->exact, hrf_session_output(s->session, 0),
               (size_t)(s->n_images * s->n_values) * sizeof *s->exact);
        memcpy(hrf_session_input(s->low, 0), s->images, (size_t)n_in * sizeof *s->images);
        HRF_TRY(hrf_session_run(s->low, err));
        observations->whole_loss += loss_of(s, s->low, observations->loss);
        observations->n_whole += s->n_images;
    }
    return HRF_OK;
}

static enum hrf_status prepare(struct study *s, const struct hrf_graph *graph,
                               const struct hrf_session_config *config, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    struct hrf_session_config full = { .device = config->device,
                                       .precision = HRF_FP32,
                                       .n_threads = config->n_threads,
                                       .every_tensor = true };
    struct hrf_session_config low = full;
    double operations;
    int64_t most = 1;
    low.precision = HRF_INT8;
    low.every_tensor = false;
    low.n_threads = 1;
    low.ranges = s->calibrated->ranges;
    low.n_ranges = s->calibrated->n_ranges;
    low.keep = s->calibrated->keep;
    low.keep_reasons = s->calibrated->keep_reasons;
    low.keep_precisions = s->calibrated->keep_precisions;
    low.n_keep = s->calibrated->n_keep;
    HRF_TRY(hrf_session_prepare(graph, &full, &s->graph, &operations, &notes, err));
    HRF_TRY(hrf_session_create(graph, &full, &s->session, err));
    HRF_TRY(hrf_session_create(graph, &low, &s->low, err));
    for (int32_t i = 0; i < s->graph->n_nodes; i++)
        if (is_product(s->graph, &s->graph->nodes[i])) {
            const int64_t n = hrf_shape_count(
                &s->graph->values[s->graph->nodes[i].inputs[HRF_CONV_X]].shape);
            most = n > most ? n : most;
        }
    s->n_images = hrf_session_input_shape(s->session, 0)->dims[0];
    const int64_t n_out = hrf_shape_count(hrf_session_output_shape(s->session, 0));
    s->n_values = n_out / s->n_images;
    s->rounded = hrf_alloc_aligned((size_t)most * sizeof *s->rounded, HRF_BUFFER_ALIGNMENT);
    s->exact = hrf_alloc_array((size_t)n_out + 1, sizeof *s->exact);
    s->kernels = hrf_calloc((size_t)s->session->plan->n_steps + 1, sizeof(struct hrf_kernel *));
    HRF_CHECK_MEMORY(s->rounded != NULL, err, "no memory to measure layers");
    HRF_TRY(run_all(s, NULL, 0, NULL, err));
    memcpy(s->exact, hrf_session_output(s->session, 0), (size_t)n_out * sizeof *s->exact);
    return HRF_OK;
}

enum hrf_status hrf_sensitivity_measure(const struct hrf_graph *graph,
                                        const struct hrf_session_config *config,
                                        const struct hrf_calibrated *calibrated,
                                        const float *images, int64_t n_images,
                                        struct hrf_observations *observations,
                                        struct hrf_error *err)
{
    struct study s = { .calibrated = calibrated, .images = images };
    const struct hrf_backend_ops *ops;
    HRF_TRY(hrf_backend_choose(config->device, &ops, NULL, err));
    if (ops->device != NULL)
        return HRF_OK;
    enum hrf_status status = prepare(&s, graph, config, err);
    if (status == HRF_OK)
        status = measure(&s, graph, config, observations, err);
    if (status == HRF_OK)
        status = measure_whole(&s, n_images, observations, err);
    hrf_session_destroy(s.session);
    hrf_session_destroy(s.low);
    hrf_graph_destroy(s.graph);
    hrf_free(s.rounded);
    hrf_free(s.exact);
    hrf_free(s.kernels);
    return status;
}
