/* setup.h - what a run is: the parts that do not change from its opening to its end, and that all
 * others work with. One driver has it; the store and the executor belong to its one thread. */
#ifndef HRF_ORCHESTRATOR_RUN_SETUP_H
#define HRF_ORCHESTRATOR_RUN_SETUP_H

#include "base/hash.h"
#include "base/random.h"
#include "orchestrator/executor/executor.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

struct hrf_run_trainings;

struct run_setup {
    const struct hrf_workflow *workflow;
    char *directory;         /* absolute */
    struct hrf_store *store; /* NULL: the run was not opened */
    struct hrf_executor *executor;
    char run_id[40]; /* stays the same for the life of the directory */
    char model_sha256[HRF_HASH_HEX];
    char tissue_sha256[HRF_HASH_HEX];          /* "": no network finds tissue */
    const struct hrf_run_trainings *trainings; /* of networks, and no slides; NULL: slides */
    bool calibrate_only;
    bool brings_scales; /* the model has INT8 scales of its own, and no calibration is wanted */
};

/* Opens the run of `directory`, or begins one there: makes the folder, takes the lease of its
 * store, keeps the workflow as workflow.yaml, and makes the executor. `setup` begins with
 * `workflow`, `trainings` and `calibrate_only`, and is to be released also on failure. `random` is
 * seeded. HRF_E_AGAIN: another process drives the directory. */
HRF_CHECKED enum hrf_status run_setup_open(struct run_setup *setup, const char *directory,
                                           struct hrf_random *random, struct hrf_error *err);
void run_setup_release(struct run_setup *setup);

#endif
