/* plan.c - `hires-engine plan`: what layouts would take on a machine, without running anything. */
#include "engine/cli/cli.h"
#include "engine/planning/find_layout.h"
#include "engine/planning/prediction_print.h"
#include "engine/planning/request.h"
#include "engine/run/planner.h"

#include "base/json.h"
#include "base/path.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNTS = 64 };

/* A request and its results. */
struct planning {
    struct hrf_plan_request *request; /* size and batch become the model's */
    struct hrf_known known;
    struct hrf_planner *planner,
        *single_planner;   /* the same planner, unless one rank was measured separately */
    double single_seconds; /* 0: not yet known */
    int64_t outputs_per_image;
    int32_t counts[MAX_COUNTS], n_counts;
    json_t *layouts;
};

/* ---- which ranks, which layouts ---- */

static enum hrf_status wrong_ranks(const char *text, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "--ranks '%s' is not a list of numbers from 1 to %d (1,2,6) or a range "
                         "that doubles (1..128)",
                         text, HRF_MAX_RANKS);
}

static bool read_count(const char **text, int32_t *out)
{
    char *end;
    const long long n = strtoll(*text, &end, 10);
    if (end == *text || n < 1 || n > HRF_MAX_RANKS)
        return false;
    *out = (int32_t)n;
    *text = end;
    return true;
}

/* "1..128" is 1, 2, 4 ... 128; "3..20" is 3, 6, 12, 20. */
static enum hrf_status read_counts(struct planning *p, const char *text, struct hrf_error *err)
{
    const char *at = text;
    do {
        int32_t first, last;
        if (!read_count(&at, &first))
            return wrong_ranks(text, err);
        last = first;
        if (strncmp(at, "..", 2) == 0) {
            at += 2;
            if (!read_count(&at, &last) || last < first)
                return wrong_ranks(text, err);
        }
        for (int32_t n = first;; n = 2 * n < last ? 2 * n : last) {
            if (p->n_counts == MAX_COUNTS)
                return wrong_ranks(text, err);
            p->counts[p->n_counts++] = n;
            if (n == last)
                break;
        }
    } while (*at == ',' && *++at != '\0');
    return *at == '\0' ? HRF_OK : wrong_ranks(text, err);
}

/* The layout's text with every N that stands for a number replaced by the count. */
static enum hrf_status fill_pattern(const char *pattern, int32_t n, struct hrf_layout_plan *out,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    for (const char *c = pattern; *c != '\0'; c++)
        if (*c == 'N')
            hrf_strbuf_addf(&text, "%d", n);
        else
            hrf_strbuf_addc(&text, *c);
    return hrf_layout_parse(text.text, out, err);
}

static bool is_pattern(const char *layout)
{
    return layout != NULL && strchr(layout, 'N') != NULL;
}

static bool is_auto(const char *layout)
{
    return layout == NULL || hrf_layout_is_auto(layout);
}

/* ---- predictions ---- */

static enum hrf_status predict_single(struct planning *p, struct hrf_error *err)
{
    const struct hrf_layout_plan single = hrf_layout_single();
    HRF_AUTO(hrf_prediction) prediction = NULL;
    HRF_TRY(hrf_planner_predict(p->single_planner, &single, &prediction, err));
    p->single_seconds = prediction->seconds;
    return HRF_OK;
}

static enum hrf_status predict(struct planning *p, int32_t n_ranks, struct hrf_prediction **out,
                               struct hrf_error *err)
{
    const char *layout = p->request->layout;
    struct hrf_layout_plan plan;
    if (is_auto(layout) && n_ranks > 1)
        return hrf_planner_choose(p->planner, n_ranks, out, err);
    HRF_TRY(fill_pattern(is_auto(layout) ? "single" : layout, n_ranks, &plan, err));
    return hrf_planner_predict(hrf_layout_is_sequential(&plan) ? p->single_planner : p->planner,
                               &plan, out, err);
}

static struct hrf_outlook outlook_of(const struct planning *p,
                                     const struct hrf_prediction *prediction)
{
    const struct hrf_planner *planner = hrf_layout_is_sequential(&prediction->layout)
                                            ? p->single_planner
                                            : p->planner;
    return (struct hrf_outlook){ .prediction = prediction,
                                 .graph = hrf_planner_graph(planner, &prediction->layout),
                                 .single_seconds = p->single_seconds,
                                 .operations = hrf_planner_operations(planner),
                                 .fits = hrf_planner_fits(planner, prediction) };
}

/* Each rank as a list of [kind, start, end], in seconds. */
static enum hrf_status write_timeline(const struct planning *p, const struct hrf_outlook *o,
                                      struct hrf_error *err)
{
    const struct hrf_plan_request *request = p->request;
    char layout[128], title[256], subtitle[256];
    hrf_layout_text(&o->prediction->layout, layout);
    snprintf(title, sizeof title, "%s, %lld px, batch %lld, %s: %s", hrf_path_name(request->model),
             (long long)request->size, (long long)request->batch,
             hrf_precision_name(request->precision), layout);
    snprintf(subtitle, sizeof subtitle,
             "simulated on %s: %.2f ms for a batch, efficiency %.0f %% on %d ranks",
             p->known.machine.name, o->prediction->seconds * 1e3, 100 * hrf_outlook_efficiency(o),
             o->prediction->n_ranks);
    const struct hrf_simulation *sim = o->prediction->simulation;
    json_t *ranks = json_array();
    for (int32_t r = 0; r < sim->n_ranks; r++) {
        json_t *spans = json_array();
        hrf_json_add(ranks, spans);
        for (int32_t i = 0; i < sim->ranks[r].n_spans; i++) {
            const struct hrf_sim_span *span = &sim->ranks[r].spans[i];
            json_t *entry = json_array();
            hrf_json_add(entry, hrf_json_string(hrf_sim_kind_name(span->kind)));
            hrf_json_add(entry, hrf_json_number(span->start));
            hrf_json_add(entry, hrf_json_number(span->end));
            hrf_json_add(spans, entry);
        }
    }
    HRF_AUTO_JSON timeline = json_object();
    hrf_json_put_text(timeline, "title", title);
    hrf_json_put_text(timeline, "subtitle", subtitle);
    hrf_json_put_number(timeline, "seconds", sim->seconds);
    hrf_json_put(timeline, "ranks", ranks);
    return hrf_json_write_file(request->timeline, timeline, err);
}

static enum hrf_status show(struct planning *p, const struct hrf_prediction *prediction,
                            struct hrf_error *err)
{
    struct hrf_outlook outlook = outlook_of(p, prediction);
    struct hrf_bands_prediction bands;
    struct hrf_error why = { .text = "" };
    const bool is_only = p->n_counts == 1;
    if (prediction->n_ranks == 1 && !outlook.fits && p->request->train) {
        outlook.bands_refusal = "tiles of a step of training are not predicted";
    } else if (prediction->n_ranks == 1 && !outlook.fits) {
        const bool helps = hrf_planner_predict_bands(p->single_planner, prediction->layout.bands,
                                                     &bands, &why) == HRF_OK;
        outlook.bands = helps ? &bands : NULL;
        outlook.bands_refusal = helps ? NULL : why.text;
    }
    if (p->request->timeline != NULL)
        HRF_TRY(write_timeline(p, &outlook, err));
    if (p->request->json) {
        hrf_json_add(p->layouts, hrf_outlook_json(&outlook, is_only));
        return HRF_OK;
    }
    hrf_outlook_print_line(&outlook, stdout);
    if (is_only)
        hrf_outlook_print_ranks(&outlook, stdout);
    return HRF_OK;
}

/* A number of ranks for which no layout is possible is reported; the others continue. */
static enum hrf_status show_refusal(struct planning *p, int32_t n_ranks,
                                    const struct hrf_error *why, struct hrf_error *err)
{
    if (p->n_counts == 1) {
        if (err != NULL)
            *err = *why;
        return why->status;
    }
    if (!p->request->json) {
        printf("%5d  %s\n", n_ranks, why->text);
        return HRF_OK;
    }
    json_t *entry = json_object();
    hrf_json_put_int(entry, "ranks", n_ranks);
    hrf_json_put_text(entry, "error", why->text);
    hrf_json_add(p->layouts, entry);
    return HRF_OK;
}

static enum hrf_status show_all(struct planning *p, struct hrf_error *err)
{
    HRF_TRY(predict_single(p, err));
    if (!p->request->json) {
        hrf_known_print(&p->known, stdout);
        hrf_outlook_print_head(stdout);
    }
    for (int32_t i = 0; i < p->n_counts; i++) {
        HRF_AUTO(hrf_prediction) prediction = NULL;
        struct hrf_error why = { .status = HRF_OK };
        enum hrf_status status = predict(p, p->counts[i], &prediction, &why);
        if (status == HRF_OK)
            status = show(p, prediction, err);
        else if (status == HRF_E_USER)
            status = show_refusal(p, p->counts[i], &why, err);
        else if (err != NULL)
            *err = why;
        HRF_TRY(status);
    }
    return HRF_OK;
}

static void print_json(struct planning *p)
{
    const struct hrf_plan_request *r = p->request;
    HRF_AUTO_JSON json = hrf_json_document();
    hrf_json_put_text(json, "model", r->model);
    hrf_json_put_int(json, "size", r->size);
    hrf_json_put_int(json, "batch", r->batch);
    hrf_json_put_text(json, "precision", hrf_precision_name(r->precision));
    hrf_json_put_int(json, "outputs_per_image", p->outputs_per_image);
    hrf_json_put_number(json, "gop_per_image",
                        hrf_planner_operations(p->single_planner) / (double)r->batch * 1e-9);
    hrf_json_put(json, "known", hrf_known_json(&p->known));
    hrf_json_put_number(json, "single_seconds", p->single_seconds);
    hrf_json_put(json, "layouts", json_incref(p->layouts));
    hrf_json_print(json);
}

static enum hrf_status make_planners(struct planning *p, const struct hrf_graph *graph,
                                     struct hrf_error *err)
{
    char note[512] = "";
    struct hrf_planner_config config = { .graph = graph,
                                         .is_step = p->request->train,
                                         .precision = p->request->precision,
                                         .costs = &p->known.costs,
                                         .machine = &p->known.machine,
                                         .memory_bytes = (int64_t)(p->request->memory * 0x1p30),
                                         .device = p->request->cluster == NULL ? "cpu" : NULL };
    if (p->request->cluster != NULL)
        config.prepared_as = hrf_planner_backend(&p->known.machine, note);
    fputs(note, stderr);
    HRF_TRY(hrf_planner_create(&config, &p->planner, err));
    p->single_planner = p->planner;
    if (p->known.single.n_entries == 0)
        return HRF_OK;
    config.costs = &p->known.single;
    p->single_planner = NULL;
    return hrf_planner_create(&config, &p->single_planner, err);
}

static enum hrf_status plan(struct planning *p, struct hrf_error *err)
{
    struct hrf_plan_request *r = p->request;
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_layout_plan layout = hrf_layout_single();
    if (!is_auto(r->layout))
        HRF_TRY(fill_pattern(r->layout, 1, &layout, err));
    if (r->ranks == NULL && (is_auto(r->layout) || is_pattern(r->layout)))
        return hrf_error_set(err, HRF_E_USER,
                             "--ranks gives the numbers of ranks to find a layout for: 4, 1,2,6 or "
                             "1..128; or give a layout with --layout");
    if (r->ranks != NULL && !is_auto(r->layout) && !is_pattern(r->layout))
        return hrf_error_set(err, HRF_E_USER,
                             "--layout %s fixes the number of ranks; write N where --ranks is to "
                             "give it (spatial=N)",
                             r->layout);
    if (r->ranks != NULL)
        HRF_TRY(read_counts(p, r->ranks, err));
    else
        p->counts[p->n_counts++] = hrf_layout_ranks(&layout);
    if (r->timeline != NULL && p->n_counts > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "--timeline shows one layout; give --ranks one number");
    const char *ending = r->timeline != NULL ? strrchr(r->timeline, '.') : NULL;
    if (ending != NULL && strcmp(ending, ".svg") == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "--timeline %s: JSON is written, not a picture; name it .json, and "
                             "'tools/draw timeline' makes the picture from it",
                             r->timeline);
    const struct hrf_known_request known = { .cluster = r->cluster,
                                             .costs = r->costs,
                                             .cache = r->cache,
                                             .device = "cpu",
                                             .n_threads = (int32_t)r->threads,
                                             .n_ranks = p->counts[p->n_counts - 1],
                                             .per_node = (int32_t)r->processes };
    HRF_TRY(hrf_known_find(&known, &p->known, err));
    HRF_TRY(hrf_engine_load_image_model(r->model, r->classes, &r->size, &r->batch, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    p->outputs_per_image = hrf_shape_count(&graph->values[graph->outputs[0]].shape) / r->batch;
    HRF_TRY(make_planners(p, graph, err));
    HRF_TRY(show_all(p, err));
    if (r->json)
        print_json(p);
    return HRF_OK;
}

static void release(struct planning *p)
{
    if (p->single_planner != p->planner)
        hrf_planner_destroy(p->single_planner);
    hrf_planner_destroy(p->planner);
    hrf_known_release(&p->known);
    json_decref(p->layouts);
}

int hrf_engine_plan(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_plan_request r = hrf_plan_request_initial;
    struct hrf_args args = hrf_args_parse_request(HRF_ENGINE_PROGRAM, command, hrf_plan_options, &r,
                                                  argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct planning p = { .request = &r, .layouts = json_array() };
    enum hrf_status status;
    if (r.model == NULL)
        status = hrf_error_set(&err, HRF_E_USER, "--model is required");
    else
        status = plan(&p, &err);
    release(&p);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
