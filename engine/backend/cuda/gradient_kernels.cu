/* gradient_kernels.cu - gradients: functions of one number, weights of convolutions, maxima, what
 * was gathered, attention. One thread or one warp makes each number, in one order; where sums are
 * long, parts of them first, whose number follows from the shapes. */
#include "engine/backend/cuda/gradient_kernels.h"

#include "engine/backend/cuda/elements.cuh"

/* ---- functions of one number ---- */

DEVICE float logistic(float x)
{
    return 1 / (1 + expf(-x));
}

/* exp() and the others are those of float: C++ chooses them by their argument. */
DEVICE float derivative_at(const hrf_k_derivative_form &f, float x)
{
    const float alpha = f.alpha, beta = f.beta, low = f.low, high = f.high;
    switch (f.function) {
#define CASE(OP, FORMULA)                                                                          \
    case HRF_K_DERIVATIVE_OF_##OP:                                                                 \
        return FORMULA;
        HRF_DERIVATIVES(CASE)
#undef CASE
    }
    return 0;
}

KERNEL derive(hrf_k_derivative_form form, hrf_k_array y, hrf_k_array x, hrf_k_array dy, int64_t n)
{
    FOR_EACH(i, n)
    store(y, i, load(dy, i) * derivative_at(form, load(x, i)));
}

cudaError_t hrf_k_derivative(const struct hrf_k_derivative_form *form, struct hrf_k_array y,
                             struct hrf_k_array x, struct hrf_k_array dy, int64_t n,
                             cudaStream_t stream)
{
    return n == 0 ? cudaSuccess : LAUNCH(derive, n, stream, *form, y, x, dy, n);
}

/* ---- weights of a convolution ---- */

/* Rows of outputs, of all images, that one thread adds up for one weight: so few that there are
 * threads enough for a GPU, and that their sums take no more than SUM_BYTES of memory. */
enum { ENOUGH_THREADS = 1 << 19 };
static const int64_t SUM_BYTES = INT64_C(1) << 27;

static int64_t weights_of(const struct hrf_k_weight_gradient_form *f)
{
    const struct hrf_k_window *w = &f->window;
    return f->out_channels * w->kernel[0] * w->kernel[1] * (w->channels / f->group);
}

static int64_t parts_of(const struct hrf_k_weight_gradient_form *f)
{
    const int64_t n = weights_of(f), rows = f->window.n * f->window.out_rows;
    const int64_t most = SUM_BYTES / ((n > 0 ? n : 1) * (int64_t)sizeof(double));
    int64_t parts = (ENOUGH_THREADS + n) / (n > 0 ? n : 1);
    parts = parts < most ? parts : most;
    parts = parts < rows ? parts : rows;
    return parts > 1 ? parts : 1;
}

size_t hrf_k_weight_gradient_workspace(const struct hrf_k_weight_gradient_form *form)
{
    return (size_t)(parts_of(form) * weights_of(form)) * sizeof(double);
}

/* sums[part][weight]. Neighbouring threads have neighbouring channels of x. */
KERNEL weight_sums(double *sums, hrf_k_array x, hrf_k_array dy, hrf_k_weight_gradient_form f,
                   int64_t parts, int64_t n_weights, int64_t n)
{
    const hrf_k_window w = f.window;
    const int64_t depth = w.channels / f.group, rows = w.n * w.out_rows;
    FOR_EACH(i, n)
    {
        const int64_t part = i / n_weights, weight = i % n_weights;
        const int64_t c = weight % depth, kx = weight / depth % w.kernel[1];
        const int64_t ky = weight / depth / w.kernel[1] % w.kernel[0];
        const int64_t m = weight / depth / w.kernel[1] / w.kernel[0];
        const int64_t channel = m / (f.out_channels / f.group) * depth + c;
        double sum = 0;
        for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; row++) {
            const int64_t image = row / w.out_rows, oy = row % w.out_rows;
            const int64_t y = oy * w.stride[0] - w.pad_begin[0] + ky * w.dilation[0];
            if (y < 0 || y >= w.in_rows)
                continue;
            const int64_t line = (image * w.in_rows + y) * w.in_columns;
            float of_row = 0;
            for (int64_t ox = 0; ox < w.out_columns; ox++) {
                const int64_t u = ox * w.stride[1] - w.pad_begin[1] + kx * w.dilation[1];
                if (u >= 0 && u < w.in_columns)
                    of_row = fmaf(load(x, (line + u) * w.channels + channel),
                                  load(dy, (row * w.out_columns + ox) * f.out_channels + m),
                                  of_row);
            }
            sum += (double)of_row;
        }
        sums[i] = sum;
    }
}

KERNEL add_parts(hrf_k_array y, const double *sums, int64_t parts, int64_t n)
{
    FOR_EACH(i, n)
    {
        double sum = 0;
        for (int64_t part = 0; part < parts; part++)
            sum += sums[part * n + i];
        store(y, i, (float)sum);
    }
}

cudaError_t hrf_k_weight_gradient(struct hrf_k_array dw, struct hrf_k_array x,
                                  struct hrf_k_array dy,
                                  const struct hrf_k_weight_gradient_form *form, void *workspace,
                                  cudaStream_t stream)
{
    double *sums = static_cast<double *>(workspace);
    const int64_t n = weights_of(form), parts = parts_of(form);
    if (n == 0)
        return cudaSuccess;
    const cudaError_t status = LAUNCH(weight_sums, parts * n, stream, sums, x, dy, *form, parts, n,
                                      parts * n);
    return status != cudaSuccess ? status
                                 : LAUNCH(add_parts, n, stream, dw, (const double *)sums, parts, n);
}

/* ---- maxima of windows ---- */

DEVICE bool window_reaches(const hrf_k_window &w, int64_t row, int64_t column)
{
    return row >= 0 && row < w.in_rows && column >= 0 && column < w.in_columns;
}

/* greatest[output]: the pixel, in its image, of the first of the greatest numbers; -1: the window
 * sees padding alone. NaN is greater than anything. */
KERNEL find_greatest(int64_t *greatest, hrf_k_array x, hrf_k_window w, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % w.channels, ox = i / w.channels % w.out_columns;
        const int64_t oy = i / w.channels / w.out_columns % w.out_rows;
        const int64_t image = i / w.channels / w.out_columns / w.out_rows;
        int64_t best = -1;
        float most = 0;
        for (int64_t r = 0; r < w.kernel[0]; r++)
            for (int64_t s = 0; s < w.kernel[1]; s++) {
                const int64_t y = oy * w.stride[0] - w.pad_begin[0] + r * w.dilation[0];
                const int64_t u = ox * w.stride[1] - w.pad_begin[1] + s * w.dilation[1];
                if (!window_reaches(w, y, u))
                    continue;
                const int64_t pixel = y * w.in_columns + u;
                const float v = load(x,
                                     (image * w.in_rows * w.in_columns + pixel) * w.channels + c);
                if (best < 0 || v > most || (v != v && most == most)) {
                    best = pixel;
                    most = v;
                }
            }
        greatest[i] = best;
    }
}

/* The first output along an axis whose window may reach `at`, and the one behind the last. */
DEVICE int64_t first_window(const hrf_k_window &w, int axis, int64_t at)
{
    const int64_t reach = at + w.pad_begin[axis] - (w.kernel[axis] - 1) * w.dilation[axis];
    return reach <= 0 ? 0 : (reach + w.stride[axis] - 1) / w.stride[axis];
}

DEVICE int64_t end_window(const hrf_k_window &w, int axis, int64_t at, int64_t n)
{
    const int64_t end = (at + w.pad_begin[axis]) / w.stride[axis] + 1;
    return end < n ? end : n;
}

KERNEL gather_greatest(hrf_k_array dx, hrf_k_array dy, const int64_t *greatest, hrf_k_window w,
                       int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % w.channels, column = i / w.channels % w.in_columns;
        const int64_t row = i / w.channels / w.in_columns % w.in_rows;
        const int64_t image = i / w.channels / w.in_columns / w.in_rows;
        const int64_t pixel = row * w.in_columns + column;
        float sum = 0;
        for (int64_t oy = first_window(w, 0, row); oy < end_window(w, 0, row, w.out_rows); oy++)
            for (int64_t ox = first_window(w, 1, column);
                 ox < end_window(w, 1, column, w.out_columns); ox++) {
                const int64_t at = ((image * w.out_rows + oy) * w.out_columns + ox) * w.channels +
                                   c;
                if (greatest[at] == pixel)
                    sum += load(dy, at);
            }
        store(dx, i, sum);
    }
}

static int64_t outputs_of(const struct hrf_k_window *w)
{
    return w->n * w->out_rows * w->out_columns * w->channels;
}

size_t hrf_k_max_pool_gradient_workspace(const struct hrf_k_window *window)
{
    return (size_t)outputs_of(window) * sizeof(int64_t);
}

cudaError_t hrf_k_max_pool_gradient(struct hrf_k_array dx, struct hrf_k_array x,
                                    struct hrf_k_array dy, const struct hrf_k_window *window,
                                    void *workspace, cudaStream_t stream)
{
    int64_t *greatest = static_cast<int64_t *>(workspace);
    const int64_t n = outputs_of(window);
    const int64_t n_in = window->n * window->in_rows * window->in_columns * window->channels;
    if (n_in == 0)
        return cudaSuccess;
    const cudaError_t status = n == 0 ? cudaSuccess
                                      : LAUNCH(find_greatest, n, stream, greatest, x, *window, n);
    return status != cudaSuccess ? status
                                 : LAUNCH(gather_greatest, n_in, stream, dx, dy,
                                          (const int64_t *)greatest, *window, n_in);
}

/* ---- what was gathered ---- */

KERNEL scatter(hrf_k_array dx, hrf_k_array dy, hrf_k_scatter_form f, int64_t n_box, int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(f.box, i % n_box);
        const int64_t at = i / n_box;
        float sum = 0;
        for (int32_t k = f.first[at]; k < f.first[at + 1]; k++)
            sum += load(dy, o.a + f.places[k] * f.a_step);
        store(dx, o.y + at * f.y_step, sum);
    }
}

cudaError_t hrf_k_scatter(struct hrf_k_array dx, struct hrf_k_array dy,
                          const struct hrf_k_scatter_form *form, cudaStream_t stream)
{
    const int64_t n_box = count_of(form->box), n = n_box * form->length;
    return n == 0 ? cudaSuccess : LAUNCH(scatter, n, stream, dx, dy, *form, n_box, n);
}

/* ---- attention ---- */

/* Of each query: the greatest score, the sum of exp(score - that), and the mean of dy v' by the
 * softmax's weights. */
struct query_state {
    float most, sum, mean;
};

struct head_place {
    int64_t image, head;
};

DEVICE int64_t place_of(const hrf_k_heads &h, const head_place &p, int64_t token)
{
    return p.image * h.image + p.head * h.head + token * h.token;
}

DEVICE float dot(const hrf_k_heads &a, int64_t a_at, const hrf_k_heads &b, int64_t b_at, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum = fmaf(load(a.array, a_at + c * a.channel), load(b.array, b_at + c * b.channel), sum);
    return sum;
}

DEVICE int64_t seen_by(const hrf_k_attention &f, int64_t query)
{
    return f.causal != 0 && query + 1 < f.n_keys ? query + 1 : f.n_keys;
}

/* A warp for each query of each head. A lane adds up its keys as it meets greater scores. */
KERNEL find_states(query_state *states, hrf_k_attention f, int64_t n)
{
    FOR_EACH_WARP(i, n)
    {
        const int64_t query = i % f.n_queries;
        const head_place p = { i / f.n_queries / f.heads, i / f.n_queries % f.heads };
        const int64_t q_at = place_of(f.q, p, query), dy_at = place_of(f.y, p, query);
        float most = -INFINITY, sum = 0, mean = 0;
        for (int64_t key = LANE; key < seen_by(f, query); key += LANES) {
            const float score = f.scale * dot(f.q, q_at, f.k, place_of(f.k, p, key), f.depth);
            const float dp = dot(f.v, place_of(f.v, p, key), f.y, dy_at, f.channels);
            const float next = larger_or_nan(most, score);
            const float old = most == next ? 1.0f : expf(most - next), e = expf(score - next);
            sum = sum * old + e;
            mean = mean * old + e * dp;
            most = next;
        }
        const float greatest = warp_most(most);
        const float factor = most == greatest ? 1.0f : expf(most - greatest);
        sum = warp_sum(sum * factor);
        mean = warp_sum(mean * factor) / sum;
        if (LANE == 0)
            states[i] = { greatest, sum, mean };
    }
}

/* What a key has of a query: its weight p, and ds, the gradient to the score, times the scale. */
struct share {
    float p, ds;
};

DEVICE share share_of(const hrf_k_attention &f, const head_place &p, const query_state &s,
                      int64_t query, int64_t key)
{
    const float score = f.scale *
                        dot(f.q, place_of(f.q, p, query), f.k, place_of(f.k, p, key), f.depth);
    const float dp = dot(f.v, place_of(f.v, p, key), f.y, place_of(f.y, p, query), f.channels);
    const float weight = expf(score - s.most) / s.sum;
    return { weight, f.scale * weight * (dp - s.mean) };
}

/* Channels of a head that a warp adds up at a time, so many for each lane. */
enum { OF_LANE = 4 };

/* dq of a query: a lane finds the shares of its keys, then each in turn is everybody's. */
KERNEL to_queries(hrf_k_attention_gradient_form g, const query_state *states, int64_t blocks,
                  int64_t n)
{
    const hrf_k_attention f = g.forward;
    FOR_EACH_WARP(i, n)
    {
        const int64_t block = i % blocks, row = i / blocks, query = row % f.n_queries;
        const head_place p = { row / f.n_queries / f.heads, row / f.n_queries % f.heads };
        const int64_t n_seen = seen_by(f, query), first = block * OF_LANE * LANES + LANE;
        float sums[OF_LANE] = { 0 };
        for (int64_t key = 0; key < n_seen; key += LANES) {
            share own = { 0, 0 };
            if (key + LANE < n_seen)
                own = share_of(f, p, states[row], query, key + LANE);
            for (int64_t k = 0; k < LANES && key + k < n_seen; k++) {
                const float ds = warp_pick(own.ds, (int)k);
                const int64_t at = place_of(f.k, p, key + k);
                for (int64_t j = 0; j < OF_LANE; j++)
                    if (first + j * LANES < f.depth)
                        sums[j] = fmaf(ds, load(f.k.array, at + (first + j * LANES) * f.k.channel),
                                       sums[j]);
            }
        }
        for (int64_t j = 0; j < OF_LANE; j++)
            if (first + j * LANES < f.depth)
                store(g.dq.array, place_of(g.dq, p, query) + (first + j * LANES) * g.dq.channel,
                      sums[j]);
    }
}

/* dk and dv of a key, over all queries that see it. */
KERNEL to_keys(hrf_k_attention_gradient_form g, const query_state *states, int64_t blocks,
               int64_t n)
{
    const hrf_k_attention f = g.forward;
    FOR_EACH_WARP(i, n)
    {
        const int64_t block = i % blocks, row = i / blocks, key = row % f.n_keys;
        const int64_t of_head = row / f.n_keys;
        const head_place p = { of_head / f.heads, of_head % f.heads };
        const int64_t first = block * OF_LANE * LANES + LANE;
        const int64_t first_query = f.causal != 0 ? key : 0;
        float to_k[OF_LANE] = { 0 }, to_v[OF_LANE] = { 0 };
        for (int64_t query = first_query; query < f.n_queries; query += LANES) {
            share own = { 0, 0 };
            if (query + LANE < f.n_queries)
                own = share_of(f, p, states[of_head * f.n_queries + query + LANE], query + LANE,
                               key);
            for (int64_t k = 0; k < LANES && query + k < f.n_queries; k++) {
                const float ds = warp_pick(own.ds, (int)k), weight = warp_pick(own.p, (int)k);
                const int64_t q_at = place_of(f.q, p, query + k);
                const int64_t dy_at = place_of(f.y, p, query + k);
                for (int64_t j = 0; j < OF_LANE; j++) {
                    const int64_t c = first + j * LANES;
                    if (c >= f.depth)
                        continue;
                    to_k[j] = fmaf(ds, load(f.q.array, q_at + c * f.q.channel), to_k[j]);
                    to_v[j] = fmaf(weight, load(f.y.array, dy_at + c * f.y.channel), to_v[j]);
                }
            }
        }
        for (int64_t j = 0; j < OF_LANE; j++)
            if (first + j * LANES < f.depth) {
                const int64_t c = first + j * LANES;
                store(g.dk.array, place_of(g.dk, p, key) + c * g.dk.channel, to_k[j]);
                store(g.dv.array, place_of(g.dv, p, key) + c * g.dv.channel, to_v[j]);
            }
    }
}

size_t hrf_k_attention_gradient_workspace(const struct hrf_k_attention *forward)
{
    return (size_t)(forward->images * forward->heads * forward->n_queries) * sizeof(query_state);
}

cudaError_t hrf_k_attention_gradient(const struct hrf_k_attention_gradient_form *form,
                                     void *workspace, cudaStream_t stream)
{
    const struct hrf_k_attention *f = &form->forward;
    query_state *states = static_cast<query_state *>(workspace);
    const int64_t heads = f->images * f->heads, queries = heads * f->n_queries;
    const int64_t n_blocks = (f->depth + OF_LANE * LANES - 1) / (OF_LANE * LANES);
    if (queries == 0 || f->n_keys == 0 || n_blocks == 0)
        return cudaSuccess;
    cudaError_t status = LAUNCH_WARPS(find_states, queries, stream, states, *f, queries);
    if (status == cudaSuccess)
        status = LAUNCH_WARPS(to_queries, queries * n_blocks, stream, *form,
                              (const query_state *)states, n_blocks, queries * n_blocks);
    const int64_t keys = heads * f->n_keys * n_blocks;
    return status != cudaSuccess ? status
                                 : LAUNCH_WARPS(to_keys, keys, stream, *form,
                                                (const query_state *)states, n_blocks, keys);
}
