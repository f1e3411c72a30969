/* encoder.h - known encoders out of weights in timm's names: vision transformers (also in the names
 * of Hugging Face's transformers), ResNets, ConvNeXt and ConvNeXt V2.
 *
 * Widths, depths, patch sizes, registers, LayerScale, SwiGLU and biases follow from the tensors;
 * what does not (heads, the output that users take, preprocessing) stands in a table of encoders.
 * Every tensor of the file must have its place in the network, so that a file of another
 * architecture is refused instead of computed wrongly.
 */
#ifndef HRF_ENGINE_ENCODER_ENCODER_H
#define HRF_ENGINE_ENCODER_ENCODER_H

#include "engine/ir/graph.h"

enum hrf_encoder_family { HRF_ENCODER_VIT, HRF_ENCODER_RESNET, HRF_ENCODER_CONVNEXT };

enum hrf_encoder_pool {
    HRF_POOL_UNSET,  /* as the encoder's table row says */
    HRF_POOL_CLASS,  /* the class token */
    HRF_POOL_BOTH,   /* class token, then the mean of the patches' tokens */
    HRF_POOL_MEAN,   /* the mean of the patches' tokens, or of a CNN's last image */
    HRF_POOL_STAGE3, /* ResNet: the mean of the third stage's image (CLAM) */
    HRF_POOL_LOGITS, /* of the classifier that the weights bring */
    HRF_N_POOLS
};
/* "cls", "cls+mean", "mean", "stage3", "logits"; HRF_N_POOLS for another word. */
enum hrf_encoder_pool hrf_encoder_pool_find(const char *name);

struct hrf_encoder_options {
    int64_t size;    /* px; 0: the encoder's own */
    int64_t n_heads; /* 0: the encoder's own; of "vit", one for each 64 channels */
    enum hrf_encoder_pool pool;
};

/* What images have to be before the network reads them. */
struct hrf_encoder_input {
    int64_t size;              /* px: rows and columns of the input */
    int64_t resize;            /* px: the tile is resized to this, then cropped to `size` */
    const char *interpolation; /* "bilinear", "bicubic"; static */
    double mean[3], std[3];
};

bool hrf_encoder_is_known(const char *name);
/* The encoder `name` with the weights of the safetensors file at `weights`. HRF_E_USER: an unknown
 * name, a file that is damaged or of another network, or an option that the network cannot take. */
HRF_CHECKED enum hrf_status
hrf_encoder_make(const char *name, const char *weights, const struct hrf_encoder_options *options,
                 struct hrf_graph **out, struct hrf_encoder_input *input, struct hrf_error *err);
/* The value of the model's metadata entry that says so (schema/record/input_entry.h), and the um/px
 * of the images that it was trained on, 0: not known. Heap text. */
char *hrf_encoder_input_text(const struct hrf_encoder_input *input, double mpp);

#endif
