/* view_data.h - the JSON and pictures that the viewer's page requests, from the run's store.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEW_DATA_H
#define HRF_ORCHESTRATOR_VIEW_VIEW_DATA_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

/* The workflow's name, classes, precisions, threshold and colours, and a row for each slide with
 * its state and scores. */
HRF_CHECKED enum hrf_status hrf_view_run(const char *directory, struct hrf_strbuf *out,
                                         struct hrf_error *err);
/* Size and resolution of the slide, geometry and coordinates of its patches. HRF_E_AGAIN: it is not
 * tiled yet. */
HRF_CHECKED enum hrf_status hrf_view_patches(const char *directory, int64_t slide_id,
                                             struct hrf_strbuf *out, struct hrf_error *err);
/* The scores of the slide's patches at one precision, [patches][classes]. HRF_E_AGAIN: they are not
 * complete. */
HRF_CHECKED enum hrf_status hrf_view_scores(const char *directory, int64_t slide_id,
                                            const char *precision, struct hrf_strbuf *out,
                                            struct hrf_error *err);
/* The tissue mask of the whole slide, a PNG on the heap. */
HRF_CHECKED enum hrf_status hrf_view_mask(const char *directory, int64_t slide_id,
                                          unsigned char **out, size_t *n_bytes,
                                          struct hrf_error *err);
/* The labels of a segmentation network at one precision for the whole slide: a gray PNG on the heap
 * with 0 for no label and the classes from 1 on, of the finest level of the mask that has no side
 * above 2048 px. HRF_E_AGAIN: they are not complete. HRF_E_USER: the network gives none. */
HRF_CHECKED enum hrf_status hrf_view_labels(const char *directory, int64_t slide_id,
                                            const char *precision, unsigned char **out,
                                            size_t *n_bytes, struct hrf_error *err);
/* The outlines of the slide's annotation: [[[x, y], ...], ...] in level-0 px; [] without one. */
HRF_CHECKED enum hrf_status hrf_view_outlines(const char *directory, int64_t slide_id,
                                              struct hrf_strbuf *out, struct hrf_error *err);

#endif
