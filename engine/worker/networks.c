/* networks.c - a job's networks: the model made ready in every precision, divided over the ranks,
 * and which of the networks are held side by side (worker.h). */
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/own_process.h"
#include "base/strbuf.h"
#include "engine/backend/backend.h"
#include "engine/input/normalise.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/known_machine.h"
#include "engine/planning/request.h"
#include "engine/run/agree.h"
#include "engine/run/calibrator.h"
#include "engine/run/class_map.h"
#include "engine/worker/label_rows.h"
#include "engine/worker/worker.h"

#include <stdio.h>
#include <string.h>

enum hrf_status hrf_worker_load_model(struct hrf_worker *job, struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    char sha256[HRF_HASH_HEX] = "";
    HRF_AUTO(hrf_graph) graph = NULL;
    const enum hrf_status status = hrf_onnx_read_named(settings->model.file, sha256, &graph, err);
    /* First: a model that has changed may be one that cannot be read. */
    if (sha256[0] != '\0' && strcmp(sha256, job->spec->model_sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has changed since the run planned with it (SHA-256 %.12s..., "
                             "expected %.12s...); run again",
                             settings->model.file, sha256, job->spec->model_sha256);
    HRF_TRY(status);
    HRF_MOVE(job->graph, graph);
    return HRF_OK;
}

/* Of every precision and layout, for the networks that have it. */
static enum hrf_status add_class_map(struct hrf_graph *graph, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_class_map_add(graph, &why);
    return status == HRF_OK || status == HRF_E_UNSUPPORTED ? HRF_OK : hrf_error_pass(err, &why);
}

int64_t hrf_worker_batch(const struct hrf_worker *job, const struct hrf_tile_plan *plan)
{
    const int64_t batch = job->spec->settings->engine.batch,
                  fewer = hrf_job_batch(batch, plan->n_patches);
    if (job->min_batch == 0)
        return batch;
    return fewer > job->min_batch ? fewer : job->min_batch;
}

enum hrf_status hrf_worker_make_graph(struct hrf_worker *job, int64_t size, int64_t batch,
                                      struct hrf_graph **out, struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    HRF_AUTO(hrf_graph) graph = NULL;
    if (job->graph == NULL)
        HRF_TRY(hrf_worker_load_model(job, err));
    HRF_TRY(hrf_graph_copy(job->graph, &graph, err));
    hrf_engine_set_bounds(graph, settings->model.max_memory_bytes, settings->model.max_operations);
    HRF_TRY(
        hrf_engine_set_image_input(graph, hrf_workflow_is_slides(settings) ? 1 : batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    if (hrf_workflow_is_slides(settings) && graph->values[graph->inputs[0]].shape.dims[0] != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "a slide is one image, and '%s' takes %lld at a time: export it with "
                             "an open batch",
                             settings->model.file,
                             (long long)graph->values[graph->inputs[0]].shape.dims[0]);
    job->n_values = hrf_workflow_n_scores(settings);
    HRF_TRY(settings->model.output == HRF_OUTPUT_EMBEDDING
                ? hrf_engine_check_embedding(graph, &job->n_values, err)
                : hrf_engine_finish_scores(graph, hrf_workflow_n_scores(settings),
                                           hrf_model_activation(&settings->model), err));
    if (settings->model.output == HRF_OUTPUT_SEGMENTATION) {
        job->label_side = graph->values[graph->outputs[0]].shape.dims[2];
        job->n_values = hrf_label_row_length(hrf_workflow_n_scores(settings),
                                             job->label_side * job->label_side);
    }
    if (hrf_workflow_is_slides(settings))
        HRF_TRY(add_class_map(graph, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

/* A device gets patches as bytes and normalises them itself, which is a quarter of the traffic. In
 * host memory the readers convert to the type that the network computes in. Observers need floats,
 * ranks read their own parts, and a slide that is one image is read into the input directly. */
static enum hrf_status choose_input(const struct hrf_worker *job,
                                    const struct hrf_layout_plan *layout,
                                    const struct hrf_pixel_form *form,
                                    struct hrf_session_config *session, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(hrf_backend_choose(session->device, &ops, NULL, err));
    if (job->spec->kind != HRF_JOB_INFER || hrf_workflow_is_slides(job->spec->settings) ||
        hrf_layout_ranks(layout) != 1)
        return HRF_OK;
    session->pixels = ops->device != NULL ? form : NULL;
    session->borrows_pixels = session->pixels != NULL; /* the feed has the device's memory */
    session->narrow_input = ops->device == NULL;
    return HRF_OK;
}

/* A calibration observes every tensor of one session. Ranks that share the patches each run the
 * whole network. */
static bool is_alone(const struct hrf_worker *job)
{
    return job->spec->kind == HRF_JOB_CALIBRATE ||
           (job->ranks != NULL && hrf_ranks_all(job->ranks) != NULL);
}

static enum hrf_status create_network(struct hrf_worker *job, int i, const struct hrf_graph *graph,
                                      const struct hrf_calibrated *calibrated,
                                      struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    struct hrf_worker_network *network = &job->networks[i];
    /* Where there are two networks, they are compared. */
    const bool is_observed = job->spec->kind == HRF_JOB_CALIBRATE && job->spec->n_networks == 1;
    const struct hrf_pixel_form form = hrf_normalise_form(settings->model.input.mean,
                                                          settings->model.input.std);
    HRF_AUTO_RELEASE(hrf_found_layout) layout = { .is_chosen = false };
    struct hrf_network_config config = {
        .session = { .device = hrf_device_name(settings->engine.device),
                     .precision = job->spec->networks[i].precision,
                     .n_threads = (int32_t)job->spec->n_threads,
                     .memory_limit_bytes = settings->engine.memory_bytes,
                     .ranges = calibrated->ranges,
                     .n_ranges = calibrated->n_ranges,
                     .keep = calibrated->keep,
                     .keep_reasons = calibrated->keep_reasons,
                     .keep_precisions = calibrated->keep_precisions,
                     .n_keep = calibrated->n_keep,
                     .every_tensor = is_observed },
        .layout = &layout.plan
    };
    enum hrf_status status = HRF_OK;
    struct hrf_machine gpu_links = { .n_links = 0 };
    if (hrf_known_gpu_links(&gpu_links))
        config.session.gpu_links = &gpu_links;
    if (job->ranks != NULL && hrf_ranks_group(job->ranks) != NULL) {
        config.layout = &network->layout.plan;
        config.comm = hrf_ranks_group(job->ranks);
        config.session.cutting = network->cutting;
    } else {
        status = hrf_layout_find(is_alone(job) ? NULL : job->spec->layout, graph, &config.session,
                                 NULL, &layout, err);
    }
    if (status == HRF_OK)
        status = choose_input(job, config.layout, &form, &config.session, err);
    if (status == HRF_OK)
        status = hrf_network_create(graph, &config, &network->network, err);
    HRF_TRY(status);
    hrf_smoothing_destroy(job->smoothing);
    job->smoothing = NULL;
    if (is_observed)
        HRF_TRY(hrf_smoothing_create(graph, &config.session, &job->smoothing, err));
    if (is_observed && hrf_network_session(network->network) == NULL)
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED,
            "tensors cannot be observed if an image is processed in bands; "
            "calibrate with a higher {engine.memory} or a smaller {tiler.slide.size}");
    return HRF_OK;
}

/* Logs what this rank computes on, with the version of the GPU's driver. */
static void attach_meters(struct hrf_worker *job, int i)
{
    const struct hrf_network *network = job->networks[i].network;
    char identity[512], serves[sizeof job->identity.driver];
    hrf_meters_attach(&job->meters, i, network, hrf_ranks_is_first_on_node(job->ranks));
    const char *driver = hrf_meters_driver(&job->meters);
    memcpy(serves, job->identity.driver, sizeof serves);
    if (driver[0] != '\0' && strncmp(serves, "CUDA", 4) == 0) /* not for the second network */
        snprintf(job->identity.driver, sizeof job->identity.driver, "%.32s (%.24s)", driver,
                 serves);
    hrf_device_identity_text(&job->identity, identity, sizeof identity);
    hrf_log_info("engine", "%s: %s", hrf_network_device_name(network), identity);
}

/* Networks are made one after the other, and the meters know them all until one is given back. */
static void give_back(struct hrf_worker *job, int i)
{
    hrf_meters_release(&job->meters);
    hrf_network_destroy(job->networks[i].network);
    job->networks[i].network = NULL;
    for (size_t k = 0; k < job->spec->n_networks && job->ranks != NULL; k++)
        if (job->networks[k].network != NULL)
            hrf_meters_attach(&job->meters, (int)k, job->networks[k].network,
                              hrf_ranks_is_first_on_node(job->ranks));
}

/* *out: the graph with a class map by gradients, where it has none by weights. A gradient is
 * computed in float32, on the host, by a single process. HRF_E_UNSUPPORTED says why there is none.
 */
static enum hrf_status add_gradient_map(const struct hrf_worker *job, int i,
                                        const struct hrf_graph *graph, struct hrf_graph **out,
                                        struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    const struct hrf_backend_ops *ops = NULL;
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_backend_choose(hrf_device_name(settings->engine.device), &ops, NULL, err));
    if (job->spec->networks[i].precision != HRF_FP32 || ops->device != NULL ||
        hrf_ranks_group(job->ranks) != NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "this network has one by its gradient alone, "
                             "which is computed in fp32, on the host, by one process");
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(hrf_class_map_add_gradient(&copy, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

/* With a class map, if a slide is one image and has no other output; without one if it cannot be
 * made, or does not fit into the memory, and the log says why. */
static enum hrf_status create_with_map(struct hrf_worker *job, int i, const struct hrf_graph *graph,
                                       const struct hrf_calibrated *calibrated,
                                       struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    HRF_AUTO(hrf_graph) with = NULL;
    struct hrf_error why = { .status = HRF_OK };
    if (job->spec->kind != HRF_JOB_INFER || !hrf_workflow_is_slides(settings) ||
        settings->model.output == HRF_OUTPUT_EMBEDDING || graph->n_outputs > 1)
        return create_network(job, i, graph, calibrated, err);
    enum hrf_status status = add_gradient_map(job, i, graph, &with, &why);
    if (status == HRF_OK)
        status = create_network(job, i, with, calibrated, &why);
    if (status == HRF_OK)
        return HRF_OK;
    if (status != HRF_E_UNSUPPORTED && status != HRF_E_NOMEM)
        return hrf_error_pass(err, &why);
    hrf_log_warning("engine", "no class activation map: %s; slides get a score but no heatmap",
                    why.text);
    return create_network(job, i, graph, calibrated, err);
}

static enum hrf_status networks_make(struct hrf_worker *job, int i, struct hrf_error *err)
{
    struct hrf_worker_network *network = &job->networks[i];
    const char *scales = job->spec->networks[i].scales;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    HRF_TRY(hrf_worker_make_graph(job, job->size, job->asked_batch, &graph, err));
    job->batch = hrf_workflow_is_slides(job->spec->settings)
                     ? job->asked_batch
                     : graph->values[graph->inputs[0]].shape.dims[0];
    if (job->batch != job->asked_batch)
        hrf_log_info("engine", "batches of %lld images, which the model's file fixes",
                     (long long)job->batch);
    if (scales != NULL && network->calibration == NULL)
        HRF_TRY(hrf_calibration_read(scales, &network->calibration, err));
    if (network->calibration != NULL)
        hrf_calibrated_init(network->calibration, &calibrated);
    HRF_TRY(create_with_map(job, i, graph, &calibrated, err));
    const char *notes = hrf_network_notes(network->network);
    if (notes[0] != '\0')
        hrf_log_info("engine", "%s", notes);
    if (job->ranks != NULL)
        attach_meters(job, i);
    return HRF_OK;
}

/* True if no network of the present pass is missing. */
static bool has_all(const struct hrf_worker *job, int32_t pass)
{
    for (size_t i = 0; i < job->spec->n_networks; i++)
        if (job->networks[i].pass == pass && job->networks[i].network == NULL)
            return false;
    return true;
}

/* The model in float32: it is read again if another network, size or batch needs it. */
static void drop_graph(struct hrf_worker *job)
{
    hrf_graph_destroy(job->graph);
    job->graph = NULL;
    hrf_memory_trim();
}

enum hrf_status hrf_worker_make_network(struct hrf_worker *job, int i, int64_t size, int64_t batch,
                                        struct hrf_error *err)
{
    const bool is_other = job->size != size || job->asked_batch != batch;
    if (job->networks[i].network != NULL && !is_other)
        return HRF_OK;
    const double start = hrf_clock_seconds();
    for (size_t k = 0; k < job->spec->n_networks && is_other; k++)
        give_back(job, (int)k);
    job->size = size;
    job->asked_batch = batch;
    HRF_TRY(networks_make(job, i, err));
    if (has_all(job, job->networks[i].pass))
        drop_graph(job);
    job->networks[i].build_seconds += hrf_clock_seconds() - start;
    return HRF_OK;
}

void hrf_worker_begin_pass(struct hrf_worker *job, int32_t pass)
{
    for (size_t i = 0; i < job->spec->n_networks; i++)
        if (job->networks[i].pass != pass && job->networks[i].network != NULL)
            give_back(job, (int)i);
    hrf_memory_trim();
}

/* ---- groups of ranks ---- */

/* The number of ranks of a group, from the layout that was requested or found. */
static enum hrf_status group_size(const struct hrf_worker *job, const struct hrf_layout_plan *plan,
                                  int32_t *n, struct hrf_error *err)
{
    const int32_t all = hrf_ranks_all(job->ranks)->n_ranks;
    char text[128];
    hrf_layout_text(plan, text);
    *n = hrf_layout_group_ranks(plan);
    if (hrf_workflow_is_slides(job->spec->settings) && *n != all)
        return hrf_error_set(err, HRF_E_USER,
                             "a slide is one image, and layout '%s' splits it over %d ranks, but "
                             "the job has %d: use a layout of %d, e.g. engine.parallel.spatial=%d",
                             text, *n, all, all, all);
    if (plan->data > 1 ? hrf_layout_ranks(plan) != all : all % *n != 0)
        return hrf_error_set(
            err, HRF_E_USER,
            "layout '%s' needs %d ranks, or without data= any multiple of %d, but the job has %d",
            text, hrf_layout_ranks(plan), *n, all);
    return HRF_OK;
}

/* Finds the layout of network i. The networks of a job of several ranks share the patches, so their
 * groups have the same size: the orchestrator puts only such into one job. */
static enum hrf_status find_layout(struct hrf_worker *job, int i, int64_t size, int32_t *n_group,
                                   struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    struct hrf_worker_network *network = &job->networks[i];
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_session_config config = { .device = hrf_device_name(settings->engine.device),
                                         .precision = job->spec->networks[i].precision,
                                         .n_threads = (int32_t)job->spec->n_threads,
                                         .memory_limit_bytes = settings->engine.memory_bytes };
    int32_t n;
    HRF_TRY(hrf_worker_make_graph(job, size, settings->engine.batch, &graph, err));
    HRF_TRY(hrf_layout_find(job->spec->layout, graph, &config, hrf_ranks_all(job->ranks),
                            &network->layout, err));
    HRF_TRY(group_size(job, &network->layout.plan, &n, err));
    if (i > 0 && n != *n_group)
        return hrf_error_set(err, HRF_E_USER,
                             "layout '%s' makes groups of %d ranks in %s and of %d in %s: name a "
                             "layout instead, or run the precisions one after the other",
                             job->spec->layout, *n_group,
                             hrf_precision_name(job->spec->networks[0].precision), n,
                             hrf_precision_name(job->spec->networks[i].precision));
    *n_group = n;
    network->layout.plan.data = 1; /* several groups take patches from the work queue */
    network->cutting = config.cutting;
    return HRF_OK;
}

static enum hrf_status form_groups(struct hrf_worker *job, struct hrf_error *err)
{
    const struct hrf_tile_plan *plan = NULL;
    int32_t n_group = 1;
    if (hrf_ranks_all(job->ranks) == NULL || job->spec->n_tasks == 0)
        return hrf_ranks_form(job->ranks, 1, err);
    HRF_TRY(hrf_worker_read_plan(job, &job->spec->tasks[0], &plan,
                                 err)); /* the images of all tasks have the same size */
    for (size_t i = 0; i < job->spec->n_networks; i++)
        HRF_TRY(find_layout(job, (int)i, hrf_worker_image_size(job, plan), &n_group, err));
    return hrf_ranks_form(job->ranks, n_group, err);
}

/* ---- which networks are held side by side ---- */

/* The first tile plan that can be read; NULL: none, which the tasks will tell. Tasks whose batches
 * are largest stand first (orchestrator/run/batches.c). */
static const struct hrf_tile_plan *find_plan(struct hrf_worker *job)
{
    const struct hrf_tile_plan *plan = NULL;
    for (size_t i = 0; i < job->spec->n_tasks; i++)
        if (hrf_worker_read_plan(job, &job->spec->tasks[i], &plan, NULL) == HRF_OK)
            return plan;
    return NULL;
}

/* Makes a network and agrees with all ranks on the memory that it takes where it takes most; -1: it
 * cannot be made on one of them, which its tasks will tell. */
static enum hrf_status try_network(struct hrf_worker *job, int i, const struct hrf_tile_plan *plan,
                                   int64_t *n_bytes, struct hrf_error *err)
{
    struct hrf_comm *all = hrf_ranks_all(job->ranks);
    struct hrf_vote vote = { .status = HRF_OK };
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_worker_make_network(job, i, hrf_worker_image_size(job, plan),
                                                           hrf_worker_batch(job, plan), &why);
    if (hrf_status_row(status)->ends_job)
        return hrf_error_pass(err, &why);
    if (status == HRF_OK) {
        const struct hrf_session_memory memory = hrf_network_memory(job->networks[i].network);
        vote.most[0] = hrf_session_memory_total(&memory);
    }
    vote.most[1] = status != HRF_OK;
    if (all != NULL)
        HRF_TRY(hrf_agree(all, &vote, err));
    *n_bytes = vote.most[1] != 0 ? -1 : vote.most[0];
    return HRF_OK;
}

static void tell_passes(const struct hrf_worker *job, const int64_t *n_bytes)
{
    enum { MIB = 1 << 20 };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    double sum = 0;
    for (size_t i = 0; i < job->spec->n_networks; i++) {
        const char *name = hrf_job_network_name(&job->spec->networks[i]);
        hrf_strbuf_addf(&text, "%s%s ", i > 0 ? ", " : "", name);
        if (n_bytes[i] < 0)
            hrf_strbuf_adds(&text, "cannot be made");
        else
            hrf_strbuf_addf(&text, "%.1f MiB", (double)n_bytes[i] / MIB);
        sum += n_bytes[i] > 0 ? (double)n_bytes[i] / MIB : 0;
    }
    if (job->n_passes == 1)
        hrf_log_info("engine", "each patch is read once for %zu networks: %s, together %.1f MiB",
                     job->spec->n_networks, text.text, sum);
    else
        hrf_log_warning("engine",
                        "not all networks can be held at once in {engine.memory}, %.1f MiB: %s; "
                        "patches are read %d times",
                        (double)job->spec->settings->engine.memory_bytes / MIB, text.text,
                        job->n_passes);
}

/* Networks go into one pass in their order as long as they fit; one that cannot be made has a pass
 * of its own, so that it fails alone. */
static enum hrf_status choose_passes(struct hrf_worker *job, struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    const int n = (int)job->spec->n_networks;
    int64_t n_bytes[HRF_JOB_MAX_NETWORKS] = { 0 }, in_pass = 0;
    job->n_passes = 1;
    const struct hrf_tile_plan *plan = n > 1 && !hrf_workflow_is_slides(settings) ? find_plan(job)
                                                                                  : NULL;
    for (int i = 0; i < n && hrf_workflow_is_slides(settings); i++)
        job->networks[i].pass = i;
    job->n_passes = hrf_workflow_is_slides(settings) ? n : 1;
    int32_t last_good = 0;
    for (int i = 0; i < n && plan != NULL; i++) {
        HRF_TRY(try_network(job, i, plan, &n_bytes[i], err));
        const bool fits = n_bytes[i] >= 0 &&
                          (settings->engine.memory_bytes == 0 ||
                           in_pass + n_bytes[i] <= settings->engine.memory_bytes);
        if (fits || i == 0) {
            job->networks[i].pass = last_good;
            in_pass += n_bytes[i] >= 0 ? n_bytes[i] : settings->engine.memory_bytes;
            continue;
        }
        job->networks[i].pass = job->n_passes++;
        if (n_bytes[i] >= 0) { /* the next ones may go with it */
            last_good = job->networks[i].pass;
            in_pass = n_bytes[i];
        }
        hrf_worker_begin_pass(job, 0);
    }
    if (plan != NULL)
        tell_passes(job, n_bytes);
    hrf_worker_begin_pass(job, 0);
    return HRF_OK;
}

/* Sets job->min_batch. The layout "auto" was chosen for whole batches. */
static enum hrf_status find_min_batch(struct hrf_worker *job, struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    const struct hrf_backend_ops *ops = NULL;
    struct hrf_layout_plan layout;
    HRF_TRY(hrf_backend_choose(hrf_device_name(settings->engine.device), &ops, NULL, err));
    if (ops->device != NULL || hrf_workflow_is_slides(settings) ||
        settings->engine.parallel.is_auto)
        return HRF_OK;
    HRF_TRY(hrf_layout_parse(job->spec->layout, &layout, err));
    job->min_batch = layout.data * layout.microbatches;
    return HRF_OK;
}

enum hrf_status hrf_worker_prepare(struct hrf_worker *job, struct hrf_error *err)
{
    HRF_TRY(find_min_batch(job, err));
    HRF_TRY(form_groups(job, err));
    HRF_TRY(choose_passes(job, err));
    return hrf_ranks_open_queue(job->ranks, err);
}
