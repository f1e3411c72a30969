/* U-Net. Source: Ronneberger et al., "U-Net" (2015), in the form in use today: padded
 * convolutions with BatchNorm, so that the map is as large as the image, and transposed
 * convolutions on the way up. Ends in a logit for each class and pixel. */
#include "engine/model/builder_private.h"

#include <stdio.h>

enum { NAME_BYTES = 64, MAX_LEVELS = 8 };

static struct hrf_layer conv_bn_relu(struct hrf_builder *b, const char *owner, int i,
                                     struct hrf_layer x, int64_t channels)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.conv%d", owner, i);
    x = hrf_build_conv(b, name, x, channels, hrf_square(3, 1, 1), false);
    snprintf(name, sizeof name, "%s.bn%d", owner, i);
    x = hrf_build_batch_norm(b, name, x);
    snprintf(name, sizeof name, "%s.relu%d", owner, i);
    return hrf_build_relu(b, name, x);
}

static struct hrf_layer level(struct hrf_builder *b, const char *kind, int i, struct hrf_layer x,
                              int64_t channels)
{
    char owner[NAME_BYTES / 2];
    snprintf(owner, sizeof owner, "%s%d", kind, i);
    return conv_bn_relu(b, owner, 2, conv_bn_relu(b, owner, 1, x, channels), channels);
}

bool hrf_accept_unet(struct hrf_architecture *which)
{
    const int levels = which->depth[0], width = which->depth[1];
    if (levels < 2 || levels > MAX_LEVELS || width < 1 || width > 1024)
        return false;
    which->multiple = which->least = (int64_t)1 << (levels - 1);
    return true;
}

struct hrf_layer hrf_build_unet(struct hrf_builder *b, const struct hrf_architecture *which,
                                struct hrf_layer x, int64_t n_classes)
{
    const int levels = which->depth[0];
    const int64_t width = which->depth[1];
    struct hrf_layer skips[MAX_LEVELS];
    char name[NAME_BYTES];
    for (int i = 0; i < levels; i++) {
        snprintf(name, sizeof name, "pool%d", i);
        if (i > 0)
            x = hrf_build_max_pool(b, name, x, 2, 2, 0, false);
        x = skips[i] = level(b, "down", i, x, width << i);
    }
    for (int i = levels - 2; i >= 0; i--) {
        snprintf(name, sizeof name, "up%d.up", i);
        struct hrf_layer sides[2] = { skips[i], hrf_build_up_conv(b, name, x, width << i) };
        snprintf(name, sizeof name, "up%d.concat", i);
        x = level(b, "up", i, hrf_build_concat(b, name, sides, 2), width << i);
    }
    return hrf_build_conv(b, "head", x, n_classes, hrf_square(1, 1, 0), true);
}
