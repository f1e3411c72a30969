/* The table of architectures. */
#include "engine/model/model.h"

#include "base/args.h"
#include "base/strbuf.h"
#include "engine/model/builder_private.h"

#include <string.h>

static const struct hrf_architecture table[] = {
    { "resnet18", 224, hrf_build_resnet, { 2, 2, 2, 2 }, false, 1, 32 },
    { "resnet34", 224, hrf_build_resnet, { 3, 4, 6, 3 }, false, 1, 32 },
    { "resnet50", 224, hrf_build_resnet, { 3, 4, 6, 3 }, true, 1, 32 },
    { "resnet101", 224, hrf_build_resnet, { 3, 4, 23, 3 }, true, 1, 32 },
    { "resnet152", 224, hrf_build_resnet, { 3, 8, 36, 3 }, true, 1, 32 },
    { "resnet-v2-101-hires", 256, hrf_build_resnet_v2, { 11 }, false, 32, 32 },
    { "resnet-v2-110-hires", 256, hrf_build_resnet_v2, { 12 }, false, 32, 32 },
    { "vgg19", 224, hrf_build_vgg19, { 0 }, false, 224, 224 },
    { "alexnet", 224, hrf_build_alexnet, { 0 }, false, 1, 63 },
    { "googlenet", 224, hrf_build_googlenet, { 0 }, false, 1, 32 },
    { "inception-v3", 299, hrf_build_inception_v3, { 0 }, false, 1, 75 },
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
                                         "resnet-v2-101-hires",
                                         "resnet-v2-110-hires",
                                         "vgg19",
                                         "alexnet",
                                         "googlenet",
                                         "inception-v3",
                                         NULL };
    _Static_assert(sizeof names / sizeof names[0] == N_ARCHITECTURES + 1, "every row is listed");
    return names;
}

static enum hrf_status find(const char *name, const struct hrf_architecture **out,
                            struct hrf_error *err)
{
    for (size_t i = 0; i < N_ARCHITECTURES; i++)
        if (strcmp(table[i].name, name) == 0) {
            *out = &table[i];
            return HRF_OK;
        }
    HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
    for (size_t i = 0; i < N_ARCHITECTURES; i++)
        hrf_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", table[i].name);
    const char *near = hrf_nearest_word(name, hrf_model_names());
    return hrf_error_set(err, HRF_E_USER, "there is no built-in model '%s'%s%s%s; there are: %s",
                         name, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                         near != NULL ? "'?)" : "", list.text);
}

enum hrf_status hrf_model_make(const char *name, int64_t n_classes, int64_t size, uint64_t seed,
                               struct hrf_graph **out, struct hrf_error *err)
{
    const struct hrf_architecture *which = NULL;
    HRF_TRY(find(name, &which, err));
    size = size == 0 ? which->size : size;
    if (size < which->least || size > max_size || size % which->multiple != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s cannot have images of %lld px: at least %lld and a multiple of "
                             "%lld are needed",
                             name, (long long)size, (long long)which->least,
                             (long long)which->multiple);
    if (n_classes < 1 || n_classes > max_classes)
        return hrf_error_set(err, HRF_E_USER, "%lld classes make no sense for %s",
                             (long long)n_classes, name);
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_create(name, &graph, err));
    struct hrf_builder builder = {
        .graph = graph, .random = hrf_random_init(seed), .err = err, .epsilon = 1e-5f
    };
    struct hrf_layer x = hrf_build_input(&builder, 3, size);
    x = which->build(&builder, which, x, n_classes);
    HRF_TRY(hrf_build_finish(&builder, x));
    *out = graph;
    graph = NULL;
    return HRF_OK;
}
