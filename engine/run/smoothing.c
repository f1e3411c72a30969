/* smoothing.c - tries strengths of smoothing on rows of the sample (smoothing.h). A row is a token,
 * or a pixel's channels. */
#include "engine/run/smoothing.h"

#include "base/vector_1.h" /* hrf_v_round() vectorises, unlike rintf() */

#include <math.h>
#include <string.h>

enum {
    MAX_ROWS = 8, /* of a batch: one of them is the largest, the others are spread evenly */
    COLUMNS = 64, /* of a product that are measured at a time */
};

struct hrf_smoothing {
    struct hrf_graph *graph; /* fused, with its weights */
    bool *of_tokens;         /* hrf_lower_find_tokens() */
};

void hrf_smoothing_destroy(struct hrf_smoothing *s)
{
    if (s == NULL)
        return;
    hrf_graph_destroy(s->graph);
    hrf_free(s->of_tokens);
    hrf_free(s);
}

enum hrf_status hrf_smoothing_create(const struct hrf_graph *graph,
                                     const struct hrf_session_config *config,
                                     struct hrf_smoothing **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_smoothing) s = hrf_calloc(1, sizeof *s);
    double operations;
    bool has_tokens = false;
    HRF_TRY(hrf_session_prepare(graph, config, &s->graph, &operations, &notes, err));
    s->of_tokens = hrf_calloc((size_t)s->graph->n_values + 1, sizeof *s->of_tokens);
    hrf_lower_find_tokens(s->graph, s->of_tokens);
    for (int32_t i = 0; i < s->graph->n_nodes; i++)
        has_tokens |= hrf_lower_can_round_rows(s->graph, s->of_tokens, &s->graph->nodes[i]) &&
                      s->graph->values[s->graph->nodes[i].inputs[HRF_CONV_X]].shape.rank >= 3;
    if (has_tokens)
        HRF_MOVE(*out, s);
    return HRF_OK;
}

/* ---- one product ---- */

/* Weight k of column c is data[k * by_depth + c * by_column]. */
struct weights {
    const float *data;
    int64_t depth, columns, by_depth, by_column;
};

static struct weights weights_of(const struct hrf_graph *graph, const struct hrf_node *product)
{
    const struct hrf_value *w = &graph->values[product->inputs[HRF_CONV_WEIGHTS]];
    const bool transposed = product->op == HRF_OP_CONV || product->attributes.gemm.transpose_b;
    const int64_t depth = w->shape.dims[transposed ? 1 : 0],
                  columns = w->shape.dims[transposed ? 0 : 1];
    return (struct weights){ w->data, depth, columns, transposed ? 1 : columns,
                             transposed ? depth : 1 };
}

static void round_row(const float *x, const float *factors, int64_t n, float *out)
{
    float most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fmaxf(most, fabsf(x[k] / factors[k]));
    const float scale = most >= 0x1p-100f ? most / 127 : 1;
    for (int64_t k = 0; k < n; k++)
        out[k] = hrf_v_round(x[k] / factors[k] / scale) * scale;
}

static void find_peaks(const struct weights *w, float *peaks)
{
    for (int64_t k = 0; k < w->depth; k++)
        for (int64_t c = 0; c < w->columns; c++)
            peaks[k] = fmaxf(peaks[k], fabsf(w->data[k * w->by_depth + c * w->by_column]));
}

/* Computes some columns of the product of n_rows rows with the weights. The weights are multiplied
 * by `factors` and rounded to 8 bits; NULL: they stay as they are. */
static void multiply(const struct weights *w, const float *rows, int64_t n_rows, int64_t first,
                     int64_t n, const float *factors, float y[MAX_ROWS][COLUMNS])
{
    float scales[COLUMNS], line[COLUMNS];
    memset(y, 0, MAX_ROWS * sizeof y[0]);
    for (int64_t c = 0; c < n; c++) {
        scales[c] = 0;
        for (int64_t k = 0; k < w->depth && factors != NULL; k++) {
            const float v = w->data[k * w->by_depth + (first + c) * w->by_column];
            scales[c] = fmaxf(scales[c], fabsf(v * factors[k]));
        }
        scales[c] = scales[c] >= 0x1p-100f ? scales[c] / 127 : 1;
    }
    for (int64_t k = 0; k < w->depth; k++) {
        for (int64_t c = 0; c < n; c++) {
            const float v = w->data[k * w->by_depth + (first + c) * w->by_column];
            line[c] = factors == NULL ? v : hrf_v_round(v * factors[k] / scales[c]) * scales[c];
        }
        for (int64_t r = 0; r < n_rows; r++) {
            const float x = rows[r * w->depth + k];
            for (int64_t c = 0; c < n; c++)
                y[r][c] += x * line[c];
        }
    }
}

/* Adds up the squared errors of each strength and the square of the product itself. `rounded` is
 * [strengths][n_rows][depth], divided by `factors` [strengths][depth] and rounded. */
static void measure(const struct weights *w, const float *rows, const float *rounded,
                    const float *factors, int64_t n_rows, double errors[HRF_OBSERVE_STRENGTHS],
                    double *signal)
{
    const int64_t n_parts = (w->columns + COLUMNS - 1) / COLUMNS;
    double sums[HRF_OBSERVE_STRENGTHS + 1] = { 0 };
#pragma omp parallel for schedule(static) reduction(+ : sums)
    for (int64_t part = 0; part < n_parts; part++) {
        float exact[MAX_ROWS][COLUMNS], y[MAX_ROWS][COLUMNS];
        const int64_t first = part * COLUMNS;
        const int64_t n = w->columns - first < COLUMNS ? w->columns - first : COLUMNS;
        multiply(w, rows, n_rows, first, n, NULL, exact);
        for (int64_t s = 0; s <= HRF_OBSERVE_STRENGTHS; s++) {
            if (s < HRF_OBSERVE_STRENGTHS)
                multiply(w, rounded + s * n_rows * w->depth, n_rows, first, n,
                         factors + s * w->depth, y);
            else
                memset(y, 0, sizeof y);
            for (int64_t r = 0; r < n_rows; r++)
                for (int64_t c = 0; c < n; c++) {
                    const double e = (double)exact[r][c] - (double)y[r][c];
                    sums[s] += e * e;
                }
        }
    }
    for (int s = 0; s < HRF_OBSERVE_STRENGTHS; s++)
        errors[s] += sums[s];
    *signal += sums[HRF_OBSERVE_STRENGTHS];
}

/* ---- one value ---- */

/* Copies the row with the largest number and others at equal distances. */
static int64_t choose_rows(const float *data, int64_t n_rows, int64_t depth, float *out)
{
    const int64_t n = n_rows < MAX_ROWS ? n_rows : MAX_ROWS;
    int64_t largest = 0;
    float most = 0;
    for (int64_t i = 0; i < n_rows * depth; i++)
        if (fabsf(data[i]) > most) {
            most = fabsf(data[i]);
            largest = i / depth;
        }
    for (int64_t r = 0; r < n; r++) {
        const int64_t from = r == n - 1 ? largest : r * n_rows / n;
        memcpy(out + r * depth, data + from * depth, (size_t)depth * sizeof *out);
    }
    return n;
}

static bool reads(const struct hrf_smoothing *s, const struct hrf_node *node, const char *value)
{
    return hrf_lower_can_round_rows(s->graph, s->of_tokens, node) &&
           strcmp(s->graph->values[node->inputs[HRF_CONV_X]].name, value) == 0;
}

static void try_rows(const struct hrf_smoothing *s, struct hrf_observation *o, const float *data,
                     int64_t n_rows, int64_t depth)
{
    enum { N = HRF_OBSERVE_STRENGTHS };
    HRF_AUTO_FREE float *rows = hrf_alloc_array((size_t)(MAX_ROWS * depth), sizeof *rows);
    HRF_AUTO_FREE float *rounded = hrf_alloc_array((size_t)(N * MAX_ROWS * depth), sizeof *rows);
    HRF_AUTO_FREE float *factors = hrf_alloc_array((size_t)(N * depth), sizeof *factors);
    HRF_AUTO_FREE float *weights = hrf_calloc((size_t)depth, sizeof *weights);
    double errors[N] = { 0 }, signal = 0;
    const int64_t n = choose_rows(data, n_rows, depth, rows);
    for (int32_t i = 0; i < s->graph->n_nodes; i++) {
        if (!reads(s, &s->graph->nodes[i], o->value))
            continue;
        const struct weights w = weights_of(s->graph, &s->graph->nodes[i]);
        if (w.depth == depth)
            find_peaks(&w, weights);
    }
    for (int k = 0; k < N; k++) {
        hrf_lower_smooth(o->peaks, weights, depth, hrf_observe_strength(k), factors + k * depth);
        for (int64_t r = 0; r < n; r++)
            round_row(rows + r * depth, factors + k * depth, depth, rounded + (k * n + r) * depth);
    }
    for (int32_t i = 0; i < s->graph->n_nodes; i++) {
        if (!reads(s, &s->graph->nodes[i], o->value))
            continue;
        const struct weights w = weights_of(s->graph, &s->graph->nodes[i]);
        if (w.depth == depth)
            measure(&w, rows, rounded, factors, n, errors, &signal);
    }
    if (!(signal > 0) || !isfinite(signal))
        return;
    for (int k = 0; k < N; k++)
        o->errors[k] += errors[k] / signal;
    o->n_tries++;
}

void hrf_smoothing_try(const struct hrf_smoothing *s, struct hrf_observations *observations,
                       const char *value, const float *data, int64_t n_rows, int64_t depth)
{
    for (int32_t i = 0; i < observations->n_items; i++) {
        struct hrf_observation *o = &observations->items[i];
        if (strcmp(o->value, value) != 0 || o->n_channels != depth || o->n_broken > 0 ||
            n_rows == 0)
            continue;
        for (int32_t n = 0; n < s->graph->n_nodes; n++)
            if (reads(s, &s->graph->nodes[n], value)) {
                try_rows(s, o, data, n_rows, depth);
                return;
            }
    }
}
