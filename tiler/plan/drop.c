/* drop.c - see drop.h. */
#include "tiler/plan/drop.h"

#include "base/array.h"
#include "base/strbuf.h"
#include "tiler/grid/grid.h"
#include "tiler/plan/verify.h"
#include "tiler/quality/quality.h"
#include "tiler/tissue/ink.h"

/* A patch smaller than this has no blur that could be measured. */
enum { MIN_SIDE = 16 };

struct dropping {
    struct hrf_tile_plan *plan;
    size_t capacity; /* of plan->dropped */
};

static void drop(struct dropping *d, const struct hrf_patch *patch, enum hrf_drop_reason reason)
{
    struct hrf_tile_plan *plan = d->plan;
    HRF_RESERVE(plan->dropped, d->capacity, (size_t)plan->n_dropped + 1);
    plan->dropped[plan->n_dropped++] = (struct hrf_dropped_patch){ .at = *patch,
                                                                   .reason = (int32_t)reason };
}

/* Drops patches of which more than `limit` is covered by the mask. */
static enum hrf_status drop_covered(struct dropping *d, const struct hrf_tissue_image *image,
                                    const unsigned char *mask, double limit,
                                    enum hrf_drop_reason reason, struct hrf_error *err)
{
    struct hrf_tile_plan *plan = d->plan;
    const double w = (double)plan->width, h = (double)plan->height;
    struct hrf_mask_sums sums;
    int64_t kept = 0;
    HRF_TRY(hrf_mask_sums_make(mask, image->width, image->height, &sums, err));
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_patch p = plan->patches[i];
        const double part = hrf_mask_fraction(
            &sums, (double)p.x / w, (double)(p.x + plan->patch_width0) / w, (double)p.y / h,
            (double)(p.y + plan->patch_height0) / h);
        if (part > limit)
            drop(d, &p, reason);
        else
            plan->patches[kept++] = p;
    }
    hrf_mask_sums_release(&sums);
    plan->n_patches = kept;
    return HRF_OK;
}

static enum hrf_status drop_artefacts(struct dropping *d, const struct hrf_workflow_quality *limits,
                                      const struct hrf_tissue_image *image,
                                      const unsigned char *tissue, struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *mask = hrf_try_alloc((size_t)(image->width * image->height));
    HRF_CHECK_MEMORY(mask != NULL, err, "no memory for an overview of %lld x %lld px",
                     (long long)image->width, (long long)image->height);
    if (limits->pen > 0) {
        HRF_TRY(hrf_ink_find(image, mask, err));
        HRF_TRY(drop_covered(d, image, mask, limits->pen, HRF_DROP_PEN, err));
    }
    if (limits->bubble > 0) {
        HRF_TRY(hrf_bubble_find(image, mask, err));
        HRF_TRY(drop_covered(d, image, mask, limits->bubble, HRF_DROP_BUBBLE, err));
    }
    if (limits->fold > 0) {
        HRF_TRY(hrf_fold_find(image, tissue, mask, err));
        HRF_TRY(drop_covered(d, image, mask, limits->fold, HRF_DROP_FOLD, err));
    }
    return HRF_OK;
}

static enum hrf_status drop_blurred(struct dropping *d, struct hrf_patch_reader *reader,
                                    unsigned char *rgb, double limit, struct hrf_error *err)
{
    struct hrf_tile_plan *plan = d->plan;
    int64_t kept = 0;
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_patch p = plan->patches[i];
        double blur = 0;
        HRF_TRY(hrf_patch_reader_read(reader, p.x, p.y, rgb, NULL, NULL, err));
        hrf_patch_reader_done(reader, p.x, p.y, 0, plan->patch_size);
        HRF_TRY(hrf_blur_measure(rgb, plan->patch_size, plan->patch_size, &blur, err));
        if (blur > limit)
            drop(d, &p, HRF_DROP_BLUR);
        else
            plan->patches[kept++] = p;
    }
    plan->n_patches = kept;
    return HRF_OK;
}

static enum hrf_status find_blurred(struct dropping *d, struct hrf_slide *slide, double limit,
                                    struct hrf_error *err)
{
    const struct hrf_tile_plan *plan = d->plan;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array(
        (size_t)(plan->patch_size * plan->patch_size), 3);
    if (limit <= 0 || plan->patch_size < MIN_SIDE)
        return HRF_OK;
    HRF_CHECK_MEMORY(rgb != NULL, err, "no memory for a patch");
    HRF_TRY(hrf_patch_reader_create(slide, plan->mpp_x, plan->mpp_y, plan->patch_size,
                                    plan->patch_mpp, &reader, err));
    for (int64_t i = 0; i < plan->n_patches; i++)
        HRF_TRY(hrf_patch_reader_expect(reader, plan->patches[i].x, plan->patches[i].y, 0,
                                        plan->patch_size, err));
    const enum hrf_status status = drop_blurred(d, reader, rgb, limit, err);
    hrf_patch_reader_expect_none(reader);
    return status;
}

static void drop_warn(struct hrf_tile_plan *plan, int64_t n_before)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    const char *comma = "";
    if (plan->n_dropped == 0)
        return;
    hrf_strbuf_addf(&text,
                    "%lld of %lld patches of tissue are left out: ", (long long)plan->n_dropped,
                    (long long)n_before);
    for (int reason = 0; reason < HRF_N_DROP_REASONS; reason++) {
        int64_t n = 0;
        for (int64_t i = 0; i < plan->n_dropped; i++)
            n += plan->dropped[i].reason == reason;
        if (n == 0)
            continue;
        hrf_strbuf_addf(&text, "%s%lld %s", comma, (long long)n,
                        hrf_drop_reason_name((enum hrf_drop_reason)reason));
        comma = ", ";
    }
    hrf_plan_warn(plan, text.text);
}

enum hrf_status hrf_plan_drop(struct hrf_slide *slide, const struct hrf_workflow_quality *limits,
                              const struct hrf_tissue_image *image, const unsigned char *tissue,
                              struct hrf_tile_plan *plan, struct hrf_error *err)
{
    struct dropping d = { .plan = plan };
    const int64_t n_before = plan->n_patches;
    if (limits->pen > 0 || limits->bubble > 0 || limits->fold > 0)
        HRF_TRY(drop_artefacts(&d, limits, image, tissue, err));
    HRF_TRY(find_blurred(&d, slide, limits->blur, err));
    drop_warn(plan, n_before);
    return HRF_OK;
}
