/* embedding_task.c - see embedding_task.h. */
#include "aggregate/study/embedding_task.h"

#include "schema/store/embeddings.h"

/* The embeddings of one precision; the blocks of several may have other borders. */
struct reading {
    struct hrf_cohort_precision *precision;
    struct hrf_embeddings *embeddings;
    const float *rows; /* [n], what is left of the block */
    int64_t n;
};
struct readings {
    struct reading *items; /* the first precision's first; heap */
    size_t n;
};

static void readings_release(struct readings *readings)
{
    for (size_t i = 0; i < readings->n; i++)
        hrf_embeddings_close(readings->items[i].embeddings);
    hrf_free(readings->items);
}

static enum hrf_status open_all(struct hrf_store *store, struct hrf_cohort *cohort,
                                const struct hrf_cohort_slide *slide, struct readings *out,
                                struct hrf_error *err)
{
    out->items = hrf_calloc(cohort->n_precisions, sizeof *out->items);
    for (size_t p = 0; p < cohort->n_precisions; p++) {
        if (!slide->scores[p].has_features)
            continue;
        struct reading *r = &out->items[out->n];
        r->precision = &cohort->precisions[p];
        HRF_TRY(
            hrf_store_open_embeddings(store, slide->id, r->precision->name, &r->embeddings, err));
        out->n++;
        const struct hrf_embeddings *first = out->items[0].embeddings, *e = r->embeddings;
        if (e->n != first->n || e->width != first->width)
            return hrf_error_set(err, HRF_E_USER,
                                 "%lld embeddings of %lld numbers in %s, the reference has %lld of "
                                 "%lld",
                                 (long long)e->n, (long long)e->width, r->precision->name,
                                 (long long)first->n, (long long)first->width);
    }
    return HRF_OK;
}

/* Compares as many rows as all have. */
static enum hrf_status compare_block(const struct readings *readings, int64_t *step,
                                     struct hrf_error *err)
{
    const struct reading *first = &readings->items[0];
    const int64_t width = first->embeddings->width;
    *step = INT64_MAX;
    for (size_t i = 0; i < readings->n; i++) {
        struct reading *r = &readings->items[i];
        if (r->n == 0)
            HRF_TRY(hrf_embeddings_next(r->embeddings, &r->rows, &r->n, err));
        *step = r->n < *step ? r->n : *step;
    }
    if (*step == 0)
        return hrf_error_set(err, HRF_E_BUG, "embeddings end before their last patch");
    for (size_t i = readings->n; i-- > 0;) { /* the reference moves on last */
        struct reading *r = &readings->items[i];
        if (i > 0) {
            HRF_TRY(hrf_drift_add(&r->precision->embeddings.drift, first->rows, r->rows, *step,
                                  width, err));
            hrf_neighbours_add(&r->precision->embeddings.neighbours, first->rows, r->rows, *step);
        }
        r->rows += *step * width;
        r->n -= *step;
    }
    return HRF_OK;
}

static enum hrf_status compare(const struct readings *readings, struct hrf_error *err)
{
    const struct reading *first = &readings->items[0];
    const int64_t n = first->embeddings->n, width = first->embeddings->width;
    /* Every patch has the cosine 1 with itself. */
    HRF_TRY(hrf_drift_add_same(&first->precision->embeddings.drift, n, width, err));
    for (size_t i = 1; i < readings->n; i++)
        HRF_TRY(hrf_neighbours_begin(&readings->items[i].precision->embeddings.neighbours, n, width,
                                     err));
    for (int64_t at = 0, step; at < n && readings->n > 1; at += step)
        HRF_TRY(compare_block(readings, &step, err));
    for (size_t i = 1; i < readings->n; i++)
        hrf_neighbours_end(&readings->items[i].precision->embeddings.neighbours);
    return HRF_OK;
}

enum hrf_status hrf_embedding_task_add(struct hrf_store *store, struct hrf_cohort *cohort,
                                       const struct hrf_cohort_slide *slide, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(readings) readings = { .n = 0 };
    if (!slide->scores[0].has_features)
        return HRF_OK;
    enum hrf_status status = open_all(store, cohort, slide, &readings, err);
    if (status == HRF_OK)
        status = compare(&readings, err);
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "slide '%s'", slide->name);
}
