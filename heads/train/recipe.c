/* recipe.c - the settings of `head train`'s file as rows; schema/workflow reads and describes them.
 */
#include "heads/train/recipe.h"

#include "base/file.h"
#include "base/path.h"
#include "schema/workflow/reader.h"
#include "schema/yaml/tree.h"
#include "training/cohort/folds_and_seeds.h"

#include <string.h>

static const char *const split_names[] = { "folds", "column", NULL };
static const char *const optimizer_names[] = { "adam", "adamw", NULL };
static const char *const class_weight_names[] = { "none", "balanced", NULL };

#define AT(name, member, c_type) .key = name, HRF_SETTING_AT(struct hrf_recipe, member, c_type)
#define INTEGER(name, member)    AT(name, member, int64_t), .type = HRF_SETTING_INT
#define REAL(name, member)       AT(name, member, double), .type = HRF_SETTING_REAL
#define BOOLEAN(name, member)    AT(name, member, bool), .type = HRF_SETTING_BOOL
#define PATH(name, member)       AT(name, member, char *), .type = HRF_SETTING_PATH
#define TEXTS(name, member)      AT(name, member, struct hrf_text_list), .type = HRF_SETTING_TEXTS
#define WORD(name, member, tag, list)                                                              \
    AT(name, member, enum hrf_##tag), .type = HRF_SETTING_WORD, .words = list
#define REQUIRED .flags = HRF_SETTING_REQUIRED
/* What a training is of counts by its content, not by these settings. */
#define NOT_IN_KEY .phases = HRF_FOR_NOTHING

static const struct hrf_setting rows[] = {
    { PATH("features.folder", features), REQUIRED, NOT_IN_KEY,
      .help = "folder of the HDF5 files, SLIDE.h5 for each slide of the labels" },
    { AT("features.set", set, char *), .type = HRF_SETTING_TEXT,
      .help =
          "the data set in them; default: features, feats, or the only one in the group features" },
    { BOOLEAN("features.mixed", features_mixed), NOT_IN_KEY, .initial = "false",
      .help = "true: features of different encoders, tilings or precisions are trained together on "
              "purpose" },
    { PATH("labels.csv", labels), REQUIRED, NOT_IN_KEY,
      .help = "table with the columns slide,label[,patient][,split]" },
    { TEXTS("labels.classes", classes), REQUIRED,
      .help = "the words of the labels, in the order of the scores" },
    { WORD("head.kind", kind, head_kind, hrf_head_kind_names), .initial = "abmil",
      .help = "the network" },
    { INTEGER("head.hidden", hidden), HRF_HEAD_HIDDEN },
    { INTEGER("head.attention", attention), HRF_HEAD_ATTENTION },
    { INTEGER("head.landmarks", landmarks), .initial = "256", .min = 1, .max = 4096,
      .help = "transmil's landmarks" },
    { INTEGER("head.samples", samples), .initial = "8", .min = 1, .max = 1024,
      .help = "clam: patches of highest and of lowest attention in the instance loss" },
    { REAL("head.instance_weight", instance_weight), .initial = "0.3", .min = 0, .max = 1,
      .help = "clam: share of the instance loss" },
    { REAL("head.dropout", dropout), HRF_HEAD_DROPOUT },
    { WORD("split.by", split, recipe_split, split_names), .initial = "folds",
      .help = "folds: k folds by patient; column: the column split of the labels (training, "
              "validation, testing)" },
    { INTEGER("split.folds", folds), HRF_HEAD_FOLDS },
    { INTEGER("split.seed", split_seed), .initial = "1", .min = 0, .max = 1e15,
      .help = "of the draws of the split" },
    { REAL("split.validation", validation), HRF_HEAD_VALIDATION },
    { TEXTS("train.seeds", seeds), NOT_IN_KEY, .initial = "[1]",
      .help = "each seed is a training of every fold" },
    { INTEGER("train.epochs", epochs), HRF_HEAD_EPOCHS },
    { INTEGER("train.patience", patience), HRF_HEAD_PATIENCE },
    { INTEGER("train.min_epochs", min_epochs), .initial = "0", .min = 0, .max = 100000,
      .help = "but not before" },
    { WORD("train.optimizer", optimizer, recipe_optimizer, optimizer_names), .initial = "adam",
      .help = "as PyTorch's" },
    { REAL("train.learning_rate", learning_rate), HRF_HEAD_LEARNING_RATE },
    { REAL("train.weight_decay", weight_decay), HRF_HEAD_WEIGHT_DECAY },
    { WORD("train.class_weights", class_weights, recipe_weights, class_weight_names),
      .initial = "none",
      .help = "balanced: a slide's loss times slides / (classes * slides of its class)" },
    { BOOLEAN("train.shuffle", shuffle), .initial = "true",
      .help = "false: the slides in the order of the labels, every epoch" },
    { PATH("out", out), REQUIRED, NOT_IN_KEY, .help = "folder for what is made" },
};
static const struct hrf_setting_table table = { rows, sizeof rows / sizeof rows[0] };

void hrf_recipe_destroy(struct hrf_recipe *recipe)
{
    if (recipe == NULL)
        return;
    for (size_t i = 0; i < table.n; i++)
        hrf_setting_release(&rows[i], recipe);
    hrf_free(recipe);
}

void hrf_recipe_print_keys(struct hrf_strbuf *out)
{
    hrf_settings_describe(table, out);
}

void hrf_recipe_describe(const struct hrf_recipe *recipe, struct hrf_strbuf *out)
{
    hrf_settings_of_phase(table, recipe, HRF_FOR_TRAINING, out);
}

static void check(struct hrf_reader *r, const struct hrf_recipe *recipe)
{
    hrf_reader_find_twice(r, "labels.classes", &recipe->classes);
    hrf_reader_find_twice(r, "train.seeds", &recipe->seeds);
    if (recipe->classes.n_items == 1)
        hrf_reader_find(r, 0, 0,
                        "'labels.classes' has one class only; a head tells at least two apart");
    for (size_t i = 0; i < recipe->seeds.n_items; i++)
        if (!hrf_trainings_is_seed(recipe->seeds.items[i]))
            hrf_reader_find(r, 0, 0, "'train.seeds' has '%s'; it must be whole numbers, 0 to 1e15",
                            recipe->seeds.items[i]);
}

enum hrf_status hrf_recipe_parse(const char *text, size_t n_bytes, const char *where,
                                 const char *folder, struct hrf_recipe **out,
                                 struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO(hrf_yaml) yaml = NULL;
    HRF_TRY(hrf_yaml_parse(text, n_bytes, where, &yaml, err));
    HRF_AUTO(hrf_recipe) recipe = hrf_calloc(1, sizeof *recipe);
    HRF_AUTO_RELEASE(hrf_reader) reader;
    hrf_reader_init(&reader, table, recipe, where, folder);
    HRF_TRY(hrf_reader_defaults(&reader, err));
    if (hrf_reader_begin(&reader, "a recipe", hrf_yaml_root(yaml))) {
        hrf_reader_map(&reader, "", hrf_yaml_root(yaml));
        hrf_reader_require(&reader);
        check(&reader, recipe);
    }
    HRF_TRY(hrf_reader_finish(&reader, findings, err));
    HRF_MOVE(*out, recipe);
    return HRF_OK;
}

enum hrf_status hrf_recipe_read(const char *path, struct hrf_recipe **out,
                                struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL, *folder = hrf_path_directory(path);
    size_t n = 0;
    HRF_TRY(hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n, err));
    return hrf_recipe_parse(text, n, path, folder, out, findings, err);
}
