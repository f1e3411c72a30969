/* linear_fit.c - see linear_fit.h. Rows are centred while it is fitted, which leaves the minimum
 * where it is, because the bias has no penalty, and makes it found in fewer steps. */
#include "training/probe/linear_fit.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum {
    SHARES = 64, /* the rows are summed in so many shares, whatever the number of threads */
    MEMORY = 10, /* of L-BFGS, pairs */
    MOST_TRIES = 60
};
static const double least_gradient = 1e-8; /* of the first one */

struct fit {
    const struct hrf_linear_problem *problem;
    double *mean;   /* [width] */
    double *shares; /* [SHARES][1 + n] */
    size_t n;       /* parameters */
    double penalty;
};

/* Sums of several numbers at a time, which the compiler keeps in one register. */
static double dot(const double *w, const float *row, const double *mean, size_t n)
{
    double sums[8] = { 0 };
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sums[k] += w[i + k] * ((double)row[i + k] - mean[i + k]);
    for (; i < n; i++)
        sums[0] += w[i] * ((double)row[i] - mean[i]);
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/* log(1 + exp(z)) */
static double soft_plus(double z)
{
    return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
}

static double sigmoid(double z)
{
    return z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z));
}

static void soft_max(double *z, size_t n, double *log_sum)
{
    double most = z[0], sum = 0;
    for (size_t k = 1; k < n; k++)
        most = z[k] > most ? z[k] : most;
    for (size_t k = 0; k < n; k++)
        sum += exp(z[k] - most);
    *log_sum = most + log(sum);
    for (size_t k = 0; k < n; k++)
        z[k] = exp(z[k] - *log_sum);
}

/* The loss of a row whose outputs are z; z becomes its gradient to them. */
static double loss_of(const struct hrf_linear_problem *p, const float *truth, double *z)
{
    const double *weights = p->class_weights;
    double loss = 0, log_sum = 0;
    if (p->kind == HRF_LABEL_CLASS) {
        size_t class = 0;
        while (class + 1 < p->n_classes && !(truth[class] > 0.5F))
            class ++;
        const double z_class = z[class], weight = weights != NULL ? weights[2 * class + 1] : 1;
        soft_max(z, p->n_classes, &log_sum);
        z[class] -= 1;
        for (size_t k = 0; k < p->n_classes; k++)
            z[k] *= weight;
        return weight * (log_sum - z_class);
    }
    for (size_t k = 0; k < p->n_classes; k++) {
        const double t = (double)truth[k];
        const int is_there = t > 0.5;
        if (p->kind == HRF_LABEL_NUMBERS) {
            z[k] -= t;
            loss += z[k] * z[k] / 2;
            continue;
        }
        const double weight = weights != NULL ? weights[2 * k + (size_t)is_there] : 1;
        loss += weight * (soft_plus(z[k]) - is_there * z[k]);
        z[k] = weight * (sigmoid(z[k]) - is_there);
    }
    return loss;
}

static void add_share(const struct fit *f, const double *weights, size_t first, size_t end,
                      double *z, double *out)
{
    const struct hrf_linear_problem *p = f->problem;
    memset(out, 0, (1 + f->n) * sizeof *out);
    for (size_t i = first; i < end; i++) {
        for (size_t k = 0; k < p->n_classes; k++) {
            const double *w = weights + k * (p->width + 1);
            z[k] = dot(w, p->rows[i], f->mean, p->width) + w[p->width];
        }
        out[0] += loss_of(p, p->truths[i], z);
        for (size_t k = 0; k < p->n_classes; k++) {
            double *g = out + 1 + k * (p->width + 1);
            for (size_t d = 0; d < p->width; d++)
                g[d] += z[k] * ((double)p->rows[i][d] - f->mean[d]);
            g[p->width] += z[k];
        }
    }
}

/* The objective divided by the number of rows, and its gradient. */
static double evaluate(const struct fit *f, const double *weights, double *gradient)
{
    const struct hrf_linear_problem *p = f->problem;
    const size_t share = (p->n + SHARES - 1) / SHARES;
    double sum = 0, squares = 0;
#pragma omp parallel for schedule(static)
    for (size_t s = 0; s < SHARES; s++) {
        double *z = hrf_alloc_array(p->n_classes + 1, sizeof *z);
        const size_t first = s * share < p->n ? s * share : p->n;
        const size_t end = first + share < p->n ? first + share : p->n;
        add_share(f, weights, first, end, z, f->shares + s * (1 + f->n));
        hrf_free(z);
    }
    memset(gradient, 0, f->n * sizeof *gradient);
    for (size_t s = 0; s < SHARES; s++) {
        const double *own = f->shares + s * (1 + f->n);
        sum += own[0];
        for (size_t i = 0; i < f->n; i++)
            gradient[i] += own[1 + i];
    }
    for (size_t i = 0; i < f->n; i++) {
        const bool is_bias = i % (p->width + 1) == p->width;
        const double w = is_bias ? 0 : weights[i];
        squares += w * w;
        gradient[i] = (gradient[i] + f->penalty * w) / (double)p->n;
    }
    return (sum + f->penalty * squares / 2) / (double)p->n;
}

/* ---- L-BFGS ---- */

static double product(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double largest(const double *a, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
    return most;
}

struct pairs {
    double *s[MEMORY], *y[MEMORY], rho[MEMORY];
    int n, next;
};

/* direction = -H gradient */
static void find_direction(const struct pairs *pairs, const double *gradient, size_t n,
                           double *direction)
{
    double alpha[MEMORY];
    for (size_t i = 0; i < n; i++)
        direction[i] = -gradient[i];
    for (int j = 1; j <= pairs->n; j++) {
        const int at = (pairs->next - j + MEMORY) % MEMORY;
        alpha[at] = pairs->rho[at] * product(pairs->s[at], direction, n);
        for (size_t i = 0; i < n; i++)
            direction[i] -= alpha[at] * pairs->y[at][i];
    }
    if (pairs->n > 0) {
        const int last = (pairs->next - 1 + MEMORY) % MEMORY;
        const double scale = 1 / (pairs->rho[last] * product(pairs->y[last], pairs->y[last], n));
        for (size_t i = 0; i < n; i++)
            direction[i] *= scale;
    }
    for (int j = pairs->n; j >= 1; j--) {
        const int at = (pairs->next - j + MEMORY) % MEMORY;
        const double beta = pairs->rho[at] * product(pairs->y[at], direction, n);
        for (size_t i = 0; i < n; i++)
            direction[i] += (alpha[at] - beta) * pairs->s[at][i];
    }
}

static void keep_pair(struct pairs *pairs, const double *s, const double *y, size_t n)
{
    const double curvature = product(s, y, n);
    if (!(curvature > 0))
        return;
    memcpy(pairs->s[pairs->next], s, n * sizeof *s);
    memcpy(pairs->y[pairs->next], y, n * sizeof *y);
    pairs->rho[pairs->next] = 1 / curvature;
    pairs->next = (pairs->next + 1) % MEMORY;
    pairs->n = pairs->n < MEMORY ? pairs->n + 1 : MEMORY;
}

struct point {
    double *at, *gradient, value;
};

/* A step that fulfils the weak Wolfe conditions, by bisection (Lewis and Overton, Mathematical
 * Programming 141, 2013); false: rounding leaves none. */
static bool search(const struct fit *f, const struct point *here, const double *direction,
                   double step, struct point *out)
{
    const double slope = product(here->gradient, direction, f->n);
    double low = 0, high = INFINITY;
    for (int i = 0; i < MOST_TRIES && slope < 0; i++) {
        for (size_t k = 0; k < f->n; k++)
            out->at[k] = here->at[k] + step * direction[k];
        out->value = evaluate(f, out->at, out->gradient);
        if (!(out->value <= here->value + 1e-4 * step * slope))
            high = step;
        else if (product(out->gradient, direction, f->n) < 0.9 * slope)
            low = step;
        else
            return true;
        step = isinf(high) ? 2 * low : (low + high) / 2;
    }
    return false;
}

static int64_t minimise(const struct fit *f, struct point *here, struct point *next,
                        double *numbers)
{
    struct pairs pairs = { .n = 0 };
    double *direction = numbers, *s = numbers + f->n, *y = numbers + 2 * f->n;
    for (size_t j = 0; j < MEMORY; j++) {
        pairs.s[j] = numbers + (3 + 2 * j) * f->n;
        pairs.y[j] = numbers + (4 + 2 * j) * f->n;
    }
    here->value = evaluate(f, here->at, here->gradient);
    const double first = largest(here->gradient, f->n);
    int64_t n_steps = 0;
    while (n_steps < HRF_LINEAR_MOST_STEPS &&
           largest(here->gradient, f->n) > least_gradient * first) {
        find_direction(&pairs, here->gradient, f->n, direction);
        const double step = pairs.n > 0 ? 1 : 1 / sqrt(product(direction, direction, f->n));
        if (!search(f, here, direction, step, next))
            break;
        for (size_t i = 0; i < f->n; i++) {
            s[i] = next->at[i] - here->at[i];
            y[i] = next->gradient[i] - here->gradient[i];
        }
        keep_pair(&pairs, s, y, f->n);
        const struct point kept = *here;
        *here = *next;
        *next = kept;
        n_steps++;
    }
    return n_steps;
}

enum hrf_status hrf_linear_fit(const struct hrf_linear_problem *p, double *weights,
                               int64_t *n_steps, struct hrf_error *err)
{
    const size_t n = p->n_classes * (p->width + 1);
    HRF_AUTO_FREE double *mean = hrf_calloc(p->width + 1, sizeof *mean);
    HRF_AUTO_FREE double *shares = hrf_try_alloc_array(SHARES * (1 + n), sizeof *shares);
    HRF_AUTO_FREE double *numbers = hrf_try_calloc((3 + 2 * MEMORY + 4) * n, sizeof *numbers);
    HRF_CHECK_MEMORY(shares != NULL && numbers != NULL, err,
                     "no memory for a linear model of %zu numbers", n);
    for (size_t i = 0; i < p->n; i++)
        for (size_t d = 0; d < p->width; d++)
            mean[d] += (double)p->rows[i][d] / (double)p->n;
    /* Of two classes one has the other's weights with the opposite sign. scikit-learn has a single
     * vector, w1 - w0, whose square is twice the sum of theirs. */
    const bool is_pair = p->kind == HRF_LABEL_CLASS && p->n_classes == 2;
    const struct fit fit = { p, mean, shares, n, (is_pair ? 2 : 1) / p->cost };
    double *points = numbers + (3 + 2 * MEMORY) * n;
    struct point here = { points, points + n, 0 }, next = { points + 2 * n, points + 3 * n, 0 };
    *n_steps = minimise(&fit, &here, &next, numbers);
    memcpy(weights, here.at, n * sizeof *weights);
    for (size_t k = 0; k < p->n_classes; k++) {
        double *w = weights + k * (p->width + 1);
        w[p->width] -= product(w, mean, p->width);
    }
    return HRF_OK;
}

void hrf_linear_score(enum hrf_label_kind kind, const double *weights, const float *row,
                      size_t width, size_t n_classes, float *scores)
{
    HRF_AUTO_FREE double *z = hrf_alloc_array(n_classes + 1, sizeof *z);
    double log_sum = 0;
    for (size_t k = 0; k < n_classes; k++) {
        const double *w = weights + k * (width + 1);
        z[k] = w[width];
        for (size_t d = 0; d < width; d++)
            z[k] += w[d] * (double)row[d];
    }
    if (kind == HRF_LABEL_CLASS)
        soft_max(z, n_classes, &log_sum);
    for (size_t k = 0; k < n_classes; k++)
        scores[k] = (float)(kind == HRF_LABEL_SEVERAL ? sigmoid(z[k]) : z[k]);
}
