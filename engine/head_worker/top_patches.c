/* top_patches.c - finds the patches of highest attention and reads them from the slide. */
#include "engine/head_worker/top_patches.h"

#include "engine/input/plan_readers.h"
#include "image/downsample.h"
#include "image/png_write.h"
#include "tiler/slide/slide.h"

#include <string.h>

enum { SIDE = 128 }; /* px of a patch in the picture, at most */

/* Insertion into a short sorted list; of equal ones the earlier first. */
static void find_top(struct hrf_head_scores *s)
{
    size_t best = 0;
    for (int32_t k = 1; k < s->n_classes; k++)
        best = s->scores[k] > s->scores[best] ? (size_t)k : best;
    s->n_shown = 0;
    for (int64_t i = 0; i < s->n_patches; i++) {
        const double a = hrf_head_scores_attention(s, i, best);
        int32_t at = s->n_shown;
        while (at > 0 && hrf_head_scores_attention(s, s->shown[at - 1], best) < a)
            at--;
        if (at == HRF_HEAD_SHOWN)
            continue;
        const int32_t n_moved = s->n_shown - at - (s->n_shown == HRF_HEAD_SHOWN);
        memmove(&s->shown[at + 1], &s->shown[at], (size_t)n_moved * sizeof s->shown[0]);
        s->shown[at] = i;
        s->n_shown += s->n_shown < HRF_HEAD_SHOWN;
    }
}

/* Patch i of the list into its place in the strip. */
static enum hrf_status draw(struct hrf_patch_reader *reader, const struct hrf_patch *patch,
                            int64_t size, int64_t side, unsigned char *pixels, unsigned char *small,
                            unsigned char *strip, int64_t strip_width, struct hrf_error *err)
{
    HRF_TRY(hrf_patch_reader_read(reader, patch->x, patch->y, pixels, NULL, NULL, err));
    HRF_TRY(hrf_downsample(pixels, size, size, 3, side, side, small, err));
    for (int64_t y = 0; y < side; y++)
        memcpy(strip + y * strip_width * 3, small + y * side * 3, (size_t)side * 3);
    return HRF_OK;
}

static enum hrf_status draw_all(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                struct hrf_head_scores *s, struct hrf_error *err)
{
    const int64_t size = plan->patch_size, side = size < SIDE ? size : SIDE;
    const int64_t width = side * s->n_shown;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO_FREE unsigned char *pixels = hrf_try_alloc_array((size_t)size, (size_t)size * 3);
    HRF_AUTO_FREE unsigned char *small = hrf_try_alloc_array((size_t)side, (size_t)side * 3);
    HRF_AUTO_FREE unsigned char *strip = hrf_try_alloc_array((size_t)side, (size_t)width * 3);
    HRF_CHECK_MEMORY(pixels != NULL && small != NULL && strip != NULL, err,
                     "no memory for pictures of patches");
    HRF_TRY(hrf_patch_reader_create(slide, plan->mpp_x, plan->mpp_y, size, plan->patch_mpp, &reader,
                                    err));
    for (int32_t i = 0; i < s->n_shown; i++)
        HRF_TRY(draw(reader, &plan->patches[s->shown[i]], size, side, pixels, small,
                     strip + i * side * 3, width, err));
    unsigned char *png = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_png_write(strip, width, side, 3, HRF_PNG_PHOTO, &png, &n_bytes, err));
    s->shown_png = (struct hrf_bytes){ png, n_bytes };
    return HRF_OK;
}

enum hrf_status hrf_top_patches_add(const struct hrf_job_task *task,
                                    const struct hrf_tile_plan *plan,
                                    struct hrf_head_scores *scores, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    if (scores->attention == NULL)
        return HRF_OK;
    HRF_TRY(hrf_slide_open(task->slide_path, &slide, err));
    hrf_plan_set_bad_tiles(slide, plan);
    find_top(scores);
    const enum hrf_status status = draw_all(slide, plan, scores, err);
    if (status != HRF_OK)
        scores->n_shown = 0;
    return status;
}
