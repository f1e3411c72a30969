/* page.c - fills the placeholders of the page's files (page/) with its parts. */
#include "aggregate/report/page.h"

#include "aggregate/report/page_private.h"
#include "base/embedded.h"

#include <assert.h>
#include <string.h>

extern const struct hrf_embedded hrf_report_files[];

/* What a page is filled with. */
struct page {
    const struct hrf_cohort *cohort;
    const struct hrf_page_slide *extras; /* of a run's page */
    const char *made_at;
    const struct hrf_run_pair *pair; /* of a comparison's page */
    const char *const *directories;
};

static void name(struct hrf_out *out, const struct page *page)
{
    hrf_out_html(out, page->cohort->name);
}

static void summary(struct hrf_out *out, const struct page *page)
{
    const struct hrf_cohort *cohort = page->cohort;
    hrf_out_addf(out, "%zu slide%s at ", cohort->counts.total,
                 cohort->counts.total == 1 ? "" : "s");
    for (size_t i = 0; i < cohort->n_precisions; i++)
        hrf_out_markup(out, "%s%s", i > 0 ? ", " : "", cohort->precisions[i].name);
    if (cohort->has_head)
        hrf_out_addf(out, " · slide scores by a slide head, positive from %g", cohort->threshold);
    else if (!cohort->is_embedding)
        hrf_out_markup(out, " · slide score %s, positive from %g", hrf_cohort_method(cohort),
                       cohort->threshold);
    if (cohort->tuning.is_asked_for && cohort->tuning.reason != NULL)
        hrf_out_markup(out, " (none could be chosen: %s)", cohort->tuning.reason);
    else if (cohort->tuning.is_asked_for)
        hrf_out_addf(out, " (chosen on %zu other slides)", cohort->tuning.n_slides);
    hrf_out_markup(out, " · %s", page->made_at);
}

static void warnings(struct hrf_out *out, const struct page *page)
{
    if (page->cohort->calibration.loss_is_large)
        hrf_out_markup(out, "<p><span class=\"tag bad\">INT8 loses much</span> %s</p>\n",
                       page->cohort->calibration.loss_text);
}

static void slides(struct hrf_out *out, const struct page *page)
{
    hrf_page_slides(out, page->cohort, page->extras);
}

static void without_match(struct hrf_out *out, const struct page *page)
{
    const struct hrf_run_pair *pair = page->pair;
    hrf_out_markup(
        out, "<section><h2>Without a match <small>%s patches only in A, %s only in B</small></h2>",
        hrf_count_text(pair->n_only[0]).text, hrf_count_text(pair->n_only[1]).text);
    if (pair->n_notes == 0)
        hrf_out_adds(out, "<p class=\"none\">Every slide and patch has its match.</p>");
    hrf_out_adds(out, "<table class=\"list\"><tbody>\n");
    for (size_t i = 0; i < pair->n_notes && i < HRF_PAGE_SLIDES; i++)
        hrf_out_markup(out, "<tr><td class=\"name\">%s</td><td>%s</td></tr>\n",
                       pair->notes[i].slide, pair->notes[i].text);
    hrf_out_adds(out, "</tbody></table>");
    if (pair->n_notes > HRF_PAGE_SLIDES)
        hrf_out_markup(out, "<p class=\"none\">and %zu more: compare.json</p>",
                       pair->n_notes - HRF_PAGE_SLIDES);
    hrf_out_adds(out, "</section>\n");
}

static void runs(struct hrf_out *out, const struct page *page)
{
    hrf_out_adds(out, "<section><h2>Runs</h2><dl>\n");
    hrf_page_fact(out, "A", page->directories[0]);
    hrf_page_fact(out, "B", page->directories[1]);
    hrf_out_adds(out, "</dl></section>\n");
}

/* What stands in the place of "{{name}}" of page/. */
static const struct part {
    const char *name;
    bool needs_labels; /* without labelled slides there is nothing */
    void (*of_page)(struct hrf_out *out, const struct page *page);
    void (*of_cohort)(struct hrf_out *out, const struct hrf_cohort *cohort);
} parts[] = {
    { "name", .of_page = name },
    { "summary", .of_page = summary },
    { "warnings", .of_page = warnings },
    { "cards", .of_cohort = hrf_page_cards },
    { "roc", .needs_labels = true, .of_cohort = hrf_page_roc },
    { "precision-recall", .needs_labels = true, .of_cohort = hrf_page_precision_recall },
    { "froc", .of_cohort = hrf_page_froc },
    { "segmentation", .of_cohort = hrf_page_segmentation },
    { "histogram", .of_cohort = hrf_page_histogram },
    { "confusion", .needs_labels = true, .of_cohort = hrf_page_confusion },
    { "operating-points", .needs_labels = true, .of_cohort = hrf_page_operating_points },
    { "classes", .needs_labels = true, .of_cohort = hrf_page_classes },
    { "study", .of_cohort = hrf_page_study },
    { "times", .of_cohort = hrf_page_times },
    { "timeline", .of_cohort = hrf_page_timeline },
    { "slides", .of_page = slides },
    { "left-out", .of_cohort = hrf_page_left_out },
    { "provenance", .of_cohort = hrf_page_provenance },
    { "without-match", .of_page = without_match },
    { "runs", .of_page = runs },
};

/* A part, or else a file of page/. */
static void fill(struct hrf_out *out, const char *name_of_it, const void *context)
{
    const struct page *page = context;
    const bool has_labels = page->cohort->precisions[0].slides.n_labelled > 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].name, name_of_it) != 0)
            continue;
        if (parts[i].needs_labels && !has_labels)
            return;
        if (parts[i].of_page != NULL)
            parts[i].of_page(out, page);
        else
            parts[i].of_cohort(out, page->cohort);
        return;
    }
    const struct hrf_embedded *file = hrf_embedded_find(hrf_report_files, name_of_it);
    assert(file != NULL);
    hrf_out_adds(out, file->text);
}

static enum hrf_status write_page(const char *file, const struct page *page, const char *path,
                                  struct hrf_error *err)
{
    return hrf_page_write(hrf_embedded_find(hrf_report_files, file)->text, fill, page, path, err);
}

enum hrf_status hrf_report_page(const struct hrf_cohort *cohort,
                                const struct hrf_page_slide *extras, const char *made_at,
                                const char *path, struct hrf_error *err)
{
    const struct page page = { .cohort = cohort, .extras = extras, .made_at = made_at };
    return write_page("report.html", &page, path, err);
}

enum hrf_status hrf_report_pair_page(const struct hrf_run_pair *pair,
                                     const char *const directories[2], const char *made_at,
                                     const char *path, struct hrf_error *err)
{
    const struct page page = {
        .cohort = pair->cohort, .made_at = made_at, .pair = pair, .directories = directories
    };
    return write_page("compare.html", &page, path, err);
}
