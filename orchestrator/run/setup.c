/* setup.c - opens a run: its folder, store, workflow.yaml and executor (setup.h). */
#include "orchestrator/run/setup.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/path.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/int8_calibration.h"
#include "orchestrator/run/prepare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Files of another machine may become visible up to a minute late: on a shared file system a driver
 * waits this many times as long for them. */
enum { SHARED_PATIENCE = 4 };

void run_setup_release(struct run_setup *setup)
{
    struct hrf_error ignored; /* if the lease cannot be released, the next driver takes it over */
    if (setup->store != NULL && hrf_store_release_lease(setup->store, &ignored) != HRF_OK)
        hrf_log_debug("run", "%s", ignored.text);
    hrf_store_close(setup->store);
    hrf_executor_destroy(setup->executor);
    hrf_free(setup->directory);
}

/* Reads the run id, or makes one out of random numbers. */
static enum hrf_status take_run_id(struct run_setup *setup, struct hrf_random *random,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *id = NULL;
    HRF_TRY(hrf_store_get_fact(setup->store, "run_id", &id, err));
    if (id == NULL) {
        uint64_t high = hrf_random_u64(random), low = hrf_random_u64(random);
        id = hrf_format("%016llx%016llx", (unsigned long long)high, (unsigned long long)low);
        HRF_TRY(hrf_store_set_fact(setup->store, "run_id", id, err));
    }
    snprintf(setup->run_id, sizeof setup->run_id, "%s", id);
    return HRF_OK;
}

/* Logs what changed in the workflow since the last run in this directory, because that may be why
 * there is work to do. An old workflow that cannot be read is ignored. */
static void log_differences(const struct hrf_workflow *workflow, const char *last)
{
    HRF_AUTO(hrf_workflow) before = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (hrf_path_exists(last) &&
        hrf_workflow_load_of_run(last, NULL, 0, &before, &findings, NULL) == HRF_OK)
        hrf_workflow_differences(workflow, before, &text);
    for (const char *at = text.text; *at != '\0'; at += strcspn(at, "\n") + 1)
        hrf_log_info("run", "changed since the last run here: %.*s", (int)strcspn(at, "\n"), at);
}

static enum hrf_status keep_workflow(const struct run_setup *setup, struct hrf_error *err)
{
    HRF_AUTO_FREE char *file = hrf_path_join(setup->directory, "workflow.yaml");
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    log_differences(setup->workflow, file);
    hrf_workflow_write(setup->workflow, &text);
    return hrf_file_write_atomic(file, text.text, text.length, err);
}

/* Finds the hashes and properties of the networks, and keeps them in the store for reports. */
static enum hrf_status describe_models(struct run_setup *setup, struct hrf_error *err)
{
    const struct hrf_workflow *w = setup->workflow;
    HRF_TRY(hrf_launch_model_hash(w->model.file, setup->model_sha256, err));
    HRF_TRY(hrf_store_set_fact(setup->store, "model_sha256", setup->model_sha256, err));
    if (setup->trainings != NULL)
        return HRF_OK;
    HRF_TRY(run_tissue_hash(w, setup->tissue_sha256, err));
    HRF_TRY(hrf_store_set_fact(setup->store, "tissue_sha256", setup->tissue_sha256, err));
    HRF_TRY(run_find_own_scales(w, &setup->brings_scales, err));
    if (setup->brings_scales && setup->calibrate_only)
        return hrf_error_set(
            err, HRF_E_USER,
            "'%s' brings its own INT8 scales (QuantizeLinear): there is nothing to "
            "calibrate",
            w->model.file);
    return hrf_store_set_fact(setup->store, "own_scales", setup->brings_scales ? "yes" : "no", err);
}

enum hrf_status run_setup_open(struct run_setup *setup, const char *directory,
                               struct hrf_random *random, struct hrf_error *err)
{
    bool is_shared;
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(hrf_path_absolute(directory, &setup->directory, err));
    HRF_AUTO_FREE char *db = hrf_path_join(setup->directory, "run.db");
    if (access(setup->directory, W_OK) != 0)
        return hrf_error_set_errno(err, errno, "cannot write into '%s'", setup->directory);
    /* Run_setup_release() must not give back the lease of another driver. */
    HRF_AUTO(hrf_store) store = NULL;
    HRF_TRY(hrf_store_open(db, HRF_STORE_WRITE, &store, err));
    HRF_TRY(hrf_store_take_lease(store, err));
    HRF_MOVE(setup->store, store);
    *random = hrf_random_init((uint64_t)hrf_clock_ns() ^ (uint64_t)getpid() << 40);
    HRF_TRY(take_run_id(setup, random, err));
    HRF_TRY(keep_workflow(setup, err));
    HRF_TRY(hrf_executor_create(&setup->workflow->executor, setup->run_id, &setup->executor, err));
    hrf_file_system_of(setup->directory, &is_shared);
    if (is_shared)
        setup->executor->grace_ms *= SHARED_PATIENCE;
    return describe_models(setup, err);
}
