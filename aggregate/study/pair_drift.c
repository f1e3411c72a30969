/* pair_drift.c - walks through the embeddings of two runs side by side (pair_drift.h). */
#include "aggregate/study/pair_drift.h"

#include "schema/store/embeddings.h"

#include <stdlib.h>
#include <string.h>

/* A patch that both runs have: its number in either. */
struct shared_row {
    int64_t at[2];
};

static int by_first(const void *a, const void *b)
{
    const struct shared_row *x = a, *y = b;
    return (x->at[0] > y->at[0]) - (x->at[0] < y->at[0]);
}

/* In the order of both runs; heap. Tilings of one grid, and of one list of places, have one order.
 */
static enum hrf_status make_order(const struct hrf_pair_drift_side sides[2], int64_t n,
                                  struct shared_row **out, struct hrf_error *err)
{
    HRF_AUTO_FREE struct shared_row *rows = hrf_alloc_array((size_t)n + 1, sizeof *rows);
    for (int64_t i = 0; i < n; i++)
        rows[i] = (struct shared_row){ { sides[0].rows[i], sides[1].rows[i] } };
    qsort(rows, (size_t)n, sizeof *rows, by_first);
    for (int64_t i = 1; i < n; i++)
        if (rows[i].at[1] <= rows[i - 1].at[1])
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "the patches of A and B are in different orders");
    HRF_MOVE(*out, rows);
    return HRF_OK;
}

/* A reading that is at one of its rows. */
struct reading {
    struct hrf_embeddings *embeddings;
    const float *block;
    int64_t first, n; /* rows of the block */
};

/* Goes on to a row that is not before the present block. */
static enum hrf_status go_to(struct reading *r, int64_t row, const float **out,
                             struct hrf_error *err)
{
    while (row >= r->first + r->n) {
        r->first += r->n;
        HRF_TRY(hrf_embeddings_next(r->embeddings, &r->block, &r->n, err));
        if (r->n == 0)
            return hrf_error_set(err, HRF_E_BUG, "embeddings end before patch %lld",
                                 (long long)row);
    }
    *out = r->block + (row - r->first) * r->embeddings->width;
    return HRF_OK;
}

static enum hrf_status walk(struct reading readings[2], const struct shared_row *rows, int64_t n,
                            struct hrf_cohort_precision *p, struct hrf_error *err)
{
    const int64_t width = readings[0].embeddings->width;
    if (readings[1].embeddings->width != width)
        return hrf_error_set(err, HRF_E_USER,
                             "embeddings of %lld numbers in B, of %lld in A: the networks differ, "
                             "and there is nothing that could be compared",
                             (long long)readings[1].embeddings->width, (long long)width);
    HRF_TRY(hrf_neighbours_begin(&p->embeddings.neighbours, n, width, err));
    for (int64_t i = 0; i < n; i++) {
        const float *both[2];
        for (int side = 0; side < 2; side++)
            HRF_TRY(go_to(&readings[side], rows[i].at[side], &both[side], err));
        HRF_TRY(hrf_drift_add(&p->embeddings.drift, both[0], both[1], 1, width, err));
        hrf_neighbours_add(&p->embeddings.neighbours, both[0], both[1], 1);
    }
    hrf_neighbours_end(&p->embeddings.neighbours);
    return HRF_OK;
}

enum hrf_status hrf_pair_drift_add(const struct hrf_pair_drift_side sides[2], int64_t n,
                                   struct hrf_cohort_precision *p, struct hrf_error *err)
{
    HRF_AUTO(hrf_embeddings) a = NULL;
    HRF_AUTO(hrf_embeddings) b = NULL;
    HRF_AUTO_FREE struct shared_row *rows = NULL;
    if (n == 0)
        return HRF_OK;
    HRF_TRY(
        hrf_store_open_embeddings(sides[0].store, sides[0].slide_id, sides[0].precision, &a, err));
    if (sides[0].store == sides[1].store && strcmp(sides[0].precision, sides[1].precision) == 0)
        return hrf_drift_add_same(&p->embeddings.drift, n, a->width, err);
    HRF_TRY(make_order(sides, n, &rows, err));
    HRF_TRY(
        hrf_store_open_embeddings(sides[1].store, sides[1].slide_id, sides[1].precision, &b, err));
    struct reading readings[2] = { { .embeddings = a }, { .embeddings = b } };
    return walk(readings, rows, n, p, err);
}
