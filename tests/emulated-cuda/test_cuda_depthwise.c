/* The own kernel for convolutions of each channel by itself (depthwise.cu) on the emulated GPU: the
 * bits of the plain kernel for any convolution, in every type, over windows that reach over the
 * borders, with strides, dilations and rows that its units of pixels do not divide. */
#include "base/alloc.h"
#include "base/random.h"
#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/kernels.h"
#include "tests/unit/unit.h"

#include <string.h>

static int64_t pick(struct hrf_random *random, int64_t least, int64_t most)
{
    return least + (int64_t)(hrf_random_unit(random) * (double)(most - least + 1));
}

static const size_t sizes[] = { [HRF_K_F32] = 4, [HRF_K_F16] = 2, [HRF_K_B16] = 2, [HRF_K_S8] = 1 };

/* n numbers of a pattern, on the device. */
static struct hrf_k_array numbers(const struct hrf_cuda_device *gpu, enum hrf_k_type type,
                                  int64_t n, uint64_t seed)
{
    struct hrf_k_array a = { .type = type, .scale = 1 };
    const bool is_byte = type == HRF_K_S8;
    assert_int_equal(hrf_cuda_allocate(gpu, (size_t)n * sizes[type], &a.data, NULL), HRF_OK);
    assert_int_equal(
        hrf_k_fill_pattern(a, n, seed, is_byte ? 127 : 64, is_byte ? 1 : 1.0f / 64, gpu->stream),
        cudaSuccess);
    return a;
}

/* Weights [channels][area] of the plain kernel as [area][channels]. */
static void *turn(const struct hrf_cuda_device *gpu, const struct hrf_k_array *w, int64_t channels,
                  int64_t area)
{
    const size_t size = sizes[w->type], n_bytes = (size_t)(channels * area) * size;
    HRF_AUTO_FREE char *from = hrf_alloc(n_bytes);
    HRF_AUTO_FREE char *to = hrf_alloc(n_bytes);
    void *turned = NULL;
    assert_int_equal(hrf_cuda_read(gpu, w->data, n_bytes, from, NULL), HRF_OK);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < area; i++)
            memcpy(to + (size_t)(i * channels + c) * size, from + (size_t)(c * area + i) * size,
                   size);
    assert_int_equal(hrf_cuda_upload(gpu, to, n_bytes, &turned, NULL), HRF_OK);
    return turned;
}

static void check(const struct hrf_cuda_device *gpu, uint64_t seed)
{
    static const enum hrf_k_type types[] = { HRF_K_F32, HRF_K_F16, HRF_K_B16, HRF_K_S8 };
    static const enum hrf_k_activation activations[] = { HRF_K_NONE, HRF_K_RELU, HRF_K_CLIP,
                                                         HRF_K_LEAKY_RELU };
    static const enum hrf_k_math formulas[] = { HRF_K_COPY, HRF_K_GELU, HRF_K_GELU_TANH,
                                                HRF_K_SWISH };
    struct hrf_random random = hrf_random_init(seed);
    const enum hrf_k_type type = types[seed % 4];
    const int64_t channels = (int64_t)(16 / sizes[type]) * pick(&random, 1, 5);
    struct hrf_k_convolution c = { .out_channels = channels, .group = channels };
    struct hrf_k_window *w = &c.window;
    w->channels = channels;
    w->n = pick(&random, 1, 3);
    w->in_rows = pick(&random, 7, 15);
    w->in_columns = pick(&random, 7, 21);
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = pick(&random, 1, 4) * 2 - 1;
        w->stride[i] = pick(&random, 1, 2);
        w->dilation[i] = w->kernel[i] <= 3 ? pick(&random, 1, 2) : 1;
        w->pad_begin[i] = pick(&random, 0, w->kernel[i] / 2 + 1);
    }
    const int64_t reach[2] = { w->dilation[0] * (w->kernel[0] - 1),
                               w->dilation[1] * (w->kernel[1] - 1) };
    w->out_rows = (w->in_rows + 2 * w->pad_begin[0] - reach[0] - 1) / w->stride[0] + 1;
    w->out_columns = (w->in_columns + 2 * w->pad_begin[1] - reach[1] - 1) / w->stride[1] + 1;
    assert_true(w->out_rows > 0 && w->out_columns > 0);
    const int64_t area = w->kernel[0] * w->kernel[1];
    const int64_t n_y = w->n * w->out_rows * w->out_columns * channels;
    const int64_t n_x = w->n * w->in_rows * w->in_columns * channels;
    struct hrf_k_array x = numbers(gpu, type, n_x, seed);
    struct hrf_k_array residual = numbers(gpu, type, n_y, seed + 1);
    struct hrf_k_array weights = numbers(gpu, type, channels * area, seed + 2);
    struct hrf_k_array scale = numbers(gpu, HRF_K_F32, channels, seed + 3);
    struct hrf_k_array bias = numbers(gpu, HRF_K_F32, channels, seed + 4);
    struct hrf_k_array y = numbers(gpu, type, n_y, seed + 5);
    struct hrf_k_array other = numbers(gpu, type, n_y, seed + 6);
    void *turned = turn(gpu, &weights, channels, area), *const data = residual.data;
    x.zero_point = type == HRF_K_S8 ? (int32_t)pick(&random, -3, 3) : 0;
    residual.zero_point = x.zero_point;
    y.zero_point = other.zero_point = type == HRF_K_S8 ? 5 : 0;
    if (type == HRF_K_S8)
        c.scale = scale.data;
    c.bias = seed / 4 % 3 != 0 ? bias.data : NULL;
    residual.data = seed / 4 % 2 != 0 ? data : NULL;
    c.residual_scale = 0.375f;
    c.epilogue = (struct hrf_k_epilogue){ .activation = activations[seed / 4 % 4],
                                          .low = -0.25f,
                                          .high = type == HRF_K_S8 ? 90 : 0.75f,
                                          .slope = 0.125f };
    c.formula = formulas[seed / 16 % 4];
    assert_true(hrf_k_depthwise_fits(y, x, residual, &c));
    assert_int_equal(hrf_k_depthwise(y, x, turned, residual, &c, gpu->stream), cudaSuccess);
    assert_int_equal(hrf_k_convolve(other, x, weights.data, residual, &c, gpu->stream),
                     cudaSuccess);
    const size_t n_bytes = (size_t)n_y * sizes[type];
    HRF_AUTO_FREE char *ours = hrf_alloc(n_bytes);
    HRF_AUTO_FREE char *plain = hrf_alloc(n_bytes);
    assert_int_equal(hrf_cuda_read(gpu, y.data, n_bytes, ours, NULL), HRF_OK);
    assert_int_equal(hrf_cuda_read(gpu, other.data, n_bytes, plain, NULL), HRF_OK);
    if (memcmp(ours, plain, n_bytes) != 0)
        fail_msg("seed %llu: other bits than the plain kernel's", (unsigned long long)seed);
    void *const all[] = { x.data,    data,   weights.data, scale.data,
                          bias.data, y.data, other.data,   turned };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        hrf_cuda_release(all[i]);
}

static void depthwise_has_the_bits_of_the_plain_kernel(void **state)
{
    struct hrf_cuda_device *gpu = NULL;
    (void)state;
    assert_int_equal(hrf_cuda_device_open(0, &gpu, NULL), HRF_OK);
    for (uint64_t seed = 0; seed < 192; seed++)
        check(gpu, seed);
    hrf_cuda_device_destroy(gpu);
}

/* Other forms are the plain kernel's. */
static void what_does_not_fit_is_said(void **state)
{
    static char memory[64] __attribute__((aligned(16)));
    const struct hrf_k_array none = { .data = NULL }, x = { memory, HRF_K_B16, 1, 0 };
    struct hrf_k_convolution c = { .window = { .channels = 16 }, .out_channels = 16, .group = 16 };
    (void)state;
    assert_true(hrf_k_depthwise_fits(x, x, none, &c));
    const struct hrf_k_array odd = { memory + 2, HRF_K_B16, 1, 0 };
    assert_false(hrf_k_depthwise_fits(x, odd, none, &c));
    assert_false(hrf_k_depthwise_fits(x, x, odd, &c));
    const struct hrf_k_array wide = { memory, HRF_K_F32, 1, 0 };
    assert_false(hrf_k_depthwise_fits(wide, x, none, &c));
    c.out_channels = 32;
    assert_false(hrf_k_depthwise_fits(x, x, none, &c));
    c.out_channels = c.group = c.window.channels = 12;
    assert_false(hrf_k_depthwise_fits(x, x, none, &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
                                            depthwise_has_the_bits_of_the_plain_kernel),
                                        cmocka_unit_test(what_does_not_fit_is_said) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
