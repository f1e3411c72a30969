/* forecast.h - predicts patches, time and disk space of a run before anything is done.
 *
 * Patches of slides that are not tiled yet are estimated: their headers give the positions of the
 * grid, and a sample of the slides, looked at in low resolution, gives the part that is tissue. The
 * work is bounded however many slides there are. Nothing is written.
 */
#ifndef HRF_ORCHESTRATOR_RUN_FORECAST_H
#define HRF_ORCHESTRATOR_RUN_FORECAST_H

#include "orchestrator/ingest/survey.h"
#include "orchestrator/run/preview.h"

enum { HRF_FORECAST_HEADERS = 4096, HRF_FORECAST_LOOKS = 24 }; /* most slides opened, looked at */

/* Rates of the networks from another source: patches/s of one job for each precision, 0 = not
 * known, and a text that names the source. */
struct hrf_forecast_rates {
    double patches_per_second[HRF_N_PRECISIONS];
    char from[160];
    int64_t embedding_width; /* numbers that the network gives for a patch; 0: not known */
    int64_t weight_bytes;    /* bytes of the weights in memory, all precisions; 0: not known */
};

struct hrf_forecast_time {
    double seconds; /* NaN: not known */
    char from[320]; /* "the 1200 patches that this run has scored, 310 a second" */
};

enum hrf_forecast_room {
    HRF_ROOM_TILING,     /* tile plans with their pictures, as jobs write and run.db keeps them */
    HRF_ROOM_SCORES,     /* records of scores or embeddings, of jobs and in run.db */
    HRF_ROOM_TABLES,     /* csv and GeoJSON of patches */
    HRF_ROOM_PICTURES,   /* heat maps */
    HRF_ROOM_EMBEDDINGS, /* HDF5 or npy of slides */
    HRF_ROOM_REPORT,
    HRF_N_ROOMS
};
const char *hrf_forecast_room_name(enum hrf_forecast_room room); /* "tiling", ... */

struct hrf_forecast {
    /* Slides that are not tiled yet. Of these, n_opened were opened (`rows` and `survey` describe
     * them), n_ready can be scored, and n_looked were examined in low resolution. */
    int64_t n_untiled, n_opened, n_ready, n_looked;
    struct hrf_slide_rows rows; /* borrowed from the preview; only `items` is ours */
    struct hrf_survey survey;
    int64_t n_cells;      /* patches of these slides if all were tissue */
    double patches;       /* expected patches for each precision; n_cells if none was examined */
    double spread;        /* two standard errors of `patches`; 0: all were examined; NaN: unknown */
    double look_seconds;  /* wall time of the examination */
    double picture_bytes; /* bytes of PNG for each pixel of their thumbnails; 0: not known */
    int64_t known_patches; /* patches to score in tiled slides, all precisions together */
    /* The images that the network computes for these patches in whole batches (hrf_job_batch()):
     * `images` for each precision, `known_images` for all together. */
    double images;
    int64_t known_images;
    int64_t n_calibrating; /* patches that the calibration will observe */
    int64_t n_trainings;   /* trainings of slide heads that are not done */
    struct hrf_forecast_time tile, calibrate, infer, train, report;
    int64_t n_bytes[HRF_N_ROOMS]; /* bytes that will be added to the run directory */
};

/* Returns the number of patches of a slide if all of it were tissue; 0 if it cannot be scored or is
 * too small. */
int64_t hrf_forecast_cells(const struct hrf_workflow *workflow,
                           const struct hrf_slide_finding *finding);
/* Returns the number of patches to score, all precisions together. */
double hrf_forecast_patches(const struct hrf_workflow *workflow, const struct hrf_forecast *f);
/* Returns the sum of the phases whose time is known. *is_whole is false if one is not known. */
double hrf_forecast_seconds(const struct hrf_forecast *f, bool *is_whole);
int64_t hrf_forecast_bytes(const struct hrf_forecast *f);

/* The preview must outlive the forecast. rates may be NULL. */
HRF_CHECKED enum hrf_status hrf_forecast_make(const struct hrf_workflow *workflow,
                                              const char *directory,
                                              const struct hrf_preview *preview,
                                              const struct hrf_forecast_rates *rates,
                                              struct hrf_forecast *out, struct hrf_error *err);
void hrf_forecast_release(struct hrf_forecast *forecast);

#endif
