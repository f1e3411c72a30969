/* tissue_network.h - a network that tells tissue from background, as the tiler sees it (tissue
 * method `onnx`).
 *
 * The engine implements it (engine/tile_worker); the tiler knows neither the engine nor ONNX. Used
 * by one thread at a time.
 */
#ifndef HRF_TILER_TISSUE_TISSUE_NETWORK_H
#define HRF_TILER_TISSUE_TISSUE_NETWORK_H

#include "base/error.h"

#include <stdint.h>

struct hrf_tissue_network {
    void *context;
    int64_t side;  /* px: height and width of the images that it takes, at least 1 */
    int64_t batch; /* most images of one call, at least 1 */
    /* Computes for images[n][side][side][3], 8-bit RGB, the probability[n][side][side], 0 to 1,
     * that each pixel is tissue. 1 <= n <= batch. */
    enum hrf_status (*find)(void *context, const unsigned char *images, int64_t n,
                            float *probability, struct hrf_error *err);
};

#endif
