/* model.h - built-in architectures as graphs, and what a graph costs.
 *
 * Weights are random but seeded and plausible: uniform He initialisation, and BatchNorm statistics
 * that fit the signal's estimated size, so that activations stay of order one through any depth and
 * folding BatchNorm changes every number. Same name, size, classes and seed: same bytes on
 * every machine. Stateless: any thread.
 *
 * resnet18 34 50 101 152, vgg19, alexnet, googlenet, inception-v3: as torchvision 0.14 defines
 * them (inference form, without auxiliary heads), ending in logits.
 *
 * resnet:BLOCKS,WIDTH (2,64 unless given: resnet18): the same with BLOCKS basic blocks in each of
 * its four stages and WIDTH channels in the first; for data that are small, or a laptop.
 *
 * resnet-v2-101-hires and -110-hires: the network of the Infer-HiRes paper's measurements, a
 * pre-activation net of depth 9n + 2 (n = 11, 12) whose total stride is 4. It ends in an 8 x 8
 * mean, a flattening and one fully connected layer, so that layer's size grows with the image
 * (256 * (size / 32)^2 inputs) and the model works at one image size only, as in the paper;
 * softmax included.
 *
 * amoebanet-d:L,F (18,416 unless given): AmoebaNet-D of L normal cells and F filters, as published;
 * amoebanet.c says where other code departs from that. Logits.
 *
 * unet:LEVELS,WIDTH (5,64 unless given): U-Net with padded convolutions, BatchNorm and transposed
 * convolutions; a logit for each class and pixel. Images in multiples of 2^(LEVELS-1) px.
 *
 * hct, hct-softmax: HCT with linear attention (Performer) in its last two stages, by the
 * generalised ReLU kernel (its authors' choice) or the softmax kernel. Any image size. Logits.
 *
 * vit:LAYERS,WIDTH (24,1024 unless given: ViT-L/16): timm's vision transformer with patches of 16
 * px, heads of 64 channels and a class token. Images in multiples of 16 px. Logits.
 */
#ifndef HRF_ENGINE_MODEL_MODEL_H
#define HRF_ENGINE_MODEL_MODEL_H

#include "engine/ir/graph.h"

#include <stdio.h>

/* Names that hrf_model_make() knows, NULL at the end. */
const char *const *hrf_model_names(void);
/* Whether `name`, up to its parameters, is one of them. */
bool hrf_model_is_built_in(const char *name);

/* Input "input" of [batch open, 3, size, size] float32, output "output" of [batch, n_classes].
 * `size` in px, 0 = the architecture's own (224, 299 for inception-v3, 256 for the hires nets).
 * HRF_E_USER: unknown name (the nearest is named) or a size the architecture cannot have. */
HRF_CHECKED enum hrf_status hrf_model_make(const char *name, int64_t n_classes, int64_t size,
                                           uint64_t seed, struct hrf_graph **out,
                                           struct hrf_error *err);

/* What one node is and costs, with the shapes the graph has now. */
struct hrf_model_layer {
    const char *name; /* borrowed from the graph */
    enum hrf_op op;
    struct hrf_shape shape;   /* of its output */
    int64_t n_parameters;     /* elements of constants that no earlier layer uses */
    double operations;        /* 2 x multiply-adds */
    int64_t activation_bytes; /* of its output */
};
struct hrf_model_summary {
    struct hrf_model_layer *layers;
    int32_t n_layers;
    int64_t n_parameters;
    double operations;           /* whole batch */
    double gop_per_image;        /* operations / batch / 1e9 */
    int64_t activation_bytes;    /* sum over layers: what keeping everything would take */
    int64_t largest_layer_bytes; /* the largest single output */
    int64_t weight_bytes;
    int64_t batch;
};
/* Needs inferred shapes (hrf_graph_infer_shapes). The summary borrows from the graph. */
HRF_CHECKED enum hrf_status hrf_model_inspect(const struct hrf_graph *graph,
                                              struct hrf_model_summary *out, struct hrf_error *err);
void hrf_model_summary_release(struct hrf_model_summary *summary);

/* The summary of `graph` as a table or as JSON on `out`. Shapes are inferred on a copy; open
 * input dims are taken as batch 1 and 224 px, and the text says so. */
HRF_CHECKED enum hrf_status hrf_model_inspect_print(const struct hrf_graph *graph, bool json,
                                                    FILE *out, struct hrf_error *err);

#endif
