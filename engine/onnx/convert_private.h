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
};

typedef enum hrf_status hrf_onnx_converter(struct hrf_onnx_conversion *c);

enum { HRF_ONNX_MAX_ATTRIBUTES = 8 };
struct hrf_onnx_row {
    const char *name;
    enum hrf_op op;
    int32_t max_inputs;          /* of the ONNX operator */
    hrf_onnx_converter *convert; /* NULL: no attributes to read */
    const char *attributes[HRF_ONNX_MAX_ATTRIBUTES];
};
/* NULL: the table has no such operator. */
const struct hrf_onnx_row *hrf_onnx_find_row(const char *name);

/* An error that names the node; returns `status`. */
enum hrf_status hrf_onnx_refuse(struct hrf_onnx_conversion *c, enum hrf_status status,
                                const char *format, ...) HRF_PRINTF(3, 4);
enum hrf_status hrf_onnx_wrong_type(struct hrf_onnx_conversion *c, const char *name,
                                    const char *wanted);

/* ---- attributes: what is not there leaves *out alone ---- */

const struct Onnx__AttributeProto *hrf_onnx_attribute(const struct hrf_onnx_conversion *c,
                                                      const char *name);
bool hrf_onnx_text_is(const struct Onnx__AttributeProto *a, const char *text);
enum hrf_status hrf_onnx_get_int(struct hrf_onnx_conversion *c, const char *name, int64_t *out);
enum hrf_status hrf_onnx_get_bool(struct hrf_onnx_conversion *c, const char *name, bool *out);
enum hrf_status hrf_onnx_get_float(struct hrf_onnx_conversion *c, const char *name, float *out);
/* Up to `max` numbers; *n is -1 when the attribute is not there. */
enum hrf_status hrf_onnx_get_ints(struct hrf_onnx_conversion *c, const char *name, int64_t *out,
                                  int32_t max, int32_t *n);
/* Of rows and columns. */
enum hrf_status hrf_onnx_get_pair(struct hrf_onnx_conversion *c, const char *name, int64_t out[2]);
enum hrf_status hrf_onnx_get_auto_pad(struct hrf_onnx_conversion *c, enum hrf_auto_pad *out);
/* The index of the attribute's word; `words` ends with NULL. */
enum hrf_status hrf_onnx_get_word(struct hrf_onnx_conversion *c, const char *name,
                                  const char *const *words, int *out);
/* A constant the converter makes: `n` integers as one more input. */
enum hrf_status hrf_onnx_add_integers(struct hrf_onnx_conversion *c, const char *what,
                                      const int64_t *values, int32_t n);

#endif
