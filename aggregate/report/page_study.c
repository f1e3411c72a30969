/* page_study.c - what each precision gains and costs against the first one: two tables, charts
 * (page_moved.c), and the slides and patches that changed label. Of one precision alone only the
 * tables and its calibration curve are shown. */
#include "aggregate/report/page_private.h"
#include "aggregate/study/reading.h"

#include <math.h>
#include <string.h>

/* ---- tables ---- */

static void next_cell(struct hrf_out *out, const struct hrf_figure *figure, int decimals)
{
    hrf_out_adds(out, "</td><td class=\"n\">");
    hrf_page_figure(out, figure, decimals);
}

/* "x 3.1" below a figure, where there is one to compare with. */
static void times_reference(struct hrf_out *out, const struct hrf_figure *ratio, bool is_reference)
{
    if (!is_reference && !isnan(ratio->value))
        hrf_out_addf(out, "<br><small>× %.2f</small>", ratio->value);
}

static void interval(struct hrf_out *out, const struct hrf_figure *figure,
                     const struct hrf_interval *ends, int decimals)
{
    if (!isnan(figure->value) && isnan(ends->low))
        hrf_out_adds(out, "<br><small>same order</small>");
    else if (!isnan(figure->value))
        hrf_out_addf(out, "<br><small>%.*f to %.*f</small>", decimals, ends->low, decimals,
                     ends->high);
}

static void row_head(struct hrf_out *out, const struct hrf_cohort_precision *p, bool is_reference)
{
    hrf_out_markup(out, "<tr><th>%s", p->name);
    hrf_out_addf(out, "%s</th>", is_reference ? "<br><small>reference</small>" : "");
}

static void energy_cell(struct hrf_out *out, const struct hrf_figure *patch,
                        const struct hrf_figure *slide)
{
    next_cell(out, patch, 3);
    if (!isnan(slide->value))
        hrf_out_addf(out, "<br><small>%.1f J/slide</small>", slide->value);
}

static void gain_row(struct hrf_out *out, const struct hrf_cohort_precision *p, bool is_reference,
                     bool has_gpu)
{
    row_head(out, p, is_reference);
    hrf_out_markup(out, "<td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s",
                   p->device != NULL ? p->device : "–", hrf_page_count(p->n_patches).text,
                   hrf_page_seconds(p->timing.total).text);
    next_cell(out, &p->patches_per_second, 1);
    if (!isnan(p->slides_per_hour.value))
        hrf_out_addf(out, "<br><small>%.*f slides/h</small>",
                     p->slides_per_hour.value < 100 ? 1 : 0, p->slides_per_hour.value);
    times_reference(out, &p->speedup, is_reference);
    hrf_out_adds(out, "</td><td class=\"n\">");
    if (p->timing.compute > 0.0)
        hrf_out_addf(out, "%.1f", (double)p->n_patches / p->timing.compute);
    times_reference(out, &p->compute_speedup, is_reference);
    hrf_out_markup(out, "</td><td class=\"n\">%s", hrf_page_bytes(p->peak_memory_bytes).text);
    times_reference(out, &p->memory_ratio, is_reference);
    hrf_out_adds(out, "</td><td class=\"n\">");
    if (p->peak_process_bytes > 0)
        hrf_out_adds(out, hrf_page_bytes(p->peak_process_bytes).text);
    else
        hrf_out_adds(out, "–");
    energy_cell(out, &p->energy, &p->slide_energy);
    if (has_gpu) {
        hrf_out_adds(out, "</td><td class=\"n\">");
        if (p->device_memory_bytes > 0)
            hrf_out_adds(out, hrf_page_bytes(p->device_memory_bytes).text);
        else
            hrf_out_adds(out, "–");
        energy_cell(out, &p->gpu_energy, &p->slide_gpu_energy);
    }
    hrf_out_adds(out, "</td></tr>\n");
}

static bool any_on_gpu(const struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_precisions; i++)
        if (cohort->precisions[i].n_patches > 0 && !isnan(cohort->precisions[i].timing.kernels))
            return true;
    return false;
}

/* What all precisions together read, and how long that took. */
static void reading_line(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_reading r = hrf_cohort_reading(cohort);
    if (r.n_scored == 0 || isnan(r.n_read))
        return;
    hrf_out_markup(out, "<p>%s patches were read for %s scores of patches",
                   hrf_page_count((int64_t)(r.n_read + 0.5)).text, hrf_page_count(r.n_scored).text);
    hrf_out_markup(out, ": %s of decoding, ", hrf_page_seconds(r.decode).text);
    hrf_out_markup(out, "%s of resampling and normalising, all reader threads together.",
                   hrf_page_seconds(r.prepare).text);
    const char *in_all = cohort->n_precisions > 1 ? " in all precisions" : "";
    if (r.waiter != NULL)
        hrf_out_addf(out,
                     " The readers of a rank could deliver %.*f patches/s, its network takes "
                     "%.*f%s: the %s.",
                     r.readers_rate < 100.0, r.readers_rate, r.network_rate < 100.0, r.network_rate,
                     in_all,
                     strcmp(r.waiter, "network") == 0 ? "network waits for patches"
                                                      : "readers wait for the network");
    hrf_out_adds(out, "</p>");
}

static void gain_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const bool has_gpu = any_on_gpu(cohort);
    hrf_out_adds(
        out, "<section><h2>Speed and memory <small>by precision</small></h2><table><thead><tr>"
             "<th></th><th>device</th><th class=\"n\">patches</th><th class=\"n\">job time</th>"
             "<th class=\"n\" title=\"of one job, all of it\">patches/s</th>"
             "<th class=\"n\" title=\"of one job, the network alone\">computed/s</th>"
             "<th class=\"n\" title=\"activations, weights and workspace, by the plan\">peak memory"
             "</th><th class=\"n\" title=\"largest resident size of a job\">process</th>"
             "<th class=\"n\" title=\"of the machine's processors, all their work\">J/patch</th>");
    if (has_gpu)
        hrf_out_adds(out,
                     "<th class=\"n\" title=\"most that a job was seen to hold there, context and "
                     "libraries included\">GPU memory</th><th class=\"n\" title=\"of the GPU, "
                     "all its work\">GPU J/patch</th>");
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < hrf_cohort_n_timed(cohort); i++)
        gain_row(out, &cohort->precisions[i], i == 0, has_gpu);
    hrf_out_adds(out, "</tbody></table>");
    hrf_page_gain_limits(out, cohort);
    reading_line(out, cohort);
    hrf_out_adds(out, "</section>\n");
}

/* One operation of one precision; what it carried a second of the time that ranks spent on it. */
static void traffic_row(struct hrf_out *out, const struct hrf_cohort_precision *p,
                        const struct hrf_traffic *t)
{
    const double seconds = t->sending + t->receiving;
    hrf_out_markup(out,
                   "<tr><th>%s</th><td>%s</td><td>%s</td><td class=\"n\">%s</td>"
                   "<td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td>"
                   "<td class=\"n\">",
                   p->name, t->operation, p->traffic.transport, hrf_page_count(t->messages).text,
                   hrf_page_bytes(t->bytes).text, hrf_page_seconds(t->sending).text,
                   hrf_page_seconds(t->receiving).text);
    if (seconds > 0.0)
        hrf_out_addf(out, "%.3f", (double)t->bytes / seconds * 1e-9);
    hrf_out_adds(out, "</td></tr>\n");
}

/* Nothing where no network was shared out over ranks. */
static void traffic_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    int32_t n = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++)
        n += cohort->precisions[i].traffic.n_items;
    if (n == 0)
        return;
    hrf_out_adds(out,
                 "<section><h2>Messages between ranks <small>all ranks together</small></h2><table>"
                 "<thead><tr><th></th><th>for</th><th>by</th><th class=\"n\">messages</th>"
                 "<th class=\"n\">sent</th><th class=\"n\">sending</th>"
                 "<th class=\"n\" title=\"waiting for each other included\">receiving</th>"
                 "<th class=\"n\">GB/s</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        for (int32_t k = 0; k < p->traffic.n_items; k++)
            traffic_row(out, p, &p->traffic.items[k]);
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

static void cost_row(struct hrf_out *out, const struct hrf_cohort_precision *p, bool is_reference)
{
    row_head(out, p, is_reference);
    hrf_out_adds(out, "<td class=\"n\">");
    hrf_page_figure(out, &p->patch_agreement, 4);
    hrf_out_markup(out, "</td><td class=\"n\">%s",
                   hrf_page_count((int64_t)p->difference.n_flips).text);
    next_cell(out, &p->max_abs_difference, -1);
    next_cell(out, &p->mean_abs_difference, -1);
    next_cell(out, &p->slide_auc, 4);
    interval(out, &p->slide_auc, &p->slide_auc_interval, 3);
    if (!isnan(p->slide_auc.value))
        hrf_out_addf(out,
                     "<br><small title=\"of a positive and a negative slide; a tie is half a "
                     "pair\">%lld of %lld pairs</small>",
                     (long long)p->slide_pairs.in_order, (long long)p->slide_pairs.total);
    next_cell(out, &p->auc_difference, 4);
    if (!is_reference)
        interval(out, &p->auc_difference, &p->auc_difference_interval, 4);
    next_cell(out, &p->patch_auc, 4);
    interval(out, &p->patch_auc, &p->patch_auc_interval, 3);
    next_cell(out, &p->patch_auc_difference, 5);
    if (!is_reference)
        interval(out, &p->patch_auc_difference, &p->patch_auc_difference_interval, 5);
    next_cell(out, &p->delong_p, 3);
    next_cell(out, &p->slide_accuracy, 4);
    hrf_out_addf(out, "</td><td class=\"n\">%zu", p->n_flips);
    next_cell(out, &p->calibration_error, 4);
    hrf_out_adds(out, "</td></tr>\n");
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
    hrf_out_markup(
        out,
        "<section><h2>Embeddings <small>cosine of each patch's with that of %s</small>"
        "</h2><table><thead><tr><th></th><th class=\"n\">patches</th>"
        "<th class=\"n\">mean</th><th class=\"n\">median</th>"
        "<th class=\"n\">1st percentile</th><th class=\"n\">least</th>"
        "<th class=\"n\" title=\"share of the 10 nearest neighbours of a patch on its slide "
        "that stay so\">neighbours kept</th></tr></thead><tbody>\n",
        cohort->precisions[0].name);
    for (size_t i = 1; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        row_head(out, p, false);
        hrf_out_markup(out, "<td class=\"n\">%s", hrf_page_count((int64_t)p->drift.n_patches).text);
        next_cell(out, &p->cosine_mean, 6);
        next_cell(out, &p->cosine_median, 6);
        next_cell(out, &p->cosine_percentile1, 6);
        next_cell(out, &p->cosine_least, 6);
        next_cell(out, &p->neighbours_kept, 4);
        hrf_out_adds(out, "</td></tr>\n");
    }
    hrf_out_adds(out, "</tbody></table>\n");
    jitter_line(out, cohort);
    hrf_out_adds(out, "</section>\n");
}

static void number_cell(struct hrf_out *out, double value, int decimals, const char *why)
{
    if (isnan(value))
        hrf_out_markup(out, "<td class=\"n\" title=\"%s\">–</td>", why);
    else
        hrf_out_addf(out, "<td class=\"n\">%.*f</td>", decimals, value);
}

static void head_row(struct hrf_out *out, const char *trained, const char *tested,
                     const struct hrf_head_study *s)
{
    if (s->n_slides == 0)
        return;
    hrf_out_markup(out, "<tr><td>%s</td><td>%s</td><td class=\"n\">%zu</td>", trained, tested,
                   s->n_slides);
    number_cell(out, s->auc, 4, s->why);
    number_cell(out, s->auc_difference, 4, s->why);
    if (isnan(s->auc_difference_interval.low))
        hrf_out_adds(out, "<td class=\"n\">–</td>");
    else
        hrf_out_addf(out, "<td class=\"n\">%.4f to %.4f</td>", s->auc_difference_interval.low,
                     s->auc_difference_interval.high);
    number_cell(out, s->balanced_accuracy, 4, s->why);
    number_cell(out, s->mean_difference, 6, "");
    number_cell(out, s->largest, 6, "");
    hrf_out_addf(out, "<td class=\"n\">%zu</td></tr>\n", s->n_flips);
}

static void head_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (!cohort->has_head || cohort->n_precisions < 2)
        return;
    const char *first = cohort->precisions[0].name;
    hrf_out_markup(out,
                   "<section><h2>Slide heads <small>by the precision of the encoder; each against "
                   "trained and tested on %s, over the same slides</small></h2><table><thead><tr>"
                   "<th>trained on</th><th>tested on</th><th class=\"n\">slides</th>"
                   "<th class=\"n\">AUC</th><th class=\"n\">difference</th>"
                   "<th class=\"n\">95 %% (DeLong)</th><th class=\"n\">balanced accuracy</th>"
                   "<th class=\"n\">mean |difference| of scores</th><th class=\"n\">largest</th>"
                   "<th class=\"n\">flips</th></tr></thead><tbody>\n",
                   first);
    for (size_t i = 1; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        head_row(out, first, p->name, &p->moved_heads);
        head_row(out, p->name, p->name, &p->own_heads);
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

static void cost_table(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_markup(
        out,
        "<section><h2>Accuracy <small>each against %s</small></h2><table><thead>"
        "<tr><th></th><th class=\"n\">patch agreement</th>"
        "<th class=\"n\">patch flips</th><th class=\"n\">max |Δp|</th>"
        "<th class=\"n\">mean |Δp|</th><th class=\"n\">slide AUC</th>"
        "<th class=\"n\">ΔAUC</th>"
        "<th class=\"n\" title=\"against the outlines; intervals by slide\">patch AUC</th>"
        "<th class=\"n\">Δ patch AUC</th>"
        "<th class=\"n\" title=\"DeLong's paired test against the reference\">DeLong p</th>"
        "<th class=\"n\">accuracy</th><th class=\"n\">slide flips</th>"
        "<th class=\"n\" title=\"expected calibration error\">ECE</th></tr></thead>"
        "<tbody>\n",
        cohort->precisions[0].name);
    for (size_t i = 0; i < cohort->n_precisions; i++)
        cost_row(out, &cohort->precisions[i], i == 0);
    hrf_out_adds(out, "</tbody></table>\n");
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
        n += cohort->precisions[i].n_flips;
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
        for (size_t k = 0; k < cohort->precisions[i].n_flips && n_shown < HRF_PAGE_LINES; k++) {
            flip_row(out, cohort, i, cohort->precisions[i].flips[k]);
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
        n += cohort->precisions[i].difference.n_flips;
        n_shown += cohort->precisions[i].n_top_flips;
    }
    hrf_out_markup(out, "<section><h2>Patches that changed label <small>%s",
                   hrf_page_count((int64_t)n).text);
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
        for (size_t k = 0; k < p->n_top_flips; k++)
            patch_flip_row(out, cohort, p, &p->difference.flips[p->top_flips[k]]);
    }
    hrf_out_adds(out, "</tbody></table></details></section>\n");
}

void hrf_page_study(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const bool compares = cohort->n_precisions > 1;
    gain_table(out, cohort);
    traffic_table(out, cohort);
    if (cohort->is_embedding)
        drift_table(out, cohort);
    head_table(out, cohort);
    if (!hrf_cohort_scores_slides(cohort))
        return;
    if (compares || cohort->precisions[0].n_labelled > 0) /* else it is a row of dashes */
        cost_table(out, cohort);
    if (compares || cohort->precisions[0].n_labelled > 0) {
        hrf_out_adds(out, "<div class=\"grid\">\n");
        if (hrf_cohort_n_timed(cohort) > 1)
            hrf_page_gains(out, cohort);
        if (compares)
            hrf_page_moved(out, cohort);
        if (cohort->precisions[0].n_labelled > 0)
            hrf_page_reliability(out, cohort);
        hrf_out_adds(out, "</div>\n");
    }
    if (!compares)
        return;
    flips(out, cohort);
    patch_flips(out, cohort);
}
