/* The table of architectures. */
#include "engine/model/model.h"

#include "base/args.h"
#include "base/strbuf.h"
#include "engine/model/builder_private.h"

#include <stdlib.h>
#include <string.h>

static const char plain[] =
    "WIDTH,HIDDEN: 1 to 1024 channels in the first layer, 1 to 65536 numbers between the last";

static const struct hrf_architecture table[] = {
    { "resnet18", 224, hrf_build_resnet, { 2, 2, 2, 2, 64 }, false, 1, 32, NULL, NULL },
    { "resnet34", 224, hrf_build_resnet, { 3, 4, 6, 3, 64 }, false, 1, 32, NULL, NULL },
    { "resnet50", 224, hrf_build_resnet, { 3, 4, 6, 3, 64 }, true, 1, 32, NULL, NULL },
    { "resnet101", 224, hrf_build_resnet, { 3, 4, 23, 3, 64 }, true, 1, 32, NULL, NULL },
    { "resnet152", 224, hrf_build_resnet, { 3, 8, 36, 3, 64 }, true, 1, 32, NULL, NULL },
    { .name = "resnet",
      .size = 224,
      .build = hrf_build_resnet,
      .depth = { 2, 64 },
      .multiple = 1,
      .least = 32,
      .parameters = "BLOCKS,WIDTH: 1 to 64 blocks in each stage, 1 to 1024 channels in the first",
      .accept = hrf_accept_resnet },
    { "resnet-v2-101-hires", 256, hrf_build_resnet_v2, { 11 }, false, 32, 32, NULL, NULL },
    { "resnet-v2-110-hires", 256, hrf_build_resnet_v2, { 12 }, false, 32, 32, NULL, NULL },
    { "vgg19", 224, hrf_build_vgg19, { 64, 4096 }, false, 224, 224, plain, hrf_accept_plain },
    { "alexnet", 224, hrf_build_alexnet, { 64, 4096 }, false, 1, 63, plain, hrf_accept_plain },
    { "googlenet", 224, hrf_build_googlenet, { 0 }, false, 1, 32, NULL, NULL },
    { "inception-v3", 299, hrf_build_inception_v3, { 0 }, false, 1, 75, NULL, NULL },
    { .name = "amoebanet-d",
      .size = 224,
      .build = hrf_build_amoebanet_d,
      .depth = { 18, 416 },
      .multiple = 1,
      .least = 33,
      .parameters =
          "L,F: L normal cells, a multiple of 3; F, 4 x the stem's channels, a multiple of 8",
      .accept = hrf_accept_amoebanet_d },
    { .name = "unet",
      .size = 256,
      .build = hrf_build_unet,
      .depth = { 5, 64 },
      .parameters = "LEVELS,WIDTH: 2 to 8 levels, 1 to 1024 channels in the first",
      .accept = hrf_accept_unet },
    { .name = "hct", .size = 1024, .build = hrf_build_hct, .multiple = 1, .least = 15 },
    { .name = "hct-softmax",
      .size = 1024,
      .build = hrf_build_hct,
      .depth = { 1 },
      .multiple = 1,
      .least = 15 },
    { .name = "vit",
      .size = 224,
      .build = hrf_build_vit,
      .depth = { 24, 1024 },
      .multiple = 16,
      .least = 16,
      .parameters = "LAYERS,WIDTH: 1 to 64 layers, 64 to 4096 channels, a multiple of 64",
      .accept = hrf_accept_vit },
    { "amoebanet-d-18-416", 224, hrf_build_amoebanet_d, { 18, 416 }, false, 1, 33, NULL, NULL },
};
enum { N_ARCHITECTURES = sizeof table / sizeof table[0] };

/* Beyond this a model's first map alone is over a terabyte. */
static const int64_t max_size = (int64_t)1 << 20, max_classes = 1 << 20;

const char *const *hrf_model_names(void)
{
    static const char *const names[] = { "resnet18",
                                         "resnet34",
                                         "resnet50",
                                         "resnet101",
                                         "resnet152",
                                         "resnet",
                                         "resnet-v2-101-hires",
                                         "resnet-v2-110-hires",
                                         "vgg19",
                                         "alexnet",
                                         "googlenet",
                                         "inception-v3",
                                         "amoebanet-d",
                                         "unet",
                                         "hct",
                                         "hct-softmax",
                                         "vit",
                                         "amoebanet-d-18-416",
                                         NULL };
    _Static_assert(sizeof names / sizeof names[0] == N_ARCHITECTURES + 1, "every row is listed");
    return names;
}

bool hrf_model_is_built_in(const char *name)
{
    const size_t length = strcspn(name, ":");
    for (size_t i = 0; i < N_ARCHITECTURES; i++)
        if (strncmp(table[i].name, name, length) == 0 && table[i].name[length] == '\0')
            return true;
    return false;
}

static enum hrf_status unknown(const char *name, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
    for (size_t i = 0; i < N_ARCHITECTURES; i++)
        hrf_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", table[i].name);
    const char *near = hrf_nearest_word(name, hrf_model_names());
    return hrf_error_set(err, HRF_E_USER, "there is no built-in model '%s'%s%s%s; there are: %s",
                         name, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                         near != NULL ? "'?)" : "", list.text);
}

/* Two numbers, "18,416". */
static bool read_parameters(const char *text, int out[2])
{
    for (int i = 0; i < 2; i++) {
        char *end;
        const long value = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || value > INT32_MAX || *end != (i == 0 ? ',' : '\0'))
            return false;
        out[i] = (int)value;
        text = end + 1;
    }
    return true;
}

/* The row of NAME or of NAME:A,B, with those parameters. */
static enum hrf_status make_find(const char *name, struct hrf_architecture *out,
                                 struct hrf_error *err)
{
    const size_t length = strcspn(name, ":");
    for (size_t i = 0; i < N_ARCHITECTURES; i++) {
        if (strncmp(table[i].name, name, length) != 0 || table[i].name[length] != '\0')
            continue;
        *out = table[i];
        if (name[length] != '\0' && out->parameters == NULL)
            return hrf_error_set(err, HRF_E_USER, "%s has no parameters: leave out '%s'", out->name,
                                 name + length);
        if ((name[length] != '\0' && !read_parameters(name + length + 1, out->depth)) ||
            (out->accept != NULL && !out->accept(out)))
            return hrf_error_set(err, HRF_E_USER, "'%s' is no model: give %s:%s", name, out->name,
                                 out->parameters);
        return HRF_OK;
    }
    return unknown(name, err);
}

enum hrf_status hrf_model_make(const char *name, int64_t n_classes, int64_t size, uint64_t seed,
                               struct hrf_graph **out, struct hrf_error *err)
{
    struct hrf_architecture which;
    HRF_TRY(make_find(name, &which, err));
    size = size == 0 ? which.size : size;
    if (size < which.least || size > max_size || size % which.multiple != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s cannot have images of %lld px: at least %lld and a multiple of "
                             "%lld are needed",
                             name, (long long)size, (long long)which.least,
                             (long long)which.multiple);
    if (n_classes < 1 || n_classes > max_classes)
        return hrf_error_set(err, HRF_E_USER, "%lld classes make no sense for %s",
                             (long long)n_classes, name);
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_create(name, &graph, err));
    struct hrf_builder builder = {
        .graph = graph, .random = hrf_random_init(seed), .err = err, .epsilon = 1e-5f
    };
    struct hrf_layer x = hrf_build_input(&builder, 3, size);
    x = which.build(&builder, &which, x, n_classes);
    HRF_TRY(hrf_build_finish(&builder, x));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}
