/* builder_private.h - putting a network together layer by layer; for this folder only.
 *
 * The first failure sticks: later calls do nothing, and the status is asked for once at the end.
 * A `struct hrf_layer` travels along with what the next layer must know, including an estimate
 * of the signal's mean square, from which plausible BatchNorm statistics follow.
 */
#ifndef HRF_ENGINE_MODEL_BUILDER_PRIVATE_H
#define HRF_ENGINE_MODEL_BUILDER_PRIVATE_H

#include "base/random.h"
#include "engine/ir/graph.h"

struct hrf_builder {
    struct hrf_graph *graph; /* borrowed */
    struct hrf_random random;
    enum hrf_status status;
    struct hrf_error *err;
    float epsilon; /* of BatchNorm */
};

struct hrf_layer {
    int32_t value;
    int64_t channels, rows, columns;
    double square; /* estimated mean square of an element */
};

/* Kernel, stride and pad along rows and columns; `pad` on both sides, `more_pad` at the end. */
struct hrf_conv_form {
    int64_t kernel[2], stride[2], pad[2], more_pad;
};
static inline struct hrf_conv_form hrf_square(int64_t kernel, int64_t stride, int64_t pad)
{
    return (struct hrf_conv_form){ { kernel, kernel }, { stride, stride }, { pad, pad }, 0 };
}

/* One node with one output of the same name; gives the output's index. */
int32_t hrf_build_node(struct hrf_builder *b, enum hrf_op op, const char *name,
                       const int32_t *inputs, int32_t n_inputs,
                       const struct hrf_attributes *attributes);
/* Constants "NAME.suffix": numbers uniform in [low, high), and integers. */
int32_t hrf_build_uniform(struct hrf_builder *b, const char *name, const char *suffix,
                          struct hrf_shape shape, double low, double high);
int32_t hrf_build_integers(struct hrf_builder *b, const char *name, const char *suffix,
                           const int64_t *numbers, int64_t n);
struct hrf_layer hrf_build_input(struct hrf_builder *b, int64_t channels, int64_t size);
struct hrf_layer hrf_build_conv(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                int64_t channels, struct hrf_conv_form form, bool bias);
/* Kernel and stride 2, bias: twice the rows and columns. */
struct hrf_layer hrf_build_up_conv(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                   int64_t channels);
struct hrf_layer hrf_build_batch_norm(struct hrf_builder *b, const char *name, struct hrf_layer x);
struct hrf_layer hrf_build_relu(struct hrf_builder *b, const char *name, struct hrf_layer x);
struct hrf_layer hrf_build_add(struct hrf_builder *b, const char *name, struct hrf_layer x,
                               struct hrf_layer y);
struct hrf_layer hrf_build_max_pool(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                    int64_t kernel, int64_t stride, int64_t pad, bool ceil_mode);
struct hrf_layer hrf_build_average_pool(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                        int64_t kernel, int64_t stride, int64_t pad,
                                        bool count_include_pad);
struct hrf_layer hrf_build_global_pool(struct hrf_builder *b, const char *name, struct hrf_layer x);
struct hrf_layer hrf_build_concat(struct hrf_builder *b, const char *name,
                                  const struct hrf_layer *parts, int32_t n_parts);
/* Without the first row and column. */
struct hrf_layer hrf_build_shift(struct hrf_builder *b, const char *name, struct hrf_layer x);
/* Linear attention of q, k, v with n_features random features. Source of their form: Choromanski et
 * al. (2020): orthogonal in blocks of a head's channels d, each sqrt(d) long. */
struct hrf_layer hrf_build_performer(struct hrf_builder *b, const char *name,
                                     const struct hrf_layer qkv[3], int64_t n_heads,
                                     int64_t n_features, bool exponential);
struct hrf_layer hrf_build_flatten(struct hrf_builder *b, const char *name, struct hrf_layer x);
/* `gain`: 2 before a ReLU (He), 1 otherwise. */
struct hrf_layer hrf_build_linear(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                  int64_t n_outputs, double gain);
struct hrf_layer hrf_build_softmax(struct hrf_builder *b, const char *name, struct hrf_layer x);
/* Names x "output" and makes it the graph's only one. */
enum hrf_status hrf_build_finish(struct hrf_builder *b, struct hrf_layer x);

/* The architectures: from the input layer to the last one before the output. */
struct hrf_architecture {
    const char *name;
    int64_t size; /* default, px */
    struct hrf_layer (*build)(struct hrf_builder *b, const struct hrf_architecture *which,
                              struct hrf_layer x, int64_t n_classes);
    /* resnet18 and the like: blocks of each stage, channels of the first; resnet: blocks, channels;
     * hires: n; vgg, alexnet: width, hidden; amoebanet-d: L, F; unet: levels, width; hct: 1 for the
     * softmax kernel; vit: layers, width */
    int depth[5];
    bool bottleneck;  /* resnet */
    int64_t multiple; /* the image size must be a multiple of this */
    int64_t least;    /* and at least this */
    /* NAME:A,B gives depth[0] and [1] other numbers: what they are, in words. NULL: it has none. */
    const char *parameters;
    /* Whether those make a network; sets `multiple` and `least` for them. */
    bool (*accept)(struct hrf_architecture *which);
};
bool hrf_accept_resnet(struct hrf_architecture *which);
struct hrf_layer hrf_build_resnet(struct hrf_builder *b, const struct hrf_architecture *which,
                                  struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_resnet_v2(struct hrf_builder *b, const struct hrf_architecture *which,
                                     struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_vgg19(struct hrf_builder *b, const struct hrf_architecture *which,
                                 struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_alexnet(struct hrf_builder *b, const struct hrf_architecture *which,
                                   struct hrf_layer x, int64_t n_classes);
bool hrf_accept_plain(struct hrf_architecture *which); /* of both */
struct hrf_layer hrf_build_googlenet(struct hrf_builder *b, const struct hrf_architecture *which,
                                     struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_inception_v3(struct hrf_builder *b, const struct hrf_architecture *which,
                                        struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_amoebanet_d(struct hrf_builder *b, const struct hrf_architecture *which,
                                       struct hrf_layer x, int64_t n_classes);
bool hrf_accept_amoebanet_d(struct hrf_architecture *which);
struct hrf_layer hrf_build_unet(struct hrf_builder *b, const struct hrf_architecture *which,
                                struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_hct(struct hrf_builder *b, const struct hrf_architecture *which,
                               struct hrf_layer x, int64_t n_classes);
struct hrf_layer hrf_build_vit(struct hrf_builder *b, const struct hrf_architecture *which,
                               struct hrf_layer x, int64_t n_classes);
bool hrf_accept_vit(struct hrf_architecture *which);
bool hrf_accept_unet(struct hrf_architecture *which);

#endif
