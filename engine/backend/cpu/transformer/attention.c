/* attention.c - softmax attention head by head by oneDNN's matrix product: for any processor. */
#include "engine/backend/cpu/transformer/attention.h"

#include "engine/backend/cpu/cpu_private.h"

#include <math.h>

static void gather_matrix(const float *from, struct hrf_head_matrix m, float *to)
{
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t k = 0; k < m.columns; k++)
            to[i * m.columns + k] = from[i * m.row + k * m.column];
}

/* One head: its q, k, v, scores and result, dense. */
size_t hrf_cpu_softmax_attention_workspace(const struct hrf_spec *spec)
{
    struct hrf_head_view view;
    hrf_head_view(spec, &view);
    const struct hrf_head_matrix *q = &view.of[HRF_HEAD_Q], *v = &view.of[HRF_HEAD_V];
    return sizeof(float) *
           (size_t)(q->rows * q->columns + v->rows * q->columns + v->rows * v->columns +
                    q->rows * v->rows + q->rows * v->columns);
}

/* Scores of one query: masked, then their softmax. */
static void finish_scores(const struct hrf_spec *spec, const float *mask, int64_t mask_step,
                          int64_t query, int64_t n, float *scores)
{
    double sum = 0;
    float most = -INFINITY;
    for (int64_t s = 0; s < n; s++) {
        if (mask != NULL)
            scores[s] += mask[s * mask_step];
        if (spec->attributes.causal && s > query)
            scores[s] = -INFINITY;
        most = scores[s] <= most ? most : scores[s]; /* a NaN, too */
    }
    for (int64_t s = 0; s < n; s++) {
        scores[s] = most != -INFINITY ? expf(scores[s] - most) : 0;
        sum += (double)scores[s];
    }
    const float factor = sum == 0 ? 0 : (float)(1 / sum); /* 0: a query that sees no key */
    for (int64_t s = 0; s < n; s++)
        scores[s] *= factor;
}

static enum hrf_status attend_head(const struct hrf_spec *spec, const struct hrf_head_view *view,
                                   const struct hrf_kernel_call *call, int64_t head,
                                   struct hrf_error *err)
{
    const struct hrf_head_matrix *m = view->of, y = m[HRF_HEAD_Y];
    const int64_t n = m[HRF_HEAD_Q].rows, n_keys = m[HRF_HEAD_K].rows, d = m[HRF_HEAD_Q].columns;
    const float *mask = hrf_spec_data(spec, call, HRF_ATTENTION_MASK);
    float *q = call->workspace, *k = q + n * d, *v = k + n_keys * d;
    float *scores = v + n_keys * y.columns, *result = scores + n * n_keys;
    float *const parts[] = { q, k, v };
    for (int i = HRF_HEAD_Q; i <= HRF_HEAD_V; i++)
        gather_matrix((const float *)hrf_spec_data(spec, call, i) + hrf_head_begin(spec, i, head),
                      m[i], parts[i]);
    dnnl_status_t status = dnnl_sgemm('N', 'T', n, n_keys, d, spec->attributes.scale, q, d, k, d,
                                      0.0f, scores, n_keys);
    if (mask != NULL)
        mask += hrf_head_begin(spec, HRF_HEAD_MASK, head);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        finish_scores(spec, mask != NULL ? mask + i * m[HRF_HEAD_MASK].row : NULL,
                      m[HRF_HEAD_MASK].column, i, n_keys, scores + i * n_keys);
    if (status == dnnl_success)
        status = dnnl_sgemm('N', 'N', n, y.columns, n_keys, 1.0f, scores, n_keys, v, y.columns,
                            0.0f, result, y.columns);
    if (status != dnnl_success)
        return hrf_dnnl_error(err, status, spec->name, "matrix product");
    float *out = hrf_floats(call) + hrf_head_begin(spec, HRF_HEAD_Y, head);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < y.columns; e++)
            out[i * y.row + e * y.column] = result[i * y.columns + e];
    return HRF_OK;
}

enum hrf_status hrf_cpu_softmax_attention(const struct hrf_spec *spec,
                                          const struct hrf_kernel_call *call, struct hrf_error *err)
{
    struct hrf_head_view view;
    hrf_head_view(spec, &view);
    for (int64_t head = 0; head < view.n_heads; head++)
        HRF_TRY(attend_head(spec, &view, call, head, err));
    return HRF_OK;
}
