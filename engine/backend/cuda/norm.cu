/* norm.cu - normalisations by the mean and variance of a group of numbers.
 * A warp takes one group; its lanes' sums are added in one order on every device. */
#include "engine/backend/cuda/elements.cuh"

KERNEL normalise(hrf_k_array y, hrf_k_array x, hrf_k_array scale, hrf_k_array bias,
                 hrf_k_norm_form f, int64_t n_terms, int64_t n)
{
    FOR_EACH_WARP(i, n)
    {
        const offsets o = seek(f.groups, i);
        float mean = 0, square = 0;
        for (int64_t k = LANE; k < n_terms && f.centred != 0; k += LANES)
            mean += load(x, o.a + seek(f.terms, k).a);
        mean = warp_sum(mean) / (float)n_terms;
        for (int64_t k = LANE; k < n_terms; k += LANES) {
            const float d = load(x, o.a + seek(f.terms, k).a) - mean;
            square = fmaf(d, d, square);
        }
        const float factor = 1.0f / sqrtf(warp_sum(square) / (float)n_terms + f.epsilon);
        const int64_t first = i % f.n_groups * f.group_parameters;
        for (int64_t k = LANE; k < n_terms; k += LANES) {
            const offsets t = seek(f.terms, k);
            const int64_t c = first + t.b;
            float v = (load(x, o.a + t.a) - mean) * factor;
            if (scale.data != nullptr)
                v *= load(scale, c);
            if (bias.data != nullptr)
                v += load(bias, c);
            store(y, o.y + t.y, v);
        }
    }
}

/* One number of a row that `normalise` would store and round_rows.cu would read. */
DEVICE float normal_at(const hrf_k_norm_rows_form &f, const hrf_k_array &x, int64_t row, int64_t k,
                       float mean, float factor)
{
    float v = (load(x, row * f.depth + k) - mean) * factor;
    if (f.scale != nullptr)
        v *= f.scale[k];
    if (f.bias != nullptr)
        v += f.bias[k];
    v = rounded_to(f.between, v);
    return f.factors != nullptr ? v * f.factors[k] : v;
}

/* The bits of the two passes. A row is read again from the caches. */
KERNEL norm_rows(int8_t *q, float *scales, hrf_k_array x, hrf_k_norm_rows_form f, int64_t n)
{
    FOR_EACH_WARP(row, n)
    {
        float mean = 0, square = 0;
        for (int64_t k = LANE; k < f.depth && f.centred != 0; k += LANES)
            mean += load(x, row * f.depth + k);
        mean = warp_sum(mean) / (float)f.depth;
        for (int64_t k = LANE; k < f.depth; k += LANES) {
            const float d = load(x, row * f.depth + k) - mean;
            square = fmaf(d, d, square);
        }
        const float factor = 1.0f / sqrtf(warp_sum(square) / (float)f.depth + f.epsilon);
        round_row(q + row * f.wide, scales + row, f.depth, f.wide,
                  [&](int64_t k) { return normal_at(f, x, row, k, mean, factor); });
    }
}

cudaError_t hrf_k_norm_rows(int8_t *q, float *scales, struct hrf_k_array x,
                            const struct hrf_k_norm_rows_form *form, int64_t n_rows,
                            cudaStream_t stream)
{
    return n_rows == 0 ? cudaSuccess
                       : LAUNCH_WARPS(norm_rows, n_rows, stream, q, scales, x, *form, n_rows);
}

cudaError_t hrf_k_norm(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array scale,
                       struct hrf_k_array bias, const struct hrf_k_norm_form *form,
                       cudaStream_t stream)
{
    const int64_t n = count_of(form->groups), n_terms = count_of(form->terms);
    if (n == 0 || n_terms == 0)
        return cudaSuccess;
    return LAUNCH_WARPS(normalise, n, stream, y, x, scale, bias, *form, n_terms, n);
}
