/* slide_access.c - slides of the C interface: regions of a level, and patches as a run reads them.
 */
#include "library/library_private.h"
#include "tiler/slide/slide.h"

#include <string.h>

struct hires_flow_slide {
    struct hrf_slide *slide;
};

struct hires_flow_slide *hires_flow_slide_open(const char *path)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hires_flow_slide *slide = hrf_calloc(1, sizeof *slide);
    const enum hrf_status status = hrf_slide_open(path, &slide->slide, &err);
    if (hrf_library_end(status, &err) == HIRES_FLOW_OK)
        return slide;
    hrf_free(slide);
    return NULL;
}

void hires_flow_slide_close(struct hires_flow_slide *slide)
{
    if (slide != NULL)
        hrf_slide_close(slide->slide);
    hrf_free(slide);
}

int hires_flow_slide_describe(struct hires_flow_slide *slide, struct hires_flow_slide_info *out)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide->slide);
    struct hires_flow_slide_info all = { .size = out->size,
                                         .width = info->width,
                                         .height = info->height,
                                         .n_levels = info->n_levels,
                                         .mpp_source = "",
                                         .vendor = info->vendor };
    enum hrf_mpp_source source = HRF_MPP_NONE;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_slide_resolution(slide->slide, 0, 0, &all.mpp_x, &all.mpp_y, &source, &err) == HRF_OK)
        all.mpp_source = hrf_mpp_source_name(source);
    else
        all.mpp_x = all.mpp_y = 0;
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
    return HIRES_FLOW_OK;
}

static enum hrf_status check_level(const struct hires_flow_slide *slide, int level,
                                   struct hrf_error *err)
{
    const int n = hrf_slide_info(slide->slide)->n_levels;
    if (level >= 0 && level < n)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER, "the slide has no level %d; it has 0 to %d", level,
                         n - 1);
}

int hires_flow_slide_level(struct hires_flow_slide *slide, int level, int64_t *width,
                           int64_t *height, double *downsample)
{
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = check_level(slide, level, &err);
    if (status == HRF_OK) {
        *width = hrf_slide_info(slide->slide)->level[level].width;
        *height = hrf_slide_info(slide->slide)->level[level].height;
        *downsample = hrf_slide_info(slide->slide)->level[level].downsample;
    }
    return hrf_library_end(status, &err);
}

int hires_flow_slide_read(struct hires_flow_slide *slide, int level, int64_t x, int64_t y,
                          int64_t width, int64_t height, uint8_t *rgb)
{
    enum { MOST = 1 << 24 }; /* px of a side: their product and an origin cannot overflow */
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = check_level(slide, level, &err);
    if (status == HRF_OK && (width < 1 || height < 1 || width > MOST || height > MOST))
        status = hrf_error_set(&err, HRF_E_USER,
                               "a region of %lld x %lld px is asked for; 1 to %d are possible",
                               (long long)width, (long long)height, MOST);
    if (status == HRF_OK)
        status = hrf_slide_read(slide->slide, level, x, y, width, height, rgb, NULL, &err);
    return hrf_library_end(status, &err);
}

static enum hrf_status read_patch(struct hires_flow_slide *slide, int64_t x, int64_t y,
                                  int64_t size, double mpp, double slide_mpp, uint8_t *rgb,
                                  struct hrf_error *err)
{
    double mpp_x, mpp_y;
    enum hrf_mpp_source source;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    if (size < 1 || size > 1 << 16 || !(mpp > 0))
        return hrf_error_set(err, HRF_E_USER, "a patch of %lld px at %g um/px is asked for",
                             (long long)size, mpp);
    HRF_TRY(hrf_slide_resolution(slide->slide, 0, slide_mpp, &mpp_x, &mpp_y, &source, err));
    HRF_TRY(hrf_patch_reader_create(slide->slide, mpp_x, mpp_y, size, mpp, &reader, err));
    return hrf_patch_reader_read(reader, x, y, rgb, NULL, NULL, err);
}

int hires_flow_slide_read_patch(struct hires_flow_slide *slide, int64_t x, int64_t y, int64_t size,
                                double mpp, double slide_mpp, uint8_t *rgb)
{
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = read_patch(slide, x, y, size, mpp, slide_mpp, rgb, &err);
    return hrf_library_end(status, &err);
}
