/* linear_fit.h - the linear model of embeddings with the least loss and an L2 penalty: logistic
 * regression, or ridge regression for numbers.
 *
 * The minimum is that of scikit-learn's LogisticRegression (of one class or of several labels, one
 * model for each) and Ridge with alpha = 1 / C: the sum of the rows' losses plus |W|^2 / (2 C), the
 * bias without a penalty. It is found by L-BFGS (Nocedal and Wright, Numerical Optimization,
 * 2nd ed., algorithm 7.5). Sums are made in one order: the same bits on any number of threads.
 * Pure.
 */
#ifndef HRF_TRAINING_PROBE_LINEAR_FIT_H
#define HRF_TRAINING_PROBE_LINEAR_FIT_H

#include "base/error.h"
#include "training/cohort/label_kind.h"

#include <stdint.h>

struct hrf_linear_problem {
    enum hrf_label_kind kind;
    const float *const *rows;   /* [n] embeddings, each [width] */
    const float *const *truths; /* [n] of them, each [n_classes] (label_kind.h) */
    /* How much a row counts: [n_classes][2] without the class and with it. Rows of one class count
     * as with it; numbers all the same. NULL: once. */
    const double *class_weights;
    size_t n, width, n_classes;
    double cost; /* C */
};

enum { HRF_LINEAR_MOST_STEPS = 10000 };
/* weights: [n_classes][width + 1], the bias last. *n_steps: HRF_LINEAR_MOST_STEPS if it has not
 * converged by then. HRF_E_NOMEM. */
HRF_CHECKED enum hrf_status hrf_linear_fit(const struct hrf_linear_problem *problem,
                                           double *weights, int64_t *n_steps,
                                           struct hrf_error *err);
/* The scores of a row: probabilities, of labels each its own, or numbers. */
void hrf_linear_score(enum hrf_label_kind kind, const double *weights, const float *row,
                      size_t width, size_t n_classes, float *scores);

#endif
