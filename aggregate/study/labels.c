/* labels.c - the words for what slides are and are called, and the figures of many classes. */
#include "aggregate/study/cohort.h"

#include "base/strbuf.h"
#include "statistics/precision_recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *hrf_cohort_label(const struct hrf_cohort *cohort, bool positive)
{
    if (positive)
        return cohort->classes[cohort->positive];
    return cohort->n_classes == 2 ? cohort->classes[1 - cohort->positive] : "negative";
}

const char *hrf_cohort_class(const struct hrf_cohort *cohort, int32_t index)
{
    return cohort->n_classes == 1 ? hrf_cohort_label(cohort, index == 1) : cohort->classes[index];
}

int32_t hrf_cohort_called(const struct hrf_cohort *cohort, const struct hrf_cohort_score *score)
{
    int32_t best = -1;
    if (!score->known || cohort->is_multilabel || cohort->is_regression)
        return -1;
    if (cohort->n_classes < 3 || score->classes == NULL)
        return score->positive          ? (int32_t)cohort->positive
               : cohort->n_classes == 2 ? (int32_t)(1 - cohort->positive)
                                        : -1;
    for (size_t i = 0; i < cohort->n_classes; i++)
        if (!isnan(score->classes[i]) && (best < 0 || score->classes[i] > score->classes[best]))
            best = (int32_t)i;
    return best;
}

bool hrf_cohort_calls_positive(const struct hrf_cohort *cohort,
                               const struct hrf_cohort_score *score)
{
    const int32_t called = hrf_cohort_called(cohort, score);
    return score->known && (called >= 0 ? called == (int32_t)cohort->positive : score->positive);
}

bool hrf_cohort_has_many_classes(const struct hrf_cohort *cohort)
{
    return !cohort->is_regression && (cohort->n_classes > 2 || cohort->is_multilabel);
}

const char *hrf_cohort_slide_label(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_score *score)
{
    const int32_t called = hrf_cohort_called(cohort, score);
    if (cohort->is_regression)
        return "";
    if (cohort->is_multilabel)
        return score->known && score->labels != NULL ? score->labels : "";
    return called >= 0    ? cohort->classes[called]
           : score->known ? hrf_cohort_label(cohort, score->positive)
                          : "";
}

const char *hrf_cohort_truth_label(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_slide *slide)
{
    if (slide->is_tuning)
        return slide->tuning_truth == HRF_TRUTH_UNKNOWN
                   ? ""
                   : hrf_cohort_label(cohort, slide->tuning_truth == HRF_TRUTH_POSITIVE);
    if (cohort->is_multilabel || cohort->is_regression)
        return slide->label_text != NULL ? slide->label_text : "";
    return slide->truth_class >= 0 ? cohort->classes[slide->truth_class]
           : slide->truth != HRF_TRUTH_UNKNOWN
               ? hrf_cohort_label(cohort, slide->truth == HRF_TRUTH_POSITIVE)
               : "";
}

/* is_multilabel: true if the truth has a class, and if the score has it. False for a score without
 * classes, of which it is not known. */
static bool truth_has(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide,
                      size_t class)
{
    const char *text = slide->label_text != NULL ? slide->label_text : "";
    const char *wanted = cohort->classes[class];
    for (size_t n; *text != '\0'; text += n + (text[n] == ';')) {
        n = strcspn(text, ";");
        if (strlen(wanted) == n && strncasecmp(text, wanted, n) == 0)
            return true;
    }
    return false;
}

static bool score_has(const struct hrf_cohort *cohort, const struct hrf_cohort_score *score,
                      size_t class)
{
    return score->known && score->classes != NULL && score->classes[class] >= cohort->threshold;
}

/* A truth that is only known not to be the positive class is met by any other label. */
bool hrf_cohort_is_right(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide,
                         size_t precision)
{
    const struct hrf_cohort_score *score = &slide->scores[precision];
    const int32_t called = hrf_cohort_called(cohort, score);
    bool all_right = true;
    if (!score->known || slide->truth == HRF_TRUTH_UNKNOWN || cohort->is_regression)
        return false;
    for (size_t i = 0; cohort->is_multilabel && i < cohort->n_classes; i++)
        all_right &= truth_has(cohort, slide, i) == score_has(cohort, score, i);
    if (cohort->is_multilabel)
        return all_right;
    if (slide->truth_class >= 0 && called >= 0)
        return slide->truth_class == called;
    return hrf_cohort_calls_positive(cohort, score) == (slide->truth == HRF_TRUTH_POSITIVE);
}

bool hrf_cohort_is_wrong(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide)
{
    return slide->scores[0].known && slide->truth != HRF_TRUTH_UNKNOWN &&
           !hrf_cohort_is_right(cohort, slide, 0);
}

bool hrf_cohort_differs(const struct hrf_cohort *cohort, const struct hrf_cohort_score *a,
                        const struct hrf_cohort_score *b)
{
    const int32_t x = hrf_cohort_called(cohort, a), y = hrf_cohort_called(cohort, b);
    if (cohort->is_regression)
        return false;
    if (cohort->is_multilabel)
        return a->known && b->known && a->labels != NULL && b->labels != NULL &&
               strcmp(a->labels, b->labels) != 0;
    return a->known && b->known && (x >= 0 && y >= 0 ? x != y : a->positive != b->positive);
}

/* "er;pr" of the classes at the threshold. */
static char *join_labels(const struct hrf_cohort *cohort, const double *classes)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    for (size_t i = 0; i < cohort->n_classes; i++)
        if (classes[i] >= cohort->threshold)
            hrf_strbuf_addf(&text, "%s%s", text.length > 0 ? ";" : "", cohort->classes[i]);
    return hrf_strbuf_detach(&text);
}

void hrf_cohort_set_truth_class(const struct hrf_cohort *cohort, struct hrf_cohort_slide *slide)
{
    const size_t n = slide->label_text != NULL ? strcspn(slide->label_text, ",") : 0;
    slide->truth_class = -1;
    slide->truth_number = NAN;
    if (cohort->is_regression && slide->label_text != NULL && slide->label_text[0] != '\0')
        slide->truth_number = strtod(slide->label_text, NULL); /* checked by ingest */
    if (cohort->is_regression || cohort->is_multilabel || slide->is_tuning)
        return;
    for (size_t i = 0; n > 0 && i < cohort->n_classes; i++)
        if (strlen(cohort->classes[i]) == n &&
            strncasecmp(cohort->classes[i], slide->label_text, n) == 0)
            slide->truth_class = (int32_t)i;
    if (slide->truth_class >= 0 || slide->truth == HRF_TRUTH_UNKNOWN)
        return;
    if (slide->truth == HRF_TRUTH_POSITIVE)
        slide->truth_class = (int32_t)cohort->positive;
    else if (cohort->n_classes == 2)
        slide->truth_class = (int32_t)(1 - cohort->positive);
}

enum hrf_status hrf_cohort_score_classes(const struct hrf_cohort *cohort,
                                         const struct hrf_tile_plan *plan,
                                         const struct hrf_scores *scores,
                                         struct hrf_cohort_score *score, struct hrf_error *err)
{
    const size_t n = cohort->n_classes;
    if ((size_t)scores->n_classes != n || scores->n_patches != plan->n_patches)
        return HRF_OK; /* the slide's score has its own, louder error */
    double *classes = hrf_alloc_array(n, sizeof *classes);
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < n && status == HRF_OK; i++) {
        struct hrf_error why = { .status = HRF_OK };
        status = hrf_slide_score_compute(plan, scores->probabilities + i, n, &cohort->rule,
                                         &classes[i], &why);
        if (status == HRF_E_USER) {
            classes[i] = NAN;
            status = HRF_OK;
        }
    }
    if (status != HRF_OK) {
        hrf_free(classes);
        return hrf_error_set(err, status, "no memory to score a slide");
    }
    hrf_free(score->classes);
    score->classes = classes;
    if (!cohort->is_multilabel)
        return HRF_OK;
    hrf_free(score->labels);
    score->labels = join_labels(cohort, classes);
    return HRF_OK;
}

/* ---- figures of three or more classes ---- */

static void set_reason(struct hrf_figure *figure, const char *reason)
{
    figure->value = NAN;
    figure->reason = hrf_strdup(reason);
}

/* The slides with the score of one class, and whether they are of it. */
static size_t one_against_all(const struct hrf_cohort *cohort, size_t precision, size_t class,
                              struct hrf_labelled *items)
{
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *score = &slide->scores[precision];
        const bool has_truth = cohort->is_multilabel ? slide->truth != HRF_TRUTH_UNKNOWN
                                                     : slide->truth_class >= 0;
        if (score->known && score->classes != NULL && has_truth && !isnan(score->classes[class]))
            items[n++] = (struct hrf_labelled){ score->classes[class],
                                                cohort->is_multilabel
                                                    ? truth_has(cohort, slide, class)
                                                    : slide->truth_class == (int32_t) class };
    }
    return n;
}

/* AUC and average precision of one class's score against all others. */
static enum hrf_status finish_class_curves(struct hrf_class_figures *figures,
                                           const struct hrf_labelled *items, size_t n,
                                           struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_auc(items, n, &figures->auc.value, &why);
    if (status == HRF_E_USER) {
        set_reason(&figures->average_precision, why.text);
        set_reason(&figures->auc, why.text);
        return HRF_OK;
    }
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    figures->auc_interval = hrf_auc_newcombe(figures->auc.value, (int64_t)figures->n_slides,
                                             (int64_t)(n - figures->n_slides));
    return hrf_average_precision(items, n, &figures->average_precision.value, err);
}

/* How many slides have the class's label, and how many of them rightly. */
static void count_labels(const struct hrf_cohort *cohort, size_t precision, size_t class,
                         const struct hrf_labelled *items, size_t n, size_t *n_labels,
                         size_t *n_right)
{
    const size_t *confusion = cohort->precisions[precision].slides.class_confusion;
    *n_labels = *n_right = 0;
    for (size_t i = 0; !cohort->is_multilabel && i < cohort->n_classes; i++)
        *n_labels += confusion[i * cohort->n_classes + class];
    if (!cohort->is_multilabel)
        *n_right = confusion[class * cohort->n_classes + class];
    for (size_t i = 0; cohort->is_multilabel && i < n; i++) {
        *n_labels += items[i].score >= cohort->threshold;
        *n_right += items[i].positive && items[i].score >= cohort->threshold;
    }
}

static enum hrf_status finish_class(const struct hrf_cohort *cohort, size_t precision, size_t class,
                                    struct hrf_labelled *items, struct hrf_error *err)
{
    struct hrf_class_figures *figures = &cohort->precisions[precision].slides.by_class[class];
    const size_t n = one_against_all(cohort, precision, class, items);
    size_t n_labels, n_right;
    for (size_t i = 0; i < n; i++)
        figures->n_slides += items[i].positive;
    HRF_TRY(finish_class_curves(figures, items, n, err));
    count_labels(cohort, precision, class, items, n, &n_labels, &n_right);
    if (n_labels == 0)
        set_reason(&figures->precision, "no slide got this label");
    else
        figures->precision.value = (double)n_right / (double)n_labels;
    if (figures->n_slides == 0) {
        set_reason(&figures->recall, "no slide of this class was scored");
        return HRF_OK;
    }
    figures->recall.value = (double)n_right / (double)figures->n_slides;
    return HRF_OK;
}

static void finish_macro(const struct hrf_cohort *cohort, struct hrf_cohort_precision *p)
{
    double sum = 0.0;
    for (size_t i = 0; i < cohort->n_classes; i++) {
        if (p->slides.by_class[i].auc.reason != NULL) {
            HRF_AUTO_FREE char *reason = hrf_format("class %s: %s", cohort->classes[i],
                                                    p->slides.by_class[i].auc.reason);
            set_reason(&p->slides.macro_auc, reason);
            return;
        }
        sum += p->slides.by_class[i].auc.value;
    }
    p->slides.macro_auc.value = sum / (double)cohort->n_classes;
}

enum hrf_status hrf_cohort_finish_classes(struct hrf_cohort *cohort, size_t precision,
                                          struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[precision];
    const size_t n = cohort->n_classes;
    if (!hrf_cohort_has_many_classes(cohort))
        return HRF_OK;
    p->slides.by_class = hrf_calloc(n, sizeof *p->slides.by_class);
    p->slides.class_confusion = hrf_calloc(n * n, sizeof *p->slides.class_confusion);
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const int32_t called = hrf_cohort_called(cohort, &slide->scores[precision]);
        if (called >= 0 && slide->truth_class >= 0)
            p->slides.class_confusion[(size_t)slide->truth_class * n + (size_t)called]++;
    }
    for (size_t i = 0; i < n; i++)
        HRF_TRY(finish_class(cohort, precision, i, items, err));
    finish_macro(cohort, p);
    return HRF_OK;
}
