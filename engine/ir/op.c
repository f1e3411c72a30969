#include "engine/ir/op.h"

#include <assert.h>
#include <float.h>
#include <stddef.h>
#include <string.h>

/* ---- attributes ---------------------------------------------------------------------------- */

#define ROW_OF(NAME, TYPE, member, c_type)                                                         \
    .name = NAME, .type = HRF_ATTRIBUTE_##TYPE,                                                    \
    .offset = _Generic(&((struct hrf_attributes *)0)->member, c_type *                             \
                       : offsetof(struct hrf_attributes, member))
#define INT(NAME, member)                ROW_OF(NAME, INT, member, int64_t), .n = 1
#define INTS(NAME, member, count)        ROW_OF(NAME, INTS, member[0], int64_t), .n = (count)
#define PAIR(NAME, member)               ROW_OF(NAME, PAIR, member[0], int64_t), .n = HRF_MAX_SPATIAL
#define LIST_OF(NAME, member, each)      ROW_OF(NAME, LIST, member[0], int64_t), .n = (each)
#define FLOAT(NAME, member)              ROW_OF(NAME, FLOAT, member, float), .n = 1
#define FLAG(NAME, member)               ROW_OF(NAME, FLAG, member, bool), .n = 1
#define TYPE(NAME, member)               ROW_OF(NAME, TYPE, member, enum hrf_dtype), .n = 1
#define WORD(NAME, member, c_type, list) ROW_OF(NAME, WORD, member, c_type), .n = 1, .words = (list)
#define INITIAL(value)                   .initial = (value), .has_initial = true

static const char *const auto_pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL };
static const char *const pad_modes[] = { "constant", "edge", "reflect", "wrap", NULL };
static const char *const block_modes[] = { "DCR", "CRD", NULL };
static const char *const resize_modes[] = { "nearest", "linear", "cubic", NULL };
static const char *const coordinates[] = { "half_pixel", "pytorch_half_pixel", "align_corners",
                                           "asymmetric", NULL };
static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                         NULL };
static const char *const policies[] = { "stretch", "not_larger", "not_smaller", NULL };
static const char *const kernels[] = { "relu", "softmax", NULL };

/* pad_begin and pad_end follow each other, as ONNX's pads do. */
_Static_assert(offsetof(struct hrf_window, pad_end) ==
                   offsetof(struct hrf_window, pad_begin) + HRF_MAX_SPATIAL * sizeof(int64_t),
               "four numbers in a row");
#define WINDOW                                                                                     \
    { WORD("auto_pad", window.auto_pad, enum hrf_auto_pad, auto_pads) },                           \
        { PAIR("strides", window.stride) },                                                        \
    {                                                                                              \
        ROW_OF("pads", PADS, window.pad_begin[0], int64_t), .n = 2 * HRF_MAX_SPATIAL               \
    }
#define FUSED                                                                                      \
    { WORD(NULL, activation, enum hrf_activation, NULL) }, { FLOAT(NULL, activation_min) },        \
        { FLOAT(NULL, activation_max) }, { FLOAT(NULL, alpha) },                                   \
    {                                                                                              \
        FLOAT(NULL, beta)                                                                          \
    }

static const struct hrf_attribute conv[] = {
    WINDOW,
    { PAIR("dilations", window.dilation) },
    { INT("group", group) },
    { PAIR("kernel_shape", window.kernel), .is_derived = true },
    FUSED,
    { WORD(NULL, prologue.activation, enum hrf_activation, NULL) },
    { FLOAT(NULL, prologue.low) },
    { FLOAT(NULL, prologue.high) },
    { FLOAT(NULL, prologue.slope) },
};
static const struct hrf_attribute conv_transpose[] = {
    WINDOW,
    { PAIR("dilations", window.dilation) },
    { INT("group", group) },
    { PAIR("kernel_shape", window.kernel), .is_derived = true },
    { PAIR("output_padding", output.padding) },
    { PAIR("output_shape", output.size) },
    FUSED,
};
static const struct hrf_attribute max_pool[] = {
    WINDOW,
    { PAIR("dilations", window.dilation) },
    { PAIR("kernel_shape", window.kernel), .is_required = true },
    { FLAG("ceil_mode", window.ceil_mode) },
};
static const struct hrf_attribute average_pool[] = {
    WINDOW,
    { PAIR("dilations", window.dilation), .since = 19 },
    { PAIR("kernel_shape", window.kernel), .is_required = true },
    { FLAG("ceil_mode", window.ceil_mode) },
    { FLAG("count_include_pad", window.count_include_pad) },
};
static const struct hrf_attribute gemm[] = {
    { FLOAT("alpha", gemm.alpha) },
    { FLOAT("beta", gemm.beta) },
    { FLAG("transA", gemm.transpose_a) },
    { FLAG("transB", gemm.transpose_b) },
    FUSED,
};
static const struct hrf_attribute batch_norm[] = { { FLOAT("epsilon", epsilon) }, FUSED };
static const struct hrf_attribute sum[] = { FUSED };
static const struct hrf_attribute leaky_relu[] = { { FLOAT("alpha", alpha), INITIAL(0.01f) } };
static const struct hrf_attribute elu[] = { { FLOAT("alpha", alpha) } };
static const struct hrf_attribute selu[] = {
    { FLOAT("alpha", alpha), INITIAL(1.67326319217681884765625f) },
    { FLOAT("gamma", beta), INITIAL(1.05070102214813232421875f) },
};
static const struct hrf_attribute shrink[] = {
    { FLOAT("lambd", alpha), INITIAL(0.5f) },
    { FLOAT("bias", beta), INITIAL(0) },
};
static const struct hrf_attribute hard_sigmoid[] = {
    { FLOAT("alpha", alpha), INITIAL(0.2f) },
    { FLOAT("beta", beta), INITIAL(0.5f) },
};
static const struct hrf_attribute clip[] = {
    { FLOAT("min", activation_min), .input = 1 },
    { FLOAT("max", activation_max), .input = 2 },
};
static const struct hrf_attribute softmax[] = {
    { INT("axis", axis), INITIAL(-1) },
    { FLAG(NULL, legacy_axis) },
};
static const struct hrf_attribute lrn[] = {
    { FLOAT("alpha", lrn.alpha), INITIAL(1e-4f) },
    { FLOAT("beta", lrn.beta), INITIAL(0.75f) },
    { FLOAT("bias", lrn.bias) },
    { INT("size", lrn.size), .is_required = true },
};
static const struct hrf_attribute concat[] = { { INT("axis", axis), INITIAL(1),
                                                 .is_always_written = true } };
static const struct hrf_attribute flatten[] = { { INT("axis", axis), INITIAL(1) } };
static const struct hrf_attribute gather[] = { { INT("axis", axis) } };
static const struct hrf_attribute reshape[] = { { FLAG("allowzero", allow_zero), .since = 14 } };
static const struct hrf_attribute transpose[] = { { LIST_OF("perm", axes, 1) } };
static const struct hrf_attribute squeeze[] = { { LIST_OF("axes", axes, 1), .input = 1 } };
static const struct hrf_attribute pad[] = {
    { WORD("mode", pad.mode, enum hrf_pad_mode, pad_modes) },
    { LIST_OF("pads", pad.sizes, 2), .input = 1 },
    { FLOAT("value", pad.value), .input = 2 },
    { LIST_OF(NULL, axes, 1), .input = 3 },
};
static const struct hrf_attribute slice[] = {
    { LIST_OF("starts", slice.starts, 1), .input = 1 },
    { LIST_OF("ends", slice.ends, 1), .input = 2 },
    { LIST_OF("axes", axes, 1), .input = 3 },
    { LIST_OF(NULL, slice.steps, 1), .input = 4 },
    { INT(NULL, slice.part) },
    { INT(NULL, slice.n_parts) },
};
static const struct hrf_attribute depth_to_space[] = {
    { INT("blocksize", block.size), .is_required = true },
    { FLAG("mode", block.column_row_depth), .words = block_modes },
};
static const struct hrf_attribute space_to_depth[] = {
    { INT("blocksize", block.size), .is_required = true },
};
static const struct hrf_attribute resize[] = {
    { WORD("mode", resize.mode, enum hrf_resize_mode, resize_modes) },
    { WORD("coordinate_transformation_mode", resize.coordinates, enum hrf_resize_coordinates,
           coordinates) },
    { WORD("nearest_mode", resize.rounding, enum hrf_resize_rounding, roundings) },
    { FLOAT("cubic_coeff_a", resize.cubic_a), INITIAL(-0.75f) },
    { FLAG("exclude_outside", resize.exclude_outside) },
    { FLAG("antialias", resize.antialias), .since = 18 },
    { WORD("keep_aspect_ratio_policy", resize.policy, enum hrf_resize_policy, policies),
      .is_of_inputs = true, .since = 18 },
    { LIST_OF("axes", axes, 1), .is_of_inputs = true, .since = 18 },
    { ROW_OF(NULL, FLOAT, resize.scales[0], float), .n = 4, .input = 2 },
    { INTS(NULL, resize.sizes, 4), .input = 3 },
};
static const struct hrf_attribute reduction[] = {
    { LIST_OF("axes", axes, 1), .input = 1 },
    { FLAG("keepdims", keep_dims), INITIAL(1) },
};
static const struct hrf_attribute layer_norm[] = {
    { INT("axis", axis), INITIAL(-1) },
    { FLOAT("epsilon", epsilon) },
    { FLAG(NULL, of_each_pixel) },
};
static const struct hrf_attribute group_norm[] = {
    { INT("num_groups", n_groups), .since = 21 },
    { FLOAT("epsilon", epsilon) },
};
static const struct hrf_attribute attention[] = {
    { FLAG("is_causal", attention.causal) },
    { FLOAT("scale", attention.scale) },
    { FLAG(NULL, attention.transpose_k) },
    { FLAG(NULL, attention.mask_repeats) },
};
static const struct hrf_attribute token_attention[] = {
    { FLAG(NULL, attention.causal) },       { FLOAT(NULL, attention.scale) },
    { FLAG(NULL, attention.mask_repeats) }, { INT(NULL, attention.heads) },
    { INT(NULL, attention.head_size) },     { INTS(NULL, attention.first, 3) },
    { INTS(NULL, attention.stride, 3) },
};
/* The epsilon that is meant where none is given follows from the kernel. */
static const struct hrf_attribute performer[] = {
    { INT("heads", performer.heads), .is_required = true },
    { FLAG("kernel", performer.exponential), .words = kernels },
    { FLOAT("epsilon", performer.epsilon), INITIAL(1e-3f), .is_always_written = true },
};
static const struct hrf_attribute top_k[] = {
    { INT(NULL, axis) },
    { INT(NULL, greatest) },
    { FLAG(NULL, keep_dims) },
};
static const struct hrf_attribute top_k_mask[] = {
    { INT(NULL, greatest) },
};
static const struct hrf_attribute shape[] = {
    { INT("start", range.start), .since = 15 },
    { INT("end", range.end), .since = 15 },
};
static const struct hrf_attribute cast[] = { { TYPE("to", to), .is_always_written = true } };
static const struct hrf_attribute constant_of_shape[] = {
    { TYPE(NULL, to), INITIAL(HRF_F32) },
    { INT(NULL, fill.integer) },
    { FLOAT(NULL, fill.real) },
};
static const struct hrf_attribute eye_like[] = {
    { INT("k", fill.integer) },
    { TYPE("dtype", to) },
};
static const struct hrf_attribute mod[] = { { FLAG("fmod", truncated) } };
static const struct hrf_attribute trilu[] = { { FLAG("upper", upper), INITIAL(1) } };
static const struct hrf_attribute cum_sum[] = {
    { FLAG("exclusive", cum_sum.exclusive) },
    { FLAG("reverse", cum_sum.reverse) },
};
static const struct hrf_attribute quantize[] = {
    { INT("axis", axis), INITIAL(1) },
    { TYPE("output_dtype", to), .since = 21 },
};
static const struct hrf_attribute function_gradient[] = {
    { INT(NULL, function) },         { FLOAT(NULL, alpha) },          { FLOAT(NULL, beta) },
    { FLOAT(NULL, activation_min) }, { FLOAT(NULL, activation_max) },
};
static const struct hrf_attribute conv_weight_gradient[] = {
    WINDOW,
    { PAIR("dilations", window.dilation) },
    { PAIR("kernel_shape", window.kernel), .is_required = true },
    { INT("group", group) },
};
static const struct hrf_attribute gather_gradient[] = {
    { INT("axis", axis) },
    { INT(NULL, length) },
};
static const struct hrf_attribute attention_gradient[] = {
    { FLAG(NULL, attention.causal) },
    { FLOAT(NULL, attention.scale) },
    { FLAG(NULL, attention.transpose_k) },
};
static const struct hrf_attribute pool_finish[] = { { INT(NULL, n_pixels) } };

/* ---- operators ----------------------------------------------------------------------------- */

#define LIST(rows) .attributes = rows, .n_attributes = sizeof rows / sizeof rows[0]
#define NO_LIST    .attributes = NULL
#define ANY        INT32_MAX
#define INPUTS(...)                                                                                \
    .roles = (const enum hrf_input_role[]){ __VA_ARGS__ },                                         \
    .n_roles = sizeof((const enum hrf_input_role[]){ __VA_ARGS__ }) / sizeof(enum hrf_input_role)
#define DATA      HRF_INPUT_DATA
#define PARAMETER HRF_INPUT_PARAMETER
#define WEIGHTS   HRF_INPUT_WEIGHTS
#define INDEX     HRF_INPUT_INDEX
#define KNOWN     HRF_INPUT_KNOWN
#define CODED     HRF_INPUT_CODED
#define BIT(k)    (UINT32_C(1) << (k))

/* The defaults of a class, for operators whose rows do not state them. */
static const struct {
    enum hrf_precision_rule precision;
    enum hrf_row_rule rows;
    enum hrf_size_rule sizes;
    enum hrf_gradient_rule gradient;
    uint32_t in_place;
} classes[HRF_N_CLASSES] = {
#define CLASS(NAME, PRECISION, ROWS, SIZES, GRADIENT, IN_PLACE)                                    \
    [HRF_CLASS_##NAME] = { HRF_PRECISION_##PRECISION, HRF_ROWS_##ROWS, HRF_SIZE_##SIZES,           \
                           HRF_GRADIENT_##GRADIENT, IN_PLACE }
    CLASS(UNARY, FOLLOWS, POINT, STAYS, FUNCTION, BIT(0)),
    /* Even if both sides are the same value: each element is made of those at its own place. */
    CLASS(BINARY, HALF, POINT, STAYS, REFUSED, BIT(0) | BIT(1)),
    CLASS(PRODUCT, PRODUCT, WHOLE, PRODUCT, REFUSED, 0),
    CLASS(NORM, HALF, WHOLE, STAYS, REFUSED, 0),
    CLASS(POOL, FOLLOWS, WHOLE, WINDOW, REFUSED, 0),
    CLASS(REDUCE, SUM, REDUCE, STAYS, REFUSED, 0),
    CLASS(VIEW, SELECTS, VIEW, VIEW, VIEW, BIT(0)),
    CLASS(MOVE, SELECTS, WHOLE, STAYS, REFUSED, 0),
    CLASS(ATTENTION, HALF, WHOLE, FIXED, REFUSED, 0),
    CLASS(CONVERT, FLOAT, WHOLE, STAYS, REFUSED, 0), /* lowering makes and removes these itself */
    CLASS(KNOWN, HALF, WHOLE, UNMET, ZERO, 0),
    CLASS(MESSAGE, HALF, WHOLE, UNMET, REFUSED, 0),
    CLASS(OTHER, HALF, WHOLE, STAYS, REFUSED, 0),
#undef CLASS
};

#define ROW(OP, NAME, CLASS, REGION, TOKENS, MIN, MAX, OUT, FIRST, SINCE, ...)                     \
    [HRF_OP_##OP] = { .op = HRF_OP_##OP,                                                           \
                      .name = NAME,                                                                \
                      .op_class = HRF_CLASS_##CLASS,                                               \
                      .region = HRF_REGION_##REGION,                                               \
                      .tokens = HRF_TOKENS_##TOKENS,                                               \
                      .min_inputs = MIN,                                                           \
                      .max_inputs = MAX,                                                           \
                      .max_outputs = OUT,                                                          \
                      .first_attribute_input = FIRST,                                              \
                      .since = SINCE,                                                              \
                      __VA_ARGS__ }
#define UNARY_ROW(OP, NAME, ATTRIBUTES, SINCE, ACTIVATION)                                         \
    ROW(OP, NAME, UNARY, POINT, POINT, 1, 1, 1, 0, SINCE, ATTRIBUTES,                              \
        .activation = HRF_ACT_##ACTIVATION),
#define REDUCTION_ROW(OP, NAME, JOINING, SIZES, GRADIENT, LINEAR)                                  \
    ROW(OP, NAME, REDUCE, REDUCE, WHOLE, 1, 2, 1, 1, 0, LIST(reduction),                           \
        .joining = HRF_JOIN_##JOINING, .sizes = HRF_SIZE_##SIZES,                                  \
        .gradient = HRF_GRADIENT_##GRADIENT, .linear = LINEAR)

/* Passes add the last inputs of CONV and GEMM: the residual, the scales of the weights and the
 * prologue of a CONV. Further outputs of BATCH_NORM and Dropout exist
 * in training only. The indices of MAX_POOL are not computed. */
static const struct hrf_op_info table[] = {
    ROW(CONV, "Conv", PRODUCT, WINDOW, WHOLE, 2, HRF_CONV_MAX_INPUTS, 1, 0, 0, LIST(conv),
        .rank = 4, .in_place = BIT(HRF_CONV_RESIDUAL),
        INPUTS(DATA, WEIGHTS, WEIGHTS, DATA, WEIGHTS, WEIGHTS, WEIGHTS), .sizes = HRF_SIZE_WINDOW,
        .gradient = HRF_GRADIENT_CONV),
    ROW(CONV_TRANSPOSE, "ConvTranspose", PRODUCT, SPREAD, WHOLE, 2, 5, 1, 0, 0,
        LIST(conv_transpose), .rank = 4, INPUTS(DATA, WEIGHTS, WEIGHTS, PARAMETER, WEIGHTS),
        .sizes = HRF_SIZE_WINDOW, .gradient = HRF_GRADIENT_CONV_TRANSPOSE),
    ROW(GEMM, "Gemm", PRODUCT, WHOLE, PRODUCT, 2, HRF_CONV_SCALES + 1, 1, 0, 0, LIST(gemm),
        .in_place = BIT(HRF_CONV_RESIDUAL), INPUTS(DATA, PARAMETER, PARAMETER, DATA, WEIGHTS),
        .rows = HRF_ROWS_PRODUCT, .gradient = HRF_GRADIENT_GEMM),
    ROW(TOKEN_PRODUCT, "TokenProduct", PRODUCT, POINT, PRODUCT, 2, HRF_CONV_FACTORS + 1, 1, 0, 0,
        LIST(sum), .in_place = BIT(HRF_CONV_RESIDUAL),
        INPUTS(DATA, WEIGHTS, WEIGHTS, DATA, WEIGHTS, WEIGHTS), .is_made = true),
    ROW(MATMUL, "MatMul", PRODUCT, WHOLE, PRODUCT, 2, 2, 1, 0, 0, NO_LIST,
        .precision = HRF_PRECISION_MATRICES, .rows = HRF_ROWS_PRODUCT,
        .gradient = HRF_GRADIENT_MATMUL),
    ROW(BATCH_NORM, "BatchNormalization", NORM, POINT, WHOLE, 5, 5, 1, 0, 0, LIST(batch_norm),
        .precision = HRF_PRECISION_FOLLOWS, .in_place = BIT(0),
        INPUTS(DATA, WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS), .rows = HRF_ROWS_CHANNELS,
        .gradient = HRF_GRADIENT_BATCH_NORM),
    HRF_UNARY_OPS(UNARY_ROW) ROW(CLIP, "Clip", UNARY, POINT, POINT, 1, 3, 1, 1, 0, LIST(clip),
                                 .activation = HRF_ACT_CLIP),
    ROW(LOOKUP, "Lookup", UNARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST, INPUTS(DATA, WEIGHTS),
        .is_made = true, .gradient = HRF_GRADIENT_REFUSED),
    ROW(SOFTMAX, "Softmax", NORM, CHANNELS, CHANNELS, 1, 1, 1, 0, 0, LIST(softmax),
        .precision = HRF_PRECISION_FLOAT, .rows = HRF_ROWS_SOFTMAX,
        .gradient = HRF_GRADIENT_SOFTMAX),
    ROW(LOG_SOFTMAX, "LogSoftmax", NORM, CHANNELS, CHANNELS, 1, 1, 1, 0, 0, LIST(softmax),
        .precision = HRF_PRECISION_FLOAT, .rows = HRF_ROWS_AXIS,
        .gradient = HRF_GRADIENT_LOG_SOFTMAX),
    ROW(ADD, "Add", BINARY, POINT, POINT, 2, 2, 1, 0, 0, LIST(sum),
        .precision = HRF_PRECISION_FOLLOWS, .gradient = HRF_GRADIENT_ADD),
    ROW(SUB, "Sub", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST,
        .precision = HRF_PRECISION_FOLLOWS, .gradient = HRF_GRADIENT_SUB),
    ROW(MUL, "Mul", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST,
        .precision = HRF_PRECISION_FOLLOWS, .linear = BIT(0) | BIT(1),
        .gradient = HRF_GRADIENT_MUL),
    ROW(DIV, "Div", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST, .linear = BIT(0),
        .gradient = HRF_GRADIENT_DIV),
    ROW(POW, "Pow", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST, .gradient = HRF_GRADIENT_POW),
    ROW(MAX, "Max", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST, .gradient = HRF_GRADIENT_EXTREME),
    ROW(MIN, "Min", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST, .gradient = HRF_GRADIENT_EXTREME),
    ROW(PRELU, "PRelu", BINARY, POINT, POINT, 2, 2, 1, 0, 0, NO_LIST,
        .gradient = HRF_GRADIENT_PRELU),
    ROW(MAX_POOL, "MaxPool", POOL, WINDOW, WHOLE, 1, 1, 1, 0, 0, LIST(max_pool), .rank = 4,
        .precision = HRF_PRECISION_SELECTS, .gradient = HRF_GRADIENT_MAX_POOL),
    ROW(AVERAGE_POOL, "AveragePool", POOL, WINDOW, WHOLE, 1, 1, 1, 0, 0, LIST(average_pool),
        .rank = 4, .gradient = HRF_GRADIENT_AVERAGE_POOL),
    ROW(GLOBAL_AVERAGE_POOL, "GlobalAveragePool", POOL, SUM, WHOLE, 1, 1, 1, 0, 0, NO_LIST,
        .rank = 4, .sizes = HRF_SIZE_ANY, .gradient = HRF_GRADIENT_GLOBAL_MEAN),
    ROW(GLOBAL_MAX_POOL, "GlobalMaxPool", POOL, SUM, WHOLE, 1, 1, 1, 0, 0, NO_LIST, .rank = 4,
        .precision = HRF_PRECISION_SELECTS, .sizes = HRF_SIZE_ANY,
        .gradient = HRF_GRADIENT_GLOBAL_MAX),
    ROW(LRN, "LRN", NORM, POINT, WHOLE, 1, 1, 1, 0, 0, LIST(lrn), .rank = 4,
        .gradient = HRF_GRADIENT_LRN),
    ROW(CONCAT, "Concat", MOVE, CHANNELS, CONCAT, 1, ANY, 1, 0, 0, LIST(concat),
        .precision = HRF_PRECISION_FOLLOWS, .rows = HRF_ROWS_CONCAT,
        .gradient = HRF_GRADIENT_CONCAT),
    ROW(FLATTEN, "Flatten", VIEW, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(flatten)),
    ROW(RESHAPE, "Reshape", VIEW, WHOLE, RESHAPE, 2, 2, 1, 0, 0, LIST(reshape),
        INPUTS(DATA, KNOWN)),
    ROW(TRANSPOSE, "Transpose", MOVE, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(transpose),
        .rows = HRF_ROWS_TRANSPOSE, .sizes = HRF_SIZE_ANY, .gradient = HRF_GRADIENT_TRANSPOSE),
    ROW(SQUEEZE, "Squeeze", VIEW, WHOLE, WHOLE, 1, 2, 1, 1, 0, LIST(squeeze)),
    ROW(UNSQUEEZE, "Unsqueeze", VIEW, WHOLE, WHOLE, 1, 2, 1, 1, 0, LIST(squeeze)),
    ROW(IDENTITY, "Identity", VIEW, POINT, EACH, 1, 1, 1, 0, 0, NO_LIST),
    ROW(PAD, "Pad", MOVE, PAD, WHOLE, 1, 4, 1, 1, 0, LIST(pad), .sizes = HRF_SIZE_WINDOW,
        .gradient = HRF_GRADIENT_PAD),
    ROW(GATHER, "Gather", MOVE, CHANNELS, GATHER, 2, 2, 1, 0, 0, LIST(gather), INPUTS(DATA, INDEX),
        .rows = HRF_ROWS_LATER, .sizes = HRF_SIZE_FIXED, .gradient = HRF_GRADIENT_GATHER),
    ROW(SLICE, "Slice", MOVE, SLICE, SLICE, 1, 5, 1, 1, 0, LIST(slice), .rows = HRF_ROWS_SLICE,
        .sizes = HRF_SIZE_SLICE, .gradient = HRF_GRADIENT_SLICE),
    ROW(EXPAND, "Expand", MOVE, POINT, WHOLE, 2, 2, 1, 0, 0, NO_LIST, INPUTS(DATA, KNOWN),
        .gradient = HRF_GRADIENT_EXPAND),
    ROW(TILE, "Tile", MOVE, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST, INPUTS(DATA, KNOWN),
        .sizes = HRF_SIZE_FIXED, .gradient = HRF_GRADIENT_TILE),
    ROW(DEPTH_TO_SPACE, "DepthToSpace", MOVE, UNBLOCK, WHOLE, 1, 1, 1, 0, 0, LIST(depth_to_space),
        .rank = 4, .gradient = HRF_GRADIENT_DEPTH_TO_SPACE),
    ROW(RESIZE, "Resize", OTHER, RESIZE, WHOLE, 1, 4, 1, 1, 0, LIST(resize), .rank = 4,
        .gradient = HRF_GRADIENT_RESIZE),
    ROW(SPACE_TO_DEPTH, "SpaceToDepth", MOVE, BLOCK, WHOLE, 1, 1, 1, 0, 0, LIST(space_to_depth),
        .rank = 4, .gradient = HRF_GRADIENT_SPACE_TO_DEPTH),
    REDUCTION_ROW(REDUCE_MEAN, "ReduceMean", MEAN, ANY, REDUCE_MEAN, BIT(0)),
    REDUCTION_ROW(REDUCE_SUM, "ReduceSum", SUM, STAYS, REDUCE_SUM, BIT(0)),
    REDUCTION_ROW(REDUCE_MAX, "ReduceMax", MAX, ANY, REDUCE_EXTREME, 0),
    REDUCTION_ROW(REDUCE_MIN, "ReduceMin", MIN, ANY, REDUCE_EXTREME, 0),
    REDUCTION_ROW(REDUCE_PROD, "ReduceProd", NONE, STAYS, REDUCE_PROD, 0),
    REDUCTION_ROW(REDUCE_L1, "ReduceL1", SUM, STAYS, REDUCE_L1, 0),
    REDUCTION_ROW(REDUCE_L2, "ReduceL2", NONE, STAYS, REDUCE_L2, 0),
    REDUCTION_ROW(REDUCE_SUM_SQUARE, "ReduceSumSquare", SUM, STAYS, REDUCE_SUM_SQUARE, 0),
    REDUCTION_ROW(REDUCE_LOG_SUM, "ReduceLogSum", NONE, STAYS, REDUCE_LOG_SUM, 0),
    REDUCTION_ROW(REDUCE_LOG_SUM_EXP, "ReduceLogSumExp", LOG_SUM_EXP, STAYS, REDUCE_LOG_SUM_EXP, 0),
    ROW(LAYER_NORM, "LayerNormalization", NORM, PIXEL, CHANNELS, 1, 3, 1, 0, 17, LIST(layer_norm),
        INPUTS(DATA, PARAMETER, PARAMETER), .rows = HRF_ROWS_LATER,
        .gradient = HRF_GRADIENT_LAYER_NORM),
    ROW(RMS_NORM, "RMSNormalization", NORM, PIXEL, CHANNELS, 1, 2, 1, 0, 23, LIST(layer_norm),
        INPUTS(DATA, PARAMETER), .rows = HRF_ROWS_LATER, .gradient = HRF_GRADIENT_RMS_NORM),
    ROW(GROUP_NORM, "GroupNormalization", NORM, WHOLE, WHOLE, 3, 3, 1, 0, 0, LIST(group_norm),
        INPUTS(DATA, WEIGHTS, WEIGHTS), .gradient = HRF_GRADIENT_GROUP_NORM),
    ROW(ATTENTION, "Attention", ATTENTION, WHOLE, ATTENTION, 3, 4, 1, 0, 23, LIST(attention),
        .gradient = HRF_GRADIENT_ATTENTION),
    ROW(TOKEN_ATTENTION, "TokenAttention", ATTENTION, WHOLE, ATTENTION, 3, 4, 1, 0, 0,
        LIST(token_attention), .is_made = true),
    ROW(BYTE_ATTENTION, "ByteAttention", ATTENTION, WHOLE, ATTENTION, 3, 3, 1, 0, 0,
        LIST(token_attention), .is_made = true),
    ROW(SWIGLU, "SwiGLU", OTHER, WHOLE, EACH, 1, 1, 1, 0, 0, NO_LIST, .is_made = true,
        .rows = HRF_ROWS_LAST),
    ROW(WHERE, "Where", OTHER, WHOLE, WHOLE, 3, 3, 1, 0, 0, NO_LIST, INPUTS(INDEX),
        .rows = HRF_ROWS_POINT, .gradient = HRF_GRADIENT_WHERE),
    ROW(SELECT_MAX, "SelectMax", OTHER, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST, .is_made = true,
        .rows = HRF_ROWS_SELECT, .sizes = HRF_SIZE_FIXED, .joining = HRF_JOIN_SELECT_MAX,
        .gradient = HRF_GRADIENT_SELECT_MAX),
    ROW(TOP_K, "TopK", OTHER, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(top_k), .is_made = true,
        .sizes = HRF_SIZE_FIXED),
    ROW(TOP_K_MASK, "TopKMask", OTHER, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(top_k_mask),
        .precision = HRF_PRECISION_FLOAT, .is_made = true, .gradient = HRF_GRADIENT_ZERO),
    ROW(PERFORMER, "PerformerAttention", ATTENTION, WHOLE, WHOLE, 4, 4, 1, 0, 0, LIST(performer),
        .precision = HRF_PRECISION_FLOAT, .sizes = HRF_SIZE_STAYS,
        .gradient = HRF_GRADIENT_PERFORMER),
    ROW(PERFORMER_MAX, "PerformerMax", ATTENTION, SUM, WHOLE, 2, 2, 1, 0, 0, LIST(performer),
        .precision = HRF_PRECISION_FLOAT, INPUTS(DATA, WEIGHTS), .is_made = true),
    ROW(PERFORMER_STATE, "PerformerState", ATTENTION, SUM, WHOLE, 3, 4, 1, 0, 0, LIST(performer),
        .precision = HRF_PRECISION_FLOAT, INPUTS(DATA, DATA, WEIGHTS), .is_made = true),
    ROW(PERFORMER_APPLY, "PerformerApply", ATTENTION, POINT, WHOLE, 3, 3, 1, 0, 0, LIST(performer),
        .precision = HRF_PRECISION_FLOAT, INPUTS(DATA, PARAMETER, WEIGHTS), .is_made = true),
    ROW(CONSTANT, "Constant", KNOWN, WHOLE, WHOLE, 0, 0, 1, 0, 0, NO_LIST),
    ROW(SHAPE, "Shape", KNOWN, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(shape)),
    ROW(CAST, "Cast", CONVERT, POINT, EACH, 1, 1, 1, 0, 0, LIST(cast), .rows = HRF_ROWS_POINT,
        .gradient = HRF_GRADIENT_VIEW),
    ROW(CONSTANT_OF_SHAPE, "ConstantOfShape", KNOWN, WHOLE, WHOLE, 1, 1, 1, 0, 0,
        LIST(constant_of_shape), INPUTS(KNOWN)),
    ROW(EQUAL, "Equal", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(LESS, "Less", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(LESS_OR_EQUAL, "LessOrEqual", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(GREATER, "Greater", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(GREATER_OR_EQUAL, "GreaterOrEqual", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(AND, "And", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(OR, "Or", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(XOR, "Xor", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(MOD, "Mod", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, LIST(mod)),
    ROW(NOT, "Not", KNOWN, WHOLE, WHOLE, 1, 1, 1, 0, 0, NO_LIST),
    ROW(SIZE, "Size", KNOWN, WHOLE, WHOLE, 1, 1, 1, 0, 0, NO_LIST),
    ROW(RANGE, "Range", KNOWN, WHOLE, WHOLE, 3, 3, 1, 0, 0, NO_LIST, INPUTS(KNOWN, KNOWN, KNOWN)),
    ROW(TRILU, "Trilu", KNOWN, WHOLE, WHOLE, 1, 2, 1, 0, 0, LIST(trilu), INPUTS(DATA, KNOWN)),
    ROW(CUM_SUM, "CumSum", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, LIST(cum_sum), INPUTS(DATA, KNOWN)),
    ROW(SCATTER_ND, "ScatterND", KNOWN, WHOLE, WHOLE, 3, 3, 1, 0, 0, NO_LIST),
    ROW(GATHER_ND, "GatherND", KNOWN, WHOLE, WHOLE, 2, 2, 1, 0, 0, NO_LIST),
    ROW(EYE_LIKE, "EyeLike", KNOWN, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(eye_like)),
    ROW(NON_ZERO, "NonZero", KNOWN, WHOLE, WHOLE, 1, 1, 1, 0, 0, NO_LIST, INPUTS(KNOWN)),
    /* Three inputs in a model (scale and zero point); one in the nodes that lowering inserts. */
    ROW(QUANTIZE, "QuantizeLinear", CONVERT, CHANNELS, SCALE, 1, 3, 1, 0, 0, LIST(quantize),
        INPUTS(DATA, CODED, CODED)),
    ROW(DEQUANTIZE, "DequantizeLinear", CONVERT, CHANNELS, SCALE, 1, 3, 1, 0, 0, LIST(quantize),
        INPUTS(CODED, CODED, CODED)),
    ROW(EXCHANGE, "Exchange", MESSAGE, WHOLE, WHOLE, 0, 1, 1, 0, 0, NO_LIST, .is_made = true),
    ROW(ALL_REDUCE, "AllReduce", MESSAGE, WHOLE, WHOLE, 0, 1, 1, 0, 0, NO_LIST, .is_made = true,
        .gradient = HRF_GRADIENT_ALL_REDUCE),
    ROW(POOL_SUM, "PoolSum", OTHER, WHOLE, WHOLE, 1, 1, 1, 0, 0, NO_LIST, .is_made = true),
    ROW(POOL_FINISH, "PoolFinish", OTHER, WHOLE, WHOLE, 1, 1, 1, 0, 0, LIST(pool_finish),
        .is_made = true),
    ROW(ATTENTION_PART, "AttentionPart", ATTENTION, WHOLE, WHOLE, 3, 5, 1, 0, 0,
        LIST(token_attention), .in_place = BIT(HRF_ATTENTION_SEEN), .is_made = true),
    ROW(FUNCTION_GRADIENT, "FunctionGradient", OTHER, POINT, POINT, 2, 2, 1, 0, 0,
        LIST(function_gradient), .in_place = BIT(0) | BIT(1), .is_made = true),
    ROW(CONV_WEIGHT_GRADIENT, "ConvWeightGradient", OTHER, WINDOW_SUM, WHOLE, 2, 2, 1, 0, 0,
        LIST(conv_weight_gradient), .rank = 4, .precision = HRF_PRECISION_MATRICES,
        .is_made = true),
    ROW(MAX_POOL_GRADIENT, "MaxPoolGradient", OTHER, WINDOW_BACK, WHOLE, 2, 2, 1, 0, 0,
        LIST(max_pool), .rank = 4, .is_made = true),
    ROW(GATHER_GRADIENT, "GatherGradient", OTHER, CHANNELS, WHOLE, 2, 2, 1, 0, 0,
        LIST(gather_gradient), INPUTS(DATA, INDEX), .is_made = true),
    ROW(ATTENTION_GRADIENT, "AttentionGradient", OTHER, WHOLE, WHOLE, 4, 4, 1, 0, 0,
        LIST(attention_gradient), .sizes = HRF_SIZE_FIXED, .is_made = true),
};
_Static_assert(sizeof table / sizeof table[0] == HRF_N_OPS, "a row for every operator");

const struct hrf_op_info *hrf_op_info(enum hrf_op op)
{
    assert(op >= 0 && op < HRF_N_OPS && table[op].name != NULL);
    return &table[op];
}

enum hrf_input_role hrf_op_role(enum hrf_op op, int32_t input)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    if (input < info->n_roles)
        return info->roles[input];
    return info->first_attribute_input > 0 && input >= info->first_attribute_input ? HRF_INPUT_KNOWN
                                                                                   : HRF_INPUT_DATA;
}

bool hrf_op_may_overwrite(enum hrf_op op, int32_t input)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    const uint32_t inputs = info->in_place != 0 ? info->in_place : classes[info->op_class].in_place;
    return input < 32 && (inputs & BIT(input)) != 0;
}

enum hrf_precision_rule hrf_op_precision(enum hrf_op op)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    return info->precision != 0 ? info->precision : classes[info->op_class].precision;
}

enum hrf_row_rule hrf_op_rows(enum hrf_op op)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    return info->rows != 0 ? info->rows : classes[info->op_class].rows;
}

enum hrf_size_rule hrf_op_sizes(enum hrf_op op)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    return info->sizes != 0 ? info->sizes : classes[info->op_class].sizes;
}

enum hrf_gradient_rule hrf_op_gradient(enum hrf_op op)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    return info->gradient != 0 ? info->gradient : classes[info->op_class].gradient;
}

bool hrf_op_is_linear(enum hrf_op op, int32_t input)
{
    return input < 32 && (hrf_op_info(op)->linear & BIT(input)) != 0;
}

const char *hrf_op_name(enum hrf_op op)
{
    return hrf_op_info(op)->name;
}

enum hrf_op hrf_op_find(const char *name)
{
    for (int op = 0; op < HRF_N_OPS; op++)
        if (strcmp(table[op].name, name) == 0)
            return (enum hrf_op)op;
    return HRF_N_OPS;
}

bool hrf_op_has_attribute(enum hrf_op op, size_t offset)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    for (int32_t i = 0; i < info->n_attributes; i++)
        if (info->attributes[i].offset == offset)
            return true;
    return false;
}

struct hrf_attributes hrf_attributes_default(void)
{
    return (struct hrf_attributes){
        .window = { .stride = { 1, 1 }, .dilation = { 1, 1 } },
        .group = 1,
        .activation_min = -FLT_MAX,
        .activation_max = FLT_MAX,
        .alpha = 1,
        .beta = 1,
        .epsilon = 1e-5f,
        .gemm = { .alpha = 1, .beta = 1 },
        .lrn = { .alpha = 1, .beta = 1, .bias = 1 },
        .range = { .end = INT64_MAX },
        .to = HRF_DTYPE_NONE,
    };
}

struct hrf_attributes hrf_attributes_of(enum hrf_op op)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    struct hrf_attributes a = hrf_attributes_default();
    for (int32_t i = 0; i < info->n_attributes; i++) {
        const struct hrf_attribute *row = &info->attributes[i];
        void *at = hrf_attribute_at(&a, row);
        if (!row->has_initial)
            continue;
        switch (row->type) {
        case HRF_ATTRIBUTE_FLOAT:
            *(float *)at = (float)row->initial;
            break;
        case HRF_ATTRIBUTE_FLAG:
            *(bool *)at = row->initial != 0;
            break;
        case HRF_ATTRIBUTE_TYPE:
            *(enum hrf_dtype *)at = (enum hrf_dtype)row->initial;
            break;
        default:
            *(int64_t *)at = (int64_t)row->initial;
        }
    }
    return a;
}

int32_t hrf_attribute_count(const struct hrf_attributes *a, const struct hrf_attribute *row)
{
    return row->type == HRF_ATTRIBUTE_LIST ? row->n * a->n_axes : row->n;
}

size_t hrf_attribute_bytes(const struct hrf_attributes *a, const struct hrf_attribute *row)
{
    static const size_t sizes[] = {
        [HRF_ATTRIBUTE_INT] = sizeof(int64_t),  [HRF_ATTRIBUTE_INTS] = sizeof(int64_t),
        [HRF_ATTRIBUTE_PAIR] = sizeof(int64_t), [HRF_ATTRIBUTE_PADS] = sizeof(int64_t),
        [HRF_ATTRIBUTE_LIST] = sizeof(int64_t), [HRF_ATTRIBUTE_FLOAT] = sizeof(float),
        [HRF_ATTRIBUTE_FLAG] = sizeof(bool),    [HRF_ATTRIBUTE_WORD] = sizeof(int),
        [HRF_ATTRIBUTE_TYPE] = sizeof(int),
    };
    return sizes[row->type] * (size_t)hrf_attribute_count(a, row);
}

bool hrf_op_is_move(enum hrf_op op)
{
    return table[op].op_class == HRF_CLASS_MOVE || table[op].op_class == HRF_CLASS_VIEW;
}

bool hrf_op_is_unary(enum hrf_op op)
{
    return table[op].op_class == HRF_CLASS_UNARY;
}

bool hrf_op_is_binary(enum hrf_op op)
{
    return table[op].op_class == HRF_CLASS_BINARY;
}

bool hrf_op_is_reduction(enum hrf_op op)
{
    return table[op].op_class == HRF_CLASS_REDUCE;
}

bool hrf_op_is_attention(enum hrf_op op)
{
    return op == HRF_OP_ATTENTION || op == HRF_OP_TOKEN_ATTENTION || op == HRF_OP_BYTE_ATTENTION;
}

bool hrf_op_is_foldable_only(enum hrf_op op)
{
    return table[op].op_class == HRF_CLASS_KNOWN;
}

bool hrf_op_communicates(enum hrf_op op)
{
    return table[op].op_class == HRF_CLASS_MESSAGE;
}
