/* matmul.c - numpy's matrix product of any ranks, as a row of plain ones with strides: rank 4 lies
 * in memory as images do, and vectors have no rows or columns. */
#include "engine/backend/compute.h"

static int64_t batch_stride(const struct hrf_shape *shape, const int64_t *strides, int32_t missing,
                            int32_t axis)
{
    const int32_t own = axis - missing;
    return own < 0 || shape->dims[own] == 1 ? 0 : strides[own];
}

void hrf_matmul_view(const struct hrf_spec *spec, struct hrf_matmul *out)
{
    const struct hrf_shape *a = &spec->inputs[0].shape, *b = &spec->inputs[1].shape;
    const struct hrf_shape *y = &spec->output.shape;
    const bool has_rows = a->rank > 1, has_columns = b->rank > 1;
    int64_t sa[HRF_MAX_RANK], sb[HRF_MAX_RANK], sy[HRF_MAX_RANK];
    struct hrf_matmul v = { .n_batch = y->rank - has_rows - has_columns, .n = 1 };
    hrf_layout_strides(a, sa);
    hrf_layout_strides(b, sb);
    hrf_layout_strides(y, sy);
    v.depth = a->dims[a->rank - 1];
    v.rows = has_rows ? a->dims[a->rank - 2] : 1;
    v.columns = has_columns ? b->dims[b->rank - 1] : 1;
    v.a[0] = has_rows ? sa[a->rank - 2] : 0;
    v.a[1] = sa[a->rank - 1];
    v.b[0] = has_columns ? sb[b->rank - 2] : sb[0];
    v.b[1] = has_columns ? sb[b->rank - 1] : 0;
    v.y[0] = has_rows ? sy[v.n_batch] : 0;
    v.y[1] = has_columns ? sy[v.n_batch + has_rows] : 0;
    for (int32_t d = 0; d < v.n_batch; d++) {
        v.batch[d] = y->dims[d];
        v.n *= y->dims[d];
        v.batch_strides[0][d] = batch_stride(a, sa, v.n_batch - (a->rank - 2), d);
        v.batch_strides[1][d] = batch_stride(b, sb, v.n_batch - (b->rank - 2), d);
        v.batch_strides[2][d] = sy[d];
    }
    *out = v;
}

void hrf_matmul_seek(const struct hrf_matmul *v, int64_t m, int64_t offsets[3])
{
    offsets[0] = offsets[1] = offsets[2] = 0;
    for (int32_t d = v->n_batch - 1; d >= 0; d--) {
        for (int k = 0; k < 3; k++)
            offsets[k] += m % v->batch[d] * v->batch_strides[k][d];
        m /= v->batch[d];
    }
}
