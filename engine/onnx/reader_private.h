/* reader_private.h - the parts of the importer; for this folder only. */
#ifndef HRF_ENGINE_ONNX_READER_PRIVATE_H
#define HRF_ENGINE_ONNX_READER_PRIVATE_H

#include "engine/ir/graph.h"
#include "engine/onnx/external.h"
#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx_names.h"
#include "engine/onnx/source.h"

#include <protobuf-c/protobuf-c.h>

/* Of the generated onnx.pb-c.h, which is not in the source tree: the sources here include it. */
struct Onnx__GraphProto;
struct Onnx__NodeProto;
struct Onnx__TensorProto;

/* A name that stands for something we do not compute (BatchNormalization's running mean ...). */
#define HRF_NAME_REFUSED (-2)
#define HRF_NAME_UNKNOWN (-1)

struct hrf_onnx_reader {
    const struct Onnx__GraphProto *proto;
    struct hrf_graph *graph;
    struct hrf_onnx_source *source; /* of the model's bytes */
    struct hrf_names values;        /* ONNX name -> value index */
    struct hrf_onnx_external external;
    int64_t opset;
    bool has_unused; /* nodes that later ones have replaced are still in the graph */
    struct hrf_error *err;
};

/* Unpacks after checking that nesting is sane (the generated reader recurses). The raw_data of
 * tensors are hrf_onnx_raw()'s. Free with hrf_onnx_free_message(). */
HRF_CHECKED enum hrf_status hrf_onnx_unpack(const ProtobufCMessageDescriptor *descriptor,
                                            struct hrf_onnx_source *source, ProtobufCMessage **out,
                                            struct hrf_error *err);
void hrf_onnx_free_message(ProtobufCMessage *message);
/* *n_bytes: how many bytes of raw data a tensor has. True: they are in the source, from *at on;
 * false: `data` holds them. */
bool hrf_onnx_raw(const ProtobufCBinaryData *data, uint64_t *at, uint64_t *n_bytes);

/* proto2 leaves absent strings NULL. */
static inline const char *hrf_onnx_text(const char *text)
{
    return text != NULL ? text : "";
}

HRF_CHECKED enum hrf_status hrf_onnx_dtype(int32_t type, const char *what, enum hrf_dtype *out,
                                           struct hrf_error *err);
/* The type that values of `dtype` have in a graph: float16, bfloat16 and float64 become float32,
 * in which everything is computed. */
static inline enum hrf_dtype hrf_onnx_graph_dtype(enum hrf_dtype dtype)
{
    return dtype == HRF_F16 || dtype == HRF_B16 || dtype == HRF_F64 ? HRF_F32 : dtype;
}
/* The elements as a heap block in *data (never NULL on success), in the graph's type: weights and
 * other constants of the reader's model. */
HRF_CHECKED enum hrf_status hrf_onnx_constant(struct hrf_onnx_reader *reader,
                                              const struct Onnx__TensorProto *tensor,
                                              const char *name, enum hrf_dtype *dtype,
                                              struct hrf_shape *shape, void **data);
/* Adds the nodes of a branch of If; its outputs are then in reader->values. */
HRF_CHECKED enum hrf_status hrf_onnx_read_branch(struct hrf_onnx_reader *reader,
                                                 const struct Onnx__GraphProto *branch);
/* Adds the graph's form of one node. Inputs must be in reader->values already. */
HRF_CHECKED enum hrf_status hrf_onnx_convert_node(struct hrf_onnx_reader *reader,
                                                  const struct Onnx__NodeProto *node);
/* Value index of an input or output name; "" gives HRF_NO_VALUE. */
HRF_CHECKED enum hrf_status hrf_onnx_lookup(struct hrf_onnx_reader *reader, const char *name,
                                            const char *user, int32_t *out);

#endif
