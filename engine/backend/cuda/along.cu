/* along.cu - sums along axes: softmax, reductions, matrix products.
 * Grid-stride loops, one output an iteration. Products are written fmaf() where one rounding is
 * meant: nvcc would join others as it likes, so the build tells it not to (-fmad=false). */
#include "engine/backend/cuda/elements.cuh"

/* ---- softmax ---- */

KERNEL softmax(hrf_k_array y, hrf_k_array x, int64_t length, int64_t inner, int32_t logarithm,
               int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t first = i / inner * length * inner + i % inner;
        float most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < length; k++) {
            const float v = load(x, first + k * inner);
            most = v > most || v != v ? v : most;
        }
        for (int64_t k = 0; k < length; k++)
            sum += expf(load(x, first + k * inner) - most);
        for (int64_t k = 0; k < length; k++) {
            const float v = load(x, first + k * inner) - most;
            store(y, first + k * inner, logarithm != 0 ? v - logf(sum) : expf(v) / sum);
        }
    }
}

cudaError_t hrf_k_softmax(struct hrf_k_array y, struct hrf_k_array x, int64_t outer, int64_t length,
                          int64_t inner, int32_t logarithm, cudaStream_t stream)
{
    const int64_t n = outer * inner;
    if (n == 0)
        return cudaSuccess;
    return LAUNCH(softmax, n, stream, y, x, length, inner, logarithm, n);
}

/* ---- normalisation over channels, reductions ---- */

KERNEL lrn(hrf_k_array y, hrf_k_array x, int64_t channels, hrf_k_lrn_form form, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % channels, first = i - c;
        const int64_t low = c - (form.size - 1) / 2, high = c + form.size / 2;
        float sum = 0;
        for (int64_t k = low < 0 ? 0 : low; k <= high && k < channels; k++)
            sum = fmaf(load(x, first + k), load(x, first + k), sum);
        store(y, i, load(x, i) / powf(form.bias + form.alpha / (float)form.size * sum, form.beta));
    }
}

cudaError_t hrf_k_lrn(struct hrf_k_array y, struct hrf_k_array x, int64_t pixels, int64_t channels,
                      const struct hrf_k_lrn_form *form, cudaStream_t stream)
{
    const int64_t n = pixels * channels;
    return n == 0 ? cudaSuccess : LAUNCH(lrn, n, stream, y, x, channels, *form, n);
}

/* Sums in double: a reduction may be of a whole image. */
DEVICE double term_of(hrf_k_reduction reduction, double x, double most)
{
    switch (reduction) {
    case HRF_K_L1:
        return fabs(x);
    case HRF_K_L2:
    case HRF_K_SUM_SQUARE:
        return x * x;
    case HRF_K_LOG_SUM_EXP:
        return exp(x - most);
    default:
        return x;
    }
}

DEVICE double joined(hrf_k_reduction reduction, double sum, double x)
{
    switch (reduction) {
    case HRF_K_MOST:
        return x > sum || x != x ? x : sum; /* a NaN stays */
    case HRF_K_LEAST:
        return x < sum || x != x ? x : sum;
    case HRF_K_PRODUCT:
        return sum * x;
    default:
        return sum + x;
    }
}

DEVICE double finished(hrf_k_reduction reduction, double sum, double most, int64_t terms)
{
    switch (reduction) {
    case HRF_K_MEAN:
        return sum / (double)terms;
    case HRF_K_L2:
        return sqrt(sum);
    case HRF_K_LOG_SUM:
        return log(sum);
    case HRF_K_LOG_SUM_EXP:
        return isinf(most) && sum == sum ? most : log(sum) + most;
    default:
        return sum;
    }
}

KERNEL reduce(hrf_k_reduction reduction, hrf_k_array y, hrf_k_array x, hrf_k_walk kept,
              hrf_k_walk reduced, int64_t terms, int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(kept, i);
        double most = -(double)INFINITY;
        for (int64_t k = 0; k < terms && reduction == HRF_K_LOG_SUM_EXP; k++)
            most = fmax(most, (double)load(x, o.a + seek(reduced, k).a));
        double sum = term_of(reduction, (double)load(x, o.a), most);
        for (int64_t k = 1; k < terms; k++)
            sum = joined(reduction, sum,
                         term_of(reduction, (double)load(x, o.a + seek(reduced, k).a), most));
        store(y, o.y, (float)finished(reduction, sum, most, terms));
    }
}

cudaError_t hrf_k_reduce(enum hrf_k_reduction reduction, struct hrf_k_array y, struct hrf_k_array x,
                         const struct hrf_k_walk *kept, const struct hrf_k_walk *reduced,
                         cudaStream_t stream)
{
    const int64_t n = count_of(*kept), terms = count_of(*reduced);
    if (n == 0 || terms == 0)
        return n == 0 ? cudaSuccess : hrf_k_fill(y, n, 0, stream);
    return LAUNCH(reduce, n, stream, reduction, y, x, *kept, *reduced, terms, n);
}

/* ---- matrix product ---- */

KERNEL product(hrf_k_array y, hrf_k_array a, hrf_k_array b, hrf_k_array c, const void *residual,
               hrf_k_product_form f, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t column = i % f.columns, row = i / f.columns % f.rows;
        const offsets o = seek(f.batch, i / f.columns / f.rows);
        float sum = 0;
        for (int64_t k = 0; k < f.depth; k++)
            sum = fmaf(load(a, o.a + row * f.a_row + k * f.a_depth),
                       load(b, o.b + k * f.b_depth + column * f.b_column), sum);
        float v = f.alpha * sum;
        if (c.data != nullptr)
            v = fmaf(f.beta, load(c, row * f.c_row + column * f.c_column), v);
        const int64_t at = o.y + row * f.y_row + column * f.y_column;
        if (residual != nullptr) {
            hrf_k_array r = y;
            r.data = const_cast<void *>(residual);
            v += load(r, at);
        }
        store(y, at, activate(v, f.epilogue));
    }
}

cudaError_t hrf_k_product(struct hrf_k_array y, struct hrf_k_array a, struct hrf_k_array b,
                          struct hrf_k_array c, const void *residual,
                          const struct hrf_k_product_form *form, cudaStream_t stream)
{
    const int64_t n = count_of(form->batch) * form->rows * form->columns;
    return n == 0 ? cudaSuccess : LAUNCH(product, n, stream, y, a, b, c, residual, *form, n);
}

/* ---- what is greatest ---- */

/* A NaN is greater than any number; of equal ones the first. */
DEVICE bool is_greater(float a, float b)
{
    return a > b || (a != a && b == b);
}

KERNEL select_max(hrf_k_array y, hrf_k_array x, hrf_k_array scores, int64_t n_rows, int64_t columns,
                  int64_t width, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t column = i / width;
        int64_t best = 0;
        for (int64_t k = 1; k < n_rows; k++)
            if (is_greater(load(scores, k * columns + column),
                           load(scores, best * columns + column)))
                best = k;
        store(y, i, load(x, best * width + i % width));
    }
}

cudaError_t hrf_k_select_max(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array scores,
                             int64_t n, int64_t columns, int64_t width, cudaStream_t stream)
{
    const int64_t count = columns * width;
    return count == 0 ? cudaSuccess
                      : LAUNCH(select_max, count, stream, y, x, scores, n, columns, width, count);
}

/* A number is among the greatest if fewer than that many come before it. */
KERNEL top_k_mask(hrf_k_array y, hrf_k_array x, int64_t length, int64_t greatest, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t first = i / length * length;
        const float v = load(x, i);
        int64_t before = 0;
        for (int64_t k = first; k < first + length; k++) {
            const float other = load(x, k);
            before += is_greater(other, v) || (k < i && !is_greater(v, other));
        }
        store(y, i, before < greatest ? 1.0f : 0.0f);
    }
}

cudaError_t hrf_k_top_k_mask(struct hrf_k_array y, struct hrf_k_array x, int64_t rows,
                             int64_t length, int64_t greatest, cudaStream_t stream)
{
    const int64_t n = rows * length;
    return n == 0 ? cudaSuccess : LAUNCH(top_k_mask, n, stream, y, x, length, greatest, n);
}
