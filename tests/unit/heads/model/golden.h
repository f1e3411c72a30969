/* golden.h - heads and bags of tests/golden/heads: what PyTorch computed, and the same weights
 * here. */
#ifndef HRF_TESTS_UNIT_HEADS_MODEL_GOLDEN_H
#define HRF_TESTS_UNIT_HEADS_MODEL_GOLDEN_H

#include "base/file.h"
#include "heads/model/head.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -scale .. scale, exact in both languages. */
static inline void fill(float *x, int64_t n, uint32_t seed, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        x[i] = ((float)(seed >> 8) / 8388608.0F - 1.0F) * scale;
    }
}

/* A golden file: 10 int32 (kind, N, D, K, hidden, attention, landmarks, heads, samples, label),
 * then float32: loss, scores [K], attention [rows][N], gradients of all parameters in their order.
 */
struct golden {
    int32_t head[10];
    const float *values;
    size_t n_values;
    char *bytes;
};

static inline struct golden load(const char *kind)
{
    const char *folder = getenv("HRF_HEAD_GOLDENS"); /* others: head_goldens.py --large */
    char path[512];
    size_t n = 0;
    struct golden g;
    snprintf(path, sizeof path, "%s/%s.bin", folder != NULL ? folder : "tests/golden/heads", kind);
    assert_int_equal(hrf_file_read(path, SIZE_MAX, &g.bytes, &n, NULL), HRF_OK);
    assert_true(n > sizeof g.head && n % sizeof(float) == 0);
    memcpy(g.head, g.bytes, sizeof g.head);
    g.values = (const float *)(const void *)(g.bytes + sizeof g.head);
    g.n_values = (n - sizeof g.head) / sizeof(float);
    return g;
}

static inline struct hrf_head *make_head(const int32_t h[10])
{
    const struct hrf_head_form form = { .kind = (enum hrf_head_kind)h[0],
                                        .width = h[2],
                                        .n_classes = h[3],
                                        .hidden = h[4],
                                        .attention = h[5],
                                        .landmarks = h[6],
                                        .heads = h[7],
                                        .samples = h[8],
                                        .dropout = 0,
                                        .instance_weight = 0.3 };
    struct hrf_head *head = NULL;
    assert_int_equal(hrf_head_create(&form, 1, &head, NULL), HRF_OK);
    for (int32_t i = 0; i < head->n_parameters; i++) {
        const struct hrf_head_parameter *p = &head->parameters[i];
        const int64_t n = hrf_shape_count(&p->shape);
        const int64_t columns = p->shape.rank > 1 ? n / p->shape.dims[0] : n;
        fill(p->numbers, n, 77U + (uint32_t)i, n > columns ? 1.0F / sqrtf((float)columns) : 0.5F);
    }
    return head;
}

static inline float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* The largest difference, in parts of `scale`. */
static inline float difference(const float *a, const float *b, size_t n, float scale)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(a[i] - b[i]) > most ? fabsf(a[i] - b[i]) : most;
    return most / scale;
}

#endif
