/* score.c - computes a slide's score from the probabilities of its patches. */
#include "aggregate/slide/score.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "max", "mean", "top_k_mean", "percentile", "max_smoothed" };
enum { N_RULES = sizeof names / sizeof names[0], SMOOTHING_FLOOR = 3 };

const char *hrf_slide_rule_name(enum hrf_slide_rule_kind kind)
{
    return (size_t)kind < N_RULES ? names[kind] : "unknown";
}

static enum hrf_status check_probabilities(const float *p, size_t n, size_t step, bool any_number,
                                           struct hrf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        double value = (double)p[i * step];
        if (any_number && isfinite(value))
            continue;
        if (any_number)
            return hrf_error_set(err, HRF_E_USER, "patch %zu of %zu has the number %g", i, n,
                                 value);
        if (!(value >= 0.0 && value <= 1.0))
            return hrf_error_set(err, HRF_E_USER,
                                 "patch %zu of %zu has the probability %g, which is not in 0..1; "
                                 "does the model end in softmax or sigmoid?",
                                 i, n, value);
    }
    return HRF_OK;
}

static double score_max(const float *p, size_t n, size_t step)
{
    double best = (double)p[0];
    for (size_t i = 1; i < n; i++)
        best = fmax(best, (double)p[i * step]);
    return best;
}

static double score_mean(const float *p, size_t n, size_t step)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)p[i * step];
    return sum / (double)n;
}

static int by_value_descending(const void *a, const void *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x < y) - (x > y);
}

/* A sorted copy, largest first; NULL when memory ran out. */
static float *sorted_copy(const float *p, size_t n, size_t step)
{
    float *values = hrf_try_alloc_array(n, sizeof *values);
    if (values == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        values[i] = p[i * step];
    qsort(values, n, sizeof *values, by_value_descending);
    return values;
}

static double score_percentile(const float *descending, size_t n, double percentile)
{
    double at = (100.0 - percentile) / 100.0 * (double)(n - 1);
    size_t i = (size_t)floor(at);
    if (i + 1 >= n)
        return (double)descending[n - 1];
    double high = (double)descending[i], low = (double)descending[i + 1];
    return high + (low - high) * (at - (double)i);
}

struct cell {
    struct hrf_grid_cell at; /* of a patch; first: they are sorted by it */
    double p;
};

static enum hrf_status make_cells(const struct hrf_tile_plan *plan, const float *p, size_t step,
                                  struct cell *cells, struct hrf_error *err)
{
    if (!(plan->stride_x0 >= 1.0) || !(plan->stride_y0 >= 1.0))
        return hrf_error_set(err, HRF_E_USER,
                             "the tile plan has a patch distance of %g x %g level-0 px; at least "
                             "1 is needed to find neighbours",
                             plan->stride_x0, plan->stride_y0);
    size_t n = (size_t)plan->n_patches;
    for (size_t i = 0; i < n; i++)
        cells[i] = (struct cell){ .at = hrf_tile_plan_cell(plan, &plan->patches[i]),
                                  .p = (double)p[i * step] };
    qsort(cells, n, sizeof *cells, hrf_compare_grid_cells);
    for (size_t i = 1; i < n; i++)
        if (hrf_compare_grid_cells(&cells[i - 1], &cells[i]) == 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "two patches of the tile plan stand on column %lld, row %lld of "
                                 "the grid",
                                 (long long)cells[i].at.column, (long long)cells[i].at.row);
    return HRF_OK;
}

/* The first cell at or after (column, row) in the sorted array. */
static size_t lower_bound(const struct cell *cells, size_t n, int64_t column, int64_t row)
{
    const struct hrf_grid_cell wanted = { .column = column, .row = row };
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hrf_compare_grid_cells(&cells[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double smoothed_at(const struct cell *cells, size_t n, const struct cell *of)
{
    double sum = 0.0;
    size_t present = 0;
    for (int64_t column = of->at.column - 1; column <= of->at.column + 1; column++)
        for (size_t i = lower_bound(cells, n, column, of->at.row - 1);
             i < n && cells[i].at.column == column && cells[i].at.row <= of->at.row + 1; i++) {
            sum += cells[i].p;
            present++;
        }
    size_t min = n < SMOOTHING_FLOOR ? n : SMOOTHING_FLOOR;
    return sum / (double)(present > min ? present : min);
}

static enum hrf_status score_smoothed(const struct hrf_tile_plan *plan, const float *p, size_t step,
                                      bool any_number, double *out, struct hrf_error *err)
{
    size_t n = (size_t)plan->n_patches;
    HRF_AUTO_FREE struct cell *cells = hrf_alloc_array(n, sizeof *cells);
    HRF_TRY(make_cells(plan, p, step, cells, err));
    double best = smoothed_at(cells, n, &cells[0]);
    for (size_t i = 1; i < n; i++)
        best = fmax(best, smoothed_at(cells, n, &cells[i]));
    *out = any_number ? best : fmin(best, 1.0); /* nine times 1/9 may round above */
    return HRF_OK;
}

static enum hrf_status score_sorted(const float *p, size_t n, size_t step,
                                    const struct hrf_slide_rule *rule, double *out,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE float *values = sorted_copy(p, n, step);
    if (values == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to sort %zu probabilities", n);
    if (rule->kind == HRF_SLIDE_RULE_PERCENTILE)
        *out = score_percentile(values, n, rule->percentile);
    else
        *out = score_mean(values, (uint64_t)rule->top_k < n ? (size_t)rule->top_k : n, 1);
    return HRF_OK;
}

enum hrf_status hrf_slide_score_compute(const struct hrf_tile_plan *plan,
                                        const float *probabilities, size_t step,
                                        const struct hrf_slide_rule *rule, double *out,
                                        struct hrf_error *err)
{
    if (plan->n_patches < 1 || step < 1)
        return hrf_error_set(err, HRF_E_USER, "a slide without patches has no score");
    size_t n = (size_t)plan->n_patches;
    HRF_TRY(check_probabilities(probabilities, n, step, rule->any_number, err));
    switch (rule->kind) {
    case HRF_SLIDE_RULE_MAX:
        *out = score_max(probabilities, n, step);
        return HRF_OK;
    case HRF_SLIDE_RULE_MEAN:
        *out = score_mean(probabilities, n, step);
        return HRF_OK;
    case HRF_SLIDE_RULE_TOP_K_MEAN:
        if (rule->top_k < 1)
            return hrf_error_set(err, HRF_E_USER, "top_k must be at least 1, it is %lld",
                                 (long long)rule->top_k);
        return score_sorted(probabilities, n, step, rule, out, err);
    case HRF_SLIDE_RULE_PERCENTILE:
        if (!(rule->percentile >= 0.0 && rule->percentile <= 100.0))
            return hrf_error_set(err, HRF_E_USER, "percentile must be in 0..100, it is %g",
                                 rule->percentile);
        return score_sorted(probabilities, n, step, rule, out, err);
    case HRF_SLIDE_RULE_MAX_SMOOTHED:
        return score_smoothed(plan, probabilities, step, rule->any_number, out, err);
    }
    return hrf_error_set(err, HRF_E_BUG, "there is no slide score rule %d", (int)rule->kind);
}
