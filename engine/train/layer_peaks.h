/* layer_peaks.h - the largest number of each layer for one batch, and where numbers stop being
 * finite: why a step of training has a loss that is none.
 *
 * One forward run of a session of its own. One thread uses it at a time.
 */
#ifndef HRF_ENGINE_TRAIN_LAYER_PEAKS_H
#define HRF_ENGINE_TRAIN_LAYER_PEAKS_H

#include "base/strbuf.h"
#include "engine/run/session.h"

struct hrf_layer_peak {
    char *layer;    /* the node's name as in the model's file, or the tensor's if it has none */
    double largest; /* of the absolute values that are finite */
    bool is_finite; /* all are */
};

struct hrf_layer_peaks {
    struct hrf_layer_peak
        *items; /* in the order in which they are computed; the input is the first */
    int32_t n;
    size_t capacity;
    int32_t first_broken; /* the first that is not finite; -1: all are finite */
    bool *is_broken; /* [n_images]: images of which it is not; none: it has no axis of images */
    int64_t n_images;
};
void hrf_layer_peaks_release(struct hrf_layer_peaks *peaks);

/* `network` has been read, its only input has the shape of the batch, N, C, H, W, and `images` are
 * dense, N, H, W, C. HRF_E_NOMEM: the batch does not fit into the limit in one piece (0: none). */
HRF_CHECKED enum hrf_status hrf_layer_peaks_find(const struct hrf_graph *network,
                                                 const struct hrf_session_config *config,
                                                 const float *images, struct hrf_layer_peaks *out,
                                                 struct hrf_error *err);
/* "'layer' 3.4e+38, 'other' 12": the `n` layers with the largest numbers, these in falling order,
 * of those that were computed before the first broken one, or of all. */
void hrf_layer_peaks_text(const struct hrf_layer_peaks *peaks, int32_t n, struct hrf_strbuf *out);

#endif
