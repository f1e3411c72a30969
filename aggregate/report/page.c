/* page.c - the page's frame and the order of its parts; texts of figures. */
#include "aggregate/report/page.h"

#include "aggregate/report/page_private.h"

#include <math.h>
#include <stdio.h>

void hrf_page_figure(struct hrf_out *out, const struct hrf_figure *figure, int decimals)
{
    if (isnan(figure->value)) {
        hrf_out_markup(out, "<span class=\"dash\" title=\"%s\">–</span>",
                       figure->reason != NULL ? figure->reason : "not known");
        return;
    }
    if (decimals >= 0)
        hrf_out_addf(out, "%.*f", decimals, figure->value);
    else
        hrf_out_addf(out, "%.3g", figure->value);
}

struct hrf_page_text hrf_page_seconds(double seconds)
{
    struct hrf_page_text out;
    const long long s = llround(seconds);
    if (seconds < 60.0)
        snprintf(out.text, sizeof out.text, seconds < 10.0 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        snprintf(out.text, sizeof out.text, "%lld min %02lld s", s / 60, s % 60);
    else
        snprintf(out.text, sizeof out.text, "%lld h %02lld min", s / 3600, s / 60 % 60);
    return out;
}

struct hrf_page_text hrf_page_bytes(int64_t n_bytes)
{
    struct hrf_page_text out;
    double value = (double)n_bytes;
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    size_t unit = 0;
    for (; value >= 1000.0 && unit < 4; unit++)
        value /= 1000.0;
    snprintf(out.text, sizeof out.text, unit == 0 || value >= 100.0 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
    return out;
}

struct hrf_page_text hrf_page_count(int64_t count)
{
    struct hrf_page_text out;
    char digits[32], *to = out.text;
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)count);
    for (int i = 0; i < n; i++) {
        *to++ = digits[i];
        if (i + 1 < n && (n - i - 1) % 3 == 0 && digits[i] != '-')
            *to++ = ',';
    }
    *to = '\0';
    return out;
}

static void head(struct hrf_out *out, const struct hrf_cohort *cohort, const char *made_at)
{
    hrf_out_markup(out,
                   "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta name=\"generator\" content=\"hires-flow\">\n"
                   "<title>%s · hires-flow report</title>\n",
                   cohort->name);
    hrf_page_style(out);
    hrf_out_markup(out, "</head><body><main>\n<header><h1>%s</h1><p>%zu slide%s at ", cohort->name,
                   cohort->counts.total, cohort->counts.total == 1 ? "" : "s");
    for (size_t i = 0; i < cohort->n_precisions; i++)
        hrf_out_addf(out, "%s%s", i > 0 ? ", " : "", cohort->precisions[i].name);
    if (cohort->has_head)
        hrf_out_addf(out, " · slide scores by a slide head, positive from %g", cohort->threshold);
    else if (!cohort->is_embedding)
        hrf_out_markup(out, " · slide score %s, positive from %g", hrf_cohort_method(cohort),
                       cohort->threshold);
    if (cohort->tuning.is_asked_for && cohort->tuning.reason != NULL)
        hrf_out_markup(out, " (none could be chosen: %s)", cohort->tuning.reason);
    else if (cohort->tuning.is_asked_for)
        hrf_out_addf(out, " (chosen on %zu other slides)", cohort->tuning.n_slides);
    hrf_out_markup(out, " · %s</p></header>\n", made_at);
}

static enum hrf_status body(struct hrf_out *out, const struct hrf_cohort *cohort,
                            const struct hrf_page_slide *extras, struct hrf_error *err)
{
    const bool is_labelled = cohort->precisions[0].n_labelled > 0;
    hrf_page_cards(out, cohort);
    hrf_out_adds(out, "<div class=\"grid\">\n");
    if (is_labelled) {
        HRF_TRY(hrf_page_roc(out, cohort, err));
        HRF_TRY(hrf_page_precision_recall(out, cohort, err));
    }
    hrf_page_froc(out, cohort);
    hrf_page_segmentation(out, cohort);
    if (hrf_cohort_scores_slides(cohort) && !cohort->is_regression)
        hrf_page_histogram(out, cohort);
    if (is_labelled)
        hrf_page_confusion(out, cohort);
    hrf_out_adds(out, "</div>\n");
    if (is_labelled) {
        hrf_page_operating_points(out, cohort);
        hrf_page_classes(out, cohort);
    }
    hrf_page_study(out, cohort);
    hrf_page_times(out, cohort);
    HRF_TRY(hrf_page_timeline(out, cohort, err));
    hrf_page_slides(out, cohort, extras);
    HRF_TRY(hrf_page_left_out(out, cohort, err));
    hrf_page_provenance(out, cohort);
    return HRF_OK;
}

enum hrf_status hrf_report_page(const struct hrf_cohort *cohort,
                                const struct hrf_page_slide *extras, const char *made_at,
                                const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    head(out, cohort, made_at);
    HRF_TRY(body(out, cohort, extras, err));
    hrf_out_adds(out,
                 "<footer>Made by hires-flow. This page is whole by itself: charts, figures and "
                 "reduced heat maps are inside. Its links lead to "
                 "<a href=\"../results/labels.csv\">results/labels.csv</a>, "
                 "<a href=\"report.json\">report.json</a>, <a href=\"study.csv\">study.csv</a>, "
                 "<a href=\"methods.md\">methods.md</a> (a paragraph for a paper) and the files of "
                 "each slide; they work "
                 "where the folders <code>report</code> and <code>results</code> are moved "
                 "together. Not for diagnosis.</footer>\n</main>\n");
    hrf_page_script(out);
    hrf_out_adds(out, "</body></html>\n");
    return hrf_out_commit(out, err);
}

static void pair_notes(struct hrf_out *out, const struct hrf_run_pair *pair)
{
    hrf_out_markup(
        out, "<section><h2>Without a match <small>%s patches only in A, %s only in B</small></h2>",
        hrf_page_count(pair->n_only[0]).text, hrf_page_count(pair->n_only[1]).text);
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

enum hrf_status hrf_report_pair_page(const struct hrf_run_pair *pair,
                                     const char *const directories[2], const char *made_at,
                                     const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    head(out, pair->cohort, made_at);
    if (pair->cohort->precisions[0].n_labelled > 0) {
        hrf_out_adds(out, "<div class=\"grid\">\n");
        HRF_TRY(hrf_page_roc(out, pair->cohort, err));
        hrf_page_confusion(out, pair->cohort);
        hrf_out_adds(out, "</div>\n");
    }
    hrf_page_study(out, pair->cohort);
    pair_notes(out, pair);
    hrf_out_adds(out, "<section><h2>Runs</h2><dl>\n");
    hrf_page_fact(out, "A", directories[0]);
    hrf_page_fact(out, "B", directories[1]);
    hrf_out_adds(out, "</dl></section>\n<footer>Made by hires-flow. Not for diagnosis.</footer>\n"
                      "</main></body></html>\n");
    return hrf_out_commit(out, err);
}
