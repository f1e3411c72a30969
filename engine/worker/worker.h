/* worker.h - the worker of an infer or calibrate job: scores the patches of the job's tasks, or
 * observes what every tensor holds on them.
 *
 * `hires-engine infer` and `observe` call hrf_worker_run_job(); the rest is shared by the files of
 * this folder.
 */
#ifndef HRF_ENGINE_WORKER_WORKER_H
#define HRF_ENGINE_WORKER_WORKER_H

#include "engine/backend/device.h"
#include "engine/input/feed.h"
#include "engine/planning/find_layout.h"
#include "engine/run/network.h"
#include "engine/run/smoothing.h"
#include "engine/worker/meters.h"
#include "engine/worker/ranks.h"
#include "schema/record/calibration.h"
#include "schema/record/job.h"
#include "schema/record/scores.h"

/* One of a job's networks: the model in one precision. */
struct hrf_worker_network {
    struct hrf_calibration *calibration; /* int8 only */
    struct hrf_network *network;         /* NULL: not made yet, or not in this pass */
    double build_seconds;                /* and not told by a record yet */
    struct hrf_resource_use spent;       /* by this rank's group, and not handed on yet */
    int64_t peak_bytes;                  /* of the rank of the group that holds most of it */
    int32_t pass;                        /* in which it scores: those of a pass share the reading */
    /* Of a group of ranks: how they share the network. */
    struct hrf_found_layout layout;
    const struct hrf_cutting *cutting;
};

/* A job and its networks. */
struct hrf_worker {
    struct hrf_job_spec *spec;
    char *directory;
    struct hrf_tile_plan *plan;         /* as read last; NULL: none */
    const struct hrf_job_task *plan_of; /* the task that it was read for; in spec */
    struct hrf_graph *graph;            /* as read; NULL: it is read again when it is needed */
    struct hrf_worker_network networks[HRF_JOB_MAX_NETWORKS]; /* [spec->n_networks] */
    int32_t n_passes;
    int64_t size;                    /* of the images for which the networks are made */
    int64_t batch;                   /* patches in a batch for which they are made */
    int64_t asked_batch;             /* `batch` is this, or what the model's file fixes */
    int64_t min_batch;               /* that the layout can divide; 0: batches are always whole */
    struct hrf_smoothing *smoothing; /* calibrate only; NULL: the network has no use for it */
    int64_t n_values;                /* that a patch's result has; 0: no model is made ready yet */
    /* Of a segmentation network, whose results are rows (label_rows.h): height and width of the map
     * that it gives for a patch. 0: results are the network's own outputs. */
    int64_t label_side;
    struct hrf_device_identity identity; /* of this rank's device */
    struct hrf_meters meters;
    char host[128];
    struct hrf_ranks *ranks; /* infer only */
};

/* Tasks that score the same patches, each with another network. */
struct hrf_task_group {
    const struct hrf_job_task *tasks[HRF_JOB_MAX_NETWORKS];
    int networks[HRF_JOB_MAX_NETWORKS]; /* of each task */
    int n;
};
/* How one of them ended. */
struct hrf_task_result {
    struct hrf_bytes record; /* empty on every rank but 0 */
    enum hrf_status status;
    struct hrf_error err;
};

/* Runs every task of the job that the spec at `spec_path` describes, which must be of this kind,
 * and commits a record of each. `job` begins zeroed and is the caller's to release, also on
 * failure. HRF_E_AGAIN: a signal stopped it, and the next attempt goes on from what was kept. */
HRF_CHECKED enum hrf_status hrf_worker_run_job(struct hrf_worker *job, const char *spec_path,
                                               enum hrf_job_kind kind, struct hrf_error *err);
/* Writes how this rank ended into its record; a rank that cannot go on ends all ranks. Returns the
 * exit code: of ranks that were asked to stop only rank 0 returns `code`, once it has kept what
 * there is, because the starter of the ranks would kill rank 0 for another rank's exit code. */
int hrf_worker_end_rank(struct hrf_worker *job, enum hrf_status status, int code,
                        const struct hrf_error *err);
void hrf_worker_release(struct hrf_worker *job);
HRF_CHECKED enum hrf_status hrf_worker_load_model(struct hrf_worker *job, struct hrf_error *err);
/* Divides the job's ranks into groups by the layout that was asked for, decides which networks are
 * held side by side (engine.memory is for all of them together), and opens the work queue. */
HRF_CHECKED enum hrf_status hrf_worker_prepare(struct hrf_worker *job, struct hrf_error *err);
/* Patches in a batch of the slide of this tile plan: spec->settings->engine.batch, or fewer
 * (hrf_job_batch()) where the network is computed in host memory. A device, whose kernels are tuned
 * for a shape, takes whole ones. */
int64_t hrf_worker_batch(const struct hrf_worker *job, const struct hrf_tile_plan *plan);
/* The model as it is to be run on `batch` images of `size` px, with the operators that make scores
 * of its outputs; the caller's to destroy. */
HRF_CHECKED enum hrf_status hrf_worker_make_graph(struct hrf_worker *job, int64_t size,
                                                  int64_t batch, struct hrf_graph **out,
                                                  struct hrf_error *err);
/* Px of the images that the network is given of a plan's patches. */
int64_t hrf_worker_image_size(const struct hrf_worker *job, const struct hrf_tile_plan *plan);
/* Makes network i for batches of images of `size`, unless it is there. Those of another size or
 * batch are given back. */
HRF_CHECKED enum hrf_status hrf_worker_make_network(struct hrf_worker *job, int i, int64_t size,
                                                    int64_t batch, struct hrf_error *err);
/* Gives back every network that is not of this pass. */
void hrf_worker_begin_pass(struct hrf_worker *job, int32_t pass);
/* The task's tile plan, which has the task's patches. It belongs to the worker and is valid until
 * the next call. */
HRF_CHECKED enum hrf_status hrf_worker_read_plan(struct hrf_worker *job,
                                                 const struct hrf_job_task *task,
                                                 const struct hrf_tile_plan **out,
                                                 struct hrf_error *err);
/* What becomes of what this rank did last (`status` and `err`), which the ranks of its group decide
 * together: all go on, or all fail alike. HRF_E_AGAIN when one of them was asked to stop. */
HRF_CHECKED enum hrf_status hrf_worker_settle(struct hrf_worker *job, enum hrf_status status,
                                              struct hrf_error *err);
/* A signal handler: the job ends after the present batch. */
void hrf_worker_stop(int signal_number);
bool hrf_worker_is_stopping(void);

/* The slide and patches of a group of tasks, open and being read ahead; a slide that is one image
 * is read straight into the network's input instead and has no feed. */
struct hrf_task_source {
    const struct hrf_tile_plan *plan; /* the worker's */
    struct hrf_slide *slide;
    struct hrf_feed *feed;
    int form[HRF_JOB_MAX_NETWORKS]; /* of the feed, by index in the group */
    struct hrf_box fed;             /* of a patch what this process is fed */
    struct hrf_feed_times times;    /* without a feed */
    bool gives_tiles;               /* the device decodes them */
    char decoder[96];               /* what decodes them: "cpu", "nvJPEG 13.3.2 (...)" */
    int32_t n_threads;
};

/* Opens the tasks' slide; makes their networks for the size of its images. */
HRF_CHECKED enum hrf_status hrf_worker_open_source(struct hrf_worker *job,
                                                   const struct hrf_task_group *group,
                                                   struct hrf_task_source *source,
                                                   struct hrf_error *err);
void hrf_task_source_release(struct hrf_task_source *source);
/* With job->ranks: of the batches that its group of ranks is given; else of all. */
HRF_CHECKED enum hrf_status hrf_worker_start_feed(const struct hrf_worker *job,
                                                  const struct hrf_task_group *group,
                                                  struct hrf_task_source *source,
                                                  struct hrf_error *err);
/* The task's slide as one image, through network i. */
HRF_CHECKED enum hrf_status hrf_worker_run_slide(struct hrf_worker *job,
                                                 const struct hrf_job_task *task, int i,
                                                 struct hrf_task_source *source,
                                                 struct hrf_error *err);
/* A batch of square patches as a source (hrf_source), for networks in bands or on several ranks;
 * the rest of a short one is zeros, whose outputs are dropped. */
struct hrf_batch_source {
    const float *pixels; /* [n][rows][size][3] */
    int64_t n, size;     /* px, of an image */
    struct hrf_box fed;  /* of a patch what this process is fed: the batch has its rows */
};
hrf_source hrf_worker_read_batch;

/* Scores the tasks of a group; `results` [group->n] says how each ended, and is filled only with
 * HRF_OK. Other statuses end the job. */
HRF_CHECKED enum hrf_status hrf_worker_score(struct hrf_worker *job,
                                             const struct hrf_task_group *group,
                                             struct hrf_task_result *results,
                                             struct hrf_error *err);
/* What a calibrate task keeps of its patches to measure layers on. */
struct hrf_layer_images {
    float *pixels; /* [n] images; heap */
    int32_t n;
};
/* Keeps the first images of the task, and the margins of all of them, which the network, in
 * float32, has just scored. */
HRF_CHECKED enum hrf_status
hrf_worker_keep_images(struct hrf_worker *job, const struct hrf_network *network,
                       const float *pixels, int64_t n, struct hrf_layer_images *images,
                       struct hrf_observations *seen, struct hrf_error *err);
/* Loss and time of every layer (run/sensitivity.h) in INT8 as `calibration` has it, or, NULL, as
 * the ranges in `seen` give it; added to `seen`. Nothing is added where the device is not a
 * processor. */
HRF_CHECKED enum hrf_status hrf_worker_measure_layers(struct hrf_worker *job,
                                                      const struct hrf_calibration *calibration,
                                                      const struct hrf_layer_images *images,
                                                      struct hrf_observations *seen,
                                                      struct hrf_error *err);
/* The record of a calibrate task of the job's first network, which is observed, and of one of its
 * second, INT8, which is compared with the first. */
HRF_CHECKED enum hrf_status hrf_worker_observe(struct hrf_worker *job,
                                               const struct hrf_job_task *task,
                                               struct hrf_bytes *record, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_worker_compare(struct hrf_worker *job,
                                               const struct hrf_job_task *task,
                                               struct hrf_bytes *record, struct hrf_error *err);

#endif
