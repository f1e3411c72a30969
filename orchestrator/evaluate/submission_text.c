/* submission_text.c - an evaluation as lines for people. */
#include "orchestrator/evaluate/submission.h"

#include <math.h>

/* Adds "12 without a file (test_001, test_002, ...)": one line, however many there are. */
static void add_names(struct hrf_strbuf *out, const char *what, char *const *names, size_t n)
{
    enum { SHOWN = 5 };
    if (n == 0)
        return;
    hrf_strbuf_addf(out, "            %zu %s (", n, what);
    for (size_t i = 0; i < n && i < SHOWN; i++)
        hrf_strbuf_addf(out, "%s%s", i > 0 ? ", " : "", names[i]);
    hrf_strbuf_addf(out, "%s)\n", n > SHOWN ? ", ..." : "");
}

static void add_slides(struct hrf_strbuf *out, const struct hrf_evaluated *task)
{
    hrf_strbuf_addf(out, "  slides    %zu: %zu positive, %zu negative\n", task->n_used,
                    task->n_positive, task->n_used - task->n_positive);
    add_names(out, "with a truth are not in the submission", task->missing, task->n_missing);
    add_names(out, "of the submission have no truth", task->unknown, task->n_unknown);
}

static const char *rule_text(enum hrf_froc_rule rule)
{
    static const char *const texts[] = {
        "official: as Evaluation_FROC.py: the smallest confidence is no threshold, false positives "
        "are averaged over all slides with a file",
        "jama: false positives of slides without metastases only, averaged over those",
        "strict: every detection counts, slides without a file have no detections",
    };
    return texts[rule];
}

static void add_froc(struct hrf_strbuf *out, const struct hrf_evaluation *e)
{
    const struct hrf_froc *froc = &e->froc;
    hrf_strbuf_addf(out, "lesion task (%s)\n", rule_text(e->params.rule));
    add_slides(out, &e->lesion_task);
    hrf_strbuf_addf(out, "  truth     %zu from masks, %zu from outlines\n", e->n_masks,
                    e->n_outlines);
    if (e->froc_reason != NULL) {
        hrf_strbuf_addf(out, "  FROC      none: %s\n", e->froc_reason);
        return;
    }
    hrf_strbuf_addf(out,
                    "  lesions   %zu, %zu of them hit; %zu ITC do not count, nor do the %zu "
                    "detections on them; %zu false positives\n",
                    froc->n_lesions, froc->n_hits, froc->n_itc, e->n_ignored,
                    froc->n_false_positives);
    hrf_strbuf_addf(out, "  FROC      %.4f", froc->score);
    if (froc->n_resamples > 0)
        hrf_strbuf_addf(out, " (95 %% interval %.4f to %.4f, bootstrap over slides)",
                        froc->interval.low, froc->interval.high);
    else
        hrf_strbuf_addf(out, " (no interval: %s)", froc->no_interval);
    hrf_strbuf_addf(out, "\n  at FP per slide");
    for (int i = 0; i < HRF_FROC_RATES; i++)
        hrf_strbuf_addf(out, "%s %g: %.4f", i > 0 ? "," : "", hrf_froc_rates[i],
                        froc->sensitivity[i]);
    hrf_strbuf_addc(out, '\n');
}

static void add_auc(struct hrf_strbuf *out, const struct hrf_evaluation *e)
{
    hrf_strbuf_adds(out, "slide task\n");
    add_slides(out, &e->slide_task);
    if (isnan(e->auc)) {
        hrf_strbuf_addf(out, "  AUC       none: %s\n", e->auc_reason);
        return;
    }
    hrf_strbuf_addf(out, "  AUC       %.4f (95 %% interval %.4f to %.4f, %s", e->auc,
                    e->auc_interval.low, e->auc_interval.high, HRF_AUC_INTERVAL_METHOD);
    if (e->auc_bootstrap.low == e->auc_bootstrap.high)
        hrf_strbuf_adds(out, "; a bootstrap has no width here)\n");
    else
        hrf_strbuf_addf(out, "; bootstrap %.4f to %.4f)\n", e->auc_bootstrap.low,
                        e->auc_bootstrap.high);
    if (!isnan(e->macro_auc))
        hrf_strbuf_addf(out, "            %.4f of macro-metastases against normal\n", e->macro_auc);
    if (!isnan(e->micro_auc))
        hrf_strbuf_addf(out, "            %.4f of micro-metastases against normal\n", e->micro_auc);
}

static void add_operating_point(struct hrf_strbuf *out, const struct hrf_evaluation *e)
{
    const struct hrf_confusion *c = &e->confusion;
    if (e->operating_point_reason != NULL) {
        hrf_strbuf_addf(out, "  threshold none: %s\n", e->operating_point_reason);
        return;
    }
    hrf_strbuf_addf(out, "  threshold %.6g, chosen by ", e->operating_point.threshold);
    if (e->params.specificity > 0.0)
        hrf_strbuf_addf(out, "sensitivity at a specificity of %g", e->params.specificity);
    else
        hrf_strbuf_adds(out, "Youden's J");
    hrf_strbuf_addf(out, " on the %zu slides of %s\n", e->tuning.n_used, e->params.tuning);
    hrf_strbuf_addf(out,
                    "            there: sensitivity %.4f, specificity %.4f; here: %.4f and %.4f, "
                    "accuracy %.4f\n",
                    e->operating_point.true_positive_rate,
                    1.0 - e->operating_point.false_positive_rate, hrf_confusion_sensitivity(c),
                    hrf_confusion_specificity(c), hrf_confusion_accuracy(c));
}

void hrf_evaluation_text(const struct hrf_evaluation *e, struct hrf_strbuf *out)
{
    if (e->params.lesions != NULL)
        add_froc(out, e);
    if (e->params.slides != NULL)
        add_auc(out, e);
    if (e->params.tuning != NULL)
        add_operating_point(out, e);
    for (size_t i = 0; i < e->n_left_out; i++)
        hrf_strbuf_addf(out, "excluded    %s%s: %s\n", e->left_out[i].slide,
                        e->left_out[i].lesions_only ? " (lesion task)" : "", e->left_out[i].reason);
}
