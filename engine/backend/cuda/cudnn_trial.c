#include "engine/backend/cuda/cudnn_trial.h"

#include "engine/backend/cuda/kernels.h"
#include "engine/ir/number.h"

#include <math.h>
#include <string.h>

/* ---- the numbers ---- */

static const uint64_t seeds[HRF_CUDNN_N_TENSORS + 1] = { 0,  11, 22,  33,  44,  55,  66, 77,
                                                         88, 99, 110, 121, 132, 143, 154 };

static double number_at(enum hrf_dtype type, int64_t id, int64_t i)
{
    return (double)hrf_k_pattern(seeds[id], i, type == HRF_S8 ? 127 : 64) /
           (type == HRF_S8 ? 1 : 64);
}

/* A number of one of the small tables, as the host makes and uploads it. Sums of INT8 are scaled so
 * that most of them stay between the ends of their type. */
static float table_at(const struct hrf_cudnn_conv *c, int64_t id, int64_t i)
{
    const float unit = (float)number_at(HRF_F32, id, i);
    switch (id) {
    case HRF_CUDNN_SCALE:
        return (1 + unit / 2) * 40 / (5400 * sqrtf((float)(c->w[1] * c->w[2] * c->w[3])));
    case HRF_CUDNN_BIAS:
        return c->type == HRF_S8 ? unit * 20 : unit;
    case HRF_CUDNN_RESIDUAL_SCALE:
        return hrf_arithmetic_short_factor(0.37f);
    case HRF_CUDNN_PRE_SCALE:
        return unit < 0 ? -0.5f : 0.5f;
    case HRF_CUDNN_POST_SCALE: /* many a product is half-way between two steps */
        return c->type == HRF_S8 ? hrf_arithmetic_short_factor(0.37f + unit / 3) : unit;
    case HRF_CUDNN_POST_SHIFT:
        return c->type == HRF_S8 ? 0.5f + unit * 20 : unit;
    case HRF_CUDNN_ROUNDER:
        return HRF_CUDNN_ROUNDER_VALUE;
    default:
        return unit / 2; /* PRE_SHIFT: what it gives is a multiple of 1/128, below 1 */
    }
}

/* What a residual is multiplied by. */
static float residual_scale_of(const struct hrf_cudnn_conv *c)
{
    return c->type == HRF_S8 && !c->has_row_scales ? table_at(c, HRF_CUDNN_RESIDUAL_SCALE, 0) : 1;
}

/* ---- memory ---- */

static int64_t elements(const int64_t dims[4])
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

/* Of the result: those of weights are the elements of all windows. */
static int64_t n_pixels(const struct hrf_cudnn_conv *c)
{
    const int64_t *result = hrf_cudnn_conv_result(c);
    return result[0] * result[2] * result[3];
}

static int64_t n_channels(const struct hrf_cudnn_conv *c)
{
    return hrf_cudnn_conv_result(c)[1];
}

static int32_t cudnn_trial_add(struct hrf_cudnn_trial *t, int64_t id, int64_t n,
                               enum hrf_dtype type)
{
    t->ids[t->n] = id;
    t->pointers[t->n] = t->memory != NULL ? (char *)t->memory + t->n_bytes : NULL;
    t->n_bytes += hrf_cuda_aligned((size_t)n * hrf_dtype_size(type));
    return t->n++;
}

static void lay_out(struct hrf_cudnn_trial *t)
{
    const struct hrf_cudnn_conv *c = t->conv;
    t->n = 0;
    t->n_bytes = 0;
    t->residual = t->second = -1;
    t->y = c->gives == HRF_CUDNN_GIVES_X ? 0 : c->gives == HRF_CUDNN_GIVES_W ? 1 : 2;
    (void)cudnn_trial_add(t, HRF_CUDNN_X, elements(c->x), t->y == 0 ? c->out_type : c->type);
    (void)cudnn_trial_add(t, HRF_CUDNN_W, elements(c->w), t->y == 1 ? c->out_type : c->type);
    (void)cudnn_trial_add(t, HRF_CUDNN_Y, elements(c->y), t->y == 2 ? c->out_type : c->type);
    if (c->type == HRF_S8)
        (void)cudnn_trial_add(t, HRF_CUDNN_SCALE, c->y[1], HRF_F32);
    if (c->has_bias)
        (void)cudnn_trial_add(t, HRF_CUDNN_BIAS, c->y[1], HRF_F32);
    if (c->has_residual)
        t->residual = cudnn_trial_add(t, HRF_CUDNN_RESIDUAL, elements(c->y), c->residual_type);
    if (c->has_residual && c->type == HRF_S8 && !c->has_row_scales)
        (void)cudnn_trial_add(t, HRF_CUDNN_RESIDUAL_SCALE, 1, HRF_F32);
    if (c->has_row_scales)
        (void)cudnn_trial_add(t, HRF_CUDNN_ROW_SCALE, n_pixels(c), HRF_F32);
    if (c->has_prologue) {
        (void)cudnn_trial_add(t, HRF_CUDNN_PRE_SCALE, c->x[1], HRF_F32);
        (void)cudnn_trial_add(t, HRF_CUDNN_PRE_SHIFT, c->x[1], HRF_F32);
    }
    if (c->has_second) {
        t->second = cudnn_trial_add(t, HRF_CUDNN_SECOND, elements(c->y), c->out_type);
        t->post_scale = cudnn_trial_add(t, HRF_CUDNN_POST_SCALE, c->y[1], HRF_F32);
        (void)cudnn_trial_add(t, HRF_CUDNN_POST_SHIFT, c->y[1], HRF_F32);
    }
    if (c->has_second && c->type == HRF_S8)
        (void)cudnn_trial_add(t, HRF_CUDNN_ROUNDER, 1, HRF_F32);
    t->expected = t->memory != NULL ? (char *)t->memory + t->n_bytes : NULL;
    if (c->has_second)
        t->n_bytes += hrf_cuda_aligned((size_t)elements(c->y) * hrf_dtype_size(c->out_type));
    t->workspace = t->memory != NULL ? (char *)t->memory + t->n_bytes : NULL;
}

static struct hrf_k_array array_of(void *data, enum hrf_dtype type)
{
    static const enum hrf_k_type types[] = {
        [HRF_F32] = HRF_K_F32, [HRF_F16] = HRF_K_F16, [HRF_B16] = HRF_K_B16, [HRF_S8] = HRF_K_S8
    };
    return (struct hrf_k_array){ data, types[type], 1, 0 };
}

static cudaError_t fill_tensor(const struct hrf_cudnn_trial *t, int32_t k, enum hrf_dtype type,
                               int64_t n)
{
    return hrf_k_fill_pattern(array_of(t->pointers[k], type), n, seeds[t->ids[k]],
                              type == HRF_S8 ? 127 : 64, type == HRF_S8 ? 1 : 1.0f / 64,
                              t->device->stream);
}

static cudaError_t fill_residual(const struct hrf_cudnn_trial *t)
{
    return t->residual < 0
               ? cudaSuccess
               : fill_tensor(t, t->residual, t->conv->residual_type, elements(t->conv->y));
}

/* Of INT8 the biases are the trial's own. */
static float bias_at(const struct hrf_cudnn_trial *t, int64_t i)
{
    return t->bias != NULL ? t->bias[i] : table_at(t->conv, HRF_CUDNN_BIAS, i);
}

static enum hrf_status fill_table(const struct hrf_cudnn_trial *t, int32_t k)
{
    const bool is_pre = t->ids[k] == HRF_CUDNN_PRE_SCALE || t->ids[k] == HRF_CUDNN_PRE_SHIFT;
    const bool is_one = t->ids[k] == HRF_CUDNN_RESIDUAL_SCALE || t->ids[k] == HRF_CUDNN_ROUNDER;
    const int64_t n = is_one ? 1 : is_pre ? t->conv->x[1] : t->conv->y[1];
    HRF_AUTO_FREE float *row = hrf_try_alloc_array((size_t)n, sizeof *row);
    if (row == NULL)
        return HRF_E_NOMEM;
    for (int64_t i = 0; i < n; i++)
        row[i] = t->ids[k] == HRF_CUDNN_BIAS ? bias_at(t, i) : table_at(t->conv, t->ids[k], i);
    return hrf_cuda_write(t->device, row, (size_t)n * sizeof *row, t->pointers[k], NULL);
}

static bool cudnn_trial_fill(const struct hrf_cudnn_trial *t)
{
    bool is_done = fill_residual(t) == cudaSuccess;
    for (int32_t k = 0; k < t->n && is_done; k++) {
        if (k == t->y)
            continue;
        if (t->ids[k] == HRF_CUDNN_Y)
            is_done = fill_tensor(t, k, t->conv->type, elements(t->conv->y)) == cudaSuccess;
        else if (t->ids[k] == HRF_CUDNN_X)
            is_done = fill_tensor(t, k, t->conv->type, elements(t->conv->x)) == cudaSuccess;
        else if (t->ids[k] == HRF_CUDNN_W)
            is_done = fill_tensor(t, k, t->conv->type, elements(t->conv->w)) == cudaSuccess;
        else if (t->ids[k] == HRF_CUDNN_ROW_SCALE)
            is_done = fill_tensor(t, k, HRF_F32, n_pixels(t->conv)) == cudaSuccess;
        else if (k != t->residual && k != t->second)
            is_done = fill_table(t, k) == HRF_OK;
    }
    return is_done;
}

void hrf_cudnn_trial_release(struct hrf_cudnn_trial *trial)
{
    if (trial->memory != NULL)
        (void)cudaStreamSynchronize(trial->device->stream);
    hrf_cuda_release(trial->memory);
    trial->memory = NULL;
    hrf_free(trial->bias);
    trial->bias = NULL;
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

static double cudnn_trial_activate(const struct hrf_cudnn_activation *a, double x)
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
    return cudnn_trial_activate(&c->before, x * (double)table_at(c, HRF_CUDNN_PRE_SCALE, channel) +
                                                (double)table_at(c, HRF_CUDNN_PRE_SHIFT, channel));
}

/* The output of an axis whose window has its element `tap` at `at`; -1: none. */
static int64_t output_at(const struct hrf_cudnn_conv *c, int axis, int64_t at, int64_t tap)
{
    const struct hrf_cudnn_window *w = &c->window;
    const int64_t reach = at + w->pad_begin[axis] - tap * w->dilation[axis];
    const bool is_one = reach >= 0 && reach % w->stride[axis] == 0 &&
                        reach / w->stride[axis] < c->y[2 + axis];
    return is_one ? reach / w->stride[axis] : -1;
}

/* The gradient to channel k of a pixel of x. */
static double data_gradient_at(const struct hrf_cudnn_conv *c, int64_t pixel, int64_t k,
                               double *magnitude)
{
    const int64_t column = pixel % c->x[3], row = pixel / c->x[3] % c->x[2];
    const int64_t image = pixel / c->x[3] / c->x[2], outputs = c->y[1] / (c->x[1] / c->w[1]);
    double sum = 0;
    for (int64_t r = 0; r < c->w[2]; r++)
        for (int64_t q = 0; q < c->w[3]; q++) {
            const int64_t y = output_at(c, 0, row, r), x = output_at(c, 1, column, q);
            if (y < 0 || x < 0)
                continue;
            for (int64_t i = 0; i < outputs; i++) {
                const int64_t m = k / c->w[1] * outputs + i;
                const double term = number_at(c->type, HRF_CUDNN_Y,
                                              ((image * c->y[2] + y) * c->y[3] + x) * c->y[1] + m) *
                                    number_at(c->type, HRF_CUDNN_W,
                                              ((m * c->w[2] + r) * c->w[3] + q) * c->w[1] +
                                                  k % c->w[1]);
                sum += term;
                *magnitude += fabs(term);
            }
        }
    return sum;
}

/* The gradient to channel k, of a group, of an element of a window: "pixel" K, R, S of w. */
static double weight_gradient_at(const struct hrf_cudnn_conv *c, int64_t pixel, int64_t k,
                                 double *magnitude)
{
    const struct hrf_cudnn_window *w = &c->window;
    const int64_t q = pixel % c->w[3], r = pixel / c->w[3] % c->w[2];
    const int64_t m = pixel / c->w[3] / c->w[2];
    const int64_t channel = m / (c->y[1] / (c->x[1] / c->w[1])) * c->w[1] + k;
    double sum = 0;
    for (int64_t i = 0; i < c->y[0] * c->y[2] * c->y[3]; i++) {
        const int64_t image = i / c->y[3] / c->y[2];
        const int64_t y = i / c->y[3] % c->y[2] * w->stride[0] - w->pad_begin[0] +
                          r * w->dilation[0];
        const int64_t x = i % c->y[3] * w->stride[1] - w->pad_begin[1] + q * w->dilation[1];
        if (y < 0 || y >= c->x[2] || x < 0 || x >= c->x[3])
            continue;
        const double term = number_at(c->type, HRF_CUDNN_Y, i * c->y[1] + m) *
                            number_at(c->type, HRF_CUDNN_X,
                                      ((image * c->x[2] + y) * c->x[3] + x) * c->x[1] + channel);
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
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

/* Pixel i of those that are checked: the first, the last and some between. */
static int64_t pixel_of(const struct hrf_cudnn_conv *c, int i)
{
    const int64_t n = n_pixels(c);
    return i == 0 ? 0 : i == 1 ? n - 1 : (n / HRF_TRIAL_PIXELS * i + 7 * i) % n;
}

/* Its channel j; there are n_checked(). */
static int64_t channel_of(const struct hrf_cudnn_conv *c, int i, int j)
{
    return (n_channels(c) * j / HRF_TRIAL_CHANNELS + i) % n_channels(c);
}

/* A gradient to a weight is a sum over all images. */
static int n_checked(const struct hrf_cudnn_conv *c)
{
    const int64_t most = c->gives == HRF_CUDNN_GIVES_W ? 2 : HRF_TRIAL_CHANNELS;
    return (int)(n_channels(c) < most ? n_channels(c) : most);
}

static double result_at(const struct hrf_cudnn_conv *c, int64_t pixel, int64_t k, double *magnitude)
{
    return c->gives == HRF_CUDNN_GIVES_X   ? data_gradient_at(c, pixel, k, magnitude)
           : c->gives == HRF_CUDNN_GIVES_W ? weight_gradient_at(c, pixel, k, magnitude)
                                           : sum_at(c, pixel, k, magnitude);
}

/* Once for all engines: of a deep convolution this takes milliseconds. */
static void compute_sums(struct hrf_cudnn_trial *t)
{
    const struct hrf_cudnn_conv *c = t->conv;
    for (int i = 0; i < HRF_TRIAL_PIXELS; i++)
        for (int j = 0; j < n_checked(c); j++)
            t->sums[i][j] = result_at(c, pixel_of(c, i), channel_of(c, i, j), &t->magnitudes[i][j]);
}

/* Whether y is a right result for channel j of pixel i. */
static bool is_right(const struct hrf_cudnn_trial *trial, int i, int j, double y)
{
    const struct hrf_cudnn_conv *c = trial->conv;
    const int64_t pixel = pixel_of(c, i), k = channel_of(c, i, j);
    double magnitude = trial->magnitudes[i][j], t = trial->sums[i][j];
    if (c->type == HRF_S8) {
        const double scale = (double)table_at(c, HRF_CUDNN_SCALE, k);
        t *= scale;
        magnitude *= scale;
    }
    if (c->has_row_scales)
        t *= number_at(HRF_F32, HRF_CUDNN_ROW_SCALE, pixel);
    if (c->has_bias)
        t += (double)bias_at(trial, k);
    if (c->has_residual) {
        const double residual = number_at(c->residual_type, HRF_CUDNN_RESIDUAL,
                                          pixel * c->y[1] + k);
        t += residual * (double)residual_scale_of(c);
    }
    t = cudnn_trial_activate(&c->activation, t);
    if (c->out_type == HRF_S8)
        return fabs(y - fmin(fmax(t, -128), 127)) <= 0.51;
    /* A bit of the result's type, and of the sum float32's of some thousand terms; a function of it
     * may be computed by a formula that is near. */
    const double step = c->out_type == HRF_F16 ? 0x1p-10 : c->out_type == HRF_B16 ? 0x1p-7 : 1e-6;
    const double formula = c->activation.kind > HRF_ACT_LEAKY_RELU ? 2e-3 : 0;
    return fabs(y - t) <= (step + formula) * fabs(t) + formula + 1e-5 * (magnitude + 1);
}

/* ---- results that tell how an engine rounds ---- */

/* That of result i: in turns one of the first tiles of 128 pixels, whose every place is some
 * thread's, and one of all. Both steps are odd, so that places in a tile differ. */
static int64_t telling_pixel(const struct hrf_cudnn_conv *c, int64_t i)
{
    enum { FIRST = 256, STEP = 37 };
    const int64_t n = n_pixels(c), first = n < FIRST ? n : FIRST;
    return i % 2 == 0 ? i / 2 * STEP % first : (n / HRF_TRIAL_TELLING * i + STEP * i) % n;
}

static void choose_biases(struct hrf_cudnn_trial *t)
{
    const struct hrf_cudnn_conv *c = t->conv;
    t->bias = hrf_calloc((size_t)c->y[1], sizeof *t->bias);
    for (int64_t k = 0; k < c->y[1] && c->has_bias; k++)
        t->bias[k] = table_at(c, HRF_CUDNN_BIAS, k);
    t->n_telling = c->y[1] < HRF_TRIAL_TELLING ? (int)c->y[1] : HRF_TRIAL_TELLING;
    for (int i = 0; i < t->n_telling; i++) {
        const int64_t k = c->y[1] * i / t->n_telling, pixel = telling_pixel(c, i);
        struct hrf_int8_terms *terms = &t->telling[i];
        double magnitude = 0;
        terms->sum = (int64_t)sum_at(c, pixel, k, &magnitude);
        terms->scale = table_at(c, HRF_CUDNN_SCALE, k);
        if (c->has_residual) {
            terms->residual = (float)number_at(c->residual_type, HRF_CUDNN_RESIDUAL,
                                               pixel * c->y[1] + k);
            terms->residual_scale = residual_scale_of(c);
        }
        if (c->has_row_scales)
            terms->row_scale = (float)number_at(HRF_F32, HRF_CUDNN_ROW_SCALE, pixel);
        terms->bias = t->bias[k];
        if (c->has_bias)
            terms->bias = t->bias[k] = hrf_arithmetic_telling_bias(c, terms, i);
        t->channels[i] = k;
        t->pixels[i] = pixel;
    }
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
    compute_sums(out);
    if (conv->type == HRF_S8)
        choose_biases(out);
    return cudnn_trial_fill(out);
}

/* ---- comparing ---- */

/* One pixel's results. */
static enum hrf_status read_pixel(const struct hrf_cudnn_trial *t, const void *y, int64_t pixel,
                                  float *row, struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = t->conv;
    const size_t n_bytes = (size_t)n_channels(c) * hrf_dtype_size(c->out_type);
    HRF_AUTO_FREE signed char *raw = hrf_try_alloc(n_bytes);
    HRF_CHECK_MEMORY(raw != NULL, err, "no memory for a convolution's results");
    HRF_TRY(hrf_cuda_read(t->device, (const char *)y + (size_t)pixel * n_bytes, n_bytes, raw, err));
    for (int64_t k = 0; k < n_channels(c) && c->out_type == HRF_S8; k++)
        row[k] = raw[k];
    if (c->out_type != HRF_S8)
        hrf_floats_from(c->out_type, raw, row, n_channels(c));
    return HRF_OK;
}

static enum hrf_status cudnn_trial_compare(const struct hrf_cudnn_trial *t, const void *y,
                                           const char *where, struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = t->conv;
    HRF_AUTO_FREE float *row = hrf_try_alloc_array((size_t)n_channels(c), sizeof *row);
    HRF_CHECK_MEMORY(row != NULL, err, "no memory for a convolution's results");
    int n = 0, n_wrong = 0;
    for (int i = 0; i < HRF_TRIAL_PIXELS; i++) {
        HRF_TRY(read_pixel(t, y, pixel_of(c, i), row, err));
        for (int j = 0; j < n_checked(c); j++, n++)
            n_wrong += !is_right(t, i, j, (double)row[channel_of(c, i, j)]);
    }
    if (n_wrong > 0)
        return hrf_error_set(err, HRF_E_EXTERNAL, "%d of %d results%s are wrong", n_wrong, n,
                             where);
    return HRF_OK;
}

/* ---- the second output ---- */

static struct hrf_k_epilogue epilogue_of(const struct hrf_cudnn_activation *a)
{
    struct hrf_k_epilogue e = { .low = (float)a->low,
                                .high = (float)a->high,
                                .slope = (float)a->slope };
    e.activation = a->kind == HRF_ACT_RELU         ? HRF_K_RELU
                   : a->kind == HRF_ACT_CLIP       ? HRF_K_CLIP
                   : a->kind == HRF_ACT_LEAKY_RELU ? HRF_K_LEAKY_RELU
                                                   : HRF_K_NONE;
    return e;
}

/* How far a float of the second output may be from the one that a pass over y gives: y is rounded
 * to its type before that pass, maybe not before an engine goes on. */
static float second_tolerance(enum hrf_dtype type, float expected)
{
    const float step = type == HRF_F16 ? 0x1p-9f : type == HRF_B16 ? 0x1p-6f : 1e-5f;
    return step * (fabsf(expected) + 1);
}

/* Elements [first, first + n) of both. */
static enum hrf_status compare_seconds(const struct hrf_cudnn_trial *t, int64_t first, int64_t n,
                                       const char *where, struct hrf_error *err)
{
    const enum hrf_dtype type = t->conv->out_type;
    const size_t size = hrf_dtype_size(type), n_bytes = (size_t)n * size, at = (size_t)first * size;
    HRF_AUTO_FREE signed char *raw = hrf_try_alloc(2 * n_bytes);
    HRF_AUTO_FREE float *y = hrf_try_alloc_array(2 * (size_t)n, sizeof *y);
    HRF_CHECK_MEMORY(raw != NULL && y != NULL, err, "no memory for a convolution's results");
    HRF_TRY(hrf_cuda_read(t->device, (const char *)t->pointers[t->second] + at, n_bytes, raw, err));
    HRF_TRY(hrf_cuda_read(t->device, (const char *)t->expected + at, n_bytes, raw + n_bytes, err));
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < n && type == HRF_S8; i++)
        n_wrong += raw[i] != raw[n + i];
    if (type != HRF_S8)
        hrf_floats_from(type, raw, y, 2 * n);
    for (int64_t i = 0; i < n && type != HRF_S8; i++)
        n_wrong += !(fabsf(y[i] - y[n + i]) <= second_tolerance(type, y[n + i]));
    if (n_wrong > 0)
        return hrf_error_set(err, HRF_E_EXTERNAL,
                             "%lld of %lld results of its second output%s are wrong",
                             (long long)n_wrong, (long long)n, where);
    return HRF_OK;
}

static enum hrf_status run_pass(const struct hrf_cudnn_trial *t, void *y, struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = t->conv;
    const struct hrf_k_epilogue epilogue = epilogue_of(&c->after);
    HRF_TRY_CUDA(hrf_k_affine(array_of(t->expected, c->out_type), array_of(y, c->out_type),
                              t->pointers[t->post_scale], t->pointers[t->post_scale + 1],
                              n_pixels(c), c->y[1], 1, &epilogue, t->device->stream),
                 "a second output");
    return HRF_OK;
}

enum hrf_status hrf_cudnn_trial_pass(const struct hrf_cudnn_trial *trial, struct hrf_error *err)
{
    return run_pass(trial, trial->pointers[trial->y], err);
}

/* The second output beside y, which may stand in the residual's place: the first numbers, the last
 * and some between. */
static enum hrf_status check_second(const struct hrf_cudnn_trial *t, void *y, const char *where,
                                    struct hrf_error *err)
{
    enum { AT_ONCE = 1 << 16, PLACES = 4 };
    const struct hrf_cudnn_conv *c = t->conv;
    if (t->second < 0)
        return HRF_OK;
    const int64_t all = elements(c->y), n = all < AT_ONCE ? all : AT_ONCE;
    HRF_TRY(run_pass(t, y, err));
    for (int i = 0; i < (all > n ? PLACES : 1); i++)
        HRF_TRY(compare_seconds(t, (all - n) / (PLACES - 1) * i, n, where, err));
    return HRF_OK;
}

static enum hrf_status poison(const struct hrf_cudnn_trial *t, int32_t k, struct hrf_error *err)
{
    const size_t n_bytes = (size_t)elements(hrf_cudnn_conv_result(t->conv)) *
                           hrf_dtype_size(t->conv->out_type);
    if (k >= 0)
        HRF_TRY_CUDA(cudaMemsetAsync(t->pointers[k], 0xee, n_bytes, t->device->stream),
                     "running a convolution");
    return HRF_OK;
}

enum hrf_status hrf_cudnn_trial_check(const struct hrf_cudnn_trial *trial,
                                      const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                      struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = trial->conv;
    void *y = trial->pointers[trial->y];
    /* What the run before has left there would be right. */
    HRF_TRY(poison(trial, trial->y, err));
    HRF_TRY(poison(trial, trial->second, err));
    HRF_TRY(run_at(trial, plan, cudnn, y, err));
    HRF_TRY(cudnn_trial_compare(trial, y, "", err));
    HRF_TRY(check_second(trial, y, "", err));
    if (trial->residual < 0 || c->residual_type != c->out_type)
        return HRF_OK;
    void *residual = trial->pointers[trial->residual];
    HRF_TRY(poison(trial, trial->second, err));
    HRF_TRY(run_at(trial, plan, cudnn, residual, err));
    enum hrf_status status = cudnn_trial_compare(trial, residual, " in the residual's place", err);
    if (status == HRF_OK)
        status = check_second(trial, residual, " in the residual's place", err);
    HRF_TRY_CUDA(fill_residual(trial), "running a convolution");
    return status;
}

/* The lowest arithmetic that gives all the results that tell. */
enum hrf_status hrf_cudnn_trial_arithmetic(const struct hrf_cudnn_trial *trial,
                                           const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                           enum hrf_arithmetic *out, struct hrf_error *err)
{
    const struct hrf_cudnn_conv *c = trial->conv;
    HRF_AUTO_FREE float *row = hrf_try_alloc_array((size_t)c->y[1], sizeof *row);
    HRF_CHECK_MEMORY(row != NULL, err, "no memory for a convolution's results");
    float told[HRF_TRIAL_TELLING];
    *out = HRF_AS_WRITTEN;
    if (trial->n_telling == 0)
        return HRF_OK;
    HRF_TRY(hrf_cudnn_trial_run(trial, plan, cudnn, err));
    for (int i = 0; i < trial->n_telling; i++) {
        HRF_TRY(read_pixel(trial, trial->pointers[trial->y], trial->pixels[i], row, err));
        told[i] = row[trial->channels[i]];
    }
    for (int a = HRF_AS_WRITTEN; a < HRF_ARITHMETIC_OTHER; a++) {
        bool agrees = true;
        for (int i = 0; i < trial->n_telling && agrees; i++)
            agrees = hrf_arithmetic_result(c, &trial->telling[i], (enum hrf_arithmetic)a) ==
                     told[i];
        *out = (enum hrf_arithmetic)a;
        if (agrees)
            return HRF_OK;
    }
    *out = HRF_ARITHMETIC_OTHER;
    return HRF_OK;
}
