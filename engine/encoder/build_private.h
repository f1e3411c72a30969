/* build_private.h - a graph that grows node by node out of the tensors of a safetensors file; for
 * this folder only.
 *
 * Errors stick: after the first one, everything returns HRF_NO_VALUE and takes it.
 */
#ifndef HRF_ENGINE_ENCODER_BUILD_PRIVATE_H
#define HRF_ENGINE_ENCODER_BUILD_PRIVATE_H

#include "engine/encoder/encoder.h"
#include "engine/encoder/safetensors.h"

/* What the name of a transformer or ResNet stands for; a width of 0: any network. Of a ResNet the
 * depth counts its layers, and the width is that of the inner convolutions of its first stage. */
struct hrf_encoder_network {
    int64_t width, depth, n_heads, patch, n_registers;
};

struct hrf_encoder_build {
    struct hrf_graph *graph;                  /* borrowed */
    struct hrf_safetensors *file;             /* borrowed */
    const struct hrf_encoder_options *wanted; /* borrowed, complete */
    const struct hrf_encoder_network *named;
    enum hrf_status status;
    struct hrf_error *err;
    int32_t n_made; /* for names */
    float epsilon;  /* of a vision transformer's norms */
};

/* Gives tensors in the names of Hugging Face's transformers timm's names; in a file without them
 * nothing changes. *epsilon: of the norms, if it is another than timm's. */
void hrf_encoder_take_hugging_face_names(struct hrf_safetensors *file, float *epsilon);

/* The tensor of that name (printf's), NULL: there is none. Not a failure. */
struct hrf_safetensor *hrf_encoder_look(struct hrf_encoder_build *b, const char *format, ...)
    HRF_PRINTF(2, 3);
/* A tensor as a constant. It must have this shape: of rank `rank`, with dims that follow as int64_t
 * numbers in `dims`; -1: any. */
int32_t hrf_encoder_tensor(struct hrf_encoder_build *b, const char *name, int32_t rank,
                           const int64_t *dims);
/* n_bytes of `data` are copied. */
int32_t hrf_encoder_constant(struct hrf_encoder_build *b, enum hrf_dtype dtype, int32_t rank,
                             const int64_t *dims, const void *data);

int32_t hrf_encoder_node(struct hrf_encoder_build *b, enum hrf_op op, const int32_t *inputs,
                         int32_t n_inputs, const struct hrf_attributes *attributes);
int32_t hrf_encoder_unary(struct hrf_encoder_build *b, enum hrf_op op, int32_t x);
int32_t hrf_encoder_binary(struct hrf_encoder_build *b, enum hrf_op op, int32_t x, int32_t y);
/* 0: as the input's dimension; -1: what remains. */
int32_t hrf_encoder_reshape(struct hrf_encoder_build *b, int32_t x, int32_t rank,
                            const int64_t *dims);
int32_t hrf_encoder_transpose(struct hrf_encoder_build *b, int32_t x, int32_t rank,
                              const int64_t *axes);
/* Elements [begin, end) along one axis. */
int32_t hrf_encoder_slice(struct hrf_encoder_build *b, int32_t x, int64_t axis, int64_t begin,
                          int64_t end);
/* x [..][columns] times "NAME.weight" [rows][columns], plus "NAME.bias" if the file has it. */
int32_t hrf_encoder_linear(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t rows,
                           int64_t columns);
/* Over the last axis, number `axis`, of n numbers: "NAME.weight" and "NAME.bias". */
int32_t hrf_encoder_layer_norm(struct hrf_encoder_build *b, const char *name, int32_t x,
                               int64_t axis, int64_t n, float epsilon);
/* "NAME.weight" [out][in / group][kernel][kernel], and "NAME.bias" if the file has it. */
int32_t hrf_encoder_conv(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t in,
                         int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t group);
/* Sets the status unless one is set; always HRF_NO_VALUE. */
int32_t hrf_encoder_fail(struct hrf_encoder_build *b, enum hrf_status status);
/* The same with HRF_E_USER and a sentence about the file. */
int32_t hrf_encoder_refuse(struct hrf_encoder_build *b, const char *what);

/* The families: from "input" [N][3][size][size] to the embedding [N][D], or the logits. */
int32_t hrf_encoder_vit(struct hrf_encoder_build *b, int32_t x);
int32_t hrf_encoder_resnet(struct hrf_encoder_build *b, int32_t x);
int32_t hrf_encoder_convnext(struct hrf_encoder_build *b, int32_t x);

/* Position embeddings [from][from][channels] at another grid, [to][to][channels], as timm makes
 * them: bicubic (a = -0.5), with antialiasing where the grid becomes smaller. */
HRF_CHECKED enum hrf_status hrf_position_resize(const float *in, int64_t from, int64_t to,
                                                int64_t channels, float *out,
                                                struct hrf_error *err);

#endif
