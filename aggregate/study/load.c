/* load.c - the run store into a cohort, and one slide's score from its stored patches. */
#include "aggregate/study/cohort.h"

#include "aggregate/study/embedding_task.h"
#include "aggregate/study/lesion_task.h"
#include "aggregate/study/patch_task.h"
#include "aggregate/study/segmentation_task.h"
#include "base/text.h"
#include "schema/store/tasks.h"

#include <stdio.h>

static void copy_row(const struct hrf_slide_row *row, struct hrf_cohort_slide *slide)
{
    slide->id = row->id;
    slide->truth = row->truth;
    slide->state = row->state;
    slide->file_name = hrf_text_file_name(row->name);
    slide->name = hrf_strdup(row->name);
    slide->path = hrf_strdup(row->path);
    slide->label_text = hrf_strdup(row->label_text);
    slide->annotation = hrf_strdup(row->annotation);
    slide->reason = hrf_strdup(row->reason);
}

static enum hrf_status load_plan(struct hrf_store *store, struct hrf_cohort_slide *slide,
                                 struct hrf_tile_plan **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    enum hrf_status status = hrf_store_get_tile_plan(store, slide->id, &plan, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "slide '%s'", slide->name);
    slide->width = plan->width;
    slide->height = plan->height;
    slide->mpp = (plan->mpp_x + plan->mpp_y) / 2.0;
    slide->n_patches = plan->n_patches;
    slide->tissue_fraction = plan->tissue_fraction;
    slide->mpp_source = hrf_strdup(plan->mpp_source);
    slide->warning = hrf_strdup(plan->warning);
    slide->patch_width0 = plan->patch_width0;
    slide->patch_height0 = plan->patch_height0;
    if (plan->n_white > 0)
        slide->white = hrf_format("%lld of %lld patches are white where a tile does not decode",
                                  (long long)plan->n_white, (long long)plan->n_patches);
    slide->white_patches = hrf_alloc_array((size_t)plan->n_white + 1, sizeof *slide->white_patches);
    for (int64_t i = 0; i < plan->n_white; i++)
        slide->white_patches[i] = plan->patches[plan->white[i]];
    slide->n_white = plan->n_white;
    slide->n_dropped = plan->n_dropped;
    HRF_MOVE(slide->dropped, plan->dropped);
    plan->n_dropped = 0;
    HRF_MOVE(*out, plan);
    return HRF_OK;
}

/* What the patch scores of one slide at one precision add to the figures. */
static enum hrf_status add_patches(struct hrf_cohort *cohort, struct hrf_cohort_slide *slide,
                                   size_t precision, const struct hrf_tile_plan *plan,
                                   const struct hrf_lesion_truth *truth,
                                   const struct hrf_scores *scores,
                                   const struct hrf_scores *reference, struct hrf_error *err)
{
    const size_t index = (size_t)(slide - cohort->slides);
    if (plan->n_patches > 0 && !cohort->has_forest)
        HRF_TRY(hrf_cohort_score_classes(cohort, plan, scores, &slide->scores[precision], err));
    if (cohort->is_segmentation)
        HRF_TRY(hrf_segmentation_task_add(cohort, precision, slide, plan, scores, truth, err));
    if (truth->is_judged) {
        hrf_patch_task_add_scores(cohort, precision, scores);
        if (cohort->lesion_rule.method != HRF_LESIONS_NONE)
            HRF_TRY(
                hrf_lesion_task_add(cohort, precision, slide, plan, scores, truth->lesions, err));
    }
    if (reference != NULL)
        HRF_TRY(hrf_cohort_add_difference(cohort, precision, index, plan, scores, reference, err));
    return HRF_OK;
}

/* The scores of every class that slide heads gave; nothing if they have not scored the slide. */
static enum hrf_status add_head_scores(struct hrf_store *store, const struct hrf_cohort *cohort,
                                       int64_t slide_id, const char *precision, bool is_own,
                                       struct hrf_cohort_score *score, struct hrf_error *err)
{
    HRF_AUTO(hrf_head_scores) head = NULL;
    const enum hrf_status status = hrf_store_get_head_scores(store, slide_id, precision, is_own,
                                                             &head, err);
    if (status == HRF_E_AGAIN)
        return HRF_OK;
    HRF_TRY(status);
    if ((size_t)head->n_classes != cohort->n_classes)
        return HRF_OK; /* the slide's score has its own, louder error */
    if (is_own) {
        score->is_own_known = true;
        score->own = head->scores[cohort->positive];
        return HRF_OK;
    }
    hrf_free(score->classes);
    score->classes = head->scores;
    head->scores = NULL;
    return HRF_OK;
}

/* One precision of a slide. *reference: the first one's scores, NULL until they are read. */
static enum hrf_status load_precision(struct hrf_store *store, struct hrf_cohort *cohort,
                                      struct hrf_cohort_slide *slide, size_t i,
                                      const struct hrf_tile_plan *plan,
                                      const struct hrf_lesion_truth *truth,
                                      struct hrf_scores **reference, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    const char *name = cohort->precisions[i].name;
    HRF_TRY(cohort->is_embedding ? hrf_store_get_score_facts(store, slide->id, name, &scores, err)
                                 : hrf_store_get_scores(store, slide->id, name, &scores, err));
    hrf_cohort_add_scores(&cohort->precisions[i], scores);
    slide->scores[i].has_features = cohort->is_embedding;
    if (!cohort->is_embedding)
        HRF_TRY(
            add_patches(cohort, slide, i, plan, truth, scores, i == 0 ? scores : *reference, err));
    for (int is_own = 0; is_own < 2 && cohort->has_head; is_own++)
        HRF_TRY(add_head_scores(store, cohort, slide->id, name, is_own, &slide->scores[i], err));
    if (i == 0)
        HRF_MOVE(*reference, scores);
    return HRF_OK;
}

/* Patch scores of one slide at every precision; those that are not scored (yet) are left out. */
static enum hrf_status load_scores(struct hrf_store *store, struct hrf_cohort *cohort,
                                   struct hrf_cohort_slide *slide, const struct hrf_tile_plan *plan,
                                   const struct hrf_lesion_truth *truth, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) reference = NULL;
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        struct hrf_error why = { .status = HRF_OK };
        const enum hrf_status status = load_precision(store, cohort, slide, i, plan, truth,
                                                      &reference, &why);
        if (status != HRF_OK && status != HRF_E_AGAIN)
            return hrf_error_set(err, status, "slide '%s': %s", slide->name, why.text);
    }
    return cohort->is_embedding ? hrf_embedding_task_add(store, cohort, slide, err) : HRF_OK;
}

static enum hrf_status load_patches(struct hrf_store *store, struct hrf_cohort *cohort,
                                    struct hrf_cohort_slide *slide,
                                    const struct hrf_tile_plan *plan, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_lesion_truth) truth = { 0 };
    HRF_TRY(hrf_lesion_truth_load(cohort, slide, &truth, err));
    if (truth.is_judged)
        HRF_TRY(hrf_patch_task_add_slide(cohort, (size_t)(slide - cohort->slides), plan, truth.mask,
                                         err));
    return load_scores(store, cohort, slide, plan, &truth, err);
}

/* Scores of some precisions may be there where others failed. */
static bool has_ended(enum hrf_slide_state state)
{
    return state == HRF_SLIDE_DONE || state == HRF_SLIDE_FAILED;
}

/* Slides on which all heads or forests were trained: they have no score and are part of no figure.
 * `scores`: in the first precision, in slide order. */
static void set_trained_on(const struct hrf_cohort *cohort, const struct hrf_slide_score *scores,
                           size_t n, const struct hrf_slide_row *row,
                           struct hrf_cohort_slide *slide)
{
    size_t at = 0;
    while (at < n && scores[at].slide_id < row->id)
        at++;
    slide->is_head_trained_on = (cohort->has_head || cohort->has_forest) &&
                                row->state == HRF_SLIDE_DONE &&
                                (at == n || scores[at].slide_id != row->id);
    if (slide->is_head_trained_on)
        slide->truth = HRF_TRUTH_UNKNOWN;
}

static enum hrf_status load_slide(struct hrf_store *store, struct hrf_cohort *cohort,
                                  const struct hrf_slide_row *row, struct hrf_cohort_slide *slide,
                                  struct hrf_error *err)
{
    if (row->tile_plan_hash == NULL || row->state == HRF_SLIDE_EXCLUDED)
        return HRF_OK;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_TRY(load_plan(store, slide, &plan, err));
    return has_ended(row->state) ? load_patches(store, cohort, slide, plan, err) : HRF_OK;
}

/* Why a slide that failed has no score at a precision. */
static enum hrf_status load_failure(struct hrf_store *store, const struct hrf_cohort *cohort,
                                    size_t index, struct hrf_cohort_slide *slide,
                                    struct hrf_error *err)
{
    enum hrf_slide_state state;
    struct hrf_cohort_score *score = &slide->scores[index];
    if (slide->state != HRF_SLIDE_FAILED || score->known ||
        (score->has_features && !cohort->has_head))
        return HRF_OK;
    HRF_TRY(hrf_store_slide_outcome(store, slide->id, cohort->precisions[index].name, &state,
                                    &score->failure, err));
    if (score->failure == NULL) /* it is no task's: the file is not there, no score can be made */
        score->failure = hrf_strdup(slide->reason != NULL ? slide->reason : "no reason given");
    return HRF_OK;
}

/* A forest gives the positive class's probability. */
static void set_forest_classes(const struct hrf_cohort *cohort, struct hrf_cohort_score *score)
{
    score->classes = hrf_calloc(cohort->n_classes, sizeof *score->classes);
    for (size_t i = 0; i < cohort->n_classes; i++)
        score->classes[i] = i == cohort->positive ? score->value : 1 - score->value;
}

static enum hrf_status load_slide_scores(struct hrf_store *store, struct hrf_cohort *cohort,
                                         size_t index, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_slide_score *scores = NULL;
    size_t n = 0, at = 0;
    HRF_TRY(hrf_store_get_slide_scores(store, cohort->precisions[index].name, &scores, &n, err));
    /* Both are in slide order; a score may belong to a slide that has since left the cohort or
     * become excluded. */
    for (size_t i = 0; i < cohort->n_slides; i++) {
        struct hrf_cohort_slide *slide = &cohort->slides[i];
        while (at < n && scores[at].slide_id < slide->id)
            at++;
        if (has_ended(slide->state) && at < n && scores[at].slide_id == slide->id) {
            slide->scores[index].known = true;
            slide->scores[index].value = scores[at].score;
            slide->scores[index].positive = scores[at].positive;
        }
        if (cohort->has_forest && slide->scores[index].known)
            set_forest_classes(cohort, &slide->scores[index]);
        HRF_TRY(load_failure(store, cohort, index, slide, err));
    }
    return HRF_OK;
}

/* What the run's jobs took; the figures do without. */
static enum hrf_status load_jobs(struct hrf_store *store, struct hrf_cohort *cohort,
                                 struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_attempt_rows) rows = { NULL, 0 };
    HRF_TRY(hrf_store_get_attempts(store, false, &rows, err));
    cohort->jobs = hrf_calloc(rows.n_items + 1, sizeof *cohort->jobs);
    for (size_t i = 0; i < rows.n_items; i++) {
        struct hrf_attempt_row *row = &rows.items[i];
        struct hrf_cohort_job *job = &cohort->jobs[cohort->n_jobs++];
        *job = (struct hrf_cohort_job){
            .kind = hrf_task_kind_name(row->kind),
            .attempt = row->attempt,
            .has_ended = row->state == HRF_ATTEMPT_ENDED,
            .n_tasks = (int64_t)row->n_task_ids,
            .submitted_ms = row->submitted_ms,
            .ended_ms = row->ended_ms,
            .usage = row->usage,
        };
        HRF_MOVE(job->job_id, row->job_id);
        HRF_MOVE(job->reason, row->reason);
    }
    return HRF_OK;
}

static enum hrf_status load_slides(struct hrf_store *store, struct hrf_cohort *cohort,
                                   const struct hrf_aggregate_params *params,
                                   const struct hrf_slide_rows *rows, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_slide_score *scores = NULL;
    size_t n = 0;
    HRF_TRY(hrf_store_get_slide_scores(store, cohort->precisions[0].name, &scores, &n, err));
    for (size_t i = 0; i < rows->n_items; i++) {
        struct hrf_cohort_slide *slide = &cohort->slides[i];
        copy_row(&rows->items[i], slide);
        hrf_cohort_set_tuning(params, slide);
        hrf_cohort_set_truth_class(cohort, slide);
        set_trained_on(cohort, scores, n, &rows->items[i], slide);
        HRF_TRY(load_slide(store, cohort, &rows->items[i], slide, err));
    }
    return HRF_OK;
}

static enum hrf_status load_all(struct hrf_store *store, struct hrf_cohort *cohort,
                                const struct hrf_aggregate_params *params,
                                const struct hrf_slide_rows *rows, struct hrf_error *err)
{
    HRF_TRY(load_slides(store, cohort, params, rows, err));
    for (size_t i = 0; i < cohort->n_precisions; i++)
        HRF_TRY(load_slide_scores(store, cohort, i, err));
    HRF_TRY(hrf_store_get_phases(store, &cohort->phases, &cohort->n_phases, err));
    HRF_TRY(load_jobs(store, cohort, err));
    return hrf_cohort_finish(cohort, err);
}

enum hrf_status hrf_cohort_load(struct hrf_store *store, const struct hrf_aggregate_params *params,
                                struct hrf_cohort **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_slide_rows) rows = { 0 };
    HRF_TRY(hrf_store_get_slides(store, &rows, err));
    HRF_AUTO(hrf_cohort) cohort = NULL;
    HRF_TRY(hrf_cohort_create(params, rows.n_items, &cohort, err));
    HRF_TRY(load_all(store, cohort, params, &rows, err));
    HRF_MOVE(*out, cohort);
    return HRF_OK;
}

static enum hrf_status score_patches(struct hrf_store *store,
                                     const struct hrf_aggregate_params *params,
                                     const struct hrf_tile_plan *plan, int64_t slide_id,
                                     const char *precision, double *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_TRY(hrf_store_get_scores(store, slide_id, precision, &scores, err));
    if (scores->first_patch != 0 || scores->n_patches != plan->n_patches)
        return hrf_error_set(err, HRF_E_USER,
                             "the stored scores are of patches %lld to %lld, the tile plan has "
                             "%lld",
                             (long long)scores->first_patch,
                             (long long)(scores->first_patch + scores->n_patches),
                             (long long)plan->n_patches);
    if (scores->n_classes < 1 || params->positive >= (size_t)scores->n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "the model gave %d classes; the positive one is number %zu",
                             scores->n_classes, params->positive + 1);
    return hrf_slide_score_compute(plan, scores->probabilities + params->positive,
                                   (size_t)scores->n_classes, &params->rule, out, err);
}

static enum hrf_status score_by_head(struct hrf_store *store,
                                     const struct hrf_aggregate_params *params,
                                     const struct hrf_tile_plan *plan, int64_t slide_id,
                                     const char *precision, double *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_head_scores) head = NULL;
    HRF_TRY(hrf_store_get_head_scores(store, slide_id, precision, false, &head, err));
    if (head->n_patches != plan->n_patches || params->positive >= (size_t)head->n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "the slide head gave %d scores for %lld patches; the positive class "
                             "is number %zu, and the tile plan has %lld patches",
                             head->n_classes, (long long)head->n_patches, params->positive + 1,
                             (long long)plan->n_patches);
    *out = head->scores[params->positive];
    return HRF_OK;
}

/* What an aggregation has stored: a forest is trained on other slides. */
static enum hrf_status find_score(struct hrf_store *store, int64_t slide_id, const char *precision,
                                  struct hrf_slide_score *out, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_slide_score *scores = NULL;
    size_t n = 0;
    HRF_TRY(hrf_store_get_slide_scores(store, precision, &scores, &n, err));
    for (size_t i = 0; i < n; i++)
        if (scores[i].slide_id == slide_id) {
            *out = scores[i];
            return HRF_OK;
        }
    return hrf_error_set(err, HRF_E_AGAIN, "no forest has scored it in %s", precision);
}

enum hrf_status hrf_aggregate_slide(struct hrf_store *store,
                                    const struct hrf_aggregate_params *params, int64_t slide_id,
                                    const char *precision, struct hrf_slide_score *out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    if (params->has_forest)
        return find_score(store, slide_id, precision, out, err);
    HRF_TRY(hrf_store_get_tile_plan(store, slide_id, &plan, err));
    struct hrf_slide_score score = { .slide_id = slide_id, .n_patches = plan->n_patches };
    int n = snprintf(score.precision, sizeof score.precision, "%s", precision);
    if (n < 0 || (size_t)n >= sizeof score.precision)
        return hrf_error_set(err, HRF_E_USER, "'%s' is not the name of a precision", precision);
    if (plan->n_patches == 0)
        return hrf_error_set(err, HRF_E_USER, "a slide without patches has no score");
    HRF_TRY((params->has_head ? score_by_head : score_patches)(store, params, plan, slide_id,
                                                               precision, &score.score, err));
    score.positive = score.score >= params->threshold;
    *out = score;
    return HRF_OK;
}

enum hrf_status hrf_cohort_load_classes(struct hrf_store *store, const struct hrf_cohort *cohort,
                                        int64_t slide_id, const char *precision,
                                        struct hrf_cohort_score *score, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    if (cohort->is_embedding)
        return cohort->has_head
                   ? add_head_scores(store, cohort, slide_id, precision, false, score, err)
                   : HRF_OK;
    HRF_TRY(hrf_store_get_tile_plan(store, slide_id, &plan, err));
    HRF_TRY(hrf_store_get_scores(store, slide_id, precision, &scores, err));
    return hrf_cohort_score_classes(cohort, plan, scores, score, err);
}
