/* slides_summary.c - see slides_summary.h. */
#include "orchestrator/cli/slides_summary.h"

#include "orchestrator/cli/cli.h"
#include "orchestrator/run/forecast.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Patches that are a little finer than the slide are not resampled (patch_reader.h). */
static const double upsampling_slack = 0.98;

static void count(struct hrf_tally *tally, const char *text)
{
    int i = 0;
    while (i < tally->n_items && strcmp(tally->items[i].text, text) != 0)
        i++;
    if (i >= HRF_TALLY_MAX - 1) {
        i = HRF_TALLY_MAX - 1;
        text = "others";
    }
    if (i >= tally->n_items) {
        tally->n_items = i + 1;
        snprintf(tally->items[i].text, sizeof tally->items[i].text, "%s", text);
    }
    tally->items[i].n++;
}

bool hrf_slide_is_upsampled(const struct hrf_workflow *w, const struct hrf_slide_finding *finding)
{
    const double wanted = w->tiler.mode == HRF_TILER_SLIDE ? w->tiler.slide.mpp
                                                           : w->tiler.patch.mpp;
    const double finest = finding->mpp_x < finding->mpp_y ? finding->mpp_x : finding->mpp_y;
    return finding->kind == HRF_SLIDE_IS_READY && wanted < finest * upsampling_slack;
}

static void count_slide(struct hrf_slides_summary *all, size_t i)
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
    const int64_t patches = hrf_forecast_cells(all->workflow, finding);
    all->patches += patches;
    all->n_without_patches += patches == 0;
    all->n_upsampled += hrf_slide_is_upsampled(all->workflow, finding);
}

void hrf_slides_summary_make(const struct hrf_workflow *workflow, const struct hrf_slide_rows *rows,
                             const struct hrf_survey *survey, struct hrf_slides_summary *out)
{
    *out = (struct hrf_slides_summary){ .workflow = workflow, .rows = rows, .survey = survey };
    for (size_t i = 0; i < survey->n_items; i++)
        count_slide(out, i);
}

/* The properties by which slides are counted. */
static const struct {
    const char *name;
    size_t at; /* offset of its struct hrf_tally */
} tallies[] = {
    { "formats", offsetof(struct hrf_slides_summary, vendors) },
    { "scanners", offsetof(struct hrf_slides_summary, scanners) },
    { "resolutions", offsetof(struct hrf_slides_summary, resolutions) },
};
enum { N_TALLIES = sizeof tallies / sizeof tallies[0] };

static const struct hrf_tally *tally_of(const struct hrf_slides_summary *all, int i)
{
    return (const void *)((const char *)all + tallies[i].at);
}

/* Prints the number of slides of a kind, and the first few by name and reason. */
static void print_kind(const struct hrf_slides_summary *all, enum hrf_finding_kind kind)
{
    enum { SHOWN = 5 };
    int64_t shown = 0;
    if (all->n[kind] == 0)
        return;
    hrf_cli_printf("%lld %s\n", (long long)all->n[kind], hrf_finding_text(kind));
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

void hrf_slides_summary_print_faults(const struct hrf_slides_summary *all)
{
    const struct hrf_workflow *w = all->workflow;
    for (int kind = 0; kind < HRF_N_FINDING_KINDS; kind++)
        if (kind != HRF_SLIDE_IS_READY)
            print_kind(all, (enum hrf_finding_kind)kind);
    if (all->n_upsampled > 0)
        hrf_cli_printf("%lld with pixels made up: patches of %g um/px are finer than the slide\n",
                       (long long)all->n_upsampled,
                       w->tiler.mode == HRF_TILER_SLIDE ? w->tiler.slide.mpp : w->tiler.patch.mpp);
    if (all->n_without_patches > 0)
        hrf_cli_printf("%lld too small for a patch\n", (long long)all->n_without_patches);
}

void hrf_slides_summary_print_kinds(const struct hrf_slides_summary *all, int indent)
{
    if (all->largest == 0)
        return;
    for (int k = 0; k < N_TALLIES; k++) {
        const struct hrf_tally *tally = tally_of(all, k);
        hrf_cli_printf("%*s%-12s", indent, "", tallies[k].name);
        for (int i = 0; i < tally->n_items; i++)
            hrf_cli_printf("%s%lld %s", i > 0 ? ", " : "", (long long)tally->items[i].n,
                           tally->items[i].text);
        hrf_cli_printf("\n");
    }
    hrf_cli_printf("%*s%-12s%.3g to %.3g megapixels\n", indent, "", "sizes",
                   (double)all->smallest / 1e6, (double)all->largest / 1e6);
}

void hrf_slides_summary_json(const struct hrf_slides_summary *all, json_t *object)
{
    json_t *counts = json_object();
    hrf_json_put_int(counts, "total", (int64_t)all->survey->n_items);
    for (int k = 0; k < HRF_N_FINDING_KINDS; k++)
        hrf_json_put_int(counts, hrf_finding_word((enum hrf_finding_kind)k), all->n[k]);
    hrf_json_put_int(counts, "upsampled", all->n_upsampled);
    hrf_json_put_int(counts, "without_patches", all->n_without_patches);
    hrf_json_put(object, "counts", counts);
    for (int k = 0; k < N_TALLIES; k++) {
        const struct hrf_tally *tally = tally_of(all, k);
        json_t *value = json_object();
        for (int i = 0; i < tally->n_items; i++)
            hrf_json_put_int(value, tally->items[i].text, tally->items[i].n);
        hrf_json_put(object, tallies[k].name, value);
    }
    hrf_json_put_int(object, "bytes", all->bytes);
}
