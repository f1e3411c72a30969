/* job.h - spec.json: all that a job needs to know, written by the orchestrator before it starts.
 *
 * A job is a list of tasks of one kind. Every attempt has a directory of its own
 * (DIR/jobs/<job>.a<attempt>/) that holds the spec, the log, the sentinels and one record per
 * finished task, so that a late zombie writes where nobody looks any more. Workers write a
 * task's record as <task id>.rec by temporary name, fsync and rename, the moment it is done:
 * what an attempt finished before it died is not lost.
 */
#ifndef HRF_SCHEMA_RECORD_JOB_H
#define HRF_SCHEMA_RECORD_JOB_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/preparation.h"
#include "schema/record/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_job_kind { HRF_JOB_TILE, HRF_JOB_INFER, HRF_JOB_CALIBRATE, HRF_JOB_HEAD, HRF_JOB_TRAIN };
/* "tile", "infer", "calibrate", "head", "train" */
const char *hrf_job_kind_name(enum hrf_job_kind kind);

/* The largest value that a patch may have (tiler/quality); 0: not looked for. */
struct hrf_job_quality {
    double pen, bubble, fold, blur;
};

/* The network that finds tissue (tissue_method "onnx"); otherwise model_file is NULL. */
struct hrf_job_tissue {
    char *model_file, *model_sha256;
    double mpp;       /* um/px of the images that it takes */
    double threshold; /* a pixel of at least this probability is tissue */
    int64_t size;     /* px, the images' height and width; 0: as the model says, else 512 */
    int64_t class;    /* the output that is tissue, counted from 0; -1: the last */
    double mean[3], std[3];
    int64_t n_threads; /* 0 = all that the process may use */
};

/* The part of the workflow that a tile task depends on. */
struct hrf_job_tiler {
    char *mode; /* "patch" or "slide" */
    int64_t patch_size, patch_stride;
    double patch_mpp;
    char *tissue_method;
    struct hrf_job_tissue tissue;
    double min_tissue;
    int64_t min_patches;
    char *on_bad_tile; /* "fail" or "white"; NULL: fail */
    struct hrf_job_quality quality;
    char *edge;            /* "drop", "pad" or "shift"; NULL: drop */
    char *outline_classes; /* of coords in GeoJSON, a line each; NULL: all (coords.h) */
    char
        *coords; /* where other programs' patches of the slides are: a folder or file; NULL: none */
};

/* The part of it that an infer task depends on. */
struct hrf_job_engine {
    char *model_file, *model_sha256;
    int64_t n_classes;
    double mean[3], std[3];
    /* As struct hrf_preparation; input_size 0, interpolation NULL: patches go in as they are. */
    int64_t input_size, input_resize;
    char *interpolation;
    char *device;
    char *decode;                /* "cpu", "gpu" or "auto": what decodes JPEG tiles; NULL: cpu */
    int64_t batch, memory_bytes; /* memory: of all networks of a job that are held at once */
    int64_t max_memory_bytes;    /* of a model's tensor for one image; 0: the engine's default */
    double max_operations;       /* of a model for one image; likewise */
    int64_t n_threads;           /* of a rank; 0 = all that the process may use */
    int64_t n_ranks; /* that share the patches: processes of one MPI job; 0 and 1 = one */
    char *layout;    /* of threads of each rank's process: "spatial=2", "auto"; NULL: single */
    bool class_map;  /* slide mode: the record gets a map of the predicted class */
    /* The model's output is a vector that describes a patch, of any width; n_classes is 0. */
    bool embedding;
    /* "softmax" or "sigmoid" is added to the model's raw outputs, or they are taken as they are
     * ("none"), or every pixel of the output gets a label ("segmentation"); NULL: probabilities, by
     * what the model ends in. */
    char *activation;
    /* calibrate: "cosine" or "margin", by which tasks measure layers (measures_layers), with INT8
     * as this method and this least signal-to-noise ratio make it; NULL: none does. */
    char *layer_loss, *fit_method;
    double fit_min_sqnr;
};
struct hrf_preparation hrf_job_engine_preparation(const struct hrf_job_engine *engine);
bool hrf_job_engine_is_segmentation(const struct hrf_job_engine *engine);
/* Patches in each batch of a slide that has n_patches, if a batch holds at most `batch`: a network
 * computes whole batches, so the slide's patches are divided evenly over as few as there may be,
 * rounded up to an eighth of `batch`, since a network is made ready for each size of batch. It
 * depends on the slide alone, not on the shard or the job: float32 sums may have other bits in
 * batches of another size. */
int64_t hrf_job_batch(int64_t batch, int64_t n_patches);

/* What a head task scores, and by which head; both files are checked against their hashes. */
struct hrf_job_bag {
    char *features, *features_sha256; /* HDF5 file of the slide's embeddings */
    char *head, *head_sha256;         /* ONNX */
    char *classes;                    /* that the head must have, in this order, a line each */
    /* The features may differ from those that the head was trained on, in all or in precision. */
    bool mixed, any_precision;
};

/* A training of a slide head: `head train`'s file, and the fold and seed of it. */
struct hrf_job_training {
    char *recipe;
    int64_t fold, seed;
};

/* The model in one precision. A job may have several: a patch is read once for all of them. */
struct hrf_job_network {
    char *precision;
    char *scales; /* path of the calibration record for int8; NULL otherwise */
    /* Patches are stained otherwise first (engine/input/stain_jitter.h); 0: they are not. */
    double stain_jitter;
    int64_t jitter_seed;
};
/* What its records are called by: the precision, or HRF_JITTER. */
const char *hrf_job_network_name(const struct hrf_job_network *network);
enum { HRF_JOB_MOST_NETWORKS = 8 };

struct hrf_job_task {
    char *id;        /* unique in the job, safe as a file name: "t0001" */
    int64_t network; /* infer, calibrate: index into the job's networks */
    /* Of the record that answers it; `plan` is "" for tile and calibrate. */
    struct hrf_record_identity identity;
    char *slide_name; /* as shown to people; may hold any byte but NUL */
    char *slide_path;
    double mpp_override;              /* csv column, um/px; 0 = none */
    double mpp_fallback;              /* workflow's dataset.mpp, um/px; 0 = none */
    char *partial;                    /* path of what an earlier attempt left; NULL = nothing */
    char *tile_plan;                  /* path of the tile plan record; NULL for tile */
    int64_t first_patch, n_patches;   /* infer */
    bool measures_layers;             /* calibrate: loss and time of each layer, too */
    struct hrf_job_bag bag;           /* head */
    struct hrf_job_training training; /* train */
};

struct hrf_job_spec {
    char *run_id; /* 32 hex digits, one per run directory */
    char *job_id; /* safe as a file name */
    int64_t attempt;
    enum hrf_job_kind kind;
    struct hrf_job_tiler tiler;       /* kind tile */
    struct hrf_job_engine engine;     /* kinds infer, calibrate */
    struct hrf_job_network *networks; /* the same kinds: one or more */
    size_t n_networks;
    char **wrap; /* words before the worker's command line: srun, a container */
    size_t n_wrap;
    struct hrf_job_task *tasks;
    size_t n_tasks;
};

/* True if the two infer tasks score the same patches, of the same slide and tile plan. Such tasks
 * stand one after the other in a job, each of another network, and share the reading. */
bool hrf_job_tasks_share_patches(const struct hrf_job_task *a, const struct hrf_job_task *b);

/* Of jobs and tasks: 1 to 63 letters, digits, '_' and '-', so that it can be a file's name. */
bool hrf_job_id_is_good(const char *id);

void hrf_job_spec_destroy(struct hrf_job_spec *spec);
HRF_DEFINE_AUTO(hrf_job_spec)
HRF_CHECKED enum hrf_status hrf_job_spec_write(const struct hrf_job_spec *spec, const char *path,
                                               struct hrf_error *err);
/* HRF_E_AGAIN: the file is damaged or gone, so the job has to be submitted again. HRF_E_USER: it
 * says what this build does not understand. */
HRF_CHECKED enum hrf_status hrf_job_spec_read(const char *path, struct hrf_job_spec **out,
                                              struct hrf_error *err);

/* <task id>.json beside <task id>.rec: how a task ended, for the ones that made no record and
 * for the counters of those that did. Also written atomically. */
enum hrf_task_outcome {
    HRF_TASK_DONE,      /* the record is there */
    HRF_TASK_NO_TISSUE, /* tile: a state, not an error; the record is there, with no patches */
    HRF_TASK_FAILED     /* reason says why; class says whether trying again can help */
};
struct hrf_task_status {
    enum hrf_task_outcome outcome;
    bool retryable;
    char *reason;           /* NULL unless failed */
    char record_sha256[65]; /* of the record's bytes; "" when there is none */
    char task_key[65];      /* of the task that ended; "" in what earlier versions wrote */
    int64_t record_bytes;
    double seconds;
};
void hrf_task_status_release(struct hrf_task_status *status);
/* How workers judge what a task ended with. Errors of the job rather than of a task: the whole job
 * stops and may be tried again. */
static inline bool hrf_task_error_ends_job(enum hrf_status status)
{
    return status == HRF_E_AGAIN || status == HRF_E_NOSPACE || status == HRF_E_BUG;
}
/* Whether another try of the task may end otherwise. */
static inline bool hrf_task_error_is_retryable(enum hrf_status status)
{
    return status != HRF_E_USER && status != HRF_E_UNSUPPORTED;
}

/* Writes <id>.rec (when bytes != NULL) and then <id>.json into `directory`. Fills
 * record_sha256, record_bytes and task_key. Honours the fence: refuses with HRF_E_AGAIN when the
 * file "revoked" stands in `directory`. */
HRF_CHECKED enum hrf_status hrf_task_commit(const char *directory, const struct hrf_job_task *task,
                                            const void *record, size_t n_bytes,
                                            struct hrf_task_status *status, struct hrf_error *err);
/* HRF_E_AGAIN when there is no status yet; HRF_E_USER when it is damaged or the record does
 * not match its hash. *record is NULL when the task made none. Whether status and record are those
 * of the task is for the caller to check: only the orchestrator knows. */
HRF_CHECKED enum hrf_status hrf_task_collect(const char *directory, const char *task_id,
                                             struct hrf_task_status *status, char **record,
                                             size_t *n_bytes, struct hrf_error *err);

/* True if <task id>.json is there: the task has ended. It may be damaged. */
bool hrf_task_has_status(const char *directory, const char *task_id);

/* <task id>.emb: the embeddings of an infer task (embedding_file.h), complete on the disk before
 * the record that names their hash. NULL when memory ran out. */
char *hrf_task_embeddings_path(const char *directory, const char *task_id);

/* <task id>.part: a scores record in which what is not scored yet is NaN, written by the engine now
 * and then and when it is asked to stop; infer only. NULL when memory ran out. */
char *hrf_task_part_path(const char *directory, const char *task_id);

/* <task id>.progress: a line "done total" rewritten by the worker every second or so; a hint
 * for the progress display, never a fact. */
void hrf_task_progress_write(const char *directory, const char *task_id, int64_t done,
                             int64_t total);
bool hrf_task_progress_read(const char *directory, const char *task_id, int64_t *done,
                            int64_t *total);

#endif
