/* conv_winograd.c - 3x3 convolution of stride 1 or 2 by Winograd's transforms, own kernels: where
 * it pays, its weights, and how its tiles are cut into blocks. conv_winograd_run.c runs it.
 */
#include "engine/backend/cpu/conv_winograd.h"

#include <string.h>

enum {
    LANES = 16,
    LARGE_WEIGHT_BYTES = 3 << 20, /* beyond, they do not come fast enough for so few tiles */
    MIN_LARGE_BLOCK = 28,         /* tiles that hide them */
    LARGE_BLOCK_BYTES = 6 << 20,  /* of scratch, for each thread, in the shared cache */
    PITCH_SLACK = LANES,          /* keeps the points' streams off one set of the caches; there is
                                   * room for the ends of crossed rows */
    CROSSED_CHANNELS = 128,
};

static const struct hrf_winograd_form plain = {
    .stride = 1,
    .out = HRF_WINOGRAD_OUT,
    .in = HRF_WINOGRAD_IN,
    .n_points = HRF_WINOGRAD_POINTS,
    .n_phases = 1,
    .n_products = HRF_WINOGRAD_POINTS,
    .input_cycles = 168,
    .output_cycles = 130,
};

static const struct hrf_winograd_form strided = {
    .stride = 2,
    .out = HRF_STRIDED_OUT,
    .in = HRF_STRIDED_IN,
    .n_points = HRF_STRIDED_POINTS,
    .n_phases = HRF_STRIDED_PHASES,
    .n_products = HRF_STRIDED_PRODUCTS,
    .input_cycles = 250,
    .output_cycles = 90,
};

static void destroy(struct hrf_kernel *base)
{
    struct hrf_winograd_kernel *k = (struct hrf_winograd_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k->zeros);
    hrf_cpu_prologue_release(&k->prologue);
    hrf_free(k);
}

/* In cycles of one thread, from the machine's own limits: its multiply-adds a cycle at 85 %, the
 * transforms' instructions one a cycle (they wait for memory; of stride 2 what was measured, whose
 * pixels come from beyond the second-level cache), weights at what a core reads from
 * main memory: 5 bytes a cycle. With few tiles the last decides, as there are four times as many
 * transformed weights (measured: one image of 512 channels at 8x8, 3.7 ms against 2.9 of the
 * product with 32 multiply-adds a cycle, 1.1 against 1.5 with 16). */
enum { WEIGHT_BYTES_PER_CYCLE = 5 };

static double weight_cycles(double n_weights)
{
    return n_weights * sizeof(float) / WEIGHT_BYTES_PER_CYCLE;
}

static int64_t count_tiles(const struct hrf_winograd_form *f, const struct hrf_shape *y)
{
    return y->dims[0] * hrf_ceil_div(y->dims[2], f->out) * hrf_ceil_div(y->dims[3], f->out);
}

static double winograd_cycles(const struct hrf_winograd_form *f, const struct hrf_shape *y,
                              int64_t c)
{
    const int64_t m = y->dims[1];
    const int64_t whole = hrf_ceil_div(m, HRF_PANEL) * HRF_PANEL;
    const double tiles = (double)count_tiles(f, y), products = (double)(c * whole * f->n_products);
    const double transforms = tiles * (f->input_cycles * (double)c + f->output_cycles * (double)m) /
                              LANES;
    const double multiply_adds = hrf_cpu_multiply_adds_per_cycle() * 0.85;
    return tiles * products / multiply_adds + transforms + weight_cycles(products);
}

static const struct hrf_winograd_form *form_of(const struct hrf_window *w)
{
    return w->stride[0] == 2 ? &strided : &plain;
}

/* `speed`: of its multiply-adds, in those of floats; its weights are as much smaller. */
static double direct_cycles(const struct hrf_shape *y, int64_t c, double speed)
{
    const double pixels = (double)(y->dims[0] * y->dims[2] * y->dims[3]);
    const double products = (double)c * (double)y->dims[1] * 9;
    const double multiply_adds = hrf_cpu_multiply_adds_per_cycle() * 0.9;
    return (pixels * products / multiply_adds + weight_cycles(products)) / speed;
}

bool hrf_cpu_winograd_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const struct hrf_winograd_form *f = form_of(w);
    const bool square = k->dims[2] == 3 && k->dims[3] == 3 && w->stride[0] == f->stride &&
                        w->stride[1] == f->stride && w->dilation[0] == 1 && w->dilation[1] == 1;
    if (!hrf_cpu_has_avx512() || !hrf_cpu_types_fit(graph, node) ||
        !hrf_cpu_comes_at_run_time(graph, node) || !square || node->attributes.group != 1 ||
        x->dims[1] % LANES != 0 || y->dims[1] % LANES != 0 || hrf_shape_count(y) == 0 ||
        (f->stride == 2 && hrf_node_has_prologue(node)))
        return false;
    return winograd_cycles(f, y, x->dims[1]) <
           direct_cycles(y, x->dims[1], hrf_cpu_native_speed(graph, node));
}

/* Of each point [m][its phases][c]. */
static void transform_weights(const struct hrf_winograd_kernel *k, const float *w,
                              float *point_major)
{
    const int64_t pairs = k->channels * k->out_channels;
    for (int64_t i = 0; i < pairs; i++) { /* w is [m][c][3][3] */
        double u[HRF_WINOGRAD_POINTS];    /* the more of the two */
        const double *from = u;
        float *to = point_major;
        if (k->form->stride == 2)
            hrf_strided_weights(w + i * 9, u);
        else
            hrf_winograd_weights(w + i * 9, 3, u);
        for (int64_t point = 0; point < k->form->n_points; point++) {
            const struct hrf_winograd_phases phases = hrf_winograd_phases_of(k->form, point);
            const int64_t n = phases.end - phases.first;
            float *const row = to + i / k->channels * n * k->channels + i % k->channels;
            for (int64_t phase = 0; phase < n; phase++)
                row[phase * k->channels] = (float)*from++;
            to += n * pairs;
        }
    }
}

static void pack_weights(struct hrf_winograd_kernel *k, const float *point_major)
{
    float *packed = k->weights;
    for (int64_t point = 0; point < k->form->n_points; point++) {
        const struct hrf_winograd_phases phases = hrf_winograd_phases_of(k->form, point);
        const int64_t depth = (phases.end - phases.first) * k->channels;
        k->points[point] = packed;
        hrf_product_pack(k->words, point_major, 1, depth, depth, k->out_channels, packed);
        point_major += depth * k->out_channels;
        packed += hrf_product_packed_count(k->words, depth, k->out_channels);
    }
}

static size_t count_packed(const struct hrf_winograd_kernel *k)
{
    size_t n = 0;
    for (int64_t point = 0; point < k->form->n_points; point++) {
        const struct hrf_winograd_phases phases = hrf_winograd_phases_of(k->form, point);
        n += hrf_product_packed_count(k->words, (phases.end - phases.first) * k->channels,
                                      k->out_channels);
    }
    return n;
}

static enum hrf_status prepare_constants(struct hrf_winograd_kernel *k,
                                         const struct hrf_graph *graph, const struct hrf_node *node,
                                         struct hrf_error *err)
{
    const size_t n_products = (size_t)k->form->n_products;
    const size_t n_bytes = count_packed(k) * sizeof(float);
    const size_t out_channels = (size_t)k->out_channels, channels = (size_t)k->channels;
    HRF_AUTO_FREE float *point_major = hrf_alloc_array(n_products * out_channels * channels,
                                                       sizeof(float));
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->zeros = hrf_calloc(channels, sizeof(float));
    k->bias = hrf_calloc(out_channels, sizeof(float));
    if (point_major == NULL || k->weights == NULL || k->zeros == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    HRF_TRY(hrf_cpu_prologue_init(&k->prologue, graph, node, err));
    transform_weights(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, point_major);
    pack_weights(k, point_major);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + out_channels * sizeof(float);
    return HRF_OK;
}

static void choose_blocks(struct hrf_winograd_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t weight_bytes = k->channels * k->out_channels * k->form->n_products *
                                 (int64_t)sizeof(float);
    k->v_pitch = k->form->n_phases * k->channels + PITCH_SLACK;
    k->m_pitch = k->out_channels + PITCH_SLACK;
    const int64_t v_floats = k->form->n_products * k->channels;
    const int64_t m_floats = k->form->n_points * k->out_channels;
    const int64_t most = v_floats > m_floats ? v_floats : m_floats;
    const int64_t tile_bytes = /* that are touched */
        (most + (k->form->n_points + 1) * PITCH_SLACK) * (int64_t)sizeof(float);
    const bool is_large = weight_bytes > LARGE_WEIGHT_BYTES;
    int64_t block = hrf_product_rows(k->words);
    if (is_large && LARGE_BLOCK_BYTES / tile_bytes > block)
        block = LARGE_BLOCK_BYTES / tile_bytes;
    k->n_blocks = hrf_ceil_div(k->n_tiles, block);
    if (!is_large || k->n_tiles / n_threads >= MIN_LARGE_BLOCK)
        k->n_blocks = hrf_ceil_div(k->n_blocks, n_threads) * n_threads; /* as many for each */
    else if (k->n_tiles / MIN_LARGE_BLOCK > k->n_blocks)
        k->n_blocks = k->n_tiles / MIN_LARGE_BLOCK;
    k->n_blocks = hrf_least(k->n_blocks, k->n_tiles);
    k->at_once = is_large ? hrf_least(k->n_blocks, n_threads) : 0;
    const int64_t pitch = k->v_pitch > k->m_pitch ? k->v_pitch : k->m_pitch;
    k->slot = hrf_ceil_div(k->n_tiles, k->n_blocks) * pitch + PITCH_SLACK;
    k->base.workspace_bytes = hrf_winograd_scratch(k);
}

/* A point's rows are short and crossed for it alone: 64 channels to 64 do not pay for that. */
static bool crosses(const struct hrf_winograd_kernel *k)
{
    return k->backend->adds_beside && hrf_least(k->channels, k->out_channels) >= CROSSED_CHANNELS;
}

static const char *name_of(const struct hrf_winograd_kernel *k)
{
    if (k->words == HRF_CROSSED && k->form == &plain)
        return HRF_CPU_NAME(k->type, "winograd_4x4_crossed:avx512");
    if (k->words == HRF_CROSSED)
        return HRF_CPU_NAME(k->type, "winograd_2x2_stride_2_crossed:avx512");
    return k->form == &plain ? HRF_CPU_NAME(k->type, "winograd_4x4:avx512")
                             : HRF_CPU_NAME(k->type, "winograd_2x2_stride_2:avx512");
}

enum hrf_status hrf_cpu_winograd_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_kernel **out,
                                         struct hrf_error *err)
{
    struct hrf_winograd_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = hrf_winograd_run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->backend = backend;
    k->form = form_of(&node->attributes.window);
    k->type = graph->values[node->inputs[HRF_CONV_X]].dtype;
    k->out_type = graph->values[node->outputs[0]].dtype;
    k->n = y->dims[0];
    k->channels = x->dims[1];
    k->rows = x->dims[2];
    k->columns = x->dims[3];
    k->out_channels = y->dims[1];
    k->out_rows = y->dims[2];
    k->out_columns = y->dims[3];
    k->pad[0] = node->attributes.window.pad_begin[0];
    k->pad[1] = node->attributes.window.pad_begin[1];
    k->tile_rows = hrf_ceil_div(k->out_rows, k->form->out);
    k->tile_columns = hrf_ceil_div(k->out_columns, k->form->out);
    k->n_tiles = count_tiles(k->form, y);
    k->words = crosses(k) ? HRF_CROSSED : HRF_FLOATS;
    k->base.implementation = name_of(k);
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    choose_blocks(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
