/* decode.h - pixels that arrive as compressed tiles, decoded by nvJPEG on the device
 * (struct hrf_device_decoding_ops). */
#ifndef HRF_ENGINE_BACKEND_CUDA_DECODE_H
#define HRF_ENGINE_BACKEND_CUDA_DECODE_H

#include "engine/backend/backend.h"

struct hrf_cuda_decoder; /* opaque */

extern const struct hrf_device_decoding_ops hrf_cuda_decoding;
/* After the queue has run out. NULL is fine. */
void hrf_cuda_decoder_destroy(struct hrf_cuda_decoder *decoder);

#endif
