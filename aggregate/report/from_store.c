/* from_store.c - the run store as the source of a report. */
#include "aggregate/report/report_files.h"

struct store_source {
    struct hrf_store *store;
    const struct hrf_cohort *cohort;
};

static enum hrf_status stored_plan(void *context, size_t slide, struct hrf_tile_plan **out,
                                   struct hrf_error *err)
{
    const struct store_source *source = context;
    return hrf_store_get_tile_plan(source->store, source->cohort->slides[slide].id, out, err);
}

static enum hrf_status stored_scores(void *context, size_t slide, size_t precision,
                                     struct hrf_scores **out, struct hrf_error *err)
{
    const struct store_source *source = context;
    const int64_t id = source->cohort->slides[slide].id;
    const char *name = source->cohort->precisions[precision].name;
    return source->cohort->is_embedding
               ? hrf_store_get_score_facts(source->store, id, name, out, err)
               : hrf_store_get_scores(source->store, id, name, out, err);
}

static enum hrf_status stored_embeddings(void *context, size_t slide, size_t precision,
                                         struct hrf_embeddings **out, struct hrf_error *err)
{
    const struct store_source *source = context;
    return hrf_store_open_embeddings(source->store, source->cohort->slides[slide].id,
                                     source->cohort->precisions[precision].name, out, err);
}

static enum hrf_status stored_head_scores(void *context, size_t slide, size_t precision,
                                          struct hrf_head_scores **out, struct hrf_error *err)
{
    const struct store_source *source = context;
    return hrf_store_get_head_scores(source->store, source->cohort->slides[slide].id,
                                     source->cohort->precisions[precision].name, false, out, err);
}

/* Those that became FAILED while their files were written. */
static enum hrf_status store_failures(struct hrf_store *store, const struct hrf_cohort *cohort,
                                      struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(store, err));
    for (size_t i = 0; i < cohort->n_slides; i++)
        if (cohort->slides[i].state == HRF_SLIDE_FAILED)
            HRF_TRY(hrf_store_set_slide_state(store, cohort->slides[i].id, HRF_SLIDE_FAILED,
                                              cohort->slides[i].reason, err));
    return hrf_store_commit(store, err);
}

enum hrf_status hrf_report_from_store(struct hrf_store *store,
                                      const struct hrf_aggregate_params *params,
                                      const struct hrf_report_options *options,
                                      const char *directory, size_t *n_failed,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_cohort) cohort = NULL;
    size_t n = 0;
    HRF_TRY(hrf_cohort_load(store, params, &cohort, err));
    struct store_source context = { store, cohort };
    const struct hrf_report_source source = { &context, stored_plan, stored_scores,
                                              stored_embeddings, stored_head_scores };
    HRF_TRY(hrf_report_write(cohort, &source, options, directory, &n, err));
    if (n > 0)
        HRF_TRY(store_failures(store, cohort, err));
    if (n_failed != NULL)
        *n_failed = n;
    return HRF_OK;
}
