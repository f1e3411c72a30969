/* lesion_task.c - the lesions that a run finds, against the outlines of its slides. */
#include "aggregate/study/lesion_task.h"

#include "aggregate/camelyon16/exclusions.h"

#include <math.h>
#include <stdlib.h>

/* Slides are few: the list grows by one. */
static void leave_out(struct hrf_cohort *cohort, const char *slide, const char *reason,
                      bool of_annotation)
{
    cohort->lesion_gaps = hrf_realloc_array(cohort->lesion_gaps, cohort->n_lesion_gaps + 1,
                                            sizeof *cohort->lesion_gaps);
    cohort->lesion_gaps[cohort->n_lesion_gaps++] = (struct hrf_lesion_gap){ hrf_strdup(slide),
                                                                            hrf_strdup(reason),
                                                                            of_annotation };
}

void hrf_lesion_truth_release(struct hrf_lesion_truth *truth)
{
    hrf_lesion_mask_destroy(truth->mask);
    hrf_lesions_destroy(truth->lesions);
    hrf_outlines_destroy(truth->outlines);
}

/* A mask of other pixels than the slide's would give every patch the truth of another place. */
static enum hrf_status check_size(const struct hrf_cohort_slide *slide,
                                  const struct hrf_truth_mask *mask, struct hrf_error *err)
{
    const int64_t dx = llabs(mask->width0 - slide->width),
                  dy = llabs(mask->height0 - slide->height);
    if (dx <= HRF_MASK_STEP && dy <= HRF_MASK_STEP)
        return HRF_OK;
    return hrf_error_set(
        err, HRF_E_USER,
        "the mask '%s' has %lld x %lld px, and the slide %lld x %lld: a mask has to "
        "have the pixels of the slide's level 0",
        slide->annotation, (long long)mask->width0, (long long)mask->height0,
        (long long)slide->width, (long long)slide->height);
}

/* Whether there are several values but 0: then they are classes. */
static enum hrf_status find_values(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_slide *slide,
                                   const struct hrf_truth_mask *mask, bool *are_classes,
                                   struct hrf_error *err)
{
    unsigned char first = 0, max = 0;
    *are_classes = false;
    for (int64_t i = 0; i < mask->width * mask->height; i++) {
        const unsigned char value = mask->pixels[i];
        first = first == 0 ? value : first;
        max = value > max ? value : max;
        *are_classes |= value != 0 && value != first;
    }
    if (!*are_classes || max <= cohort->n_classes)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "the mask '%s' has several values up to %d, and there are %zu classes "
                         "(model.classes)",
                         slide->annotation, max, cohort->n_classes);
}

static enum hrf_status read_mask(const struct hrf_cohort *cohort,
                                 const struct hrf_cohort_slide *slide, struct hrf_lesion_truth *out,
                                 struct hrf_error *err)
{
    struct hrf_truth_mask mask = { .step = HRF_MASK_STEP };
    if (cohort->read_mask == NULL)
        return hrf_error_set(err, HRF_E_USER, "'%s' is a mask, which is not read here",
                             slide->annotation);
    HRF_TRY(cohort->read_mask(slide->annotation, &mask, err));
    HRF_AUTO_FREE unsigned char *pixels = mask.pixels;
    HRF_TRY(check_size(slide, &mask, err));
    HRF_TRY(find_values(cohort, slide, &mask, &out->are_classes, err));
    for (int64_t i = 0; i < mask.width * mask.height && out->are_classes; i++)
        pixels[i] = pixels[i] == cohort->positive + 1;
    return hrf_lesion_mask_crop(pixels, mask.width, mask.height, &out->mask, err);
}

static enum hrf_status read_truth(const struct hrf_cohort *cohort,
                                  const struct hrf_cohort_slide *slide,
                                  struct hrf_lesion_truth *out, struct hrf_error *err)
{
    if (hrf_annotation_is_mask(slide->annotation)) {
        HRF_TRY(read_mask(cohort, slide, out, err));
    } else {
        HRF_TRY(hrf_outlines_read(slide->annotation, &out->outlines, err));
        HRF_TRY(hrf_lesion_mask_draw(out->outlines, slide->width, slide->height, &out->mask, NULL,
                                     err));
    }
    if (cohort->lesion_rule.method == HRF_LESIONS_NONE)
        return HRF_OK;
    return hrf_lesions_find(out->mask, &out->lesions, err);
}

enum hrf_status hrf_lesion_truth_load(struct hrf_cohort *cohort,
                                      const struct hrf_cohort_slide *slide,
                                      struct hrf_lesion_truth *out, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    const struct hrf_exclusion *known = cohort->is_camelyon16
                                            ? hrf_camelyon16_exclusion(slide->name)
                                            : NULL;
    if (cohort->is_embedding || cohort->is_regression || slide->truth == HRF_TRUTH_UNKNOWN)
        return HRF_OK;
    if (known != NULL) {
        leave_out(cohort, slide->name, known->reason, false);
        return HRF_OK;
    }
    out->is_judged = slide->truth == HRF_TRUTH_NEGATIVE;
    if (out->is_judged)
        return HRF_OK;
    if (slide->annotation == NULL) {
        leave_out(cohort, slide->name, "positive, and there are neither outlines nor a mask",
                  false);
        return HRF_OK;
    }
    const enum hrf_status status = read_truth(cohort, slide, out, &why);
    if (status == HRF_E_NOMEM)
        return hrf_error_set(err, status, "%s", why.text);
    if (status != HRF_OK)
        leave_out(cohort, slide->name, why.text, true);
    out->is_judged = status == HRF_OK;
    return HRF_OK;
}

enum hrf_status hrf_lesion_task_add(struct hrf_cohort *cohort, size_t precision,
                                    const struct hrf_cohort_slide *slide,
                                    const struct hrf_tile_plan *plan,
                                    const struct hrf_scores *scores,
                                    const struct hrf_lesions *lesions, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[precision];
    HRF_AUTO_FREE struct hrf_detection *detections = NULL;
    size_t n = 0;
    if (scores->n_patches != plan->n_patches || cohort->positive >= (size_t)scores->n_classes)
        return HRF_OK; /* the slide's score has its own, louder error */
    HRF_TRY(hrf_lesions_of_patches(plan, scores->probabilities + cohort->positive,
                                   (size_t)scores->n_classes, &cohort->lesion_rule, &detections, &n,
                                   err));
    struct hrf_froc_slide *grown = hrf_realloc_array(p->lesions.slides, p->lesions.n_slides + 1,
                                                     sizeof *grown);
    p->lesions.slides = grown;
    hrf_froc_slide_judge(lesions, slide->truth == HRF_TRUTH_POSITIVE, detections, n,
                         &grown[p->lesions.n_slides++]);
    return HRF_OK;
}

enum hrf_status hrf_lesion_task_finish(struct hrf_cohort *cohort, size_t precision,
                                       struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[precision];
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = HRF_E_USER;
    if (cohort->lesion_rule.method == HRF_LESIONS_NONE)
        hrf_error_set(&why, HRF_E_USER, "lesions were not asked for: {aggregate.lesions.method}");
    else
        status = hrf_froc_compute(p->lesions.slides, p->lesions.n_slides, HRF_FROC_OFFICIAL,
                                  HRF_BOOTSTRAP_RESAMPLES, cohort->seed, &p->lesions.froc, &why);
    p->lesions.score.value = status == HRF_OK ? p->lesions.froc.score : NAN;
    if (status == HRF_OK)
        return HRF_OK;
    if (status != HRF_E_USER)
        return hrf_error_set(err, status, "%s", why.text);
    p->lesions.score.reason = hrf_strdup(why.text);
    return HRF_OK;
}

void hrf_lesion_task_release(struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_lesion_gaps; i++) {
        hrf_free(cohort->lesion_gaps[i].slide);
        hrf_free(cohort->lesion_gaps[i].reason);
    }
    hrf_free(cohort->lesion_gaps);
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        struct hrf_cohort_precision *p = &cohort->precisions[i];
        for (size_t k = 0; k < p->lesions.n_slides; k++)
            hrf_froc_slide_release(&p->lesions.slides[k]);
        hrf_free(p->lesions.slides);
        hrf_free(p->overlaps);
        hrf_froc_release(&p->lesions.froc);
    }
}
