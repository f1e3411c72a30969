/* performer.c - PERFORMER's three parts: heads and runs of tokens are divided among threads. */
#include "engine/backend/cpu/transformer/performer.h"

#include "engine/backend/cpu/cpu_private.h"

#include <math.h>
#include <string.h>

#ifdef HRF_BUILD_AVX512
#define CALL(what, ...)                                                                            \
    (hrf_cpu_has_avx512() ? hrf_performer_##what##_avx512(__VA_ARGS__)                             \
                          : hrf_performer_##what##_plain(__VA_ARGS__))
#else
#define CALL(what, ...) hrf_performer_##what##_plain(__VA_ARGS__)
#endif

enum { STRETCH = 1 << 10 }; /* tokens of one piece of work */

struct job {
    struct hrf_performer a;
    int64_t n_heads, n_tokens, n_channels, n; /* n: heads of all images */
};

/* The spec's constant for the projection is already transposed and scaled. */
static struct job job_of(const struct hrf_spec *spec, int32_t projection)
{
    const struct hrf_shape *x = &spec->inputs[0].shape, *p = &spec->inputs[projection].shape;
    struct job j = { .n_heads = spec->attributes.performer.heads,
                     .n_tokens = x->dims[2] * x->dims[3],
                     .n_channels = x->dims[1],
                     .n = x->dims[0] * spec->attributes.performer.heads };
    j.a = (struct hrf_performer){ .projection = spec->inputs[projection].constant,
                                  .d = p->dims[1],
                                  .m = p->dims[0],
                                  .token_stride = x->dims[1],
                                  .epsilon = (double)spec->attributes.performer.epsilon,
                                  .exponential = spec->attributes.performer.exponential };
    return j;
}

/* The offset of the tokens of head i, counted through all images. */
static int64_t first_of(const struct job *j, int64_t i)
{
    return i / j->n_heads * j->n_tokens * j->n_channels + i % j->n_heads * j->a.d;
}

enum hrf_status hrf_cpu_prepare_performer(struct hrf_spec *spec, struct hrf_error *err)
{
    const int32_t index = spec->op == HRF_OP_PERFORMER_MAX ? 1 : HRF_STATE_PROJECTION;
    struct hrf_operand *p = &spec->inputs[index];
    const int64_t m = p->shape.dims[0], d = p->shape.dims[1];
    const float *given = p->constant;
    double *transposed = hrf_try_alloc_array((size_t)(m * d), sizeof *transposed);
    HRF_CHECK_MEMORY(transposed != NULL, err, "projection of node '%s'", spec->name);
    const double scale = 1 / sqrt(sqrt((double)d));
    for (int64_t f = 0; f < m; f++)
        for (int64_t c = 0; c < d; c++)
            transposed[c * m + f] = (double)given[f * d + c] * scale;
    hrf_free(p->constant);
    p->constant = transposed;
    p->dtype = HRF_F64;
    return HRF_OK;
}

/* STATE needs sums for each piece of work, APPLY the transposed state of every head. */
size_t hrf_cpu_performer_workspace(const struct hrf_spec *spec)
{
    if (spec->op == HRF_OP_PERFORMER_MAX)
        return 0;
    const struct job j = job_of(spec, HRF_STATE_PROJECTION);
    const int64_t pieces = spec->op == HRF_OP_PERFORMER_STATE ? (j.n_tokens + STRETCH - 1) / STRETCH
                                                              : 1;
    return (size_t)(j.n * pieces * (j.a.d + 1) * j.a.m) * sizeof(double);
}

void hrf_cpu_performer_max(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct job j = job_of(spec, 1);
    const float *k = hrf_spec_data(spec, call, 0);
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < j.n; i++)
        hrf_floats(call)[i] = CALL(max, &j.a, k + first_of(&j, i), j.n_tokens);
}

void hrf_cpu_performer_state(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct job j = job_of(spec, HRF_STATE_PROJECTION);
    const float *k = hrf_spec_data(spec, call, HRF_STATE_K);
    const float *v = hrf_spec_data(spec, call, HRF_STATE_V);
    const float *high = hrf_spec_data(spec, call, HRF_STATE_MAX);
    const int64_t pieces = (j.n_tokens + STRETCH - 1) / STRETCH, size = (j.a.d + 1) * j.a.m;
    double *parts = call->workspace, *sums = call->output;
#pragma omp parallel for schedule(dynamic)
    for (int64_t w = 0; w < j.n * pieces; w++) {
        const int64_t i = w / pieces, t = w % pieces * STRETCH;
        const int64_t n = j.n_tokens - t < STRETCH ? j.n_tokens - t : STRETCH;
        const int64_t at = first_of(&j, i) + t * j.n_channels;
        const float *top = high != NULL ? high + i : NULL;
        CALL(state, &j.a, k + at, v + at, top, n, parts + w * size);
    }
    memset(sums, 0, (size_t)(j.n * size) * sizeof *sums);
    for (int64_t w = 0; w < j.n * pieces; w++)
        for (int64_t e = 0; e < size; e++)
            sums[w / pieces * size + e] += parts[w * size + e];
}

void hrf_cpu_performer_apply(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct job j = job_of(spec, HRF_STATE_PROJECTION);
    const float *q = hrf_spec_data(spec, call, 0);
    const double *state = hrf_spec_data(spec, call, 1);
    const int64_t pieces = (j.n_tokens + STRETCH - 1) / STRETCH, width = j.a.d + 1;
    const int64_t size = width * j.a.m;
    double *transposed = call->workspace;
    for (int64_t i = 0; i < j.n; i++)
        for (int64_t c = 0; c < width; c++)
            for (int64_t f = 0; f < j.a.m; f++)
                transposed[i * size + f * width + c] = state[i * size + c * j.a.m + f];
#pragma omp parallel for schedule(dynamic)
    for (int64_t w = 0; w < j.n * pieces; w++) {
        const int64_t i = w / pieces, t = w % pieces * STRETCH;
        const int64_t n = j.n_tokens - t < STRETCH ? j.n_tokens - t : STRETCH;
        const int64_t at = first_of(&j, i) + t * j.n_channels;
        CALL(apply, &j.a, q + at, transposed + i * size, n, hrf_floats(call) + at);
    }
}
