#include "engine/ir/op.h"

#include <assert.h>
#include <string.h>

#define ANY INT32_MAX
#define ROW(OP, NAME, MIN, MAX, OUT, USES, FIRST)                                                  \
    [HRF_OP_##OP] = { HRF_OP_##OP, NAME, MIN, MAX, OUT, USES, FIRST, 0, 0 }
#define UNARY_ROW(OP, NAME, USES, ALPHA, BETA)                                                     \
    [HRF_OP_##OP] = { HRF_OP_##OP, NAME, 1, 1, 1, USES, 0, ALPHA, BETA },

/* Passes add the last inputs of CONV and GEMM: the residual, the scales of the weights and the
 * prologue, of which a GEMM has only the factors. Further outputs of BATCH_NORM and Dropout exist
 * in training only. The indices of MAX_POOL are not computed. */
static const struct hrf_op_info table[] = {
    ROW(CONV, "Conv", 2, HRF_CONV_MAX_INPUTS, 1,
        HRF_USE_WINDOW | HRF_USE_GROUP | HRF_USE_ACTIVATION, 0),
    ROW(CONV_TRANSPOSE, "ConvTranspose", 2, 5, 1,
        HRF_USE_WINDOW | HRF_USE_GROUP | HRF_USE_ACTIVATION | HRF_USE_OUTPUT_SIZE, 0),
    ROW(GEMM, "Gemm", 2, HRF_CONV_FACTORS + 1, 1,
        HRF_USE_ALPHA | HRF_USE_BETA | HRF_USE_TRANSPOSE | HRF_USE_ACTIVATION, 0),
    ROW(MATMUL, "MatMul", 2, 2, 1, 0, 0),
    ROW(BATCH_NORM, "BatchNormalization", 5, 5, 1, HRF_USE_EPSILON | HRF_USE_ACTIVATION, 0),
    HRF_UNARY_OPS(UNARY_ROW) ROW(CLIP, "Clip", 1, 3, 1, HRF_USE_BOUNDS, 1),
    ROW(LOOKUP, "Lookup", 2, 2, 1, 0, 0),
    ROW(SOFTMAX, "Softmax", 1, 1, 1, HRF_USE_AXIS, 0),
    ROW(LOG_SOFTMAX, "LogSoftmax", 1, 1, 1, HRF_USE_AXIS, 0),
    ROW(ADD, "Add", 2, 2, 1, HRF_USE_ACTIVATION, 0),
    ROW(SUB, "Sub", 2, 2, 1, 0, 0),
    ROW(MUL, "Mul", 2, 2, 1, 0, 0),
    ROW(DIV, "Div", 2, 2, 1, 0, 0),
    ROW(POW, "Pow", 2, 2, 1, 0, 0),
    ROW(MAX, "Max", 2, 2, 1, 0, 0),
    ROW(MIN, "Min", 2, 2, 1, 0, 0),
    ROW(PRELU, "PRelu", 2, 2, 1, 0, 0),
    ROW(MAX_POOL, "MaxPool", 1, 1, 1, HRF_USE_WINDOW, 0),
    ROW(AVERAGE_POOL, "AveragePool", 1, 1, 1, HRF_USE_WINDOW, 0),
    ROW(GLOBAL_AVERAGE_POOL, "GlobalAveragePool", 1, 1, 1, 0, 0),
    ROW(GLOBAL_MAX_POOL, "GlobalMaxPool", 1, 1, 1, 0, 0),
    ROW(LRN, "LRN", 1, 1, 1, HRF_USE_ALPHA | HRF_USE_BETA | HRF_USE_BIAS | HRF_USE_SIZE, 0),
    ROW(CONCAT, "Concat", 1, ANY, 1, HRF_USE_AXIS, 0),
    ROW(FLATTEN, "Flatten", 1, 1, 1, HRF_USE_AXIS, 0),
    ROW(RESHAPE, "Reshape", 2, 2, 1, HRF_USE_ALLOW_ZERO, 0),
    ROW(TRANSPOSE, "Transpose", 1, 1, 1, HRF_USE_AXES, 0),
    ROW(SQUEEZE, "Squeeze", 1, 2, 1, HRF_USE_AXES, 1),
    ROW(UNSQUEEZE, "Unsqueeze", 1, 2, 1, HRF_USE_AXES, 1),
    ROW(IDENTITY, "Identity", 1, 1, 1, 0, 0),
    ROW(PAD, "Pad", 1, 4, 1, HRF_USE_AXES | HRF_USE_PADS, 1),
    ROW(GATHER, "Gather", 2, 2, 1, HRF_USE_AXIS, 0),
    ROW(SLICE, "Slice", 1, 5, 1, HRF_USE_AXES | HRF_USE_SLICE, 1),
    ROW(EXPAND, "Expand", 2, 2, 1, 0, 0),
    ROW(TILE, "Tile", 2, 2, 1, 0, 0),
    ROW(DEPTH_TO_SPACE, "DepthToSpace", 1, 1, 1, HRF_USE_SIZE | HRF_USE_COLUMN_ROW_DEPTH, 0),
    ROW(RESIZE, "Resize", 1, 4, 1, HRF_USE_RESIZE, 1),
    ROW(SPACE_TO_DEPTH, "SpaceToDepth", 1, 1, 1, HRF_USE_SIZE, 0),
    ROW(REDUCE_MEAN, "ReduceMean", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_SUM, "ReduceSum", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_MAX, "ReduceMax", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_MIN, "ReduceMin", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_PROD, "ReduceProd", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_L1, "ReduceL1", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_L2, "ReduceL2", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_SUM_SQUARE, "ReduceSumSquare", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_LOG_SUM, "ReduceLogSum", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(REDUCE_LOG_SUM_EXP, "ReduceLogSumExp", 1, 2, 1, HRF_USE_AXES | HRF_USE_KEEP_DIMS, 1),
    ROW(LAYER_NORM, "LayerNormalization", 1, 3, 1, HRF_USE_AXIS | HRF_USE_EPSILON, 0),
    ROW(RMS_NORM, "RMSNormalization", 1, 2, 1, HRF_USE_AXIS | HRF_USE_EPSILON, 0),
    ROW(GROUP_NORM, "GroupNormalization", 3, 3, 1, HRF_USE_GROUP | HRF_USE_EPSILON, 0),
    ROW(ATTENTION, "Attention", 3, 4, 1, HRF_USE_SCALE | HRF_USE_TRANSPOSE, 0),
    ROW(SWIGLU, "SwiGLU", 1, 1, 1, 0, 0),
    ROW(WHERE, "Where", 3, 3, 1, 0, 0),
    ROW(SELECT_MAX, "SelectMax", 2, 2, 1, 0, 0),
    ROW(TOP_K, "TopK", 1, 1, 1, HRF_USE_AXIS | HRF_USE_SIZE | HRF_USE_KEEP_DIMS, 0),
    ROW(PERFORMER, "PerformerAttention", 4, 4, 1, HRF_USE_HEADS, 0),
    ROW(PERFORMER_MAX, "PerformerMax", 2, 2, 1, HRF_USE_HEADS, 0),
    ROW(PERFORMER_STATE, "PerformerState", 3, 4, 1, HRF_USE_HEADS, 0),
    ROW(PERFORMER_APPLY, "PerformerApply", 3, 3, 1, HRF_USE_HEADS, 0),
    ROW(CONSTANT, "Constant", 0, 0, 1, 0, 0),
    ROW(SHAPE, "Shape", 1, 1, 1, HRF_USE_SLICE, 0),
    ROW(CAST, "Cast", 1, 1, 1, HRF_USE_TO, 0),
    ROW(CONSTANT_OF_SHAPE, "ConstantOfShape", 1, 1, 1, HRF_USE_TO | HRF_USE_FILL, 0),
    ROW(EQUAL, "Equal", 2, 2, 1, 0, 0),
    ROW(LESS, "Less", 2, 2, 1, 0, 0),
    ROW(LESS_OR_EQUAL, "LessOrEqual", 2, 2, 1, 0, 0),
    ROW(GREATER, "Greater", 2, 2, 1, 0, 0),
    ROW(GREATER_OR_EQUAL, "GreaterOrEqual", 2, 2, 1, 0, 0),
    ROW(AND, "And", 2, 2, 1, 0, 0),
    ROW(OR, "Or", 2, 2, 1, 0, 0),
    ROW(XOR, "Xor", 2, 2, 1, 0, 0),
    ROW(MOD, "Mod", 2, 2, 1, HRF_USE_FLAGS, 0),
    ROW(NOT, "Not", 1, 1, 1, 0, 0),
    ROW(SIZE, "Size", 1, 1, 1, 0, 0),
    ROW(RANGE, "Range", 3, 3, 1, 0, 0),
    ROW(TRILU, "Trilu", 1, 2, 1, HRF_USE_FLAGS, 0),
    ROW(CUM_SUM, "CumSum", 2, 2, 1, HRF_USE_FLAGS, 0),
    ROW(SCATTER_ND, "ScatterND", 3, 3, 1, 0, 0),
    ROW(GATHER_ND, "GatherND", 2, 2, 1, 0, 0),
    ROW(EYE_LIKE, "EyeLike", 1, 1, 1, HRF_USE_TO | HRF_USE_FILL, 0),
    ROW(NON_ZERO, "NonZero", 1, 1, 1, 0, 0),
    /* Three inputs in a model (scale and zero point); one in the nodes that lowering inserts. */
    ROW(QUANTIZE, "QuantizeLinear", 1, 3, 1, HRF_USE_AXIS, 0),
    ROW(DEQUANTIZE, "DequantizeLinear", 1, 3, 1, HRF_USE_AXIS, 0),
    ROW(EXCHANGE, "Exchange", 0, 1, 1, 0, 0),
    ROW(ALL_REDUCE, "AllReduce", 0, 1, 1, 0, 0),
    ROW(POOL_SUM, "PoolSum", 1, 1, 1, 0, 0),
    ROW(POOL_FINISH, "PoolFinish", 1, 1, 1, HRF_USE_SIZE, 0),
    ROW(ATTENTION_PART, "AttentionPart", 3, 5, 1, HRF_USE_SCALE, 0),
};
_Static_assert(sizeof table / sizeof table[0] == HRF_N_OPS, "a row for every operator");

const struct hrf_op_info *hrf_op_info(enum hrf_op op)
{
    assert(op >= 0 && op < HRF_N_OPS && table[op].name != NULL);
    return &table[op];
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

bool hrf_op_is_move(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_CONCAT:
    case HRF_OP_FLATTEN:
    case HRF_OP_RESHAPE:
    case HRF_OP_TRANSPOSE:
    case HRF_OP_SQUEEZE:
    case HRF_OP_UNSQUEEZE:
    case HRF_OP_IDENTITY:
    case HRF_OP_PAD:
    case HRF_OP_GATHER:
    case HRF_OP_SLICE:
    case HRF_OP_EXPAND:
    case HRF_OP_TILE:
    case HRF_OP_DEPTH_TO_SPACE:
    case HRF_OP_SPACE_TO_DEPTH:
        return true;
    default:
        return false;
    }
}
