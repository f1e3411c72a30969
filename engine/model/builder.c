#include "engine/model/builder_private.h"

#include <math.h>
#include <stdio.h>

static bool failed(struct hrf_builder *b, enum hrf_status status)
{
    if (b->status == HRF_OK)
        b->status = status;
    return b->status != HRF_OK;
}

/* "NAME.suffix" as a constant of normal numbers around `mean`, or uniform in [low, high). */
enum distribution { NORMAL, UNIFORM };
static int32_t add_constant(struct hrf_builder *b, const char *name, const char *suffix,
                            struct hrf_shape shape, enum distribution kind, double first,
                            double second)
{
    int32_t index = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return index;
    int64_t count = hrf_shape_count(&shape);
    HRF_AUTO_FREE void *memory = count < 0 ? NULL
                                           : hrf_try_alloc_array((size_t)count, sizeof(float));
    HRF_AUTO_FREE char *full = hrf_format("%s.%s", name, suffix);
    if (memory == NULL) {
        failed(b,
               hrf_error_set(b->err, HRF_E_NOMEM, "out of memory for the weights of '%s'", name));
        return index;
    }
    float *numbers = memory;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(kind == NORMAL
                                 ? first + second * hrf_random_normal(&b->random)
                                 : first + (second - first) * hrf_random_unit(&b->random));
    failed(b, hrf_graph_take_value(b->graph, full, HRF_F32, &shape, &memory, &index, b->err));
    return index;
}

int32_t hrf_build_uniform(struct hrf_builder *b, const char *name, const char *suffix,
                          struct hrf_shape shape, double low, double high)
{
    return add_constant(b, name, suffix, shape, UNIFORM, low, high);
}

int32_t hrf_build_node(struct hrf_builder *b, enum hrf_op op, const char *name,
                       const int32_t *inputs, int32_t n_inputs,
                       const struct hrf_attributes *attributes)
{
    const struct hrf_shape unknown = { .rank = -1 };
    int32_t index = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return index;
    if (failed(b, hrf_graph_add_value(b->graph, name, HRF_F32, &unknown, NULL, &index, b->err)))
        return HRF_NO_VALUE;
    failed(b,
           hrf_graph_add_node(b->graph, op, name, inputs, n_inputs, &index, 1, attributes, b->err));
    return index;
}

struct hrf_layer hrf_build_input(struct hrf_builder *b, int64_t channels, int64_t size)
{
    struct hrf_shape shape = { .rank = 4, .dims = { -1, channels, size, size } };
    struct hrf_layer x = { .channels = channels, .rows = size, .columns = size, .square = 1 };
    failed(b, hrf_graph_add_value(b->graph, "input", HRF_F32, &shape, NULL, &x.value, b->err));
    return x;
}

struct hrf_layer hrf_build_conv(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                int64_t channels, struct hrf_conv_form form, bool bias)
{
    double fan_in = (double)(x.channels * form.kernel[0] * form.kernel[1]);
    struct hrf_shape shape = { .rank = 4,
                               .dims = { channels, x.channels, form.kernel[0], form.kernel[1] } };
    struct hrf_shape per_channel = { .rank = 1, .dims = { channels } };
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = form.kernel[i];
        a.window.stride[i] = form.stride[i];
        a.window.pad_begin[i] = form.pad[i];
        a.window.pad_end[i] = form.pad[i] + form.more_pad;
    }
    int32_t inputs[3] = { x.value };
    inputs[1] = add_constant(b, name, "weight", shape, UNIFORM, -sqrt(6 / fan_in),
                             sqrt(6 / fan_in));
    if (bias)
        inputs[2] = add_constant(b, name, "bias", per_channel, NORMAL, 0, 0.1);
    struct hrf_layer y = { .channels = channels, .square = 2 * x.square + (bias ? 0.01 : 0) };
    y.value = hrf_build_node(b, HRF_OP_CONV, name, inputs, bias ? 3 : 2, &a);
    y.rows = hrf_window_output(&a.window, 0, x.rows);
    y.columns = hrf_window_output(&a.window, 1, x.columns);
    return y;
}

struct hrf_layer hrf_build_up_conv(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                   int64_t channels)
{
    struct hrf_shape shape = { .rank = 4, .dims = { x.channels, channels, 2, 2 } };
    struct hrf_shape per_channel = { .rank = 1, .dims = { channels } };
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++)
        a.window.kernel[i] = a.window.stride[i] = 2;
    /* One product for each input channel: windows do not overlap. */
    double limit = sqrt(3 / (double)x.channels);
    int32_t inputs[3] = { x.value };
    inputs[1] = add_constant(b, name, "weight", shape, UNIFORM, -limit, limit);
    inputs[2] = add_constant(b, name, "bias", per_channel, NORMAL, 0, 0.1);
    x.value = hrf_build_node(b, HRF_OP_CONV_TRANSPOSE, name, inputs, 3, &a);
    x.channels = channels;
    x.rows *= 2;
    x.columns *= 2;
    x.square += 0.01;
    return x;
}

/* Statistics near, but not at, the estimated ones: a fold that ignored them would show. */
struct hrf_layer hrf_build_batch_norm(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    struct hrf_shape shape = { .rank = 1, .dims = { x.channels } };
    struct hrf_attributes a = hrf_attributes_default();
    a.epsilon = b->epsilon;
    int32_t inputs[5] = { x.value };
    inputs[1] = add_constant(b, name, "weight", shape, UNIFORM, 0.5, 1.3);
    inputs[2] = add_constant(b, name, "bias", shape, NORMAL, 0, 0.2);
    inputs[3] = add_constant(b, name, "running_mean", shape, NORMAL, 0, 0.2 * sqrt(x.square));
    inputs[4] = add_constant(b, name, "running_var", shape, UNIFORM, 0.8 * x.square,
                             1.5 * x.square);
    x.value = hrf_build_node(b, HRF_OP_BATCH_NORM, name, inputs, 5, &a);
    x.square = 1; /* E[w^2] (1 + 0.04) / 1.15 + 0.04 */
    return x;
}

struct hrf_layer hrf_build_relu(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    x.value = hrf_build_node(b, HRF_OP_RELU, name, &x.value, 1, NULL);
    x.square /= 2;
    return x;
}

struct hrf_layer hrf_build_add(struct hrf_builder *b, const char *name, struct hrf_layer x,
                               struct hrf_layer y)
{
    int32_t inputs[2] = { x.value, y.value };
    x.value = hrf_build_node(b, HRF_OP_ADD, name, inputs, 2, NULL);
    x.square += y.square;
    return x;
}

static struct hrf_layer build_pool(struct hrf_builder *b, enum hrf_op op, const char *name,
                                   struct hrf_layer x, const struct hrf_attributes *a)
{
    x.value = hrf_build_node(b, op, name, &x.value, 1, a);
    x.rows = hrf_window_output(&a->window, 0, x.rows);
    x.columns = hrf_window_output(&a->window, 1, x.columns);
    return x;
}

static struct hrf_attributes pool_attributes(int64_t kernel, int64_t stride, int64_t pad)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = kernel;
        a.window.stride[i] = stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = pad;
    }
    return a;
}

struct hrf_layer hrf_build_max_pool(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                    int64_t kernel, int64_t stride, int64_t pad, bool ceil_mode)
{
    struct hrf_attributes a = pool_attributes(kernel, stride, pad);
    a.window.ceil_mode = ceil_mode;
    return build_pool(b, HRF_OP_MAX_POOL, name, x, &a);
}

struct hrf_layer hrf_build_average_pool(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                        int64_t kernel, int64_t stride, int64_t pad,
                                        bool count_include_pad)
{
    struct hrf_attributes a = pool_attributes(kernel, stride, pad);
    a.window.count_include_pad = count_include_pad;
    return build_pool(b, HRF_OP_AVERAGE_POOL, name, x, &a);
}

struct hrf_layer hrf_build_global_pool(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    x.value = hrf_build_node(b, HRF_OP_GLOBAL_AVERAGE_POOL, name, &x.value, 1, NULL);
    x.rows = x.columns = 1;
    return x;
}

struct hrf_layer hrf_build_concat(struct hrf_builder *b, const char *name,
                                  const struct hrf_layer *parts, int32_t n_parts)
{
    enum { MAX_PARTS = 8 };
    int32_t inputs[MAX_PARTS];
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_layer y = parts[0];
    a.axis = 1;
    y.channels = 0;
    y.square = 0;
    for (int32_t i = 0; i < n_parts && i < MAX_PARTS; i++) {
        inputs[i] = parts[i].value;
        y.channels += parts[i].channels;
        y.square += parts[i].square * (double)parts[i].channels;
    }
    y.square /= (double)y.channels;
    y.value = hrf_build_node(b, HRF_OP_CONCAT, name, inputs, n_parts, &a);
    return y;
}

int32_t hrf_build_integers(struct hrf_builder *b, const char *name, const char *suffix,
                           const int64_t *numbers, int64_t n)
{
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    int32_t index = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return index;
    HRF_AUTO_FREE char *full = hrf_format("%s.%s", name, suffix);
    failed(b, hrf_graph_add_value(b->graph, full, HRF_S64, &shape, numbers, &index, b->err));
    return index;
}

/* With its numbers as inputs, as in a file. */
struct hrf_layer hrf_build_shift(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    const int64_t starts[] = { 1, 1 }, ends[] = { INT64_MAX, INT64_MAX }, axes[] = { 2, 3 };
    int32_t inputs[4] = { x.value };
    inputs[1] = hrf_build_integers(b, name, "starts", starts, 2);
    inputs[2] = hrf_build_integers(b, name, "ends", ends, 2);
    inputs[3] = hrf_build_integers(b, name, "axes", axes, 2);
    x.value = hrf_build_node(b, HRF_OP_SLICE, name, inputs, 4, NULL);
    x.rows--;
    x.columns--;
    return x;
}

/* A row is random, less what it shares with the rows of its block before it. */
static void fill_orthogonal(struct hrf_random *random, int64_t m, int64_t d, float *rows)
{
    for (int64_t i = 0; i < m; i++) {
        float *row = rows + i * d;
        double square = 0;
        for (int64_t c = 0; c < d; c++)
            row[c] = (float)hrf_random_normal(random);
        for (int64_t k = i / d * d; k < i; k++) {
            double shared = 0;
            for (int64_t c = 0; c < d; c++)
                shared += (double)row[c] * (double)rows[k * d + c];
            for (int64_t c = 0; c < d; c++)
                row[c] -= (float)(shared / (double)d * (double)rows[k * d + c]);
        }
        for (int64_t c = 0; c < d; c++)
            square += (double)row[c] * (double)row[c];
        for (int64_t c = 0; c < d; c++)
            row[c] = (float)((double)row[c] * sqrt((double)d / square));
    }
}

static int32_t add_projection(struct hrf_builder *b, const char *name, int64_t m, int64_t d)
{
    const struct hrf_shape shape = { .rank = 2, .dims = { m, d } };
    int32_t index = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return index;
    HRF_AUTO_FREE void *rows = hrf_try_alloc_array((size_t)(m * d), sizeof(float));
    HRF_AUTO_FREE char *full = hrf_format("%s.projection", name);
    if (rows == NULL) {
        failed(b, hrf_error_set(b->err, HRF_E_NOMEM, "out of memory for '%s'", name));
        return index;
    }
    fill_orthogonal(&b->random, m, d, rows);
    failed(b, hrf_graph_take_value(b->graph, full, HRF_F32, &shape, &rows, &index, b->err));
    return index;
}

struct hrf_layer hrf_build_performer(struct hrf_builder *b, const char *name,
                                     const struct hrf_layer qkv[3], int64_t n_heads,
                                     int64_t n_features, bool exponential)
{
    struct hrf_layer x = qkv[2]; /* a mean of values */
    struct hrf_attributes a = hrf_attributes_default();
    a.performer.heads = n_heads;
    a.performer.exponential = exponential;
    a.performer.epsilon = exponential ? 1e-4f : 1e-3f;
    const int32_t inputs[] = { qkv[0].value, qkv[1].value, qkv[2].value,
                               add_projection(b, name, n_features, x.channels / n_heads) };
    x.value = hrf_build_node(b, HRF_OP_PERFORMER, name, inputs, 4, &a);
    return x;
}

struct hrf_layer hrf_build_flatten(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    x.value = hrf_build_node(b, HRF_OP_FLATTEN, name, &x.value, 1, &a);
    x.channels *= x.rows * x.columns;
    x.rows = x.columns = 1;
    return x;
}

struct hrf_layer hrf_build_linear(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                  int64_t n_outputs, double gain)
{
    struct hrf_shape shape = { .rank = 2, .dims = { n_outputs, x.channels } };
    struct hrf_shape per_output = { .rank = 1, .dims = { n_outputs } };
    struct hrf_attributes a = hrf_attributes_default();
    a.gemm.transpose_b = true;
    int32_t inputs[3] = { x.value };
    double limit = sqrt(3 * gain / (double)x.channels);
    inputs[1] = add_constant(b, name, "weight", shape, UNIFORM, -limit, limit);
    inputs[2] = add_constant(b, name, "bias", per_output, NORMAL, 0, 0.1);
    x.value = hrf_build_node(b, HRF_OP_GEMM, name, inputs, 3, &a);
    x.channels = n_outputs;
    x.square = gain * x.square + 0.01;
    return x;
}

struct hrf_layer hrf_build_softmax(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    x.value = hrf_build_node(b, HRF_OP_SOFTMAX, name, &x.value, 1, &a);
    return x;
}

enum hrf_status hrf_build_finish(struct hrf_builder *b, struct hrf_layer x)
{
    int32_t input = 0; /* hrf_build_input() came first */
    if (b->status != HRF_OK)
        return b->status;
    char *name = hrf_strdup("output");
    hrf_free(b->graph->values[x.value].name);
    b->graph->values[x.value].name = name;
    HRF_TRY(hrf_graph_set_io(b->graph, &input, 1, &x.value, 1, b->err));
    return hrf_graph_check(b->graph, b->err);
}
