/* calibration_sample.h - the patches that INT8 is calibrated on, and the tasks that observe them.
 */
#ifndef HRF_ORCHESTRATOR_RUN_CALIBRATION_SAMPLE_H
#define HRF_ORCHESTRATOR_RUN_CALIBRATION_SAMPLE_H

#include "orchestrator/run/run_private.h"

/* The part of the sample that lies on one slide: its tile plan, reduced to the chosen patches. */
struct run_sample_part {
    int64_t slide_id;
    int64_t n_patches; /* patches of the whole slide that may be chosen */
    struct hrf_tile_plan *plan;
    char pixels[HRF_HASH_HEX]; /* hash of what the chosen patches show */
};

/* Slides and patches that are held out, at most. */
enum { RUN_HELD_OUT_PARTS = 4, RUN_HELD_OUT_PATCHES = 64 };

struct run_sample {
    struct run_sample_part *parts;
    size_t n_parts;
    int64_t n_patches;
    char identity[HRF_HASH_HEX];
    /* Patches of some of these slides, or, where each slide is one image, other slides, that are
     * not in the sample, on which INT8 is compared with float32 once it is calibrated; none where
     * there are no others. */
    struct run_sample_part held_out[RUN_HELD_OUT_PARTS];
    size_t n_held_out;
};
void run_sample_release(struct run_sample *sample);

/* True if every slide that the sample may be drawn from is tiled or has failed. */
bool run_sample_is_tiled(const struct run *run);
HRF_CHECKED enum hrf_status run_sample_make(struct run *run, struct run_sample *sample,
                                            struct hrf_error *err);
/* What all keys of a calibration depend on: version, model, the settings of these phases. */
void run_sample_hash_settings(const struct run *run, unsigned phases, struct hrf_hash *hash);
/* The key of the statistics of part i of the sample, that on one slide; it depends on the method
 * only where layers are measured. */
HRF_CHECKED enum hrf_status run_sample_part_key(const struct run *run,
                                                const struct run_sample *sample, size_t i,
                                                char out[HRF_HASH_HEX], struct hrf_error *err);
/* Plans a task for each slide of the sample, which observes its part. */
HRF_CHECKED enum hrf_status run_sample_plan(struct run *run, const struct run_sample *sample,
                                            struct hrf_error *err);
/* Plans beside them a task for each part that is held out, which compares INT8 by the calibration
 * of this key with float32. */
HRF_CHECKED enum hrf_status run_held_out_plan(struct run *run, const struct run_sample *sample,
                                              const char *calibration_key, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_held_out_key(const struct run *run,
                                             const struct run_sample_part *part,
                                             const char *calibration_key, char out[HRF_HASH_HEX],
                                             struct hrf_error *err);

/* True for a calibrate task of patches that are held out; its precision is "int8". */
bool run_compares_int8(const struct hrf_task_row *task);
/* True if the calibrate task measures layers, too. */
bool run_measures_layers(const struct run *run, const struct hrf_task_row *task);

#endif
