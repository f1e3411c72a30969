/* cnn.c - ResNets in timm's and torchvision's names, and timm's ConvNeXt and ConvNeXt V2. */
#include "engine/encoder/build_private.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAME = 96 };

/* Output channels of a convolution or matrix of the file; 0: it is not there. */
static int64_t outputs_of(struct hrf_encoder_build *b, const char *name)
{
    const struct hrf_safetensor *t = hrf_encoder_look(b, "%s.weight", name);
    return t != NULL && t->shape.rank >= 1 ? t->shape.dims[0] : 0;
}

static int32_t classify(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t width)
{
    const int64_t classes = outputs_of(b, name);
    if (b->status == HRF_OK && classes == 0)
        return hrf_encoder_refuse(b, "these weights bring no classifier");
    return hrf_encoder_linear(b, name, x, classes, width);
}

static int32_t pool(struct hrf_encoder_build *b, int32_t x, int64_t channels)
{
    x = hrf_encoder_unary(b, HRF_OP_GLOBAL_AVERAGE_POOL, x);
    return hrf_encoder_reshape(b, x, 2, (const int64_t[]){ -1, channels });
}

/* ---- ResNet ---- */

static int32_t batch_norm(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t n)
{
    static const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[5] = { x };
    char full[NAME + 16];
    a.epsilon = 1e-5f;
    for (int i = 0; i < 4; i++) {
        snprintf(full, sizeof full, "%s.%s", name, parts[i]);
        inputs[i + 1] = hrf_encoder_tensor(b, full, 1, &n);
    }
    return hrf_encoder_node(b, HRF_OP_BATCH_NORM, inputs, 5, &a);
}

/* A convolution "BLOCK.CONV" and its normalisation "BLOCK.NORM". */
static int32_t conv_norm(struct hrf_encoder_build *b, const char *block, const char *conv,
                         const char *norm, int32_t x, int64_t in, int64_t kernel, int64_t stride)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s%s", block, conv);
    const int64_t out = outputs_of(b, name);
    x = hrf_encoder_conv(b, name, x, in, out, kernel, stride, kernel / 2, 1);
    snprintf(name, sizeof name, "%s%s", block, norm);
    return batch_norm(b, name, x, out);
}

static int32_t residual_block(struct hrf_encoder_build *b, const char *block, int32_t x,
                              int64_t *channels, int64_t stride)
{
    char name[NAME];
    snprintf(name, sizeof name, "%sconv3", block);
    const bool is_bottleneck = outputs_of(b, name) > 0;
    snprintf(name, sizeof name, "%sconv1", block);
    const int64_t width = outputs_of(b, name), in = *channels;
    int32_t y = conv_norm(b, block, "conv1", "bn1", x, in, is_bottleneck ? 1 : 3,
                          is_bottleneck ? 1 : stride);
    y = hrf_encoder_unary(b, HRF_OP_RELU, y);
    y = conv_norm(b, block, "conv2", "bn2", y, width, 3, is_bottleneck ? stride : 1);
    snprintf(name, sizeof name, "%sconv%d", block, is_bottleneck ? 3 : 2);
    *channels = outputs_of(b, name);
    if (is_bottleneck)
        y = conv_norm(b, block, "conv3", "bn3", hrf_encoder_unary(b, HRF_OP_RELU, y), width, 1, 1);
    if (hrf_encoder_look(b, "%sdownsample.0.weight", block) != NULL)
        x = conv_norm(b, block, "downsample.0", "downsample.1", x, in, 1, stride);
    return hrf_encoder_unary(b, HRF_OP_RELU, hrf_encoder_binary(b, HRF_OP_ADD, y, x));
}

static int32_t stem(struct hrf_encoder_build *b, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    x = hrf_encoder_unary(b, HRF_OP_RELU, conv_norm(b, "", "conv1", "bn1", x, 3, 7, 2));
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        a.window.kernel[i] = 3;
        a.window.stride[i] = 2;
        a.window.pad_begin[i] = a.window.pad_end[i] = 1;
    }
    return hrf_encoder_node(b, HRF_OP_MAX_POOL, &x, 1, &a);
}

enum { N_STAGES = 4 };

/* That the weights are of the network that the name stands for, in all stages that are computed:
 * a deeper one has other features. The ResNets with names of their own have 50 layers. */
static void check_named(struct hrf_encoder_build *b, int n_stages)
{
    static const int64_t wanted[N_STAGES] = { 3, 4, 6, 3 };
    const struct hrf_encoder_network *named = b->named;
    const int64_t width = outputs_of(b, "layer1.0.conv1");
    const bool has_three = hrf_encoder_look(b, "layer1.0.conv3.weight") != NULL;
    bool is_named = width == named->width && has_three;
    int64_t found[N_STAGES] = { 0 };
    for (int i = 0; i < n_stages; i++) {
        while (hrf_encoder_look(b, "layer%d.%" PRId64 ".conv1.weight", i + 1, found[i]) != NULL)
            found[i]++;
        is_named = is_named && found[i] == wanted[i];
    }
    if (b->status != HRF_OK || named->width == 0 || is_named)
        return;
    (void)hrf_encoder_fail(
        b, hrf_error_set(b->err, HRF_E_USER,
                         "%s: stages of %" PRId64 ", %" PRId64 ", %" PRId64 " and %" PRId64
                         " blocks of %s convolutions from %" PRId64
                         " channels on, where %s, of %" PRId64 " layers, has %" PRId64 ", %" PRId64
                         ", %" PRId64 " and %" PRId64 " of three from %" PRId64
                         " on: take the encoder's own weights, or 'resnet' with --pool",
                         b->file->path, found[0], found[1], found[2], found[3],
                         has_three ? "three" : "two", width, b->graph->name, named->depth,
                         wanted[0], wanted[1], wanted[2], wanted[3], named->width));
}

int32_t hrf_encoder_resnet(struct hrf_encoder_build *b, int32_t x)
{
    const enum hrf_encoder_pool which = b->wanted->pool;
    const int n_stages = which == HRF_POOL_STAGE3 ? 3 : N_STAGES;
    int64_t channels = outputs_of(b, "conv1");
    if (b->status == HRF_OK && channels == 0)
        return hrf_encoder_refuse(
            b, "it has no 'conv1.weight': these are not the weights of a ResNet in "
               "timm's names");
    if (which == HRF_POOL_CLASS || which == HRF_POOL_BOTH)
        return hrf_encoder_refuse(
            b, "ResNets have no class token: take --pool mean, stage3 or logits");
    check_named(b, n_stages);
    x = stem(b, x);
    for (int stage = 1; stage <= n_stages; stage++)
        for (int i = 0; hrf_encoder_look(b, "layer%d.%d.conv1.weight", stage, i) != NULL; i++) {
            char block[32];
            snprintf(block, sizeof block, "layer%d.%d.", stage, i);
            x = residual_block(b, block, x, &channels, stage > 1 && i == 0 ? 2 : 1);
        }
    x = pool(b, x, channels);
    return which == HRF_POOL_LOGITS ? classify(b, "fc", x, channels) : x;
}

/* ---- ConvNeXt ---- */

static int32_t channels_last(struct hrf_encoder_build *b, int32_t x)
{
    return hrf_encoder_transpose(b, x, 4, (const int64_t[]){ 0, 2, 3, 1 });
}

static int32_t channels_first(struct hrf_encoder_build *b, int32_t x)
{
    return hrf_encoder_transpose(b, x, 4, (const int64_t[]){ 0, 3, 1, 2 });
}

/* LayerNorm over the channels of an image. */
static int32_t image_norm(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t n)
{
    return channels_first(b, hrf_encoder_layer_norm(b, name, channels_last(b, x), 3, n, 1e-6f));
}

/* ConvNeXt V2's global response normalisation of [N][H][W][C]: x * (1 + weight * g / (mean of g
 * over the channels + 1e-6)) + bias, with g the length of each channel over rows and columns. */
static int32_t response_norm(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t n)
{
    const float small = 1e-6f;
    const int64_t one = 1;
    struct hrf_attributes a = hrf_attributes_default();
    char full[NAME + 16];
    a.keep_dims = true;
    a.n_axes = 2;
    a.axes[0] = 1;
    a.axes[1] = 2;
    const int32_t g = hrf_encoder_node(b, HRF_OP_REDUCE_L2, &x, 1, &a);
    a.n_axes = 1;
    a.axes[0] = 3;
    int32_t mean = hrf_encoder_node(b, HRF_OP_REDUCE_MEAN, &g, 1, &a);
    mean = hrf_encoder_binary(b, HRF_OP_ADD, mean,
                              hrf_encoder_constant(b, HRF_F32, 1, &one, &small));
    int32_t y = hrf_encoder_binary(b, HRF_OP_MUL, x, hrf_encoder_binary(b, HRF_OP_DIV, g, mean));
    snprintf(full, sizeof full, "%s.weight", name);
    y = hrf_encoder_binary(b, HRF_OP_MUL, y, hrf_encoder_tensor(b, full, 1, &n));
    snprintf(full, sizeof full, "%s.bias", name);
    y = hrf_encoder_binary(b, HRF_OP_ADD, y, hrf_encoder_tensor(b, full, 1, &n));
    return hrf_encoder_binary(b, HRF_OP_ADD, x, y);
}

static int32_t next_block(struct hrf_encoder_build *b, const char *block, int32_t x, int64_t n)
{
    char name[NAME];
    snprintf(name, sizeof name, "%sconv_dw", block);
    const struct hrf_safetensor *deep = hrf_encoder_look(b, "%s.weight", name);
    const int64_t kernel = deep != NULL && deep->shape.rank == 4 ? deep->shape.dims[2] : 7;
    int32_t y = hrf_encoder_conv(b, name, x, n, n, kernel, 1, kernel / 2, n);
    snprintf(name, sizeof name, "%snorm", block);
    y = hrf_encoder_layer_norm(b, name, channels_last(b, y), 3, n, 1e-6f);
    snprintf(name, sizeof name, "%smlp.fc1", block);
    const int64_t hidden = outputs_of(b, name);
    y = hrf_encoder_unary(b, HRF_OP_GELU, hrf_encoder_linear(b, name, y, hidden, n));
    snprintf(name, sizeof name, "%smlp.grn", block);
    if (hrf_encoder_look(b, "%s.weight", name) != NULL)
        y = response_norm(b, name, y, hidden);
    snprintf(name, sizeof name, "%smlp.fc2", block);
    y = hrf_encoder_linear(b, name, y, n, hidden);
    snprintf(name, sizeof name, "%sgamma", block);
    if (hrf_encoder_look(b, "%s", name) != NULL)
        y = hrf_encoder_binary(b, HRF_OP_MUL, y, hrf_encoder_tensor(b, name, 1, &n));
    return hrf_encoder_binary(b, HRF_OP_ADD, x, channels_first(b, y));
}

static int32_t next_stage(struct hrf_encoder_build *b, int stage, int32_t x, int64_t *channels)
{
    char name[NAME];
    snprintf(name, sizeof name, "stages.%d.downsample.0", stage);
    if (hrf_encoder_look(b, "%s.weight", name) != NULL)
        x = image_norm(b, name, x, *channels);
    snprintf(name, sizeof name, "stages.%d.downsample.1", stage);
    const int64_t out = outputs_of(b, name);
    if (out > 0) {
        x = hrf_encoder_conv(b, name, x, *channels, out, 2, 2, 0, 1);
        *channels = out;
    }
    for (int i = 0; hrf_encoder_look(b, "stages.%d.blocks.%d.conv_dw.weight", stage, i) != NULL;
         i++) {
        char block[48];
        snprintf(block, sizeof block, "stages.%d.blocks.%d.", stage, i);
        x = next_block(b, block, x, *channels);
    }
    return x;
}

int32_t hrf_encoder_convnext(struct hrf_encoder_build *b, int32_t x)
{
    const enum hrf_encoder_pool which = b->wanted->pool;
    int64_t channels = outputs_of(b, "stem.0");
    const struct hrf_safetensor *first = hrf_encoder_look(b, "stem.0.weight");
    if (b->status == HRF_OK && (first == NULL || first->shape.rank != 4))
        return hrf_encoder_refuse(
            b, "it has no 'stem.0.weight': these are not the weights of a ConvNeXt in "
               "timm's names");
    if (which != HRF_POOL_MEAN && which != HRF_POOL_LOGITS)
        return hrf_encoder_refuse(
            b, "ConvNeXts have no class token and no third stage: take --pool mean or "
               "logits");
    const int64_t patch = first != NULL ? first->shape.dims[2] : 0;
    x = hrf_encoder_conv(b, "stem.0", x, 3, channels, patch, patch, 0, 1);
    x = image_norm(b, "stem.1", x, channels);
    for (int stage = 0; hrf_encoder_look(b, "stages.%d.blocks.0.norm.weight", stage) != NULL;
         stage++)
        x = next_stage(b, stage, x, &channels);
    x = pool(b, x, channels);
    if (hrf_encoder_look(b, "head.norm.weight") != NULL)
        x = hrf_encoder_layer_norm(b, "head.norm", x, 1, channels, 1e-6f);
    return which == HRF_POOL_LOGITS ? classify(b, "head.fc", x, channels) : x;
}
