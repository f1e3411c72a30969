/* bench.c - `hires-engine bench`: images per second of a network on a device. */
#include "engine/run/bench.h"
#include "base/json.h"
#include "engine/backend/backend.h"
#include "engine/cli/cli.h"
#include "engine/cli/products.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/planning/find_layout.h"
#include "engine/planning/known_machine.h"
#include "engine/planning/prediction_print.h"
#include "engine/planning/request.h"
#include "engine/run/joined.h"
#include "engine/run/planner.h"
#include "engine/train/ranked_step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct request {
    const char *model, *device, *layout, *comm;
    enum hrf_precision precision;
    int64_t size, batch, runs, threads, classes, bands;
    double memory_gib;
    int loss; /* of enum hrf_loss; NO_LOSS: the network alone */
    bool layers, products, predict, json;
};
enum { NO_LOSS = HRF_N_LOSSES };

/* What the simulator predicts for the same layout, from costs that were measured before. */
struct forecast {
    struct hrf_known known;
    struct hrf_prediction *prediction; /* NULL: not asked for */
};

static enum hrf_status forecast(const struct request *r, const struct hrf_graph *graph,
                                const struct hrf_found_layout *found, struct forecast *out,
                                struct hrf_error *err)
{
    const struct hrf_layout_plan *layout = &found->plan;
    const struct hrf_known_request request = { .device = "cpu",
                                               .n_threads = 1,
                                               .n_ranks = hrf_layout_ranks(layout),
                                               .per_node = found->per_node };
    HRF_AUTO(hrf_planner) planner = NULL;
    if (!r->predict)
        return HRF_OK;
    HRF_TRY(hrf_known_find(&request, &out->known, err));
    const bool is_single = hrf_layout_is_sequential(layout) && out->known.single.n_entries > 0;
    const struct hrf_planner_config config = { .graph = graph,
                                               .precision = r->precision,
                                               .costs = is_single ? &out->known.single
                                                                  : &out->known.costs,
                                               .machine = &out->known.machine };
    HRF_TRY(hrf_planner_create(&config, &planner, err));
    return hrf_planner_predict(planner, layout, &out->prediction, err);
}

/* Seconds that a rank is predicted to be busy in a batch, that is, without its waits. */
static double busy_seconds(const struct hrf_prediction *prediction, int32_t rank)
{
    const struct hrf_sim_rank *sim = &prediction->simulation->ranks[rank];
    double sum = 0;
    for (int kind = 0; kind < HRF_SIM_N_KINDS; kind++)
        sum += kind == HRF_SIM_WAIT ? 0 : sim->seconds[kind];
    return sum;
}

static json_t *forecast_to_json(const struct forecast *f, const struct hrf_bench *b)
{
    json_t *busy = json_array();
    const struct hrf_prediction *p = f->prediction;
    for (int32_t i = 0; i < p->n_ranks; i++)
        hrf_json_add(busy, hrf_json_number(busy_seconds(p, i)));
    json_t *object = json_object();
    hrf_json_put_number(object, "seconds", p->seconds);
    hrf_json_put_number(object, "images_per_second", (double)p->n_images / p->seconds);
    hrf_json_put_number(object, "of_measured", p->seconds / b->median);
    hrf_json_put(object, "known", hrf_known_json(&f->known));
    hrf_json_put(object, "rank_busy_seconds", busy);
    return object;
}

static void print_forecast(const struct forecast *f, const struct hrf_bench *b)
{
    const struct hrf_prediction *p = f->prediction;
    printf("  predicted: %.2f images/s, %.3f of the measured time; costs %s, machine %s\n",
           (double)p->n_images / p->seconds, p->seconds / b->median, f->known.cost_source,
           f->known.machine_source);
    for (int32_t i = 0; i < p->n_ranks && b->ranks != NULL; i++) {
        const double taken = b->ranks[i].processor / (double)b->n_all_runs;
        printf("  rank %d: predicted work %.1f ms for a batch, %.3f of its processor time\n", i,
               busy_seconds(p, i) * 1e3, busy_seconds(p, i) / taken);
    }
}

static json_t *to_json(const struct request *r, const struct hrf_bench *b)
{
    double batch = (double)r->batch;
    json_t *object = json_object();
    hrf_json_put_text(object, "model", r->model);
    hrf_json_put_int(object, "size", r->size);
    hrf_json_put_int(object, "batch", r->batch);
    hrf_json_put_text(object, "precision", hrf_precision_name(r->precision));
    hrf_json_put_text(object, "device", b->device);
    hrf_json_put_text(object, "device_in_words", b->device_in_words);
    hrf_json_put_text(object, "layout", r->layout != NULL ? r->layout : "single");
    hrf_json_put_number(object, "images_per_second", batch / b->median);
    hrf_json_put_number(object, "images_per_second_min", batch / b->max);
    hrf_json_put_number(object, "images_per_second_max", batch / b->min);
    hrf_json_put_number(object, "gop_per_image", b->operations / batch * 1e-9);
    hrf_json_put_number(object, "tops", b->operations / b->median * 1e-12);
    hrf_json_put_number(object, "build_seconds", b->build_seconds);
    hrf_json_put_int(object, "peak_memory_bytes", hrf_session_memory_total(&b->memory));
    hrf_json_put_int(object, "activation_bytes", b->memory.activation_bytes);
    hrf_json_put_number(object, "convolutions_alone_seconds", b->convolutions);
    hrf_json_put_number(object, "fraction_of_convolutions_alone", b->convolutions / b->median);
    hrf_json_put_int(object, "runs", b->n_runs);
    hrf_json_put_number(object, "processor_seconds", b->processor);
    return object;
}

static json_t *products_to_json(const struct hrf_products *p, const struct hrf_bench *b)
{
    json_t *object = json_object();
    hrf_json_put_int(object, "layers", p->n);
    hrf_json_put_number(object, "seconds", p->seconds);
    hrf_json_put_number(object, "operations", p->operations);
    hrf_json_put_number(object, "of_network", p->n > 0 ? p->seconds / b->median : NAN);
    return object;
}

static void print_products(const struct hrf_products *p, const struct hrf_bench *b)
{
    if (p->n == 0) {
        printf("  no layer is a product with a constant matrix\n");
        return;
    }
    printf(
        "  oneDNN's matrix products of these shapes alone (%d layers, %.0f %% of the operations): "
        "%.1f ms, %.1f GOPS; their time is %.0f %% of the network's, the network's GOPS %.0f %% "
        "of theirs\n",
        p->n, 100 * p->operations / b->operations, p->seconds * 1e3,
        p->operations / p->seconds * 1e-9, 100 * p->seconds / b->median,
        100 * (b->operations / b->median) / (p->operations / p->seconds));
}

static json_t *layers_to_json(const struct hrf_bench *b)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < b->n_layers; i++) {
        const struct hrf_bench_layer *l = &b->layers[i];
        json_t *layer = json_object();
        hrf_json_put_text(layer, "name", l->name);
        hrf_json_put_text(layer, "op", hrf_op_name(l->op));
        hrf_json_put_text(layer, "implementation", l->implementation);
        hrf_json_put_number(layer, "seconds", l->in_network);
        hrf_json_put_number(layer, "seconds_alone", l->alone);
        hrf_json_put_number(layer, "operations", l->operations);
        hrf_json_add(list, layer);
    }
    return list;
}

static void print_layers(const struct hrf_bench *b)
{
    printf("%-28s %-16s %-30s %10s %10s %9s\n", "layer", "operator", "implementation", "ms",
           "ms, alone", "GOPS");
    for (int32_t i = 0; i < b->n_layers; i++) {
        const struct hrf_bench_layer *l = &b->layers[i];
        printf("%-28s %-16s %-30s %10.3f %10.3f %9.1f\n", l->name, hrf_op_name(l->op),
               l->implementation, l->in_network * 1e3, l->alone * 1e3,
               l->in_network > 0 ? l->operations / l->in_network * 1e-9 : 0);
    }
}

static json_t *counts_to_json(const struct hrf_comm_count *counts)
{
    json_t *operations = json_array();
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        const struct hrf_comm_count *c = &counts[use];
        const double seconds = c->sending + c->receiving;
        if (c->messages == 0 && c->receiving <= 0)
            continue;
        json_t *entry = json_object();
        hrf_json_put_text(entry, "operation", hrf_comm_use_name((enum hrf_comm_use)use));
        hrf_json_put_int(entry, "messages", c->messages);
        hrf_json_put_int(entry, "bytes", c->bytes);
        hrf_json_put_number(entry, "sending_seconds", c->sending);
        hrf_json_put_number(entry, "receiving_seconds", c->receiving);
        hrf_json_put_number(entry, "gb_per_s",
                            seconds > 0 ? (double)c->bytes / seconds * 1e-9 : NAN);
        hrf_json_add(operations, entry);
    }
    return operations;
}

static json_t *ranks_to_json(const struct hrf_bench *b)
{
    json_t *ranks = json_array();
    const double n_all_runs = (double)b->n_all_runs;
    for (int32_t i = 0; i < b->n_ranks; i++) {
        const struct hrf_rank_facts *f = &b->ranks[i];
        json_t *entry = json_object();
        hrf_json_put_int(entry, "peak_memory_bytes", hrf_session_memory_total(&f->memory));
        hrf_json_put_int(entry, "activation_bytes", f->memory.activation_bytes);
        hrf_json_put_int(entry, "messages", f->n_messages);
        hrf_json_put_int(entry, "sent_bytes", f->sent_bytes);
        hrf_json_put_number(entry, "waited_seconds", f->waited);
        hrf_json_put_number(entry, "busy_seconds", f->busy);
        hrf_json_put_number(entry, "processor_seconds", f->processor);
        hrf_json_put_number(entry, "processor_seconds_a_batch", f->processor / n_all_runs);
        hrf_json_put(entry, "operations", counts_to_json(f->counts));
        hrf_json_add(ranks, entry);
    }
    return ranks;
}

static void print_counts(const struct hrf_comm_count *counts)
{
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        const struct hrf_comm_count *c = &counts[use];
        const double seconds = c->sending + c->receiving;
        if (c->messages == 0 && c->receiving <= 0)
            continue;
        printf("    %-8s %8lld messages, %10.3f MB sent, %8.2f ms sending, %8.2f ms receiving",
               hrf_comm_use_name((enum hrf_comm_use)use), (long long)c->messages,
               (double)c->bytes * 1e-6, c->sending * 1e3, c->receiving * 1e3);
        if (c->bytes > 0 && seconds > 0)
            printf(", %.2f GB/s", (double)c->bytes / seconds * 1e-9);
        printf("\n");
    }
}

static void print_ranks(const struct hrf_bench *b)
{
    for (int32_t i = 0; i < b->n_ranks && b->ranks != NULL; i++) {
        const struct hrf_rank_facts *f = &b->ranks[i];
        printf(
            "  rank %d: %.2f GiB, %.1f MB sent in %lld messages (%s), waited %.0f %% of %.2f s\n",
            i, (double)hrf_session_memory_total(&f->memory) / 0x1p30, (double)f->sent_bytes * 1e-6,
            (long long)f->n_messages, b->transport, 100 * f->waited / f->busy, f->busy);
        print_counts(f->counts);
    }
}

/* True if convolutions are most of the operations: their own speed then says something of the
 * network's. */
static bool is_convolutional(const struct hrf_bench *b)
{
    double all = 0, convolutions = 0;
    for (int32_t i = 0; i < b->n_layers; i++) {
        all += b->layers[i].operations;
        convolutions += b->layers[i].op == HRF_OP_CONV ? b->layers[i].operations : 0;
    }
    return isfinite(b->convolutions) && convolutions > all / 2;
}

static void print_text(const struct request *r, const struct hrf_bench *b)
{
    printf("%s %lldx%lld px, batch %lld, %s: %.3g images/s (%.3g to %.3g), %.2f GOP/image, "
           "%.1f GOPS, %.2f GiB",
           r->model, (long long)r->size, (long long)r->size, (long long)r->batch,
           hrf_precision_name(r->precision), (double)r->batch / b->median,
           (double)r->batch / b->max, (double)r->batch / b->min,
           b->operations / (double)r->batch * 1e-9, b->operations / b->median * 1e-9,
           (double)hrf_session_memory_total(&b->memory) / 0x1p30);
    if (b->bands.n_bands > 1) {
        char text[96];
        hrf_bands_text(&b->bands, text);
        printf(", %s", text);
    }
    if (b->bands.n_bands == 1 && is_convolutional(b))
        printf(", %.0f %% of the speed of its convolutions alone",
               100 * b->convolutions / b->median);
    if (b->resident_bytes > 0)
        printf(", %.2f GiB resident in the process", (double)b->resident_bytes / 0x1p30);
    printf("\n");
    print_ranks(b);
}

static void print(const struct request *r, const struct hrf_bench *b,
                  const struct hrf_products *products, const struct forecast *f)
{
    if (!r->json) {
        if ((r->layers || r->products) && b->n_layers == 0)
            fputs("layers are timed only on one rank without bands\n", stderr);
        else if (r->layers)
            print_layers(b);
        print_text(r, b);
        if (r->products && b->n_layers > 0)
            print_products(products, b);
        if (f->prediction != NULL)
            print_forecast(f, b);
        return;
    }
    HRF_AUTO_JSON value = to_json(r, b);
    if (b->bands.n_bands > 1) {
        hrf_json_put_int(value, "bands", b->bands.n_bands);
        hrf_json_put_text(value, "rows", b->bands.keeps ? "kept" : "recomputed");
        hrf_json_put_int(value, "kept_bytes", b->bands.line_cache_bytes);
        hrf_json_put_number(value, "recomputed", b->bands.recomputed);
    }
    if (b->resident_bytes > 0)
        hrf_json_put_int(value, "resident_bytes", b->resident_bytes);
    if (r->layers)
        hrf_json_put(value, "layers", layers_to_json(b));
    if (r->products && b->n_layers > 0)
        hrf_json_put(value, "products_alone", products_to_json(products, b));
    if (b->ranks != NULL)
        hrf_json_put(value, "ranks", ranks_to_json(b));
    if (b->transport != NULL)
        hrf_json_put_text(value, "comm", b->transport);
    if (f->prediction != NULL)
        hrf_json_put(value, "predicted", forecast_to_json(f, b));
    hrf_json_print(value);
}

/* Makes the graph that of one step of training: the loss and its gradients to all weights. */
static enum hrf_status add_gradients(enum hrf_loss loss, const char *layout,
                                     struct hrf_graph *graph, struct hrf_gradients *gradients,
                                     struct hrf_error *err)
{
    struct hrf_layout_plan plan = hrf_layout_single();
    if (layout != NULL && !hrf_layout_is_auto(layout))
        HRF_TRY(hrf_layout_parse(layout, &plan, err));
    HRF_TRY(hrf_ranked_step_divide(&plan, false, graph, err));
    hrf_pass_mark_weights(graph);
    HRF_TRY(hrf_pass_training_step(graph, loss, NULL, gradients, err));
    return hrf_graph_infer_shapes(graph, err);
}

/* The weights of a step of training, which its kernels read anew in each run. */
struct weights {
    float **numbers, **rounded; /* [n]; rounded[i] is NULL in FP32 */
    int32_t n;
};

static void weights_release(struct weights *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        hrf_free(w->numbers[i]);
        hrf_free(w->rounded[i]);
    }
    hrf_free(w->numbers);
    hrf_free(w->rounded);
}

/* True if weights can change between runs: in host memory, in the precisions of a training. */
static bool can_change(const struct request *r)
{
    const struct hrf_backend_ops *ops;
    return (r->precision == HRF_FP32 || r->precision == HRF_BF16) && r->bands == 0 &&
           r->memory_gib <= 0 && hrf_backend_choose(r->device, &ops, NULL, NULL) == HRF_OK &&
           ops->device == NULL;
}

/* The weights that have gradients become the graph's last inputs. */
static enum hrf_status open_weights(const struct request *r, const struct hrf_gradients *gradients,
                                    struct hrf_graph *graph, struct weights *w,
                                    struct hrf_session_config *session, struct hrf_error *err)
{
    const size_t n = (size_t)gradients->n + 1;
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array(n, sizeof *values);
    *w = (struct weights){ hrf_calloc(n, sizeof *w->numbers), hrf_calloc(n, sizeof *w->rounded),
                           gradients->n };
    for (int32_t i = 0; i < w->n; i++) {
        values[i] = hrf_graph_find_value(graph, gradients->names[i]);
        const struct hrf_value *value = &graph->values[values[i]];
        const size_t n_floats = (size_t)hrf_shape_count(&value->shape);
        w->numbers[i] = hrf_try_alloc_array(n_floats + 1, sizeof(float));
        if (r->precision == HRF_BF16)
            w->rounded[i] = hrf_try_calloc(n_floats + 1, sizeof(float));
        HRF_CHECK_MEMORY(w->numbers[i] != NULL &&
                             (r->precision == HRF_FP32 || w->rounded[i] != NULL),
                         err, "no memory for the weights '%s'", value->name);
        memcpy(w->numbers[i], value->data, n_floats * sizeof(float));
    }
    session->variables = w->numbers;
    session->rounded = w->rounded;
    session->n_variables = w->n;
    return hrf_graph_open_constants(graph, values, w->n, err);
}

static enum hrf_status bench(const void *context, const struct hrf_joined *joined,
                             struct hrf_error *err)
{
    struct request shown = *(const struct request *)context, *r = &shown;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_bench) result = { .n_ranks = 1 };
    HRF_AUTO_RELEASE(hrf_found_layout) layout = { .is_chosen = false };
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    HRF_AUTO_RELEASE(weights) weights = { .n = 0 };
    HRF_TRY(hrf_engine_check_request(r->device, r->layout, err));
    HRF_TRY(hrf_engine_load_image_model(r->model, r->classes, &r->size, &r->batch, &graph, err));
    if (r->loss != NO_LOSS)
        HRF_TRY(add_gradients((enum hrf_loss)r->loss, r->layout, graph, &gradients, err));
    struct hrf_network_config config = {
        .session = { .device = r->device,
                     .precision = r->precision,
                     .n_threads = (int32_t)r->threads,
                     .memory_limit_bytes = (int64_t)(r->memory_gib * 0x1p30),
                     .transport = joined->transport },
        .layout = &layout.plan,
        .comm = joined->comm,
        .n_bands = (int32_t)r->bands,
    };
    struct hrf_machine gpu_links = { .n_links = 0 };
    if (hrf_known_gpu_links(&gpu_links))
        config.session.gpu_links = &gpu_links;
    enum hrf_status status = hrf_layout_find(r->layout, graph, &config.session, joined->comm,
                                             &layout, err);
    struct forecast predicted = { .prediction = NULL };
    if (status == HRF_OK && hrf_joined_is_first(joined))
        status = forecast(r, graph, &layout, &predicted, err);
    if (status == HRF_OK && r->loss != NO_LOSS && can_change(r))
        status = open_weights(r, &gradients, graph, &weights, &config.session, err);
    if (status == HRF_OK)
        status = hrf_bench_run(graph, &config, r->runs, r->layers || r->products, &result, err);
    struct hrf_products products = { .n = 0 };
    if (status == HRF_OK && r->products && result.n_layers > 0)
        status = hrf_products_time(&result, &products, err);
    char text[128];
    hrf_layout_text(&layout.plan, text);
    shown.layout = text; /* what "auto" has chosen */
    if (status == HRF_OK && hrf_joined_is_first(joined))
        print(&shown, &result, &products, &predicted);
    hrf_prediction_destroy(predicted.prediction);
    hrf_known_release(&predicted.known);
    return status;
}

int hrf_engine_bench(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .precision = HRF_FP32,
                         .device = "auto",
                         .batch = 8,
                         .runs = 10,
                         .classes = 1000,
                         .loss = NO_LOSS };
    const struct hrf_option options[] = {
        { "model", "ARCH|FILE", "the same as the argument MODEL", HRF_OPTION(&r.model) },
        { "size", "PX", "image size (default: the file's, or 256)",
          HRF_OPTION_NUMBER(&r.size, 0, HRF_COUNT_LIMIT) },
        { "batch", "N", "images in a batch", HRF_OPTION_NUMBER(&r.batch, 1, HRF_COUNT_LIMIT) },
        { "precision", "P", "", HRF_OPTION_WORDS(&r.precision, hrf_precision_names) },
        { "device", "D", "auto, cpu, cuda or ref", HRF_OPTION(&r.device) },
        { "layout", "L", "how ranks share the work: spatial=2, stages=2,microbatches=4, auto",
          HRF_OPTION(&r.layout) },
        { "comm", "C", HRF_COMM_HELP, HRF_OPTION(&r.comm) },
        { "bands", "N", "process each image in N row tiles (bands)",
          HRF_OPTION_NUMBER(&r.bands, 0, HRF_COUNT_LIMIT) },
        { "memory", "GIB", "memory limit; above it, images are processed in bands",
          HRF_OPTION_NUMBER(&r.memory_gib, 0, HRF_UNBOUNDED) },
        { "runs", "N", "timed runs", HRF_OPTION_NUMBER(&r.runs, 1, HRF_COUNT_LIMIT) },
        { "threads", "N", "threads (default: every core)", HRF_OPTION_NUMBER(&r.threads, 0, 4096) },
        { "classes", "N", "outputs of a built-in architecture",
          HRF_OPTION_NUMBER(&r.classes, 1, HRF_COUNT_LIMIT) },
        { "loss", "L",
          "time this loss and its gradients to all weights, as in one step of training",
          HRF_OPTION_WORDS(&r.loss, hrf_loss_names) },
        { "layers", NULL,
          "also print each layer's kernel and its time in the network and alone; takes three times "
          "as many runs",
          HRF_OPTION(&r.layers) },
        { "products", NULL,
          "also time the matrix products of the layers alone, by oneDNN on this processor: the "
          "limit",
          HRF_OPTION(&r.products) },
        { "predict", NULL, "also print what 'plan' predicts (run tune-comm and profile first)",
          HRF_OPTION(&r.predict) },
        { "json", NULL, "print JSON", HRF_OPTION(&r.json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status;
    const bool is_twice = args.n_operands > 0 && r.model != NULL;
    if (args.n_operands > 0 && !is_twice)
        r.model = args.operands[0];
    if (is_twice)
        status = hrf_error_set(&err, HRF_E_USER, "two models are given: '%s' and --model %s",
                               args.operands[0], r.model);
    else if (r.model == NULL)
        status = hrf_error_set(&err, HRF_E_USER,
                               "a model is needed: a built-in architecture or an ONNX file");
    else
        status = hrf_joined_run(r.comm, r.layout, bench, &r, &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
