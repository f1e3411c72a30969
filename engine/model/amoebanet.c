/* AmoebaNet-D (L, F). Source: Real et al., "Regularized evolution for image classifier architecture
 * search" (2018), in the form that GPipe and the Infer-HiRes paper run: a stem, two reduction
 * cells, three groups of L / 3 normal cells with a reduction cell between them. F / 4 is the
 * stem's channels; every reduction cell doubles them. Two things are as published and not as
 * in the latter's code: 3x3 max pooling takes the maximum (there: the mean), and the second path of
 * a factorised reduction is shifted by a pixel (there: both paths see the same pixels). Odd sizes
 * round up everywhere, so that the paths of a cell meet. */
#include "engine/model/builder_private.h"

#include <stdio.h>

enum { NAME_BYTES = 96 };

/* A cell is five sums of two operations on earlier states; states 0 and 1 are the previous
 * cell's result and the one before that. */
enum operation { NONE, CONV_1X1, CONV_3X3, CONV_1X7_7X1, MAX_POOL_2, MAX_POOL_3, AVERAGE_POOL_3 };
enum { N_SUMS = 5, N_STATES = N_SUMS + 2 };
struct cell {
    struct {
        int state;
        enum operation operation;
    } terms[N_SUMS][2];
    int concat[4];
    int n_concat;
};
static const struct cell normal_cell = {
    .terms = { { { 1, CONV_1X1 }, { 1, MAX_POOL_3 } },
               { { 1, NONE }, { 0, CONV_1X7_7X1 } },
               { { 0, CONV_1X1 }, { 0, CONV_1X7_7X1 } },
               { { 2, MAX_POOL_3 }, { 2, NONE } },
               { { 1, AVERAGE_POOL_3 }, { 5, CONV_1X1 } } },
    .concat = { 0, 3, 4, 6 },
    .n_concat = 4,
};
static const struct cell reduction_cell = {
    .terms = { { { 0, MAX_POOL_2 }, { 0, MAX_POOL_3 } },
               { { 2, NONE }, { 1, CONV_3X3 } },
               { { 2, CONV_1X7_7X1 }, { 2, MAX_POOL_3 } },
               { { 3, NONE }, { 1, MAX_POOL_2 } },
               { { 2, AVERAGE_POOL_3 }, { 3, CONV_1X1 } } },
    .concat = { 4, 5, 6 },
    .n_concat = 3,
};

/* What one cell hands to the next. */
struct flow {
    struct hrf_layer previous, before; /* its result, and its input */
    int64_t channels;
    int n_cells;
    bool reduced; /* the previous cell was a reduction */
};

/* ReLU, convolution, BatchNorm: OWNER.relu3, OWNER.conv3, OWNER.bn3. */
static struct hrf_layer relu_conv_bn(struct hrf_builder *b, const char *owner, int i,
                                     struct hrf_layer x, int64_t channels,
                                     struct hrf_conv_form form)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.relu%d", owner, i);
    x = hrf_build_relu(b, name, x);
    snprintf(name, sizeof name, "%s.conv%d", owner, i);
    x = hrf_build_conv(b, name, x, channels, form, false);
    snprintf(name, sizeof name, "%s.bn%d", owner, i);
    return hrf_build_batch_norm(b, name, x);
}

/* Half the size: even pixels through one convolution, odd ones through another (where there is no
 * further pixel: zeros). */
static struct hrf_layer factorized_reduce(struct hrf_builder *b, const char *owner,
                                          struct hrf_layer x, int64_t channels)
{
    char name[NAME_BYTES];
    struct hrf_layer paths[2];
    snprintf(name, sizeof name, "%s.relu", owner);
    x = hrf_build_relu(b, name, x);
    snprintf(name, sizeof name, "%s.conv1", owner);
    paths[0] = hrf_build_conv(b, name, x, channels / 2, hrf_square(1, 2, 0), false);
    snprintf(name, sizeof name, "%s.shift", owner);
    x = hrf_build_shift(b, name, x);
    snprintf(name, sizeof name, "%s.conv2", owner);
    const struct hrf_conv_form odd = { { 1, 1 }, { 2, 2 }, { 0, 0 }, 1 };
    paths[1] = hrf_build_conv(b, name, x, channels - channels / 2, odd, false);
    snprintf(name, sizeof name, "%s.concat", owner);
    x = hrf_build_concat(b, name, paths, 2);
    snprintf(name, sizeof name, "%s.bn", owner);
    return hrf_build_batch_norm(b, name, x);
}

static struct hrf_layer narrow_conv(struct hrf_builder *b, const char *owner, struct hrf_layer x,
                                    int64_t stride, bool oblong)
{
    const int64_t c = x.channels;
    const struct hrf_conv_form row = { { 1, 7 }, { 1, stride }, { 0, 3 }, 0 };
    const struct hrf_conv_form column = { { 7, 1 }, { stride, 1 }, { 3, 0 }, 0 };
    x = relu_conv_bn(b, owner, 1, x, c / 4, hrf_square(1, 1, 0));
    if (!oblong) {
        x = relu_conv_bn(b, owner, 2, x, c / 4, hrf_square(3, stride, 1));
        return relu_conv_bn(b, owner, 3, x, c, hrf_square(1, 1, 0));
    }
    x = relu_conv_bn(b, owner, 2, x, c / 4, row);
    x = relu_conv_bn(b, owner, 3, x, c / 4, column);
    return relu_conv_bn(b, owner, 4, x, c, hrf_square(1, 1, 0));
}

static struct hrf_layer build_operation(struct hrf_builder *b, enum operation operation,
                                        const char *name, struct hrf_layer x, int64_t stride)
{
    switch (operation) {
    case CONV_1X1:
        return relu_conv_bn(b, name, 1, x, x.channels, hrf_square(1, stride, 0));
    case CONV_3X3:
        return narrow_conv(b, name, x, stride, false);
    case CONV_1X7_7X1:
        return narrow_conv(b, name, x, stride, true);
    case MAX_POOL_2:
        return hrf_build_max_pool(b, name, x, 2, stride, 0, true);
    case MAX_POOL_3:
        return hrf_build_max_pool(b, name, x, 3, stride, 1, false);
    case AVERAGE_POOL_3:
        return hrf_build_average_pool(b, name, x, 3, stride, 1, false);
    case NONE:
        break;
    }
    return stride == 1 ? x : factorized_reduce(b, name, x, x.channels);
}

/* States 0 and 1, brought to the cell's channels and size. */
static void build_inputs(struct hrf_builder *b, const char *cell, const struct flow *f,
                         struct hrf_layer states[2])
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.reduce1", cell);
    states[0] = relu_conv_bn(b, name, 1, f->previous, f->channels, hrf_square(1, 1, 0));
    snprintf(name, sizeof name, "%s.reduce2", cell);
    states[1] = f->before;
    if (f->reduced)
        states[1] = factorized_reduce(b, name, f->before, f->channels);
    else if (f->before.channels != f->channels)
        states[1] = relu_conv_bn(b, name, 1, f->before, f->channels, hrf_square(1, 1, 0));
}

static void build_cell(struct hrf_builder *b, struct flow *f, bool is_reduction)
{
    const struct cell *cell = is_reduction ? &reduction_cell : &normal_cell;
    struct hrf_layer states[N_STATES], parts[4];
    char owner[NAME_BYTES / 4], name[NAME_BYTES / 2];
    f->channels *= is_reduction ? 2 : 1;
    snprintf(owner, sizeof owner, "cell%d", f->n_cells++);
    build_inputs(b, owner, f, states);
    for (int i = 0; i < N_SUMS; i++) {
        struct hrf_layer sides[2];
        for (int k = 0; k < 2; k++) {
            const int from = cell->terms[i][k].state;
            snprintf(name, sizeof name, "%s.op%d", owner, 2 * i + k);
            sides[k] = build_operation(b, cell->terms[i][k].operation, name, states[from],
                                       is_reduction && from < 2 ? 2 : 1);
        }
        snprintf(name, sizeof name, "%s.add%d", owner, i);
        states[2 + i] = hrf_build_add(b, name, sides[0], sides[1]);
    }
    for (int i = 0; i < cell->n_concat; i++)
        parts[i] = states[cell->concat[i]];
    snprintf(name, sizeof name, "%s.concat", owner);
    f->before = f->previous;
    f->previous = hrf_build_concat(b, name, parts, cell->n_concat);
    f->reduced = is_reduction;
}

/* Quarters of a cell's channels: those of the first are F / 2. */
bool hrf_accept_amoebanet_d(struct hrf_architecture *which)
{
    const int layers = which->depth[0], filters = which->depth[1];
    return layers >= 3 && layers <= 300 && layers % 3 == 0 && filters >= 8 && filters <= 4096 &&
           filters % 8 == 0;
}

struct hrf_layer hrf_build_amoebanet_d(struct hrf_builder *b, const struct hrf_architecture *which,
                                       struct hrf_layer x, int64_t n_classes)
{
    struct flow f = { .channels = which->depth[1] / 4 };
    f.previous = relu_conv_bn(b, "stem", 1, x, f.channels, hrf_square(3, 2, 1));
    f.before = f.previous;
    build_cell(b, &f, true);
    build_cell(b, &f, true);
    for (int group = 0; group < 3; group++) {
        if (group > 0)
            build_cell(b, &f, true);
        for (int i = 0; i < which->depth[0] / 3; i++)
            build_cell(b, &f, false);
    }
    x = hrf_build_flatten(b, "flatten", hrf_build_global_pool(b, "avgpool", f.previous));
    return hrf_build_linear(b, "fc", x, n_classes, 1);
}
