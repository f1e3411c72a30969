/* view_data.h - what the viewer's page asks for, as JSON and pictures, from the run's store and
 * slides.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEW_DATA_H
#define HRF_ORCHESTRATOR_VIEW_VIEW_DATA_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

/* The workflow's name, classes, precisions and threshold, and a row for each slide with its state
 * and scores. */
HRF_CHECKED enum hrf_status hrf_view_run(const char *directory, struct hrf_strbuf *out,
                                         struct hrf_error *err);
/* Size, resolution, geometry and places of the slide's patches. HRF_E_AGAIN: not tiled yet. */
HRF_CHECKED enum hrf_status hrf_view_patches(const char *directory, int64_t slide_id,
                                             struct hrf_strbuf *out, struct hrf_error *err);
/* Its scores at one precision, [patches][classes]. HRF_E_AGAIN: not all are there yet. */
HRF_CHECKED enum hrf_status hrf_view_scores(const char *directory, int64_t slide_id,
                                            const char *precision, struct hrf_strbuf *out,
                                            struct hrf_error *err);
/* The tissue mask, PNG on the heap, over the whole slide. */
HRF_CHECKED enum hrf_status hrf_view_mask(const char *directory, int64_t slide_id,
                                          unsigned char **out, size_t *n_bytes,
                                          struct hrf_error *err);
/* The labels of a segmentation network at one precision, over the whole slide: a gray PNG on the
 * heap, 0 for none and from 1 on the classes, of the finest level of the mask that has no side
 * above 2048 px. HRF_E_AGAIN: not all are there yet. HRF_E_USER: the network gives none. */
HRF_CHECKED enum hrf_status hrf_view_labels(const char *directory, int64_t slide_id,
                                            const char *precision, unsigned char **out,
                                            size_t *n_bytes, struct hrf_error *err);
/* Outlines of the slide's annotation: [[[x, y], ...], ...] in level-0 px; [] without one. */
HRF_CHECKED enum hrf_status hrf_view_outlines(const char *directory, int64_t slide_id,
                                              struct hrf_strbuf *out, struct hrf_error *err);

#endif
