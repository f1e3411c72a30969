/* conv_winograd.h - a 3x3 convolution by Winograd's transforms, as it was made and as it is run.
 *
 * Every point of the transforms is a product over tiles x channels. Its scratch has slots: of one
 * point, for a block of tiles. Point p's input lies in one, and its product goes to one whose input
 * has been used: so products are written where lines are still in the cache, and there is half as
 * much scratch.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_WINOGRAD_H
#define HRF_ENGINE_BACKEND_CPU_CONV_WINOGRAD_H

#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/prologue.h"
#include "engine/backend/cpu/winograd.h"

struct hrf_winograd_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    int64_t n, rows, columns, channels, out_rows, out_columns, out_channels;
    int64_t pad[2];
    int64_t tile_rows, tile_columns, n_tiles;
    int64_t v_pitch, m_pitch; /* floats from one tile to the next, of one point */
    int64_t slot;             /* floats */
    int64_t n_blocks;         /* that the tiles are cut into */
    int64_t at_once;          /* blocks that threads share; 0: each does blocks of its own */
    enum hrf_dtype type, out_type;
    struct hrf_epilogue epilogue;
    bool has_residual;
    struct hrf_cpu_prologue prologue;
    float *weights;      /* packed, point by point */
    float *bias, *zeros; /* zeros: one pixel outside the image */
};

/* Bytes of workspace. */
size_t hrf_winograd_scratch(const struct hrf_winograd_kernel *kernel);
enum hrf_status hrf_winograd_run(struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                                 struct hrf_error *err);

#endif
