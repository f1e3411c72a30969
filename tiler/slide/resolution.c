/* resolution.c - the um/px of a slide, from the first source that has one. */
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The resolutions of possible microscope slides. Scanners that do not know it write 72 dpi, which
 * is 353 um/px. */
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

/* Reads two positive numbers, each perhaps in quotes or &quot;: "0.00022" "0.00023". */
static bool two_numbers(const char *text, double out[2])
{
    for (int n = 0; n < 2; n++) {
        for (;;) {
            text += strspn(text, " \t\r\n\"");
            if (strncmp(text, "&quot;", 6) != 0)
                break;
            text += 6;
        }
        char *end;
        out[n] = strtod(text, &end);
        if (end == text || !(out[n] > 0 && out[n] < 1e6)) /* false for NaN */
            return false;
        text = end;
    }
    return true;
}

bool hrf_philips_spacing(const char *xml, double *mpp_x, double *mpp_y)
{
    static const char name[] = "DICOM_PIXEL_SPACING";
    bool found = false;
    for (const char *at = xml; at != NULL && (at = strstr(at, name)) != NULL;) {
        double mm[2]; /* row spacing (y), column spacing (x) */
        at = strchr(at, '>');
        if (at == NULL)
            break;
        if (!two_numbers(at + 1, mm) || (found && mm[0] * 1000 >= *mpp_y))
            continue;
        *mpp_y = mm[0] * 1000;
        *mpp_x = mm[1] * 1000;
        found = true;
    }
    return found;
}

/* OpenSlide gives the spacing as a property if it knows the format. If it takes the file for a
 * generic TIFF, the XML is still in ImageDescription. */
static bool from_philips(const struct hrf_slide *slide, double *x, double *y)
{
    return hrf_philips_spacing(openslide_get_property_value(slide->handle, "tiff.ImageDescription"),
                               x, y);
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
        found = HRF_MPP_TIFF_TAGS; /* else it is 72 dpi, from a writer that did not know */
    } else if (from_philips(slide, &x, &y)) {
        found = HRF_MPP_PHILIPS_XML;
        if (!is_sane(x) || !is_sane(y))
            return refuse(slide, is_sane(x) ? y : x, found, err);
    } else if (csv_mpp != 0 || workflow_mpp != 0) {
        found = csv_mpp != 0 ? HRF_MPP_CSV : HRF_MPP_WORKFLOW;
        x = y = csv_mpp != 0 ? csv_mpp : workflow_mpp;
        if (!is_sane(x))
            return refuse(slide, x, found, err);
    } else {
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' does not say its resolution; give it to infer or tile as "
                             "--slide-mpp, or as 'mpp' in the csv or dataset.mpp in the workflow",
                             slide->shown);
    }
    *mpp_x = x;
    *mpp_y = y;
    *source = found;
    return HRF_OK;
}
