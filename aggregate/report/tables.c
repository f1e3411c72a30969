/* tables.c - writes labels, the study and patch scores as CSV and GeoJSON. */
#include "aggregate/report/tables.h"

#include "aggregate/report/geojson.h"
#include "aggregate/report/out.h"
#include "base/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
        return hrf_error_set(err, HRF_E_USER, "the scores have %d classes, the workflow names %zu",
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

/* Of probabilities; embeddings are in files of their own, a row each in the same order. */
static size_t n_patch_columns(const struct hrf_cohort *cohort)
{
    return cohort->is_embedding ? 0 : cohort->n_classes;
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
static enum hrf_status class_columns(const struct hrf_cohort *cohort, const char *what, size_t n,
                                     struct hrf_out *out, struct hrf_error *err)
{
    for (size_t k = 0; k < n; k++) {
        HRF_AUTO_FREE char *column = hrf_format("%s_%s", what, cohort->classes[k]);
        HRF_CHECK_MEMORY(column != NULL, err, "no memory for the name of a column");
        hrf_out_adds(out, ",");
        hrf_out_csv(out, column);
    }
    return HRF_OK;
}

enum hrf_status hrf_report_labels(const struct hrf_cohort *cohort, const char *path,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    hrf_out_adds(out, "slide,label,score,precision,truth,state,reason");
    HRF_TRY(class_columns(cohort, "score", n_slide_columns(cohort), out, err));
    HRF_TRY(class_columns(cohort, "mm2", n_area_columns(cohort), out, err));
    HRF_TRY(class_columns(cohort, "dice", n_area_columns(cohort), out, err));
    HRF_TRY(class_columns(cohort, "iou", n_area_columns(cohort), out, err));
    hrf_out_adds(out, "\n");
    for (size_t p = 0; p < cohort->n_precisions; p++)
        for (size_t i = 0; i < cohort->n_slides; i++)
            label_row(out, cohort, &cohort->slides[i], p);
    return hrf_out_commit(out, err);
}

static const char study_columns[] =
    "precision,device,patches,patches_compared,patch_agreement,patch_flips,max_abs_difference,"
    "mean_abs_difference,slides_labelled,slide_auc,slide_auc_low,slide_auc_high,auc_difference,"
    "auc_difference_low,auc_difference_high,patch_auc,patch_auc_low,patch_auc_high,"
    "patch_auc_difference,patch_auc_difference_low,patch_auc_difference_high,delong_p,slide_"
    "accuracy,slide_flips,calibration_error,"
    "patches_per_second,speedup,compute_speedup,peak_memory_bytes,memory_ratio,peak_process_bytes,"
    "energy_joules_per_patch,device_model,decode_seconds,prepare_seconds,wait_seconds,"
    "compute_seconds,copy_seconds,kernels_seconds,device_memory_bytes,gpu_energy_joules_per_"
    "patch,embedding_width,cosine_mean,cosine_percentile1,cosine_least,neighbours_kept,slides_per_"
    "hour,energy_joules_per_slide,"
    "gpu_energy_joules_per_slide\n";

static void next_count(struct hrf_out *out, int64_t value, bool known)
{
    hrf_out_adds(out, ",");
    if (known)
        hrf_out_addf(out, "%lld", (long long)value);
}

static void next_interval(struct hrf_out *out, const struct hrf_figure *figure,
                          const struct hrf_interval *interval)
{
    const bool known = !isnan(figure->value);
    next_number(out, figure->value);
    next_number(out, known ? interval->low : (double)NAN);
    next_number(out, known ? interval->high : (double)NAN);
}

static void study_times(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    const struct hrf_timing *t = &p->timing;
    const double seconds[] = { t->decode, t->prepare, t->wait, t->compute, t->copy, t->kernels };
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
        next_number(out, p->n_patches > 0 ? seconds[i] : (double)NAN);
}

static void study_row(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    const bool compared = p->difference.n_patches > 0;
    hrf_out_csv(out, p->name);
    hrf_out_adds(out, ",");
    hrf_out_csv(out, p->device != NULL ? p->device : "");
    next_count(out, p->n_patches, true);
    next_count(out, p->difference.n_patches, true);
    next_number(out, p->patch_agreement.value);
    next_count(out, (int64_t)p->difference.n_flips, compared);
    next_number(out, p->max_abs_difference.value);
    next_number(out, p->mean_abs_difference.value);
    next_count(out, (int64_t)p->n_labelled, true);
    next_interval(out, &p->slide_auc, &p->slide_auc_interval);
    next_interval(out, &p->auc_difference, &p->auc_difference_interval);
    next_interval(out, &p->patch_auc, &p->patch_auc_interval);
    next_interval(out, &p->patch_auc_difference, &p->patch_auc_difference_interval);
    next_number(out, p->delong_p.value);
    next_number(out, p->slide_accuracy.value);
    next_count(out, (int64_t)p->n_flips, true);
    next_number(out, p->calibration_error.value);
    next_number(out, p->patches_per_second.value);
    next_number(out, p->speedup.value);
    next_number(out, p->compute_speedup.value);
    next_count(out, p->peak_memory_bytes, p->n_patches > 0);
    next_number(out, p->memory_ratio.value);
    next_count(out, p->peak_process_bytes, p->peak_process_bytes > 0);
    next_number(out, p->energy.value);
    hrf_out_adds(out, ",");
    hrf_out_csv(out, p->n_hardware > 0 ? p->hardware[0].model : "");
    study_times(out, p);
    next_count(out, p->device_memory_bytes, p->device_memory_bytes > 0);
    next_number(out, p->gpu_energy.value);
    next_count(out, p->drift.width, p->drift.width > 0);
    next_number(out, p->cosine_mean.value);
    next_number(out, p->cosine_percentile1.value);
    next_number(out, p->cosine_least.value);
    next_number(out, p->neighbours_kept.value);
    next_number(out, p->slides_per_hour.value);
    next_number(out, p->slide_energy.value);
    next_number(out, p->slide_gpu_energy.value);
    hrf_out_adds(out, "\n");
}

enum hrf_status hrf_report_study(const struct hrf_cohort *cohort, const char *path,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    hrf_out_adds(out, study_columns);
    for (size_t p = 0; p < cohort->n_precisions; p++)
        study_row(out, &cohort->precisions[p]);
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
        for (size_t k = 0; k < p->difference.n_flips; k++)
            flip_row(out, cohort, p, &p->difference.flips[k]);
    }
    return hrf_out_commit(out, err);
}

/* What the table of a slide's patches has beside their places: probabilities, or the attention of a
 * slide head, or nothing. */
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
                                   head != NULL ? (size_t)head->n_branches
                                                : n_patch_columns(cohort) };
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

static enum hrf_status csv_header(const struct patch_columns *c, struct hrf_out *out,
                                  struct hrf_error *err)
{
    hrf_out_adds(out, "minx,miny,width,height");
    for (size_t k = 0; k < c->n; k++) {
        HRF_AUTO_FREE char *name = column_name(c, k);
        HRF_CHECK_MEMORY(name != NULL, err, "no memory for the name of a column");
        hrf_out_adds(out, ",");
        hrf_out_csv(out, name);
    }
    hrf_out_adds(out, "\n");
    return HRF_OK;
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
    HRF_TRY(csv_header(&columns, out, err));
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
        HRF_CHECK_MEMORY(name != NULL, err, "no memory for the name of a measurement");
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
