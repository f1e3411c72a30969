/* encoder.c - the table of encoders, and what all families share (encoder.h). */
#include "engine/encoder/encoder.h"

#include "base/args.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "engine/encoder/build_private.h"
#include "image/preparation.h"

#include <inttypes.h>
#include <string.h>

struct encoder {
    const char *name;
    enum hrf_encoder_family family;
    /* What the name stands for; 0: any, and one head for each 64 channels. */
    struct hrf_encoder_network network;
    enum hrf_encoder_pool pool;
    struct hrf_encoder_input input;
};

#define IMAGENET                                                                                   \
    { HRF_IMAGENET_MEAN },                                                                         \
    {                                                                                              \
        HRF_IMAGENET_STD                                                                           \
    }
#define OPTIMUS                                                                                    \
    { 0.707223, 0.578729, 0.703617 },                                                              \
    {                                                                                              \
        0.211883, 0.230117, 0.177517                                                               \
    }
#define LUNIT                                                                                      \
    { 0.70322989, 0.53606487, 0.66096631 },                                                        \
    {                                                                                              \
        0.21716536, 0.26081574, 0.20723464                                                         \
    }

/* Width, depth, heads, px of a patch and registers stand first. Sources: the models' own pages and
 * TRIDENT's patch_encoder_models/load.py. */
static const struct encoder table[] = {
    { "uni",
      HRF_ENCODER_VIT,
      { 1024, 24, 16, 16, 0 },
      HRF_POOL_CLASS,
      { 224, 224, "bilinear", IMAGENET } },
    { "uni2-h",
      HRF_ENCODER_VIT,
      { 1536, 24, 24, 14, 8 },
      HRF_POOL_CLASS,
      { 224, 224, "bilinear", IMAGENET } },
    { "virchow",
      HRF_ENCODER_VIT,
      { 1280, 32, 16, 14, 0 },
      HRF_POOL_BOTH,
      { 224, 224, "bicubic", IMAGENET } },
    { "virchow2",
      HRF_ENCODER_VIT,
      { 1280, 32, 16, 14, 4 },
      HRF_POOL_BOTH,
      { 224, 224, "bicubic", IMAGENET } },
    { "phikon",
      HRF_ENCODER_VIT,
      { 768, 12, 12, 16, 0 },
      HRF_POOL_CLASS,
      { 224, 224, "bilinear", IMAGENET } },
    { "phikon-v2",
      HRF_ENCODER_VIT,
      { 1024, 24, 16, 16, 0 },
      HRF_POOL_CLASS,
      { 224, 224, "bicubic", IMAGENET } },
    { "gigapath",
      HRF_ENCODER_VIT,
      { 1536, 40, 24, 16, 0 },
      HRF_POOL_CLASS,
      { 224, 256, "bicubic", IMAGENET } },
    { "h-optimus-0",
      HRF_ENCODER_VIT,
      { 1536, 40, 24, 14, 4 },
      HRF_POOL_CLASS,
      { 224, 224, "bicubic", OPTIMUS } },
    { "h-optimus-1",
      HRF_ENCODER_VIT,
      { 1536, 40, 24, 14, 4 },
      HRF_POOL_CLASS,
      { 224, 224, "bicubic", OPTIMUS } },
    { "lunit-vits8",
      HRF_ENCODER_VIT,
      { 384, 12, 6, 8, 0 },
      HRF_POOL_CLASS,
      { 224, 224, "bilinear", LUNIT } },
    { "lunit-resnet50",
      HRF_ENCODER_RESNET,
      { 64, 50, 0, 0, 0 },
      HRF_POOL_MEAN,
      { 224, 224, "bilinear", LUNIT } },
    { "clam-resnet50",
      HRF_ENCODER_RESNET,
      { 64, 50, 0, 0, 0 },
      HRF_POOL_STAGE3,
      { 224, 224, "bilinear", IMAGENET } },
    { "vit", HRF_ENCODER_VIT, { 0 }, HRF_POOL_CLASS, { 224, 224, "bicubic", IMAGENET } },
    { "resnet", HRF_ENCODER_RESNET, { 0 }, HRF_POOL_MEAN, { 224, 224, "bilinear", IMAGENET } },
    { "convnext", HRF_ENCODER_CONVNEXT, { 0 }, HRF_POOL_MEAN, { 224, 224, "bicubic", IMAGENET } },
};
enum { N_ENCODERS = sizeof table / sizeof table[0] };

static const struct encoder *encoder_find(const char *name)
{
    for (size_t i = 0; i < N_ENCODERS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

bool hrf_encoder_is_known(const char *name)
{
    return encoder_find(name) != NULL;
}

enum hrf_encoder_pool hrf_encoder_pool_find(const char *name)
{
    static const char *const names[HRF_N_POOLS] = { "",     "cls",    "cls+mean",
                                                    "mean", "stage3", "logits" };
    for (int i = 1; i < HRF_N_POOLS; i++)
        if (strcmp(names[i], name) == 0)
            return (enum hrf_encoder_pool)i;
    return HRF_N_POOLS;
}

static enum hrf_status unknown(const char *name, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
    const char *names[N_ENCODERS + 1] = { NULL };
    for (size_t i = 0; i < N_ENCODERS; i++) {
        names[i] = table[i].name;
        hrf_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = hrf_nearest_word(name, names);
    return hrf_error_set(err, HRF_E_USER, "there is no encoder '%s'%s%s%s; there are: %s", name,
                         near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                         near != NULL ? "'?)" : "", list.text);
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* What weights hold besides the encoder: counters, what only training uses, a classifier, a third
 * stage's successor. */
static bool is_beside(const char *name, const struct hrf_encoder_options *wanted)
{
    const size_t n = strlen(name);
    static const char counter[] = ".num_batches_tracked";
    if (n >= sizeof counter && strcmp(name + n - (sizeof counter - 1), counter) == 0)
        return true;
    if (strcmp(name, "mask_token") == 0 || begins(name, "decoder") || begins(name, "head_dist") ||
        begins(name, "pooler."))
        return true;
    if (wanted->pool != HRF_POOL_LOGITS &&
        (begins(name, "fc.") || (begins(name, "head.") && !begins(name, "head.norm"))))
        return true;
    return wanted->pool == HRF_POOL_STAGE3 && begins(name, "layer4.");
}

static enum hrf_status check_used(const struct hrf_safetensors *file,
                                  const struct hrf_encoder_options *wanted, const char *name,
                                  struct hrf_error *err)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < file->n_items; i++)
        if (!file->items[i].is_used && !is_beside(file->items[i].name, wanted)) {
            first = first == NULL ? file->items[i].name : first;
            n++;
        }
    if (n == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "%s holds %zu tensors that %s as it is known here does not have, '%s' "
                         "among them: it is of another architecture",
                         file->path, n, name, first);
}

static int32_t encoder_build(struct hrf_encoder_build *b, enum hrf_encoder_family family, int32_t x)
{
    switch (family) {
    case HRF_ENCODER_RESNET:
        return hrf_encoder_resnet(b, x);
    case HRF_ENCODER_CONVNEXT:
        return hrf_encoder_convnext(b, x);
    default:
        return hrf_encoder_vit(b, x);
    }
}

static enum hrf_status add_ends(struct hrf_encoder_build *b, enum hrf_encoder_family family)
{
    const struct hrf_shape shape = { .rank = 4,
                                     .dims = { -1, 3, b->wanted->size, b->wanted->size } };
    int32_t x;
    HRF_TRY(hrf_graph_add_value(b->graph, "input", HRF_F32, &shape, NULL, &x, b->err));
    const int32_t y = encoder_build(b, family, x);
    if (b->status != HRF_OK)
        return b->status;
    char *name = hrf_strdup("output");
    hrf_free(b->graph->values[y].name);
    b->graph->values[y].name = name;
    HRF_TRY(hrf_graph_set_io(b->graph, &x, 1, &y, 1, b->err));
    return hrf_graph_check(b->graph, b->err);
}

enum hrf_status hrf_encoder_make(const char *name, const char *weights,
                                 const struct hrf_encoder_options *options, struct hrf_graph **out,
                                 struct hrf_encoder_input *input, struct hrf_error *err)
{
    enum { LARGEST = 1 << 14 }; /* px */
    const struct encoder *encoder = encoder_find(name);
    HRF_AUTO(hrf_safetensors) file = NULL;
    HRF_AUTO(hrf_graph) graph = NULL;
    if (encoder == NULL)
        return unknown(name, err);
    struct hrf_encoder_options wanted = *options;
    wanted.size = wanted.size > 0 ? wanted.size : encoder->input.size;
    wanted.n_heads = wanted.n_heads > 0 ? wanted.n_heads : encoder->network.n_heads;
    wanted.pool = wanted.pool != HRF_POOL_UNSET ? wanted.pool : encoder->pool;
    if (wanted.size > LARGEST || wanted.size < 32)
        return hrf_error_set(err, HRF_E_USER,
                             "%s cannot have images of %" PRId64 " px: 32 to %d are possible", name,
                             wanted.size, LARGEST);
    HRF_TRY(hrf_safetensors_open(weights, &file, err));
    HRF_TRY(hrf_graph_create(name, &graph, err));
    struct hrf_encoder_build b = { .graph = graph,
                                   .file = file,
                                   .wanted = &wanted,
                                   .err = err,
                                   .epsilon = 1e-6f,
                                   .named = &encoder->network };
    hrf_encoder_take_hugging_face_names(file, &b.epsilon);
    HRF_TRY(add_ends(&b, encoder->family));
    HRF_TRY(check_used(file, &wanted, name, err));
    *input = encoder->input;
    input->size = wanted.size;
    if (options->size > 0)
        input->resize = wanted.size;
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

char *hrf_encoder_input_text(const struct hrf_encoder_input *input, double mpp)
{
    HRF_AUTO_JSON object = json_object();
    hrf_json_put_int(object, "size", input->size);
    hrf_json_put_int(object, "resize", input->resize);
    hrf_json_put_text(object, "interpolation", input->interpolation);
    hrf_json_put(object, "mean", hrf_json_numbers(input->mean, 3));
    hrf_json_put(object, "std", hrf_json_numbers(input->std, 3));
    if (mpp > 0)
        hrf_json_put_number(object, "mpp", mpp);
    return hrf_json_text(object);
}
