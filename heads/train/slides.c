/* slides.c - labels and feature files of a training, and its splits. */
#include "heads/train/slides.h"

#include "base/csv.h"
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hrf_head_slides_destroy(struct hrf_head_slides *slides)
{
    if (slides == NULL)
        return;
    for (size_t i = 0; i < slides->n_items; i++) {
        hrf_free(slides->items[i].name);
        hrf_free(slides->items[i].patient);
        hrf_free(slides->items[i].path);
    }
    hrf_free(slides->items);
    hrf_free(slides->first_without_file);
    hrf_free(slides);
}

/* ---- labels ---- */

struct columns {
    int slide, label, patient, split, sha256; /* -1: there is none */
};

static enum hrf_status find_label(const struct hrf_recipe *recipe, const struct hrf_csv_row *row,
                                  const char *text, int64_t *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) all = HRF_STRBUF_INIT;
    for (int32_t k = 0; k < (int32_t)recipe->classes.n_items; k++) {
        if (strcmp(text, recipe->classes.items[k]) == 0) {
            *out = k;
            return HRF_OK;
        }
        hrf_strbuf_addf(&all, "%s%s", k > 0 ? ", " : "", recipe->classes.items[k]);
    }
    return hrf_error_set(err, HRF_E_USER, "%s:%d: label '%s' is none of labels.classes (%s)",
                         recipe->labels, row->line, text, all.text);
}

static enum hrf_status find_part(const struct hrf_recipe *recipe, const struct hrf_csv_row *row,
                                 const char *text, enum hrf_training_part *out,
                                 struct hrf_error *err)
{
    return hrf_training_part_find(text, out)
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "%s:%d: split '%s' is none of training, validation and testing",
                               recipe->labels, row->line, text);
}

/* The slide's file: SLIDE.h5, as a name may hold dots. */
static enum hrf_status add_slide(struct hrf_head_slides *s, const struct hrf_recipe *recipe,
                                 const struct hrf_csv_row *row, const struct columns *c,
                                 struct hrf_error *err)
{
    struct hrf_head_slide slide = { .line = row->line, .part = HRF_PART_TRAINING };
    const char *name = hrf_csv_cell(row, c->slide), *patient = hrf_csv_cell(row, c->patient);
    if (hrf_csv_cell(row, c->label)[0] == '\0') {
        s->n_unlabelled++;
        return HRF_OK;
    }
    if (name[0] == '\0' || strchr(name, '/') != NULL)
        return hrf_error_set(err, HRF_E_USER, "%s:%d: '%s' is no name of a slide", recipe->labels,
                             row->line, name);
    HRF_TRY(find_label(recipe, row, hrf_csv_cell(row, c->label), &slide.label, err));
    if (recipe->split == HRF_SPLIT_COLUMN)
        HRF_TRY(find_part(recipe, row, hrf_csv_cell(row, c->split), &slide.part, err));
    HRF_AUTO_FREE char *file = hrf_format("%s.h5", name);
    HRF_AUTO_FREE char *path = hrf_path_join(recipe->features, file);
    if (!hrf_path_exists(path)) {
        if (s->n_without_file++ == 0)
            s->first_without_file = hrf_strdup(name);
        return HRF_OK;
    }
    snprintf(slide.sha256, sizeof slide.sha256, "%s", hrf_csv_cell(row, c->sha256));
    slide.name = hrf_strdup(name);
    slide.patient = hrf_strdup(patient[0] != '\0' ? patient : name);
    HRF_MOVE(slide.path, path);
    s->items[s->n_items++] = slide;
    return HRF_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct hrf_head_slide *const *x = a, *const *y = b;
    const int order = strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : (*x)->line - (*y)->line;
}

/* Pointers to the slides in an order; heap. */
static struct hrf_head_slide **sorted(const struct hrf_head_slides *s,
                                      int (*order)(const void *, const void *))
{
    struct hrf_head_slide **list = hrf_alloc_array(s->n_items + 1, sizeof *list);
    for (size_t i = 0; i < s->n_items; i++)
        list[i] = &s->items[i];
    qsort(list, s->n_items, sizeof(struct hrf_head_slide *), order);
    return list;
}

static enum hrf_status check_unique(const struct hrf_head_slides *s,
                                    const struct hrf_recipe *recipe, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_head_slide **list = sorted(s, by_name);
    for (size_t i = 1; i < s->n_items; i++)
        if (strcmp(list[i]->name, list[i - 1]->name) == 0)
            return hrf_error_set(err, HRF_E_USER, "%s:%d: slide '%s' is already in line %d%s",
                                 recipe->labels, list[i]->line, list[i]->name, list[i - 1]->line,
                                 list[i]->label != list[i - 1]->label ? ", with another label"
                                                                      : "");
    return HRF_OK;
}

static enum hrf_status read_labels(struct hrf_head_slides *s, const struct hrf_recipe *recipe,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(recipe->labels, &csv, err));
    if (csv->n_rows < 2)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no slides", recipe->labels);
    const struct columns c = { hrf_csv_column(&csv->rows[0], "slide"),
                               hrf_csv_column(&csv->rows[0], "label"),
                               hrf_csv_column(&csv->rows[0], "patient"),
                               hrf_csv_column(&csv->rows[0], "split"),
                               hrf_csv_column(&csv->rows[0], "sha256") };
    if (c.slide < 0 || c.label < 0 || (c.split < 0 && recipe->split == HRF_SPLIT_COLUMN))
        return hrf_error_set(err, HRF_E_USER, "'%s' has no column '%s'", recipe->labels,
                             c.slide < 0   ? "slide"
                             : c.label < 0 ? "label"
                                           : "split");
    s->items = hrf_calloc(csv->n_rows, sizeof *s->items);
    for (size_t i = 1; i < csv->n_rows; i++)
        HRF_TRY(add_slide(s, recipe, &csv->rows[i], &c, err));
    if (s->n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no features of a labelled slide, e.g. '%s'",
                             recipe->features,
                             s->first_without_file != NULL ? s->first_without_file : "");
    return check_unique(s, recipe, err);
}

/* ---- features ---- */

/* What names the file in the keys of trainings is all its bytes: the same size may be another run's
 * embeddings. */
static enum hrf_status hash_features(struct hrf_head_slide *slide, struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_file(slide->path, found, err));
    if (slide->sha256[0] != '\0' && strcmp(slide->sha256, found) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has changed since the labels were written (SHA-256 %.12s..., "
                             "expected %.12s...)",
                             slide->path, found, slide->sha256);
    memcpy(slide->sha256, found, sizeof found);
    return HRF_OK;
}

/* Hashes the files side by side. Of several errors it returns that of the first slide. */
static enum hrf_status hash_all(struct hrf_head_slides *s, struct hrf_error *err)
{
    struct hrf_error first = { .status = HRF_OK };
    size_t at = s->n_items;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s->n_items; i++) {
        struct hrf_error why = { .status = HRF_OK };
        const enum hrf_status status = hash_features(&s->items[i], &why);
#pragma omp critical
        if (status != HRF_OK && i < at) {
            at = i;
            first = why;
        }
    }
    return at < s->n_items ? hrf_error_set(err, first.status, "%s", first.text) : HRF_OK;
}

static enum hrf_status look_at_features(struct hrf_head_slides *s, const struct hrf_recipe *recipe,
                                        struct hrf_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n_items; i++) {
        struct hrf_head_slide *slide = &s->items[i];
        struct hrf_bag_facts facts;
        HRF_TRY(hrf_bag_look(slide->path, recipe->set, slide->name, &facts, err));
        if (s->width == 0) {
            s->width = facts.width;
            memcpy(s->origin, facts.origin, sizeof s->origin);
        }
        if (facts.width != s->width)
            return hrf_error_set(
                err, HRF_E_USER, "'%s' has embeddings of %lld numbers, and '%s' of %lld",
                slide->path, (long long)facts.width, s->items[0].path, (long long)s->width);
        if (!recipe->features_mixed && strcmp(facts.origin, s->origin) != 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "the features of '%s' were made by something else (%s) than those "
                                 "of '%s' (%s): set features.mixed to true if that is meant",
                                 slide->name, hrf_bag_origin_shown(facts.origin), s->items[0].name,
                                 hrf_bag_origin_shown(s->origin));
        slide->n_patches = facts.n;
        if (facts.n == 0) { /* an empty slide: nothing to learn from */
            s->n_empty++;
            hrf_free(slide->name);
            hrf_free(slide->patient);
            hrf_free(slide->path);
            *slide = (struct hrf_head_slide){ .name = NULL };
            continue;
        }
        if (kept < i) {
            s->items[kept] = *slide;
            *slide = (struct hrf_head_slide){ .name = NULL };
        }
        kept++;
    }
    s->n_items = kept;
    return kept > 0 ? hash_all(s, err)
                    : hrf_error_set(err, HRF_E_USER, "'%s': every file is without a patch",
                                    recipe->features);
}

enum hrf_status hrf_head_slides_check_numbers(struct hrf_head_slides *slides,
                                              const struct hrf_recipe *recipe,
                                              struct hrf_error *err)
{
    enum { SHOWN = 4 };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_bag) bag = NULL;
    size_t n_wrong = 0;
    for (size_t i = 0; i < slides->n_items; i++) {
        struct hrf_error why = { .status = HRF_OK };
        const enum hrf_status status = hrf_bag_read(slides->items[i].path, recipe->set,
                                                    slides->width, &bag, &why);
        if (status == HRF_E_NOMEM)
            return hrf_error_set(err, status, "%s", why.text);
        if (status != HRF_OK && n_wrong++ < SHOWN)
            hrf_strbuf_addf(&text, "%s%s", n_wrong > 1 ? "\n" : "", why.text);
    }
    if (n_wrong > SHOWN)
        hrf_strbuf_addf(&text, "\n(and %zu more)", n_wrong - SHOWN);
    slides->is_read_once = n_wrong == 0;
    return n_wrong == 0 ? HRF_OK : hrf_error_set(err, HRF_E_USER, "%s", text.text);
}

/* ---- splits ---- */

void hrf_head_set_init(struct hrf_training_set *set, const struct hrf_head_slides *slides,
                       const struct hrf_recipe *recipe)
{
    *set = (struct hrf_training_set){ .items = hrf_calloc(slides->n_items + 1, sizeof *set->items),
                                      .n_items = slides->n_items,
                                      .is_by_folds = recipe->split == HRF_SPLIT_FOLDS,
                                      .n_folds = recipe->folds,
                                      .split_seed = recipe->split_seed,
                                      .validation = recipe->validation,
                                      .nouns = "slides",
                                      .labels = recipe->labels };
    for (size_t i = 0; i < slides->n_items; i++) {
        const struct hrf_head_slide *s = &slides->items[i];
        set->items[i] = (struct hrf_training_item){ s->name, s->patient, s->label,
                                                    s->part, s->fold,    s->line };
    }
}

struct first_conflict {
    const struct hrf_recipe *recipe;
    struct hrf_error *err;
    enum hrf_status status;
};

static void tell_conflict(void *context, const struct hrf_training_item *here,
                          const struct hrf_training_item *before)
{
    struct first_conflict *first = context;
    if (first->status == HRF_OK)
        first->status = hrf_error_set(
            first->err, HRF_E_USER,
            "%s:%d: patient '%s' is in %s here and in %s in line %d: the figures would be of "
            "slides that the head knows",
            first->recipe->labels, here->line, here->patient, hrf_training_parts[here->part],
            hrf_training_parts[before->part], before->line);
}

static enum hrf_status divide(struct hrf_head_slides *s, const struct hrf_recipe *recipe,
                              struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_training_set) set;
    hrf_head_set_init(&set, s, recipe);
    if (!set.is_by_folds) {
        struct first_conflict first = { recipe, err, HRF_OK };
        hrf_training_set_find_conflicts(&set, tell_conflict, &first);
        return first.status;
    }
    HRF_TRY(hrf_training_set_deal_folds(&set, err));
    for (size_t i = 0; i < s->n_items; i++)
        s->items[i].fold = set.items[i].fold;
    return HRF_OK;
}

enum hrf_status hrf_head_slides_read(const struct hrf_recipe *recipe, struct hrf_head_slides **out,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_head_slides) s = hrf_calloc(1, sizeof *s);
    HRF_TRY(read_labels(s, recipe, err));
    HRF_TRY(look_at_features(s, recipe, err));
    HRF_TRY(divide(s, recipe, err));
    HRF_MOVE(*out, s);
    return HRF_OK;
}

enum hrf_status hrf_head_slides_split(const struct hrf_head_slides *slides,
                                      const struct hrf_recipe *recipe, int64_t fold,
                                      enum hrf_training_part *parts, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_training_set) set;
    hrf_head_set_init(&set, slides, recipe);
    return hrf_training_set_split(&set, fold, parts, err);
}
