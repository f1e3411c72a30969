/* convert_private.h - a node on its way from ONNX to the graph; for this folder's sources that know
 * the generated types. */
#ifndef HRF_ENGINE_ONNX_CONVERT_PRIVATE_H
#define HRF_ENGINE_ONNX_CONVERT_PRIVATE_H

#include "engine/onnx/reader_private.h"

struct Onnx__AttributeProto;

/* The node being converted and what it becomes. */
struct hrf_onnx_conversion {
    struct hrf_onnx_reader *reader;
    const struct Onnx__NodeProto *proto;
    const struct hrf_onnx_row *row;
    struct hrf_attributes a;
    int32_t *inputs; /* capacity: as many as the node has, and 4 more */
    int32_t n_inputs;
    enum hrf_op op;
    bool is_1d;     /* its window slides along one axis */
    int32_t n_made; /* values that the converter made, for their names */
};

typedef enum hrf_status hrf_onnx_converter(struct hrf_onnx_conversion *c);

enum { HRF_ONNX_MAX_ATTRIBUTES = 10 };
struct hrf_onnx_row {
    const char *name;
    enum hrf_op op;
    int32_t max_inputs; /* of the ONNX operator */
    /* What the rows of the operator's attributes do not say: older opsets, attributes that change
     * the operator; called when those have been read. NULL: nothing. */
    hrf_onnx_converter *convert;
    /* Further attributes, which `convert` checks or which change nothing. */
    const char *attributes[HRF_ONNX_MAX_ATTRIBUTES];
};
/* Refuses attributes that neither the operator's rows (HRF_N_OPS: none) nor `more` name. */
enum hrf_status hrf_onnx_check_attributes(struct hrf_onnx_conversion *c, enum hrf_op op,
                                          const char *const *more);
/* Reads the operator's attributes by its rows, from ONNX's defaults on. */
enum hrf_status hrf_onnx_read_attributes(struct hrf_onnx_conversion *c, enum hrf_op op);
/* False: there is no such operator, or it becomes other ones. */
bool hrf_onnx_find_row(const char *name, struct hrf_onnx_row *out);

/* An operator that becomes several nodes, or nodes for several outputs: the converter adds them. */
struct hrf_onnx_compound {
    const char *name;
    int32_t min_inputs, max_inputs;
    hrf_onnx_converter *convert;
    const char *attributes[HRF_ONNX_MAX_ATTRIBUTES];
};
/* The compound form of a node; NULL: it has none. `is_1d`: its window slides along one axis. */
const struct hrf_onnx_compound *hrf_onnx_find_compound(const char *name, bool is_1d);
const char *hrf_onnx_compound_name(size_t i); /* NULL after the last */

/* ---- for compounds ---- */

/* A node between the ONNX node's inputs and outputs; *output is its new value. */
enum hrf_status hrf_onnx_put(struct hrf_onnx_conversion *c, enum hrf_op op, const int32_t *inputs,
                             int32_t n_inputs, const struct hrf_attributes *a, int32_t *output);
/* The node that computes output k of the ONNX node. */
enum hrf_status hrf_onnx_put_output(struct hrf_onnx_conversion *c, size_t k, enum hrf_op op,
                                    const int32_t *inputs, int32_t n_inputs,
                                    const struct hrf_attributes *a);
/* A constant of `n` integers (rank 1), or of one float32 (rank 0). */
enum hrf_status hrf_onnx_put_integers(struct hrf_onnx_conversion *c, const int64_t *values,
                                      int32_t n, int32_t *index);
enum hrf_status hrf_onnx_put_float(struct hrf_onnx_conversion *c, float value, int32_t *index);
/* A constant with the elements of `shape`, taken over as hrf_graph_take_value() does. */
enum hrf_status hrf_onnx_put_constant(struct hrf_onnx_conversion *c, enum hrf_dtype dtype,
                                      const struct hrf_shape *shape, void **data, int32_t *index);
static inline bool hrf_onnx_has_input(const struct hrf_onnx_conversion *c, int32_t k)
{
    return k < c->n_inputs && c->inputs[k] >= 0;
}
/* Input k; NULL if it is missing. */
const struct hrf_value *hrf_onnx_input(const struct hrf_onnx_conversion *c, int32_t k);
bool hrf_onnx_has_output(const struct hrf_onnx_conversion *c, size_t k);
/* Output k, or all from `first` on, may be named, but nobody may use them. */
enum hrf_status hrf_onnx_refuse_output(struct hrf_onnx_conversion *c, size_t k);
enum hrf_status hrf_onnx_refuse_outputs(struct hrf_onnx_conversion *c, size_t first);

/* Of operators_move.c: what moves elements or speaks of shapes and types. */
hrf_onnx_converter hrf_onnx_convert_gather, hrf_onnx_convert_pad, hrf_onnx_convert_slice,
    hrf_onnx_convert_constant_of_shape, hrf_onnx_convert_gather_nd, hrf_onnx_convert_scatter_nd,
    hrf_onnx_convert_cast_like;
/* Of operators_select.c. */
hrf_onnx_converter hrf_onnx_convert_top_k, hrf_onnx_convert_arg_max;
/* A Gather that takes rows by the greatest score of a column, or is a step towards it, becomes
 * SELECT_MAX or TOP_K. */
void hrf_onnx_choose_rows(struct hrf_onnx_conversion *c);
/* Of operators_quantize.c: operators that compute in 8-bit integers. */
hrf_onnx_converter hrf_onnx_convert_qlinear_conv, hrf_onnx_convert_qlinear_matmul,
    hrf_onnx_convert_dynamic_quantize, hrf_onnx_convert_conv_integer,
    hrf_onnx_convert_matmul_integer;
/* Of einsum.c and operators_attention.c. */
hrf_onnx_converter hrf_onnx_convert_if; /* of convert.c */
hrf_onnx_converter hrf_onnx_convert_einsum, hrf_onnx_convert_attention, hrf_onnx_convert_rotary;

/* An error that names the node; returns `status`. */
enum hrf_status hrf_onnx_refuse(struct hrf_onnx_conversion *c, enum hrf_status status,
                                const char *format, ...) HRF_PRINTF(3, 4);
enum hrf_status hrf_onnx_wrong_type(struct hrf_onnx_conversion *c, const char *name,
                                    const char *wanted);

/* ---- attributes: what is not there leaves *out alone ---- */

const struct Onnx__AttributeProto *hrf_onnx_attribute(const struct hrf_onnx_conversion *c,
                                                      const char *name);
enum hrf_status hrf_onnx_get_int(struct hrf_onnx_conversion *c, const char *name, int64_t *out);
enum hrf_status hrf_onnx_get_bool(struct hrf_onnx_conversion *c, const char *name, bool *out);
enum hrf_status hrf_onnx_get_float(struct hrf_onnx_conversion *c, const char *name, float *out);
/* Up to `max` numbers; *n is -1 when the attribute is not there. */
enum hrf_status hrf_onnx_get_ints(struct hrf_onnx_conversion *c, const char *name, int64_t *out,
                                  int32_t max, int32_t *n);
/* The index of the attribute's word; `words` ends with NULL. */
enum hrf_status hrf_onnx_get_word(struct hrf_onnx_conversion *c, const char *name,
                                  const char *const *words, int *out);
/* A constant the converter makes: `n` integers as one more input. */
enum hrf_status hrf_onnx_add_integers(struct hrf_onnx_conversion *c, const char *what,
                                      const int64_t *values, int32_t n);

#endif
