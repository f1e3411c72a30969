/* calibrate_private.h - the parts of a run's calibration: its sample (calibration_sample.c) and
 * what is made of what was observed on it (calibration_fit.c); for calibrate.c. */
#ifndef HRF_ORCHESTRATOR_RUN_CALIBRATE_PRIVATE_H
#define HRF_ORCHESTRATOR_RUN_CALIBRATE_PRIVATE_H

#include "calibrate/fit/fit.h"
#include "orchestrator/run/run_private.h"

/* The part of the sample that lies on one slide: its tile plan, reduced to the chosen patches. */
struct run_sample_part {
    int64_t slide_id;
    int64_t n_patches; /* that may be chosen, of the whole slide */
    struct hrf_tile_plan *plan;
};

struct run_sample {
    struct run_sample_part *parts;
    size_t n_parts;
    int64_t n_patches;
    char identity[HRF_HASH_HEX];
};
void run_sample_release(struct run_sample *sample);

/* True if every slide that the sample may be drawn from is tiled or has failed. */
bool run_sample_is_tiled(const struct run *run);
HRF_CHECKED enum hrf_status run_sample_make(struct run *run, struct run_sample *sample,
                                            struct hrf_error *err);
/* What all keys of a calibration depend on: version, model, preprocessing. */
HRF_CHECKED enum hrf_status run_sample_hash_settings(const struct run *run, struct hrf_hash *hash);
/* The key of the statistics of part i of the sample, that on one slide; it depends on the method
 * only where layers are measured. */
HRF_CHECKED enum hrf_status run_sample_part_key(const struct run *run,
                                                const struct run_sample *sample, size_t i,
                                                char out[HRF_HASH_HEX], struct hrf_error *err);
/* Plans a task for each slide of the sample, which observes its part. */
HRF_CHECKED enum hrf_status run_sample_plan(struct run *run, const struct run_sample *sample,
                                            struct hrf_error *err);

/* How the workflow has ranges fitted. */
enum hrf_fit_kind run_fit_kind(const struct hrf_workflow *workflow);
/* What layers' losses are measured by if the workflow has a budget: "cosine" or "margin". */
const char *run_layer_loss(const struct hrf_workflow *workflow);
/* True if the calibrate task measures layers, too. */
bool run_measures_layers(const struct run *run, const struct hrf_task_row *task);

HRF_CHECKED enum hrf_status run_calibration_key(const struct run *run,
                                                const struct run_sample *sample,
                                                char out[HRF_HASH_HEX], struct hrf_error *err);
/* The calibration, of the records that the sample's tasks left in the store. */
HRF_CHECKED enum hrf_status run_calibration_fit(struct run *run, const struct run_sample *sample,
                                                const char *key, struct hrf_calibration **out,
                                                struct hrf_error *err);

#endif
