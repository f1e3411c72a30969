/* Residual networks: torchvision's, and the pre-activation net of the Infer-HiRes paper.
 * Sources: He et al., "Deep residual learning" (2015) in torchvision's form (the stride in the
 * 3x3 of a bottleneck); He et al., "Identity mappings" (2016) in the paper's form: two 3x3 and
 * one 1x1 in a block, every convolution with a bias, no ReLU after the addition. */
#include "engine/model/builder_private.h"

#include <stdio.h>

enum { NAME_BYTES = 96 };

static struct hrf_layer conv_bn(struct hrf_builder *b, const char *block, const char *what,
                                struct hrf_layer x, int64_t channels, struct hrf_conv_form form)
{
    char conv[NAME_BYTES], bn[NAME_BYTES];
    snprintf(conv, sizeof conv, "%s.conv%s", block, what);
    snprintf(bn, sizeof bn, "%s.bn%s", block, what);
    return hrf_build_batch_norm(b, bn, hrf_build_conv(b, conv, x, channels, form, false));
}

static struct hrf_layer relu(struct hrf_builder *b, const char *block, const char *what,
                             struct hrf_layer x)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.relu%s", block, what);
    return hrf_build_relu(b, name, x);
}

static struct hrf_layer block_v1(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                 int64_t width, int64_t stride, bool bottleneck)
{
    int64_t channels = bottleneck ? 4 * width : width;
    char add[NAME_BYTES], conv[NAME_BYTES], bn[NAME_BYTES];
    struct hrf_layer y, skip = x;
    if (bottleneck) {
        y = relu(b, name, "1", conv_bn(b, name, "1", x, width, hrf_square(1, 1, 0)));
        y = relu(b, name, "2", conv_bn(b, name, "2", y, width, hrf_square(3, stride, 1)));
        y = conv_bn(b, name, "3", y, channels, hrf_square(1, 1, 0));
    } else {
        y = relu(b, name, "1", conv_bn(b, name, "1", x, width, hrf_square(3, stride, 1)));
        y = conv_bn(b, name, "2", y, channels, hrf_square(3, 1, 1));
    }
    if (stride != 1 || x.channels != channels) {
        snprintf(conv, sizeof conv, "%s.downsample.0", name);
        snprintf(bn, sizeof bn, "%s.downsample.1", name);
        skip = hrf_build_conv(b, conv, x, channels, hrf_square(1, stride, 0), false);
        skip = hrf_build_batch_norm(b, bn, skip);
    }
    snprintf(add, sizeof add, "%s.add", name);
    return relu(b, name, "", hrf_build_add(b, add, y, skip));
}

bool hrf_accept_resnet(struct hrf_architecture *which)
{
    const int blocks = which->depth[0], channels = which->depth[1];
    for (int stage = 0; stage < 4; stage++)
        which->depth[stage] = blocks;
    which->depth[4] = channels;
    return blocks >= 1 && blocks <= 64 && channels >= 1 && channels <= 1024;
}

struct hrf_layer hrf_build_resnet(struct hrf_builder *b, const struct hrf_architecture *which,
                                  struct hrf_layer x, int64_t n_classes)
{
    x = hrf_build_conv(b, "conv1", x, which->depth[4], hrf_square(7, 2, 3), false);
    x = hrf_build_relu(b, "relu", hrf_build_batch_norm(b, "bn1", x));
    x = hrf_build_max_pool(b, "maxpool", x, 3, 2, 1, false);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < which->depth[stage]; i++) {
            char name[NAME_BYTES / 2];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            x = block_v1(b, name, x, (int64_t)which->depth[4] << stage, stage > 0 && i == 0 ? 2 : 1,
                         which->bottleneck);
        }
    x = hrf_build_flatten(b, "flatten", hrf_build_global_pool(b, "avgpool", x));
    return hrf_build_linear(b, "fc", x, n_classes, 1);
}

static struct hrf_layer bn_relu(struct hrf_builder *b, const char *block, const char *what,
                                struct hrf_layer x)
{
    char bn[NAME_BYTES];
    snprintf(bn, sizeof bn, "%s.bn%s", block, what);
    return relu(b, block, what, hrf_build_batch_norm(b, bn, x));
}

static struct hrf_layer block_v2(struct hrf_builder *b, int stage, int i, struct hrf_layer x,
                                 int64_t width, int64_t channels)
{
    int64_t stride = stage > 0 && i == 0 ? 2 : 1;
    char block[NAME_BYTES / 2], name[NAME_BYTES];
    snprintf(block, sizeof block, "stage%d.%d", stage + 1, i);
    struct hrf_layer skip = x, y = x;
    if (stage > 0 || i > 0)
        y = bn_relu(b, block, "1", y);
    snprintf(name, sizeof name, "%s.conv1", block);
    y = hrf_build_conv(b, name, y, width, hrf_square(3, stride, 1), true);
    snprintf(name, sizeof name, "%s.conv2", block);
    y = hrf_build_conv(b, name, bn_relu(b, block, "2", y), width, hrf_square(3, 1, 1), true);
    snprintf(name, sizeof name, "%s.conv3", block);
    y = hrf_build_conv(b, name, bn_relu(b, block, "3", y), channels, hrf_square(1, 1, 0), true);
    if (i == 0) {
        snprintf(name, sizeof name, "%s.projection", block);
        skip = hrf_build_conv(b, name, x, channels, hrf_square(1, stride, 0), true);
    }
    snprintf(name, sizeof name, "%s.add", block);
    return hrf_build_add(b, name, y, skip);
}

struct hrf_layer hrf_build_resnet_v2(struct hrf_builder *b, const struct hrf_architecture *which,
                                     struct hrf_layer x, int64_t n_classes)
{
    static const int64_t widths[] = { 16, 64, 128 }, channels[] = { 64, 128, 256 };
    b->epsilon = 1e-5f;
    x = hrf_build_conv(b, "conv1", x, 16, hrf_square(3, 1, 1), true);
    x = hrf_build_relu(b, "relu1", hrf_build_batch_norm(b, "bn1", x));
    for (int stage = 0; stage < 3; stage++)
        for (int i = 0; i < which->depth[0]; i++)
            x = block_v2(b, stage, i, x, widths[stage], channels[stage]);
    x = hrf_build_relu(b, "relu2", hrf_build_batch_norm(b, "bn2", x));
    x = hrf_build_average_pool(b, "avgpool", x, 8, 8, 0, false);
    x = hrf_build_linear(b, "fc", hrf_build_flatten(b, "flatten", x), n_classes, 1);
    return hrf_build_softmax(b, "softmax", x);
}
