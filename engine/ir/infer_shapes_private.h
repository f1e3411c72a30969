/* infer_shapes_private.h - the rules of shape inference and their helpers; for this folder only.
 *
 * A rule sets the node's first output from its inputs, whose shapes are known, and brings the
 * node's attributes into their final form. It may be called again for other input shapes.
 */
#ifndef HRF_ENGINE_IR_INFER_SHAPES_PRIVATE_H
#define HRF_ENGINE_IR_INFER_SHAPES_PRIVATE_H

#include "engine/ir/graph.h"

struct hrf_inference {
    struct hrf_graph *graph;
    struct hrf_node *node;
    struct hrf_shape shape;  /* of output 0; the rule sets it */
    enum hrf_dtype dtype;    /* of output 0; equal to that of input 0 before the rule runs */
    bool is_integer_weights; /* hrf_has_integer_weights(): output 0 is not computed */
    const char *remedy;      /* of the next refusal; NULL: the usual one */
    struct hrf_error *err;
};

typedef enum hrf_status hrf_infer_rule(struct hrf_inference *in);

hrf_infer_rule hrf_infer_conv, hrf_infer_conv_transpose, hrf_infer_pool;
hrf_infer_rule hrf_infer_conv_weight_gradient, hrf_infer_pool_gradient, hrf_infer_gather_gradient,
    hrf_infer_attention_gradient;
hrf_infer_rule hrf_infer_concat, hrf_infer_flatten, hrf_infer_reshape, hrf_infer_transpose,
    hrf_infer_squeeze, hrf_infer_unsqueeze, hrf_infer_pad, hrf_infer_gather, hrf_infer_slice,
    hrf_infer_reduction, hrf_infer_resize, hrf_infer_depth_to_space, hrf_infer_space_to_depth;

hrf_infer_rule hrf_infer_comparison, hrf_infer_not, hrf_infer_where, hrf_infer_select_max,
    hrf_infer_top_k, hrf_infer_expand, hrf_infer_tile, hrf_infer_size, hrf_infer_range,
    hrf_infer_trilu, hrf_infer_cum_sum, hrf_infer_scatter_nd, hrf_infer_gather_nd,
    hrf_infer_eye_like, hrf_infer_non_zero;
hrf_infer_rule hrf_infer_layer_norm, hrf_infer_group_norm, hrf_infer_attention,
    hrf_infer_token_attention, hrf_infer_swiglu;

hrf_infer_rule hrf_infer_quantize, hrf_infer_dequantize;
/* Computes a QUANTIZE or DEQUANTIZE of a constant. */
enum hrf_status hrf_infer_convert_constant(struct hrf_inference *in);

/* The value of input k; NULL if the node has no such input. */
const struct hrf_value *hrf_infer_input(const struct hrf_inference *in, int32_t k);
/* How a message names an input: by its number and the node that computes it. Names of values are
 * the exporter's and mean nothing to users. */
struct hrf_infer_called {
    char text[160];
};
struct hrf_infer_called hrf_infer_call(const struct hrf_inference *in,
                                       const struct hrf_value *value);
/* Returns HRF_E_USER with "node 'x' (Conv): " before the text and, after it, the input shapes and a
 * remedy. */
enum hrf_status hrf_infer_fail(struct hrf_inference *in, const char *format, ...) HRF_PRINTF(2, 3);
/* The same with HRF_E_UNSUPPORTED: legal ONNX that this engine does not support. */
enum hrf_status hrf_infer_refuse(struct hrf_inference *in, const char *format, ...)
    HRF_PRINTF(2, 3);
/* Makes *axis non-negative; `rank` is the number of legal axes. */
enum hrf_status hrf_infer_axis(struct hrf_inference *in, int64_t *axis, int32_t rank);
/* The same for all of attributes.axes; refuses repeated axes. */
enum hrf_status hrf_infer_axes(struct hrf_inference *in, int32_t rank);

/* numpy's rule. Source: ONNX, "Broadcasting". */
bool hrf_infer_broadcast(const struct hrf_shape *a, const struct hrf_shape *b,
                         struct hrf_shape *out);
/* Element i of a constant of any type. */
double hrf_infer_number(const struct hrf_value *value, int64_t i);
/* The most elements that integer arithmetic and generators make when a model is loaded. */
#define HRF_INFER_MAX_KNOWN (1 << 24)

/* Refuses more rows (axis 0) or columns (1) than HRF_MAX_SIDE. */
enum hrf_status hrf_infer_check_side(struct hrf_inference *in, int axis, int64_t size);

/* Refuses a node whose KNOWN inputs (op.h) are not known, and reads inputs that carry attributes
 * (newer opsets) into the attributes. */
enum hrf_status hrf_infer_read_inputs(struct hrf_inference *in);
/* Reads the elements of an int32 or int64 constant, at most `max`. */
enum hrf_status hrf_infer_integers(struct hrf_inference *in, const struct hrf_value *value,
                                   int64_t *out, int32_t max, int32_t *n);

/* True if output 0, whose shape and type are set, can be computed when the model is loaded: shape
 * arithmetic and what exporters compute from constants, and weights converted between float32 and 8
 * bits. */
bool hrf_infer_can_evaluate(const struct hrf_inference *in);
/* Computes output 0 if that is possible; otherwise changes nothing. */
enum hrf_status hrf_infer_evaluate(struct hrf_inference *in);

#endif
