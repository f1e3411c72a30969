/* profile.c - `hires-engine profile`: what every node of a network costs here, kept for planning.
 */
#include "engine/run/profile.h"

#include "base/own_process.h"
#include "engine/cli/cli.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/planning/request.h"
#include "engine/run/cost_file.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *model, *device, *cache;
    enum hrf_precision precision;
    int64_t size, batch, runs, threads, ranks, classes;
    bool train, json;
};

/* Makes the graph that of a step of training, of which `plan --train` wants the costs. */
static enum hrf_status add_gradients(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    hrf_pass_mark_weights(graph);
    HRF_TRY(hrf_pass_training_step(graph, HRF_LOSS_MSE, NULL, &gradients, err));
    return hrf_graph_infer_shapes(graph, err);
}

static enum hrf_status measure(struct request *r, const char *device, struct hrf_cost_table *table,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    const struct hrf_session_config config = { .device = device,
                                               .precision = r->precision,
                                               .n_threads = (int32_t)r->threads };
    HRF_TRY(hrf_engine_check_request(r->device, NULL, err));
    HRF_TRY(hrf_engine_load_image_model(r->model, r->classes, &r->size, &r->batch, &graph, err));
    if (r->train)
        HRF_TRY(add_gradients(graph, err));
    return hrf_profile_run(graph, &config, r->runs, (int32_t)r->ranks, table, err);
}

static void print_json(const struct hrf_cost_table *table, const char *path)
{
    HRF_AUTO_JSON json = hrf_cost_encode(table);
    hrf_json_put_text(json, "file", path);
    hrf_json_print(json);
}

static void print_text(const struct hrf_cost_table *table, const char *path)
{
    printf("%10s %9s %9s  %s\n", "ms", "GOPS", "GB/s", "kind of node (and its work)");
    for (int32_t i = 0; i < table->n_entries; i++) {
        const struct hrf_cost_entry *e = &table->entries[i];
        printf("%10.3f %9.1f %9.2f  %s (%.0f)\n", e->seconds * 1e3,
               e->operations / e->seconds * 1e-9, e->bytes / e->seconds * 1e-9, e->key, e->work);
    }
    printf("kept in %s\n", path);
}

/* Adds what was measured to the entries of the file. */
static enum hrf_status keep(const struct request *r, const char *device,
                            const struct hrf_cost_table *measured, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_cost_table) all = { .entries = NULL };
    HRF_AUTO_FREE char *path = NULL;
    HRF_AUTO_JSON json = hrf_cost_encode(measured);
    HRF_TRY(
        hrf_cost_file_path(r->cache, device, (int32_t)r->threads, (int32_t)r->ranks, &path, err));
    enum hrf_status status = hrf_cost_file_read(path, &all, err);
    if (status == HRF_OK)
        status = hrf_cost_decode(json, path, &all, err);
    if (status == HRF_OK)
        status = hrf_cost_file_write(path, &all, err);
    HRF_TRY(status);
    if (r->json)
        print_json(measured, path);
    else
        print_text(measured, path);
    return HRF_OK;
}

int hrf_engine_profile(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .precision = HRF_FP32,
                         .device = "auto",
                         .batch = 1,
                         .runs = 5,
                         .threads = 1,
                         .classes = 1000 };
    const struct hrf_option options[] = {
        { "model", "ARCH|FILE", "built-in architecture or ONNX file", HRF_OPTION(&r.model) },
        { "size", "PX", "image size (default: the file's, or 256)",
          HRF_OPTION_NUMBER(&r.size, 0, HRF_COUNT_LIMIT) },
        { "batch", "N", "images in a batch", HRF_OPTION_NUMBER(&r.batch, 1, HRF_COUNT_LIMIT) },
        { "precision", "P", "", HRF_OPTION_WORDS(&r.precision, hrf_precision_names) },
        { "device", "D", "auto, cpu, cuda or ref", HRF_OPTION(&r.device) },
        { "threads", "N", "threads of a rank", HRF_OPTION_NUMBER(&r.threads, 1, 4096) },
        { "ranks", "N", "copies that run at the same time (default: one for each processor)",
          HRF_OPTION_NUMBER(&r.ranks, 0, 1024) },
        { "runs", "N", "timed runs", HRF_OPTION_NUMBER(&r.runs, 1, HRF_COUNT_LIMIT) },
        { "classes", "N", "outputs of a built-in architecture",
          HRF_OPTION_NUMBER(&r.classes, 1, HRF_COUNT_LIMIT) },
        { "cache", "DIR", "folder for the costs (default: the user's cache)",
          HRF_OPTION(&r.cache) },
        { "train", NULL, "a step of training in place of the network, for plan --train",
          HRF_OPTION(&r.train) },
        { "json", NULL, "print JSON", HRF_OPTION(&r.json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_RELEASE(hrf_cost_table) table = { .entries = NULL };
    if (r.ranks == 0)
        r.ranks = hrf_process_cpu_count();
    const char *device = strcmp(r.device, "auto") == 0 ? "cpu" : r.device;
    enum hrf_status status;
    if (r.model == NULL)
        status = hrf_error_set(&err, HRF_E_USER, "--model is required");
    else
        status = measure(&r, device, &table, &err);
    if (status == HRF_OK)
        status = keep(&r, device, &table, &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
