/* report_files.c - writes all files of results/ and report/ for a cohort. */
#include "aggregate/report/report_files.h"

#include "aggregate/camelyon16/asap.h"
#include "aggregate/report/geojson.h"
#include "aggregate/report/heatmap.h"
#include "aggregate/report/image.h"
#include "aggregate/report/methods.h"
#include "aggregate/report/page.h"
#include "aggregate/report/provenance_json.h"
#include "aggregate/report/report_json.h"
#include "aggregate/report/stale.h"
#include "aggregate/report/tables.h"
#include "aggregate/segmentation/mask_tiff.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/sort.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum form {
    FORM_CSV,
    FORM_GEOJSON,
    FORM_HEATMAP,
    FORM_HDF5,
    FORM_NPY,
    FORM_LESIONS,
    FORM_OUTLINES,
    FORM_TOP,
    FORM_MASK,
    FORM_REGIONS,
    FORM_CLASS_MAP,
    N_FORMS
};
static const struct hrf_stale_form forms[N_FORMS] = { { "model-outputs-csv", ".csv" },
                                                      { "model-outputs-geojson", ".geojson.gz" },
                                                      { "heatmaps", ".png" },
                                                      { "features", ".h5" },
                                                      { "features", ".npy" },
                                                      { "lesions", ".csv" },
                                                      { "lesions", ".geojson" },
                                                      { "top-patches", ".png" },
                                                      { "masks", ".tiff" },
                                                      { "masks", ".geojson.gz" },
                                                      { "class-maps", ".csv" } };

struct writer {
    struct hrf_cohort *cohort;
    const struct hrf_report_source *source;
    const struct hrf_report_options *options;
    const char *directory;
    bool wanted[N_FORMS];
    struct hrf_page_slide *extras; /* [n_slides] */
    int32_t thumbnail_side;        /* px */
    size_t n_failed;               /* slides whose files could not be made or written */
};

/* ---- folders ---- */

/* The folders of one precision, without what slides of an earlier cohort left there. `names`: the
 * cohort's files, sorted. */
static enum hrf_status prepare_forms(const struct writer *w, size_t precision,
                                     const char *const *names, struct hrf_error *err)
{
    for (size_t f = 0; f < N_FORMS; f++) {
        HRF_AUTO_FREE char *path = hrf_format("%s/results/%s/%s", w->directory,
                                              w->cohort->precisions[precision].name,
                                              forms[f].folder);
        if (w->wanted[f])
            HRF_TRY(hrf_path_make_directories(path, err));
        else if (!hrf_path_is_directory(path))
            continue;
        HRF_TRY(hrf_stale_files_remove(path, forms[f].suffix, names, w->cohort->n_slides, err));
    }
    return HRF_OK;
}

static enum hrf_status prepare_results(const struct writer *w, const char *results,
                                       struct hrf_error *err)
{
    const struct hrf_cohort *c = w->cohort;
    HRF_AUTO_FREE const char **files = hrf_calloc(c->n_slides + 1, sizeof *files);
    HRF_AUTO_FREE const char **names = hrf_calloc(c->n_precisions + 1, sizeof *names);
    for (size_t i = 0; i < c->n_slides; i++)
        files[i] = c->slides[i].file_name;
    qsort(files, c->n_slides, sizeof *files, hrf_compare_texts);
    for (size_t p = 0; p < hrf_cohort_n_timed(c); p++) { /* a jitter of stains leaves no files */
        names[p] = c->precisions[p].name;
        HRF_TRY(prepare_forms(w, p, files, err));
    }
    return hrf_stale_precisions_remove(results, forms, N_FORMS, names, hrf_cohort_n_timed(c), err);
}

static enum hrf_status prepare_folders(const struct writer *w, struct hrf_error *err)
{
    HRF_AUTO_FREE char *results = hrf_path_join(w->directory, "results");
    HRF_AUTO_FREE char *report = hrf_path_join(w->directory, "report");
    HRF_TRY(hrf_path_make_directories(results, err));
    HRF_TRY(hrf_stale_temporaries_remove(results, err));
    HRF_TRY(hrf_path_make_directories(report, err));
    HRF_TRY(hrf_stale_temporaries_remove(report, err));
    return prepare_results(w, results, err);
}

static char *slide_path(const struct writer *w, size_t slide, size_t precision, enum form f)
{
    return hrf_format("%s/results/%s/%s/%s%s", w->directory, w->cohort->precisions[precision].name,
                      forms[f].folder, w->cohort->slides[slide].file_name, forms[f].suffix);
}

/* What an earlier report wrote for a slide or a form that is no longer part of it. */
static enum hrf_status remove_stale(const struct writer *w, size_t slide, size_t precision,
                                    bool scored, struct hrf_error *err)
{
    for (size_t f = 0; f < N_FORMS; f++) {
        if (scored && w->wanted[f])
            continue;
        HRF_AUTO_FREE char *path = slide_path(w, slide, precision, (enum form)f);
        if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
            return hrf_error_set_errno(err, errno, "cannot remove '%s'", path);
    }
    return HRF_OK;
}

/* ---- one slide ---- */

/* A picture that cannot be made is a note; a disk or memory that is full is a failure. */
static enum hrf_status note_or_fail(struct hrf_page_slide *extra, enum hrf_status status,
                                    const char *what, const struct hrf_error *why,
                                    struct hrf_error *err)
{
    if (status != HRF_E_USER && status != HRF_E_EXTERNAL)
        return hrf_error_set(err, status, "%s: %s", what, why->text);
    hrf_free(extra->note);
    extra->note = hrf_format("%s: %s", what, why->text);
    return HRF_OK;
}

static enum hrf_status read_outlines(const struct hrf_cohort_slide *slide,
                                     struct hrf_page_slide *extra, struct hrf_outlines **outlines,
                                     struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    if (slide->annotation == NULL || hrf_annotation_is_mask(slide->annotation))
        return HRF_OK;
    enum hrf_status status = hrf_outlines_read(slide->annotation, outlines, &why);
    if (status != HRF_OK)
        return note_or_fail(extra, status, "no lesion outlines", &why, err);
    return HRF_OK;
}

/* Colours rounded to 5 bits: half the bytes, and no difference at this size. */
static enum hrf_status make_small(const struct hrf_image *map, int32_t side, struct hrf_bytes *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_image) small = { 0 };
    HRF_TRY(hrf_image_downsample(map, side, &small, err));
    size_t n = (size_t)small.width * (size_t)small.height * 3;
    for (size_t i = 0; i < n; i++) {
        unsigned v = (small.pixels[i] + 4u) >> 3;
        v = v > 31 ? 31 : v;
        small.pixels[i] = (unsigned char)(v << 3 | v >> 2);
    }
    return hrf_image_encode(&small, HRF_PNG_FLAT, out, err);
}

static enum hrf_status make_thumbnail(const struct hrf_image *map, int32_t side,
                                      struct hrf_page_slide *extra, struct hrf_error *err)
{
    hrf_bytes_release(&extra->thumbnail);
    return extra->is_left_out ? HRF_OK : make_small(map, side, &extra->thumbnail, err);
}

static enum hrf_status write_heatmap(const struct writer *w, size_t slide, size_t precision,
                                     const struct hrf_tile_plan *plan,
                                     const struct hrf_scores *scores,
                                     const struct hrf_outlines *outlines, struct hrf_error *err)
{
    struct hrf_page_slide *extra = &w->extras[slide];
    HRF_AUTO_RELEASE(hrf_image) map = { 0 };
    struct hrf_error why = { .status = HRF_OK };
    const bool is_map = scores->class_map.values != NULL || w->cohort->has_head;
    const enum hrf_heat_scale scale = is_map || w->cohort->is_regression ? HRF_HEAT_RISING
                                                                         : HRF_HEAT_CENTRED;
    const size_t shown = w->cohort->has_head ? 0 : w->cohort->positive;
    enum hrf_status status = hrf_heatmap_draw(plan, scores, shown, scale, outlines, &map, &why);
    if (status != HRF_OK)
        return note_or_fail(extra, status, "no heatmap", &why, err);
    HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_HEATMAP);
    /* Neither a class activation map nor attention is on the scale that the threshold is on. */
    double threshold = !is_map ? w->cohort->threshold : NAN;
    status = hrf_heatmap_write(&map, scale, threshold, path, err);
    if (status == HRF_OK && precision == 0 && w->options->html)
        status = make_thumbnail(&map, w->thumbnail_side, extra, err);
    extra->has_heatmap |= status == HRF_OK && precision == 0;
    return status;
}

/* The ranks of the patches' attention, as the scores of one class. */
static enum hrf_status write_attention_map(const struct writer *w, size_t slide, size_t precision,
                                           const struct hrf_tile_plan *plan,
                                           const struct hrf_head_scores *head,
                                           const struct hrf_outlines *outlines,
                                           struct hrf_error *err)
{
    HRF_AUTO_FREE float *ranks = hrf_try_alloc_array((size_t)head->n_patches, sizeof *ranks);
    HRF_CHECK_MEMORY(ranks != NULL, err, "no memory for the attention of %lld patches",
                     (long long)head->n_patches);
    HRF_TRY(hrf_head_scores_rank(head, w->cohort->positive, ranks, err));
    const struct hrf_scores view = { .n_patches = head->n_patches,
                                     .n_classes = 1,
                                     .probabilities = ranks };
    return write_heatmap(w, slide, precision, plan, &view, outlines, err);
}

static enum hrf_status write_top_patches(const struct writer *w, size_t slide, size_t precision,
                                         const struct hrf_head_scores *head, struct hrf_error *err)
{
    struct hrf_page_slide *extra = &w->extras[slide];
    HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_TOP);
    HRF_TRY(hrf_file_write_atomic(path, head->shown_png.data, head->shown_png.n_bytes, err));
    extra->has_top_patches = true;
    if (precision > 0 || !w->options->html || extra->is_left_out)
        return HRF_OK;
    HRF_AUTO_RELEASE(hrf_image) strip = { 0 };
    HRF_TRY(hrf_image_decode(&head->shown_png, 3, &strip, err));
    const int32_t side = w->thumbnail_side * 3; /* as many bytes as a thumbnail and a half */
    return make_small(&strip, side < strip.width ? side : strip.width, &extra->top_patches, err);
}

static enum hrf_status write_tables(const struct writer *w, size_t slide, size_t precision,
                                    const struct hrf_tile_plan *plan,
                                    const struct hrf_scores *scores,
                                    const struct hrf_head_scores *head, struct hrf_error *err)
{
    struct hrf_page_slide *extra = &w->extras[slide];
    if (w->wanted[FORM_CSV]) {
        HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_CSV);
        HRF_TRY(hrf_report_patch_csv(w->cohort, plan, scores, head, path, err));
        extra->has_csv = true;
    }
    if (w->wanted[FORM_GEOJSON] && (head != NULL || !w->cohort->is_embedding)) {
        HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_GEOJSON);
        HRF_TRY(hrf_report_patch_geojson(w->cohort, w->cohort->slides[slide].name, plan, scores,
                                         head, path, err));
        extra->has_geojson = true;
    }
    return HRF_OK;
}

static enum hrf_status next_rows(void *rows, const float **values, int64_t *n,
                                 struct hrf_error *err)
{
    return hrf_embeddings_next(rows, values, n, err);
}

static enum hrf_status write_features(const struct writer *w, size_t slide, size_t precision,
                                      enum form form, const struct hrf_tile_plan *plan,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_embeddings) rows = NULL;
    HRF_AUTO_FREE char *path = slide_path(w, slide, precision, form);
    HRF_TRY(w->source->embeddings(w->source->context, slide, precision, &rows, err));
    const struct hrf_features features = { .plan = plan,
                                           .slide = w->cohort->slides[slide].file_name,
                                           .encoder = w->options->encoder,
                                           .precision = w->cohort->precisions[precision].name,
                                           .model = w->options->model_sha256,
                                           .preparation = w->options->preparation,
                                           .width = rows->width,
                                           .next = next_rows,
                                           .rows = rows };
    HRF_TRY(
        hrf_features_write(w->options->features, w->options->half_features, &features, path, err));
    w->extras[slide].features = forms[form].suffix;
    return HRF_OK;
}

/* What segmentation networks give. */
static enum hrf_status write_mask(const struct writer *w, size_t slide, size_t precision,
                                  const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_mask) mask = NULL;
    HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_MASK);
    HRF_AUTO_FREE char *regions = slide_path(w, slide, precision, FORM_REGIONS);
    HRF_TRY(hrf_mask_create(plan, &scores->labels, scores->n_classes, &mask, err));
    if (w->wanted[FORM_MASK])
        HRF_TRY(hrf_mask_tiff_write(mask, (const char *const *)w->cohort->classes, path, err));
    if (w->wanted[FORM_REGIONS])
        HRF_TRY(hrf_report_mask_outlines(w->cohort, w->cohort->slides[slide].name, mask,
                                         &w->cohort->slides[slide].scores[precision], regions,
                                         err));
    w->extras[slide].has_mask = w->wanted[FORM_MASK];
    w->extras[slide].has_regions = w->wanted[FORM_REGIONS];
    return HRF_OK;
}

/* Of a network for which no map can be made there is none. */
static enum hrf_status write_class_map(const struct writer *w, size_t slide, size_t precision,
                                       const struct hrf_tile_plan *plan,
                                       const struct hrf_scores *scores, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_CLASS_MAP);
    if (scores->class_map.values != NULL)
        return hrf_report_class_map(w->cohort, plan, &scores->class_map, path, err);
    return unlink(path) == 0 || errno == ENOENT
               ? HRF_OK
               : hrf_error_set_errno(err, errno, "cannot remove '%s'", path);
}

static enum hrf_status write_precision(const struct writer *w, size_t slide, size_t precision,
                                       const struct hrf_tile_plan *plan,
                                       const struct hrf_outlines *outlines, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO(hrf_head_scores) head = NULL;
    HRF_TRY(w->source->scores(w->source->context, slide, precision, &scores, err));
    HRF_TRY(hrf_report_check_scores(w->cohort, plan, scores, err));
    if (w->cohort->has_head && w->cohort->slides[slide].scores[precision].known)
        HRF_TRY(w->source->head_scores(w->source->context, slide, precision, &head, err));
    const struct hrf_head_scores *const looked = head != NULL && head->n_branches > 0 ? head : NULL;
    HRF_TRY(write_tables(w, slide, precision, plan, scores, looked, err));
    for (enum form f = FORM_HDF5; f <= FORM_NPY; f++)
        if (w->wanted[f])
            HRF_TRY(write_features(w, slide, precision, f, plan, err));
    if (w->wanted[FORM_MASK] || w->wanted[FORM_REGIONS])
        HRF_TRY(write_mask(w, slide, precision, plan, scores, err));
    if (w->wanted[FORM_CLASS_MAP])
        HRF_TRY(write_class_map(w, slide, precision, plan, scores, err));
    if (w->wanted[FORM_LESIONS]) {
        HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_LESIONS);
        HRF_TRY(hrf_report_lesions(w->cohort, plan, scores, path, err));
    }
    if (w->wanted[FORM_OUTLINES]) {
        HRF_AUTO_FREE char *path = slide_path(w, slide, precision, FORM_OUTLINES);
        HRF_TRY(hrf_report_lesion_outlines(w->cohort, w->cohort->slides[slide].name, plan, scores,
                                           outlines, path, err));
    }
    if (w->wanted[FORM_HEATMAP] && looked != NULL)
        HRF_TRY(write_attention_map(w, slide, precision, plan, looked, outlines, err));
    else if (w->wanted[FORM_HEATMAP] && !w->cohort->is_embedding)
        HRF_TRY(write_heatmap(w, slide, precision, plan, scores, outlines, err));
    if (w->wanted[FORM_TOP] && looked != NULL && looked->n_shown > 0)
        HRF_TRY(write_top_patches(w, slide, precision, looked, err));
    return HRF_OK;
}

/* Shows a slide that has no heatmap as it is: one on which no tissue was found, so that one can see
 * why, or one that has embeddings. */
static enum hrf_status show_plain_slide(const struct writer *w, size_t index, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO_RELEASE(hrf_image) image = { 0 };
    struct hrf_error why = { .status = HRF_OK };
    HRF_TRY(w->source->tile_plan(w->source->context, index, &plan, err));
    if (plan->thumbnail_png.n_bytes == 0)
        return HRF_OK;
    enum hrf_status status = hrf_image_decode(&plan->thumbnail_png, 3, &image, &why);
    if (status != HRF_OK)
        return note_or_fail(&w->extras[index], status, "no thumbnail", &why, err);
    status = make_thumbnail(&image, w->thumbnail_side, &w->extras[index], err);
    return status;
}

/* What lacks for every slide ends the report. */
static bool is_of_one_slide(enum hrf_status status)
{
    return status == HRF_E_USER || status == HRF_E_EXTERNAL || status == HRF_E_UNSUPPORTED;
}

/* The files of one precision of a slide could not be made or written. */
static void fail_precision(struct writer *w, size_t index, size_t precision,
                           const struct hrf_error *why)
{
    struct hrf_cohort_slide *slide = &w->cohort->slides[index];
    struct hrf_cohort_score *score = &slide->scores[precision];
    const char *name = w->cohort->precisions[precision].name;
    char *failure = hrf_format("its files are not complete: %s", why->text);
    char *reason = slide->reason != NULL ? hrf_format("%s; %s: %s", slide->reason, name, failure)
                                         : hrf_format("%s: %s", name, failure);
    hrf_free(score->failure);
    hrf_free(slide->reason);
    score->failure = failure;
    slide->reason = reason;
}

static enum hrf_status write_scored(const struct writer *w, size_t index, size_t precision,
                                    struct hrf_tile_plan **plan, struct hrf_outlines **outlines,
                                    struct hrf_error *err)
{
    bool any = false;
    for (size_t f = 0; f < N_FORMS; f++)
        any |= w->wanted[f];
    if (!any)
        return HRF_OK;
    if (*plan == NULL) {
        HRF_TRY(w->source->tile_plan(w->source->context, index, plan, err));
        if (w->wanted[FORM_HEATMAP] || w->wanted[FORM_OUTLINES])
            HRF_TRY(read_outlines(&w->cohort->slides[index], &w->extras[index], outlines, err));
    }
    return write_precision(w, index, precision, *plan, *outlines, err);
}

static enum hrf_status write_slide(struct writer *w, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_slide *slide = &w->cohort->slides[index];
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_outlines) outlines = NULL;
    bool has_failed = false;
    for (size_t p = 0; p < hrf_cohort_n_timed(w->cohort); p++) {
        const bool scored = slide->scores[p].known || slide->scores[p].has_features ||
                            (slide->is_head_trained_on && w->cohort->has_forest);
        struct hrf_error why = { .status = HRF_OK };
        enum hrf_status status = remove_stale(w, index, p, scored, &why);
        if (status == HRF_OK && scored)
            status = write_scored(w, index, p, &plan, &outlines, &why);
        if (status != HRF_OK && !is_of_one_slide(status))
            return hrf_error_set(err, status, "%s", why.text);
        if (status != HRF_OK)
            fail_precision(w, index, p, &why);
        has_failed |= status != HRF_OK;
    }
    const bool is_plain = slide->state == HRF_SLIDE_NO_TISSUE ||
                          (w->cohort->is_embedding && slide->state == HRF_SLIDE_DONE &&
                           !w->extras[index].has_heatmap);
    if (is_plain && slide->n_patches >= 0 && w->options->html && !w->extras[index].is_left_out)
        HRF_TRY(show_plain_slide(w, index, err));
    if (has_failed && slide->state == HRF_SLIDE_DONE) {
        slide->state = HRF_SLIDE_FAILED;
        w->cohort->counts.done--;
        w->cohort->counts.failed++;
    }
    w->n_failed += has_failed;
    hrf_crash_point("report.slide");
    return HRF_OK;
}

/* ---- all ---- */

static enum hrf_status write_cohort(const struct writer *w, struct hrf_error *err)
{
    HRF_AUTO_FREE char *labels = hrf_path_join(w->directory, "results/labels.csv");
    HRF_AUTO_FREE char *flips = hrf_path_join(w->directory, "results/patch-flips.csv");
    HRF_AUTO_FREE char *quality = hrf_path_join(w->directory, "results/patch-quality.csv");
    HRF_AUTO_FREE char *study = hrf_path_join(w->directory, "report/study.csv");
    HRF_AUTO_FREE char *json = hrf_path_join(w->directory, "report/report.json");
    HRF_AUTO_FREE char *methods = hrf_path_join(w->directory, "report/methods.md");
    HRF_AUTO_FREE char *provenance = hrf_path_join(w->directory, "report/provenance.json");
    HRF_AUTO_FREE char *page = hrf_path_join(w->directory, "report/index.html");
    char now[24];
    hrf_clock_iso8601(hrf_clock_wall_ms(), now);
    const char *made_at = w->options->made_at != NULL ? w->options->made_at : now;
    HRF_TRY(hrf_report_labels(w->cohort, labels, err));
    HRF_TRY(hrf_report_patch_flips(w->cohort, flips, err));
    HRF_TRY(hrf_report_patch_quality(w->cohort, quality, err));
    HRF_TRY(hrf_report_study(w->cohort, study, err));
    hrf_crash_point("report.labels");
    HRF_TRY(hrf_report_json(w->cohort, json, err));
    hrf_crash_point("report.json");
    HRF_TRY(hrf_report_methods(w->cohort, methods, err));
    HRF_TRY(hrf_report_provenance(w->cohort, w->directory, made_at, provenance, err));
    if (!w->options->html) {
        if (unlink(page) != 0 && errno != ENOENT)
            return hrf_error_set_errno(err, errno, "cannot remove '%s'", page);
        return HRF_OK;
    }
    return hrf_report_page(w->cohort, w->extras, made_at, page, err);
}

static enum hrf_status write_all(struct writer *w, struct hrf_error *err)
{
    HRF_TRY(prepare_folders(w, err));
    hrf_page_choose_slides(w->cohort, w->extras);
    for (size_t i = 0; i < w->cohort->n_slides; i++) {
        enum hrf_status status = write_slide(w, i, err);
        if (status != HRF_OK)
            return hrf_error_wrap(err, status, "results of the slide '%s'",
                                  w->cohort->slides[i].name);
        if (w->options->on_slide != NULL)
            w->options->on_slide(w->options->on_slide_context, i + 1, w->cohort->n_slides);
    }
    return write_cohort(w, err);
}

/* A click shows a picture as large as it is in the page, so that a page that is sent to somebody
 * has them all. They get smaller as cohorts grow: some 4 MB of 24 slides or 1,000. */
static int32_t thumbnail_side(size_t n_slides)
{
    return n_slides <= 24 ? 480 : n_slides <= 60 ? 320 : n_slides <= 200 ? 160 : 80;
}

enum hrf_status hrf_report_write(struct hrf_cohort *cohort, const struct hrf_report_source *source,
                                 const struct hrf_report_options *options, const char *directory,
                                 size_t *n_failed, struct hrf_error *err)
{
    const bool finds_lesions = !cohort->is_embedding &&
                               cohort->lesion_rule.method != HRF_LESIONS_NONE;
    const bool is_npy = options->features == HRF_FEATURES_NPY;
    const bool has_maps = hrf_cohort_scores_slides(cohort); /* of patches, or attention */
    struct writer w = { .cohort = cohort,
                        .source = source,
                        .options = options,
                        .directory = directory,
                        .wanted = { [FORM_CSV] = options->csv,
                                    [FORM_GEOJSON] = options->geojson && has_maps,
                                    [FORM_HEATMAP] = options->heatmaps && has_maps,
                                    [FORM_HDF5] = cohort->is_embedding && !is_npy,
                                    [FORM_NPY] = cohort->is_embedding && is_npy,
                                    [FORM_CLASS_MAP] = options->class_maps,
                                    [FORM_MASK] = options->masks && cohort->is_segmentation,
                                    [FORM_REGIONS] = options->geojson && cohort->is_segmentation,
                                    [FORM_TOP] = options->heatmaps && cohort->has_head,
                                    [FORM_LESIONS] = finds_lesions,
                                    [FORM_OUTLINES] = finds_lesions && options->geojson },
                        .extras = hrf_calloc(cohort->n_slides + 1, sizeof *w.extras),
                        .thumbnail_side = thumbnail_side(cohort->n_slides) };
    enum hrf_status status = write_all(&w, err);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        hrf_free(w.extras[i].thumbnail.data);
        hrf_free(w.extras[i].top_patches.data);
        hrf_free(w.extras[i].note);
    }
    hrf_free(w.extras);
    if (status == HRF_OK && n_failed != NULL)
        *n_failed = w.n_failed;
    return status;
}
