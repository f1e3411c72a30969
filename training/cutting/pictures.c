/* pictures.c - all that a recipe trains on (pictures.h). */
#include "training/cutting/pictures.h"

#include "training/cutting/patch_cutter.h"
#include "training/cutting/slide_images.h"

enum hrf_status hrf_pictures_find(struct hrf_train_recipe *r, const char *version, bool are_cut,
                                  struct hrf_sample_list **out, struct hrf_left_outs *left_out,
                                  struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO(hrf_sample_list) list = NULL;
    const bool has_outlines = r->slides != NULL && !hrf_train_recipe_is_of_slides(r);
    if (has_outlines && are_cut)
        r->csv = hrf_patch_cutter_table(r);
    else if (has_outlines)
        HRF_TRY(hrf_patch_cutter_run(r, version, left_out, findings, err));
    HRF_TRY(hrf_sample_list_find(r, &list, left_out, findings, err));
    if (r->head != HRF_TRAIN_NONE)
        HRF_TRY(hrf_patch_cutter_bags(r, version, list, left_out, findings, err));
    else if (r->tiler_mode == HRF_TILER_SLIDE)
        HRF_TRY(hrf_slide_images_make(r, version, list, left_out, findings, err));
    HRF_TRY(hrf_sample_list_check(list, r, findings, err));
    HRF_MOVE(*out, list);
    return HRF_OK;
}
