/* detections.h - reads the lesions that a program found on a slide, and matches them with the true
 * ones. */
#ifndef HRF_AGGREGATE_CAMELYON16_DETECTIONS_H
#define HRF_AGGREGATE_CAMELYON16_DETECTIONS_H

#include "aggregate/camelyon16/lesion_mask.h"
#include "statistics/froc.h"

struct hrf_detection {
    double confidence;
    int64_t x, y; /* level-0 px */
};

/* Matches the detections of a slide with its lesions. If `lesions` is NULL, the slide has none, and
 * every detection is a false positive. */
void hrf_froc_slide_judge(const struct hrf_lesions *lesions, bool is_positive,
                          const struct hrf_detection *detections, size_t n_detections,
                          struct hrf_froc_slide *out);

/* Reads "confidence,x,y" lines, the official form: no header, x and y whole numbers of level-0 px.
 * An empty text has no detection. HRF_E_USER: a line is malformed; the text names `where` and the
 * line. *out is heap. */
HRF_CHECKED enum hrf_status hrf_detections_parse(const char *text, size_t n_bytes,
                                                 const char *where, struct hrf_detection **out,
                                                 size_t *n_detections, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_detections_read(const char *path, struct hrf_detection **out,
                                                size_t *n_detections, struct hrf_error *err);

#endif
