/* check_layouts.c - ranks that share the device, and bands: the bytes of one rank. */
#include "base/random.h"
#include "engine/check/check_rows.h"
#include "engine/run/banded.h"
#include "engine/run/made_ranges.h"
#include "engine/run/parallel.h"

#include <stdio.h>
#include <string.h>

/* INT8 by ranks of one process on the one device, or in bands: the same bytes as without. */
static const struct {
    const char *model, *layout; /* NULL: in bands */
} layouts[] = {
    { "resnet18", "spatial=2" }, { "resnet18", "spatial=2x2" }, { "resnet18", "stages=2" },
    { "resnet18", NULL },        { "unet:3,8", "spatial=3" },   { "unet:3,8", NULL },
    { "vit:2,128", "stages=2" }, { "vit:2,128", "spatial=2" },  { "vit:2,128", "tensor=2" },
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], LAYOUT_SIZE = 64 };

static enum hrf_status run_ranks(const struct hrf_graph *graph,
                                 const struct hrf_session_config *config, const char *layout,
                                 struct hrf_array_source *source, float *out, size_t n_bytes,
                                 struct hrf_error *err)
{
    enum { WATCHDOG_MS = 120000 };
    HRF_AUTO(hrf_parallel) parallel = NULL;
    struct hrf_layout_plan plan;
    HRF_TRY(hrf_layout_parse(layout, &plan, err));
    HRF_TRY(hrf_parallel_create(graph, config, &plan, WATCHDOG_MS, &parallel, err));
    HRF_TRY(hrf_parallel_run(parallel, hrf_read_array, source, err));
    memcpy(out, hrf_parallel_output(parallel, 0), n_bytes);
    return HRF_OK;
}

static enum hrf_status run_bands(const struct hrf_graph *graph,
                                 const struct hrf_session_config *config,
                                 struct hrf_array_source *source, float *out, size_t n_bytes,
                                 struct hrf_error *err)
{
    const struct hrf_banded_options options = { .n_bands = HRF_CHECK_BANDS };
    HRF_AUTO(hrf_banded) banded = NULL;
    HRF_TRY(hrf_banded_create(graph, config, &options, &banded, err));
    HRF_TRY(hrf_banded_run(banded, hrf_read_array, source, err));
    memcpy(out, hrf_banded_output(banded, 0), n_bytes);
    return HRF_OK;
}

static enum hrf_status compare_layout(const struct hrf_check *check, const char *model,
                                      const char *layout, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_made_ranges) made = { .fused = NULL };
    HRF_TRY(hrf_check_graph(NULL, model, LAYOUT_SIZE, 1, &graph, err));
    struct hrf_array_source source = { .shape = graph->values[graph->inputs[0]].shape };
    const int64_t n_in = hrf_shape_count(&source.shape);
    const size_t n_bytes = (size_t)hrf_shape_count(&graph->values[graph->outputs[0]].shape) *
                           sizeof(float);
    HRF_AUTO_FREE float *images = hrf_try_alloc_array((size_t)n_in, sizeof *images);
    HRF_AUTO_FREE float *whole = hrf_try_alloc(n_bytes), *parts = hrf_try_alloc(n_bytes);
    HRF_CHECK_MEMORY(images != NULL && whole != NULL && parts != NULL, err,
                     "no memory for the images");
    struct hrf_random random = hrf_random_init(1);
    for (int64_t i = 0; i < n_in; i++)
        images[i] = (float)(hrf_random_unit(&random) * 4 - 2);
    source.data = images;
    HRF_TRY(hrf_made_ranges_init(graph, &made, err));
    const struct hrf_session_config config = { .device = check->device,
                                               .precision = HRF_INT8,
                                               .ranges = made.ranges,
                                               .n_ranges = made.n_ranges };
    enum hrf_status status = run_ranks(graph, &config, NULL, &source, whole, n_bytes, err);
    if (status == HRF_OK)
        status = layout != NULL ? run_ranks(graph, &config, layout, &source, parts, n_bytes, err)
                                : run_bands(graph, &config, &source, parts, n_bytes, err);
    if (status == HRF_OK && memcmp(whole, parts, n_bytes) != 0)
        return hrf_error_set(err, HRF_E_EXTERNAL, "its bytes differ from one rank's");
    return status;
}

static const char *layout_text(int row)
{
    return layouts[row].layout != NULL ? layouts[row].layout : "bands=3";
}

static void name_layout(int row, char *name, size_t size)
{
    snprintf(name, size, "%s-%s", layouts[row].model, layout_text(row));
}

static void run_layout(const struct hrf_check *check, int row, struct hrf_check_row *out)
{
    struct hrf_error why = { .text = "" };
    out->good = compare_layout(check, layouts[row].model, layouts[row].layout, &why) == HRF_OK;
    snprintf(out->text, sizeof out->text, "%-20s %4d px int8  %s: %s", layouts[row].model,
             (int)LAYOUT_SIZE, layout_text(row), out->good ? "the same bytes" : why.text);
    out->json = json_object();
    hrf_json_put_text(out->json, "model", layouts[row].model);
    hrf_json_put_text(out->json, "precision", hrf_precision_name(HRF_INT8));
    hrf_json_put_text(out->json, "layout", layout_text(row));
    hrf_json_put_text(out->json, "error", why.text);
}

bool hrf_check_layout(int i, struct hrf_check_network *out, const char **layout)
{
    if (i >= (int)N_LAYOUTS)
        return false;
    *out = (struct hrf_check_network){ layouts[i].model, HRF_INT8, LAYOUT_SIZE, 1 };
    *layout = layouts[i].layout;
    return true;
}

const struct hrf_check_part hrf_check_layouts = { "layouts", N_LAYOUTS, N_LAYOUTS, name_layout,
                                                  run_layout };
