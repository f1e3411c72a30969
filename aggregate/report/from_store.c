/* from_store.c - the run store as the source of a report. */
#include "aggregate/report/report.h"

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
    return hrf_store_get_scores(source->store, source->cohort->slides[slide].id,
                                source->cohort->precisions[precision].name, out, err);
}

enum hrf_status hrf_report_from_store(struct hrf_store *store,
                                      const struct hrf_aggregate_params *params,
                                      const struct hrf_report_options *options,
                                      const char *directory, struct hrf_error *err)
{
    HRF_AUTO(hrf_cohort) cohort = NULL;
    HRF_TRY(hrf_cohort_load(store, params, &cohort, err));
    struct store_source context = { store, cohort };
    const struct hrf_report_source source = { &context, stored_plan, stored_scores };
    return hrf_report_write(cohort, &source, options, directory, err);
}
