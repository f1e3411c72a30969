/* integer_pairs.c - sums, differences and products of 8-bit values: by AVX-512, or by a table of
 * the results for all pairs of values. */
#include "engine/backend/cpu/avx512/bytes_avx512.h"
#include "engine/backend/cpu/instructions.h"
#include "engine/backend/cpu/plain/integer_private.h"

#include <math.h>

static float binary(const struct hrf_spec *spec, int32_t a, int32_t b)
{
    const struct hrf_attributes *t = &spec->attributes;
    const float sa = spec->inputs[0].quantization.scale, sb = spec->inputs[1].quantization.scale;
    const float sy = spec->output.quantization.scale;
    float steps;
    if (spec->op == HRF_OP_MUL)
        steps = (float)(a * b) * (sa * sb / sy);
    else
        steps = fmaf((float)a, sa / sy, (float)(spec->op == HRF_OP_SUB ? -b : b) * (sb / sy));
    return hrf_integer_activate(t->activation, t->activation_min / sy, t->activation_max / sy,
                                t->alpha, steps);
}

/* Fills the table with the result for every pair of 8-bit values. */
void hrf_integer_fill_pairs(const struct hrf_spec *spec, uint8_t *pairs)
{
    const struct hrf_operand *a = &spec->inputs[0], *b = &spec->inputs[1];
    const struct hrf_target t = hrf_target_of(&spec->output);
    for (int32_t i = 0; i < 256; i++)
        for (int32_t k = 0; k < 256; k++) {
            const int32_t qa = (a->dtype == HRF_S8 ? (int8_t)i : i) - a->quantization.zero_point;
            const int32_t qb = (b->dtype == HRF_S8 ? (int8_t)k : k) - b->quantization.zero_point;
            pairs[i * 256 + k] = hrf_narrow(t, binary(spec, qa, qb));
        }
}

/* A walk over the rows of y, a and b. */
static struct hrf_walk walk_of(const struct hrf_spec *spec)
{
    int64_t strides[3][HRF_MAX_RANK];
    struct hrf_walk walk;
    hrf_layout_strides(&spec->output.shape, strides[0]);
    hrf_layout_broadcast_strides(&spec->inputs[0].shape, &spec->output.shape, strides[1]);
    hrf_layout_broadcast_strides(&spec->inputs[1].shape, &spec->output.shape, strides[2]);
    hrf_walk_init(&walk, &spec->output.shape, 3, (const int64_t(*)[HRF_MAX_RANK])strides);
    return walk;
}

/* True if results are looked up in a table; they are computed if the processor has AVX-512 and
 * there is no activation. */
bool hrf_integer_looks_pairs_up(const struct hrf_spec *spec)
{
#ifdef HRF_BUILD_AVX512
    const struct hrf_walk walk = walk_of(spec);
    const int32_t last = walk.rank - 1;
    return spec->attributes.activation != HRF_ACT_NONE || !hrf_cpu_has_avx512() ||
           walk.strides[0][last] != 1 || walk.strides[1][last] > 1 || walk.strides[2][last] > 1;
#else
    (void)spec;
    return true;
#endif
}

static struct hrf_bytes_binary steps_of(const struct hrf_spec *spec, int64_t sa, int64_t sb)
{
    const struct hrf_operand *a = &spec->inputs[0], *b = &spec->inputs[1];
    const float scale_a = a->quantization.scale, scale_b = b->quantization.scale;
    const float scale_y = spec->output.quantization.scale;
    const struct hrf_target t = hrf_target_of(&spec->output);
    const float b_factor = scale_b / scale_y;
    return (struct hrf_bytes_binary){ .multiplies = spec->op == HRF_OP_MUL,
                                      .a_type = a->dtype,
                                      .b_type = b->dtype,
                                      .a_zero = a->quantization.zero_point,
                                      .b_zero = b->quantization.zero_point,
                                      .y_zero = t.zero_point,
                                      .factor = scale_a * scale_b / scale_y,
                                      .a_factor = scale_a / scale_y,
                                      .b_factor = spec->op == HRF_OP_SUB ? -b_factor : b_factor,
                                      .low = t.low,
                                      .high = t.high,
                                      .a_step = sa,
                                      .b_step = sb };
}

static void compute_pairs(const struct hrf_bytes_binary *steps, const uint8_t *a, const uint8_t *b,
                          uint8_t *y, int64_t n)
{
#ifdef HRF_BUILD_AVX512
    hrf_bytes_binary_avx512(steps, a, b, y, n);
#else
    (void)steps, (void)a, (void)b, (void)y, (void)n;
#endif
}

void hrf_integer_binary(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const uint8_t *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    uint8_t *out = call->output;
    const struct hrf_walk walk = walk_of(spec);
    const int32_t last = walk.rank - 1;
    const int64_t n = walk.dims[last], pieces = (n + HRF_INTEGER_PIECE - 1) / HRF_INTEGER_PIECE;
    const int64_t sy = walk.strides[0][last], sa = walk.strides[1][last];
    const int64_t sb = walk.strides[2][last], total = hrf_walk_rows(&walk) * pieces;
    const struct hrf_bytes_binary steps = steps_of(spec, sa, sb);
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < total; k++) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        const int64_t first = k % pieces * HRF_INTEGER_PIECE,
                      end = first + HRF_INTEGER_PIECE < n ? first + HRF_INTEGER_PIECE : n;
        hrf_walk_seek(&walk, k / pieces, at);
        if (kernel->pairs == NULL) {
            compute_pairs(&steps, a + at[1] + first * sa, b + at[2] + first * sb,
                          out + at[0] + first, end - first);
            continue;
        }
        for (int64_t i = first; i < end; i++)
            out[at[0] + i * sy] = kernel->pairs[a[at[1] + i * sa] * 256 + b[at[2] + i * sb]];
    }
}
