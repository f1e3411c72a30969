/* patch_task.c - the truth of patches, and the AUC of their scores with intervals by slide. */
#include "aggregate/study/patch_task.h"

#include "statistics/clustered_auc.h"

#include <math.h>

#define NORMAL_95 1.959963984540054 /* 97.5 % of a normal distribution lies below */

static bool is_tumour(const struct hrf_lesion_mask *mask, int64_t x, int64_t y)
{
    x -= mask->x0;
    y -= mask->y0;
    return x >= 0 && y >= 0 && x < mask->width && y < mask->height &&
           mask->pixels[y * mask->width + x] != 0;
}

/* Level-0 px of [from, to) that lie in pixel `at` of the mask. */
static int64_t overlap(int64_t at, int64_t from, int64_t to)
{
    const int64_t low = at * HRF_MASK_STEP, high = low + HRF_MASK_STEP;
    return (high < to ? high : to) - (low > from ? low : from);
}

/* Pixels at the patch's edge count by the part of them that it covers. */
static bool is_positive(const struct hrf_lesion_mask *mask, const struct hrf_tile_plan *plan,
                        const struct hrf_patch *patch)
{
    const int64_t x0 = patch->x > 0 ? patch->x : 0, x1 = patch->x + plan->patch_width0;
    const int64_t y0 = patch->y > 0 ? patch->y : 0, y1 = patch->y + plan->patch_height0;
    int64_t n_tumour = 0;
    for (int64_t y = y0 / HRF_MASK_STEP; y * HRF_MASK_STEP < y1; y++)
        for (int64_t x = x0 / HRF_MASK_STEP; x * HRF_MASK_STEP < x1; x++)
            if (is_tumour(mask, x, y))
                n_tumour += overlap(x, x0, x1) * overlap(y, y0, y1);
    return 2 * n_tumour >= (x1 - x0) * (y1 - y0);
}

static enum hrf_status grow(struct hrf_cohort *cohort, size_t n, struct hrf_error *err)
{
    struct hrf_patch_truths *t = &cohort->patches;
    if (n <= t->n_room)
        return HRF_OK;
    const size_t room = n > 2 * t->n_room ? n : 2 * t->n_room;
    bool *truths = hrf_realloc_array(t->is_positive, room, sizeof *truths);
    t->is_positive = truths;
    uint32_t *slides = hrf_try_realloc_array(t->slides, room, sizeof *slides);
    HRF_CHECK_MEMORY(slides != NULL, err, "no memory for the truth of %zu patches", n);
    t->slides = slides;
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        float *scores = hrf_try_realloc_array(cohort->precisions[i].patches.scores, room,
                                              sizeof *scores);
        HRF_CHECK_MEMORY(scores != NULL, err, "no memory for the scores of %zu patches", n);
        cohort->precisions[i].patches.scores = scores;
    }
    t->n_room = room;
    return HRF_OK;
}

enum hrf_status hrf_patch_task_add_slide(struct hrf_cohort *cohort, size_t slide,
                                         const struct hrf_tile_plan *plan,
                                         const struct hrf_lesion_mask *mask, struct hrf_error *err)
{
    struct hrf_patch_truths *t = &cohort->patches;
    const size_t n = t->n_items + (size_t)plan->n_patches;
    HRF_TRY(grow(cohort, n, err));
    t->n_last = (size_t)plan->n_patches;
    for (size_t i = 0; i < t->n_last; i++) {
        t->is_positive[t->n_items + i] = mask != NULL && is_positive(mask, plan, &plan->patches[i]);
        t->slides[t->n_items + i] = (uint32_t)slide;
        for (size_t p = 0; p < cohort->n_precisions; p++)
            cohort->precisions[p].patches.scores[t->n_items + i] = NAN;
    }
    t->n_items = n;
    return HRF_OK;
}

void hrf_patch_task_add_scores(struct hrf_cohort *cohort, size_t precision,
                               const struct hrf_scores *scores)
{
    const struct hrf_patch_truths *t = &cohort->patches;
    if (scores->n_patches != (int64_t)t->n_last || cohort->positive >= (size_t)scores->n_classes)
        return; /* the slide's score has its own, louder error */
    float *to = cohort->precisions[precision].patches.scores + t->n_items - t->n_last;
    for (size_t i = 0; i < t->n_last; i++)
        to[i] = scores->probabilities[i * (size_t)scores->n_classes + cohort->positive];
}

/* The patches that both precisions scored, without gaps. */
struct paired_patches {
    bool *is_positive;
    uint32_t *slides;
    float *first, *second;
    size_t n;
};

static void release_paired(struct paired_patches *p)
{
    hrf_free(p->is_positive);
    hrf_free(p->slides);
    hrf_free(p->first);
    hrf_free(p->second);
}

static enum hrf_status pair_patches(const struct hrf_cohort *cohort, const float *first,
                                    const float *second, struct paired_patches *out,
                                    struct hrf_error *err)
{
    const struct hrf_patch_truths *t = &cohort->patches;
    *out = (struct paired_patches){ .is_positive = hrf_alloc_array(t->n_items + 1, sizeof(bool)),
                                    .slides = hrf_alloc_array(t->n_items + 1, sizeof(uint32_t)),
                                    .first = hrf_try_alloc_array(t->n_items + 1, sizeof(float)),
                                    .second = hrf_try_alloc_array(t->n_items + 1, sizeof(float)) };
    if (out->is_positive == NULL || out->slides == NULL || out->first == NULL ||
        out->second == NULL) {
        release_paired(out);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu patches", t->n_items);
    }
    for (size_t i = 0; i < t->n_items; i++) {
        if (isnan(first[i]) || isnan(second[i]))
            continue;
        out->is_positive[out->n] = t->is_positive[i];
        out->slides[out->n] = t->slides[i];
        out->first[out->n] = first[i];
        out->second[out->n++] = second[i];
    }
    return HRF_OK;
}

static enum hrf_status judge(const struct hrf_cohort *cohort, const float *first,
                             const float *second, struct hrf_clustered_auc *out,
                             struct hrf_error *err)
{
    struct paired_patches p;
    HRF_TRY(pair_patches(cohort, first, second, &p, err));
    const struct hrf_clustered_items items = { p.is_positive, p.slides, p.n, cohort->n_slides };
    enum hrf_status status = hrf_clustered_auc(&items, p.first, p.second, out, err);
    release_paired(&p);
    return status;
}

static void leave_out(struct hrf_cohort_precision *p, const char *why)
{
    p->patches.auc.value = p->patches.auc_difference.value = NAN;
    p->patches.auc.reason = hrf_strdup(why);
    p->patches.auc_difference.reason = hrf_strdup(why);
}

/* Normal on the scale of log odds, so that it lies within 0 and 1; of an AUC of 0 or 1 unknown. */
static struct hrf_interval interval_of(double auc, double variance)
{
    const double odds = log(auc / (1 - auc)),
                 reach = NORMAL_95 * sqrt(variance) / (auc * (1 - auc));
    if (!(auc > 0 && auc < 1 && variance > 0))
        return (struct hrf_interval){ NAN, NAN };
    return (struct hrf_interval){ 1 / (1 + exp(reach - odds)), 1 / (1 + exp(-reach - odds)) };
}

static size_t count_slides(const struct hrf_patch_truths *t, const float *scores)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_items; i++)
        n += !isnan(scores[i]) && (i == 0 || t->slides[i] != t->slides[i - 1]);
    return n;
}

enum hrf_status hrf_patch_task_finish(struct hrf_cohort *cohort, size_t precision,
                                      struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[precision];
    const float *reference = cohort->precisions[0].patches.scores;
    struct hrf_error why = { .status = HRF_OK };
    struct hrf_clustered_auc own = { 0 }, pair = { 0 };
    if (cohort->is_embedding) {
        leave_out(p, "the model gives embeddings, not scores (model.output)");
        return HRF_OK;
    }
    if (cohort->is_regression) {
        leave_out(p, "the model gives numbers, not classes (model.output none)");
        return HRF_OK;
    }
    if (cohort->patches.n_items == 0) {
        leave_out(p, "no slide with outlines, or without lesions, was scored");
        return HRF_OK;
    }
    enum hrf_status status = judge(cohort, p->patches.scores, p->patches.scores, &own, &why);
    if (status == HRF_OK)
        status = judge(cohort, reference, p->patches.scores, &pair, &why);
    if (status == HRF_E_USER) {
        leave_out(p, why.text);
        return HRF_OK;
    }
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    const double reach = NORMAL_95 * sqrt(pair.difference_variance);
    p->patches.auc.value = own.auc;
    p->patches.auc_interval = interval_of(own.auc, own.variance);
    p->patches.auc_difference.value = pair.difference;
    p->patches.auc_difference_interval = (struct hrf_interval){ NAN, NAN };
    if (pair.difference_variance > 0)
        p->patches.auc_difference_interval = (struct hrf_interval){ pair.difference - reach,
                                                                    pair.difference + reach };
    p->patches.n_positive = own.n_positive;
    p->patches.n_negative = own.n_negative;
    p->patches.n_slides = count_slides(&cohort->patches, p->patches.scores);
    return HRF_OK;
}

void hrf_patch_task_release(struct hrf_cohort *cohort)
{
    hrf_free(cohort->patches.is_positive);
    hrf_free(cohort->patches.slides);
    for (size_t i = 0; cohort->precisions != NULL && i < cohort->n_precisions; i++) {
        hrf_free(cohort->precisions[i].patches.scores);
    }
}
