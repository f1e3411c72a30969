/* patch_labels.h - the classes of a slide's areas, from an annotation, and those of its patches and
 * their pixels. */
#ifndef HRF_TRAINING_CUTTING_PATCH_LABELS_H
#define HRF_TRAINING_CUTTING_PATCH_LABELS_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/tile_plan.h"
#include "schema/settings/settings.h"

struct hrf_patch_labels; /* opaque: a map of the slide's classes, a pixel for HRF_MAP_STEP px */

enum { HRF_MAP_STEP = 32 };

/* `annotation`: ASAP's XML (CAMELYON16), whose lesions are the last class; a mask as an image,
 * where any value but 0 is; or GeoJSON, whose outlines have the classes' names (of two classes,
 * every outline is the second). NULL: the slide is of the first class everywhere, as all that is in
 * no outline. */
HRF_CHECKED enum hrf_status hrf_patch_labels_read(const char *annotation,
                                                  const struct hrf_text_list *classes,
                                                  const struct hrf_tile_plan *plan,
                                                  struct hrf_patch_labels **out,
                                                  struct hrf_error *err);
void hrf_patch_labels_destroy(struct hrf_patch_labels *labels);
HRF_DEFINE_AUTO(hrf_patch_labels)
/* The class of a patch: one that at least the share `least` of it is of; the first only if no part
 * of it is of another; -1: neither. */
int64_t hrf_patch_labels_find(const struct hrf_patch_labels *labels,
                              const struct hrf_tile_plan *plan, const struct hrf_patch *patch,
                              double least);
/* Writes the class of each pixel of a patch into mask[patch_size][patch_size]: that of the area, or
 * of the mask's pixel, at its centre. */
HRF_CHECKED enum hrf_status hrf_patch_labels_draw(const struct hrf_patch_labels *labels,
                                                  const struct hrf_tile_plan *plan,
                                                  const struct hrf_patch *patch,
                                                  unsigned char *mask, struct hrf_error *err);

#endif
