/* page_study.c - what each precision gains and costs against the first one: two tables, charts
 * (page_moved.c), and the slides and patches that changed label. Of one precision alone only the
 * tables and its calibration curve are shown. */
#include "aggregate/report/page_private.h"
#include "aggregate/study/bottleneck.h"

#include <math.h>

/* ---- tables ---- */

static bool any_on_gpu(const struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_precisions; i++)
        if (cohort->precisions[i].jobs.n_patches > 0 &&
            !isnan(cohort->precisions[i].jobs.timing.kernels))
            return true;
    return false;
}

/* What all precisions together read, and how long that took. */
static void reading_line(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_reading r = hrf_cohort_reading(cohort);
    if (r.n_scored == 0)
        return;
    hrf_out_markup(out, "<p>%s patches were read for %s scores of patches",
                   hrf_count_text(r.n_read).text, hrf_count_text(r.n_scored).text);
    hrf_out_markup(out, ": %s of decoding, ", hrf_duration_text(r.decode).text);
    hrf_out_markup(out, "%s of resampling and normalising, all reader threads together.",
                   hrf_duration_text(r.prepare).text);
    const char *in_all = cohort->n_precisions > 1 ? " in all precisions" : "";
    if (r.waiter != NULL) /* both rates are known */
        hrf_out_addf(out,
                     " The readers of a rank could deliver %.*f patches/s, its network takes "
                     "%.*f%s; it waited %.0f %% of the time for patches.",
                     r.readers_rate < 100.0, r.readers_rate, r.network_rate < 100.0, r.network_rate,
                     in_all, 100.0 * r.wait / (r.wait + r.compute));
    hrf_out_adds(out, "</p>");
}

/* A table of the figures of these parts, a line for each precision from `first` on. */
static void figure_table(struct hrf_out *out, const struct hrf_cohort *cohort,
                         enum hrf_figure_part from, enum hrf_figure_part to, size_t first, size_t n)
{
    struct hrf_page_table table = { hrf_precision_rows, from, to, .has_gpu = any_on_gpu(cohort) };
    const bool is_speed = from == HRF_FIGURES_SPEED;
    hrf_out_addf(out, "<table><thead><tr><th></th>%s", is_speed ? "<th>device</th>" : "");
    hrf_page_headings(out, &table, cohort);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = first; i < n; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        table.is_reference = i == 0;
        hrf_out_markup(out, "<tr><th>%s", p->name);
        hrf_out_addf(out, "%s</th>", i == 0 ? "<br><small>reference</small>" : "");
        if (is_speed)
            hrf_out_markup(out, "<td>%s</td>", p->jobs.device != NULL ? p->jobs.device : "–");
        hrf_page_cells(out, &table, p);
        hrf_out_adds(out, "</tr>\n");
    }
    hrf_out_adds(out, "</tbody></table>");
}

static void speed_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<section><h2>Speed and memory <small>by precision</small></h2>");
    figure_table(out, cohort, HRF_FIGURES_SPEED, HRF_FIGURES_SPEED, 0, hrf_cohort_n_timed(cohort));
    hrf_page_gain_limits(out, cohort);
    reading_line(out, cohort);
    hrf_out_adds(out, "</section>\n");
}

/* Nothing where no network was shared out over ranks. */
static void traffic_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    static const struct hrf_page_table table = { .rows = hrf_traffic_rows };
    int32_t n = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++)
        n += cohort->precisions[i].jobs.traffic.n_items;
    if (n == 0)
        return;
    hrf_out_adds(out,
                 "<section><h2>Messages between ranks <small>all ranks together</small></h2><table>"
                 "<thead><tr><th></th><th>for</th><th>by</th>");
    hrf_page_headings(out, &table, cohort);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_traffics *traffic = &cohort->precisions[i].jobs.traffic;
        for (int32_t k = 0; k < traffic->n_items; k++) {
            hrf_out_markup(out, "<tr><th>%s</th><td>%s</td><td>%s</td>", cohort->precisions[i].name,
                           traffic->items[k].operation, traffic->transport);
            hrf_page_cells(out, &table, &traffic->items[k]);
            hrf_out_adds(out, "</tr>\n");
        }
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

/* What the row of the jitter is. */
static void jitter_line(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (cohort->stain_jitter > 0)
        hrf_out_markup(
            out,
            "<p class=\"said\">%s: the same patches in %s as if each slide were stained otherwise, "
            "the amounts of haematoxylin, eosin and DAB times 1 ± %g and ± %g (optical density; "
            "drawn uniformly for each slide, Tellez et al. 2018). What a precision moves is to be "
            "read beside it.</p>\n",
            cohort->precisions[cohort->n_precisions - 1].name, cohort->precisions[0].name,
            cohort->stain_jitter, cohort->stain_jitter);
}

/* How far embeddings moved; a run of one precision has nothing to compare. */
static void drift_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (cohort->n_precisions < 2)
        return;
    hrf_out_markup(out,
                   "<section><h2>Embeddings <small>cosine of each patch's with that of %s</small>"
                   "</h2>",
                   cohort->precisions[0].name);
    figure_table(out, cohort, HRF_FIGURES_EMBEDDING, HRF_FIGURES_EMBEDDING, 1,
                 cohort->n_precisions);
    hrf_out_adds(out, "\n");
    jitter_line(out, cohort);
    hrf_out_adds(out, "</section>\n");
}

static const struct hrf_page_table head_figures = { .rows = hrf_head_study_rows };

static void head_row(struct hrf_out *out, const char *trained, const char *tested,
                     const struct hrf_head_study *s)
{
    if (s->n_slides == 0)
        return;
    hrf_out_markup(out, "<tr><td>%s</td><td>%s</td>", trained, tested);
    hrf_page_cells(out, &head_figures, s);
    hrf_out_adds(out, "</tr>\n");
}

static void head_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (!cohort->has_head || cohort->n_precisions < 2)
        return;
    const char *first = cohort->precisions[0].name;
    hrf_out_markup(out,
                   "<section><h2>Slide heads <small>by the precision of the encoder; each against "
                   "trained and tested on %s, over the same slides</small></h2><table><thead><tr>"
                   "<th>trained on</th><th>tested on</th>",
                   first);
    hrf_page_headings(out, &head_figures, cohort);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 1; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        head_row(out, first, p->name, &p->moved_heads);
        head_row(out, p->name, p->name, &p->own_heads);
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

static void accuracy_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_markup(out, "<section><h2>Accuracy <small>each against %s</small></h2>",
                   cohort->precisions[0].name);
    figure_table(out, cohort, HRF_FIGURES_MOVED, HRF_FIGURES_LABELLED, 0, cohort->n_precisions);
    hrf_out_adds(out, "\n");
    if (!cohort->is_embedding)
        jitter_line(out, cohort);
    hrf_out_adds(out, "</section>\n");
}

/* ---- flips ---- */

static void flip_row(struct hrf_out *out, const struct hrf_cohort *cohort, size_t index,
                     size_t slide)
{
    const struct hrf_cohort_slide *s = &cohort->slides[slide];
    hrf_out_markup(out,
                   "<tr><td>%s</td><td class=\"name\">%s</td><td class=\"n\">%.6f</td><td>%s</td>"
                   "<td class=\"n\">%.6f</td><td>%s</td><td>%s</td></tr>\n",
                   cohort->precisions[index].name, s->name, s->scores[0].value,
                   hrf_cohort_slide_label(cohort, &s->scores[0]), s->scores[index].value,
                   hrf_cohort_slide_label(cohort, &s->scores[index]),
                   s->truth == HRF_TRUTH_UNKNOWN ? "–" : hrf_cohort_truth_label(cohort, s));
}

static void flips(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++)
        n += cohort->precisions[i].slides.n_flips;
    hrf_out_markup(out, "<section><h2>Slides that changed label <small>against %s</small></h2>\n",
                   cohort->precisions[0].name);
    if (n == 0) {
        hrf_out_adds(out, "<p class=\"none\">None.</p></section>\n");
        return;
    }
    hrf_out_adds(out, "<table><thead><tr><th>precision</th><th>slide</th><th class=\"n\">"
                      "reference score</th><th>label</th><th class=\"n\">score</th><th>label</th>"
                      "<th>truth</th></tr></thead><tbody>\n");
    size_t n_shown = 0;
    for (size_t i = 1; i < cohort->n_precisions; i++)
        for (size_t k = 0; k < cohort->precisions[i].slides.n_flips && n_shown < HRF_PAGE_LINES;
             k++) {
            flip_row(out, cohort, i, cohort->precisions[i].slides.flips[k]);
            n_shown++;
        }
    hrf_out_adds(out, "</tbody></table>");
    if (n > n_shown)
        hrf_out_markup(out, "<p class=\"none\">and %zu more: results/labels.csv</p>", n - n_shown);
    hrf_out_adds(out, "</section>\n");
}

static void patch_flip_row(struct hrf_out *out, const struct hrf_cohort *cohort,
                           const struct hrf_cohort_precision *p, const struct hrf_patch_flip *flip)
{
    hrf_out_markup(
        out,
        "<tr><td>%s</td><td class=\"name\">%s</td><td class=\"n\">%d, %d</td>"
        "<td class=\"n\">%.6f</td><td>%s</td><td class=\"n\">%.6f</td><td>%s</td></tr>\n",
        p->name, cohort->slides[flip->slide].name, flip->at.x, flip->at.y,
        (double)flip->reference_score, hrf_cohort_class(cohort, flip->reference_class),
        (double)flip->score, hrf_cohort_class(cohort, flip->new_class));
}

static void patch_flips(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    size_t n = 0, n_shown = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        n += cohort->precisions[i].moved.difference.n_flips;
        n_shown += cohort->precisions[i].moved.n_top_flips;
    }
    hrf_out_markup(out, "<section><h2>Patches that changed label <small>%s",
                   hrf_count_text((int64_t)n).text);
    hrf_out_addf(out, "%s</small></h2>\n", n_shown < n ? "; the largest changes" : "");
    if (n == 0) {
        hrf_out_adds(out, "<p class=\"none\">None.</p></section>\n");
        return;
    }
    hrf_out_adds(out,
                 "<details><summary>show</summary><table><thead><tr><th>precision</th>"
                 "<th>slide</th><th class=\"n\">x, y</th><th class=\"n\">reference score</th>"
                 "<th>label</th><th class=\"n\">score</th><th>label</th></tr></thead><tbody>\n");
    for (size_t i = 1; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        for (size_t k = 0; k < p->moved.n_top_flips; k++)
            patch_flip_row(out, cohort, p, &p->moved.difference.flips[p->moved.top_flips[k]]);
    }
    hrf_out_adds(out, "</tbody></table></details></section>\n");
}

void hrf_page_study(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const bool compares = cohort->n_precisions > 1;
    speed_table(out, cohort);
    traffic_table(out, cohort);
    if (cohort->is_embedding)
        drift_table(out, cohort);
    head_table(out, cohort);
    if (!hrf_cohort_scores_slides(cohort))
        return;
    if (compares || cohort->precisions[0].slides.n_labelled > 0) /* else it is a row of dashes */
        accuracy_table(out, cohort);
    if (compares || cohort->precisions[0].slides.n_labelled > 0) {
        hrf_out_adds(out, "<div class=\"grid\">\n");
        if (hrf_cohort_n_timed(cohort) > 1)
            hrf_page_gains(out, cohort);
        if (compares)
            hrf_page_moved(out, cohort);
        if (cohort->precisions[0].slides.n_labelled > 0)
            hrf_page_reliability(out, cohort);
        hrf_out_adds(out, "</div>\n");
    }
    if (!compares)
        return;
    flips(out, cohort);
    patch_flips(out, cohort);
}
