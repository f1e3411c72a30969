/* recipe.c - one table of keys reads and documents the file of `head train`. */
#include "heads/train/recipe.h"

#include "base/args.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/yaml/tree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum key_type { KEY_PATH, KEY_TEXT, KEY_LIST, KEY_WORD, KEY_INT, KEY_REAL, KEY_BOOL };

struct key {
    const char *path; /* "head.kind" */
    enum key_type type;
    size_t offset;
    const char *initial; /* NULL: none; "!": must be given */
    double min, max;
    const char *const *words;
    const char *help;
};
#define AT(member) offsetof(struct hrf_recipe, member)

static const char *const split_words[] = { "folds", "column", NULL };
static const char *const optimizer_words[] = { "adam", "adamw", NULL };
static const char *const weight_words[] = { "none", "balanced", NULL };

static const struct key keys[] = {
    { "features.folder", KEY_PATH, AT(features), "!", 0, 0, NULL,
      "folder of the HDF5 files, SLIDE.h5 for each slide of the labels" },
    { "features.set", KEY_TEXT, AT(set), NULL, 0, 0, NULL,
      "the data set in them; default: features, feats, or the only one in the group features" },
    { "features.mixed", KEY_BOOL, AT(features_mixed), "false", 0, 0, NULL,
      "true: features of different encoders, tilings or precisions are trained together on "
      "purpose" },
    { "labels.csv", KEY_PATH, AT(labels), "!", 0, 0, NULL,
      "table with the columns slide,label[,patient][,split]" },
    { "labels.classes", KEY_LIST, AT(classes), "!", 0, 0, NULL,
      "the words of the labels, in the order of the scores" },
    { "head.kind", KEY_WORD, AT(kind), "abmil", 0, 0, hrf_head_words, "the network" },
    { "head.hidden", KEY_INT, AT(hidden), "512", 1, 8192, NULL,
      "width of the first layer (not mean, dsmil)" },
    { "head.attention", KEY_INT, AT(attention), NULL, 1, 8192, NULL,
      "width of the attention; default 256, dsmil 128" },
    { "head.landmarks", KEY_INT, AT(landmarks), "256", 1, 4096, NULL, "transmil's landmarks" },
    { "head.samples", KEY_INT, AT(samples), "8", 1, 1024, NULL,
      "clam: patches of highest and of lowest attention in the instance loss" },
    { "head.instance_weight", KEY_REAL, AT(instance_weight), "0.3", 0, 1, NULL,
      "clam: share of the instance loss" },
    { "head.dropout", KEY_REAL, AT(dropout), NULL, 0, 0.9, NULL,
      "default 0.25; transmil 0.1; mean and dsmil 0" },
    { "split.by", KEY_WORD, AT(split), "folds", 0, 0, split_words,
      "folds: k folds by patient; column: the column split of the labels (training, validation, "
      "testing)" },
    { "split.folds", KEY_INT, AT(folds), "5", 2, 100, NULL, "how many folds" },
    { "split.seed", KEY_INT, AT(split_seed), "1", 0, 1e15, NULL, "of the draws of the split" },
    { "split.validation", KEY_REAL, AT(validation), "0.15", 0, 0.5, NULL,
      "share of the patients for training that is drawn for validation; 0: none, and the last "
      "epoch "
      "is kept" },
    { "train.seeds", KEY_LIST, AT(seeds), "1", 0, 0, NULL,
      "each seed is a training of every fold" },
    { "train.epochs", KEY_INT, AT(epochs), "50", 1, 100000, NULL, "passes over the slides" },
    { "train.patience", KEY_INT, AT(patience), "10", 1, 100000, NULL,
      "stop after so many epochs without a lower validation loss" },
    { "train.min_epochs", KEY_INT, AT(min_epochs), "0", 0, 100000, NULL, "but not before" },
    { "train.optimizer", KEY_WORD, AT(is_decoupled), "adam", 0, 0, optimizer_words,
      "as PyTorch's" },
    { "train.learning_rate", KEY_REAL, AT(learning_rate), "0.0002", 1e-9, 10, NULL, "" },
    { "train.weight_decay", KEY_REAL, AT(weight_decay), "0.00001", 0, 10, NULL, "" },
    { "train.class_weights", KEY_WORD, AT(is_balanced), "none", 0, 0, weight_words,
      "balanced: a slide's loss times slides / (classes * slides of its class)" },
    { "train.shuffle", KEY_BOOL, AT(shuffle), "true", 0, 0, NULL,
      "false: the slides in the order of the labels, every epoch" },
    { "out", KEY_PATH, AT(out), "!", 0, 0, NULL, "folder for what is made" },
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

struct reading {
    struct hrf_recipe *recipe;
    const char *where, *folder;
    struct hrf_strbuf *findings;
    bool is_given[N_KEYS], failed_memory;
    int n_findings;
};

static void HRF_PRINTF(3, 4)
    find(struct reading *r, const struct hrf_yaml_node *node, const char *format, ...)
{
    va_list args;
    if (node != NULL)
        hrf_strbuf_addf(r->findings, "%s:%d:%d: ", r->where, node->line, node->column);
    else
        hrf_strbuf_addf(r->findings, "%s: ", r->where);
    va_start(args, format);
    hrf_strbuf_vaddf(r->findings, format, args);
    va_end(args);
    hrf_strbuf_addc(r->findings, '\n');
    r->n_findings++;
}

/* ---- values ---- */

static bool parse_number(const char *text, double *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && isfinite(*out);
}

static void put_word(struct reading *r, const struct key *key, const struct hrf_yaml_node *node,
                     const char *text)
{
    void *place = (char *)r->recipe + key->offset;
    for (int i = 0; key->words[i] != NULL; i++)
        if (strcmp(text, key->words[i]) == 0) {
            if (key->offset == AT(kind))
                r->recipe->kind = (enum hrf_head_kind)i;
            else if (key->offset == AT(split))
                r->recipe->split = (enum hrf_recipe_split)i;
            else
                *(bool *)place = i == 1;
            return;
        }
    HRF_AUTO_RELEASE(hrf_strbuf) all = HRF_STRBUF_INIT;
    for (int i = 0; key->words[i] != NULL; i++)
        hrf_strbuf_addf(&all, "%s%s", i > 0 ? ", " : "", key->words[i]);
    find(r, node, "%s: '%s' is none of %s", key->path, text, all.text);
}

static void put_text(struct reading *r, const struct key *key, const char *text)
{
    char **place = (char **)(void *)((char *)r->recipe + key->offset);
    hrf_free(*place);
    *place = key->type == KEY_PATH ? hrf_path_join(r->folder, text) : hrf_strdup(text);
    r->failed_memory = r->failed_memory || *place == NULL;
}

static void put_scalar(struct reading *r, const struct key *key, const struct hrf_yaml_node *node,
                       const char *text)
{
    char *place = (char *)r->recipe + key->offset;
    double number = 0;
    switch (key->type) {
    case KEY_PATH:
    case KEY_TEXT:
        put_text(r, key, text);
        return;
    case KEY_WORD:
        put_word(r, key, node, text);
        return;
    case KEY_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            find(r, node, "%s: '%s' is neither true nor false", key->path, text);
        else
            *(bool *)(void *)place = text[0] == 't';
        return;
    case KEY_INT:
    case KEY_REAL:
        if (!parse_number(text, &number) || number < key->min || number > key->max ||
            (key->type == KEY_INT && floor(number) != number))
            find(r, node, "%s: '%s' is no %s from %g to %g", key->path, text,
                 key->type == KEY_INT ? "whole number" : "number", key->min, key->max);
        else if (key->type == KEY_INT)
            *(int64_t *)(void *)place = (int64_t)number;
        else
            *(double *)(void *)place = number;
        return;
    case KEY_LIST:
        break;
    }
    struct hrf_recipe_list *list = (struct hrf_recipe_list *)(void *)place;
    if (list->n_items == HRF_RECIPE_LIST) {
        find(r, node, "%s: at most %d entries", key->path, HRF_RECIPE_LIST);
        return;
    }
    list->items[list->n_items] = hrf_strdup(text);
    r->failed_memory = r->failed_memory || list->items[list->n_items++] == NULL;
}

static void put_node(struct reading *r, const struct key *key, const struct hrf_yaml_node *node)
{
    if (key->type == KEY_LIST && node->kind == HRF_YAML_SEQUENCE) {
        for (size_t i = 0; i < node->n_items; i++)
            if (node->items[i].value->kind == HRF_YAML_SCALAR)
                put_scalar(r, key, node->items[i].value, node->items[i].value->text);
            else
                find(r, node->items[i].value, "%s: an entry is a word", key->path);
    } else if (node->kind != HRF_YAML_SCALAR || hrf_yaml_is_null(node)) {
        find(r, node, "%s needs a value", key->path);
    } else {
        put_scalar(r, key, node, node->text);
    }
}

/* ---- the file ---- */

static void unknown(struct reading *r, const struct hrf_yaml_node *node, const char *path)
{
    const char *words[N_KEYS + 2];
    for (int i = 0; i < N_KEYS; i++)
        words[i] = keys[i].path;
    words[N_KEYS] = "version";
    words[N_KEYS + 1] = NULL;
    const char *near = hrf_nearest_word(path, words);
    find(r, node, "unknown key '%s'%s%s%s", path, near != NULL ? "; did you mean '" : "",
         near != NULL ? near : "", near != NULL ? "'?" : "");
}

static void read_map(struct reading *r, const struct hrf_yaml_node *map, const char *prefix)
{
    for (size_t i = 0; i < map->n_items; i++) {
        const struct hrf_yaml_item *item = &map->items[i];
        HRF_AUTO_FREE char *path = hrf_format("%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                                              item->key->text);
        int k = 0;
        if (path == NULL) {
            r->failed_memory = true;
            return;
        }
        while (k < N_KEYS && strcmp(keys[k].path, path) != 0)
            k++;
        if (item->duplicate_of != 0) {
            find(r, item->key, "'%s' is there twice, first in line %d", path, item->duplicate_of);
        } else if (k < N_KEYS) {
            r->is_given[k] = true;
            put_node(r, &keys[k], item->value);
        } else if (prefix[0] == '\0' && strcmp(path, "version") == 0) {
            if (item->value->kind != HRF_YAML_SCALAR || strcmp(item->value->text, "1") != 0)
                find(r, item->value, "version is 1");
        } else if (prefix[0] == '\0' && item->value->kind == HRF_YAML_MAP) {
            read_map(r, item->value, path);
        } else {
            unknown(r, item->key, path);
        }
    }
}

static void check(struct reading *r)
{
    const struct hrf_recipe *recipe = r->recipe;
    for (int i = 0; i < N_KEYS; i++)
        if (!r->is_given[i] && keys[i].initial != NULL && keys[i].initial[0] == '!')
            find(r, NULL, "%s is missing: %s", keys[i].path, keys[i].help);
        else if (!r->is_given[i] && keys[i].initial != NULL)
            put_scalar(r, &keys[i], NULL, keys[i].initial);
    for (int32_t i = 0; i < recipe->classes.n_items; i++)
        for (int32_t j = 0; j < i; j++)
            if (strcmp(recipe->classes.items[i], recipe->classes.items[j]) == 0)
                find(r, NULL, "labels.classes: '%s' is there twice", recipe->classes.items[i]);
    if (recipe->classes.n_items == 1)
        find(r, NULL, "labels.classes: one class only; a head tells at least two apart");
    for (int32_t i = 0; i < recipe->seeds.n_items; i++) {
        double seed = 0;
        if (!parse_number(recipe->seeds.items[i], &seed) || seed < 0 || seed > 1e15 ||
            floor(seed) != seed)
            find(r, NULL, "train.seeds: '%s' is no whole number from 0 to 1e15",
                 recipe->seeds.items[i]);
        for (int32_t j = 0; j < i; j++)
            if (strcmp(recipe->seeds.items[i], recipe->seeds.items[j]) == 0)
                find(r, NULL, "train.seeds: %s is there twice", recipe->seeds.items[i]);
    }
}

enum hrf_status hrf_recipe_parse(const char *text, size_t n_bytes, const char *where,
                                 const char *folder, struct hrf_recipe **out,
                                 struct hrf_strbuf *findings, struct hrf_error *err)
{
    HRF_AUTO(hrf_yaml) yaml = NULL;
    HRF_TRY(hrf_yaml_parse(text, n_bytes, where, &yaml, err));
    HRF_AUTO(hrf_recipe) recipe = hrf_calloc(1, sizeof *recipe);
    HRF_CHECK_MEMORY(recipe != NULL, err, "no memory for '%s'", where);
    recipe->dropout = -1;
    struct reading r = { .recipe = recipe, .where = where, .folder = folder, .findings = findings };
    if (hrf_yaml_root(yaml)->kind == HRF_YAML_MAP)
        read_map(&r, hrf_yaml_root(yaml), "");
    check(&r);
    HRF_CHECK_MEMORY(!r.failed_memory, err, "no memory for '%s'", where);
    HRF_TRY(hrf_strbuf_status(findings, err));
    if (r.n_findings > 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has %d mistake%s", where, r.n_findings,
                             r.n_findings == 1 ? "" : "s");
    HRF_MOVE(*out, recipe);
    return HRF_OK;
}

enum hrf_status hrf_recipe_read(const char *path, struct hrf_recipe **out,
                                struct hrf_strbuf *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL, *folder = hrf_path_directory(path);
    size_t n = 0;
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    HRF_TRY(hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n, err));
    return hrf_recipe_parse(text, n, path, folder, out, findings, err);
}

void hrf_recipe_destroy(struct hrf_recipe *recipe)
{
    if (recipe == NULL)
        return;
    for (int32_t i = 0; i < recipe->classes.n_items; i++)
        hrf_free(recipe->classes.items[i]);
    for (int32_t i = 0; i < recipe->seeds.n_items; i++)
        hrf_free(recipe->seeds.items[i]);
    hrf_free(recipe->features);
    hrf_free(recipe->set);
    hrf_free(recipe->labels);
    hrf_free(recipe->out);
    hrf_free(recipe);
}

void hrf_recipe_print_keys(struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "| key | default | |\n|---|---|---|\n");
    for (int i = 0; i < N_KEYS; i++) {
        const char *initial = keys[i].initial;
        hrf_strbuf_addf(out, "| `%s` | %s |", keys[i].path,
                        initial == NULL     ? ""
                        : initial[0] == '!' ? "must be given"
                                            : initial);
        for (int w = 0; keys[i].words != NULL && keys[i].words[w] != NULL; w++)
            hrf_strbuf_addf(out, "%s%s", w > 0 ? ", " : " ", keys[i].words[w]);
        hrf_strbuf_addf(out, "%s%s |\n",
                        keys[i].words != NULL     ? "; "
                        : keys[i].help[0] != '\0' ? " "
                                                  : "",
                        keys[i].help);
    }
}
