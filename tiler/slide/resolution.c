/* resolution.c - the um/px of a slide, from the first source that has one. */
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *hrf_mpp_source_name(enum hrf_mpp_source source)
{
    static const char *const names[] = { [HRF_MPP_NONE] = "none",
                                         [HRF_MPP_FILE] = "file",
                                         [HRF_MPP_OME_XML] = "ome-xml",
                                         [HRF_MPP_TIFF_TAGS] = "tiff-tags",
                                         [HRF_MPP_PNG] = "png-phys",
                                         [HRF_MPP_JPEG] = "jpeg-jfif",
                                         [HRF_MPP_PHILIPS_XML] = "philips-xml",
                                         [HRF_MPP_CSV] = "csv",
                                         [HRF_MPP_WORKFLOW] = "workflow",
                                         [HRF_MPP_OBJECTIVE] = "objective-power" };
    return names[source];
}

static bool is_sane(double mpp)
{
    return mpp >= HRF_MPP_MIN && mpp <= HRF_MPP_MAX; /* false for NaN */
}

static bool property_number(const struct hrf_slide *slide, const char *name, double *out)
{
    const char *text = hrf_slide_property(slide, name);
    char *end;
    if (text == NULL)
        return false;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number) || number <= 0)
        return false;
    *out = number;
    return true;
}

/* For generic TIFFs OpenSlide 4 takes it from the tags, which are looked at below. */
static bool from_file(const struct hrf_slide *slide, double *x, double *y)
{
    return strcmp(slide->info.vendor, "generic-tiff") != 0 &&
           property_number(slide, OPENSLIDE_PROPERTY_NAME_MPP_X, x) &&
           property_number(slide, OPENSLIDE_PROPERTY_NAME_MPP_Y, y);
}

/* Returns the source that a resolution in pixels per inch or centimetre comes from. */
static enum hrf_mpp_source source_of_tags(const struct hrf_slide *slide)
{
    return strcmp(slide->info.vendor, "png") == 0    ? HRF_MPP_PNG
           : strcmp(slide->info.vendor, "jpeg") == 0 ? HRF_MPP_JPEG
                                                     : HRF_MPP_TIFF_TAGS;
}

/* XResolution is pixels per unit. OpenSlide gives the unit as a word; without one the TIFF
 * default is the inch. What PNG and JPEG files say is given likewise (raster_picture.c). */
static bool from_tags(const struct hrf_slide *slide, double *x, double *y)
{
    const char *unit = hrf_slide_property(slide, "tiff.ResolutionUnit");
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

/* A length of OME-XML in um: the attribute and its unit, which is um if none is given. */
static bool ome_length(const char *pixels, const char *name, double *out)
{
    static const struct {
        const char *unit;
        double um;
    } units[] = { { "\xc2\xb5m", 1 }, { "&#181;m", 1 }, { "\xce\xbcm", 1 }, { "um", 1 },
                  { "nm", 1e-3 },     { "mm", 1e3 },    { "cm", 1e4 },      { "m", 1e6 } };
    char key[40];
    const char *close = strchr(pixels, '>');
    snprintf(key, sizeof key, " %s=\"", name);
    const char *value = strstr(pixels, key);
    if (close == NULL || value == NULL || value > close)
        return false;
    char *end;
    const double number = strtod(value + strlen(key), &end);
    if (*end != '"' || !(number > 0) || !isfinite(number))
        return false;
    *out = number;
    snprintf(key, sizeof key, " %sUnit=\"", name);
    const char *unit = strstr(pixels, key);
    if (unit == NULL || unit > close)
        return true;
    unit += strlen(key);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t n = strlen(units[i].unit);
        if (strncmp(unit, units[i].unit, n) == 0 && unit[n] == '"') {
            *out = number * units[i].um;
            return true;
        }
    }
    return false; /* pixels, or a unit that is no length */
}

bool hrf_ome_spacing(const char *xml, double *mpp_x, double *mpp_y)
{
    double x, y;
    const char *pixels = xml != NULL ? strstr(xml, "<Pixels ") : NULL;
    if (pixels == NULL || !ome_length(pixels, "PhysicalSizeX", &x) ||
        !ome_length(pixels, "PhysicalSizeY", &y))
        return false;
    *mpp_x = x;
    *mpp_y = y;
    return true;
}

/* The field's rule of thumb, which is wrong by up to a factor of 2: CAMELYON16 has 0.243 um/px from
 * an objective of 20x. */
static bool from_objective(const struct hrf_slide *slide, double *x, double *y)
{
    double power;
    if (!property_number(slide, OPENSLIDE_PROPERTY_NAME_OBJECTIVE_POWER, &power))
        return false;
    *x = *y = 10 / power;
    return is_sane(*x);
}

/* Refuses a slide for which no source has a resolution, and quotes what the tags say. */
static enum hrf_status refuse_none(const struct hrf_slide *slide, struct hrf_error *err)
{
    double x = 0, y = 0;
    char tags[96] = "";
    const enum hrf_mpp_source source = source_of_tags(slide);
    if (from_tags(slide, &x, &y))
        snprintf(tags, sizeof tags, " (its %s %.4g um/px, which cannot be right)",
                 source == HRF_MPP_PNG    ? "pHYs chunk says"
                 : source == HRF_MPP_JPEG ? "JFIF header says"
                                          : "TIFF tags say",
                 is_sane(x) ? y : x);
    return hrf_error_set(
        err, HRF_E_USER,
        "'%s' does not say its resolution%s: give it in um/px as {dataset.mpp}, or "
        "as the column mpp of a csv of slides",
        slide->shown, tags);
}

static enum hrf_status resolution_refuse(const struct hrf_slide *slide, double value,
                                         enum hrf_mpp_source source, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "'%s': a resolution of %g um/px (source: %s) cannot be right; %g to %g "
                         "are accepted",
                         slide->shown, value, hrf_mpp_source_name(source), HRF_MPP_MIN,
                         HRF_MPP_MAX);
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
            return resolution_refuse(slide, is_sane(x) ? y : x, found, err);
    } else if (hrf_ome_spacing(hrf_slide_property(slide, "tiff.ImageDescription"), &x, &y)) {
        found = HRF_MPP_OME_XML;
        if (!is_sane(x) || !is_sane(y))
            return resolution_refuse(slide, is_sane(x) ? y : x, found, err);
    } else if (from_tags(slide, &x, &y) && is_sane(x) && is_sane(y)) {
        found = source_of_tags(slide); /* else it is 72 dpi, from a writer that did not know */
    } else if (hrf_philips_spacing(hrf_slide_property(slide, "tiff.ImageDescription"), &x, &y)) {
        found = HRF_MPP_PHILIPS_XML;
        if (!is_sane(x) || !is_sane(y))
            return resolution_refuse(slide, is_sane(x) ? y : x, found, err);
    } else if (csv_mpp != 0 || workflow_mpp != 0) {
        found = csv_mpp != 0 ? HRF_MPP_CSV : HRF_MPP_WORKFLOW;
        x = y = csv_mpp != 0 ? csv_mpp : workflow_mpp;
        if (!is_sane(x))
            return resolution_refuse(slide, x, found, err);
    } else if (from_objective(slide, &x, &y)) {
        found = HRF_MPP_OBJECTIVE;
    } else {
        return refuse_none(slide, err);
    }
    *mpp_x = x;
    *mpp_y = y;
    *source = found;
    return HRF_OK;
}
