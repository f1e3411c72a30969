/* kernels.h - own CUDA kernels: what cuDNN has no engine for, or not worth one.
 *
 * Every launcher queues one kernel on `stream` and returns at once; arrays are on the device and
 * stay borrowed until it has run. A kernel computes in float, whatever the arrays hold, and gives
 * the same bits each time: one thread sums one output, in order. Integers are summed exactly.
 * Knows nothing of the graph. Parses as C17 and as C++17; built without nvcc (HRF_HOST_KERNELS)
 * the same code runs as plain loops on the host, for tests on machines without a GPU.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_KERNELS_H
#define HRF_ENGINE_BACKEND_CUDA_KERNELS_H

#include "engine/backend/formulas.h"

#include "engine/ir/tile_batch.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HRF_K_MAX_RANK 6

enum hrf_k_type { HRF_K_F32, HRF_K_F16, HRF_K_B16, HRF_K_S8, HRF_K_U8, HRF_K_S32 };

/* Integers stand for (q - zero_point) * scale; floats have scale 1, zero point 0. */
struct hrf_k_array {
    void *data;
    enum hrf_k_type type;
    float scale;
    int32_t zero_point;
};

enum hrf_k_activation { HRF_K_NONE, HRF_K_RELU, HRF_K_CLIP, HRF_K_LEAKY_RELU };
struct hrf_k_epilogue {
    enum hrf_k_activation activation;
    float low, high; /* CLIP */
    float slope;     /* LEAKY_RELU */
};

/* An odometer over `rank` axes, the last one innermost; strides in elements, 0 = broadcast. */
struct hrf_k_walk {
    int32_t rank;
    int64_t dims[HRF_K_MAX_RANK];
    int64_t y[HRF_K_MAX_RANK], a[HRF_K_MAX_RANK], b[HRF_K_MAX_RANK];
};

enum hrf_k_math {
    HRF_K_COPY, /* of a, converted to y's type; the same integers when scales agree */
#define HRF_K_NAME(OP, FORMULA) HRF_K_##OP,
    HRF_FORMULAS(HRF_K_NAME) HRF_BINARY_FORMULAS(HRF_K_NAME)
#undef HRF_K_NAME
        HRF_K_SWIGLU /* of two: x / (1 + exp(-x)) times the other */
};
struct hrf_k_function {
    enum hrf_k_math math;
    float alpha, beta; /* as struct hrf_attributes has them */
};
/* y = epilogue(function(a, b)) along the walk. b.data is NULL for functions of one operand. */
cudaError_t hrf_k_pointwise(const struct hrf_k_function *function, struct hrf_k_array y,
                            struct hrf_k_array a, struct hrf_k_array b,
                            const struct hrf_k_walk *walk, const struct hrf_k_epilogue *epilogue,
                            cudaStream_t stream);
cudaError_t hrf_k_copy(struct hrf_k_array y, struct hrf_k_array a, const struct hrf_k_walk *walk,
                       cudaStream_t stream);
/* y = a where the condition is not 0, else b. `walk` walks y, a and b, `of_condition` (its a) the
 * condition over the same axes. */
cudaError_t hrf_k_where(struct hrf_k_array y, const uint8_t *condition, struct hrf_k_array a,
                        struct hrf_k_array b, const struct hrf_k_walk *walk,
                        const struct hrf_k_walk *of_condition, cudaStream_t stream);
/* y[c][width] is the row of x at which column c of scores[n][columns] is greatest, the first of
 * equal ones; a NaN is greater than any number. */
cudaError_t hrf_k_select_max(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array scores,
                             int64_t n, int64_t columns, int64_t width, cudaStream_t stream);
/* y[row][i] = 1 for the `greatest` greatest numbers of each row of x, of equal ones and of NaN as
 * above; 0 for the others. */
cudaError_t hrf_k_top_k_mask(struct hrf_k_array y, struct hrf_k_array x, int64_t rows,
                             int64_t length, int64_t greatest, cudaStream_t stream);
/* Row i of y, `size` elements, is row rows[i] of x; both arrays have one form. */
cudaError_t hrf_k_gather_rows(struct hrf_k_array y, struct hrf_k_array x, const int32_t *rows,
                              int64_t n_rows, int64_t size, cudaStream_t stream);
/* ONNX DepthToSpace of a rank's part: the first `skip` rows and columns of what x gives are left
 * out, and what lies behind y's. By columns, rows, depth: a block lies inside a channel. */
struct hrf_k_blocks {
    int64_t n, in_rows, in_columns, out_rows, out_columns, out_channels, block, skip[2];
    int32_t column_row_depth;
};
cudaError_t hrf_k_depth_to_space(struct hrf_k_array y, struct hrf_k_array x,
                                 const struct hrf_k_blocks *form, cudaStream_t stream);
/* Number i of a pattern that the host knows too: an integer from -most to most. */
#ifdef __CUDACC__
#define HRF_K_BOTH __host__ __device__
#else
#define HRF_K_BOTH
#endif
HRF_K_BOTH static inline int32_t hrf_k_pattern(uint64_t seed, int64_t i, int32_t most)
{
    uint64_t mixed = ((uint64_t)i + seed) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return (int32_t)((mixed >> 32) % (uint64_t)(2 * most + 1)) - most;
}
/* y[i] = step times that number. */
cudaError_t hrf_k_fill_pattern(struct hrf_k_array y, int64_t n, uint64_t seed, int32_t most,
                               float step, cudaStream_t stream);
/* Computes for so long, on every multiprocessor, and stores nothing (nothing at all on the host).
 */
cudaError_t hrf_k_keep_busy(float ms, cudaStream_t stream);
/* n elements of y become the real number `value`. */
cudaError_t hrf_k_fill(struct hrf_k_array y, int64_t n, float value, cudaStream_t stream);

/* y[o][c][i] = epilogue(x[o][c][i] * scale[c] + shift[c]), one rounding. Where x and y are 8-bit
 * integers: in steps, x's zero point taken off, scale, shift and epilogue in steps of y. */
cudaError_t hrf_k_affine(struct hrf_k_array y, struct hrf_k_array x, const float *scale,
                         const float *shift, int64_t outer, int64_t channels, int64_t inner,
                         const struct hrf_k_epilogue *epilogue, cudaStream_t stream);
/* The same for RGB pixels; scale and shift are read here and now. */
cudaError_t hrf_k_normalise(struct hrf_k_array y, const uint8_t *x, int64_t pixels,
                            const float scale[3], const float shift[3], cudaStream_t stream);
/* Sizes of the tiles that images are cut out of, and of the images, px of RGB bytes. */
struct hrf_k_tiles {
    int32_t tile_width, tile_height, side, n_rows;
    int32_t is_planar; /* tiles[t][3][tile_height][tile_width] */
};
/* images[i][n_rows][side][3] from tiles[t][tile_height][tile_width][3]; `cuts` are on the device.
 */
cudaError_t hrf_k_cut_tiles(uint8_t *images, const uint8_t *tiles, const struct hrf_tile_cut *cuts,
                            int64_t n_cuts, const struct hrf_k_tiles *t, cudaStream_t stream);
/* Of each strip of a tile how many bytes are `value`, and how many are 0: counts[t][strip][2]. */
enum { HRF_K_STRIP_ROWS = 16 };
static inline int64_t hrf_k_tile_strips(const struct hrf_k_tiles *t)
{
    return (t->tile_height + HRF_K_STRIP_ROWS - 1) / HRF_K_STRIP_ROWS;
}
cudaError_t hrf_k_count_bytes(int32_t *counts, const uint8_t *tiles, int64_t n_tiles,
                              const struct hrf_k_tiles *t, uint8_t value, cudaStream_t stream);
/* y[p][c] of `wide` channels from x of fewer, zeros behind them. */
cudaError_t hrf_k_widen(struct hrf_k_array y, struct hrf_k_array x, int64_t pixels,
                        int64_t channels, int64_t wide, cudaStream_t stream);

/* Images N x rows x columns x channels, NHWC dense. */
struct hrf_k_window {
    int64_t n, in_rows, in_columns, out_rows, out_columns, channels;
    int64_t kernel[2], stride[2], dilation[2], pad_begin[2], pad_end[2];
    int32_t count_include_pad; /* average: outside of the image counts, beyond the pads never */
};
enum hrf_k_pool { HRF_K_POOL_MAX, HRF_K_POOL_AVERAGE };
cudaError_t hrf_k_pool_window(enum hrf_k_pool kind, struct hrf_k_array y, struct hrf_k_array x,
                              const struct hrf_k_window *window, cudaStream_t stream);
/* y[n][c] over `pixels` pixels of x[n][pixels][c]: parts of them first, into the workspace. */
size_t hrf_k_pool_workspace(int64_t n, int64_t pixels, int64_t channels);
cudaError_t hrf_k_pool_global(enum hrf_k_pool kind, struct hrf_k_array y, struct hrf_k_array x,
                              int64_t n, int64_t pixels, int64_t channels, void *workspace,
                              cudaStream_t stream);

/* The sums alone: int32 of 8-bit x (zero points taken off), double of others. */
cudaError_t hrf_k_pool_sum(void *y, struct hrf_k_array x, int64_t n, int64_t pixels,
                           int64_t channels, void *workspace, cudaStream_t stream);
/* y[i] = sums[i] / pixels; integer sums are of steps of x_scale and give steps of y. */
cudaError_t hrf_k_pool_finish(struct hrf_k_array y, const void *sums, int32_t are_integers,
                              float x_scale, int64_t pixels, int64_t n, cudaStream_t stream);
/* To 8 bits with a scale (and, zeros not NULL, a zero point of y's type) for each place along an
 * axis of `length`, `inner` elements between neighbours. */
cudaError_t hrf_k_quantize(struct hrf_k_array y, struct hrf_k_array x, const float *scales,
                           const void *zeros, int64_t outer, int64_t length, int64_t inner,
                           cudaStream_t stream);

/* q[row][k] = x[row][k] * factors[k] in steps of scales[row], the row's largest magnitude over 127,
 * half to even; zeros for k from depth to `wide`. A row below 2^-100 counts as zeros; one that
 * holds a NaN or an infinite number gets a scale of NaN. x: F32, F16, B16; factors may be NULL. */
cudaError_t hrf_k_round_rows(int8_t *q, float *scales, struct hrf_k_array x, const float *factors,
                             int64_t n_rows, int64_t depth, int64_t wide, cudaStream_t stream);

/* Along an axis of `length`, `inner` elements between neighbours. */
cudaError_t hrf_k_softmax(struct hrf_k_array y, struct hrf_k_array x, int64_t outer, int64_t length,
                          int64_t inner, int32_t logarithm, cudaStream_t stream);

/* y = x / (bias + alpha / size * sum of squares over `size` channels around)^beta. */
struct hrf_k_lrn_form {
    int64_t size;
    float alpha, beta, bias;
};
cudaError_t hrf_k_lrn(struct hrf_k_array y, struct hrf_k_array x, int64_t pixels, int64_t channels,
                      const struct hrf_k_lrn_form *form, cudaStream_t stream);
/* `kept` walks the outputs and the first term of each (y, a), `reduced` the terms (a). */
enum hrf_k_reduction {
    HRF_K_MEAN,
    HRF_K_SUM,
    HRF_K_MOST,
    HRF_K_LEAST,
    HRF_K_PRODUCT,
    HRF_K_L1,
    HRF_K_L2,
    HRF_K_SUM_SQUARE,
    HRF_K_LOG_SUM,
    HRF_K_LOG_SUM_EXP
};
cudaError_t hrf_k_reduce(enum hrf_k_reduction reduction, struct hrf_k_array y, struct hrf_k_array x,
                         const struct hrf_k_walk *kept, const struct hrf_k_walk *reduced,
                         cudaStream_t stream);

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias over the terms of each group; not
 * `centred`: without the mean, by the mean of the squares. `groups` walks the groups (y, a) and
 * `terms` the numbers of each: in y, in x (a) and in scale and bias (b), to which i % n_groups *
 * group_parameters is added in group i. scale.data and bias.data may be NULL. y may be x. */
struct hrf_k_norm_form {
    struct hrf_k_walk groups, terms;
    int64_t n_groups, group_parameters;
    float epsilon;
    int32_t centred;
};
cudaError_t hrf_k_norm(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array scale,
                       struct hrf_k_array bias, const struct hrf_k_norm_form *form,
                       cudaStream_t stream);

/* Rows of `depth` numbers normalised, stored as `between` and rounded to 8 bits by
 * hrf_k_round_rows(): the bits of these two passes in one. scale, bias (of the norm) and factors
 * (of the rounding) are [depth] and may be NULL; rows of q are `wide`, zeros behind. */
struct hrf_k_norm_rows_form {
    int64_t depth, wide;
    float epsilon;
    int32_t centred;
    enum hrf_k_type between;
    const float *scale, *bias, *factors;
};
cudaError_t hrf_k_norm_rows(int8_t *q, float *scales, struct hrf_k_array x,
                            const struct hrf_k_norm_rows_form *form, int64_t n_rows,
                            cudaStream_t stream);

/* The same for the gates of SWIGLU: rows of x hold 2 * `depth` numbers. */
struct hrf_k_swiglu_rows_form {
    int64_t depth, wide;
    enum hrf_k_type between;
    const float *factors;
};
cudaError_t hrf_k_swiglu_rows(int8_t *q, float *scales, struct hrf_k_array x,
                              const struct hrf_k_swiglu_rows_form *form, int64_t n_rows,
                              cudaStream_t stream);

/* y[batch][row][column] = epilogue(alpha * sum over k of a b + beta c + residual); strides in
 * elements, `batch` walks y, a and b. c.data and residual (of y's type and form) may be NULL. */
struct hrf_k_product_form {
    struct hrf_k_walk batch;
    int64_t rows, columns, depth;
    int64_t a_row, a_depth, b_depth, b_column, c_row, c_column, y_row, y_column;
    float alpha, beta;
    struct hrf_k_epilogue epilogue;
};
cudaError_t hrf_k_product(struct hrf_k_array y, struct hrf_k_array a, struct hrf_k_array b,
                          struct hrf_k_array c, const void *residual,
                          const struct hrf_k_product_form *form, cudaStream_t stream);

/* Rows and columns of other numbers: output row r is the sum over t of row[r].weight[t] times input
 * row row[r].index[t]; columns likewise. Tables on the device. */
enum { HRF_K_TAPS = 4 };
struct hrf_k_tap {
    int64_t index[HRF_K_TAPS];
    double weight[HRF_K_TAPS];
};
struct hrf_k_resize {
    int64_t n, in_rows, in_columns, out_rows, out_columns, channels;
    int32_t n_taps;
    const struct hrf_k_tap *rows, *columns;
};
cudaError_t hrf_k_resize_image(struct hrf_k_array y, struct hrf_k_array x,
                               const struct hrf_k_resize *resize, cudaStream_t stream);

/* Any convolution, transposed too, one thread an output: for those that cuDNN has no engine for. w
 * is [K][kernel rows][kernel columns][channels / group], of x's type (S8 for 8-bit x), K =
 * out_channels. 8-bit x: by the formula of struct hrf_requantize (scale is its multiplier), y and
 * the epilogue in steps, or in real numbers when y is float; otherwise scale is NULL. With
 * row_scale, a window of one pixel and y float: sum * scale[k] * row_scale[pixel] + bias[k]. */
struct hrf_k_convolution {
    struct hrf_k_window window; /* channels: of x */
    int64_t out_channels, group;
    int32_t is_transposed; /* output at gets input i with at = stride * i - pad + dilation * k */
    const float *scale, *bias; /* [K]; bias NULL: none */
    const float *row_scale;    /* [pixels of x]; NULL: none */
    float residual_scale;
    struct hrf_k_epilogue epilogue;
    enum hrf_k_math formula; /* behind the epilogue, where y is float: GELU, GELU_TANH, SWISH; COPY:
                                none */
};
cudaError_t hrf_k_convolve(struct hrf_k_array y, struct hrf_k_array x, const void *w,
                           struct hrf_k_array residual, const struct hrf_k_convolution *convolution,
                           cudaStream_t stream);
/* The same of each channel by itself, with the same bits, 16 bytes of channels a thread: group and
 * out_channels are the window's channels. w is [kernel rows][kernel columns][channels]. True: x, y
 * and the residual have one type (F32, F16, B16, S8), lie at multiples of 16 bytes, and a pixel is
 * a whole number of them. */
bool hrf_k_depthwise_fits(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array residual,
                          const struct hrf_k_convolution *convolution);
cudaError_t hrf_k_depthwise(struct hrf_k_array y, struct hrf_k_array x, const void *w,
                            struct hrf_k_array residual,
                            const struct hrf_k_convolution *convolution, cudaStream_t stream);

/* ---- what ranks exchange (boxes.cu) ---- */

/* n_images x n_rows runs of row_bytes each; distances in bytes. Between memory of this device, of
 * another that it reaches, and host memory that it reaches. */
struct hrf_k_box {
    void *to;
    const void *from;
    int64_t n_images, n_rows, row_bytes;
    int64_t to_image, to_row, from_image, from_row;
};
cudaError_t hrf_k_copy_box(const struct hrf_k_box *box, cudaStream_t stream);
/* y[i] = parts[0][i] + parts[1][i] + ..., in this order; likewise the largest. */
cudaError_t hrf_k_sum_doubles(double *y, const double *parts, int32_t n_parts, int64_t count,
                              cudaStream_t stream);
cudaError_t hrf_k_sum_integers(int32_t *y, const int32_t *parts, int32_t n_parts, int64_t count,
                               cudaStream_t stream);
cudaError_t hrf_k_largest(const struct hrf_k_array *y, const struct hrf_k_array *parts,
                          int32_t n_parts, int64_t count, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
