/* page.c - the page's frame: head, cards, precision table, lists, provenance. */
#include "aggregate/report/page.h"

#include "aggregate/report/page_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    if (!cohort->is_embedding)
        hrf_out_markup(out, " · slide score %s, positive from %g",
                       hrf_slide_rule_name(cohort->rule.kind), cohort->threshold);
    if (cohort->tuning.is_asked_for && cohort->tuning.reason != NULL)
        hrf_out_markup(out, " (none could be chosen: %s)", cohort->tuning.reason);
    else if (cohort->tuning.is_asked_for)
        hrf_out_addf(out, " (chosen on %zu other slides)", cohort->tuning.n_slides);
    hrf_out_markup(out, " · %s</p></header>\n", made_at);
}

static void state_card(struct hrf_out *out, const struct hrf_cohort_counts *c)
{
    const struct {
        enum hrf_slide_state state;
        const char *colour;
        size_t count;
    } states[] = { { HRF_SLIDE_DONE, "ok", c->done },
                   { HRF_SLIDE_NO_TISSUE, "t0", c->no_tissue },
                   { HRF_SLIDE_EXCLUDED, "line", c->excluded },
                   { HRF_SLIDE_FAILED, "pos", c->failed },
                   { HRF_SLIDE_PENDING, "warn", c->pending } };
    hrf_out_addf(out, "<div class=\"card\"><h3>Slides done</h3><b>%zu <small>of %zu</small></b>",
                 c->done, c->total);
    hrf_out_adds(out, "<div class=\"stack\">");
    for (size_t i = 0; i < 5; i++)
        if (states[i].count > 0)
            hrf_out_addf(out, "<i style=\"flex:%zu;background:var(--%s)\" title=\"%s\"></i>",
                         states[i].count, states[i].colour, hrf_slide_state_text(states[i].state));
    hrf_out_adds(out, "</div><p>");
    const char *between = "";
    for (size_t i = 1; i < 5; i++)
        if (states[i].count > 0) {
            hrf_out_addf(out, "%s%zu %s", between, states[i].count,
                         hrf_slide_state_text(states[i].state));
            between = ", ";
        }
    hrf_out_addf(out, "%s</p></div>\n", between[0] == '\0' ? "none failed, none left out" : "");
}

static void why(struct hrf_out *out, const struct hrf_figure *figure)
{
    hrf_out_markup(out, "<b>–</b><p>%s</p>", figure->reason != NULL ? figure->reason : "not known");
}

/* The slides that the figure leaves out although their truth is known. */
static void left_out(struct hrf_out *out, const struct hrf_cohort *cohort,
                     const struct hrf_cohort_precision *p)
{
    if (p->n_unscored > 0)
        hrf_out_addf(out, "; %zu more have no score", p->n_unscored);
    if (cohort->counts.excluded > 0)
        hrf_out_addf(out, "; %zu excluded", cohort->counts.excluded);
    hrf_out_adds(out, "</p>");
}

static void metric_cards(struct hrf_out *out, const struct hrf_cohort *cohort,
                         const struct hrf_cohort_precision *p)
{
    size_t n_right = 0;
    for (size_t i = 0; i < cohort->n_slides; i++)
        n_right += hrf_cohort_is_right(cohort, &cohort->slides[i],
                                       (size_t)(p - cohort->precisions));
    hrf_out_adds(out, "<div class=\"card\"><h3>Slide AUC</h3>");
    if (isnan(p->slide_auc.value)) {
        why(out, &p->slide_auc);
    } else {
        hrf_out_addf(out,
                     "<b>%.3f</b><p>95 %% interval %.3f to %.3f (Newcombe), %zu labelled slides",
                     p->slide_auc.value, p->slide_auc_interval.low, p->slide_auc_interval.high,
                     p->n_labelled);
        if (p->slide_auc_bootstrap.low == p->slide_auc_bootstrap.high)
            hrf_out_adds(out, "; a bootstrap has no width here");
        left_out(out, cohort, p);
    }
    hrf_out_adds(out, "</div>\n<div class=\"card\"><h3>Slide accuracy</h3>");
    if (isnan(p->slide_accuracy.value)) {
        why(out, &p->slide_accuracy);
    } else {
        hrf_out_addf(out, "<b>%.1f <small>%%</small></b><p>%lld of %zu labels as the truth",
                     100.0 * p->slide_accuracy.value, (long long)n_right, p->n_labelled);
        if (!isnan(p->balanced_accuracy.value))
            hrf_out_addf(out, "; balanced %.1f %%", 100.0 * p->balanced_accuracy.value);
        left_out(out, cohort, p);
    }
    hrf_out_adds(out, "</div>\n");
}

static void regression_card(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Mean absolute error</h3>");
    if (isnan(p->mean_absolute_error.value)) {
        why(out, &p->mean_absolute_error);
    } else {
        hrf_out_addf(out, "<b>%.4g</b><p>over %zu slides", p->mean_absolute_error.value,
                     p->regression.n);
        if (!isnan(p->regression.r2))
            hrf_out_addf(out, "; R² %.4f", p->regression.r2);
        if (!isnan(p->regression.spearman))
            hrf_out_addf(out, "; Spearman's rank correlation %.4f", p->regression.spearman);
        hrf_out_adds(out, "</p>");
    }
    hrf_out_adds(out, "</div>\n");
}

static void embedding_card(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Embeddings</h3>");
    if (p->drift.width == 0)
        hrf_out_adds(out, "<b>–</b><p>no patch has one</p></div>\n");
    else
        hrf_out_markup(out,
                       "<b>%lld</b><p>numbers for each of %s patches, in results/%s/features/"
                       "</p></div>\n",
                       (long long)p->drift.width, hrf_page_count(p->n_patches).text, p->name);
}

/* Shown if lesions were asked for. */
static void lesion_card(struct hrf_out *out, const struct hrf_cohort *cohort,
                        const struct hrf_cohort_precision *p)
{
    const struct hrf_froc *froc = &p->froc;
    if (cohort->lesion_rule.method == HRF_LESIONS_NONE)
        return;
    hrf_out_adds(out, "<div class=\"card\"><h3>Lesion FROC</h3>");
    if (isnan(p->froc_score.value)) {
        why(out, &p->froc_score);
    } else {
        hrf_out_addf(
            out,
            "<b>%.3f</b><p>95 %% interval %.3f to %.3f; %zu of %zu lesions hit, %zu ITC do "
            "not count, %zu false positives on %zu slides",
            p->froc_score.value, froc->interval.low, froc->interval.high, froc->n_hits,
            froc->n_lesions, froc->n_itc, froc->n_false_positives, froc->n_slides);
        for (size_t i = 0; i < cohort->n_lesion_gaps; i++)
            hrf_out_markup(out, "; not %s: %s", cohort->lesion_gaps[i].slide,
                           cohort->lesion_gaps[i].reason);
        hrf_out_adds(out, "</p>");
    }
    hrf_out_adds(out, "</div>\n");
}

static void speed_card(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Patches per second</h3>");
    if (isnan(p->patches_per_second.value)) {
        why(out, &p->patches_per_second);
    } else {
        hrf_out_addf(out, p->patches_per_second.value < 100.0 ? "<b>%.1f</b><p>" : "<b>%.0f</b><p>",
                     p->patches_per_second.value);
        hrf_out_markup(out, "%s patches in %s on %s", hrf_page_count(p->n_patches).text,
                       hrf_page_seconds(p->timing.total).text,
                       p->device != NULL ? p->device : "an unnamed device");
        if (p->timing.total > 0.0)
            hrf_out_addf(out, ", %.0f %% waiting for patches",
                         100.0 * p->timing.wait / p->timing.total);
        hrf_out_adds(out, "</p>");
    }
    hrf_out_adds(out, "</div>\n");
}

/* The slides of one state with their reasons; nothing when there are none. */
static void state_list(struct hrf_out *out, const struct hrf_cohort *cohort,
                       enum hrf_slide_state state, size_t count, const char *title,
                       const char *hint)
{
    if (count == 0)
        return;
    hrf_out_addf(
        out, "<section><h2>%s <small>%zu slide%s; %s</small></h2><table class=\"list\"><tbody>\n",
        title, count, count == 1 ? "" : "s", hint);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->state != state)
            continue;
        hrf_out_markup(out, "<tr><td class=\"name\">%s</td><td>%s</td></tr>\n", slide->name,
                       slide->reason != NULL ? slide->reason : "");
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

static void lists(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_cohort_counts *c = &cohort->counts;
    state_list(
        out, cohort, HRF_SLIDE_FAILED, c->failed, "Failed",
        "at the precisions that the reason names, at all where it names none; in no figure of "
        "those");
    state_list(out, cohort, HRF_SLIDE_PENDING, c->pending, "Pending",
               "the run is not finished; in no figure above");
    state_list(out, cohort, HRF_SLIDE_NO_TISSUE, c->no_tissue, "No tissue",
               "nothing was scored; in no figure above");
    state_list(out, cohort, HRF_SLIDE_EXCLUDED, c->excluded, "Excluded",
               "by the workflow; in no figure above");
}

static void fact(struct hrf_out *out, const char *name, const char *text)
{
    hrf_out_markup(out, "<dt>%s</dt><dd>%s</dd>\n", name, text != NULL ? text : "–");
}

static bool is_first_hardware(const struct hrf_cohort *cohort, size_t precision, size_t at)
{
    const struct hrf_hardware *wanted = &cohort->precisions[precision].hardware[at];
    for (size_t i = 0; i <= precision; i++)
        for (size_t k = 0; k < cohort->precisions[i].n_hardware; k++) {
            const struct hrf_hardware *h = &cohort->precisions[i].hardware[k];
            if (strcmp(h->model, wanted->model) == 0 && strcmp(h->path, wanted->path) == 0 &&
                strcmp(h->driver, wanted->driver) == 0 &&
                strcmp(h->libraries, wanted->libraries) == 0)
                return i == precision && k == at;
        }
    return true;
}

/* Processors and GPUs of the jobs, each once: model, path, driver, libraries. */
static void computed_on(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_precisions; i++)
        for (size_t k = 0; k < cohort->precisions[i].n_hardware; k++) {
            const struct hrf_hardware *h = &cohort->precisions[i].hardware[k];
            const char *const parts[] = { h->path, h->libraries, h->driver };
            if (!is_first_hardware(cohort, i, k))
                continue;
            hrf_out_markup(out, "<dt>computed on</dt><dd>%s", h->model);
            for (size_t n = 0; n < sizeof parts / sizeof parts[0]; n++)
                if (parts[n][0] != '\0') {
                    hrf_out_adds(out, n == 2 ? ", driver " : ", ");
                    hrf_out_html(out, parts[n]);
                }
            hrf_out_adds(out, "</dd>\n");
        }
}

/* What each precision did not cover. */
static void precision_notes(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        if (p->notes[0] == '\0')
            continue;
        hrf_out_markup(out, "<dt>notes on %s</dt>", p->name);
        const char *at = p->notes;
        for (char line[HRF_SCORES_NOTES]; hrf_scores_next_note(&at, line);)
            hrf_out_markup(out, "<dd>%s</dd>\n", line);
    }
}

static void provenance(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_calibration_facts *c = &cohort->calibration;
    hrf_out_adds(out, "<section><h2>Provenance</h2><dl>\n");
    for (size_t i = 0; i < cohort->n_provenance; i++)
        fact(out, cohort->provenance[i].name, cohort->provenance[i].text);
    computed_on(out, cohort);
    precision_notes(out, cohort);
    if (c->key != NULL) {
        fact(out, "calibration", c->key);
        hrf_out_markup(out, "<dt>calibration made</dt><dd>%s, %lld samples of %s, %s, %s</dd>\n",
                       c->cached ? "earlier (found in the store)" : "in this run",
                       (long long)c->samples,
                       c->of_other_slides ? "slides that are not evaluated" : "the cohort",
                       c->method != NULL ? c->method : "", hrf_page_seconds(c->seconds).text);
        for (size_t i = 0; i < c->n_kept; i++)
            hrf_out_markup(out, "<dt>kept in float32</dt><dd>%s: %s</dd>\n", c->kept[i].name,
                           c->kept[i].reason);
    } else {
        fact(out, "calibration", c->reason != NULL ? c->reason : "nothing was calibrated");
    }
    hrf_out_addf(out,
                 "<dt>AUC interval</dt><dd>95 %%, percentile bootstrap, stratified, %d "
                 "resamples, seed %llu</dd>\n",
                 HRF_BOOTSTRAP_RESAMPLES, (unsigned long long)cohort->seed);
    hrf_out_adds(out, "</dl></section>\n");
}

static enum hrf_status body(struct hrf_out *out, const struct hrf_cohort *cohort,
                            const struct hrf_page_slide *extras, struct hrf_error *err)
{
    hrf_out_adds(out, "<div class=\"cards\">\n");
    state_card(out, &cohort->counts);
    if (cohort->is_embedding)
        embedding_card(out, &cohort->precisions[0]);
    else if (cohort->is_regression)
        regression_card(out, &cohort->precisions[0]);
    else if (cohort->is_regression)
        regression_card(out, &cohort->precisions[0]);
    else
        metric_cards(out, cohort, &cohort->precisions[0]);
    lesion_card(out, cohort, &cohort->precisions[0]);
    speed_card(out, &cohort->precisions[0]);
    hrf_out_adds(out, "</div>\n<div class=\"grid\">\n");
    bool labelled = cohort->precisions[0].n_labelled > 0; /* the cards say it when not */
    if (labelled)
        HRF_TRY(hrf_page_roc(out, cohort, err));
    hrf_page_froc(out, cohort);
    if (!cohort->is_embedding && !cohort->is_regression)
        hrf_page_histogram(out, cohort);
    if (labelled)
        hrf_page_confusion(out, cohort);
    hrf_out_adds(out, "</div>\n");
    hrf_page_study(out, cohort);
    hrf_page_times(out, cohort);
    hrf_page_slides(out, cohort, extras);
    lists(out, cohort);
    provenance(out, cohort);
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
    hrf_out_adds(out, "<footer>Made by hires-flow. The labels are in "
                      "<a href=\"../results/labels.csv\">results/labels.csv</a>, the figures in "
                      "<a href=\"report.json\">report.json</a> and <a href=\"study.csv\">"
                      "study.csv</a>. Not for diagnosis.</footer>\n"
                      "</main>\n");
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
    for (size_t i = 0; i < pair->n_notes; i++)
        hrf_out_markup(out, "<tr><td class=\"name\">%s</td><td>%s</td></tr>\n",
                       pair->notes[i].slide, pair->notes[i].text);
    hrf_out_adds(out, "</tbody></table></section>\n");
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
    fact(out, "A", directories[0]);
    fact(out, "B", directories[1]);
    hrf_out_adds(out, "</dl></section>\n<footer>Made by hires-flow. Not for diagnosis.</footer>\n"
                      "</main></body></html>\n");
    return hrf_out_commit(out, err);
}
