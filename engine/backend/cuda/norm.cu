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

cudaError_t hrf_k_norm(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array scale,
                       struct hrf_k_array bias, const struct hrf_k_norm_form *form,
                       cudaStream_t stream)
{
    const int64_t n = count_of(form->groups), n_terms = count_of(form->terms);
    if (n == 0 || n_terms == 0)
        return cudaSuccess;
    return LAUNCH_WARPS(normalise, n, stream, y, x, scale, bias, *form, n_terms, n);
}
