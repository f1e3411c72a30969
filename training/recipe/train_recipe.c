/* train_recipe.c - the settings of `train`'s file as rows; schema/workflow reads and describes
 * them.
 */
#include "training/recipe/train_recipe.h"

#include "base/file.h"
#include "base/path.h"
#include "schema/workflow/reader.h"
#include "schema/yaml/tree.h"
#include "training/cohort/folds_and_seeds.h"

#include <string.h>

typedef double triple[3];
static const char *const split_names[] = { "folds", "column", NULL };
static const char *const output_names[] = { "probabilities", "sigmoid", "none", "segmentation",
                                            NULL };
static const char *const last_layer_names[] = { "auto", "fresh", "add", "keep", NULL };
static const char *const method_names[] = { "fine_tuning", "linear_probe", "knn", NULL };
static const char *const sampling_names[] = { "balanced", "all", NULL };
static const char *const precision_names[] = { "fp32", "bf16", NULL };
static const char *const norm_names[] = { "frozen", "batch", NULL };

#define AT(name, member, c_type)                                                                   \
    .key = name, HRF_SETTING_AT(struct hrf_train_recipe, member, c_type)
#define INTEGER(name, member) AT(name, member, int64_t), .type = HRF_SETTING_INT
#define REAL(name, member)    AT(name, member, double), .type = HRF_SETTING_REAL
#define BOOLEAN(name, member) AT(name, member, bool), .type = HRF_SETTING_BOOL
#define PATH(name, member)    AT(name, member, char *), .type = HRF_SETTING_PATH
#define TEXT(name, member)    AT(name, member, char *), .type = HRF_SETTING_TEXT
#define TEXTS(name, member)   AT(name, member, struct hrf_text_list), .type = HRF_SETTING_TEXTS
#define SIZE(name, member)    AT(name, member, int64_t), .type = HRF_SETTING_SIZE
#define TRIPLE(name, member)  AT(name, member, triple), .type = HRF_SETTING_TRIPLE
#define WORD(name, member, tag, list)                                                              \
    AT(name, member, enum hrf_##tag), .type = HRF_SETTING_WORD, .words = list
#define REQUIRED .flags = HRF_SETTING_REQUIRED
/* What a training is of counts by its content, not by these settings. */
#define NOT_IN_KEY .phases = HRF_FOR_NOTHING
/* What patches that are cut depend on, and their table, or slides as images; trainings see it in
 * the pictures. */
#define OF_PATCHES .phases = HRF_FOR_TILES
#define OF_IMAGES  .phases = HRF_FOR_IMAGES
/* Where patches lie, whatever their labels. */
#define OF_PLACES .phases = HRF_FOR_TILES | HRF_FOR_BAGS
#define OF_BOTH   .phases = HRF_FOR_TILES | HRF_FOR_TRAINING

static const struct hrf_setting rows[] = {
    { PATH("model.file", model), REQUIRED, NOT_IN_KEY,
      .help = "the network to begin with: ONNX, one image input, one output of a number for each "
              "class" },
    { WORD("model.output", output, label_kind, output_names), .initial = "probabilities", OF_BOTH,
      .help = "what its numbers are, as in a workflow: probabilities: a picture is of one class; "
              "sigmoid: of several labels at once, or of none; none: numbers as they are "
              "(regression); segmentation: each pixel is of one class" },
    { WORD("model.last_layer", last_layer, last_layer, last_layer_names), .initial = "auto",
      .help =
          "fresh: its weights are drawn anew by the seed, as PyTorch draws Linear; add: a layer "
          "is put behind the output, an encoder's embedding; auto: fresh if the file has "
          "another number of classes; keep: never" },
    { INTEGER("model.input.size", input.size), .initial = "0", .min = 0, .max = 8192,
      .help = "px of the images that the network is given: the middle of what a picture is resized "
              "to; 0: as the model's file says, else the pictures' size" },
    { INTEGER("model.input.resize", input.resize), .initial = "0", .min = 0, .max = 8192,
      .help = "px that a picture is resized to; 0: as the model's file says, else "
              "model.input.size" },
    { WORD("model.input.interpolation", input.interpolation, interpolation,
           hrf_interpolation_names),
      .initial = "auto", .help = "how, as Pillow does it; auto: as the model's file says" },
    { TRIPLE("model.input.mean", mean), .initial = "[0.485, 0.456, 0.406]", .min = -10, .max = 10,
      .help = "mean of each channel, R, G and B, scaled to 0..1; not given: as the model's file "
              "says" },
    { TRIPLE("model.input.std", std), .initial = "[0.229, 0.224, 0.225]", .min = 1e-6, .max = 1000,
      .help = "standard deviation of each channel, likewise" },
    { PATH("data.folders", folders), NOT_IN_KEY,
      .help = "folder with a folder of pictures (PNG, JPEG) for each class; with split.by column "
              "these lie in folders training, validation and testing" },
    { PATH("data.masks", masks), NOT_IN_KEY,
      .help = "with model.output segmentation and data.folders, whose pictures then lie in it "
              "without folders of classes: folder of masks with the pictures' names (PNG); a "
              "pixel's value is the number of its class, from 0, and 255 counts for nothing, but "
              "where masks of two classes have 0 and 255 alone" },
    { PATH("data.csv", csv), NOT_IN_KEY,
      .help = "instead: table with the columns path,label[,patient][,part]; paths are relative to "
              "the table. With model.output sigmoid label is a list such as er;pr, or each of "
              "'classes' has a column of 0 and 1; with none the column is value, or each of "
              "'classes' has a column of numbers; with segmentation it is mask, a path. With "
              "tiler.mode slide or train.head, beside data.slides, the column slide stands for "
              "path" },
    { PATH("data.slides", slides), NOT_IN_KEY,
      .help = "instead: folder of slides, of which patches are cut, or which are images or bags of "
              "patches" },
    { PATH("data.annotations", annotations), NOT_IN_KEY,
      .help = "with data.slides: folder of outlines, SLIDE.xml (ASAP, CAMELYON16), SLIDE.geojson "
              "(QuPath) or SLIDE_mask.tif; a slide without is of the first class, as all outside "
              "of outlines; lesions and masks are the last class" },
    { INTEGER("data.patch_size", patch_size), .initial = "256", .min = 16, .max = 8192, OF_PLACES,
      .help = "with data.slides: px of a patch" },
    { REAL("data.mpp", mpp), .initial = "0.5", .min = 0.05, .max = 100, OF_PLACES,
      .help = "with data.slides: um/px of a patch" },
    { REAL("data.slide_mpp", slide_mpp), .initial = "0", .min = 0, .max = 10,
      .phases = HRF_FOR_TILES | HRF_FOR_IMAGES | HRF_FOR_BAGS,
      .help = "um/px of slides that do not say it; 0: they are refused" },
    { REAL("data.min_overlap", min_overlap), .initial = "0.5", .min = 0.01, .max = 1, OF_PATCHES,
      .help =
          "a patch is of an outline's class from this share of its area on; one with less of it, "
          "but some, is left out; of segmentation, whose patches have masks, any part will do" },
    { INTEGER("data.slide_patches", slide_patches), .initial = "200", .min = 1, .max = 1000000,
      OF_PATCHES, .help = "at most so many patches of each class are drawn from a slide" },
    { TEXT("data.patient_until", patient_until), OF_PATCHES,
      .help = "the patient is the file's name up to this text; default: the column patient, the "
              "slide, else each picture is its own" },
    { WORD("tiler.mode", tiler_mode, tiler_mode, hrf_words_mode), .initial = "patch", NOT_IN_KEY,
      .help = "with data.slides, as in a run: patch: patches with outlines; slide: each slide is "
              "one image, with a label in data.csv" },
    { INTEGER("tiler.slide.size", image_size), HRF_TILER_SLIDE_SIZE, OF_IMAGES },
    { REAL("tiler.slide.mpp", image_mpp), HRF_TILER_SLIDE_MPP, OF_IMAGES },
    { TEXTS("classes", classes), REQUIRED, OF_BOTH,
      .help = "the words of the labels, in the order of the scores; of numbers their names" },
    { WORD("split.by", split, train_split, split_names), .initial = "folds",
      .help = "folds: k folds by patient; column: the column part of the table, or folders of "
              "parts (training, validation, testing)" },
    { INTEGER("split.folds", folds), HRF_HEAD_FOLDS },
    { INTEGER("split.seed", split_seed), .initial = "1", .min = 0, .max = 1e15, OF_BOTH,
      .help = "of the draws of the split" },
    { REAL("split.validation", validation), HRF_HEAD_VALIDATION },
    { WORD("train.method", method, train_method, method_names), .initial = "fine_tuning",
      .help =
          "fine_tuning: the network is trained; linear_probe, knn: how good it is as an encoder: "
          "a linear model of its embeddings, or the nearest of them by cosine" },
    { REAL("train.cost", cost), .initial = "0", .min = 0, .max = 1e9,
      .help = "of linear_probe: C, the inverse of the L2 penalty, as scikit-learn's; 0: an "
              "embedding's numbers * classes / 100, as UNI's" },
    { INTEGER("train.neighbours", neighbours), .initial = "20", .min = 1, .max = 100000,
      .help = "of knn: k" },
    { TEXTS("train.seeds", seeds), .initial = "[1]", NOT_IN_KEY,
      .help = "each seed is a training of every fold" },
    { INTEGER("train.epochs", epochs), .initial = "30", .min = 1, .max = 100000,
      .help = "passes over the pictures" },
    { INTEGER("train.batch", batch), .initial = "0", .min = 0, .max = 65536,
      .help = "pictures in a step, with train.head slides; 0: 32 pictures, 1 slide" },
    { INTEGER("train.epoch_samples", epoch_samples), .initial = "0", .min = 0, .max = 1e9,
      .help = "pictures, with train.head slides, that are drawn for an epoch; 0: as many as there "
              "are for training" },
    { WORD("train.head", head, head_choice, hrf_words_heads), .initial = "none",
      .help = "with data.slides and data.csv: a slide head that is trained together with the "
              "network, an encoder, by a label for each slide" },
    { INTEGER("train.bag", bag), .initial = "0", .min = 0, .max = 1e9,
      .help = "with train.head: patches of a slide in a step, drawn anew in each epoch; 0: all" },
    { INTEGER("train.patch_batch", patch_batch), .initial = "32", .min = 1, .max = 65536,
      .help = "with train.head: patches that the network is given at a time; the gradients do not "
              "depend on it, memory and speed do" },
    { REAL("train.head_rate", head_rate), .initial = "10", .min = 0, .max = 1e6,
      .help = "with train.head: the head's learning rate over that of the network" },
    { REAL("train.skip_gradients", skip_gradients), .initial = "0", .min = 0, .max = 0.9,
      .help =
          "with train.head: patches with the smallest gradients of their embeddings are left out "
          "of the network's, as long as the norms of these add up to at most this share of all; "
          "0: none" },
    { SIZE("train.memory", memory), .min = 1048576, .max = 1e15,
      .help = "memory limit of each training, e.g. 8GiB: what exceeds it is computed in tiles and "
              "bands; not given: what the process may use" },
    { INTEGER("train.layers", layers), .initial = "0", .min = 0, .max = 100000,
      .help = "only the last so many convolutions and products are trained, with what follows "
              "them; 1: the last layer; 0: all" },
    { INTEGER("train.lora", lora), .initial = "0", .min = 0, .max = 1024,
      .help =
          "the rank of LoRA: the weights of the file stay, and of the layers above each product "
          "and 1x1 convolution is changed by a product of two matrices of this rank (alpha = "
          "rank), which is added to its weights in the end; the last layer is trained as it "
          "is. 0: the weights themselves are trained" },
    { WORD("train.optimizer", optimizer, optimizer_kind, hrf_optimizer_names), .initial = "sgd",
      .help = "sgd with Nesterov's momentum and adamw as PyTorch's, lamb as timm's" },
    { REAL("train.learning_rate", learning_rate), .initial = "0", .min = 0, .max = 10,
      .help = "after the warm-up; 0: sgd 0.1 * batch / 256, the others 0.0005 * sqrt(batch / 256); "
              "with train.head sgd 0.001, the others 0.00002" },
    { REAL("train.warmup_epochs", warmup_epochs), .initial = "1", .min = 0, .max = 100000,
      .help = "the rate grows linearly for so many epochs; then it falls to 0 as half a cosine" },
    { REAL("train.momentum", momentum), .initial = "0.9", .min = 0, .max = 0.9999,
      .help = "of sgd" },
    { REAL("train.weight_decay", weight_decay), .initial = "0.00002", .min = 0, .max = 10,
      .help = "not of biases and norms" },
    { REAL("train.clip_norm", clip_norm), .initial = "0", .min = 0, .max = 1e9,
      .help = "gradients together are made no longer than this; 0: they stay" },
    { REAL("train.average", average), .initial = "0", .min = 0, .max = 0.999999,
      .help = "decay of an average of the weights, which is then what is validated and kept; 0: "
              "none" },
    { REAL("train.label_smoothing", label_smoothing), .initial = "0", .min = 0, .max = 0.9,
      .help = "share of a label that is spread over all classes; of several labels over yes and "
              "no" },
    { WORD("train.batch_norm", batch_norm, train_norm, norm_names), .initial = "frozen",
      .help = "frozen: by the statistics of the model's file; batch: of each batch" },
    { WORD("train.precision", precision, train_precision, precision_names), .initial = "fp32",
      .help = "bf16: activations and their gradients are stored and multiplied with 8 significant "
              "bits; weights, their gradients and sums stay fp32, and so does the model" },
    { WORD("train.sampling", sampling, sampling, sampling_names), .initial = "balanced",
      .help =
          "balanced: each class is drawn equally often, or each label and pictures without any; "
          "all, and of numbers always: every picture once an epoch" },
    { TEXT("train.layout", layout), .initial = "single", NOT_IN_KEY,
      .help =
          "how several ranks share a step: data=2, spatial=2, stages=2,microbatches=4 and mixes; "
          "single: one rank" },
    { INTEGER("train.patience", patience), .initial = "10", .min = 1, .max = 100000,
      .help = "a training ends after so many epochs without a lower validation loss" },
    { INTEGER("train.min_epochs", min_epochs), .initial = "0", .min = 0, .max = 100000,
      .help = "but not before" },
    { BOOLEAN("augment.flips", augmentation.flips), .initial = "true",
      .help = "half of the pictures are mirrored in each direction" },
    { BOOLEAN("augment.turns", augmentation.turns), .initial = "true",
      .help = "pictures are turned by 0 to 3 quarters" },
    { REAL("augment.shift", augmentation.shift), .initial = "0.05", .min = 0, .max = 0.5,
      .help = "pictures are moved by at most this share of their side, mirrored at the border" },
    { REAL("augment.colour", augmentation.colour), .initial = "0.1", .min = 0, .max = 1,
      .help = "brightness, contrast and saturation are each multiplied by 1 - colour to 1 + "
              "colour" },
    { REAL("augment.stain", augmentation.stain), .initial = "0.05", .min = 0, .max = 1,
      .help = "amounts of haematoxylin, eosin and DAB s become (1 + a) s + b, a and b from -stain "
              "to stain" },
    { BOOLEAN("export.safetensors", writes_safetensors), .initial = "false",
      .help = "true: also model.safetensors, the weights by their names, for PyTorch" },
    { PATH("out", out), REQUIRED, NOT_IN_KEY, .help = "folder for what is made" },
};
const struct hrf_setting_table hrf_train_recipe_settings = { rows, sizeof rows / sizeof rows[0] };

void hrf_train_recipe_destroy(struct hrf_train_recipe *recipe)
{
    if (recipe == NULL)
        return;
    for (size_t i = 0; i < hrf_train_recipe_settings.n; i++)
        hrf_setting_release(&rows[i], recipe);
    hrf_free(recipe);
}

void hrf_train_recipe_describe(const struct hrf_train_recipe *recipe, unsigned phase,
                               struct hrf_strbuf *out)
{
    hrf_settings_of_phase(hrf_train_recipe_settings, recipe, phase, out);
    if (phase == HRF_FOR_TRAINING)
        hrf_strbuf_addf(out, "has_colours %d\n", recipe->has_colours);
}

struct hrf_optimizer_config hrf_train_recipe_optimizer(const struct hrf_train_recipe *recipe)
{
    struct hrf_optimizer_config config = hrf_optimizer_default(recipe->optimizer);
    config.momentum = recipe->momentum;
    config.weight_decay = recipe->weight_decay;
    config.clip_norm = recipe->clip_norm;
    config.average = recipe->average;
    return config;
}

const char *hrf_train_recipe_activation(const struct hrf_train_recipe *recipe)
{
    return recipe->output == HRF_LABEL_CLASS ? NULL : output_names[recipe->output];
}

/* ---- reading ---- */

static void check_lists(struct hrf_reader *r, const struct hrf_train_recipe *recipe)
{
    hrf_reader_find_twice(r, "classes", &recipe->classes);
    hrf_reader_find_twice(r, "train.seeds", &recipe->seeds);
    for (size_t i = 0; recipe->output == HRF_LABEL_SEVERAL && i < recipe->classes.n_items; i++)
        if (strchr(recipe->classes.items[i], hrf_label_separator) != NULL)
            hrf_reader_find(r, 0, 0,
                            "'classes' has '%s', and lists of labels are written with '%c'",
                            recipe->classes.items[i], hrf_label_separator);
    if (recipe->classes.n_items == 1 &&
        (recipe->output == HRF_LABEL_CLASS || recipe->output == HRF_LABEL_PIXELS))
        hrf_reader_find(r, 0, 0,
                        "'classes' has one class only; a classifier tells at least two "
                        "apart");
    for (size_t i = 0; i < recipe->seeds.n_items; i++)
        if (!hrf_trainings_is_seed(recipe->seeds.items[i]))
            hrf_reader_find(r, 0, 0, "'train.seeds' has '%s'; it must be whole numbers, 0 to 1e15",
                            recipe->seeds.items[i]);
}

static void check_layout(struct hrf_reader *r, struct hrf_train_recipe *recipe)
{
    const size_t i = hrf_reader_index(r, "train.layout");
    struct hrf_layout_plan *l = &recipe->ranks;
    struct hrf_batch_split shares;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_layout_parse(recipe->layout, l, &why);
    if (status == HRF_OK)
        status = hrf_layout_share(l, hrf_train_recipe_at_once(recipe), &shares, &why);
    if (status != HRF_OK)
        hrf_reader_find(r, r->lines[i], r->columns[i], "'train.layout': %s", why.text);
    else if (l->tensor > 1)
        hrf_reader_find(r, r->lines[i], r->columns[i],
                        "'train.layout': gradients are computed with data=, spatial=, stages=, "
                        "microbatches= and bidirectional");
    else if (recipe->batch_norm == HRF_NORM_BATCH &&
             hrf_layout_check_batch_statistics(l, recipe->batch, &why) != HRF_OK)
        hrf_reader_find(r, r->lines[i], r->columns[i],
                        "'train.layout' with 'train.batch_norm' batch: %s", why.text);
}

/* The place of a key in the file. */
static void find_at(struct hrf_reader *r, const char *key, const char *text)
{
    const size_t i = hrf_reader_index(r, key);
    hrf_reader_find(r, r->lines[i], r->columns[i], "%s", text);
}

/* Slides that are images. */
static void check_images(struct hrf_reader *r, const struct hrf_train_recipe *recipe)
{
    if (recipe->slides == NULL || recipe->csv == NULL || recipe->folders != NULL ||
        recipe->annotations != NULL)
        find_at(r, "tiler.mode",
                "with 'tiler.mode' slide exactly 'data.slides' and 'data.csv' have to be given: "
                "the slides, and a table of their labels");
    if (recipe->input.size > 0 || recipe->input.resize > 0 ||
        recipe->input.interpolation != HRF_INTERPOLATION_AUTO)
        find_at(r, "tiler.mode",
                "pictures are resized, and with 'tiler.mode' slide there are none: set "
                "'tiler.slide.size', and leave 'size', 'resize' and 'interpolation' of "
                "'model.input' out");
}

/* Slides that are bags of patches, by which a network and a head are trained. */
static void check_bags(struct hrf_reader *r, const struct hrf_train_recipe *recipe)
{
    if (recipe->slides == NULL || recipe->csv == NULL || recipe->folders != NULL ||
        recipe->annotations != NULL)
        find_at(r, "train.head",
                "with 'train.head' exactly 'data.slides' and 'data.csv' have to be given: the "
                "slides, and a table of their labels");
    if (recipe->tiler_mode == HRF_TILER_SLIDE)
        find_at(r, "train.head",
                "a head reads the patches of a slide: 'tiler.mode' has to be patch");
    if (recipe->output != HRF_LABEL_CLASS)
        find_at(r, "train.head",
                "a head tells the classes of slides: 'model.output' has to be probabilities");
    if (recipe->method != HRF_METHOD_FINE_TUNING)
        find_at(r, "train.head",
                "a head is trained with the network: 'train.method' has to be fine_tuning");
    if (recipe->last_layer != HRF_LAST_LAYER_AUTO)
        find_at(r, "train.head",
                "a head reads what the model's file gives, an embedding: leave 'model.last_layer' "
                "out");
    if (recipe->batch_norm != HRF_NORM_FROZEN)
        find_at(r, "train.batch_norm",
                "with 'train.head' 'train.batch_norm' has to be frozen: patches pass in batches, "
                "and the gradients are those of the whole slide only if a patch's embedding does "
                "not depend on the others of its batch");
    if (recipe->label_smoothing > 0)
        find_at(r, "train.label_smoothing",
                "with 'train.head' labels are not smoothed: leave 'train.label_smoothing' out");
}

static void check_pictures(struct hrf_reader *r, const struct hrf_train_recipe *recipe)
{
    if ((recipe->folders != NULL) + (recipe->csv != NULL) + (recipe->slides != NULL) != 1)
        hrf_reader_find(r, 0, 0,
                        "exactly one of 'data.folders', 'data.csv' and 'data.slides' has to be "
                        "given");
    if ((recipe->slides != NULL) != (recipe->annotations != NULL))
        hrf_reader_find(r, 0, 0, "'data.slides' and 'data.annotations' go together");
    const bool is_segmentation = recipe->output == HRF_LABEL_PIXELS;
    if ((recipe->masks != NULL) != (is_segmentation && recipe->folders != NULL))
        hrf_reader_find(r, 0, 0,
                        "'data.masks' goes with 'data.folders' and 'model.output' segmentation");
    if (is_segmentation &&
        (recipe->method != HRF_METHOD_FINE_TUNING || recipe->last_layer == HRF_LAST_LAYER_ADD))
        hrf_reader_find(r, 0, 0,
                        "'model.output' segmentation goes neither with a probe nor with a layer "
                        "that is added");
    if (recipe->output != HRF_LABEL_CLASS && recipe->csv == NULL && !is_segmentation)
        hrf_reader_find(r, 0, 0, "'model.output' is %s: labels have to be in 'data.csv'",
                        output_names[recipe->output]);
    if (recipe->method != HRF_METHOD_FINE_TUNING &&
        (recipe->last_layer == HRF_LAST_LAYER_FRESH || recipe->last_layer == HRF_LAST_LAYER_KEEP))
        hrf_reader_find(r, 0, 0,
                        "'train.method' is %s, of what the model's file gives: 'model.last_layer' "
                        "has to be auto or add",
                        method_names[recipe->method]);
    if (recipe->slides != NULL && recipe->split == HRF_TRAIN_BY_COLUMN)
        hrf_reader_find(r, 0, 0, "slides have no parts: 'split.by' has to be folds");
}

static void check(struct hrf_reader *r, struct hrf_train_recipe *recipe)
{
    check_lists(r, recipe);
    if (recipe->batch == 0)
        recipe->batch = recipe->head == HRF_TRAIN_NONE ? 32 : 1;
    check_layout(r, recipe);
    if (recipe->head != HRF_TRAIN_NONE)
        check_bags(r, recipe);
    else
        (recipe->tiler_mode == HRF_TILER_SLIDE ? check_images : check_pictures)(r, recipe);
    if (recipe->head == HRF_TRAIN_NONE && recipe->bag > 0)
        find_at(r, "train.bag", "'train.bag' goes with 'train.head'");
    if (recipe->head == HRF_TRAIN_NONE && recipe->skip_gradients > 0)
        find_at(r, "train.skip_gradients", "'train.skip_gradients' goes with 'train.head'");
    if (recipe->warmup_epochs > (double)recipe->epochs) {
        const size_t i = hrf_reader_index(r, "train.warmup_epochs");
        hrf_reader_find(r, r->lines[i], r->columns[i],
                        "'train.warmup_epochs' is %g, more than the %lld of 'train.epochs'",
                        recipe->warmup_epochs, (long long)recipe->epochs);
    }
    if (recipe->input.resize > 0 && recipe->input.size > recipe->input.resize)
        hrf_reader_find(r, 0, 0,
                        "'model.input.size' is %lld, more than the %lld of 'model.input.resize'",
                        (long long)recipe->input.size, (long long)recipe->input.resize);
}

static bool is_found(const struct hrf_reader *r, const char *message)
{
    for (size_t i = 0; i < r->n_findings; i++)
        if (strcmp(r->findings[i].message, message) == 0)
            return true;
    return false;
}

/* The executor is read by `hires-flow`; it is checked here, too, so that all mistakes of the file
 * are told at once. Those of the file as a whole (its version) are found by both. */
static enum hrf_status check_executor(struct hrf_reader *r, const char *text, size_t n_bytes,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) executor = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    const char *where = r->where;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_workflow_parse_executor(text, n_bytes, where, &executor,
                                                               &findings, &why);
    for (size_t i = 0; i < findings.n_items; i++) {
        const struct hrf_finding *f = &findings.items[i];
        r->where = f->where;
        if (!is_found(r, f->message))
            hrf_reader_find(r, f->line, f->column, "%s", f->message);
        r->where = where;
    }
    return status == HRF_OK || status == HRF_E_USER ? HRF_OK : hrf_error_pass(err, &why);
}

enum hrf_status hrf_train_recipe_parse(const char *text, size_t n_bytes, const char *where,
                                       const char *folder, struct hrf_train_recipe **out,
                                       struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO(hrf_yaml) yaml = NULL;
    HRF_TRY(hrf_yaml_parse(text, n_bytes, where, &yaml, err));
    HRF_AUTO(hrf_train_recipe) recipe = hrf_calloc(1, sizeof *recipe);
    HRF_AUTO_RELEASE(hrf_reader) reader;
    hrf_reader_init(&reader, hrf_train_recipe_settings, recipe, where, folder);
    reader.other_section = "executor";
    HRF_TRY(hrf_reader_defaults(&reader, err));
    if (hrf_reader_begin(&reader, "a recipe", hrf_yaml_root(yaml))) {
        hrf_reader_map(&reader, "", hrf_yaml_root(yaml));
        hrf_reader_require(&reader);
        check(&reader, recipe);
        HRF_TRY(check_executor(&reader, text, n_bytes, err));
        recipe->has_colours = reader.lines[hrf_reader_index(&reader, "model.input.mean")] != 0 ||
                              reader.lines[hrf_reader_index(&reader, "model.input.std")] != 0;
    }
    HRF_TRY(hrf_reader_finish(&reader, findings, err));
    HRF_MOVE(*out, recipe);
    return HRF_OK;
}

enum hrf_status hrf_train_recipe_read(const char *path, struct hrf_train_recipe **out,
                                      struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL, *folder = hrf_path_directory(path);
    size_t n = 0;
    HRF_TRY(hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n, err));
    return hrf_train_recipe_parse(text, n, path, folder, out, findings, err);
}
