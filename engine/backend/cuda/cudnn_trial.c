#include "engine/backend/cuda/cudnn_trial.h"

#include "engine/backend/cuda/kernels.h"
#include "engine/ir/number.h"

#include <math.h>
#include <string.h>

/* ---- the numbers ---- */

static const uint64_t seeds[HRF_CUDNN_N_TENSORS + 1] = { 0, 11, 22, 33, 44, 55, 66, 77, 88, 99 };

static double number_at(enum hrf_dtype type, int64_t id, int64_t i)
{
    return (double)hrf_k_pattern(seeds[id], i, type == HRF_S8 ? 127 : 64) /
           (type == HRF_S8 ? 1 : 64);
}

/* Terms of a sum. */
static int64_t n_terms(const struct hrf_cudnn_conv *c)
{
    return c->w[1] * c->w[2] * c->w[3];
}

/* A number of one of the small tables, as the host makes and uploads it. Sums of INT8 are scaled so
 * that most of them stay between the ends of their type. */
static float table_at(const struct hrf_cudnn_conv *c, int64_t id, int64_t i)
{
    const float unit = (float)number_at(HRF_F32, id, i);
    switch (id) {
    case HRF_CUDNN_SCALE:
        return (1 + unit / 2) * 40 / (5400 * sqrtf((float)n_terms(c)));
    case HRF_CUDNN_BIAS:
        return c->type == HRF_S8 ? unit * 20 : unit;
    case HRF_CUDNN_RESIDUAL_SCALE:
        return 0.37f;
    case HRF_CUDNN_PRE_SCALE:
        return unit < 0 ? -0.5f : 0.5f;
    default:
        return unit / 2; /* PRE_SHIFT: what it gives is a multiple of 1/128, below 1 */
    }
}

/* ---- memory ---- */

static int64_t elements(const int64_t dims[4])
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

static size_t aligned(size_t n_bytes)
{
    return (n_bytes + 255) / 256 * 256;
}

static int32_t add(struct hrf_cudnn_trial *t, int64_t id, int64_t n, enum hrf_dtype type)
{
    t->ids[t->n] = id;
    t->pointers[t->n] = t->memory != NULL ? (char *)t->memory + t->n_bytes : NULL;
    t->n_bytes += aligned((size_t)n * hrf_dtype_size(type));
    return t->n++;
}

static void lay_out(struct hrf_cudnn_trial *t)
{
    const struct hrf_cudnn_conv *c = t->conv;
    t->n = 0;
    t->n_bytes = 0;
    t->residual = -1;
    (void)add(t, HRF_CUDNN_X, elements(c->x), c->type);
    (void)add(t, HRF_CUDNN_W, elements(c->w), c->type);
    t->y = add(t, HRF_CUDNN_Y, elements(c->y), c->out_type);
    if (c->type == HRF_S8)
        (void)add(t, HRF_CUDNN_SCALE, c->y[1], HRF_F32);
    if (c->has_bias)
        (void)add(t, HRF_CUDNN_BIAS, c->y[1], HRF_F32);
    if (c->has_residual)
        t->residual = add(t, HRF_CUDNN_RESIDUAL, elements(c->y), c->residual_type);
    if (c->has_residual && c->type == HRF_S8)
        (void)add(t, HRF_CUDNN_RESIDUAL_SCALE, 1, HRF_F32);
    if (c->has_prologue) {
        (void)add(t, HRF_CUDNN_PRE_SCALE, c->x[1], HRF_F32);
        (void)add(t, HRF_CUDNN_PRE_SHIFT, c->x[1], HRF_F32);
    }
    t->workspace = t->memory != NULL ? (char *)t->memory + t->n_bytes : NULL;
}

static cudaError_t fill_tensor(const struct hrf_cudnn_trial *t, int32_t k, enum hrf_dtype type,
                               int64_t n)
{
    static const enum hrf_k_type types[] = {
        [HRF_F32] = HRF_K_F32, [HRF_F16] = HRF_K_F16, [HRF_B16] = HRF_K_B16, [HRF_S8] = HRF_K_S8
    };
    const struct hrf_k_array array = { t->pointers[k], types[type], 1, 0 };
    return hrf_k_fill_pattern(array, n, seeds[t->ids[k]], type == HRF_S8 ? 127 : 64,
                              type == HRF_S8 ? 1 : 1.0f / 64, t->device->stream);
}

static cudaError_t fill_residual(const struct hrf_cudnn_trial *t)
{
    return t->residual < 0
               ? cudaSuccess
               : fill_tensor(t, t->residual, t->conv->residual_type, elements(t->conv->y));
}

static enum hrf_status fill_table(const struct hrf_cudnn_trial *t, int32_t k)
{
    const bool is_pre = t->ids[k] == HRF_CUDNN_PRE_SCALE || t->ids[k] == HRF_CUDNN_PRE_SHIFT;
    const int64_t n = t->ids[k] == HRF_CUDNN_RESIDUAL_SCALE ? 1
                      : is_pre                              ? t->conv->x[1]
                                                            : t->conv->y[1];
    HRF_AUTO_FREE float *row = hrf_alloc_array((size_t)n, sizeof *row);
    if (row == NULL)
        return HRF_E_NOMEM;
    for (int64_t i = 0; i < n; i++)
        row[i] = table_at(t->conv, t->ids[k], i);
    return hrf_cuda_write(t->device, row, (size_t)n * sizeof *row, t->pointers[k], NULL);
}

static bool fill(const struct hrf_cudnn_trial *t)
{
    bool is_done = fill_residual(t) == cudaSuccess;
    for (int32_t k = 0; k < t->n && is_done; k++) {
        if (t->ids[k] == HRF_CUDNN_X)
            is_done = fill_tensor(t, k, t->conv->type, elements(t->conv->x)) == cudaSuccess;
        else if (t->ids[k] == HRF_CUDNN_W)
            is_done = fill_tensor(t, k, t->conv->type, elements(t->conv->w)) == cudaSuccess;
        else if (k != t->y && k != t->residual)
            is_done = fill_table(t, k) == HRF_OK;
    }
    return is_done;
}

bool hrf_cudnn_trial_init(const struct hrf_cuda_device *device, const struct hrf_cudnn_conv *conv,
                          int64_t workspace_bytes, struct hrf_cudnn_trial *out)
{
    *out = (struct hrf_cudnn_trial){ .device = device, .conv = conv };
    lay_out(out);
    const size_t all = out->n_bytes + (size_t)workspace_bytes;
    if (hrf_cuda_allocate(device, all, &out->memory, NULL) != HRF_OK)
        return false;
    lay_out(out);
    return fill(out);
}

void hrf_cudnn_trial_release(struct hrf_cudnn_trial *trial)
{
    if (trial->memory != NULL)
        (void)cudaStreamSynchronize(trial->device->stream);
    hrf_cuda_release(trial->memory);
    trial->memory = NULL;
}

/* ---- running ---- */

static enum hrf_status run_at(const struct hrf_cudnn_trial *t, const struct hrf_cudnn_plan *plan,
                              cudnnHandle_t cudnn, void *y, struct hrf_error *err)
{
    void *pointers[HRF_CUDNN_N_TENSORS];
    memcpy(pointers, t->pointers, sizeof pointers);
    pointers[t->y] = y;
    return hrf_cudnn_plan_run(plan, cudnn, t->ids, pointers, t->n, t->workspace, err);
}

enum hrf_status hrf_cudnn_trial_run(const struct hrf_cudnn_trial *trial,
                                    const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                    struct hrf_error *err)
{
    return run_at(trial, plan, cudnn, trial->pointers[trial->y], err);
}

/* ---- what is right ---- */

static double activate(const struct hrf_cudnn_activation *a, double x)
{
    switch (a->kind) {
    case HRF_ACT_RELU:
        return x < 0 ? 0 : x;
    case HRF_ACT_CLIP:
        return x < a->low ? a->low : x > a->high ? a->high : x;
    case HRF_ACT_LEAKY_RELU:
        return x < 0 ? x * a->slope : x;
    case HRF_ACT_GELU:
        return x / 2 * (1 + erf(x * sqrt(0.5)));
    case HRF_ACT_GELU_TANH:
        return x / 2 * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case HRF_ACT_SWISH:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

static double input_at(const struct hrf_cudnn_conv *c, int64_t pixel, int64_t channel)
{
    const double x = number_at(c->type, HRF_CUDNN_X, pixel * c->x[1] + channel);
    if (!c->has_prologue)
        return x;
    return activate(&c->before, x * (double)table_at(c, HRF_CUDNN_PRE_SCALE, channel) +
                                    (double)table_at(c, HRF_CUDNN_PRE_SHIFT, channel));
}

/* The sum of channel k at a pixel of y; *magnitude gets the sum of the terms' sizes. */
static double sum_at(const struct hrf_cudnn_conv *c, int64_t pixel, int64_t k, double *magnitude)
{
    const int64_t column = pixel % c->y[3], row = pixel / c->y[3] % c->y[2];
    const int64_t image = pixel / c->y[3] / c->y[2];
    const int64_t first = k / (c->y[1] / (c->x[1] / c->w[1])) * c->w[1]; /* of its group */
    const struct hrf_cudnn_window *w = &c->window;
    double sum = 0;
    for (int64_t r = 0; r < c->w[2]; r++)
        for (int64_t q = 0; q < c->w[3]; q++) {
            const int64_t y = row * w->stride[0] - w->pad_begin[0] + r * w->dilation[0];
            const int64_t x = column * w->stride[1] - w->pad_begin[1] + q * w->dilation[1];
            if (y < 0 || y >= c->x[2] || x < 0 || x >= c->x[3])
                continue;
            for (int64_t i = 0; i < c->w[1]; i++) {
                const double term = input_at(c, (image * c->x[2] + y) * c->x[3] + x, first + i) *
                                    number_at(c->type, HRF_CUDNN_W,
                                              ((k * c->w[2] + r) * c->w[3] + q) * c->w[1] + i);
                sum += term;
                *magnitude += fabs(term);
            }
        }
    return sum;
}

/* Whether y is a right result for channel k of a pixel. */
static bool is_right(const struct hrf_cudnn_conv *c, int64_t pixel, int64_t k, double y)
{
    double magnitude = 0, t = sum_at(c, pixel, k, &magnitude);
    if (c->type == HRF_S8) {
        const double scale = (double)table_at(c, HRF_CUDNN_SCALE, k);
        t *= scale;
        magnitude *= scale;
    }
    if (c->has_bias)
        t += (double)table_at(c, HRF_CUDNN_BIAS, k);
    if (c->has_residual) {
        const double residual = number_at(c->residual_type, HRF_CUDNN_RESIDUAL,
                                          pixel * c->y[1] + k);
        t += residual * (c->type == HRF_S8 ? (double)table_at(c, HRF_CUDNN_RESIDUAL_SCALE, 0) : 1);
    }
    t = activate(&c->activation, t);
    if (c->out_type == HRF_S8)
        return fabs(y - fmin(fmax(t, -128), 127)) <= 0.51;
    /* A bit of the result's type, and of the sum float32's of some thousand terms; a function of it
     * may be computed by a formula that is near. */
    const double step = c->out_type == HRF_F16 ? 0x1p-10 : c->out_type == HRF_B16 ? 0x1p-7 : 1e-6;
    const double formula = c->activation.kind > HRF_ACT_LEAKY_RELU ? 2e-3 : 0;
    return fabs(y - t) <= (step + formula) * fabs(t) + formula + 1e-5 * (magnitude + 1);
}

/* ---- comparing ---- */

/* The first, the last and some between. */
static int64_t pixel_of(const struct hrf_cudnn_conv *c, int i)
{
    const int64_t n = c->y[0] * c->y[2] * c->y[3];
    return i == 0 ? 0 : i == 1 ? n - 1 : (n / HRF_TRIAL_PIXELS * i + 7 * i) % n;
}

static enum hrf_status compare(const struct hrf_cudnn_trial *t, const void *y, const char *where,
                               struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = t->conv;
    const size_t size = hrf_dtype_size(c->out_type), n_bytes = (size_t)c->y[1] * size;
    HRF_AUTO_FREE char *raw = hrf_alloc_array(HRF_TRIAL_PIXELS, n_bytes);
    HRF_AUTO_FREE float *row = hrf_alloc_array((size_t)c->y[1], sizeof *row);
    HRF_CHECK_MEMORY(raw != NULL && row != NULL, err, "no memory for a convolution's results");
    for (int i = 0; i < HRF_TRIAL_PIXELS; i++)
        HRF_TRY(hrf_cuda_read(t->device, (const char *)y + (size_t)pixel_of(c, i) * n_bytes,
                              n_bytes, raw + (size_t)i * n_bytes, err));
    int n = 0, n_wrong = 0;
    for (int i = 0; i < HRF_TRIAL_PIXELS; i++) {
        const char *from = raw + (size_t)i * n_bytes;
        for (int64_t k = 0; k < c->y[1] && c->out_type == HRF_S8; k++)
            row[k] = ((const signed char *)from)[k];
        if (c->out_type != HRF_S8)
            hrf_floats_from(c->out_type, from, row, c->y[1]);
        for (int j = 0; j < HRF_TRIAL_CHANNELS && j < c->y[1]; j++, n++) {
            const int64_t k = (c->y[1] * j / HRF_TRIAL_CHANNELS + i) % c->y[1];
            n_wrong += !is_right(c, pixel_of(c, i), k, (double)row[k]);
        }
    }
    if (n_wrong > 0)
        return hrf_error_set(err, HRF_E_EXTERNAL, "%d of %d results%s are wrong", n_wrong, n,
                             where);
    return HRF_OK;
}

enum hrf_status hrf_cudnn_trial_check(const struct hrf_cudnn_trial *trial,
                                      const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                      struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = trial->conv;
    void *y = trial->pointers[trial->y];
    /* What the run before has left there would be right. */
    HRF_TRY_CUDA(cudaMemsetAsync(y, 0xee, (size_t)elements(c->y) * hrf_dtype_size(c->out_type),
                                 trial->device->stream),
                 "running a convolution");
    HRF_TRY(run_at(trial, plan, cudnn, y, err));
    HRF_TRY(compare(trial, y, "", err));
    if (trial->residual < 0 || c->residual_type != c->out_type)
        return HRF_OK;
    void *residual = trial->pointers[trial->residual];
    HRF_TRY(run_at(trial, plan, cudnn, residual, err));
    const enum hrf_status status = compare(trial, residual, " in the residual's place", err);
    HRF_TRY_CUDA(fill_residual(trial), "running a convolution");
    return status;
}
