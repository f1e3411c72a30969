/* run_pair.c - two runs as one cohort, whose precisions are those of both (run_pair.h). */
#include "aggregate/study/run_pair.h"

#include "aggregate/study/pair_drift.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char letters[] = "AB";

void hrf_run_pair_destroy(struct hrf_run_pair *pair)
{
    if (pair == NULL)
        return;
    for (size_t i = 0; i < pair->n_notes; i++) {
        hrf_free(pair->notes[i].slide);
        hrf_free(pair->notes[i].text);
    }
    hrf_free(pair->notes);
    hrf_cohort_destroy(pair->cohort);
    hrf_free(pair);
}

/* Takes the text. */
static void note(struct hrf_run_pair *pair, const char *slide, char *text)
{
    pair->notes = hrf_realloc_array(pair->notes, pair->n_notes + 1, sizeof *pair->notes);
    pair->notes[pair->n_notes++] = (struct hrf_run_pair_note){ hrf_strdup(slide), text };
}

/* ---- what is matched ---- */

struct match {
    const struct hrf_slide_row *rows[2];
};

struct matches {
    struct hrf_slide_rows rows[2];
    struct match *items;
    size_t n_items;
};

static void matches_release(struct matches *matches)
{
    hrf_slide_rows_release(&matches->rows[0]);
    hrf_slide_rows_release(&matches->rows[1]);
    hrf_free(matches->items);
}

/* A tiled slide that failed at one precision may have scores at the others. */
static bool has_ended(const struct hrf_slide_row *row)
{
    return row->state == HRF_SLIDE_DONE || row->state == HRF_SLIDE_NO_TISSUE ||
           (row->state == HRF_SLIDE_FAILED && row->tile_plan_hash != NULL);
}

static int compare_names(const void *a, const void *b)
{
    const struct hrf_slide_row *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The rows in the order of their names, which are unique within a run: heap. */
static const struct hrf_slide_row **by_name(const struct hrf_slide_rows *rows)
{
    const struct hrf_slide_row **list = hrf_alloc_array(rows->n_items + 1, sizeof *list);
    for (size_t i = 0; i < rows->n_items; i++)
        list[i] = &rows->items[i];
    qsort(list, rows->n_items, sizeof *list, compare_names);
    return list;
}

/* The row of `list` [n] that has the name of `row`; NULL: none has. */
static const struct hrf_slide_row *find_slide(const struct hrf_slide_row *const *list, size_t n,
                                              const struct hrf_slide_row *row)
{
    const struct hrf_slide_row *const *found = bsearch(&row, list, n, sizeof *list, compare_names);
    return found != NULL ? *found : NULL;
}

static void note_missing(struct hrf_run_pair *pair, const struct hrf_slide_row *row,
                         const struct hrf_slide_row *other, size_t side)
{
    if (other == NULL)
        note(pair, row->name, hrf_format("only in %c", letters[side]));
    else if (!has_ended(other))
        note(pair, row->name,
             hrf_format("%s in %c", hrf_slide_state_text(other->state), letters[1 - side]));
}

static void match_slides(struct hrf_run_pair *pair, struct matches *m)
{
    HRF_AUTO_FREE const struct hrf_slide_row **rows_a = by_name(&m->rows[0]);
    HRF_AUTO_FREE const struct hrf_slide_row **rows_b = by_name(&m->rows[1]);
    m->items = hrf_alloc_array(m->rows[0].n_items + 1, sizeof *m->items);
    for (size_t i = 0; i < m->rows[0].n_items; i++) {
        const struct hrf_slide_row *a = &m->rows[0].items[i];
        const struct hrf_slide_row *b = find_slide(rows_b, m->rows[1].n_items, a);
        if (has_ended(a) && b != NULL && has_ended(b))
            m->items[m->n_items++] = (struct match){ { a, b } };
        else if (has_ended(a))
            note_missing(pair, a, b, 0);
    }
    for (size_t i = 0; i < m->rows[1].n_items; i++) {
        const struct hrf_slide_row *b = &m->rows[1].items[i];
        const struct hrf_slide_row *a = find_slide(rows_a, m->rows[0].n_items, b);
        if (has_ended(b) && (a == NULL || !has_ended(a)))
            note_missing(pair, b, a, 1);
    }
}

static int compare_patches_at(const void *a, const void *b)
{
    const struct hrf_patch *p = *(const struct hrf_patch *const *)a;
    const struct hrf_patch *q = *(const struct hrf_patch *const *)b;
    return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : (p->y > q->y) - (p->y < q->y);
}

static const struct hrf_patch **sorted(const struct hrf_tile_plan *plan)
{
    const struct hrf_patch **list = hrf_alloc_array((size_t)plan->n_patches + 1, sizeof *list);
    for (int64_t i = 0; i < plan->n_patches; i++)
        list[i] = &plan->patches[i];
    qsort(list, (size_t)plan->n_patches, sizeof *list, compare_patches_at);
    return list;
}

/* The patches that both plans of a slide have, by their indices in either. */
struct shared_patches {
    int64_t *index[2], n;
    struct hrf_patch *at;
};

static void shared_patches_release(struct shared_patches *shared)
{
    hrf_free(shared->index[0]);
    hrf_free(shared->index[1]);
    hrf_free(shared->at);
}

static enum hrf_status match_patches(struct hrf_tile_plan *const plans[2],
                                     struct shared_patches *shared, struct hrf_error *err)
{
    const size_t room = (size_t)plans[0]->n_patches + 1;
    HRF_AUTO_FREE const struct hrf_patch **a = sorted(plans[0]);
    HRF_AUTO_FREE const struct hrf_patch **b = sorted(plans[1]);
    shared->index[0] = hrf_try_alloc_array(room, sizeof *shared->index[0]);
    shared->index[1] = hrf_try_alloc_array(room, sizeof *shared->index[1]);
    shared->at = hrf_try_alloc_array(room, sizeof *shared->at);
    HRF_CHECK_MEMORY(shared->index[0] != NULL && shared->index[1] != NULL && shared->at != NULL,
                     err, "no memory to match %zu patches", room - 1);
    for (int64_t i = 0, k = 0; i < plans[0]->n_patches && k < plans[1]->n_patches;) {
        const int order = compare_patches_at(&a[i], &b[k]);
        if (order == 0) {
            shared->index[0][shared->n] = a[i] - plans[0]->patches;
            shared->index[1][shared->n] = b[k] - plans[1]->patches;
            shared->at[shared->n++] = *a[i];
        }
        i += order <= 0;
        k += order >= 0;
    }
    return HRF_OK;
}

/* ---- one slide ---- */

/* The chosen patches' probabilities, in the order of the shared patches. */
static float *gather(const struct hrf_scores *scores, const struct shared_patches *shared,
                     size_t side)
{
    const size_t n_classes = (size_t)scores->n_classes;
    float *values = hrf_try_alloc_array((size_t)shared->n * n_classes + 1, sizeof *values);
    for (int64_t i = 0; values != NULL && i < shared->n; i++)
        memcpy(values + (size_t)i * n_classes,
               scores->probabilities + (size_t)shared->index[side][i] * n_classes,
               n_classes * sizeof *values);
    return values;
}

/* The embeddings of one precision of one run against those of A's first. */
static enum hrf_status add_embeddings(struct hrf_run_pair *pair,
                                      const struct hrf_run_pair_side runs[2],
                                      const struct match *match, size_t index,
                                      const struct shared_patches *shared, struct hrf_error *err)
{
    const size_t n_first = runs[0].params->n_precisions, side = index >= n_first;
    struct hrf_cohort_precision *p = &pair->cohort->precisions[index];
    const char *name = runs[side].params->precisions[index - side * n_first];
    const struct hrf_pair_drift_side sides[2] = {
        { runs[0].store, match->rows[0]->id, runs[0].params->precisions[0], shared->index[0] },
        { runs[side].store, match->rows[side]->id, name, shared->index[side] }
    };
    HRF_AUTO(hrf_scores) facts = NULL;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_store_get_score_facts(runs[side].store, match->rows[side]->id,
                                                       name, &facts, &why);
    if (status == HRF_OK) {
        hrf_cohort_add_scores(p, facts);
        status = hrf_pair_drift_add(sides, shared->n, p, &why);
    }
    if (status == HRF_E_AGAIN) {
        note(pair, match->rows[0]->name, hrf_format("not scored at %c:%s", letters[side], name));
        return HRF_OK;
    }
    if (status == HRF_E_UNSUPPORTED) {
        note(pair, match->rows[0]->name,
             hrf_format("%s: not compared at %c:%s", why.text, letters[side], name));
        return HRF_OK;
    }
    return status == HRF_OK ? HRF_OK : hrf_error_set(err, status, "%s", why.text);
}

static enum hrf_status check_scores(const struct hrf_cohort *cohort,
                                    const struct hrf_scores *scores,
                                    const struct hrf_tile_plan *plan, struct hrf_error *err)
{
    if (scores->n_patches == plan->n_patches && (size_t)scores->n_classes == cohort->n_classes)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "the stored scores are of %lld patches and %d classes; the tile plan has "
                         "%lld, the workflow %zu",
                         (long long)scores->n_patches, scores->n_classes,
                         (long long)plan->n_patches, cohort->n_classes);
}

/* One precision of one run on one slide. *reference is A's first, kept for the others; NULL until
 * it was read. */
static enum hrf_status add_precision(struct hrf_run_pair *pair,
                                     const struct hrf_run_pair_side runs[2],
                                     const struct match *match, size_t slide, size_t index,
                                     struct hrf_tile_plan *const plans[2],
                                     const struct shared_patches *shared, float **reference,
                                     struct hrf_error *err)
{
    struct hrf_cohort *cohort = pair->cohort;
    const size_t n_first = runs[0].params->n_precisions, side = index >= n_first;
    const struct hrf_run_pair_side *run = &runs[side];
    const char *name = run->params->precisions[index - side * n_first];
    HRF_AUTO(hrf_scores) scores = NULL;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_store_get_scores(run->store, match->rows[side]->id, name, &scores,
                                                  &why);
    if (status == HRF_E_AGAIN) {
        note(pair, match->rows[0]->name, hrf_format("not scored at %c:%s", letters[side], name));
        return HRF_OK;
    }
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    HRF_TRY(check_scores(cohort, scores, plans[side], err));
    hrf_cohort_add_scores(&cohort->precisions[index], scores);
    float *values = gather(scores, shared, side);
    HRF_CHECK_MEMORY(values != NULL, err, "no memory for the scores of %lld patches",
                     (long long)shared->n);
    const struct hrf_probabilities p = { .at = shared->at,
                                         .reference = index == 0 ? values : *reference,
                                         .values = values,
                                         .n = shared->n,
                                         .n_classes = cohort->n_classes,
                                         .positive = cohort->positive };
    if (p.reference != NULL)
        hrf_difference_add(&cohort->precisions[index].moved.difference, slide, &p);
    if (index == 0)
        *reference = values;
    else
        hrf_free(values);
    return status;
}

static enum hrf_status score_slide(struct hrf_run_pair *pair,
                                   const struct hrf_run_pair_side runs[2],
                                   const struct match *match, size_t slide, struct hrf_error *err)
{
    const size_t n_first = runs[0].params->n_precisions;
    for (size_t i = 0; i < pair->cohort->n_precisions; i++) {
        const size_t side = i >= n_first;
        struct hrf_slide_score score;
        struct hrf_error why = { .status = HRF_OK };
        /* A's rule and threshold for both. */
        enum hrf_status status = hrf_aggregate_slide(
            runs[side].store, runs[0].params, match->rows[side]->id,
            runs[side].params->precisions[i - side * n_first], &score, &why);
        if (status == HRF_OK) {
            struct hrf_cohort_score *to = &pair->cohort->slides[slide].scores[i];
            *to = (struct hrf_cohort_score){ .known = true,
                                             .value = score.score,
                                             .positive = score.positive };
            HRF_TRY(hrf_cohort_load_classes(runs[side].store, pair->cohort, match->rows[side]->id,
                                            runs[side].params->precisions[i - side * n_first], to,
                                            err));
        } else if (status != HRF_E_USER && status != HRF_E_AGAIN) {
            return hrf_error_set(err, status, "%s", why.text);
        }
    }
    return HRF_OK;
}

/* True if the plans have patches of one size; adds a note if they do not. */
static bool are_comparable(struct hrf_run_pair *pair, const char *slide,
                           struct hrf_tile_plan *const plans[2])
{
    const struct hrf_tile_plan *a = plans[0], *b = plans[1];
    if (a->n_patches == 0 || b->n_patches == 0 ||
        (a->patch_width0 == b->patch_width0 && a->patch_height0 == b->patch_height0))
        return true;
    note(pair, slide,
         hrf_format("patches of %lld x %lld px in A, of %lld x %lld in B: none compared",
                    (long long)a->patch_width0, (long long)a->patch_height0,
                    (long long)b->patch_width0, (long long)b->patch_height0));
    return false;
}

static enum hrf_status compare_patches(struct hrf_run_pair *pair,
                                       const struct hrf_run_pair_side runs[2],
                                       const struct match *match, size_t slide,
                                       struct hrf_tile_plan *const plans[2], struct hrf_error *err)
{
    HRF_AUTO_RELEASE(shared_patches) shared = { .n = 0 };
    HRF_AUTO_FREE float *reference = NULL;
    const bool is_comparable = are_comparable(pair, match->rows[0]->name, plans);
    enum hrf_status status = is_comparable ? match_patches(plans, &shared, err) : HRF_OK;
    const int64_t only[2] = { plans[0]->n_patches - shared.n, plans[1]->n_patches - shared.n };
    pair->n_patches += shared.n;
    pair->n_only[0] += only[0];
    pair->n_only[1] += only[1];
    if (status == HRF_OK && is_comparable && (only[0] > 0 || only[1] > 0))
        note(pair, match->rows[0]->name,
             hrf_format("%lld patches in both, %lld only in A, %lld only in B", (long long)shared.n,
                        (long long)only[0], (long long)only[1]));
    for (size_t i = 0; i < pair->cohort->n_precisions && status == HRF_OK; i++) {
        const size_t side = i >= runs[0].params->n_precisions;
        if (plans[side]->n_patches == 0)
            continue;
        status = pair->cohort->is_embedding
                     ? add_embeddings(pair, runs, match, i, &shared, err)
                     : add_precision(pair, runs, match, slide, i, plans, &shared, &reference, err);
    }
    return status;
}

static void describe_slide(struct hrf_run_pair *pair, const struct match *match,
                           struct hrf_cohort_slide *slide)
{
    const struct hrf_slide_row *a = match->rows[0], *b = match->rows[1];
    slide->id = a->id;
    slide->state = a->state;
    slide->truth = a->truth != HRF_TRUTH_UNKNOWN ? a->truth : b->truth;
    slide->name = hrf_strdup(a->name);
    slide->path = hrf_strdup(a->path);
    slide->file_name = hrf_text_file_name(a->name);
    slide->label_text = hrf_strdup(a->truth != HRF_TRUTH_UNKNOWN ? a->label_text : b->label_text);
    if (b->truth != HRF_TRUTH_UNKNOWN && b->truth != slide->truth)
        note(pair, a->name, hrf_strdup("the runs have different truths; A's was taken"));
}

static enum hrf_status load_slide(struct hrf_run_pair *pair, const struct hrf_run_pair_side runs[2],
                                  const struct match *match, size_t slide, struct hrf_error *err)
{
    struct hrf_tile_plan *plans[2] = { NULL, NULL };
    enum hrf_status status = HRF_OK;
    describe_slide(pair, match, &pair->cohort->slides[slide]);
    hrf_cohort_set_tuning(runs[0].params, &pair->cohort->slides[slide]);
    hrf_cohort_set_truth_class(pair->cohort, &pair->cohort->slides[slide]);
    for (size_t side = 0; side < 2 && status == HRF_OK; side++)
        status = hrf_store_get_tile_plan(runs[side].store, match->rows[side]->id, &plans[side],
                                         err);
    if (status == HRF_OK)
        status = compare_patches(pair, runs, match, slide, plans, err);
    if (status == HRF_OK)
        status = score_slide(pair, runs, match, slide, err);
    hrf_tile_plan_destroy(plans[0]);
    hrf_tile_plan_destroy(plans[1]);
    return status == HRF_OK ? HRF_OK
                            : hrf_error_wrap(err, status, "slide '%s'", match->rows[0]->name);
}

/* ---- all ---- */

static enum hrf_status check_classes(const struct hrf_run_pair_side runs[2], struct hrf_error *err)
{
    const struct hrf_aggregate_params *a = runs[0].params, *b = runs[1].params;
    if (a->is_embedding != b->is_embedding)
        return hrf_error_set(
            err, HRF_E_USER,
            "%c gives embeddings of patches and %c scores ({model.output}): compare "
            "runs of one kind",
            letters[b->is_embedding], letters[a->is_embedding]);
    if (a->n_classes != b->n_classes)
        return hrf_error_set(err, HRF_E_USER, "the runs' models have %zu and %zu classes",
                             a->n_classes, b->n_classes);
    for (size_t i = 0; i < a->n_classes; i++)
        if (strcmp(a->classes[i], b->classes[i]) != 0)
            return hrf_error_set(err, HRF_E_USER, "class %zu is '%s' in A and '%s' in B", i + 1,
                                 a->classes[i], b->classes[i]);
    if (a->positive != b->positive)
        return hrf_error_set(err, HRF_E_USER, "the positive class is '%s' in A and '%s' in B",
                             a->classes[a->positive], b->classes[b->positive]);
    return HRF_OK;
}

static enum hrf_status create_cohort(const struct hrf_run_pair_side runs[2], size_t n_slides,
                                     struct hrf_cohort **out, struct hrf_error *err)
{
    struct hrf_aggregate_params params = *runs[0].params;
    const size_t n_first = runs[0].params->n_precisions;
    HRF_AUTO_FREE char *name = hrf_format("%s against %s", runs[1].params->name,
                                          runs[0].params->name);
    params.name = name;
    params.n_precisions = n_first + runs[1].params->n_precisions;
    params.calibration = (struct hrf_calibration_facts){ .reason = "see the two runs' reports" };
    params.n_provenance = 0;
    HRF_AUTO_FREE char **names = hrf_calloc(params.n_precisions, sizeof *names);
    for (size_t i = 0; i < params.n_precisions; i++) {
        const size_t side = i >= n_first;
        names[i] = hrf_format("%c:%s", letters[side],
                              runs[side].params->precisions[i - side * n_first]);
    }
    params.precisions = (const char *const *)names;
    const enum hrf_status status = hrf_cohort_create(&params, n_slides, out, err);
    for (size_t i = 0; i < params.n_precisions; i++)
        hrf_free(names[i]);
    return status;
}

/* Two cohorts may call other slides by the same names: those are no matches. */
static enum hrf_status drop_namesakes(struct hrf_run_pair *pair, struct matches *m,
                                      struct hrf_error *err)
{
    const size_t n_named = m->n_items;
    m->n_items = 0;
    for (size_t i = 0; i < n_named; i++) {
        const struct match match = m->items[i];
        const char *content = match.rows[0]->content; /* "": it could not be read */
        if (content[0] != '\0' && strcmp(content, match.rows[1]->content) == 0)
            m->items[m->n_items++] = match;
        else
            note(pair, match.rows[0]->name,
                 hrf_strdup("another slide file in B than in A; in no figure"));
    }
    if (m->n_items > 0)
        return HRF_OK;
    if (n_named > 0)
        return hrf_error_set(err, HRF_E_USER,
                             "the two runs have no slide in common: the %zu slides of one name "
                             "(%s%s) are other files in B than in A, so nothing is compared",
                             n_named, m->items[0].rows[0]->name, n_named > 1 ? ", ..." : "");
    return hrf_error_set(err, HRF_E_USER,
                         "the two runs have no finished slide of one name in common (A has %zu "
                         "slides, B %zu)",
                         m->rows[0].n_items, m->rows[1].n_items);
}

static enum hrf_status load(const struct hrf_run_pair_side runs[2], struct matches *matches,
                            struct hrf_run_pair *pair, struct hrf_error *err)
{
    for (size_t side = 0; side < 2; side++)
        HRF_TRY(hrf_store_get_slides(runs[side].store, &matches->rows[side], err));
    match_slides(pair, matches);
    HRF_TRY(drop_namesakes(pair, matches, err));
    HRF_TRY(create_cohort(runs, matches->n_items, &pair->cohort, err));
    for (size_t i = 0; i < matches->n_items; i++)
        HRF_TRY(load_slide(pair, runs, &matches->items[i], i, err));
    return hrf_cohort_finish(pair->cohort, err);
}

enum hrf_status hrf_run_pair_load(const struct hrf_run_pair_side runs[2], struct hrf_run_pair **out,
                                  struct hrf_error *err)
{
    HRF_TRY(check_classes(runs, err));
    HRF_AUTO_RELEASE(matches) matches = { .n_items = 0 };
    HRF_AUTO(hrf_run_pair) pair = hrf_calloc(1, sizeof *pair);
    enum hrf_status status = load(runs, &matches, pair, err);
    HRF_TRY(status);
    HRF_MOVE(*out, pair);
    return HRF_OK;
}
