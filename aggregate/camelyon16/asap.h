/* asap.h - lesion outlines in the XML of the ASAP viewer, as CAMELYON16 ships them.
 *
 *   ASAP_Annotations/Annotations/Annotation[@Name @Type @PartOfGroup]
 *       /Coordinates/Coordinate[@Order @X @Y]
 *
 * Coordinates are level-0 pixels, x to the right, y down. Groups "_0", "_1", "Tumor" and "None"
 * are lesions; "_2" and "Exclusion" are cut out of them (healthy tissue inside). The reader is
 * safe against hostile files: entity declarations are refused, nothing outside the file is
 * read, depth, size and counts are bounded. Immutable once read.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_ASAP_H
#define HRF_AGGREGATE_CAMELYON16_ASAP_H

#include "base/alloc.h"
#include "base/error.h"
#include "tiler/outline/outline_areas.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_outline_role {
    HRF_OUTLINE_LESION,
    HRF_OUTLINE_CUTOUT,
    HRF_OUTLINE_OTHER /* a group this program does not know: kept, counted as neither */
};

struct hrf_outline {
    char *name, *group; /* as in the file; "" when not given */
    enum hrf_outline_role role;
    struct hrf_point *points;   /* closed: the last is joined to the first */
    size_t n_points;            /* >= 3 */
    struct hrf_point low, high; /* bounding box */
};

struct hrf_outlines {
    struct hrf_outline *items;
    size_t n_items;
    /* Annotations that are not areas: dots, point sets, measurements, shapes of fewer than 3
     * points. */
    size_t n_skipped;
};

/* `where` names the document in messages. HRF_E_USER: the text is not well-formed, not of ASAP's
 * form, or exceeds a limit; the message gives the line. */
HRF_CHECKED enum hrf_status hrf_outlines_parse(const char *text, size_t n_bytes, const char *where,
                                               struct hrf_outlines **out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_outlines_read(const char *path, struct hrf_outlines **out,
                                              struct hrf_error *err);
void hrf_outlines_destroy(struct hrf_outlines *outlines);
HRF_DEFINE_AUTO(hrf_outlines)

/* True if an annotation is a mask, by its file name, and not outlines. */
bool hrf_annotation_is_mask(const char *path);

/* True if the point is inside by the even-odd rule. A point on an edge belongs to exactly one of
 * the two areas that share the edge. */
bool hrf_outline_contains(const struct hrf_outline *outline, double x, double y);
/* Adds the outlines as areas of the value that value_of() gives each, and then those cut-outs to
 * which it gives -1, which win, as areas of 0. Others of -1 are left out. A pixel is painted if its
 * centre is inside, with exactly the result of hrf_outline_contains(). */
void hrf_outlines_add_areas(const struct hrf_outlines *outlines,
                            int32_t (*value_of)(const void *context,
                                                const struct hrf_outline *outline),
                            const void *context, struct hrf_outline_areas *areas);
/* The same with `value` for each lesion. */
void hrf_outlines_add_lesions(const struct hrf_outlines *outlines, unsigned char value,
                              struct hrf_outline_areas *areas);
/* True if the point is in a lesion and in no cut-out. */
bool hrf_outlines_in_lesion(const struct hrf_outlines *outlines, double x, double y);

#endif
