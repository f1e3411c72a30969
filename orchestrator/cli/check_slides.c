/* check_slides.c - see check_slides.h. */
#include "orchestrator/cli/check_slides.h"

#include "base/json.h"
#include "base/own_process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/ingest/survey.h"
#include "tiler/grid/grid.h"

#include <stdio.h>
#include <string.h>

/* Threads wait for disks most of the time. */
enum { THREADS_PER_CORE = 4, MOST_THREADS = 64 };
/* Patches that are a little finer than the slide are not resampled (patch_reader.h). */
static const double upsampling_slack = 0.98;

struct counted {
    char text[80];
    int64_t n;
};
/* How often each text occurs; what does not fit is counted as "others". */
enum { MOST_TEXTS = 24 };
struct tally {
    struct counted items[MOST_TEXTS];
    int n_items;
};

struct overall {
    const struct hrf_workflow *workflow;
    const struct hrf_slide_rows *rows;
    const struct hrf_survey *survey;
    int64_t n[HRF_N_FINDING_KINDS], n_upsampled, n_without_patches, patches, bytes;
    int64_t smallest, largest; /* px of level 0 */
    struct tally vendors, scanners, resolutions;
};

static void count(struct tally *tally, const char *text)
{
    int i = 0;
    while (i < tally->n_items && strcmp(tally->items[i].text, text) != 0)
        i++;
    if (i >= MOST_TEXTS - 1) {
        i = MOST_TEXTS - 1;
        text = "others";
    }
    if (i >= tally->n_items) {
        tally->n_items = i + 1;
        snprintf(tally->items[i].text, sizeof tally->items[i].text, "%s", text);
    }
    tally->items[i].n++;
}

static bool is_upsampled(const struct hrf_workflow *w, const struct hrf_slide_finding *finding)
{
    const double wanted = w->tiler.mode == HRF_TILER_SLIDE ? w->tiler.slide.mpp
                                                           : w->tiler.patch.mpp;
    const double finest = finding->mpp_x < finding->mpp_y ? finding->mpp_x : finding->mpp_y;
    return finding->kind == HRF_SLIDE_IS_READY && wanted < finest * upsampling_slack;
}

/* Patches if all of the slide were tissue. */
static int64_t most_patches(const struct hrf_workflow *w, const struct hrf_slide_finding *finding)
{
    struct hrf_grid grid;
    if (w->tiler.mode == HRF_TILER_SLIDE)
        return 1;
    if (hrf_grid_make(finding->width, finding->height, finding->mpp_x, finding->mpp_y,
                      w->tiler.patch.size, w->tiler.patch.mpp, w->tiler.patch.stride, &grid,
                      NULL) != HRF_OK ||
        hrf_grid_cover_edge(&grid, (enum hrf_grid_edge)w->tiler.patch.edge, NULL) != HRF_OK)
        return 0;
    return (int64_t)grid.columns * grid.rows;
}

static void add(struct overall *all, size_t i)
{
    const struct hrf_slide_finding *finding = &all->survey->items[i];
    const int64_t area = finding->width * finding->height;
    char text[80];
    all->n[finding->kind]++;
    all->bytes += all->rows->items[i].n_bytes;
    if (area > 0) {
        count(&all->vendors, finding->vendor);
        count(&all->scanners, finding->scanner[0] != '\0' ? finding->scanner : "not said");
        all->smallest = all->smallest == 0 || area < all->smallest ? area : all->smallest;
        all->largest = area > all->largest ? area : all->largest;
    }
    if (finding->kind != HRF_SLIDE_IS_READY)
        return;
    snprintf(text, sizeof text, "%.2f um/px (%s)", (finding->mpp_x + finding->mpp_y) / 2,
             hrf_mpp_source_name(finding->source));
    count(&all->resolutions, text);
    const int64_t patches = most_patches(all->workflow, finding);
    all->patches += patches;
    all->n_without_patches += patches == 0;
    all->n_upsampled += is_upsampled(all->workflow, finding);
}

static void print_tally(const char *title, const struct tally *tally)
{
    hrf_cli_printf("%-12s", title);
    for (int i = 0; i < tally->n_items; i++)
        hrf_cli_printf("%s%lld %s", i > 0 ? ", " : "", (long long)tally->items[i].n,
                       tally->items[i].text);
    hrf_cli_printf("\n");
}

/* The slides of a kind: the first few by name and reason. */
static void print_kind(const struct overall *all, enum hrf_finding_kind kind, const char *title)
{
    enum { SHOWN = 5 };
    int64_t shown = 0;
    if (all->n[kind] == 0)
        return;
    hrf_cli_printf("%lld %s\n", (long long)all->n[kind], title);
    for (size_t i = 0; i < all->survey->n_items && shown < SHOWN; i++) {
        if (all->survey->items[i].kind != kind)
            continue;
        const char *reason = all->survey->items[i].reason;
        hrf_cli_printf("  %s: %s\n", all->rows->items[i].name, reason != NULL ? reason : "");
        shown++;
    }
    if (all->n[kind] > shown)
        hrf_cli_printf("  and %lld more (--json names them all)\n",
                       (long long)(all->n[kind] - shown));
}

/* Scores as text and numbers, for each precision; heatmaps and embeddings come on top. */
static int64_t result_bytes(const struct overall *all)
{
    enum { PER_PATCH = 120, PER_SCORE = 14 };
    const int64_t n_scores = (int64_t)all->workflow->model.classes.n_items;
    return all->patches * (int64_t)all->workflow->n_precisions * (PER_PATCH + PER_SCORE * n_scores);
}

static void print_text(const struct overall *all, const char *warnings)
{
    const double gigabyte = 1e9;
    const struct hrf_workflow *w = all->workflow;
    hrf_cli_printf("%zu slides, %.1f GB, looked at in %.1f s\n%lld can be scored\n",
                   all->survey->n_items, (double)all->bytes / gigabyte, all->survey->seconds,
                   (long long)all->n[HRF_SLIDE_IS_READY]);
    print_kind(all, HRF_SLIDE_IS_EXCLUDED, "excluded");
    print_kind(all, HRF_SLIDE_IS_MISSING, "missing");
    print_kind(all, HRF_SLIDE_IS_UNREADABLE, "that cannot be opened");
    print_kind(all, HRF_SLIDE_IS_CUT_SHORT, "cut short");
    print_kind(all, HRF_SLIDE_IS_CHANGING, "still being copied");
    print_kind(all, HRF_SLIDE_HAS_NO_MPP, "without a resolution");
    if (all->n_upsampled > 0)
        hrf_cli_printf("%lld with pixels made up: patches of %g um/px are finer than the slide\n",
                       (long long)all->n_upsampled,
                       w->tiler.mode == HRF_TILER_SLIDE ? w->tiler.slide.mpp : w->tiler.patch.mpp);
    if (all->n_without_patches > 0)
        hrf_cli_printf("%lld too small for a patch\n", (long long)all->n_without_patches);
    hrf_cli_printf("%s", warnings);
    if (all->largest > 0) {
        print_tally("formats", &all->vendors);
        print_tally("scanners", &all->scanners);
        print_tally("resolutions", &all->resolutions);
        hrf_cli_printf("sizes       %.3g to %.3g megapixels\n", (double)all->smallest / 1e6,
                       (double)all->largest / 1e6);
    }
    hrf_cli_printf("patches     at most %lld, if all were tissue; their scores take %.2f GB\n",
                   (long long)all->patches, (double)result_bytes(all) / gigabyte);
}

static json_t *tally_json(const struct tally *tally)
{
    json_t *value = json_object();
    for (int i = 0; i < tally->n_items; i++)
        json_object_set_new(value, tally->items[i].text, json_integer(tally->items[i].n));
    return value;
}

static json_t *slides_json(const struct overall *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < all->survey->n_items; i++) {
        const struct hrf_slide_finding *f = &all->survey->items[i];
        const struct hrf_slide_row *row = &all->rows->items[i];
        json_t *slide = json_pack("{sosossss}", "slide", hrf_json_string(row->name), "path",
                                  hrf_json_string(row->path), "state", hrf_finding_word(f->kind),
                                  "vendor", f->vendor);
        json_object_set_new(slide, "reason",
                            f->reason != NULL ? hrf_json_string(f->reason) : json_null());
        json_object_set_new(slide, "scanner", hrf_json_string(f->scanner));
        json_object_set_new(slide, "bytes", json_integer(row->n_bytes));
        json_object_set_new(slide, "width", json_integer(f->width));
        json_object_set_new(slide, "height", json_integer(f->height));
        json_object_set_new(slide, "mpp_x", f->mpp_x > 0 ? json_real(f->mpp_x) : json_null());
        json_object_set_new(slide, "mpp_y", f->mpp_y > 0 ? json_real(f->mpp_y) : json_null());
        json_object_set_new(slide, "mpp_source", json_string(hrf_mpp_source_name(f->source)));
        json_object_set_new(slide, "upsampled", json_boolean(is_upsampled(all->workflow, f)));
        json_array_append_new(list, slide);
    }
    return list;
}

static void print_json(const struct overall *all, const char *warnings)
{
    json_t *counts = json_object();
    json_object_set_new(counts, "total", json_integer((json_int_t)all->survey->n_items));
    for (int k = 0; k < HRF_N_FINDING_KINDS; k++)
        json_object_set_new(counts, hrf_finding_word((enum hrf_finding_kind)k),
                            json_integer(all->n[k]));
    json_object_set_new(counts, "upsampled", json_integer(all->n_upsampled));
    json_object_set_new(counts, "without_patches", json_integer(all->n_without_patches));
    HRF_AUTO_JSON value = json_pack(
        "{sisososososososIsIsI}", "version", 1, "counts", counts, "slides", slides_json(all),
        "warnings", hrf_cli_lines_json(warnings), "formats", tally_json(&all->vendors), "scanners",
        tally_json(&all->scanners), "resolutions", tally_json(&all->resolutions), "bytes",
        (json_int_t)all->bytes, "patches_at_most", (json_int_t)all->patches, "result_bytes_at_most",
        (json_int_t)result_bytes(all));
    if (value != NULL)
        json_object_set_new(value, "seconds", hrf_json_number(all->survey->seconds));
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    puts(text != NULL ? text : "{}");
}

int hrf_cli_check_slides(const struct hrf_workflow *workflow, bool is_json)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_slide_rows rows = { .items = NULL };
    struct hrf_survey survey = { .items = NULL };
    struct hrf_strbuf warnings = HRF_STRBUF_INIT;
    const int32_t wanted = hrf_process_cpu_count() * THREADS_PER_CORE;
    enum hrf_status status = hrf_ingest(workflow, &rows, &warnings, &err);
    if (status == HRF_OK)
        status = hrf_survey_make(&rows, workflow->dataset.mpp,
                                 wanted < MOST_THREADS ? wanted : MOST_THREADS, &survey, &err);
    struct overall all = { .workflow = workflow, .rows = &rows, .survey = &survey };
    for (size_t i = 0; i < survey.n_items; i++)
        add(&all, i);
    if (status == HRF_OK)
        (is_json ? print_json : print_text)(&all, warnings.text != NULL ? warnings.text : "");
    const size_t n_good = (size_t)(all.n[HRF_SLIDE_IS_READY] + all.n[HRF_SLIDE_IS_EXCLUDED]);
    const int code = status != HRF_OK          ? hrf_cli_fail("check", &err)
                     : n_good < survey.n_items ? HRF_EXIT_PARTIAL
                                               : 0;
    hrf_survey_release(&survey);
    hrf_slide_rows_release(&rows);
    hrf_strbuf_release(&warnings);
    return code;
}
