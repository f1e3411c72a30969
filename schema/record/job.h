/* job.h - spec.json: everything that a job needs to know, written by the orchestrator before it
 * starts.
 *
 * A job is a list of tasks of one kind. Every attempt has a directory of its own
 * (DIR/jobs/<job>.a<attempt>/) that holds the spec, the log, the sentinels and one record per
 * finished task, so that the late worker of an attempt that was given up writes into a folder that
 * nobody reads any more. Workers write a task's record as <task id>.rec by temporary name, fsync
 * and rename as soon as it is done: what an attempt finished before it died is not lost.
 */
#ifndef HRF_SCHEMA_RECORD_JOB_H
#define HRF_SCHEMA_RECORD_JOB_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/failure.h"
#include "schema/record/identity.h"
#include "schema/settings/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_job_kind {
    HRF_JOB_TILE,
    HRF_JOB_INFER,
    HRF_JOB_CALIBRATE,
    HRF_JOB_HEAD,
    HRF_JOB_TRAIN,
    HRF_JOB_TRAIN_NETWORK,
    HRF_N_JOB_KINDS
};
/* "tile", "infer", "calibrate", "head", "train", "train-network" */
const char *hrf_job_kind_name(enum hrf_job_kind kind);

/* Returns the batch size for a slide that has n_patches, at most `batch`. A network computes whole
 * batches, so the patches are divided evenly over as few batches as possible; the size is rounded
 * up to a multiple of an eighth of `batch`, because a network is prepared for each size. The result
 * depends on the slide alone, not on the shard or the job, because float32 sums may have other bits
 * in batches of another size. */
int64_t hrf_job_batch(int64_t batch, int64_t n_patches);

/* The input of a head task: a slide's features and the head. Both files are checked against their
 * hashes. */
struct hrf_job_bag {
    char *features, *features_sha256; /* HDF5 file of the slide's embeddings */
    char *head, *head_sha256;         /* ONNX */
    char *classes; /* classes that the head must have, in this order, one a line */
    /* The features may differ from those that the head was trained on: in any respect, or only in
     * precision. */
    bool mixed, any_precision;
};

/* A training: the file for `head train` or `train`, the fold and the seed. */
struct hrf_job_training {
    char *recipe;
    int64_t fold, seed;
};

/* The model in one precision. A job may have several, and reads each patch once for all of them. */
struct hrf_job_network {
    enum hrf_precision precision;
    char *scales; /* path of the calibration record for int8; NULL otherwise */
    /* The sigma of stain jitter (engine/input/stain_jitter.h); 0: none. */
    double stain_jitter;
    int64_t jitter_seed;
};
/* Returns the name of the network's records: the precision, or HRF_JITTER. */
const char *hrf_job_network_name(const struct hrf_job_network *network);
enum { HRF_JOB_MAX_NETWORKS = 8 };

struct hrf_job_task {
    char *id; /* unique in the job, safe as a file name: "t0001" */
    /* infer, calibrate: index into the job's networks. A calibrate job may have INT8 as its second,
     * which is compared with the first, float32. */
    int64_t network;
    /* The identity of the task's record; `plan` is "" for tile and calibrate. */
    struct hrf_record_identity identity;
    char *slide_name; /* as shown to people; may hold any byte but NUL */
    char *slide_path;
    double mpp_override;            /* csv column, um/px; 0 = none */
    double mpp_fallback;            /* workflow's dataset.mpp, um/px; 0 = none */
    char *partial;                  /* path of the part that an earlier attempt left; NULL = none */
    char *tile_plan;                /* path of the tile plan record; NULL for tile */
    int64_t first_patch, n_patches; /* infer */
    /* calibrate: also measures loss and time of each layer, of INT8 only if its loss is large */
    bool measures_layers;
    struct hrf_job_bag bag;           /* head */
    struct hrf_job_training training; /* train */
};

struct hrf_job_spec {
    char *run_id; /* 32 hex digits, one per run directory */
    char *job_id; /* safe as a file name */
    int64_t attempt;
    enum hrf_job_kind kind;
    enum hrf_setting_names names;  /* by which messages name settings */
    struct hrf_workflow *settings; /* those that workers are told (HRF_SETTING_FOR_WORKERS) */
    char *layout;                  /* of engine.parallel, as hrf_workflow_layout() */
    char *model_sha256;            /* of model.file; NULL: the job does not use it */
    char *tissue_sha256;           /* of tiler.tissue.model; likewise */
    int64_t n_threads;             /* of a rank; 0 = all that the process may use */
    int64_t n_ranks; /* that share the patches: processes of one MPI job; 0 and 1 = one */
    struct hrf_job_network *networks; /* infer, calibrate: one or more */
    size_t n_networks;
    char **wrap; /* words before the worker's command line: srun, a container */
    size_t n_wrap;
    struct hrf_job_task *tasks;
    size_t n_tasks;
};

/* True if the two infer tasks score the same patches, of the same slide and tile plan. Such tasks
 * stand one after the other in a job, each of another network, and share the reading. */
bool hrf_job_tasks_share_patches(const struct hrf_job_task *a, const struct hrf_job_task *b);

/* True for an id of a job or task that can be a file name: 1 to 63 letters, digits, '_' and '-'. */
bool hrf_job_id_is_good(const char *id);

void hrf_job_spec_destroy(struct hrf_job_spec *spec);
HRF_DEFINE_AUTO(hrf_job_spec)
/* Writes the spec with the settings that workers need, and how messages of this process name
 * settings. spec->settings, spec->layout and spec->names are not used. */
HRF_CHECKED enum hrf_status hrf_job_spec_write(const struct hrf_job_spec *spec,
                                               const struct hrf_workflow *settings,
                                               const char *path, struct hrf_error *err);
/* Reads a spec. From then on messages of this process name settings as the spec says. HRF_E_AGAIN:
 * the file is damaged or gone, so the job has to be submitted again. HRF_E_USER: this build does
 * not understand it. */
HRF_CHECKED enum hrf_status hrf_job_spec_read(const char *path, struct hrf_job_spec **out,
                                              struct hrf_error *err);

/* <task id>.json beside <task id>.rec: how a task ended, whether or not it made a record, and its
 * counters. Also written atomically. */
enum hrf_task_outcome {
    HRF_TASK_DONE,      /* the record is there */
    HRF_TASK_NO_TISSUE, /* tile: a state, not an error; the record is there, with no patches */
    HRF_TASK_FAILED     /* `failure` says why */
};
struct hrf_task_status {
    enum hrf_task_outcome outcome;
    struct hrf_failure failure;
    char record_sha256[65]; /* of the record's bytes; "" when there is none */
    char task_key[65];      /* of the task that ended */
    int64_t record_bytes;
    double seconds;
};
void hrf_task_status_release(struct hrf_task_status *status);
/* A task failed: its error, and the file of the task that this machine does not see. */
void hrf_task_status_fail(struct hrf_task_status *status, const struct hrf_job_spec *spec,
                          const struct hrf_job_task *task, const struct hrf_error *error);

/* To be called at the end of a worker. If its job failed: says why, to its log and in error.json
 * beside the spec, as `program` and `command`. Returns the worker's exit code. */
int hrf_job_worker_end(const char *program, const char *command, const char *spec_path,
                       enum hrf_status status, const struct hrf_error *error);

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
 * the record that names their hash. */
char *hrf_task_embeddings_path(const char *directory, const char *task_id);

/* <task id>.part: a scores record in which what is not scored yet is NaN, written by the engine now
 * and then and when it is asked to stop; infer only. */
char *hrf_task_part_path(const char *directory, const char *task_id);

/* <task id>.progress: a line "done total" rewritten by the worker every second or so; a hint
 * for the progress display, never a fact. */
void hrf_task_progress_write(const char *directory, const char *task_id, int64_t done,
                             int64_t total);
bool hrf_task_progress_read(const char *directory, const char *task_id, int64_t *done,
                            int64_t *total);

#endif
