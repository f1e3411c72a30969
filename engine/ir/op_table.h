/* op_table.h - functions of one number, once: the enum of operators, the operator table, shape
 * inference and the ONNX reader are made of these lines.
 *
 * A line is ROW(operator, ONNX's name, attributes used, default of alpha, default of beta):
 * HRF_USE_ALPHA is ONNX's "alpha", HRF_USE_BETA its "beta" (Selu's "gamma"). A new function needs,
 * besides its line here, its formula for the CPU and CUDA (engine/backend/formulas.h) and its
 * formula for the reference (engine/backend/ref/ref_pointwise.c).
 */
#ifndef HRF_ENGINE_IR_OP_TABLE_H
#define HRF_ENGINE_IR_OP_TABLE_H

/* Which members of struct hrf_attributes an operator reads. */
enum hrf_attribute_use {
    HRF_USE_WINDOW = 1 << 0,
    HRF_USE_GROUP = 1 << 1,
    HRF_USE_ACTIVATION = 1 << 2, /* activation, activation_min, activation_max, alpha */
    HRF_USE_BOUNDS = 1 << 3,     /* activation_min, activation_max */
    HRF_USE_ALPHA = 1 << 4,
    HRF_USE_BETA = 1 << 5,
    HRF_USE_EPSILON = 1 << 6,
    HRF_USE_BIAS = 1 << 7,
    HRF_USE_SIZE = 1 << 8,
    HRF_USE_TRANSPOSE = 1 << 9,
    HRF_USE_AXIS = 1 << 10,
    HRF_USE_AXES = 1 << 11,
    HRF_USE_SLICE = 1 << 12,
    HRF_USE_PADS = 1 << 13, /* pads, value */
    HRF_USE_KEEP_DIMS = 1 << 14,
    HRF_USE_ALLOW_ZERO = 1 << 15,
    HRF_USE_TO = 1 << 16,
    HRF_USE_FILL = 1 << 17,
    HRF_USE_OUTPUT_SIZE = 1 << 18, /* output_padding, output_size */
    HRF_USE_COLUMN_ROW_DEPTH = 1 << 19,
    HRF_USE_RESIZE = 1 << 21,
    HRF_USE_HEADS = 1 << 20, /* group, exponential, epsilon */
    HRF_USE_SCALE = 1 << 22, /* scale, causal */
    HRF_USE_FLAGS = 1 << 23  /* exclusive, reverse, upper, truncated */
};

/* clang-format off */
#define HRF_UNARY_OPS(ROW)                                                                         \
    ROW(RELU, "Relu", 0, 0, 0)                                                                     \
    ROW(LEAKY_RELU, "LeakyRelu", HRF_USE_ALPHA, 0.01f, 0)                                          \
    ROW(SIGMOID, "Sigmoid", 0, 0, 0)                                                               \
    ROW(TANH, "Tanh", 0, 0, 0)                                                                     \
    ROW(EXP, "Exp", 0, 0, 0)                                                                       \
    ROW(LOG, "Log", 0, 0, 0)                                                                       \
    ROW(SQRT, "Sqrt", 0, 0, 0)                                                                     \
    ROW(NEG, "Neg", 0, 0, 0)                                                                       \
    ROW(ABS, "Abs", 0, 0, 0)                                                                       \
    ROW(RECIPROCAL, "Reciprocal", 0, 0, 0)                                                         \
    ROW(FLOOR, "Floor", 0, 0, 0)                                                                   \
    ROW(CEIL, "Ceil", 0, 0, 0)                                                                     \
    ROW(ERF, "Erf", 0, 0, 0)                                                                       \
    ROW(ELU, "Elu", HRF_USE_ALPHA, 1, 0)                                                           \
    ROW(SELU, "Selu", HRF_USE_ALPHA | HRF_USE_BETA,                                                \
        1.67326319217681884765625f, 1.05070102214813232421875f)                                    \
    ROW(HARD_SIGMOID, "HardSigmoid", HRF_USE_ALPHA | HRF_USE_BETA, 0.2f, 0.5f)                     \
    ROW(HARD_SWISH, "HardSwish", 0, 0, 0)                                                          \
    ROW(SOFTPLUS, "Softplus", 0, 0, 0)                                                             \
    ROW(SOFTSIGN, "Softsign", 0, 0, 0)                                                             \
    ROW(CELU, "Celu", HRF_USE_ALPHA, 1, 0)                                                         \
    ROW(THRESHOLDED_RELU, "ThresholdedRelu", HRF_USE_ALPHA, 1, 0)                                  \
    ROW(SIN, "Sin", 0, 0, 0)                                                                       \
    ROW(COS, "Cos", 0, 0, 0)                                                                       \
    ROW(ATAN, "Atan", 0, 0, 0)                                                                     \
    ROW(GELU, "Gelu", 0, 0, 0)                                                                     \
    ROW(GELU_TANH, "GeluTanh", 0, 0, 0) /* ONNX Gelu with approximate = "tanh" */                  \
    ROW(SWISH, "Swish", HRF_USE_ALPHA, 1, 0)                                                       \
    ROW(MISH, "Mish", 0, 0, 0)                                                                     \
    ROW(ROUND, "Round", 0, 0, 0) /* half to even */                                                \
    ROW(SIGN, "Sign", 0, 0, 0)
/* clang-format on */

#endif
