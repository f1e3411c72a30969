/* Networks without shortcuts: VGG-19, AlexNet, GoogLeNet, Inception-v3, as torchvision 0.14
 * defines them. Sources: Simonyan, Zisserman (2014); Krizhevsky (2014); Szegedy et al. (2014,
 * 2015). torchvision's GoogLeNet has 3x3 where the paper has 5x5. */
#include "engine/model/builder_private.h"

#include <stdio.h>

enum { NAME_BYTES = 96 };

/* torchvision's adaptive mean to `size` x `size`, exact when the input is a multiple of it. */
static struct hrf_layer adaptive_pool(struct hrf_builder *b, struct hrf_layer x, int64_t size)
{
    int64_t kernel = x.rows / size;
    if (kernel == 1)
        return x;
    return hrf_build_average_pool(b, "avgpool", x, kernel, kernel, 0, false);
}

bool hrf_accept_plain(struct hrf_architecture *which)
{
    const int width = which->depth[0], hidden = which->depth[1];
    return width >= 1 && width <= 1024 && hidden >= 1 && hidden <= 65536;
}

static struct hrf_layer classifier(struct hrf_builder *b, struct hrf_layer x, int64_t n_hidden,
                                   int64_t n_classes)
{
    x = hrf_build_flatten(b, "flatten", x);
    x = hrf_build_relu(b, "relu_fc1", hrf_build_linear(b, "fc1", x, n_hidden, 2));
    x = hrf_build_relu(b, "relu_fc2", hrf_build_linear(b, "fc2", x, n_hidden, 2));
    return hrf_build_linear(b, "fc3", x, n_classes, 1);
}

struct hrf_layer hrf_build_vgg19(struct hrf_builder *b, const struct hrf_architecture *which,
                                 struct hrf_layer x, int64_t n_classes)
{
    static const struct {
        int n;
        int64_t widths;
    } groups[] = { { 2, 1 }, { 2, 2 }, { 4, 4 }, { 4, 8 }, { 4, 8 } };
    char name[NAME_BYTES];
    for (int g = 0; g < 5; g++) {
        for (int i = 0; i < groups[g].n; i++) {
            snprintf(name, sizeof name, "conv%d_%d", g + 1, i + 1);
            x = hrf_build_conv(b, name, x, groups[g].widths * which->depth[0], hrf_square(3, 1, 1),
                               true);
            snprintf(name, sizeof name, "relu%d_%d", g + 1, i + 1);
            x = hrf_build_relu(b, name, x);
        }
        snprintf(name, sizeof name, "pool%d", g + 1);
        x = hrf_build_max_pool(b, name, x, 2, 2, 0, false);
    }
    return classifier(b, adaptive_pool(b, x, 7), which->depth[1], n_classes);
}

struct hrf_layer hrf_build_alexnet(struct hrf_builder *b, const struct hrf_architecture *which,
                                   struct hrf_layer x, int64_t n_classes)
{
    const int64_t width = which->depth[0];
    x = hrf_build_conv(b, "conv1", x, width, hrf_square(11, 4, 2), true);
    x = hrf_build_max_pool(b, "pool1", hrf_build_relu(b, "relu1", x), 3, 2, 0, false);
    x = hrf_build_conv(b, "conv2", x, 3 * width, hrf_square(5, 1, 2), true);
    x = hrf_build_max_pool(b, "pool2", hrf_build_relu(b, "relu2", x), 3, 2, 0, false);
    x = hrf_build_conv(b, "conv3", x, 6 * width, hrf_square(3, 1, 1), true);
    x = hrf_build_conv(b, "conv4", hrf_build_relu(b, "relu3", x), 4 * width, hrf_square(3, 1, 1),
                       true);
    x = hrf_build_conv(b, "conv5", hrf_build_relu(b, "relu4", x), 4 * width, hrf_square(3, 1, 1),
                       true);
    x = hrf_build_max_pool(b, "pool5", hrf_build_relu(b, "relu5", x), 3, 2, 0, false);
    if (x.rows % 6 != 0 && b->status == HRF_OK)
        b->status = hrf_error_set(b->err, HRF_E_USER,
                                  "alexnet's last map must be a multiple of 6 rows, not %lld: "
                                  "take 224 px",
                                  (long long)x.rows);
    if (b->status != HRF_OK) /* there may be no window to pool with */
        return x;
    return classifier(b, adaptive_pool(b, x, 6), which->depth[1], n_classes);
}

/* Convolution, BatchNorm, ReLU under one name. */
static struct hrf_layer unit(struct hrf_builder *b, const char *block, const char *what,
                             struct hrf_layer x, int64_t channels, struct hrf_conv_form form)
{
    char name[NAME_BYTES];
    const char *dot = block[0] != '\0' ? "." : "";
    snprintf(name, sizeof name, "%s%s%s.conv", block, dot, what);
    x = hrf_build_conv(b, name, x, channels, form, false);
    snprintf(name, sizeof name, "%s%s%s.bn", block, dot, what);
    x = hrf_build_batch_norm(b, name, x);
    snprintf(name, sizeof name, "%s%s%s.relu", block, dot, what);
    return hrf_build_relu(b, name, x);
}

static struct hrf_layer plain_networks_join(struct hrf_builder *b, const char *block,
                                            const char *what, const struct hrf_layer *parts,
                                            int32_t n_parts)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", block, what);
    return hrf_build_concat(b, name, parts, n_parts);
}

struct inception_v1 {
    const char *name;
    int64_t c1, c3_reduce, c3, c5_reduce, c5, pool;
};

static struct hrf_layer build_inception_v1(struct hrf_builder *b, const struct inception_v1 *m,
                                           struct hrf_layer x)
{
    char pool[NAME_BYTES];
    struct hrf_layer part[4];
    snprintf(pool, sizeof pool, "%s.pool", m->name);
    part[0] = unit(b, m->name, "branch1", x, m->c1, hrf_square(1, 1, 0));
    part[1] = unit(b, m->name, "branch2.0", x, m->c3_reduce, hrf_square(1, 1, 0));
    part[1] = unit(b, m->name, "branch2.1", part[1], m->c3, hrf_square(3, 1, 1));
    part[2] = unit(b, m->name, "branch3.0", x, m->c5_reduce, hrf_square(1, 1, 0));
    part[2] = unit(b, m->name, "branch3.1", part[2], m->c5, hrf_square(3, 1, 1));
    part[3] = hrf_build_max_pool(b, pool, x, 3, 1, 1, true);
    part[3] = unit(b, m->name, "branch4.1", part[3], m->pool, hrf_square(1, 1, 0));
    return plain_networks_join(b, m->name, "cat", part, 4);
}

struct hrf_layer hrf_build_googlenet(struct hrf_builder *b, const struct hrf_architecture *which,
                                     struct hrf_layer x, int64_t n_classes)
{
    static const struct inception_v1 modules[] = {
        { "inception3a", 64, 96, 128, 16, 32, 32 },
        { "inception3b", 128, 128, 192, 32, 96, 64 },
        { "inception4a", 192, 96, 208, 16, 48, 64 },
        { "inception4b", 160, 112, 224, 24, 64, 64 },
        { "inception4c", 128, 128, 256, 24, 64, 64 },
        { "inception4d", 112, 144, 288, 32, 64, 64 },
        { "inception4e", 256, 160, 320, 32, 128, 128 },
        { "inception5a", 256, 160, 320, 32, 128, 128 },
        { "inception5b", 384, 192, 384, 48, 128, 128 },
    };
    (void)which;
    b->epsilon = 1e-3f;
    x = unit(b, "", "conv1", x, 64, hrf_square(7, 2, 3));
    x = hrf_build_max_pool(b, "maxpool1", x, 3, 2, 0, true);
    x = unit(b, "", "conv2", x, 64, hrf_square(1, 1, 0));
    x = unit(b, "", "conv3", x, 192, hrf_square(3, 1, 1));
    x = hrf_build_max_pool(b, "maxpool2", x, 3, 2, 0, true);
    for (int i = 0; i < 9; i++) {
        x = build_inception_v1(b, &modules[i], x);
        if (i == 1)
            x = hrf_build_max_pool(b, "maxpool3", x, 3, 2, 0, true);
        if (i == 6)
            x = hrf_build_max_pool(b, "maxpool4", x, 2, 2, 0, true);
    }
    x = hrf_build_flatten(b, "flatten", hrf_build_global_pool(b, "avgpool", x));
    return hrf_build_linear(b, "fc", x, n_classes, 1);
}

static struct hrf_conv_form oblong(int64_t rows, int64_t columns)
{
    return (struct hrf_conv_form){ { rows, columns }, { 1, 1 }, { rows / 2, columns / 2 }, 0 };
}

static struct hrf_layer pool_branch(struct hrf_builder *b, const char *block, struct hrf_layer x,
                                    int64_t channels)
{
    char pool[NAME_BYTES];
    snprintf(pool, sizeof pool, "%s.pool", block);
    x = hrf_build_average_pool(b, pool, x, 3, 1, 1, true);
    return unit(b, block, "branch_pool", x, channels, hrf_square(1, 1, 0));
}

static struct hrf_layer inception_a(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                    int64_t pool)
{
    struct hrf_layer part[4];
    part[0] = unit(b, name, "branch1x1", x, 64, hrf_square(1, 1, 0));
    part[1] = unit(b, name, "branch5x5_1", x, 48, hrf_square(1, 1, 0));
    part[1] = unit(b, name, "branch5x5_2", part[1], 64, hrf_square(5, 1, 2));
    part[2] = unit(b, name, "branch3x3dbl_1", x, 64, hrf_square(1, 1, 0));
    part[2] = unit(b, name, "branch3x3dbl_2", part[2], 96, hrf_square(3, 1, 1));
    part[2] = unit(b, name, "branch3x3dbl_3", part[2], 96, hrf_square(3, 1, 1));
    part[3] = pool_branch(b, name, x, pool);
    return plain_networks_join(b, name, "cat", part, 4);
}

static struct hrf_layer inception_b(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    struct hrf_layer part[3];
    char pool[NAME_BYTES];
    snprintf(pool, sizeof pool, "%s.pool", name);
    part[0] = unit(b, name, "branch3x3", x, 384, hrf_square(3, 2, 0));
    part[1] = unit(b, name, "branch3x3dbl_1", x, 64, hrf_square(1, 1, 0));
    part[1] = unit(b, name, "branch3x3dbl_2", part[1], 96, hrf_square(3, 1, 1));
    part[1] = unit(b, name, "branch3x3dbl_3", part[1], 96, hrf_square(3, 2, 0));
    part[2] = hrf_build_max_pool(b, pool, x, 3, 2, 0, false);
    return plain_networks_join(b, name, "cat", part, 3);
}

static struct hrf_layer inception_c(struct hrf_builder *b, const char *name, struct hrf_layer x,
                                    int64_t c7)
{
    struct hrf_layer part[4];
    part[0] = unit(b, name, "branch1x1", x, 192, hrf_square(1, 1, 0));
    part[1] = unit(b, name, "branch7x7_1", x, c7, hrf_square(1, 1, 0));
    part[1] = unit(b, name, "branch7x7_2", part[1], c7, oblong(1, 7));
    part[1] = unit(b, name, "branch7x7_3", part[1], 192, oblong(7, 1));
    part[2] = unit(b, name, "branch7x7dbl_1", x, c7, hrf_square(1, 1, 0));
    part[2] = unit(b, name, "branch7x7dbl_2", part[2], c7, oblong(7, 1));
    part[2] = unit(b, name, "branch7x7dbl_3", part[2], c7, oblong(1, 7));
    part[2] = unit(b, name, "branch7x7dbl_4", part[2], c7, oblong(7, 1));
    part[2] = unit(b, name, "branch7x7dbl_5", part[2], 192, oblong(1, 7));
    part[3] = pool_branch(b, name, x, 192);
    return plain_networks_join(b, name, "cat", part, 4);
}

static struct hrf_layer inception_d(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    struct hrf_layer part[3];
    char pool[NAME_BYTES];
    snprintf(pool, sizeof pool, "%s.pool", name);
    part[0] = unit(b, name, "branch3x3_1", x, 192, hrf_square(1, 1, 0));
    part[0] = unit(b, name, "branch3x3_2", part[0], 320, hrf_square(3, 2, 0));
    part[1] = unit(b, name, "branch7x7x3_1", x, 192, hrf_square(1, 1, 0));
    part[1] = unit(b, name, "branch7x7x3_2", part[1], 192, oblong(1, 7));
    part[1] = unit(b, name, "branch7x7x3_3", part[1], 192, oblong(7, 1));
    part[1] = unit(b, name, "branch7x7x3_4", part[1], 192, hrf_square(3, 2, 0));
    part[2] = hrf_build_max_pool(b, pool, x, 3, 2, 0, false);
    return plain_networks_join(b, name, "cat", part, 3);
}

static struct hrf_layer inception_e(struct hrf_builder *b, const char *name, struct hrf_layer x)
{
    struct hrf_layer part[4], half[2], y;
    part[0] = unit(b, name, "branch1x1", x, 320, hrf_square(1, 1, 0));
    y = unit(b, name, "branch3x3_1", x, 384, hrf_square(1, 1, 0));
    half[0] = unit(b, name, "branch3x3_2a", y, 384, oblong(1, 3));
    half[1] = unit(b, name, "branch3x3_2b", y, 384, oblong(3, 1));
    part[1] = plain_networks_join(b, name, "cat3x3", half, 2);
    y = unit(b, name, "branch3x3dbl_1", x, 448, hrf_square(1, 1, 0));
    y = unit(b, name, "branch3x3dbl_2", y, 384, hrf_square(3, 1, 1));
    half[0] = unit(b, name, "branch3x3dbl_3a", y, 384, oblong(1, 3));
    half[1] = unit(b, name, "branch3x3dbl_3b", y, 384, oblong(3, 1));
    part[2] = plain_networks_join(b, name, "cat3x3dbl", half, 2);
    part[3] = pool_branch(b, name, x, 192);
    return plain_networks_join(b, name, "cat", part, 4);
}

struct hrf_layer hrf_build_inception_v3(struct hrf_builder *b, const struct hrf_architecture *which,
                                        struct hrf_layer x, int64_t n_classes)
{
    (void)which;
    b->epsilon = 1e-3f;
    x = unit(b, "", "Conv2d_1a_3x3", x, 32, hrf_square(3, 2, 0));
    x = unit(b, "", "Conv2d_2a_3x3", x, 32, hrf_square(3, 1, 0));
    x = unit(b, "", "Conv2d_2b_3x3", x, 64, hrf_square(3, 1, 1));
    x = hrf_build_max_pool(b, "maxpool1", x, 3, 2, 0, false);
    x = unit(b, "", "Conv2d_3b_1x1", x, 80, hrf_square(1, 1, 0));
    x = unit(b, "", "Conv2d_4a_3x3", x, 192, hrf_square(3, 1, 0));
    x = hrf_build_max_pool(b, "maxpool2", x, 3, 2, 0, false);
    x = inception_a(b, "Mixed_5b", x, 32);
    x = inception_a(b, "Mixed_5c", x, 64);
    x = inception_a(b, "Mixed_5d", x, 64);
    x = inception_b(b, "Mixed_6a", x);
    x = inception_c(b, "Mixed_6b", x, 128);
    x = inception_c(b, "Mixed_6c", x, 160);
    x = inception_c(b, "Mixed_6d", x, 160);
    x = inception_c(b, "Mixed_6e", x, 192);
    x = inception_d(b, "Mixed_7a", x);
    x = inception_e(b, "Mixed_7b", x);
    x = inception_e(b, "Mixed_7c", x);
    x = hrf_build_flatten(b, "flatten", hrf_build_global_pool(b, "avgpool", x));
    return hrf_build_linear(b, "fc", x, n_classes, 1);
}
