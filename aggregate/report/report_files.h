/* report_files.h - everything below results/ and report/ of a run directory, from a cohort.
 *
 * results/labels.csv, results/patch-flips.csv,
 * results/<precision>/{model-outputs-csv,model-outputs-geojson,heatmaps,features,lesions,masks,top-patches,class-maps}/,
 * report/report.json, report/study.csv, report/index.html. These three contain times; results/ has
 * the same bytes from every run. Files appear whole (temporary name, sync, rename); made again from
 * the same cohort they are the same bytes, but for the time on the page. One slide's records are in
 * memory at a time, plus a bounded thumbnail of each. A slide whose files cannot be made or written
 * keeps no other slide from its own.
 */
#ifndef HRF_AGGREGATE_REPORT_REPORT_FILES_H
#define HRF_AGGREGATE_REPORT_REPORT_FILES_H

#include "aggregate/features/features.h"
#include "aggregate/study/cohort.h"
#include "base/error.h"
#include "schema/store/embeddings.h"

#include <stdbool.h>

/* The source of a slide's records. `slide` and `precision` are indices of the cohort; the caller
 * destroys the records. */
struct hrf_report_source {
    void *context;
    enum hrf_status (*tile_plan)(void *context, size_t slide, struct hrf_tile_plan **out,
                                 struct hrf_error *err);
    /* Without their numbers in a cohort of embeddings. */
    enum hrf_status (*scores)(void *context, size_t slide, size_t precision,
                              struct hrf_scores **out, struct hrf_error *err);
    /* Only of a cohort of embeddings. */
    enum hrf_status (*embeddings)(void *context, size_t slide, size_t precision,
                                  struct hrf_embeddings **out, struct hrf_error *err);
    /* What the slide head gave; only for a cohort that has one. */
    enum hrf_status (*head_scores)(void *context, size_t slide, size_t precision,
                                   struct hrf_head_scores **out, struct hrf_error *err);
};

struct hrf_report_options {
    bool heatmaps, geojson, csv, html;
    bool masks;      /* of a segmentation network, as TIFF */
    bool class_maps; /* of slides that were scored as one image */
    /* How embeddings are written, and what made them (hrf_features.encoder, model; borrowed). A
     * cohort of embeddings gets heatmaps and GeoJSON of a slide head's attention, or none. */
    enum hrf_features_form features;
    bool half_features;
    const char *encoder, *model_sha256;
    struct hrf_preparation preparation; /* of patches before the model */
    const char *made_at;                /* shown on the page; NULL = now, UTC */
    /* Called after each slide; may be NULL. */
    void (*on_slide)(void *context, size_t done, size_t total);
    void *on_slide_context;
};

/* An annotation or picture that cannot be read is a note on its slide, not a failure. A slide whose
 * other files cannot be made or written becomes FAILED in the cohort, with the reason there and at
 * the precision; *n_failed (may be NULL) counts such slides. Only what would stop every slide is an
 * error: no memory, a full disk, no folder to write in. Files of an
 * earlier report that are not made again (slides that left the cohort or are no longer done, forms
 * and precisions that are no longer asked for), and temporary files of a writer that was killed,
 * are removed. */
HRF_CHECKED enum hrf_status hrf_report_write(struct hrf_cohort *cohort,
                                             const struct hrf_report_source *source,
                                             const struct hrf_report_options *options,
                                             const char *directory, size_t *n_failed,
                                             struct hrf_error *err);

/* Reads cohort and records from the store and writes the report: hrf_cohort_load() and
 * hrf_report_write() in one. Slides that fail here become FAILED in the store. */
HRF_CHECKED enum hrf_status hrf_report_from_store(struct hrf_store *store,
                                                  const struct hrf_aggregate_params *params,
                                                  const struct hrf_report_options *options,
                                                  const char *directory, size_t *n_failed,
                                                  struct hrf_error *err);

#endif
