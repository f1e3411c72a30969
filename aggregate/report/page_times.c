/* page_times.c - where the time went: of each precision's jobs, and of the phases. */
#include "aggregate/report/page_private.h"
#include "aggregate/study/bottleneck.h"

#include <math.h>

struct part {
    const char *name, *colour;
    double seconds;
};

static double sum_of(const struct part *parts, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += parts[i].seconds;
    return sum;
}

/* `whole`: the seconds that the full width stands for. */
static void time_bar(struct hrf_out *out, const struct part *parts, size_t n, double whole)
{
    hrf_out_adds(out, "<div class=\"stack\">");
    for (size_t i = 0; i < n; i++)
        if (parts[i].seconds > 0.0)
            hrf_out_addf(
                out, "<i style=\"flex:%.6g;background:var(--%s)\" title=\"%s %.3g s\"></i>",
                parts[i].seconds / whole, parts[i].colour, parts[i].name, parts[i].seconds);
    hrf_out_addf(out, "<i style=\"flex:%.6g\"></i></div>",
                 fmax(0.0, 1.0 - sum_of(parts, n) / whole));
}

static void time_row(struct hrf_out *out, const char *title, const struct part *parts, size_t n,
                     double whole)
{
    hrf_out_addf(out, "<div class=\"row\"><span>%s</span>", title);
    time_bar(out, parts, n, whole);
    hrf_out_adds(out, "</div>");
}

static void time_key(struct hrf_out *out, const struct part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hrf_out_markup(out, "<li><i style=\"background:var(--%s)\"></i>%s <b>%s</b></li>",
                       parts[i].colour, parts[i].name, hrf_duration_text(parts[i].seconds).text);
}

static void precision_times(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    const struct hrf_timing *t = &p->jobs.timing;
    const struct part loop[] = { { "build", "t0", t->build },
                                 { "compute", "t1", t->compute },
                                 { "wait for patches", "t2", t->wait },
                                 { "write", "t3", t->write } };
    const struct part feed[] = { { "decode", "t4", t->decode }, { "prepare", "t5", t->prepare } };
    const struct part device[] = { { "copy to the device", "t4", t->copy },
                                   { "kernels", "t1", t->kernels } };
    const bool has_device = !isnan(t->kernels);
    hrf_out_addf(out, "<h3>infer, %s<small>%d compute thread%s, %d reader%s per job</small></h3>",
                 p->name, p->jobs.n_threads, p->jobs.n_threads == 1 ? "" : "s", p->jobs.n_readers,
                 p->jobs.n_readers == 1 ? "" : "s");
    double whole = fmax(fmax(sum_of(loop, 4), sum_of(feed, 2)), 1e-9);
    whole = fmax(whole, has_device ? sum_of(device, 2) : 0.0);
    time_row(out, "compute loop", loop, 4, whole);
    time_row(out, "reader threads", feed, 2, whole);
    if (has_device)
        time_row(out, "device", device, 2, whole);
    hrf_out_adds(out, "<ul class=\"key\">");
    time_key(out, loop, 4);
    time_key(out, feed, 2);
    if (has_device)
        time_key(out, device, 2);
    hrf_out_adds(out, "</ul>");
}

void hrf_page_gain_limits(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    for (size_t i = 1; i < hrf_cohort_n_timed(cohort); i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        const enum hrf_bottleneck_kind limit = hrf_gain_limit(p);
        if (isnan(p->speed.speedup.value) || isnan(p->speed.compute_speedup.value))
            continue;
        hrf_out_markup(out, "<p class=\"said\">%s: %.1f× in the network, %.1f× of the job", p->name,
                       p->speed.compute_speedup.value, p->speed.speedup.value);
        struct hrf_job_part parts[HRF_JOB_PARTS];
        hrf_job_parts(&p->jobs.timing, parts);
        if (limit == HRF_BOTTLENECK_COMPUTE)
            hrf_out_markup(out, "; %.0f %% of its time is computing, %.0f %% %s",
                           100.0 * parts[0].share, 100.0 * parts[1].share,
                           hrf_bottleneck_name(parts[1].kind));
        else if (limit != HRF_BOTTLENECK_UNKNOWN)
            hrf_out_markup(out, ": %s is the limit, %.0f %% of its time",
                           hrf_bottleneck_name(limit), 100.0 * parts[0].share);
        hrf_out_adds(out, "</p>\n");
    }
}

static void phase_row(struct hrf_out *out, const struct hrf_phase_row *phase, double whole)
{
    const struct part part = { phase->name, "t1", phase->seconds };
    hrf_out_markup(out, "<div class=\"row phase\"><span>%s</span>", phase->name);
    time_bar(out, &part, 1, whole);
    hrf_out_markup(out, "<span><b>%s</b>%lld task%s", hrf_duration_text(phase->seconds).text,
                   (long long)phase->n_tasks, phase->n_tasks == 1 ? "" : "s");
    if (phase->n_cached > 0)
        hrf_out_addf(out, ", %lld found done", (long long)phase->n_cached);
    hrf_out_adds(out, "</span></div>");
}

static void phase_times(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    double whole = 1e-9;
    for (size_t i = 0; i < cohort->n_phases; i++)
        whole = fmax(whole, cohort->phases[i].seconds);
    if (cohort->n_phases > 0)
        hrf_out_adds(out, "<h3>phases<small>on the clock</small></h3>");
    for (size_t i = 0; i < cohort->n_phases; i++)
        phase_row(out, &cohort->phases[i], whole);
}

void hrf_page_times(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<section class=\"times\"><h2>Where the time went <small>summed over jobs; "
                      "the rows of a precision run side by side</small></h2>\n");
    const struct hrf_bottleneck bottleneck = hrf_cohort_bottleneck(cohort);
    if (bottleneck.sentence[0] != '\0')
        hrf_out_markup(out, "<p class=\"said\">%s</p>\n", bottleneck.sentence);
    for (size_t i = 0; i < cohort->n_precisions; i++)
        if (cohort->precisions[i].jobs.n_patches > 0)
            precision_times(out, &cohort->precisions[i]);
    phase_times(out, cohort);
    hrf_out_adds(out, "</section>\n");
}
