/* plan_forecast.c - see plan_forecast.h. */
#include "orchestrator/cli/plan_forecast.h"

#include "base/file_system.h"
#include "base/quantity.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/plan_layout.h"
#include "orchestrator/cli/slides_summary.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

/* ---- what the engine knows ---- */

static void ask_engine(const struct hrf_workflow *w, size_t p, struct hrf_forecast_rates *rates)
{
    const struct hrf_layout_request request = { .json = true };
    HRF_AUTO_JSON answer = NULL;
    if (hrf_cli_plan_layout_json(w, w->precision[p], &request, &answer, NULL) != HRF_OK)
        return;
    const json_t *layout = json_array_get(json_object_get(answer, "layouts"), 0);
    const char *source = json_string_value(
        json_object_get(json_object_get(answer, "known"), "cost_source"));
    const json_t *first = json_array_get(json_object_get(layout, "per_rank"), 0);
    rates->patches_per_second[p] = json_number_value(json_object_get(layout, "images_per_second"));
    rates->weight_bytes += json_integer_value(json_object_get(first, "weight_bytes"));
    rates->embedding_width = json_integer_value(json_object_get(answer, "outputs_per_image"));
    if (source != NULL)
        snprintf(rates->from, sizeof rates->from, "%s", source);
}

enum hrf_status hrf_cli_forecast(const struct hrf_workflow *w, const char *directory,
                                 const struct hrf_preview *preview, struct hrf_forecast *out,
                                 struct hrf_error *err)
{
    struct hrf_forecast_rates rates = { .from = "" };
    for (size_t p = 0; p < w->n_precisions; p++)
        ask_engine(w, p, &rates);
    return hrf_forecast_make(w, directory, preview, &rates, out, err);
}

/* ---- text ---- */

void hrf_cli_print_slides(const struct hrf_workflow *w, const struct hrf_forecast *f)
{
    struct hrf_slides_summary summary;
    if (f->n_opened == 0)
        return;
    hrf_slides_summary_make(w, &f->rows, &f->survey, &summary);
    hrf_cli_printf("headers   %lld of %lld slides to tile, opened in %.1f s: %lld can be scored, "
                   "files of %s\n",
                   (long long)f->n_opened, (long long)f->n_untiled, f->survey.seconds,
                   (long long)f->n_ready, hrf_bytes_text(summary.bytes).text);
    hrf_slides_summary_print_faults(&summary);
    hrf_slides_summary_print_kinds(&summary, 10);
}

static void print_patches(const struct hrf_workflow *w, const struct hrf_forecast *f)
{
    hrf_cli_printf("patches   about %.0f to score", hrf_forecast_patches(w, f));
    if (w->n_precisions > 1)
        hrf_cli_printf(" in %zu precisions together", w->n_precisions);
    if (w->study.stain_jitter > 0)
        hrf_cli_printf("%s with other stains",
                       w->n_precisions > 1 ? " and once more" : " twice, once");
    hrf_cli_printf("\n");
    if (f->known_patches > 0)
        hrf_cli_printf("          %lld of slides that are tiled\n", (long long)f->known_patches);
    if (f->n_untiled == 0)
        return;
    if (f->n_ready == 0) {
        hrf_cli_printf("          none of %lld slides that are not tiled yet can be scored\n",
                       (long long)f->n_untiled);
        return;
    }
    if (f->n_looked == 0) {
        hrf_cli_printf("          at most %.0f a precision in slides not tiled yet, if all were "
                       "tissue: none could be looked at\n",
                       f->patches);
        return;
    }
    hrf_cli_printf("          %.0f a precision estimated", f->patches);
    if (f->spread > 0)
        hrf_cli_printf(" (+- %.0f)", f->spread);
    hrf_cli_printf(" for %lld slides not tiled yet: %.1f %% of the grid is tissue, by a look at %s"
                   "%lld of them\n",
                   (long long)f->n_untiled,
                   f->n_cells > 0 ? 100 * f->patches / (double)f->n_cells : 0,
                   f->n_looked < f->n_ready ? "" : "all ", (long long)f->n_looked);
    if (w->tiler.tissue.method == HRF_TISSUE_ONNX && w->tiler.coords == NULL)
        hrf_cli_printf("          by otsu: the network that finds tissue is not asked here\n");
}

static const struct {
    const char *name;
    size_t at; /* offset of its struct hrf_forecast_time */
} phases[] = {
    { "tile", offsetof(struct hrf_forecast, tile) },
    { "calibrate", offsetof(struct hrf_forecast, calibrate) },
    { "infer", offsetof(struct hrf_forecast, infer) },
    { "train", offsetof(struct hrf_forecast, train) },
    { "report", offsetof(struct hrf_forecast, report) },
};
enum { N_PHASES = sizeof phases / sizeof phases[0] };

static const struct hrf_forecast_time *time_of(const struct hrf_forecast *f, int phase)
{
    return (const void *)((const char *)f + phases[phase].at);
}

static void print_time(const struct hrf_forecast *f)
{
    bool is_whole;
    const double sum = hrf_forecast_seconds(f, &is_whole);
    hrf_cli_printf("time      %s %s, waiting in queues not counted\n",
                   is_whole ? "about" : "at least", hrf_duration_text(sum).text);
    for (int i = 0; i < N_PHASES; i++) {
        const struct hrf_forecast_time *t = time_of(f, i);
        if (t->from[0] != '\0')
            hrf_cli_printf("          %-9s %-8s from %s\n", phases[i].name,
                           isnan(t->seconds) ? "?" : hrf_duration_text(t->seconds).text, t->from);
    }
}

static void print_disk(const char *directory, const struct hrf_forecast *f)
{
    const int64_t sum = hrf_forecast_bytes(f), available = hrf_file_system_free(directory);
    const char *before = "";
    hrf_cli_printf("disk      about %s (", hrf_bytes_text(sum).text);
    for (int i = 0; i < HRF_N_ROOMS; i++)
        if (f->n_bytes[i] > 0) {
            hrf_cli_printf("%s%s %s", before, hrf_forecast_room_name((enum hrf_forecast_room)i),
                           hrf_bytes_text(f->n_bytes[i]).text);
            before = ", ";
        }
    hrf_cli_printf(")");
    if (available >= 0)
        hrf_cli_printf(available < sum ? ", but only %s are free" : ", of %s that are free",
                       hrf_bytes_text(available).text);
    hrf_cli_printf("\n");
}

void hrf_cli_print_forecast(const struct hrf_workflow *w, const char *directory,
                            const struct hrf_forecast *f)
{
    print_patches(w, f);
    print_time(f);
    print_disk(directory, f);
}

/* ---- JSON ---- */

json_t *hrf_cli_forecast_json(const struct hrf_workflow *w, const char *directory,
                              const struct hrf_forecast *f)
{
    bool is_whole;
    const double seconds = hrf_forecast_seconds(f, &is_whole);
    const int64_t available = hrf_file_system_free(directory);
    json_t *disk = json_object(), *slides = json_object();
    for (int i = 0; i < HRF_N_ROOMS; i++)
        hrf_json_put_int(disk, hrf_forecast_room_name((enum hrf_forecast_room)i), f->n_bytes[i]);
    struct hrf_slides_summary summary;
    hrf_slides_summary_make(w, &f->rows, &f->survey, &summary);
    hrf_slides_summary_json(&summary, slides);
    json_t *patches = json_object();
    hrf_json_put_number(patches, "expected", hrf_forecast_patches(w, f));
    hrf_json_put_int(patches, "known", f->known_patches);
    hrf_json_put_number(patches, "estimated_a_precision", f->n_untiled > 0 ? f->patches : 0);
    hrf_json_put_number(patches, "two_standard_errors", f->spread);
    hrf_json_put_int(patches, "if_all_were_tissue", f->n_cells);
    hrf_json_put_int(patches, "slides_looked_at", f->n_looked);
    json_t *time = json_object();
    hrf_json_put_number(time, "seconds", seconds);
    hrf_json_put_bool(time, "is_whole", is_whole);
    for (int i = 0; i < N_PHASES; i++) {
        json_t *phase = json_object();
        hrf_json_put_number(phase, "seconds", time_of(f, i)->seconds);
        hrf_json_put_text(phase, "from", time_of(f, i)->from);
        hrf_json_put(time, phases[i].name, phase);
    }
    json_t *object = json_object();
    hrf_json_put_int(object, "slides_to_tile", f->n_untiled);
    hrf_json_put_int(object, "opened", f->n_opened);
    hrf_json_put(object, "headers", slides);
    hrf_json_put(object, "patches", patches);
    hrf_json_put(object, "time", time);
    hrf_json_put_int(object, "bytes", hrf_forecast_bytes(f));
    hrf_json_put(object, "disk", disk);
    hrf_json_put(object, "bytes_free", available >= 0 ? json_integer(available) : json_null());
    return object;
}
