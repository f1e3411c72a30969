/* patch_quality.c - the table of patches that are not scored as they are on the glass. */
#include "aggregate/report/out.h"
#include "aggregate/report/tables.h"

#include <errno.h>
#include <unistd.h>

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
