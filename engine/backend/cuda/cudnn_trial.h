/* cudnn_trial.h - a convolution's tensors filled with known numbers, and whether an engine's
 * results are right.
 *
 * Number i of a tensor is a function of i that the host knows too: nothing is copied to the device
 * and no result but those at a few pixels is copied back. At these pixels (the first and the last
 * of the batch, and some between) and some of their channels the host computes what is right, in
 * double. Inputs and weights are integers of 8 bits in S8, and 64ths from -1 to 1 otherwise, which
 * every floating type holds: an engine may differ by the rounding of its sums and of its result,
 * and in 8 bits not at all but where a sum lies within 0.01 of half-way between two steps. There,
 * biases are such that some results, of as many pixels all over an engine's first tiles and over
 * the whole, tell how the engine rounds: what a compiler does with one place of a tile it need not
 * do with another.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_TRIAL_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_TRIAL_H

#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/cudnn_arithmetic.h"
#include "engine/backend/cuda/cudnn_conv.h"
#include "engine/backend/cuda/cudnn_plan.h"

enum { HRF_TRIAL_PIXELS = 8, HRF_TRIAL_CHANNELS = 16, HRF_TRIAL_TELLING = 128 };

struct hrf_cudnn_trial {
    const struct hrf_cuda_device *device;
    const struct hrf_cudnn_conv *conv; /* borrowed */
    void *memory;                      /* of the device: all tensors and the workspace */
    int64_t ids[HRF_CUDNN_N_TENSORS];
    void *pointers[HRF_CUDNN_N_TENSORS];
    /* Of these tensors the result (y, or what a gradient is to), the residual and the second
     * output; -1: there is none. */
    int32_t n, y, residual, second;
    int32_t post_scale;
    void *expected; /* what the second output is to be, by a pass over y */
    void *workspace;
    size_t n_bytes; /* handed out so far */
    /* What the sums at the checked pixels and channels are, and the sizes of their terms. */
    double sums[HRF_TRIAL_PIXELS][HRF_TRIAL_CHANNELS],
        magnitudes[HRF_TRIAL_PIXELS][HRF_TRIAL_CHANNELS];
    /* Of INT8: the biases, and the pixels, the channels and the terms of the results that tell. */
    float *bias;
    int64_t pixels[HRF_TRIAL_TELLING], channels[HRF_TRIAL_TELLING];
    struct hrf_int8_terms telling[HRF_TRIAL_TELLING];
    int n_telling;
};

/* False: there is not enough memory on the device, or a call failed. `conv` stays borrowed. Release
 * it in any case. */
bool hrf_cudnn_trial_init(const struct hrf_cuda_device *device, const struct hrf_cudnn_conv *conv,
                          int64_t workspace_bytes, struct hrf_cudnn_trial *out);
void hrf_cudnn_trial_release(struct hrf_cudnn_trial *trial);
/* Queues a run of the plan on these tensors. */
HRF_CHECKED enum hrf_status hrf_cudnn_trial_run(const struct hrf_cudnn_trial *trial,
                                                const struct hrf_cudnn_plan *plan,
                                                cudnnHandle_t cudnn, struct hrf_error *err);
/* Queues the pass over y that makes the second output; the trial has one. */
HRF_CHECKED enum hrf_status hrf_cudnn_trial_pass(const struct hrf_cudnn_trial *trial,
                                                 struct hrf_error *err);
/* Runs the plan, once more with y in the residual's place where both have one type, and compares; a
 * second output with what the own kernel for it makes of y: in 8 bits every byte.
 * HRF_E_EXTERNAL says what is wrong. */
HRF_CHECKED enum hrf_status hrf_cudnn_trial_check(const struct hrf_cudnn_trial *trial,
                                                  const struct hrf_cudnn_plan *plan,
                                                  cudnnHandle_t cudnn, struct hrf_error *err);
/* After a check, how the plan rounds; AS_WRITTEN where results are not of whole numbers. */
HRF_CHECKED enum hrf_status
hrf_cudnn_trial_arithmetic(const struct hrf_cudnn_trial *trial, const struct hrf_cudnn_plan *plan,
                           cudnnHandle_t cudnn, enum hrf_arithmetic *out, struct hrf_error *err);

#endif
