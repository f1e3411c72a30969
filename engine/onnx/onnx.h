/* onnx.h - ONNX files to graphs and back.
 *
 * Reads opset 6 to 28 of the default domain; weights may be in files beside the model. Of control
 * flow only If on a constant. float16, bfloat16 and float64 become float32.
 * Anything beyond is an error that names the node, the operator, the opset and the attribute;
 * nothing is ignored silently. Reading checks structure; shapes are checked by
 * hrf_graph_infer_shapes(). Files are not trusted. Stateless: any thread.
 *
 * Newer opsets' constant inputs (axes, pads, min ...) become attributes. Constant nodes and
 * Identity nodes of constants become values; Dropout becomes IDENTITY; Sum becomes ADDs. Nodes
 * out of order are sorted. Source: ONNX operator documentation, versions 6 to 28.
 */
#ifndef HRF_ENGINE_ONNX_ONNX_H
#define HRF_ENGINE_ONNX_ONNX_H

#include "base/hash.h"
#include "engine/ir/graph.h"

#define HRF_ONNX_MIN_OPSET 6
#define HRF_ONNX_MAX_OPSET 28
/* Of what ONNX does not have, version 1: PerformerAttention (graph.h says what it computes), inputs
 * q, k, v, projection, attributes heads, kernel ("relu" or "softmax"), epsilon. */
#define HRF_ONNX_OWN_DOMAIN "hires-flow"

/* Who made the file. */
struct hrf_onnx_info {
    int64_t ir_version, opset;
    char producer[64], producer_version[64]; /* cut when longer */
};

/* *out is owned by the caller. HRF_E_USER: the file is wrong; HRF_E_UNSUPPORTED: it is legal
 * but beyond us; HRF_E_NOMEM; HRF_E_EXTERNAL: it cannot be read. */
HRF_CHECKED enum hrf_status hrf_onnx_read(const char *path, struct hrf_graph **out,
                                          struct hrf_error *err);
/* The same, and what names all that the model consists of: the SHA-256 of the file or, with weights
 * in other files, of its SHA-256 and that of these weights as they were read. *sha256 is set
 * whenever the file itself can be read, also when the rest fails. */
HRF_CHECKED enum hrf_status hrf_onnx_read_named(const char *path, char sha256[HRF_HASH_HEX],
                                                struct hrf_graph **out, struct hrf_error *err);
/* `where` is the name of the bytes in messages. */
HRF_CHECKED enum hrf_status hrf_onnx_parse(const void *bytes, size_t n_bytes, const char *where,
                                           struct hrf_graph **out, struct hrf_error *err);
/* The same; *info is filled as far as it was read, also when the rest fails. `folder` is where the
 * model's external data lies; NULL: there is none, as for hrf_onnx_parse(). */
HRF_CHECKED enum hrf_status hrf_onnx_parse_info(const void *bytes, size_t n_bytes,
                                                const char *where, const char *folder,
                                                struct hrf_onnx_info *info, struct hrf_graph **out,
                                                struct hrf_error *err);

/* Writes opset 13 (a newer one when a node needs it), float weights as raw data, atomically. Dims
 * of -1 become symbolic. Reading it back gives a graph of the same hash, unless shapes have been
 * inferred in between. Graphs with fused nodes are refused: write before the passes. */
HRF_CHECKED enum hrf_status hrf_onnx_write(const struct hrf_graph *graph, const char *path,
                                           struct hrf_error *err);

/* The same, with entries of the model's metadata (metadata_props). `splits`: weights go into a
 * second file, PATH.data, as they always do when they are too large for one (2 GiB). */
struct hrf_onnx_entry {
    const char *key, *value; /* borrowed */
};
HRF_CHECKED enum hrf_status hrf_onnx_write_with(const struct hrf_graph *graph,
                                                const struct hrf_onnx_entry *entries,
                                                size_t n_entries, bool splits, const char *path,
                                                struct hrf_error *err);
/* The value of a metadata entry, *value (heap); NULL: the model has none of that key. */
HRF_CHECKED enum hrf_status hrf_onnx_read_entry(const char *path, const char *key, char **value,
                                                struct hrf_error *err);

/* One tensor on its own: the .pb files of ONNX's own test data. */
struct hrf_onnx_tensor {
    char *name;
    enum hrf_dtype dtype;
    struct hrf_shape shape;
    void *data; /* dense */
};
HRF_CHECKED enum hrf_status hrf_onnx_read_tensor(const char *path, struct hrf_onnx_tensor *out,
                                                 struct hrf_error *err);
void hrf_onnx_tensor_release(struct hrf_onnx_tensor *tensor);

/* The i-th ONNX operator that can be read, NULL after the last. */
const char *hrf_onnx_operator(size_t i);

#endif
