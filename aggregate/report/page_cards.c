/* page_cards.c - the cards at the top of the page: one number each, with what it counts. */
#include "aggregate/report/page_private.h"

#include <math.h>

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
    if (p->slides.n_unscored > 0)
        hrf_out_addf(out, "; %zu more %s no score", p->slides.n_unscored,
                     p->slides.n_unscored == 1 ? "has" : "have");
    if (cohort->counts.excluded > 0)
        hrf_out_addf(out, "; %zu excluded", cohort->counts.excluded);
    hrf_out_adds(out, "</p>");
}

static void auc_card(struct hrf_out *out, const struct hrf_cohort *cohort,
                     const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Slide AUC</h3>");
    if (isnan(p->slides.auc.value)) {
        why(out, &p->slides.auc);
    } else {
        hrf_out_addf(out,
                     "<b>%.3f</b><p>95 %% interval %.3f to %.3f (Newcombe), %zu labelled slides",
                     p->slides.auc.value, p->slides.auc_interval.low, p->slides.auc_interval.high,
                     p->slides.n_labelled);
        if (p->slides.auc_bootstrap.low == p->slides.auc_bootstrap.high)
            hrf_out_adds(out, "; a bootstrap has no width here");
        left_out(out, cohort, p);
    }
    hrf_out_adds(out, "</div>\n");
}

/* Of many classes the mean of their AUCs, and each. */
static void macro_card(struct hrf_out *out, const struct hrf_cohort *cohort,
                       const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Macro AUC</h3>");
    if (isnan(p->slides.macro_auc.value))
        hrf_out_markup(out, "<b>–</b><p>%s; ", p->slides.macro_auc.reason);
    else
        hrf_out_addf(out, "<b>%.3f</b><p>", p->slides.macro_auc.value);
    hrf_out_adds(out, "each class against all others: ");
    for (size_t k = 0; k < cohort->n_classes; k++) {
        hrf_out_markup(out, "%s%s ", k > 0 ? ", " : "", cohort->classes[k]);
        if (isnan(p->slides.by_class[k].auc.value))
            hrf_out_adds(out, "–");
        else
            hrf_out_addf(out, "%.3f", p->slides.by_class[k].auc.value);
    }
    hrf_out_addf(out, "; %zu labelled slides", p->slides.n_labelled);
    left_out(out, cohort, p);
    hrf_out_adds(out, "</div>\n");
}

static void metric_cards(struct hrf_out *out, const struct hrf_cohort *cohort,
                         const struct hrf_cohort_precision *p)
{
    size_t n_right = 0;
    for (size_t i = 0; i < cohort->n_slides; i++)
        n_right += hrf_cohort_is_right(cohort, &cohort->slides[i],
                                       (size_t)(p - cohort->precisions));
    (p->slides.by_class != NULL ? macro_card : auc_card)(out, cohort, p);
    hrf_out_adds(out, "<div class=\"card\"><h3>Slide accuracy</h3>");
    if (isnan(p->slides.accuracy.value)) {
        why(out, &p->slides.accuracy);
    } else {
        hrf_out_addf(out, "<b>%.1f <small>%%</small></b><p>%lld of %zu labels as the truth",
                     100.0 * p->slides.accuracy.value, (long long)n_right, p->slides.n_labelled);
        if (!isnan(p->slides.balanced_accuracy.value))
            hrf_out_addf(out, "; balanced %.1f %%", 100.0 * p->slides.balanced_accuracy.value);
        left_out(out, cohort, p);
    }
    hrf_out_adds(out, "</div>\n");
}

static void regression_card(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Mean absolute error</h3>");
    if (isnan(p->slides.mean_absolute_error.value)) {
        why(out, &p->slides.mean_absolute_error);
    } else {
        hrf_out_addf(out, "<b>%.4g</b><p>over %zu slides", p->slides.mean_absolute_error.value,
                     p->slides.regression.n);
        if (!isnan(p->slides.regression.r2))
            hrf_out_addf(out, "; R² %.4f", p->slides.regression.r2);
        if (!isnan(p->slides.regression.spearman))
            hrf_out_addf(out, "; Spearman's rank correlation %.4f", p->slides.regression.spearman);
        hrf_out_adds(out, "</p>");
    }
    hrf_out_adds(out, "</div>\n");
}

static void embedding_card(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    hrf_out_adds(out, "<div class=\"card\"><h3>Embeddings</h3>");
    if (p->embeddings.drift.width == 0)
        hrf_out_adds(out, "<b>–</b><p>no patch has one</p></div>\n");
    else
        hrf_out_markup(out,
                       "<b>%lld</b><p>numbers for each of %s patches, in results/%s/features/"
                       "</p></div>\n",
                       (long long)p->embeddings.drift.width, hrf_count_text(p->jobs.n_patches).text,
                       p->name);
}

/* The slides by what they are called; labels are not needed. */
static void called_card(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    static const char unknown[] = "no label is known: accuracy cannot be told</p></div>\n";
    const bool is_many = hrf_cohort_has_many_classes(cohort) && !cohort->is_multilabel;
    size_t n_scored = 0, n_positive = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        n_scored += cohort->slides[i].scores[0].known;
        n_positive += hrf_cohort_calls_positive(cohort, &cohort->slides[i].scores[0]);
    }
    if (!is_many) {
        hrf_out_markup(out,
                       "<div class=\"card\"><h3>Called %s</h3><b>%zu <small>of %zu</small></b><p>",
                       hrf_cohort_label(cohort, true), n_positive, n_scored);
        hrf_out_adds(out, unknown);
        return;
    }
    hrf_out_addf(out, "<div class=\"card\"><h3>Slides called</h3><b>%zu</b><p>", n_scored);
    for (size_t k = 0; k < cohort->n_classes; k++) {
        size_t n = 0;
        for (size_t i = 0; i < cohort->n_slides; i++)
            n += hrf_cohort_called(cohort, &cohort->slides[i].scores[0]) == (int32_t)k;
        hrf_out_markup(out, "%s %zu, ", cohort->classes[k], n);
    }
    hrf_out_adds(out, "by the highest score; ");
    hrf_out_adds(out, unknown);
}

/* Shown if lesions were asked for and there is a truth to judge them by. */
static void lesion_card(struct hrf_out *out, const struct hrf_cohort *cohort,
                        const struct hrf_cohort_precision *p)
{
    const struct hrf_froc *froc = &p->lesions.froc;
    if (cohort->lesion_rule.method == HRF_LESIONS_NONE ||
        (isnan(p->lesions.score.value) && p->slides.n_labelled == 0))
        return;
    hrf_out_adds(out, "<div class=\"card\"><h3>Lesion FROC</h3>");
    if (isnan(p->lesions.score.value)) {
        why(out, &p->lesions.score);
    } else {
        hrf_out_addf(out, "<b>%.3f</b><p>", p->lesions.score.value);
        if (froc->no_interval[0] == '\0')
            hrf_out_addf(out, "95 %% interval %.3f to %.3f; ", froc->interval.low,
                         froc->interval.high);
        else
            hrf_out_markup(out, "no interval: %s; ", froc->no_interval);
        hrf_out_addf(out,
                     "%zu of %zu lesions hit, %zu ITC do not count, %zu false positives on %zu "
                     "slides",
                     froc->n_hits, froc->n_lesions, froc->n_itc, froc->n_false_positives,
                     froc->n_slides);
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
    if (isnan(p->speed.patches_per_second.value)) {
        why(out, &p->speed.patches_per_second);
    } else {
        hrf_out_addf(
            out, p->speed.patches_per_second.value < 100.0 ? "<b>%.1f</b><p>" : "<b>%.0f</b><p>",
            p->speed.patches_per_second.value);
        hrf_out_markup(out, "%s patches in %s on %s", hrf_count_text(p->jobs.n_patches).text,
                       hrf_duration_text(p->jobs.timing.total).text,
                       p->jobs.device != NULL ? p->jobs.device : "an unnamed device");
        if (p->jobs.timing.total > 0.0)
            hrf_out_addf(out, ", %.0f %% waiting for patches",
                         100.0 * p->jobs.timing.wait / p->jobs.timing.total);
        hrf_out_adds(out, "</p>");
    }
    hrf_out_adds(out, "</div>\n");
}

void hrf_page_cards(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<div class=\"cards\">\n");
    state_card(out, &cohort->counts);
    if (!hrf_cohort_scores_slides(cohort))
        embedding_card(out, &cohort->precisions[0]);
    else if (cohort->is_regression)
        regression_card(out, &cohort->precisions[0]);
    else if (cohort->precisions[0].slides.n_labelled > 0)
        metric_cards(out, cohort, &cohort->precisions[0]);
    else
        called_card(out, cohort);
    lesion_card(out, cohort, &cohort->precisions[0]);
    speed_card(out, &cohort->precisions[0]);
    hrf_out_adds(out, "</div>\n");
}
