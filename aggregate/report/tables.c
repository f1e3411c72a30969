/* tables.c - writes labels, the study and patch scores as CSV and GeoJSON. */
#include "aggregate/report/tables.h"

#include "aggregate/plot/out.h"
#include "aggregate/report/geojson.h"
#include "aggregate/study/figure_rows.h"
#include "base/hash.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum hrf_status hrf_report_check_scores(const struct hrf_cohort *cohort,
                                        const struct hrf_tile_plan *plan,
                                        const struct hrf_scores *scores, struct hrf_error *err)
{
    if (scores->first_patch != 0 || scores->n_patches != plan->n_patches)
        return hrf_error_set(err, HRF_E_USER,
                             "the scores are of %lld patches from number %lld on, the tile plan "
                             "has %lld",
                             (long long)scores->n_patches, (long long)scores->first_patch,
                             (long long)plan->n_patches);
    if (cohort->is_embedding) /* of any width */
        return HRF_OK;
    if (scores->n_classes < 1 || (size_t)scores->n_classes != cohort->n_classes)
        return hrf_error_set(err, HRF_E_USER, "the scores have %d classes, and %zu are named",
                             scores->n_classes, cohort->n_classes);
    return HRF_OK;
}

/* A comma, and the number unless it is none. */
static void next_number(struct hrf_out *out, double value)
{
    hrf_out_adds(out, ",");
    if (!isnan(value))
        hrf_out_number(out, value);
}

static size_t n_slide_columns(const struct hrf_cohort *cohort)
{
    return hrf_cohort_scores_slides(cohort) ? cohort->n_classes : 0;
}

static size_t n_area_columns(const struct hrf_cohort *cohort)
{
    return cohort->is_segmentation ? cohort->n_classes : 0;
}

static void label_row(struct hrf_out *out, const struct hrf_cohort *cohort,
                      const struct hrf_cohort_slide *slide, size_t precision)
{
    const struct hrf_cohort_score *score = &slide->scores[precision];
    const char *reason = NULL;
    const enum hrf_slide_state state = hrf_cohort_outcome(slide, precision, &reason);
    hrf_out_csv(out, slide->name);
    hrf_out_adds(out, ",");
    hrf_out_csv(out, hrf_cohort_slide_label(cohort, score));
    next_number(out, score->known ? score->value : (double)NAN);
    hrf_out_addf(out, ",%s,", cohort->precisions[precision].name);
    if (cohort->is_regression && !isnan(slide->truth_number))
        hrf_out_number(out, slide->truth_number);
    else
        hrf_out_csv(out, hrf_cohort_truth_label(cohort, slide));
    hrf_out_addf(out, ",%s,", hrf_slide_state_word(state));
    hrf_out_csv(out, reason != NULL ? reason : "");
    for (size_t i = 0; i < n_slide_columns(cohort); i++)
        next_number(out, score->known && score->classes != NULL ? score->classes[i] : (double)NAN);
    for (size_t i = 0; i < n_area_columns(cohort); i++)
        next_number(out, hrf_cohort_area(score, i));
    for (size_t i = 0; i < n_area_columns(cohort); i++)
        next_number(out,
                    score->overlaps != NULL ? hrf_overlap_dice(&score->overlaps[i]) : (double)NAN);
    for (size_t i = 0; i < n_area_columns(cohort); i++)
        next_number(out,
                    score->overlaps != NULL ? hrf_overlap_iou(&score->overlaps[i]) : (double)NAN);
    hrf_out_adds(out, "\n");
}

/* A column for each of n classes, e.g. "score_tumor". */
static void class_columns(const struct hrf_cohort *cohort, const char *what, size_t n,
                          struct hrf_out *out)
{
    for (size_t k = 0; k < n; k++) {
        HRF_AUTO_FREE char *column = hrf_format("%s_%s", what, cohort->classes[k]);
        hrf_out_adds(out, ",");
        hrf_out_csv(out, column);
    }
}

enum hrf_status hrf_report_labels(const struct hrf_cohort *cohort, const char *path,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    hrf_out_adds(out, "slide,label,score,precision,truth,state,reason");
    class_columns(cohort, "score", n_slide_columns(cohort), out);
    class_columns(cohort, "mm2", n_area_columns(cohort), out);
    class_columns(cohort, "dice", n_area_columns(cohort), out);
    class_columns(cohort, "iou", n_area_columns(cohort), out);
    hrf_out_adds(out, "\n");
    for (size_t p = 0; p < cohort->n_precisions; p++)
        for (size_t i = 0; i < cohort->n_slides; i++)
            label_row(out, cohort, &cohort->slides[i], p);
    return hrf_out_commit(out, err);
}

/* The cells of one figure: its value, and the ends of its interval. */
static void study_cells(struct hrf_out *out, const struct hrf_figure_row *row,
                        const struct hrf_cohort_precision *p)
{
    int64_t n = 1;
    if (row->counted_at > 0)
        memcpy(&n, (const char *)p + row->counted_at, sizeof n);
    if (row->unit == HRF_UNIT_TEXT) {
        const char *text = row->text(p);
        hrf_out_csv(out, text != NULL ? text : "");
        return;
    }
    const double value = n > 0 ? hrf_figure_value(row, p) : (double)NAN;
    if (!isnan(value) && (row->unit == HRF_UNIT_COUNT || row->unit == HRF_UNIT_BYTES))
        hrf_out_addf(out, "%lld", (long long)value);
    else if (!isnan(value))
        hrf_out_number(out, value);
    if (row->interval_at > 0) {
        next_number(out, hrf_figure_interval(row, p).low);
        next_number(out, hrf_figure_interval(row, p).high);
    }
}

enum hrf_status hrf_report_study(const struct hrf_cohort *cohort, const char *path,
                                 struct hrf_error *err)
{
    const struct hrf_figure_row *columns[HRF_MAX_COLUMNS];
    const size_t n = hrf_figure_columns(hrf_precision_rows, HRF_IN_CSV, 0, 0, columns);
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    for (size_t k = 0; k < n; k++) {
        const char *name = hrf_figure_csv_name(columns[k]);
        hrf_out_addf(out, "%s%s", k > 0 ? "," : "", name);
        if (columns[k]->interval_at > 0)
            hrf_out_addf(out, ",%s_low,%s_high", name, name);
    }
    hrf_out_adds(out, "\n");
    for (size_t i = 0; i < cohort->n_precisions; i++)
        for (size_t k = 0; k < n; k++) {
            study_cells(out, columns[k], &cohort->precisions[i]);
            hrf_out_adds(out, k + 1 < n ? "," : "\n");
        }
    return hrf_out_commit(out, err);
}

static void flip_row(struct hrf_out *out, const struct hrf_cohort *cohort,
                     const struct hrf_cohort_precision *p, const struct hrf_patch_flip *flip)
{
    hrf_out_csv(out, cohort->slides[flip->slide].name);
    hrf_out_addf(out, ",%d,%d,", flip->at.x, flip->at.y);
    hrf_out_csv(out, p->name);
    hrf_out_adds(out, ",");
    hrf_out_csv(out, hrf_cohort_class(cohort, flip->reference_class));
    next_number(out, (double)flip->reference_score);
    hrf_out_adds(out, ",");
    hrf_out_csv(out, hrf_cohort_class(cohort, flip->new_class));
    next_number(out, (double)flip->score);
    next_number(out, (double)flip->difference);
    hrf_out_adds(out, "\n");
}

enum hrf_status hrf_report_patch_flips(const struct hrf_cohort *cohort, const char *path,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    hrf_out_adds(out, "slide,minx,miny,precision,reference_label,reference_score,label,score,"
                      "max_abs_difference\n");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        for (size_t k = 0; k < p->moved.difference.n_flips; k++)
            flip_row(out, cohort, p, &p->moved.difference.flips[k]);
    }
    return hrf_out_commit(out, err);
}

/* What the table of a slide's patches has beside their coordinates: probabilities, the attention of
 * a slide head, or nothing. */
struct patch_columns {
    const struct hrf_cohort *cohort;
    const struct hrf_scores *scores;
    const struct hrf_head_scores *head;
    size_t n;
};

static struct patch_columns columns_of(const struct hrf_cohort *cohort,
                                       const struct hrf_scores *scores,
                                       const struct hrf_head_scores *head)
{
    return (struct patch_columns){ cohort, scores, head,
                                   head != NULL           ? (size_t)head->n_branches
                                   : cohort->is_embedding ? 0 /* they are in files of their own */
                                                          : cohort->n_classes };
}

/* "prob_tumor"; "attention", or of a head with one attention for each class "attention_tumor". */
static char *column_name(const struct patch_columns *c, size_t k)
{
    const bool is_by_class = c->head == NULL || c->n == c->cohort->n_classes;
    const char *const start = c->head == NULL ? "prob" : "attention";
    return !is_by_class && c->n > 1       ? hrf_format("%s_%zu", start, k)
           : c->n == 1 && c->head != NULL ? hrf_strdup(start)
                                          : hrf_format("%s_%s", start, c->cohort->classes[k]);
}

static double column_value(const struct patch_columns *c, int64_t patch, size_t k)
{
    return c->head != NULL
               ? (double)c->head->attention[(int64_t)k * c->head->n_patches + patch]
               : (double)c->scores->probabilities[(size_t)patch * c->cohort->n_classes + k];
}

static void csv_header(const struct patch_columns *c, struct hrf_out *out)
{
    hrf_out_adds(out, "minx,miny,width,height");
    for (size_t k = 0; k < c->n; k++) {
        HRF_AUTO_FREE char *name = column_name(c, k);
        hrf_out_adds(out, ",");
        hrf_out_csv(out, name);
    }
    hrf_out_adds(out, "\n");
}

static enum hrf_status check_patches(const struct hrf_cohort *cohort,
                                     const struct hrf_tile_plan *plan,
                                     const struct hrf_scores *scores,
                                     const struct hrf_head_scores *head, struct hrf_error *err)
{
    HRF_TRY(hrf_report_check_scores(cohort, plan, scores, err));
    if (head != NULL && head->n_patches != plan->n_patches)
        return hrf_error_set(err, HRF_E_USER,
                             "the slide head's attention is of %lld patches, the tile plan has "
                             "%lld",
                             (long long)head->n_patches, (long long)plan->n_patches);
    return HRF_OK;
}

enum hrf_status hrf_report_patch_csv(const struct hrf_cohort *cohort,
                                     const struct hrf_tile_plan *plan,
                                     const struct hrf_scores *scores,
                                     const struct hrf_head_scores *head, const char *path,
                                     struct hrf_error *err)
{
    const struct patch_columns columns = columns_of(cohort, scores, head);
    HRF_TRY(check_patches(cohort, plan, scores, head, err));
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    csv_header(&columns, out);
    for (int64_t i = 0; i < plan->n_patches; i++) {
        hrf_out_addf(out, "%d,%d,%lld,%lld", plan->patches[i].x, plan->patches[i].y,
                     (long long)plan->patch_width0, (long long)plan->patch_height0);
        for (size_t k = 0; k < columns.n; k++) {
            hrf_out_adds(out, ",");
            hrf_out_number(out, column_value(&columns, i, k));
        }
        hrf_out_adds(out, "\n");
    }
    return hrf_out_commit(out, err);
}

/* The first px of cell i of n over a frame that begins at `from` and is `side` px wide. */
static long long cell_begin(int64_t from, int64_t side, int64_t i, int64_t n)
{
    return (long long)(from + i * side / n);
}

enum hrf_status hrf_report_class_map(const struct hrf_cohort *cohort,
                                     const struct hrf_tile_plan *plan,
                                     const struct hrf_class_map *map, const char *path,
                                     struct hrf_error *err)
{
    if (plan->n_patches != 1 || map->class_index < 0 ||
        (size_t)map->class_index >= cohort->n_classes)
        return hrf_error_set(err, HRF_E_USER, "the class map is of no class of the cohort");
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    HRF_AUTO_FREE char *name = hrf_format("activation_%s", cohort->classes[map->class_index]);
    hrf_out_adds(out, "minx,miny,width,height,");
    hrf_out_csv(out, name);
    hrf_out_adds(out, "\n");
    const struct hrf_patch *at = &plan->patches[0];
    for (int64_t j = 0; j < map->rows; j++)
        for (int64_t i = 0; i < map->columns; i++) {
            const long long x = cell_begin(at->x, plan->patch_width0, i, map->columns);
            const long long y = cell_begin(at->y, plan->patch_height0, j, map->rows);
            hrf_out_addf(out, "%lld,%lld,%lld,%lld,", x, y,
                         cell_begin(at->x, plan->patch_width0, i + 1, map->columns) - x,
                         cell_begin(at->y, plan->patch_height0, j + 1, map->rows) - y);
            hrf_out_number(out, (double)map->values[j * map->columns + i]);
            hrf_out_adds(out, "\n");
        }
    return hrf_out_commit(out, err);
}

/* From what names the patch. */
static enum hrf_status patch_id(const char *slide_name, const struct hrf_tile_plan *plan, int64_t i,
                                char id[37], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, "hires-flow patch");
    hrf_hash_text(hash, slide_name);
    hrf_hash_int(hash, plan->patches[i].x);
    hrf_hash_int(hash, plan->patches[i].y);
    hrf_hash_int(hash, plan->patch_width0);
    hrf_hash_int(hash, plan->patch_height0);
    return hrf_geojson_id(hash, id, err);
}

/* The most likely class; none for numbers, for attention, and where classes do not exclude each
 * other and none reaches the threshold. */
static void add_class(struct hrf_out *out, const struct patch_columns *c, int64_t patch)
{
    const struct hrf_cohort *cohort = c->cohort;
    size_t best = 0;
    if (c->head != NULL || c->n == 0 || cohort->is_regression)
        return;
    for (size_t k = 1; k < c->n; k++)
        best = column_value(c, patch, k) > column_value(c, patch, best) ? k : best;
    if (c->n == 1 || cohort->is_multilabel) {
        if (!(column_value(c, patch, best) >= cohort->threshold))
            return;
    }
    hrf_geojson_class(out, cohort, best);
    hrf_out_adds(out, ", ");
}

static void add_ring(struct hrf_out *out, const struct hrf_tile_plan *plan, int64_t i)
{
    char text[320]; /* ten numbers of at most 20 digits */
    const long long x0 = plan->patches[i].x, y0 = plan->patches[i].y;
    const long long x1 = x0 + plan->patch_width0, y1 = y0 + plan->patch_height0;
    snprintf(text, sizeof text,
             "[[[%lld.0, %lld.0], [%lld.0, %lld.0], [%lld.0, %lld.0], [%lld.0, %lld.0], "
             "[%lld.0, %lld.0]]]",
             x1, y0, x1, y1, x0, y1, x0, y0, x1, y0);
    hrf_out_adds(out, text);
}

static enum hrf_status add_feature(struct hrf_out *out, const struct patch_columns *columns,
                                   const char *slide_name, const struct hrf_tile_plan *plan,
                                   int64_t i, struct hrf_error *err)
{
    char id[37];
    HRF_TRY(patch_id(slide_name, plan, i, id, err));
    hrf_out_addf(out, "%s{\"type\": \"Feature\", \"id\": \"%s\", \"geometry\": ", i > 0 ? ", " : "",
                 id);
    hrf_out_adds(out, "{\"type\": \"Polygon\", \"coordinates\": ");
    add_ring(out, plan, i);
    hrf_out_adds(out, "}, \"properties\": {\"isLocked\": true, ");
    add_class(out, columns, i);
    hrf_out_adds(out, "\"measurements\": {");
    for (size_t k = 0; k < columns->n; k++) {
        HRF_AUTO_FREE char *name = column_name(columns, k);
        hrf_out_adds(out, k > 0 ? ", " : "");
        hrf_out_json(out, name);
        hrf_out_adds(out, ": ");
        hrf_out_number(out, column_value(columns, i, k));
    }
    hrf_out_adds(out, "}, \"objectType\": \"tile\"}}");
    return HRF_OK;
}

enum hrf_status hrf_report_patch_geojson(const struct hrf_cohort *cohort, const char *slide_name,
                                         const struct hrf_tile_plan *plan,
                                         const struct hrf_scores *scores,
                                         const struct hrf_head_scores *head, const char *path,
                                         struct hrf_error *err)
{
    const struct patch_columns columns = columns_of(cohort, scores, head);
    HRF_TRY(check_patches(cohort, plan, scores, head, err));
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_GZIP, &out, err));
    hrf_out_adds(out, "{\"type\": \"FeatureCollection\", \"features\": [");
    for (int64_t i = 0; i < plan->n_patches; i++)
        HRF_TRY(add_feature(out, &columns, slide_name, plan, i, err));
    hrf_out_adds(out, "]}");
    return hrf_out_commit(out, err);
}

enum hrf_status hrf_report_lesions(const struct hrf_cohort *cohort,
                                   const struct hrf_tile_plan *plan,
                                   const struct hrf_scores *scores, const char *path,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_AUTO_FREE struct hrf_detection *lesions = NULL;
    size_t n = 0;
    HRF_TRY(hrf_report_check_scores(cohort, plan, scores, err));
    HRF_TRY(hrf_lesions_of_patches(plan, scores->probabilities + cohort->positive,
                                   (size_t)scores->n_classes, &cohort->lesion_rule, &lesions, &n,
                                   err));
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    for (size_t i = 0; i < n; i++) {
        hrf_out_number(out, lesions[i].confidence);
        hrf_out_addf(out, ",%lld,%lld\n", (long long)lesions[i].x, (long long)lesions[i].y);
    }
    return hrf_out_commit(out, err);
}

/* ---- patches that are not scored as they are on the glass ---- */

static bool has_any(const struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_slides; i++)
        if (cohort->slides[i].n_white > 0 || cohort->slides[i].n_dropped > 0)
            return true;
    return false;
}

static void slide_rows(struct hrf_out *out, const struct hrf_cohort_slide *slide)
{
    for (int64_t i = 0; i < slide->n_white; i++) {
        hrf_out_csv(out, slide->name);
        hrf_out_addf(out, ",%d,%d,%lld,%lld,bad-tile,yes\n", slide->white_patches[i].x,
                     slide->white_patches[i].y, (long long)slide->patch_width0,
                     (long long)slide->patch_height0);
    }
    for (int64_t i = 0; i < slide->n_dropped; i++) {
        const struct hrf_dropped_patch *p = &slide->dropped[i];
        hrf_out_csv(out, slide->name);
        hrf_out_addf(out, ",%d,%d,%lld,%lld,%s,no\n", p->at.x, p->at.y,
                     (long long)slide->patch_width0, (long long)slide->patch_height0,
                     hrf_drop_reason_name((enum hrf_drop_reason)p->reason));
    }
}

enum hrf_status hrf_report_patch_quality(const struct hrf_cohort *cohort, const char *path,
                                         struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    if (!has_any(cohort))
        return unlink(path) == 0 || errno == ENOENT
                   ? HRF_OK
                   : hrf_error_set_errno(err, errno, "cannot remove '%s'", path);
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    hrf_out_adds(out, "slide,minx,miny,width,height,reason,scored\n");
    for (size_t i = 0; i < cohort->n_slides; i++)
        slide_rows(out, &cohort->slides[i]);
    return hrf_out_commit(out, err);
}
