/* nchw.h - arrays as ONNX lays them out, in and out of a network. Those of rank 4 are N, C, H, W
 * outside and N, H, W, C inside; all others are the same.
 */
#ifndef HRF_ENGINE_RUN_NCHW_H
#define HRF_ENGINE_RUN_NCHW_H

#include "engine/run/rank.h"

/* A source (hrf_source) of `data`, whose outermost dimension counts the images. Where more are
 * asked for, to fill up a batch, the last one repeats. */
struct hrf_nchw_source {
    const float *data;
    struct hrf_shape shape;
};
hrf_source hrf_nchw_read; /* context: const struct hrf_nchw_source */

/* A network's output, `shape` as the network tells it, in ONNX's layout: `out` holds as much. */
void hrf_nchw_from_output(const float *output, const struct hrf_shape *shape, float *out);

#endif
