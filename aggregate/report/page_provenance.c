/* page_provenance.c - what the results were made from, and with what. */
#include "aggregate/report/page_private.h"

#include <string.h>

void hrf_page_fact(struct hrf_out *out, const char *name, const char *text)
{
    hrf_out_markup(out, "<dt>%s</dt><dd>%s</dd>\n", name, text != NULL ? text : "–");
}

static bool is_first_hardware(const struct hrf_cohort *cohort, size_t precision, size_t at)
{
    const struct hrf_hardware *wanted = &cohort->precisions[precision].jobs.hardware[at];
    for (size_t i = 0; i <= precision; i++)
        for (size_t k = 0; k < cohort->precisions[i].jobs.n_hardware; k++) {
            const struct hrf_hardware *h = &cohort->precisions[i].jobs.hardware[k];
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
        for (size_t k = 0; k < cohort->precisions[i].jobs.n_hardware; k++) {
            const struct hrf_hardware *h = &cohort->precisions[i].jobs.hardware[k];
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
        if (p->jobs.notes[0] == '\0')
            continue;
        hrf_out_markup(out, "<dt>notes on %s</dt>", p->name);
        const char *at = p->jobs.notes;
        for (char line[HRF_SCORES_NOTES]; hrf_scores_next_note(&at, line);)
            hrf_out_markup(out, "<dd>%s</dd>\n", line);
    }
}

void hrf_page_provenance(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_calibration_facts *c = &cohort->calibration;
    hrf_out_adds(out, "<section><h2>Provenance</h2><dl>\n");
    for (size_t i = 0; i < cohort->n_provenance; i++)
        hrf_page_fact(out, cohort->provenance[i].name, cohort->provenance[i].text);
    computed_on(out, cohort);
    precision_notes(out, cohort);
    if (c->key != NULL) {
        hrf_page_fact(out, "calibration", c->key);
        hrf_out_markup(out, "<dt>calibration made</dt><dd>%s, %lld samples of %s, %s, %s</dd>\n",
                       c->cached ? "earlier (found in the store)" : "in this run",
                       (long long)c->samples,
                       c->of_other_slides ? "slides that are not evaluated"
                       : c->of_training   ? "the cohort's slides for training"
                                          : "the cohort that is evaluated",
                       c->method != NULL ? c->method : "", hrf_duration_text(c->seconds).text);
        for (size_t i = 0; i < c->n_kept; i++)
            hrf_out_markup(out, "<dt>kept in %s</dt><dd>%s: %s</dd>\n",
                           c->kept[i].precision == HRF_BF16 ? "bfloat16" : "float32",
                           c->kept[i].name, c->kept[i].reason);
        if (c->budget_text != NULL)
            hrf_page_fact(out, "calibrate.budget", c->budget_text);
        if (c->loss_text != NULL)
            hrf_page_fact(out, "what INT8 loses", c->loss_text);
    } else {
        hrf_page_fact(out, "calibration", c->reason != NULL ? c->reason : "nothing was calibrated");
    }
    hrf_out_addf(out,
                 "<dt>AUC interval</dt><dd>95 %%, " HRF_AUC_INTERVAL_METHOD "; in report.json also "
                 "a percentile bootstrap, stratified, %d resamples, seed %llu</dd>\n",
                 HRF_BOOTSTRAP_RESAMPLES, (unsigned long long)cohort->seed);
    hrf_out_adds(out, "</dl></section>\n");
}
