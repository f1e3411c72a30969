/* verify.c - see verify.h. */
#include "tiler/plan/verify.h"

#include "base/strbuf.h"

enum { MAX_NAMED = 4 }; /* bad tiles that a warning names */

void hrf_plan_warn(struct hrf_tile_plan *plan, const char *text)
{
    char *all = plan->warning != NULL ? hrf_format("%s; %s", plan->warning, text)
                                      : hrf_strdup(text);
    hrf_free(plan->warning);
    plan->warning = all;
}

static enum hrf_status read_patches(struct hrf_patch_reader *reader, unsigned char *rgb,
                                    struct hrf_tile_plan *plan, struct hrf_error *err)
{
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_patch *p = &plan->patches[i];
        HRF_TRY(hrf_patch_reader_read(reader, p->x, p->y, rgb, NULL, NULL, err));
        hrf_patch_reader_done(reader, p->x, p->y, 0, plan->patch_size);
        if (hrf_patch_reader_met_white(reader))
            plan->white[plan->n_white++] = (int32_t)i;
    }
    return HRF_OK;
}

static enum hrf_status find_white(struct hrf_slide *slide, struct hrf_tile_plan *plan,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array(
        (size_t)(plan->patch_size * plan->patch_size), 3);
    hrf_free(plan->white);
    plan->n_white = 0;
    plan->white = hrf_try_alloc_array((size_t)plan->n_patches + 1, sizeof plan->white[0]);
    HRF_CHECK_MEMORY(rgb != NULL && plan->white != NULL, err, "no memory to verify %lld patches",
                     (long long)plan->n_patches);
    HRF_TRY(hrf_patch_reader_create(slide, plan->mpp_x, plan->mpp_y, plan->patch_size,
                                    plan->patch_mpp, &reader, err));
    for (int64_t i = 0; i < plan->n_patches; i++)
        HRF_TRY(hrf_patch_reader_expect(reader, plan->patches[i].x, plan->patches[i].y, 0,
                                        plan->patch_size, err));
    const enum hrf_status status = read_patches(reader, rgb, plan, err);
    hrf_patch_reader_expect_none(reader);
    return status;
}

/* "2 tiles do not decode and are white: level 0, tile 2, 1 (...): ...; 12 of 340 patches ..." */
static void verify_describe(struct hrf_slide *slide, bool overview_is_hit,
                            const struct hrf_tile_plan *plan, struct hrf_strbuf *out)
{
    const int64_t n = hrf_slide_n_bad_tiles(slide);
    struct hrf_bad_tile tile;
    hrf_strbuf_addf(out, "%lld tile%s not decode and %s white (", (long long)n,
                    n == 1 ? " does" : "s do", n == 1 ? "is" : "are");
    for (int64_t i = 0; i < MAX_NAMED && hrf_slide_bad_tile(slide, i, &tile); i++) {
        char text[400];
        hrf_bad_tile_text(&tile, text, sizeof text);
        hrf_strbuf_addf(out, "%s%s", i > 0 ? "; " : "", text);
    }
    if (n > MAX_NAMED)
        hrf_strbuf_addf(out, "; and %lld more", (long long)(n - MAX_NAMED));
    hrf_strbuf_addf(out, "), and %lld of %lld patches lie on %s", (long long)plan->n_white,
                    (long long)plan->n_patches, n == 1 ? "it" : "them");
    if (overview_is_hit)
        hrf_strbuf_addf(out, "; tissue was searched on a level that has such a tile, and may be "
                             "missed there");
}

enum hrf_status hrf_verify_patches(struct hrf_slide *slide, bool overview_is_hit,
                                   struct hrf_tile_plan *plan, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_TRY(find_white(slide, plan, err));
    if (hrf_slide_n_bad_tiles(slide) == 0)
        return HRF_OK;
    verify_describe(slide, overview_is_hit, plan, &text);
    enum hrf_status status = HRF_OK;
    if (plan->n_patches == 0 ? overview_is_hit : 2 * plan->n_white > plan->n_patches)
        status = hrf_error_set(err, HRF_E_USER, "the slide is damaged: %s; copy it again",
                               text.text);
    else
        hrf_plan_warn(plan, text.text);
    return status;
}
