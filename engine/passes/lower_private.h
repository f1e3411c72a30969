/* lower_private.h - the parts of lowering: which nodes go low (lower_choose.c), the forms of a
 * value (lower_values.c), products that round their rows (lower_rows.c), weights (lower_weights.c)
 * and the scales of a model that was quantised elsewhere (own_scales.c); for this folder only. */
#ifndef HRF_ENGINE_PASSES_LOWER_PRIVATE_H
#define HRF_ENGINE_PASSES_LOWER_PRIVATE_H

#include "engine/ir/readers.h"
#include "engine/passes/lower.h"

/* When an operator is lowered. */
enum hrf_lower_kind {
    HRF_LOWER_PRODUCT, /* always, together with its inputs */
    HRF_LOWER_FOLLOWS, /* if its inputs are lowered */
    HRF_LOWER_NEVER
};

struct lowering {
    const struct hrf_graph *from;
    const struct hrf_lowering *how;
    const struct hrf_node *node; /* of `from`, whose forms are being made; NULL: the ends */
    bool only_kept; /* only products that how->keep_precisions names go low, to how->type */
    struct hrf_graph *to;
    struct hrf_readers readers; /* of `from` */
    int32_t *low,
        *full; /* [n_values of from]: lowered and float32 form of the value in `to`; -1: none */
    bool *is_useful; /* [n_values]: a lowered product will read it, maybe through other nodes */
    const struct hrf_range **ranges; /* how->ranges, sorted by hrf_lower_compare_ranges() */
    int32_t *own_forms;              /* hrf_lower_own_forms(); NULL without brings_scales */
    bool brings_scales;              /* S8 with the scales of the model */
    float **smoothing;               /* [n_values]: hrf_lower_find_smoothing(); NULL: none */
    bool *is_smoothed;               /* [n_values]: the value's producer has divided it already */
    bool *of_tokens;                 /* [n_values]: hrf_lower_find_tokens() */
    bool *of_weights;   /* [n_values]: a variable weight, or computed from nothing else */
    bool *is_unrounded; /* [n_values]: in float32 on the way to the only operator that reads it */
    int32_t *variables; /* [n_values]: 1 + its number, if it is a variable weight; else 0 */
    int32_t *rounded;   /* [how->n_variables]: in `to`, the weights as products read them */
    struct hrf_strbuf *notes;
    char why[160]; /* a reason with numbers, until it is noted */
};

/* ---- lower_values.c ---- */

int hrf_lower_compare_ranges(const void *a, const void *b);
/* NULL: the value has none. */
const struct hrf_range *hrf_lower_range(const struct lowering *l, int32_t value);
/* True for a constant in float32 whose numbers are integers of 8 bits times a scale. */
bool hrf_lower_is_integers(const struct hrf_value *value);
/* The 8-bit form that a model with scales of its own gives the value; NULL: none. */
const struct hrf_value *hrf_lower_own_form(const struct lowering *l, int32_t value);
/* Type and scale of a value's lowered form. HRF_E_USER: no range, or one that is not finite. */
HRF_CHECKED enum hrf_status hrf_lower_form(const struct lowering *l, int32_t value,
                                           enum hrf_dtype *type, struct hrf_quantization *q,
                                           struct hrf_error *err);
/* Adds a value of that type, with the name of `value` and the suffix, to the lowered graph. */
HRF_CHECKED enum hrf_status hrf_lower_add_value(struct lowering *l, int32_t value,
                                                const char *suffix, enum hrf_dtype type,
                                                struct hrf_quantization q, int32_t *index,
                                                struct hrf_error *err);
/* Adds the node that converts between the forms of `value`; `down`: to the lowered one. */
HRF_CHECKED enum hrf_status hrf_lower_convert(struct lowering *l, int32_t value, bool down,
                                              int32_t input, int32_t output, struct hrf_error *err);
/* The float32, or lowered, form of a value that has one of them; converted if it must be. A
 * constant has an 8-bit form if hrf_lower_is_integers(). */
HRF_CHECKED enum hrf_status hrf_lower_get_full(struct lowering *l, int32_t value, int32_t *index,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_lower_get_low(struct lowering *l, int32_t value, int32_t *index,
                                              struct hrf_error *err);

/* Adds to `to` what l->node becomes, or what is added for it. */
HRF_CHECKED enum hrf_status hrf_lower_add_node(struct lowering *l, enum hrf_op op, const char *name,
                                               const int32_t *inputs, int32_t n_inputs,
                                               int32_t output,
                                               const struct hrf_attributes *attributes,
                                               struct hrf_error *err);

/* ---- lower_choose.c ---- */

enum hrf_lower_kind hrf_lower_kind_of(const struct hrf_lowering *how, enum hrf_op op);
/* True if the operator only selects or reorders elements of its input, so that the scale stays. */
bool hrf_lower_keeps_scale(enum hrf_op op);
/* True if the node has input i; and if that is a constant. */
/* The reason why the node is kept in float32 by `keep`; NULL: it is not. */
const char *hrf_lower_why_kept(const struct lowering *l, const struct hrf_node *node);
/* The reason why a product must stay in float32; NULL: it can be lowered. */
const char *hrf_lower_refuse_product(struct lowering *l, const struct hrf_node *node);
/* True if the node goes low, its inputs having been looked at before; else notes why not. */
bool hrf_lower_goes_low(struct lowering *l, const struct hrf_node *node);
/* True if the result of a node that goes low is float32; may set is_unrounded. */
bool hrf_lower_gives_full(struct lowering *l, const struct hrf_node *node);
/* True if a node of a step of training that goes low reads input k in float32. */
bool hrf_lower_reads_full(const struct lowering *l, const struct hrf_node *node, int32_t k);
/* Fills is_useful, of_weights and variables. */
void hrf_lower_find_useful(const struct lowering *l);

/* ---- lower_rows.c ---- */

/* A product of a constant matrix with each row, or with each pixel, of the input by itself. */
bool hrf_lower_is_of_rows(const struct hrf_graph *graph, const struct hrf_node *node);
/* True for a product that goes low and rounds the rows of its input, which is in float32. */
bool hrf_lower_rounds_rows(const struct lowering *l, const struct hrf_node *node);
/* True for a depth-wise convolution that adds to tokens (a positional encoding): the sum goes
 * through all later layers, and would be rounded by one scale in each that does so. */
bool hrf_lower_adds_to_tokens(const struct lowering *l, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_lower_row_product(struct lowering *l, const struct hrf_node *node,
                                                  struct hrf_error *err);
/* Divides scale and bias of a norm by the smoothing of its result, where only products that round
 * their rows read that: `inputs` of the node in the lowered graph. */
HRF_CHECKED enum hrf_status hrf_lower_divide_norm(struct lowering *l, const struct hrf_node *node,
                                                  int32_t *inputs, struct hrf_error *err);

/* ---- weights and scales ---- */

/* Adds the S8 weights, their scales and the corrected bias of a CONV, CONV_TRANSPOSE or GEMM to
 * `to` and sets inputs[HRF_CONV_WEIGHTS], [HRF_CONV_SCALES] and [HRF_CONV_BIAS]. The weights of a
 * GEMM become [N][K], those of a CONV_TRANSPOSE [M][C/group][kh][kw]. `range` is that of the node's
 * input; NULL: the bias is not corrected. `smoothing`: the divisors of the input's channels, which
 * the weights of a product of rows are multiplied by; NULL: none. */
HRF_CHECKED enum hrf_status hrf_lower_integer_weights(const struct hrf_graph *from,
                                                      const struct hrf_node *node,
                                                      const struct hrf_range *range,
                                                      const float *smoothing, struct hrf_graph *to,
                                                      int32_t *inputs, struct hrf_error *err);
/* Raises most[k] to the largest magnitude of the product's weights that meet channel k of its
 * input. */
void hrf_lower_largest_weights(const struct hrf_graph *graph, const struct hrf_node *node,
                               float *most);
/* Adds integer weights (hrf_pass_take_integer_weights) in float32, in their order. */
HRF_CHECKED enum hrf_status hrf_lower_float_weights(const struct hrf_graph *from,
                                                    const struct hrf_node *node,
                                                    struct hrf_graph *to, int32_t *index,
                                                    struct hrf_error *err);
/* Adds the weights in float32, rounded to values that `type` can represent. A constant bias is
 * unchanged. */
HRF_CHECKED enum hrf_status hrf_lower_rounded_weights(const struct hrf_graph *from,
                                                      const struct hrf_node *node,
                                                      enum hrf_dtype type, struct hrf_graph *to,
                                                      int32_t *inputs, struct hrf_error *err);

/* For a model that was quantised elsewhere: element v is an 8-bit value with the type, scale and
 * zero point that the model gives to value v, because every reader of v quantises it that way.
 * Negative: the model gives none. Heap, [n_values]. */
int32_t *hrf_lower_own_forms(const struct hrf_graph *graph);
/* True if two values have the same type, scale and zero point. */
bool hrf_lower_same_form(const struct hrf_value *a, const struct hrf_value *b);

#endif
