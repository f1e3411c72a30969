/* patch_cutter.c - see patch_cutter.h. */
#include "training/cutting/patch_cutter.h"

#include "base/array.h"
#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/min_max.h"
#include "base/path.h"
#include "base/random.h"
#include "image/png_write.h"
#include "tiler/plan/tile.h"
#include "tiler/slide/slide.h"
#include "training/cutting/patch_labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one slide ---- */

struct cut {
    const struct hrf_train_recipe *recipe;
    const struct hrf_workflow_tiler *tiler;
    const char *settings;     /* what its patches depend on beside its files, as text */
    bool is_bag;              /* all patches are cut, without labels */
    char *slide, *annotation; /* paths; annotation NULL: none */
    char *name, *patient;     /* of the slide */
    char *folder;             /* of its pictures */
    char key[HRF_HASH_HEX];   /* of what they depend on */
    struct hrf_error error;   /* HRF_OK: it is cut */
    bool is_left_out;         /* for the reason in `error` */
};

static void cut_release(struct cut *cut)
{
    hrf_free(cut->name);
    hrf_free(cut->patient);
    hrf_free(cut->folder);
    hrf_free(cut->slide);
    hrf_free(cut->annotation);
}

/* A slide that cannot be read is left out, as by a run. Other failures, such as a disk that does
 * not answer, are no property of the slide. */
static enum hrf_status of_slide(struct cut *cut, enum hrf_status status)
{
    cut->is_left_out = status == HRF_E_USER || status == HRF_E_UNSUPPORTED;
    return status;
}

/* What the pictures of a slide depend on; they are there if its file says the same. */
static enum hrf_status make_key(struct cut *cut, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    char content[HRF_HASH_HEX], of_annotation[HRF_HASH_HEX] = "";
    HRF_TRY(of_slide(cut, hrf_slide_content(cut->slide, HRF_CONTENT_SPREAD, content, err)));
    if (cut->annotation != NULL)
        HRF_TRY(hrf_hash_file(cut->annotation, of_annotation, err));
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, content);
    hrf_hash_text(hash, of_annotation);
    hrf_hash_text(hash, cut->settings);
    hrf_hash_hex(hash, cut->key);
    return HRF_OK;
}

/* The patches that are cut, with their classes. */
struct chosen {
    int64_t *patches, *labels; /* labels NULL: of a bag */
    int64_t n;
};

static void chosen_release(struct chosen *chosen)
{
    hrf_free(chosen->patches);
    hrf_free(chosen->labels);
}

/* Draws at most recipe->slide_patches of each class, by the slide's name. */
static void choose(const struct cut *cut, const struct hrf_tile_plan *plan,
                   const struct hrf_patch_labels *labels, struct chosen *out)
{
    const struct hrf_train_recipe *r = cut->recipe;
    const size_t n = (size_t)plan->n_patches;
    HRF_AUTO_FREE int64_t *all = hrf_alloc_array(n + 1, sizeof *all);
    HRF_AUTO_FREE int64_t *pool = hrf_alloc_array(n + 1, sizeof *pool);
    struct hrf_random random = hrf_random_init(hrf_hash_fnv(cut->name, strlen(cut->name)) ^
                                               (uint64_t)r->split_seed);
    out->patches = hrf_alloc_array(n + 1, sizeof *out->patches);
    out->labels = hrf_alloc_array(n + 1, sizeof *out->labels);
    for (int64_t i = 0; i < plan->n_patches; i++)
        all[i] = hrf_patch_labels_find(labels, plan, &plan->patches[i],
                                       r->output == HRF_LABEL_PIXELS ? 0 : r->min_overlap);
    for (int64_t k = 0; k < (int64_t)r->classes.n_items; k++) {
        int64_t n_pool = 0;
        for (int64_t i = 0; i < plan->n_patches; i++)
            if (all[i] == k)
                pool[n_pool++] = i;
        const int64_t n_drawn = hrf_min(n_pool, r->slide_patches);
        hrf_random_draw(&random, pool, n_pool, n_drawn);
        for (int64_t i = 0; i < n_drawn; i++) {
            out->patches[out->n] = pool[i];
            out->labels[out->n++] = k;
        }
    }
}

static enum hrf_status write_picture(const struct cut *cut, const char *file,
                                     const unsigned char *pixels, int64_t side, int n_channels,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *png = NULL;
    HRF_AUTO_FREE char *path = hrf_path_join(cut->folder, file);
    size_t n_bytes = 0;
    HRF_TRY(hrf_png_write(pixels, side, side, n_channels,
                          n_channels == 1 ? HRF_PNG_FLAT : HRF_PNG_PHOTO, &png, &n_bytes, err));
    return hrf_file_write_atomic(path, png, n_bytes, err);
}

/* Draws the mask of a patch beside its picture, and writes its cell of the table. */
static enum hrf_status write_mask(const struct cut *cut, const struct hrf_tile_plan *plan,
                                  const struct hrf_patch_labels *labels, const struct hrf_patch *at,
                                  struct hrf_strbuf *table, struct hrf_error *err)
{
    const int64_t side = plan->patch_size;
    HRF_AUTO_FREE unsigned char *mask = hrf_alloc_array((size_t)side, (size_t)side);
    HRF_AUTO_FREE char *file = hrf_format("%d_%d_mask.png", (int)at->x, (int)at->y);
    HRF_AUTO_FREE char *named = hrf_path_join(cut->name, file);
    HRF_TRY(hrf_patch_labels_draw(labels, plan, at, mask, err));
    hrf_csv_add_cell(table, named);
    return write_picture(cut, file, mask, side, 1, err);
}

static void choose_all(const struct hrf_tile_plan *plan, struct chosen *out)
{
    out->patches = hrf_alloc_array((size_t)plan->n_patches + 1, sizeof *out->patches);
    for (out->n = 0; out->n < plan->n_patches; out->n++)
        out->patches[out->n] = out->n;
}

static enum hrf_status cut_patches(struct cut *cut, const struct hrf_tile_plan *plan,
                                   const struct hrf_patch_labels *labels,
                                   const struct chosen *chosen, struct hrf_strbuf *table,
                                   struct hrf_error *err)
{
    const struct hrf_train_recipe *r = cut->recipe;
    const int64_t side = plan->patch_size;
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array((size_t)side, (size_t)side * 3);
    HRF_TRY(of_slide(cut, hrf_slide_open(cut->slide, &slide, err)));
    HRF_TRY(of_slide(cut, hrf_patch_reader_create(slide, plan->mpp_x, plan->mpp_y, side,
                                                  plan->patch_mpp, &reader, err)));
    for (int64_t i = 0; i < chosen->n; i++) {
        const struct hrf_patch *at = &plan->patches[chosen->patches[i]];
        HRF_AUTO_FREE char *file = hrf_format("%d_%d.png", (int)at->x, (int)at->y);
        HRF_AUTO_FREE char *named = hrf_path_join(cut->name, file);
        HRF_TRY(of_slide(cut, hrf_patch_reader_read(reader, at->x, at->y, rgb, NULL, NULL, err)));
        HRF_TRY(write_picture(cut, file, rgb, side, 3, err));
        if (chosen->labels == NULL) {
            hrf_strbuf_addf(table, "%s\n", file);
            continue;
        }
        hrf_csv_add_cell(table, named);
        hrf_strbuf_addc(table, ',');
        if (r->output == HRF_LABEL_PIXELS)
            HRF_TRY(write_mask(cut, plan, labels, at, table, err));
        else
            hrf_csv_add_cell(table, r->classes.items[chosen->labels[i]]);
        hrf_strbuf_addc(table, ',');
        hrf_csv_add_cell(table, cut->patient);
        hrf_strbuf_addc(table, '\n');
    }
    return HRF_OK;
}

/* *labels: NULL for a bag. */
static enum hrf_status choose_patches(struct cut *cut, const struct hrf_tile_plan *plan,
                                      struct hrf_patch_labels **labels, struct chosen *out,
                                      struct hrf_error *err)
{
    if (!cut->is_bag) {
        HRF_TRY(hrf_patch_labels_read(cut->annotation, &cut->recipe->classes, plan, labels, err));
        choose(cut, plan, *labels, out);
        return HRF_OK;
    }
    choose_all(plan, out);
    if (out->n > 0)
        return HRF_OK;
    return of_slide(cut, hrf_error_set(err, HRF_E_USER, "no tissue was found on it"));
}

/* The rows of the slide's patches, which are cut unless they are there; of a bag their files. */
static enum hrf_status cut_slide(struct cut *cut, struct hrf_strbuf *rows, struct hrf_error *err)
{
    HRF_AUTO_FREE char *table = hrf_path_join(cut->folder, "patches.csv"), *there = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_AUTO_RELEASE(chosen) chosen = { .n = 0 };
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_patch_labels) labels = NULL;
    size_t n = 0;
    HRF_TRY(make_key(cut, err));
    /* The first line is the key. */
    if (hrf_file_read(table, SIZE_MAX / 2, &there, &n, NULL) == HRF_OK && n >= HRF_HASH_HEX &&
        strncmp(there, cut->key, HRF_HASH_HEX - 1) == 0 && there[HRF_HASH_HEX - 1] == '\n') {
        hrf_strbuf_add(rows, there + HRF_HASH_HEX, n - HRF_HASH_HEX);
        return HRF_OK;
    }
    HRF_TRY(hrf_path_remove_tree(cut->folder, err));
    HRF_TRY(hrf_path_make_directories(cut->folder, err));
    HRF_TRY(of_slide(
        cut, hrf_tile_slide(cut->slide, cut->tiler, 0, cut->recipe->slide_mpp, NULL, &plan, err)));
    HRF_TRY(choose_patches(cut, plan, &labels, &chosen, err));
    hrf_strbuf_addf(&text, "%s\n", cut->key);
    HRF_TRY(cut_patches(cut, plan, labels, &chosen, &text, err));
    HRF_TRY(hrf_file_write_atomic(table, text.text, text.length, err));
    hrf_strbuf_add(rows, text.text + HRF_HASH_HEX, text.length - HRF_HASH_HEX);
    fprintf(stderr, "%s: %lld patches of %lld\n", cut->name, (long long)chosen.n,
            (long long)plan->n_patches);
    return HRF_OK;
}

/* ---- all slides ---- */

/* NAME.xml, NAME.geojson, NAME_mask.tif ... in the folder of annotations; NULL: there is none. */
static char *find_annotation(const struct hrf_train_recipe *r, const char *name)
{
    static const char *const suffixes[] = { ".xml",      ".geojson",  ".json",     "_mask.tif",
                                            "_Mask.tif", "_mask.png", "_mask.tiff" };
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        HRF_AUTO_FREE char *file = hrf_format("%s%s", name, suffixes[i]);
        char *path = hrf_path_join(r->annotations, file);
        if (hrf_path_exists(path))
            return path;
        hrf_free(path);
    }
    return NULL;
}

static void fill_cut(struct cut *cut, const struct hrf_train_recipe *r, const char *file,
                     const char *folder)
{
    cut->slide = hrf_path_join(r->slides, file);
    cut->name = hrf_path_stem(file);
    cut->folder = hrf_path_join(folder, cut->name);
    cut->annotation = find_annotation(r, cut->name);
    const char *until = r->patient_until, *end = NULL;
    if (until != NULL && until[0] != '\0')
        end = strstr(cut->name, until);
    cut->patient = end != NULL ? hrf_strndup(cut->name, (size_t)(end - cut->name))
                               : hrf_strdup(cut->name);
}

static enum hrf_status make_tiler(const struct hrf_train_recipe *r, struct hrf_workflow **out,
                                  struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *size = hrf_format("tiler.patch.size=%lld", (long long)r->patch_size);
    HRF_AUTO_FREE char *mpp = hrf_format("tiler.patch.mpp=%.17g", r->mpp);
    const char *const overrides[] = { size, mpp };
    return hrf_workflow_parse_tiler(overrides, 2, out, findings, err);
}

/* rows[i] are those of cuts[i], or it has the error. */
static void cut_side_by_side(struct cut *cuts, struct hrf_strbuf *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct hrf_strbuf)HRF_STRBUF_INIT;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < n; i++)
        cuts[i].error.status = cut_slide(&cuts[i], &rows[i], &cuts[i].error);
}

/* The table has the order of the slides' names. */
static enum hrf_status cut_all(struct cut *cuts, size_t n, struct hrf_strbuf *table,
                               struct hrf_left_outs *left_out, struct hrf_findings *findings,
                               struct hrf_error *err)
{
    struct hrf_strbuf *rows = hrf_calloc(n + 1, sizeof *rows);
    const bool is_masked = n > 0 && cuts[0].recipe->output == HRF_LABEL_PIXELS;
    size_t n_wrong = 0;
    cut_side_by_side(cuts, rows, n);
    hrf_strbuf_addf(table, "path,%s,patient\n", is_masked ? "mask" : "label");
    for (size_t i = 0; i < n; i++) {
        const bool is_wrong = cuts[i].error.status != HRF_OK && !cuts[i].is_left_out;
        if (cuts[i].error.status == HRF_OK)
            hrf_strbuf_add(table, rows[i].text, rows[i].length);
        hrf_strbuf_release(&rows[i]);
        if (cuts[i].is_left_out)
            hrf_left_outs_add(left_out, cuts[i].name, cuts[i].error.text);
        if (is_wrong)
            hrf_findings_add(findings, cuts[i].slide, 0, cuts[i].error.text);
        n_wrong += is_wrong;
    }
    hrf_free(rows);
    if (left_out->n_items == n)
        return hrf_error_set(err, HRF_E_USER, "none of %zu slides can be used", n);
    return n_wrong == 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "%zu of %zu slides cannot be used", n_wrong, n);
}

char *hrf_patch_cutter_table(const struct hrf_train_recipe *recipe)
{
    return hrf_path_join(recipe->out, "patches/patches.csv");
}

static enum hrf_status cut_folder(struct hrf_train_recipe *r,
                                  const struct hrf_workflow_tiler *tiler, const char *settings,
                                  struct hrf_left_outs *left_out, struct hrf_findings *findings,
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_strbuf) table = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *path = hrf_patch_cutter_table(r), *folder = hrf_path_directory(path);
    size_t n = 0;
    HRF_TRY(hrf_path_list_directory(r->slides, &names, err));
    struct cut *cuts = hrf_calloc(names.n_items + 1, sizeof *cuts);
    for (size_t i = 0; i < names.n_items; i++)
        if (hrf_sample_is_slide(names.items[i])) {
            cuts[n] = (struct cut){ .recipe = r, .tiler = tiler, .settings = settings };
            fill_cut(&cuts[n++], r, names.items[i], folder);
        }
    enum hrf_status status = n > 0
                                 ? cut_all(cuts, n, &table, left_out, findings, err)
                                 : hrf_error_set(err, HRF_E_USER, "'%s' has no slides", r->slides);
    for (size_t i = 0; i < n; i++)
        cut_release(&cuts[i]);
    hrf_free(cuts);
    HRF_TRY(status);
    HRF_TRY(hrf_file_write_atomic(path, table.text, table.length, err));
    HRF_MOVE(r->csv, path);
    return HRF_OK;
}

enum hrf_status hrf_patch_cutter_run(struct hrf_train_recipe *recipe, const char *version,
                                     struct hrf_left_outs *left_out, struct hrf_findings *findings,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) settings = HRF_STRBUF_INIT;
    HRF_TRY(make_tiler(recipe, &workflow, findings, err));
    hrf_strbuf_addf(&settings, "%s\n", version);
    hrf_train_recipe_describe(recipe, HRF_FOR_TILES, &settings);
    return cut_folder(recipe, &workflow->tiler, settings.text, left_out, findings, err);
}

/* ---- bags ---- */

static enum hrf_status cut_bags(struct cut *cuts, struct hrf_strbuf *rows, size_t n,
                                struct hrf_sample_list *list, struct hrf_left_outs *left_out,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE bool *is_kept = hrf_calloc(n + 1, sizeof *is_kept);
    size_t n_kept = 0, capacity = 0;
    int64_t n_patches = 0;
    cut_side_by_side(cuts, rows, n);
    for (size_t i = 0; i < n; i++) { /* others are no property of the slide */
        if (cuts[i].error.status != HRF_OK && !cuts[i].is_left_out)
            return hrf_error_pass(err, &cuts[i].error);
        is_kept[i] = !cuts[i].is_left_out;
        if (cuts[i].is_left_out)
            hrf_left_outs_add(left_out, list->items[i].name, cuts[i].error.text);
    }
    list->first_patch = hrf_calloc(n + 1, sizeof *list->first_patch);
    list->patches = hrf_calloc(1, sizeof *list->patches);
    for (size_t i = 0; i < n; i++) {
        if (!is_kept[i])
            continue;
        memcpy(list->items[i].sha256, cuts[i].key, sizeof cuts[i].key);
        for (const char *at = rows[i].text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
            HRF_AUTO_FREE char *file = hrf_strndup(at, (size_t)(end - at));
            HRF_RESERVE(list->patches, capacity, (size_t)n_patches + 1);
            list->patches[n_patches++] = hrf_path_join(cuts[i].folder, file);
        }
        list->first_patch[++n_kept] = n_patches;
    }
    hrf_sample_list_keep(list, is_kept);
    list->side = cuts[0].recipe->patch_size;
    return n_kept > 0 ? HRF_OK
                      : hrf_error_set(err, HRF_E_USER, "none of %zu slides of '%s' can be used", n,
                                      list->set.labels);
}

enum hrf_status hrf_patch_cutter_bags(const struct hrf_train_recipe *recipe, const char *version,
                                      struct hrf_sample_list *list, struct hrf_left_outs *left_out,
                                      struct hrf_findings *findings, struct hrf_error *err)
{
    const size_t n = list->set.n_items;
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) settings = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&settings, "bags %s\n", version);
    hrf_train_recipe_describe(recipe, HRF_FOR_BAGS, &settings);
    HRF_TRY(make_tiler(recipe, &workflow, findings, err));
    HRF_AUTO_FREE struct cut *cuts = hrf_calloc(n + 1, sizeof *cuts);
    HRF_AUTO_FREE struct hrf_strbuf *rows = hrf_calloc(n + 1, sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        const char *file = hrf_path_name(list->items[i].path);
        HRF_AUTO_FREE char *under = hrf_path_join("patches", file);
        cuts[i] = (struct cut){ .recipe = recipe,
                                .tiler = &workflow->tiler,
                                .settings = settings.text,
                                .is_bag = true,
                                .slide = hrf_strdup(list->items[i].path),
                                .name = hrf_strdup(file),
                                .folder = hrf_path_join(recipe->out, under) };
    }
    const enum hrf_status status = cut_bags(cuts, rows, n, list, left_out, err);
    for (size_t i = 0; i < n; i++) {
        cut_release(&cuts[i]);
        hrf_strbuf_release(&rows[i]);
    }
    return status;
}
