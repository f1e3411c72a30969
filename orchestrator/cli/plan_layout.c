/* plan_layout.c - what `hires-flow plan` says of ranks: asked of the engine, which can tell. */
#include "orchestrator/cli/plan_layout.h"

#include "base/json.h"
#include "base/own_process.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/launch/launch.h"

#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 600000, MOST_BYTES = 16 << 20, MOST_WORDS = 40 };

/* Processes of an infer job, and how many of them are on one machine. */
static int64_t processes_of(const struct hrf_workflow *w, int64_t *per_node)
{
    const bool slurm = w->executor.type == HRF_EXECUTOR_SLURM;
    *per_node = slurm ? w->executor.slurm.ranks_per_node : w->executor.local.ranks;
    return slurm ? w->executor.slurm.nodes * *per_node : *per_node;
}

/* Ranks of a job: those that `parallel` gives, or those that "auto" may use. */
static int64_t ranks_of(const struct hrf_workflow *w)
{
    int64_t per_node;
    const int64_t n = processes_of(w, &per_node);
    if (w->engine.parallel.is_auto)
        return n > 1 || w->executor.type == HRF_EXECUTOR_SLURM ? n : hrf_process_cpu_count();
    return w->engine.parallel.data * w->engine.parallel.spatial_rows *
           w->engine.parallel.spatial_cols * w->engine.parallel.tensor * w->engine.parallel.stages;
}

/* The engine's command line; texts that are made here are kept in `own`. */
struct words {
    const char *argv[MOST_WORDS];
    int n;
    char *own[8];
    int n_own;
};

static void add_pair(struct words *words, const char *option, const char *value)
{
    if (value == NULL)
        return;
    words->argv[words->n++] = option;
    words->argv[words->n++] = value;
}

static void add_number(struct words *words, const char *option, double value)
{
    char *text = hrf_format("%.9g", value);
    words->own[words->n_own++] = text;
    add_pair(words, option, text);
}

static enum hrf_status add_program(struct words *words, struct hrf_error *err)
{
    char *program = NULL;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    words->own[words->n_own++] = program;
    words->argv[words->n++] = program;
    words->argv[words->n++] = "plan";
    return HRF_OK;
}

static enum hrf_status make_words(const struct hrf_workflow *w, const char *precision,
                                  const struct hrf_layout_request *r, struct words *words,
                                  struct hrf_error *err)
{
    const bool whole = w->tiler.mode == HRF_TILER_SLIDE;
    HRF_TRY(add_program(words, err));
    add_pair(words, "--model", w->model.file);
    add_number(words, "--size", (double)hrf_workflow_image_size(w));
    add_number(words, "--batch", (double)(whole ? 1 : w->engine.batch * w->engine.parallel.data));
    add_number(words, "--memory", (double)w->engine.memory_bytes / 0x1p30);
    add_pair(words, "--precision", precision);
    add_pair(words, "--cluster", r->cluster);
    add_pair(words, "--timeline", r->timeline);
    add_pair(words, "--cache", w->cache);
    char *layout = r->layout != NULL  ? hrf_strdup(r->layout)
                   : r->ranks != NULL ? hrf_strdup("auto")
                                      : hrf_workflow_layout(w);
    words->own[words->n_own++] = layout;
    add_pair(words, "--layout", layout);
    int64_t per_node;
    if (processes_of(w, &per_node) > 1)
        add_number(words, "--processes", (double)per_node);
    if (r->ranks != NULL)
        add_pair(words, "--ranks", r->ranks);
    else if (layout != NULL && (strcmp(layout, "auto") == 0 || strchr(layout, 'N') != NULL))
        add_number(words, "--ranks", (double)ranks_of(w));
    if (r->json)
        words->argv[words->n++] = "--json";
    for (int i = 0; i < words->n_own; i++)
        HRF_CHECK_MEMORY(words->own[i] != NULL, err, "no memory for a command line");
    return HRF_OK;
}

enum hrf_status hrf_cli_plan_layout(const struct hrf_workflow *w, const char *precision,
                                    const struct hrf_layout_request *request,
                                    struct hrf_strbuf *out, struct hrf_error *err)
{
    struct words words = { .n = 0 };
    struct hrf_strbuf error = HRF_STRBUF_INIT;
    struct hrf_process_result result = { .exited = false };
    enum hrf_status status = make_words(w, precision, request, &words, err);
    if (status == HRF_OK)
        status = hrf_process_run(words.argv, NULL, NULL, PATIENCE_MS, MOST_BYTES, out, &error,
                                 &result, err);
    if (status == HRF_OK && (!result.exited || result.exit_code != 0)) {
        const char *text = strstr(error.text, "hires-engine plan: ");
        text = text != NULL ? text + strlen("hires-engine plan: ") : error.text;
        status = hrf_error_set(err, HRF_E_USER, "%.*s", (int)strcspn(text, "\n"), text);
    }
    for (int i = 0; i < words.n_own; i++)
        hrf_free(words.own[i]);
    hrf_strbuf_release(&error);
    return status;
}

enum hrf_status hrf_cli_plan_memory(const struct hrf_workflow *w, const char *precision,
                                    int64_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_AUTO_JSON answer = NULL;
    json_t *layouts;
    const struct hrf_layout_request request = { .json = true };
    HRF_TRY(hrf_cli_plan_layout(w, precision, &request, &text, err));
    HRF_TRY(hrf_json_parse(text.text, text.length, "hires-engine plan", &answer, err));
    HRF_TRY(hrf_json_get_array(answer, "layouts", "hires-engine plan", &layouts, err));
    return hrf_json_get_int(json_array_get(layouts, 0), "peak_memory_bytes", "hires-engine plan",
                            n_bytes, err);
}
