/* HCT, the hybrid of convolutions and linear attention. Source: the graph of Cheng et al., "HCT:
 * hybrid convnet-transformer for histopathology" (2022), as its authors' code builds it: a
 * pre-activation residual net whose last two stages put attention over all pixels into each block;
 * total stride 128. The random features are weights: every run has the same. */
#include "engine/model/builder_private.h"

#include <math.h>
#include <stdio.h>

enum { NAME_BYTES = 64, N_HEADS = 8 };

static struct hrf_layer norm_relu(struct hrf_builder *b, const char *block, int i,
                                  struct hrf_layer x)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.bn%d", block, i);
    x = hrf_build_batch_norm(b, name, x);
    snprintf(name, sizeof name, "%s.relu%d", block, i);
    return hrf_build_relu(b, name, x);
}

static struct hrf_layer conv(struct hrf_builder *b, const char *block, const char *what,
                             struct hrf_layer x, int64_t channels, int64_t kernel, int64_t stride)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", block, what);
    return hrf_build_conv(b, name, x, channels, hrf_square(kernel, stride, kernel / 2), false);
}

static struct hrf_layer linear(struct hrf_builder *b, const char *block, const char *what,
                               struct hrf_layer x)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", block, what);
    return hrf_build_conv(b, name, x, x.channels, hrf_square(1, 1, 0), true);
}

static struct hrf_layer hct_add(struct hrf_builder *b, const char *block, const char *what,
                                struct hrf_layer x, struct hrf_layer y)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", block, what);
    return hrf_build_add(b, name, x, y);
}

/* Two 3x3 convolutions. */
static struct hrf_layer basic_block(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                    int64_t channels, int64_t stride, bool first)
{
    struct hrf_layer a = norm_relu(b, name, 1, x);
    struct hrf_layer skip = first ? conv(b, name, "skip", a, channels, 1, stride) : x;
    struct hrf_layer y = conv(b, name, "conv1", a, channels, 3, stride);
    y = conv(b, name, "conv2", norm_relu(b, name, 2, y), channels, 3, 1);
    return hct_add(b, name, "add", y, skip);
}

static struct hrf_layer attention(struct hrf_builder *b, const char *block, struct hrf_layer x,
                                  bool exponential)
{
    char name[NAME_BYTES];
    const double d = (double)(x.channels / N_HEADS);
    struct hrf_layer parts[] = { linear(b, block, "q", x), linear(b, block, "k", x),
                                 linear(b, block, "v", x) };
    snprintf(name, sizeof name, "%s.attention", block);
    x = hrf_build_performer(b, name, parts, N_HEADS, (int64_t)floor(d * log(d)), exponential);
    return linear(b, block, "out", x);
}

/* Attention, then one 3x3 convolution. */
static struct hrf_layer attention_block(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                        int64_t channels, int64_t stride, bool first,
                                        bool exponential)
{
    struct hrf_layer a = norm_relu(b, name, 1, x);
    struct hrf_layer skip = first ? conv(b, name, "skip", a, channels, 1, stride) : x;
    struct hrf_layer y = hct_add(b, name, "sum", attention(b, name, a, exponential), x);
    y = conv(b, name, "conv", norm_relu(b, name, 2, y), channels, 3, stride);
    return hct_add(b, name, "add", y, skip);
}

struct hrf_layer hrf_build_hct(struct hrf_builder *b, const struct hrf_architecture *which,
                               struct hrf_layer x, int64_t n_classes)
{
    const bool exponential = which->depth[0] != 0;
    x = hrf_build_conv(b, "stem", x, 16, hrf_square(7, 2, 3), false);
    x = hrf_build_max_pool(b, "maxpool", x, 3, 2, 0, false);
    for (int stage = 1; stage <= 5; stage++)
        for (int i = 0; i < 2; i++) {
            char name[NAME_BYTES / 2];
            const int64_t channels = 8 << stage, stride = i == 0 ? 2 : 1;
            snprintf(name, sizeof name, "stage%d.%d", stage, i);
            x = stage <= 3 ? basic_block(b, name, x, channels, stride, i == 0)
                           : attention_block(b, name, x, channels, stride, i == 0, exponential);
        }
    x = hrf_build_global_pool(b, "avgpool", norm_relu(b, "head", 1, x));
    return hrf_build_linear(b, "fc", hrf_build_flatten(b, "flatten", x), n_classes, 1);
}
