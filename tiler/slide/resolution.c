/* resolution.c - the um/px of a slide, from the first source that has one. */
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Outside of this no microscope slide lies; 72 dpi, what scanners write that do not know, is
 * 353 um/px. */
static const double mpp_min = 0.05, mpp_max = 10.0;

const char *hrf_mpp_source_name(enum hrf_mpp_source source)
{
    static const char *const names[] = { "none",        "file", "tiff-tags",
                                         "philips-xml", "csv",  "workflow" };
    return names[source];
}

static bool is_sane(double mpp)
{
    return mpp >= mpp_min && mpp <= mpp_max; /* false for NaN */
}

static bool property_number(const struct hrf_slide *slide, const char *name, double *out)
{
    const char *text = openslide_get_property_value(slide->handle, name);
    char *end;
    if (text == NULL)
        return false;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number) || number <= 0)
        return false;
    *out = number;
    return true;
}

static bool from_file(const struct hrf_slide *slide, double *x, double *y)
{
    return property_number(slide, OPENSLIDE_PROPERTY_NAME_MPP_X, x) &&
           property_number(slide, OPENSLIDE_PROPERTY_NAME_MPP_Y, y);
}

/* XResolution is pixels per unit. OpenSlide gives the unit as a word; without one the TIFF
 * default is the inch. */
static bool from_tiff_tags(const struct hrf_slide *slide, double *x, double *y)
{
    const char *unit = openslide_get_property_value(slide->handle, "tiff.ResolutionUnit");
    double um = unit == NULL || strcmp(unit, "inch") == 0 ? 25400.0
                : strcmp(unit, "centimeter") == 0         ? 10000.0
                                                          : 0.0;
    double rx, ry;
    if (um <= 0 || !property_number(slide, "tiff.XResolution", &rx) ||
        !property_number(slide, "tiff.YResolution", &ry))
        return false;
    *x = um / rx;
    *y = um / ry;
    return true;
}

/* Philips writes an XML in ImageDescription with one DICOM_PIXEL_SPACING per level, in mm, row
 * spacing (y) before column spacing (x). Level 0 has the smallest. */
static bool from_philips_xml(const struct hrf_slide *slide, double *x, double *y)
{
    const char *xml = openslide_get_property_value(slide->handle, "tiff.ImageDescription");
    bool found = false;
    for (const char *at = xml; at != NULL && (at = strstr(at, "DICOM_PIXEL_SPACING")) != NULL;) {
        at += strlen("DICOM_PIXEL_SPACING");
        const char *value = strchr(at, '>');
        if (value == NULL)
            break;
        double spacing[2];
        int n = 0;
        for (value++; n < 2; n++) {
            value += strspn(value, " \t\r\n\"");
            if (strncmp(value, "&quot;", 6) == 0)
                value += 6;
            char *end;
            spacing[n] = strtod(value, &end);
            if (end == value || !(spacing[n] > 0))
                break;
            value = end + strspn(end, " \t\r\n\"");
            if (strncmp(value, "&quot;", 6) == 0)
                value += 6;
        }
        if (n == 2 && (!found || spacing[0] * 1000 < *y)) {
            *y = spacing[0] * 1000;
            *x = spacing[1] * 1000;
            found = true;
        }
    }
    return found;
}

static enum hrf_status refuse(const struct hrf_slide *slide, double value,
                              enum hrf_mpp_source source, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "'%s': a resolution of %g um/px (source: %s) cannot be right; %g to %g "
                         "are accepted",
                         slide->shown, value, hrf_mpp_source_name(source), mpp_min, mpp_max);
}

enum hrf_status hrf_slide_resolution(struct hrf_slide *slide, double csv_mpp, double workflow_mpp,
                                     double *mpp_x, double *mpp_y, enum hrf_mpp_source *source,
                                     struct hrf_error *err)
{
    double x = 0, y = 0;
    enum hrf_mpp_source found = HRF_MPP_NONE;
    if (from_file(slide, &x, &y)) {
        found = HRF_MPP_FILE;
        if (!is_sane(x) || !is_sane(y))
            return refuse(slide, is_sane(x) ? y : x, found, err);
    } else if (from_tiff_tags(slide, &x, &y) && is_sane(x) && is_sane(y)) {
        found = HRF_MPP_TIFF_TAGS; /* an insane one is the 72 dpi of a writer that did not know */
    } else if (from_philips_xml(slide, &x, &y)) {
        found = HRF_MPP_PHILIPS_XML;
        if (!is_sane(x) || !is_sane(y))
            return refuse(slide, is_sane(x) ? y : x, found, err);
    } else if (csv_mpp > 0 || workflow_mpp > 0) {
        found = csv_mpp > 0 ? HRF_MPP_CSV : HRF_MPP_WORKFLOW;
        x = y = csv_mpp > 0 ? csv_mpp : workflow_mpp;
        if (!is_sane(x))
            return refuse(slide, x, found, err);
    } else {
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' does not say its resolution; give it as 'mpp' in the csv or "
                             "as dataset.mpp in the workflow",
                             slide->shown);
    }
    *mpp_x = x;
    *mpp_y = y;
    *source = found;
    return HRF_OK;
}
