/* engine_commands.h - the commands of hires-engine, declared once for both programs.
 *
 * hires-engine takes names, help and options of its commands from here. hires-flow uses them to
 * start the workers of jobs, to ask the engine (it sends a request and gets an answer or an error),
 * and to hand over the commands that a user gives for the engine. The options of commands that only
 * users give are declared in the command's own file.
 */
#ifndef HRF_SCHEMA_COMMAND_ENGINE_COMMANDS_H
#define HRF_SCHEMA_COMMAND_ENGINE_COMMANDS_H

#include "base/args.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "schema/record/job.h"
#include "schema/settings/precision.h"

enum hrf_engine_command {
    HRF_ENGINE_EVAL,
    HRF_ENGINE_GRADIENT,
    HRF_ENGINE_MODEL,
    HRF_ENGINE_BENCH,
    HRF_ENGINE_SWEEP,
    HRF_ENGINE_PROFILE,
    HRF_ENGINE_TUNE_COMM,
    HRF_ENGINE_PLAN,
    HRF_ENGINE_TRAIN,
    HRF_ENGINE_HEAD,
    HRF_ENGINE_CHECK,
    HRF_ENGINE_RANKS,
    HRF_ENGINE_VERSION,
    HRF_ENGINE_WORKERS, /* the first of the workers: one command for each kind of job */
    HRF_N_ENGINE_COMMANDS = HRF_ENGINE_WORKERS + HRF_N_JOB_KINDS
};
/* Names and help of the commands. `run` is NULL: each program has functions of its own. */
extern const struct hrf_command hrf_engine_commands[HRF_N_ENGINE_COMMANDS];
/* Returns true if `hires-flow NAME` is handed over to `hires-engine NAME`. */
bool hrf_engine_is_handed_over(enum hrf_engine_command command);

/* ---- model: users give `make` and `inspect`; the others are questions of hires-flow ---- */

struct hrf_model_request {
    const char *output, *weights, *pool, *activation, *layout;
    int64_t classes, size, batch, seed, heads, memory, max_memory, class;
    double max_operations;
    struct hrf_option_list keep;
    bool external, shapes, tissue, json;
};
extern const struct hrf_request_option hrf_model_options[];
extern const struct hrf_model_request hrf_model_request_initial;

/* The answer to `model hash`. */
struct hrf_model_identity {
    char sha256[HRF_HASH_HEX]; /* of the model's file and of the files that hold its weights */
    bool brings_scales;        /* the model has INT8 scales of its own */
};
json_t *hrf_model_identity_json(const struct hrf_model_identity *identity);
HRF_CHECKED enum hrf_status hrf_model_identity_read(const json_t *answer,
                                                    struct hrf_model_identity *out,
                                                    struct hrf_error *err);

/* ---- train ---- */

struct hrf_train_request {
    int64_t jobs, threads, fold;
    const char *seed, *device, *comm, *list;
    bool summary, json, keys;
};
extern const struct hrf_request_option hrf_train_options[];
extern const struct hrf_train_request hrf_train_request_initial;

/* What `train --list` writes. */
struct hrf_listed_trainings {
    char *out, *model; /* absolute: the folder of their folders, and the network to begin with */
    char *layout;      /* train.layout */
    struct hrf_listed_training {
        char *folder; /* absolute */
        char key[HRF_HASH_HEX];
        int64_t number, fold, seed; /* number: among all trainings of the file, from 0 */
        bool done;                  /* the folder has the result of this key */
    } * items;
    size_t n;
};
void hrf_listed_trainings_release(struct hrf_listed_trainings *list);
json_t *hrf_listed_trainings_json(const struct hrf_listed_trainings *list);
HRF_CHECKED enum hrf_status hrf_listed_trainings_read(const char *path,
                                                      struct hrf_listed_trainings *out,
                                                      struct hrf_error *err);

/* ---- plan ---- */

struct hrf_plan_request {
    const char *model, *layout, *ranks, *cluster, *costs, *cache, *timeline;
    enum hrf_precision precision;
    int64_t size, batch, classes, threads, processes;
    double memory; /* GiB */
    bool train, json;
};
extern const struct hrf_request_option hrf_plan_options[];
extern const struct hrf_plan_request hrf_plan_request_initial;

/* ---- ranks ---- */

struct hrf_ranks_request {
    int64_t expect;
};
extern const struct hrf_request_option hrf_ranks_options[];

/* ---- version ---- */

struct hrf_version_request {
    bool json;
};
extern const struct hrf_request_option hrf_version_options[];

/* The parts that the engine consists of and runs on. */
enum hrf_engine_part {
    HRF_PART_PROGRAM,
    HRF_PART_LIBRARY, /* the library for device cpu */
    HRF_PART_PROCESSOR,
    HRF_PART_DEVICES,
    HRF_PART_PRECISIONS,
    HRF_PART_CPU, /* told only if device cpu cannot be used */
    HRF_PART_CUDA,
    HRF_PART_NVJPEG,
    HRF_PART_NCCL,
    HRF_PART_MPI,
    HRF_N_ENGINE_PARTS
};
/* For each part what was found, or why it cannot be used. */
struct hrf_engine_version {
    struct hrf_engine_part_state {
        char found[600];        /* "": nothing is told of the part */
        struct hrf_error error; /* status HRF_OK: the part can be used */
    } parts[HRF_N_ENGINE_PARTS];
};
const char *hrf_engine_part_name(enum hrf_engine_part part);
json_t *hrf_engine_version_json(const struct hrf_engine_version *version);
/* Of a part that the answer lacks, nothing is told. */
HRF_CHECKED enum hrf_status hrf_engine_version_read(const json_t *answer,
                                                    struct hrf_engine_version *out,
                                                    struct hrf_error *err);

#endif
