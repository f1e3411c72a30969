/* write_private.h - the messages of an ONNX file while they are made; for this folder's sources
 * that know the generated types. */
#ifndef HRF_ENGINE_ONNX_WRITE_PRIVATE_H
#define HRF_ENGINE_ONNX_WRITE_PRIVATE_H

#include "engine/ir/graph.h"
#include "engine/onnx/onnx.h"

struct Onnx__GraphProto;
struct Onnx__TensorProto;

/* The most inputs that attributes of a node become in opset 13. */
enum { HRF_ONNX_EXTRA_INPUTS = 4 };

struct hrf_onnx_writer {
    const struct hrf_graph *graph;
    struct Onnx__GraphProto *proto; /* points into `graph`, `names` and `owned` */
    char **names;                   /* of each value, unique; owned */
    void **owned;                   /* all that the messages are made of */
    size_t n_owned, capacity;
    int64_t opset;
    bool uses_own_domain;
    const struct hrf_onnx_entry *entries; /* metadata */
    bool splits;                          /* weights go into a second file */
    size_t n_entries;
    struct hrf_error *err;
};

/* A copy of n_bytes at `from` (NULL: zeros) that lives as long as the writer. */
void *hrf_onnx_keep(struct hrf_onnx_writer *w, const void *from, size_t n_bytes);

/* A new message, as its generated initializer has it. */
#define HRF_ONNX_NEW(w, type, initial) hrf_onnx_keep(w, &(const type)initial, sizeof(type))

/* protobuf-c's fields are not const; packing does not change them. */
char *hrf_onnx_unconst(const char *borrowed);

/* The number of a type in TensorProto.DataType. */
int32_t hrf_onnx_type_number(enum hrf_dtype dtype);

/* A tensor; `name`, `shape` and `data` are borrowed until all is written. */
struct Onnx__TensorProto *hrf_onnx_put_tensor(struct hrf_onnx_writer *w, const char *name,
                                              enum hrf_dtype dtype, const struct hrf_shape *shape,
                                              const void *data);

/* The oldest opset from 13 on that has the node's operator with these attributes. */
int64_t hrf_onnx_opset_for(const struct hrf_node *node);

/* Adds the node, as one or two of ONNX's, and as weights what opset 13 takes as inputs instead of
 * attributes. Fails with HRF_E_UNSUPPORTED if ONNX cannot say what a pass has made of the node. */
HRF_CHECKED enum hrf_status hrf_onnx_put_node(struct hrf_onnx_writer *w,
                                              const struct hrf_node *node);

#endif
