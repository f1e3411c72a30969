/* sample_list.c - pictures from folders of classes or from a table (sample_list.h). */
#include "training/samples/sample_list.h"

#include "base/array.h"
#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "tiler/slide/picture.h"
#include "tiler/slide/slide.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void sample_release(struct hrf_sample *sample)
{
    hrf_free(sample->path);
    hrf_free(sample->patient);
    hrf_free(sample->name);
    hrf_free(sample->mask);
}

void hrf_sample_list_destroy(struct hrf_sample_list *list)
{
    if (list == NULL)
        return;
    for (size_t i = 0; i < list->set.n_items; i++)
        sample_release(&list->items[i]);
    hrf_free(list->items);
    for (int64_t i = 0; list->patches != NULL && i < list->first_patch[list->set.n_items]; i++)
        hrf_free(list->patches[i]);
    hrf_free(list->patches);
    hrf_free(list->first_patch);
    hrf_training_set_release(&list->set);
    hrf_free(list);
}

void hrf_sample_list_keep(struct hrf_sample_list *list, const bool *is_kept)
{
    struct hrf_training_set *set = &list->set;
    size_t n = 0;
    for (size_t i = 0; i < set->n_items; i++) {
        if (!is_kept[i]) {
            sample_release(&list->items[i]);
            continue;
        }
        list->items[n] = list->items[i];
        set->items[n] = set->items[i];
        for (size_t k = 0; k < set->n_classes && set->truths != NULL; k++)
            set->truths[n * set->n_classes + k] = set->truths[i * set->n_classes + k];
        n++;
    }
    set->n_items = n;
}

/* ---- one picture ---- */

/* Reads the header and, if `rgb` is not NULL, the pixels. */
static enum hrf_status read_picture(const char *path, struct hrf_picture_header *header,
                                    unsigned char *rgb, struct hrf_error *err)
{
    char reason[256] = "it is no PNG or JPEG", head[4] = { 0 };
    int fd = -1;
    HRF_TRY(hrf_file_open(path, &fd, err));
    const bool has_head = pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head;
    FILE *stream = fdopen(fd, "rb");
    if (stream == NULL) {
        close(fd);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to read '%s'", path);
    }
    bool is_read = false;
    if (has_head && memcmp(head, "\x89PNG", 4) == 0)
        is_read = hrf_png_read(stream, header, rgb, reason);
    else if (has_head && memcmp(head, "\xff\xd8\xff", 3) == 0)
        is_read = hrf_jpeg_read(stream, header, rgb, reason);
    fclose(stream);
    return is_read ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "'%s' cannot be read: %s", path, reason);
}

/* Reads the pixels of a picture or mask, which still has the size that was found. */
static enum hrf_status read_unchanged(const struct hrf_sample_list *list, const char *path,
                                      unsigned char *rgb, struct hrf_error *err)
{
    struct hrf_picture_header header;
    HRF_TRY(read_picture(path, &header, NULL, err));
    if (header.width != list->side || header.height != list->side)
        return hrf_error_set(err, HRF_E_USER, "'%s' has changed: it is %lld x %lld px now", path,
                             (long long)header.width, (long long)header.height);
    return read_picture(path, &header, rgb, err);
}

enum hrf_status hrf_sample_list_pixels(const struct hrf_sample_list *list, int64_t i,
                                       unsigned char *rgb, struct hrf_error *err)
{
    const char *path = list->patches != NULL ? list->patches[i] : list->items[i].path;
    return read_unchanged(list, path, rgb, err);
}

enum hrf_status hrf_sample_list_mask(const struct hrf_sample_list *list, int64_t i,
                                     unsigned char *rgb, unsigned char *classes,
                                     struct hrf_error *err)
{
    HRF_TRY(read_unchanged(list, list->items[i].mask, rgb, err));
    for (int64_t p = 0; p < list->side * list->side; p++)
        classes[p] = list->classes[rgb[3 * p]];
    return HRF_OK;
}

/* ---- what is found, and what is wrong with it ---- */

struct search {
    const struct hrf_train_recipe *recipe;
    struct hrf_sample_list *list;
    size_t sets_capacity, items_capacity, truths_capacity;
    struct hrf_findings *findings;
    size_t n_wrong;
    struct hrf_left_outs *left_out;
    struct hrf_text_list files; /* of the folder of slides that have labels */
};

/* What the mistakes are in, for messages. */
static const char *source_of(const struct hrf_train_recipe *recipe)
{
    return recipe->csv != NULL ? recipe->csv : recipe->folders;
}

static void wrong(struct search *s, const char *where, int line, const char *format, ...)
    HRF_PRINTF(4, 5);
/* The first of many mistakes are named, all are counted. */
static void wrong(struct search *s, const char *where, int line, const char *format, ...)
{
    enum { SHOWN = 20 };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    va_list args;
    if (s->n_wrong++ >= SHOWN)
        return;
    va_start(args, format);
    hrf_strbuf_vaddf(&text, format, args);
    va_end(args);
    hrf_findings_add(s->findings, where, line, text.text);
}

/* Takes path and patient. */
static void add_sample(struct search *s, const char *name, char *path, char *patient, int64_t label,
                       enum hrf_training_part part, int line)
{
    struct hrf_sample_list *list = s->list;
    const size_t n = list->set.n_items;
    HRF_RESERVE(list->items, s->items_capacity, n + 1);
    HRF_RESERVE(list->set.items, s->sets_capacity, n + 1);
    list->items[n] = (struct hrf_sample){ .path = path,
                                          .patient = patient,
                                          .name = hrf_strdup(name) };
    list->set.items[n] = (struct hrf_training_item){
        list->items[n].name, patient, label, part, 0, line
    };
    list->set.n_items++;
}

/* What stands before the text that ends the patient in the file's name; the name without it. */
static char *patient_of(const struct search *s, const char *name)
{
    const char *until = s->recipe->patient_until, *file = hrf_path_name(name);
    const char *end = until != NULL && until[0] != '\0' ? strstr(file, until) : NULL;
    return end != NULL ? hrf_strndup(file, (size_t)(end - file)) : hrf_strdup(name);
}

static bool is_picture(const char *name)
{
    HRF_AUTO_FREE char *ending = hrf_path_extension(name);
    return strcmp(ending, "png") == 0 || strcmp(ending, "jpg") == 0 || strcmp(ending, "jpeg") == 0;
}

bool hrf_sample_is_slide(const char *name)
{
    HRF_AUTO_FREE char *ending = hrf_path_extension(name);
    return hrf_slide_is_named(name) || is_picture(name) || strcmp(ending, "dcm") == 0;
}

/* ---- folders ---- */

/* The mask of the same name as the picture that was added last. */
static void add_mask(struct search *s, const char *name)
{
    HRF_AUTO_FREE char *stem = hrf_path_stem(name);
    HRF_AUTO_FREE char *folder = hrf_path_directory(name);
    HRF_AUTO_FREE char *file = hrf_format("%s.png", stem);
    HRF_AUTO_FREE char *masks = strcmp(folder, ".") == 0 ? hrf_strdup(s->recipe->masks)
                                                         : hrf_path_join(s->recipe->masks, folder);
    s->list->items[s->list->set.n_items - 1].mask = hrf_path_join(masks, file);
}

/* The pictures of one class, or with masks. */
static void find_in_class(struct search *s, const char *folder, const char *prefix, int64_t label,
                          enum hrf_training_part part)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    struct hrf_error why = { .status = HRF_OK };
    if (hrf_path_list_directory(folder, &names, &why) != HRF_OK) {
        wrong(s, folder, 0, "%s", why.text);
        return;
    }
    for (size_t i = 0; i < names.n_items; i++)
        if (is_picture(names.items[i])) {
            HRF_AUTO_FREE char *name = hrf_path_join(prefix, names.items[i]);
            add_sample(s, name, hrf_path_join(folder, names.items[i]), patient_of(s, name), label,
                       part, 0);
            if (s->recipe->masks != NULL)
                add_mask(s, name);
        }
}

/* A folder for each class; others are named, because a class that was forgotten is a mistake. */
static void find_in_classes(struct search *s, const char *folder, const char *prefix,
                            enum hrf_training_part part)
{
    const struct hrf_text_list *classes = &s->recipe->classes;
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    struct hrf_error why = { .status = HRF_OK };
    if (s->recipe->masks != NULL) {
        find_in_class(s, folder, prefix, 0, part);
        return;
    }
    if (hrf_path_list_directory(folder, &names, &why) != HRF_OK) {
        wrong(s, folder, 0, "%s", why.text);
        return;
    }
    for (size_t i = 0; i < names.n_items; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, names.items[i]);
        HRF_AUTO_FREE char *name = prefix[0] != '\0' ? hrf_path_join(prefix, names.items[i])
                                                     : hrf_strdup(names.items[i]);
        const int64_t label = hrf_label_find_class(classes, names.items[i]);
        if (!hrf_path_is_directory(path))
            continue;
        if (label < 0)
            wrong(s, path, 0, "the folder is none of 'classes'");
        else
            find_in_class(s, path, name, label, part);
    }
}

static void find_in_folders(struct search *s)
{
    const char *folder = s->recipe->folders;
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    struct hrf_error why = { .status = HRF_OK };
    if (s->recipe->split == HRF_TRAIN_BY_FOLDS) {
        find_in_classes(s, folder, "", HRF_PART_TRAINING);
        return;
    }
    if (hrf_path_list_directory(folder, &names, &why) != HRF_OK)
        wrong(s, folder, 0, "%s", why.text);
    for (size_t i = 0; i < names.n_items; i++) {
        enum hrf_training_part part;
        HRF_AUTO_FREE char *path = hrf_path_join(folder, names.items[i]);
        if (!hrf_path_is_directory(path))
            continue;
        if (hrf_training_part_find(names.items[i], &part))
            find_in_classes(s, path, names.items[i], part);
        else
            wrong(s, path, 0, "the folder is none of training, validation and testing");
    }
}

/* ---- table ---- */

static const char *const label_titles[HRF_N_LABEL_KINDS] = { "label", "label", "value", "mask" };

struct columns {
    int path, label, patient, part; /* -1: there is none */
    int *of_classes;                /* without `label`: one for each class; heap, else NULL */
};

static const char *name_column(const struct hrf_train_recipe *recipe)
{
    return hrf_train_recipe_is_of_slides(recipe) ? "slide" : "path";
}

/* The slide's file: it has the name itself, or an ending more. HRF_E_USER: it is not there, or more
 * than one is. */
static enum hrf_status find_slide(const struct search *s, const char *name, char **out,
                                  struct hrf_error *err)
{
    const char *folder = s->recipe->slides, *found = NULL;
    for (size_t i = 0; i < s->files.n_items; i++) {
        const char *file = s->files.items[i];
        HRF_AUTO_FREE char *stem = hrf_path_stem(file);
        if (strcmp(file, name) == 0) {
            found = file;
            break;
        }
        if (strcmp(stem, name) != 0 || !hrf_sample_is_slide(file))
            continue;
        if (found != NULL)
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s' may be '%s' or '%s' of '%s': write the ending, too", name,
                                 found, file, folder);
        found = file;
    }
    if (found == NULL)
        return hrf_error_set(err, HRF_E_USER, "there is no such slide in '%s'", folder);
    *out = hrf_path_join(folder, found);
    return HRF_OK;
}

/* A picture may have none of several labels. */
static bool has_label(const struct search *s, const struct hrf_csv_row *row,
                      const struct columns *c)
{
    if (c->of_classes == NULL)
        return s->recipe->output == HRF_LABEL_SEVERAL || hrf_csv_cell(row, c->label)[0] != '\0';
    for (size_t k = 0; k < s->recipe->classes.n_items; k++)
        if (hrf_csv_cell(row, c->of_classes[k])[0] != '\0')
            return true;
    return false;
}

/* False: the row is left out, or wrong. */
static bool find_file(struct search *s, const struct hrf_csv_row *row, const struct columns *c,
                      char **out)
{
    const char *name = hrf_csv_cell(row, c->path);
    const struct hrf_train_recipe *recipe = s->recipe;
    struct hrf_error why = { .status = HRF_OK };
    if (!hrf_train_recipe_is_of_slides(recipe)) {
        HRF_AUTO_FREE char *folder = hrf_path_directory(recipe->csv);
        *out = hrf_path_join(folder, name);
        return true;
    }
    if (!has_label(s, row, c))
        hrf_left_outs_add(s->left_out, name, "it has no label");
    else if (strchr(name, '/') != NULL)
        wrong(s, recipe->csv, row->line, "'%s' is no name of a slide", name);
    else if (find_slide(s, name, out, &why) == HRF_OK)
        return true;
    else
        hrf_left_outs_add(s->left_out, name, why.text);
    return false;
}

/* The truth in a row as a number for each class; false: it is wrong, and that is told. */
static bool read_truth(struct search *s, const struct hrf_csv_row *row, const struct columns *c,
                       float *truth)
{
    const struct hrf_train_recipe *recipe = s->recipe;
    struct hrf_error why = { .status = HRF_OK };
    if (recipe->output == HRF_LABEL_PIXELS) { /* its mask is read later */
        memset(truth, 0, recipe->classes.n_items * sizeof *truth);
        if (hrf_csv_cell(row, c->label)[0] == '\0')
            wrong(s, recipe->csv, row->line, "there is no mask");
        return hrf_csv_cell(row, c->label)[0] != '\0';
    }
    if (c->of_classes == NULL) {
        if (hrf_label_parse(recipe->output, hrf_csv_cell(row, c->label), &recipe->classes, truth,
                            &why) == HRF_OK)
            return true;
        wrong(s, recipe->csv, row->line, "%s", why.text);
        return false;
    }
    for (size_t k = 0; k < recipe->classes.n_items; k++) {
        const char *cell = hrf_csv_cell(row, c->of_classes[k]), *name = recipe->classes.items[k];
        const bool is_number = hrf_label_number(cell, &truth[k]);
        if (is_number && (recipe->output == HRF_LABEL_NUMBERS || truth[k] == 0 || truth[k] == 1))
            continue;
        wrong(s, recipe->csv, row->line, "'%s' is '%s'; it has to be %s", name, cell,
              recipe->output == HRF_LABEL_NUMBERS ? "a number" : "0 or 1");
        return false;
    }
    return true;
}

static void keep_truth(struct search *s, const float *truth)
{
    struct hrf_training_set *set = &s->list->set;
    const size_t n = set->n_classes, i = set->n_items - 1;
    void *truths = set->truths;
    hrf_array_reserve(&truths, &s->truths_capacity, set->n_items, n * sizeof *set->truths);
    set->truths = truths;
    memcpy(set->truths + i * n, truth, n * sizeof *truth);
}

static void take_row(struct search *s, const struct hrf_csv_row *row, const struct columns *c)
{
    const struct hrf_train_recipe *recipe = s->recipe;
    const char *path = hrf_csv_cell(row, c->path), *patient = hrf_csv_cell(row, c->patient);
    const bool is_class = recipe->output == HRF_LABEL_CLASS;
    HRF_AUTO_FREE float *truth = hrf_alloc_array(recipe->classes.n_items + 1, sizeof *truth);
    enum hrf_training_part part = HRF_PART_TRAINING;
    HRF_AUTO_FREE char *file = NULL;
    if (path[0] == '\0') {
        wrong(s, recipe->csv, row->line, "there is no %s", name_column(recipe));
        return;
    }
    if (!find_file(s, row, c, &file) || !read_truth(s, row, c, truth))
        return;
    if (recipe->split == HRF_TRAIN_BY_COLUMN &&
        !hrf_training_part_find(hrf_csv_cell(row, c->part), &part))
        wrong(s, recipe->csv, row->line, "part '%s' is none of training, validation and testing",
              hrf_csv_cell(row, c->part));
    char *named = patient[0] != '\0' ? hrf_strdup(patient) : patient_of(s, path);
    const int64_t label = is_class
                              ? hrf_label_find_class(&recipe->classes, hrf_csv_cell(row, c->label))
                              : 0;
    add_sample(s, path, file, named, label, part, row->line);
    file = NULL;
    if (!is_class)
        keep_truth(s, truth);
    if (recipe->output == HRF_LABEL_PIXELS) {
        HRF_AUTO_FREE char *folder = hrf_path_directory(recipe->csv);
        s->list->items[s->list->set.n_items - 1].mask = hrf_path_join(folder,
                                                                      hrf_csv_cell(row, c->label));
    }
}

/* A column for each class if there is no column of all; false: one is missing. */
static bool find_class_columns(struct search *s, const struct hrf_csv_row *titles,
                               struct columns *c)
{
    const struct hrf_train_recipe *recipe = s->recipe;
    const char *all = label_titles[recipe->output];
    if (c->label >= 0)
        return true;
    if (recipe->output == HRF_LABEL_CLASS || recipe->output == HRF_LABEL_PIXELS) {
        wrong(s, recipe->csv, 1, "there is no column '%s'", all);
        return false;
    }
    c->of_classes = hrf_alloc_array(recipe->classes.n_items + 1, sizeof *c->of_classes);
    for (size_t k = 0; k < recipe->classes.n_items; k++) {
        c->of_classes[k] = hrf_csv_column(titles, recipe->classes.items[k]);
        if (c->of_classes[k] < 0) {
            wrong(s, recipe->csv, 1, "there is neither a column '%s' nor one '%s'", all,
                  recipe->classes.items[k]);
            return false;
        }
    }
    return true;
}

static void find_in_table(struct search *s)
{
    const char *csv_path = s->recipe->csv;
    struct hrf_error why = { .status = HRF_OK };
    HRF_AUTO(hrf_csv) csv = NULL;
    if (hrf_csv_read(csv_path, &csv, &why) != HRF_OK) {
        wrong(s, csv_path, 0, "%s", why.text);
        return;
    }
    const struct hrf_csv_row none = { .n_fields = 0 };
    const struct hrf_csv_row *titles = csv->n_rows > 0 ? &csv->rows[0] : &none;
    const char *name = name_column(s->recipe);
    struct columns c = { hrf_csv_column(titles, name),
                         hrf_csv_column(titles, label_titles[s->recipe->output]),
                         hrf_csv_column(titles, "patient"), hrf_csv_column(titles, "part"), NULL };
    HRF_AUTO_FREE int *of_classes = NULL;
    if (c.path < 0)
        wrong(s, csv_path, 1, "there is no column '%s'", name);
    const bool has_labels = find_class_columns(s, titles, &c);
    of_classes = c.of_classes;
    if (c.part < 0 && s->recipe->split == HRF_TRAIN_BY_COLUMN)
        wrong(s, csv_path, 1, "there is no column 'part', by which split.by divides");
    if (hrf_train_recipe_is_of_slides(s->recipe) &&
        hrf_path_list_directory(s->recipe->slides, &s->files, &why) != HRF_OK)
        wrong(s, s->recipe->slides, 0, "%s", why.text);
    for (size_t i = 1; i < csv->n_rows && c.path >= 0 && has_labels; i++)
        take_row(s, &csv->rows[i], &c);
}

/* ---- checks ---- */

struct mask_look {
    uint32_t counts[256]; /* pixels of each value */
    char *why;            /* heap; NULL: it can be used */
};

static void look_at_mask(const struct search *s, struct hrf_sample *sample, struct mask_look *look)
{
    struct hrf_picture_header header;
    struct hrf_error why = { .status = HRF_OK };
    const int64_t side = s->list->side;
    if (read_picture(sample->mask, &header, NULL, &why) != HRF_OK) {
        look->why = hrf_strdup(why.text);
        return;
    }
    if (header.width != side || header.height != side) {
        look->why = hrf_format("'%s' is %lld x %lld px, and its picture %lld", sample->mask,
                               (long long)header.width, (long long)header.height, (long long)side);
        return;
    }
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array((size_t)(side * side) + 1, 3);
    if (read_picture(sample->mask, &header, rgb, &why) != HRF_OK ||
        hrf_hash_file(sample->mask, sample->mask_sha256, &why) != HRF_OK)
        look->why = hrf_strdup(why.text);
    for (int64_t p = 0; p < side * side && look->why == NULL; p++) {
        const unsigned char *v = rgb + 3 * p;
        if (v[0] != v[1] || v[0] != v[2])
            look->why = hrf_format("'%s' has colours; a pixel of a mask is the number of its class",
                                   sample->mask);
        look->counts[v[0]]++;
    }
}

/* What the values stand for, and how many pixels of each class a picture has. */
static void count_classes(struct search *s, struct mask_look *looks)
{
    struct hrf_sample_list *list = s->list;
    struct hrf_training_set *set = &list->set;
    const size_t n = set->n_classes;
    bool has[256] = { false };
    for (size_t i = 0; i < set->n_items; i++)
        for (int v = 0; v < 256; v++)
            has[v] = has[v] || looks[i].counts[v] > 0;
    for (size_t v = 0; v < 256; v++)
        list->classes[v] = v < n ? (unsigned char)v : HRF_NO_CLASS;
    if (n == 2 && !has[1]) /* masks of yes and no */
        list->classes[255] = 1;
    hrf_free(set->truths);
    set->truths = hrf_calloc(set->n_items * n + 1, sizeof *set->truths);
    for (size_t i = 0; i < set->n_items; i++)
        for (size_t v = 0; v < 256; v++) {
            if (looks[i].counts[v] == 0 || looks[i].why != NULL)
                continue;
            if (list->classes[v] != HRF_NO_CLASS)
                set->truths[i * n + list->classes[v]] += (float)looks[i].counts[v];
            else if (v != 255)
                wrong(s, set->labels, set->items[i].line,
                      "'%s' has the value %zu, and there are %zu classes, from 0",
                      list->items[i].mask, v, n);
        }
}

static void look_at_masks(struct search *s)
{
    struct hrf_sample_list *list = s->list;
    const size_t n = list->set.n_items;
    struct mask_look *looks = hrf_calloc(n + 1, sizeof *looks);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < n; i++)
        look_at_mask(s, &list->items[i], &looks[i]);
    for (size_t i = 0; i < n; i++)
        if (looks[i].why != NULL)
            wrong(s, list->set.labels, list->set.items[i].line, "%s", looks[i].why);
    list->has_masks = true;
    count_classes(s, looks);
    for (size_t i = 0; i < n; i++)
        hrf_free(looks[i].why);
    hrf_free(looks);
}

/* Header and hash of every file; threads take files, the findings are told in order. */
static void look_at_files(struct search *s)
{
    struct hrf_sample_list *list = s->list;
    const size_t n = list->set.n_items;
    struct look {
        struct hrf_picture_header header;
        char *why; /* heap; NULL: it can be read */
    };
    struct look *looks = hrf_calloc(n + 1, sizeof *looks);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < n; i++) {
        struct hrf_error why = { .status = HRF_OK };
        struct hrf_sample *sample = &list->items[i];
        if (read_picture(sample->path, &looks[i].header, NULL, &why) != HRF_OK ||
            (sample->sha256[0] == '\0' &&
             hrf_hash_file(sample->path, sample->sha256, &why) != HRF_OK))
            looks[i].why = hrf_strdup(why.text);
    }
    for (size_t i = 0; i < n; i++) {
        const struct hrf_picture_header *h = &looks[i].header;
        const char *where = source_of(s->recipe);
        const int line = list->set.items[i].line;
        if (looks[i].why != NULL)
            wrong(s, where, line, "%s", looks[i].why);
        else if (h->width != h->height)
            wrong(s, where, line, "'%s' is %lld x %lld px; pictures have to be square",
                  list->items[i].path, (long long)h->width, (long long)h->height);
        else if (list->side == 0)
            list->side = h->width;
        else if (h->width != list->side)
            wrong(s, where, line, "'%s' is %lld px a side, and those before it %lld",
                  list->items[i].path, (long long)h->width, (long long)list->side);
        hrf_free(looks[i].why);
    }
    hrf_free(looks);
}

static int by_path(const void *a, const void *b)
{
    const struct hrf_sample *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

static void check_unique(struct search *s)
{
    const struct hrf_sample_list *list = s->list;
    const size_t n = list->set.n_items;
    HRF_AUTO_FREE const struct hrf_sample **sorted = hrf_alloc_array(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &list->items[i];
    qsort(sorted, n, sizeof(const struct hrf_sample *), by_path);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i]->path, sorted[i - 1]->path) == 0)
            wrong(s, list->set.labels, list->set.items[sorted[i] - list->items].line,
                  "'%s' is there twice", sorted[i]->name);
}

static void check_classes(struct search *s)
{
    const struct hrf_train_recipe *recipe = s->recipe;
    const size_t n = recipe->classes.n_items;
    HRF_AUTO_FREE int64_t *counts = hrf_calloc(n + 1, sizeof *counts);
    HRF_AUTO_FREE float *truth = hrf_alloc_array(n + 1, sizeof *truth);
    for (size_t i = 0; i < s->list->set.n_items; i++) {
        hrf_training_set_truth(&s->list->set, i, n, truth);
        for (size_t k = 0; k < n; k++)
            counts[k] += truth[k] > 0.5F;
    }
    for (size_t k = 0; k < n && recipe->output != HRF_LABEL_NUMBERS; k++)
        if (counts[k] == 0)
            wrong(s, source_of(recipe), 0, "class '%s' has no %s", recipe->classes.items[k],
                  s->list->set.nouns);
}

static void tell_conflict(void *context, const struct hrf_training_item *here,
                          const struct hrf_training_item *before)
{
    struct search *s = context;
    wrong(
        s, s->list->set.labels, here->line,
        "patient '%s' is in %s ('%s') and in %s ('%s'): the figures would be of patients that the "
        "network knows",
        here->patient, hrf_training_parts[here->part], here->name, hrf_training_parts[before->part],
        before->name);
}

static void check_split(struct search *s)
{
    struct hrf_training_set *set = &s->list->set;
    struct hrf_error why = { .status = HRF_OK };
    check_classes(s);
    if (s->recipe->output == HRF_LABEL_SEVERAL || s->recipe->output == HRF_LABEL_PIXELS)
        hrf_training_set_group(set);
    if (!set->is_by_folds)
        hrf_training_set_find_conflicts(set, tell_conflict, s);
    else if (hrf_training_set_deal_folds(set, &why) != HRF_OK)
        wrong(s, set->labels, 0, "%s", why.text);
}

static enum hrf_status tell_wrong(const struct search *s, struct hrf_error *err)
{
    return s->n_wrong == 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "'%s' has %zu error%s", source_of(s->recipe),
                               s->n_wrong, s->n_wrong == 1 ? "" : "s");
}

enum hrf_status hrf_sample_list_find(const struct hrf_train_recipe *recipe,
                                     struct hrf_sample_list **out, struct hrf_left_outs *left_out,
                                     struct hrf_findings *findings, struct hrf_error *err)
{
    const bool is_of_slides = hrf_train_recipe_is_of_slides(recipe);
    HRF_AUTO(hrf_sample_list) list = hrf_calloc(1, sizeof *list);
    struct search s = {
        .recipe = recipe, .list = list, .findings = findings, .left_out = left_out
    };
    list->set = (struct hrf_training_set){ .is_by_folds = recipe->split == HRF_TRAIN_BY_FOLDS,
                                           .kind = recipe->output,
                                           .n_classes = recipe->classes.n_items,
                                           .n_folds = recipe->folds,
                                           .split_seed = recipe->split_seed,
                                           /* of all others no epoch is chosen */
                                           .validation = recipe->method == HRF_METHOD_FINE_TUNING
                                                             ? recipe->validation
                                                             : 0,
                                           .nouns = is_of_slides ? "slides" : "pictures",
                                           .labels = source_of(recipe) };
    if (recipe->csv != NULL)
        find_in_table(&s);
    else
        find_in_folders(&s);
    hrf_text_list_release(&s.files);
    check_unique(&s);
    if (is_of_slides) { /* before they are read, which takes long */
        check_split(&s);
        HRF_TRY(tell_wrong(&s, err));
    }
    list->n_wrong = s.n_wrong;
    HRF_MOVE(*out, list);
    return HRF_OK;
}

enum hrf_status hrf_sample_list_check(struct hrf_sample_list *list,
                                      const struct hrf_train_recipe *recipe,
                                      struct hrf_findings *findings, struct hrf_error *err)
{
    struct search s = {
        .recipe = recipe, .list = list, .findings = findings, .n_wrong = list->n_wrong
    };
    if (list->patches == NULL)
        look_at_files(&s);
    if (recipe->output == HRF_LABEL_PIXELS)
        look_at_masks(&s);
    check_split(&s);
    return tell_wrong(&s, err);
}
