/* submission.c - joins the submission with the truth and computes the figures of both tasks. */
#include "orchestrator/evaluate/submission.h"

#include "aggregate/camelyon16/exclusions.h"
#include "aggregate/camelyon16/slide_scores.h"
#include "base/directory.h"
#include "base/path.h"
#include "orchestrator/evaluate/truth.h"

#include <math.h>
#include <string.h>

static void evaluated_release(struct hrf_evaluated *e)
{
    for (size_t i = 0; i < e->n_missing; i++)
        hrf_free(e->missing[i]);
    for (size_t i = 0; i < e->n_unknown; i++)
        hrf_free(e->unknown[i]);
    hrf_free(e->missing);
    hrf_free(e->unknown);
}

void hrf_evaluation_destroy(struct hrf_evaluation *evaluation)
{
    if (evaluation == NULL)
        return;
    for (size_t i = 0; i < evaluation->n_left_out; i++)
        hrf_free(evaluation->left_out[i].slide);
    hrf_free(evaluation->left_out);
    hrf_strbuf_release(&evaluation->warnings);
    evaluated_release(&evaluation->lesion_task);
    evaluated_release(&evaluation->slide_task);
    evaluated_release(&evaluation->tuning);
    hrf_free(evaluation->operating_point_reason);
    hrf_froc_release(&evaluation->froc);
    hrf_free(evaluation->froc_reason);
    hrf_free(evaluation->auc_reason);
    hrf_free(evaluation);
}

static void add_name(char ***list, size_t *n, const char *name)
{
    *list = hrf_realloc_array(*list, *n + 1, sizeof **list);
    (*list)[(*n)++] = hrf_strdup(name);
}

/* Returns why the slide is left out of a task; NULL: it is not. */
static const char *reason_to_leave_out(const struct hrf_evaluation_params *params, const char *name,
                                       bool is_lesion_task, bool *lesions_only)
{
    char excluded[HRF_CAMELYON16_NAME];
    *lesions_only = false;
    for (size_t i = 0; i < params->n_excluded; i++) {
        hrf_camelyon16_name(params->excluded[i], excluded);
        if (strcmp(excluded, name) == 0)
            return "excluded by the command line";
    }
    const struct hrf_exclusion *known = hrf_camelyon16_exclusion(name);
    if (params->no_exclusions || known == NULL || (known->lesions_only && !is_lesion_task))
        return NULL;
    *lesions_only = known->lesions_only;
    return known->reason;
}

static void leave_out(struct hrf_evaluation *e, const char *name, const char *reason,
                      bool lesions_only)
{
    for (size_t i = 0; i < e->n_left_out; i++)
        if (strcmp(e->left_out[i].slide, name) == 0)
            return; /* the other task has left it out */
    e->left_out = hrf_realloc_array(e->left_out, e->n_left_out + 1, sizeof *e->left_out);
    e->left_out[e->n_left_out++] = (struct hrf_left_out){ hrf_strdup(name), reason, lesions_only };
}

/* ---- which slides ---- */

static bool is_testing(const char *name)
{
    return strncmp(name, "test_", 5) == 0;
}

/* What a task is judged on: the slides with a truth, of the splits of which something is submitted.
 */
struct selection {
    const struct hrf_truth_set *truth;
    bool *is_submitted; /* [truth->n_slides] */
    bool splits[2];     /* [training, testing]: true if something of that split is submitted */
};

static void select_slides(const struct hrf_truth_set *truth, const char *const *names,
                          size_t n_names, struct hrf_evaluated *task, struct selection *out)
{
    *out = (struct selection){
        .truth = truth, .is_submitted = hrf_calloc(truth->n_slides + 1, sizeof *out->is_submitted)
    };
    for (size_t i = 0; i < n_names; i++) {
        const struct hrf_truth_slide *slide = hrf_truth_set_find(truth, names[i]);
        if (slide == NULL || slide->truth == HRF_TRUTH_UNKNOWN) {
            add_name(&task->unknown, &task->n_unknown, names[i]);
            continue;
        }
        out->is_submitted[slide - truth->slides] = true;
        out->splits[is_testing(slide->name)] = true;
    }
}

/* True if the slide is judged in the task. One that is left out, or was not submitted, is listed.
 */
static bool is_judged(struct hrf_evaluation *e, const struct selection *s, size_t index,
                      bool is_lesion_task)
{
    const struct hrf_truth_slide *slide = &s->truth->slides[index];
    struct hrf_evaluated *task = is_lesion_task ? &e->lesion_task : &e->slide_task;
    bool lesions_only;
    if (slide->truth == HRF_TRUTH_UNKNOWN || !s->splits[is_testing(slide->name)])
        return false;
    const char *reason = reason_to_leave_out(&e->params, slide->name, is_lesion_task,
                                             &lesions_only);
    if (reason != NULL)
        leave_out(e, slide->name, reason, lesions_only);
    else if (!s->is_submitted[index])
        add_name(&task->missing, &task->n_missing, slide->name);
    return reason == NULL && s->is_submitted[index];
}

/* ---- the lesion task ---- */

/* The files of detections, by the slides of the truth. */
struct submitted_files {
    char **files; /* [truth->n_slides]; borrowed from `names`; NULL = none */
    struct hrf_text_list names;
};

static bool is_csv(const char *name)
{
    HRF_AUTO_FREE char *extension = hrf_path_extension(name);
    return extension != NULL && strcmp(extension, "csv") == 0;
}

static enum hrf_status list_files(const char *directory, const struct hrf_truth_set *truth,
                                  struct submitted_files *out, struct hrf_error *err)
{
    HRF_TRY(hrf_path_list_directory(directory, &out->names, err));
    size_t n = 0;
    for (size_t i = 0; i < out->names.n_items; i++) {
        char *name = out->names.items[i];
        out->names.items[i] = NULL;
        if (is_csv(name))
            out->names.items[n++] = name;
        else
            hrf_free(name);
    }
    out->names.n_items = n;
    out->files = hrf_calloc(truth->n_slides + 1, sizeof *out->files);
    for (size_t i = 0; i < n; i++) {
        const struct hrf_truth_slide *slide = hrf_truth_set_find(truth, out->names.items[i]);
        if (slide == NULL)
            continue;
        char **file = &out->files[slide - truth->slides];
        if (*file != NULL)
            return hrf_error_set(err, HRF_E_USER,
                                 "folder '%s' has two files for one slide, %s and %s: keep one",
                                 directory, *file, out->names.items[i]);
        *file = out->names.items[i];
    }
    return n > 0 ? HRF_OK : hrf_error_set(err, HRF_E_USER, "'%s' has no csv file", directory);
}

/* Warns of detections at negative coordinates, which no slide has. */
static void warn_of_outside(struct hrf_evaluation *e, const char *file,
                            const struct hrf_detection *detections, size_t n)
{
    size_t n_outside = 0;
    for (size_t i = 0; i < n; i++)
        n_outside += detections[i].x < 0 || detections[i].y < 0;
    if (n_outside > 0)
        hrf_strbuf_addf(&e->warnings, "%s: %zu detection%s at negative coordinates\n", file,
                        n_outside, n_outside == 1 ? "" : "s");
}

static enum hrf_status find_lesions(struct hrf_evaluation *e, const struct hrf_truth_slide *slide,
                                    struct hrf_lesions **out, struct hrf_error *err)
{
    int64_t n_outside = 0;
    HRF_TRY(hrf_truth_lesions(slide, e->params.prefer_xml, out, &n_outside, err));
    const bool is_mask = slide->mask != NULL &&
                         !(e->params.prefer_xml && (slide->xml != NULL || slide->entry != NULL));
    *(is_mask ? &e->n_masks : &e->n_outlines) += 1;
    if (n_outside > 0)
        hrf_strbuf_addf(&e->warnings, "%s: %lld vertices of its outlines lie outside the slide\n",
                        slide->name, (long long)n_outside);
    if ((*out)->components->n_items == 0)
        hrf_strbuf_addf(&e->warnings, "%s: positive, but its %s no tumour\n", slide->name,
                        is_mask ? "mask holds" : "outlines hold");
    return HRF_OK;
}

/* Judges one slide by its file of detections. file NULL: there are none. */
static enum hrf_status judge_slide(struct hrf_evaluation *e, const struct hrf_truth_slide *slide,
                                   const char *file, struct hrf_froc_slide *out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_lesions) lesions = NULL;
    HRF_AUTO_FREE struct hrf_detection *detections = NULL;
    size_t n = 0;
    if (file != NULL) {
        HRF_AUTO_FREE char *path = hrf_path_join(e->params.lesions, file);
        HRF_TRY(hrf_detections_read(path, &detections, &n, err));
        warn_of_outside(e, file, detections, n);
    }
    const bool is_positive = slide->truth == HRF_TRUTH_POSITIVE;
    if (is_positive)
        HRF_TRY(find_lesions(e, slide, &lesions, err));
    hrf_froc_slide_judge(lesions, is_positive, detections, n, out);
    return HRF_OK;
}

struct judged {
    struct hrf_froc_slide *slides;
    size_t n_slides;
};

static enum hrf_status judge_all(struct hrf_evaluation *e, const struct selection *s,
                                 const struct submitted_files *files, struct judged *out,
                                 struct hrf_error *err)
{
    out->slides = hrf_calloc(s->truth->n_slides + 1, sizeof *out->slides);
    for (size_t i = 0; i < s->truth->n_slides; i++) {
        const struct hrf_truth_slide *slide = &s->truth->slides[i];
        const size_t n_missing = e->lesion_task.n_missing;
        const bool is_in = is_judged(e, s, i, true);
        /* By the strict rule a slide without a file has no detections. */
        if (!is_in && (e->params.rule != HRF_FROC_STRICT || e->lesion_task.n_missing == n_missing))
            continue;
        if (slide->truth == HRF_TRUTH_POSITIVE && !hrf_truth_has_lesions(slide)) {
            leave_out(e, slide->name, "positive, with neither outlines nor a mask", true);
            continue;
        }
        HRF_TRY(judge_slide(e, slide, files->files[i], &out->slides[out->n_slides], err));
        e->lesion_task.n_positive += slide->truth == HRF_TRUTH_POSITIVE;
        e->n_ignored += out->slides[out->n_slides++].n_ignored;
    }
    e->lesion_task.n_used = out->n_slides;
    return HRF_OK;
}

/* A figure that cannot be computed is no failure of the command. */
static enum hrf_status keep_reason(enum hrf_status status, const struct hrf_error *why,
                                   char **reason, struct hrf_error *err)
{
    if (status != HRF_E_USER)
        return status == HRF_OK ? HRF_OK : hrf_error_set(err, status, "%s", why->text);
    *reason = hrf_strdup(why->text);
    return HRF_OK;
}

static enum hrf_status lesion_task(struct hrf_evaluation *e, const struct hrf_truth_set *truth,
                                   struct submitted_files *files, struct selection *s,
                                   struct judged *judged, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    HRF_TRY(list_files(e->params.lesions, truth, files, err));
    select_slides(truth, (const char *const *)files->names.items, files->names.n_items,
                  &e->lesion_task, s);
    HRF_TRY(judge_all(e, s, files, judged, err));
    const enum hrf_status status = hrf_froc_compute(judged->slides, judged->n_slides,
                                                    e->params.rule, e->params.n_resamples,
                                                    e->params.seed, &e->froc, &why);
    return keep_reason(status, &why, &e->froc_reason, err);
}

static enum hrf_status judge_lesions(struct hrf_evaluation *e, const struct hrf_truth_set *truth,
                                     struct hrf_error *err)
{
    struct submitted_files files = { .files = NULL };
    struct selection selection = { .truth = truth };
    struct judged judged = { .slides = NULL };
    const enum hrf_status status = lesion_task(e, truth, &files, &selection, &judged, err);
    for (size_t i = 0; i < judged.n_slides; i++)
        hrf_froc_slide_release(&judged.slides[i]);
    hrf_free(judged.slides);
    hrf_free(selection.is_submitted);
    hrf_free(files.files);
    hrf_text_list_release(&files.names);
    return status;
}

/* ---- the slide task ---- */

/* Returns the AUC of the negative slides and the positive ones of one size; NaN if there is none.
 */
static double auc_of_size(const struct hrf_labelled *items, const enum hrf_metastasis_size *sizes,
                          size_t n, enum hrf_metastasis_size size)
{
    HRF_AUTO_FREE struct hrf_labelled *some = hrf_alloc_array(n + 1, sizeof *some);
    size_t n_some = 0;
    double auc = NAN;
    for (size_t i = 0; i < n; i++)
        if (!items[i].positive || sizes[i] == size)
            some[n_some++] = items[i];
    return hrf_auc(some, n_some, &auc, NULL) == HRF_OK ? auc : NAN;
}

static enum hrf_status compute_auc(struct hrf_evaluation *e, const struct hrf_labelled *items,
                                   const enum hrf_metastasis_size *sizes, struct hrf_error *err)
{
    const struct hrf_evaluated *task = &e->slide_task;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_auc(items, task->n_used, &e->auc, &why);
    if (status == HRF_OK)
        status = hrf_auc_interval(items, task->n_used, e->params.n_resamples, e->params.seed,
                                  &e->auc_bootstrap, &why);
    if (status != HRF_OK) {
        e->auc = NAN;
        return keep_reason(status, &why, &e->auc_reason, err);
    }
    e->auc_interval = hrf_auc_newcombe(e->auc, (int64_t)task->n_positive,
                                       (int64_t)(task->n_used - task->n_positive));
    e->macro_auc = auc_of_size(items, sizes, task->n_used, HRF_METASTASIS_MACRO);
    e->micro_auc = auc_of_size(items, sizes, task->n_used, HRF_METASTASIS_MICRO);
    return HRF_OK;
}

static const struct hrf_named_score *find_score(const struct hrf_slide_scores *scores,
                                                const char *name)
{
    for (size_t i = 0; i < scores->n_items; i++)
        if (strcmp(scores->items[i].name, name) == 0)
            return &scores->items[i];
    return NULL;
}

/* Chooses the threshold on the slides of another table: one that is judged too would be a leak. */
static enum hrf_status choose_point(struct hrf_evaluation *e, const struct hrf_truth_set *truth,
                                    const struct hrf_slide_scores *judged, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide_scores) scores = NULL;
    struct hrf_evaluated *task = &e->tuning;
    struct hrf_error why = { .status = HRF_OK };
    HRF_TRY(hrf_slide_scores_read(e->params.tuning, e->params.column, e->params.precision, &scores,
                                  err));
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_calloc(scores->n_items + 1, sizeof *items);
    for (size_t i = 0; i < scores->n_items; i++) {
        const char *name = scores->items[i].name;
        const struct hrf_truth_slide *slide = hrf_truth_set_find(truth, name);
        bool lesions_only;
        if (find_score(judged, name) != NULL)
            return hrf_error_set(
                err, HRF_E_USER,
                "slide %s is both in '%s', on which the threshold is chosen, and in "
                "'%s', which is judged: choose the threshold on other slides",
                name, e->params.tuning, e->params.slides);
        if (slide == NULL || slide->truth == HRF_TRUTH_UNKNOWN)
            add_name(&task->unknown, &task->n_unknown, name);
        else if (reason_to_leave_out(&e->params, name, false, &lesions_only) == NULL)
            items[task->n_used++] = (struct hrf_labelled){ scores->items[i].score,
                                                           slide->truth == HRF_TRUTH_POSITIVE };
    }
    for (size_t i = 0; i < task->n_used; i++)
        task->n_positive += items[i].positive;
    return keep_reason(
        hrf_operating_point(items, task->n_used, e->params.specificity, &e->operating_point, &why),
        &why, &e->operating_point_reason, err);
}

static enum hrf_status slide_task(struct hrf_evaluation *e, const struct hrf_truth_set *truth,
                                  struct selection *s, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide_scores) scores = NULL;
    HRF_TRY(hrf_slide_scores_read(e->params.slides, e->params.column, e->params.precision, &scores,
                                  err));
    HRF_AUTO_FREE const char **names = hrf_calloc(scores->n_items + 1, sizeof *names);
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_calloc(truth->n_slides + 1, sizeof *items);
    HRF_AUTO_FREE enum hrf_metastasis_size *sizes = hrf_calloc(truth->n_slides + 1, sizeof *sizes);
    for (size_t i = 0; i < scores->n_items; i++)
        names[i] = scores->items[i].name;
    struct hrf_evaluated *task = &e->slide_task;
    select_slides(truth, names, scores->n_items, task, s);
    for (size_t i = 0; i < truth->n_slides; i++) {
        if (!is_judged(e, s, i, false))
            continue;
        const bool positive = truth->slides[i].truth == HRF_TRUTH_POSITIVE;
        items[task->n_used] = (struct hrf_labelled){
            .score = find_score(scores, truth->slides[i].name)->score, .positive = positive
        };
        sizes[task->n_used++] = truth->slides[i].size;
        task->n_positive += positive;
    }
    if (e->params.tuning != NULL) {
        HRF_TRY(choose_point(e, truth, scores, err));
        e->confusion = hrf_confusion_count(items, task->n_used, e->operating_point.threshold);
    }
    return compute_auc(e, items, sizes, err);
}

static enum hrf_status judge_slides(struct hrf_evaluation *e, const struct hrf_truth_set *truth,
                                    struct hrf_error *err)
{
    struct selection selection = { .truth = truth };
    const enum hrf_status status = slide_task(e, truth, &selection, err);
    hrf_free(selection.is_submitted);
    return status;
}

enum hrf_status hrf_evaluate(const struct hrf_evaluation_params *params,
                             struct hrf_evaluation **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_truth_set) truth = NULL;
    HRF_AUTO(hrf_evaluation) e = hrf_calloc(1, sizeof *e);
    e->params = *params;
    e->warnings = (struct hrf_strbuf)HRF_STRBUF_INIT;
    e->auc = e->macro_auc = e->micro_auc = NAN;
    HRF_TRY(hrf_truth_set_read(params->truth, &truth, &e->warnings, err));
    if (params->lesions != NULL)
        HRF_TRY(judge_lesions(e, truth, err));
    if (params->slides != NULL)
        HRF_TRY(judge_slides(e, truth, err));
    HRF_MOVE(*out, e);
    return HRF_OK;
}
