#include "aggregate/study/run_pair.h"

#include "aggregate/study/pair_drift.h"
#include "base/text.h"

#include <math.h>
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

static enum hrf_status no_memory(struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_NOMEM, "no memory to compare two runs");
}

/* Takes the text; NULL: memory ran out making it. */
static enum hrf_status note(struct hrf_run_pair *pair, const char *slide, char *text,
                            struct hrf_error *err)
{
    struct hrf_run_pair_note *grown = hrf_realloc_array(pair->notes, pair->n_notes + 1,
                                                        sizeof *grown);
    if (grown != NULL)
        pair->notes = grown;
    char *name = hrf_strdup(slide);
    if (grown == NULL || text == NULL || name == NULL) {
        hrf_free(text);
        hrf_free(name);
        return no_memory(err);
    }
    pair->notes[pair->n_notes++] = (struct hrf_run_pair_note){ name, text };
    return HRF_OK;
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
    for (size_t i = 0; list != NULL && i < rows->n_items; i++)
        list[i] = &rows->items[i];
    if (list != NULL)
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

static enum hrf_status note_missing(struct hrf_run_pair *pair, const struct hrf_slide_row *row,
                                    const struct hrf_slide_row *other, size_t side,
                                    struct hrf_error *err)
{
    if (other == NULL)
        return note(pair, row->name, hrf_format("only in %c", letters[side]), err);
    if (!has_ended(other))
        return note(pair, row->name,
                    hrf_format("%s in %c", hrf_slide_state_text(other->state), letters[1 - side]),
                    err);
    return HRF_OK;
}

static enum hrf_status match_slides(struct hrf_run_pair *pair, struct matches *m,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE const struct hrf_slide_row **rows_a = by_name(&m->rows[0]);
    HRF_AUTO_FREE const struct hrf_slide_row **rows_b = by_name(&m->rows[1]);
    m->items = hrf_alloc_array(m->rows[0].n_items + 1, sizeof *m->items);
    if (m->items == NULL || rows_a == NULL || rows_b == NULL)
        return no_memory(err);
    for (size_t i = 0; i < m->rows[0].n_items; i++) {
        const struct hrf_slide_row *a = &m->rows[0].items[i];
        const struct hrf_slide_row *b = find_slide(rows_b, m->rows[1].n_items, a);
        if (has_ended(a) && b != NULL && has_ended(b))
            m->items[m->n_items++] = (struct match){ { a, b } };
        else if (has_ended(a))
            HRF_TRY(note_missing(pair, a, b, 0, err));
    }
    for (size_t i = 0; i < m->rows[1].n_items; i++) {
        const struct hrf_slide_row *b = &m->rows[1].items[i];
        const struct hrf_slide_row *a = find_slide(rows_a, m->rows[0].n_items, b);
        if (has_ended(b) && (a == NULL || !has_ended(a)))
            HRF_TRY(note_missing(pair, b, a, 1, err));
    }
    return HRF_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct hrf_patch *p = *(const struct hrf_patch *const *)a;
    const struct hrf_patch *q = *(const struct hrf_patch *const *)b;
    return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : (p->y > q->y) - (p->y < q->y);
}

static const struct hrf_patch **sorted(const struct hrf_tile_plan *plan)
{
    const struct hrf_patch **list = hrf_alloc_array((size_t)plan->n_patches + 1, sizeof *list);
    for (int64_t i = 0; list != NULL && i < plan->n_patches; i++)
        list[i] = &plan->patches[i];
    if (list != NULL)
        qsort(list, (size_t)plan->n_patches, sizeof *list, compare_places);
    return list;
}

/* The patches that both plans of a slide have: numbers in either. */
struct places {
    int64_t *index[2], n;
    struct hrf_patch *at;
};

static void places_release(struct places *places)
{
    hrf_free(places->index[0]);
    hrf_free(places->index[1]);
    hrf_free(places->at);
}

static enum hrf_status match_patches(struct hrf_tile_plan *const plans[2], struct places *places,
                                     struct hrf_error *err)
{
    const size_t room = (size_t)plans[0]->n_patches + 1;
    HRF_AUTO_FREE const struct hrf_patch **a = sorted(plans[0]);
    HRF_AUTO_FREE const struct hrf_patch **b = sorted(plans[1]);
    places->index[0] = hrf_alloc_array(room, sizeof *places->index[0]);
    places->index[1] = hrf_alloc_array(room, sizeof *places->index[1]);
    places->at = hrf_alloc_array(room, sizeof *places->at);
    if (a == NULL || b == NULL || places->index[0] == NULL || places->index[1] == NULL ||
        places->at == NULL)
        return no_memory(err);
    for (int64_t i = 0, k = 0; i < plans[0]->n_patches && k < plans[1]->n_patches;) {
        const int order = compare_places(&a[i], &b[k]);
        if (order == 0) {
            places->index[0][places->n] = a[i] - plans[0]->patches;
            places->index[1][places->n] = b[k] - plans[1]->patches;
            places->at[places->n++] = *a[i];
        }
        i += order <= 0;
        k += order >= 0;
    }
    return HRF_OK;
}

/* ---- one slide ---- */

/* The chosen patches' probabilities, in the order of the places. */
static float *gather(const struct hrf_scores *scores, const struct places *places, size_t side)
{
    const size_t n_classes = (size_t)scores->n_classes;
    float *values = hrf_alloc_array((size_t)places->n * n_classes + 1, sizeof *values);
    for (int64_t i = 0; values != NULL && i < places->n; i++)
        memcpy(values + (size_t)i * n_classes,
               scores->probabilities + (size_t)places->index[side][i] * n_classes,
               n_classes * sizeof *values);
    return values;
}

/* The embeddings of one precision of one run against those of A's first. */
static enum hrf_status add_embeddings(struct hrf_run_pair *pair,
                                      const struct hrf_run_pair_side runs[2],
                                      const struct match *match, size_t index,
                                      const struct places *places, struct hrf_error *err)
{
    const size_t n_first = runs[0].params->n_precisions, side = index >= n_first;
    struct hrf_cohort_precision *p = &pair->cohort->precisions[index];
    const char *name = runs[side].params->precisions[index - side * n_first];
    const struct hrf_pair_drift_side sides[2] = {
        { runs[0].store, match->rows[0]->id, runs[0].params->precisions[0], places->index[0] },
        { runs[side].store, match->rows[side]->id, name, places->index[side] }
    };
    HRF_AUTO(hrf_scores) facts = NULL;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_store_get_score_facts(runs[side].store, match->rows[side]->id,
                                                       name, &facts, &why);
    if (status == HRF_OK)
        status = hrf_cohort_add_scores(p, facts, &why);
    if (status == HRF_OK)
        status = hrf_pair_drift_add(sides, places->n, p, &why);
    if (status == HRF_E_AGAIN)
        return note(pair, match->rows[0]->name,
                    hrf_format("not scored at %c:%s", letters[side], name), err);
    if (status == HRF_E_UNSUPPORTED)
        return note(pair, match->rows[0]->name,
                    hrf_format("%s: not compared at %c:%s", why.text, letters[side], name), err);
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
                                     const struct places *places, float **reference,
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
    if (status == HRF_E_AGAIN)
        return note(pair, match->rows[0]->name,
                    hrf_format("not scored at %c:%s", letters[side], name), err);
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    HRF_TRY(check_scores(cohort, scores, plans[side], err));
    HRF_TRY(hrf_cohort_add_scores(&cohort->precisions[index], scores, err));
    float *values = gather(scores, places, side);
    if (values == NULL)
        return no_memory(err);
    const struct hrf_probabilities p = { .at = places->at,
                                         .reference = index == 0 ? values : *reference,
                                         .values = values,
                                         .n = places->n,
                                         .n_classes = cohort->n_classes,
                                         .positive = cohort->positive };
    if (p.reference != NULL)
        status = hrf_difference_add(&cohort->precisions[index].difference, slide, &p, err);
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

/* Whether the plans have patches of one size; a note when they do not. */
static enum hrf_status check_plans(struct hrf_run_pair *pair, const char *slide,
                                   struct hrf_tile_plan *const plans[2], bool *comparable,
                                   struct hrf_error *err)
{
    const struct hrf_tile_plan *a = plans[0], *b = plans[1];
    *comparable = false;
    if (a->n_patches > 0 && b->n_patches > 0 &&
        (a->patch_width0 != b->patch_width0 || a->patch_height0 != b->patch_height0))
        return note(pair, slide,
                    hrf_format("patches of %lld x %lld px in A, of %lld x %lld in B: none compared",
                               (long long)a->patch_width0, (long long)a->patch_height0,
                               (long long)b->patch_width0, (long long)b->patch_height0),
                    err);
    *comparable = true;
    return HRF_OK;
}

static enum hrf_status compare_patches(struct hrf_run_pair *pair,
                                       const struct hrf_run_pair_side runs[2],
                                       const struct match *match, size_t slide,
                                       struct hrf_tile_plan *const plans[2], struct hrf_error *err)
{
    struct places places = { .n = 0 };
    float *reference = NULL;
    bool comparable;
    HRF_TRY(check_plans(pair, match->rows[0]->name, plans, &comparable, err));
    enum hrf_status status = comparable ? match_patches(plans, &places, err) : HRF_OK;
    const int64_t only[2] = { plans[0]->n_patches - places.n, plans[1]->n_patches - places.n };
    pair->n_patches += places.n;
    pair->n_only[0] += only[0];
    pair->n_only[1] += only[1];
    if (status == HRF_OK && comparable && (only[0] > 0 || only[1] > 0))
        status = note(pair, match->rows[0]->name,
                      hrf_format("%lld patches in both, %lld only in A, %lld only in B",
                                 (long long)places.n, (long long)only[0], (long long)only[1]),
                      err);
    for (size_t i = 0; i < pair->cohort->n_precisions && status == HRF_OK; i++) {
        const size_t side = i >= runs[0].params->n_precisions;
        if (plans[side]->n_patches == 0)
            continue;
        status = pair->cohort->is_embedding
                     ? add_embeddings(pair, runs, match, i, &places, err)
                     : add_precision(pair, runs, match, slide, i, plans, &places, &reference, err);
    }
    hrf_free(reference);
    places_release(&places);
    return status;
}

static enum hrf_status describe_slide(struct hrf_run_pair *pair, const struct match *match,
                                      struct hrf_cohort_slide *slide, struct hrf_error *err)
{
    const struct hrf_slide_row *a = match->rows[0], *b = match->rows[1];
    slide->id = a->id;
    slide->state = a->state;
    slide->truth = a->truth != HRF_TRUTH_UNKNOWN ? a->truth : b->truth;
    slide->name = hrf_strdup(a->name);
    slide->path = hrf_strdup(a->path);
    slide->file_name = hrf_text_file_name(a->name);
    slide->label_text = hrf_strdup(a->truth != HRF_TRUTH_UNKNOWN ? a->label_text : b->label_text);
    if (slide->name == NULL || slide->path == NULL || slide->file_name == NULL)
        return no_memory(err);
    if (b->truth != HRF_TRUTH_UNKNOWN && b->truth != slide->truth)
        return note(pair, a->name, hrf_strdup("the runs have different truths; A's was taken"),
                    err);
    return HRF_OK;
}

static enum hrf_status load_slide(struct hrf_run_pair *pair, const struct hrf_run_pair_side runs[2],
                                  const struct match *match, size_t slide, struct hrf_error *err)
{
    struct hrf_tile_plan *plans[2] = { NULL, NULL };
    enum hrf_status status = describe_slide(pair, match, &pair->cohort->slides[slide], err);
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
        return hrf_error_set(err, HRF_E_USER,
                             "%c gives embeddings of patches and %c scores (model.output): compare "
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

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; names != NULL && i < n; i++)
        hrf_free(names[i]);
    hrf_free(names);
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
    char **names = hrf_calloc(params.n_precisions, sizeof *names);
    bool ok = name != NULL && names != NULL;
    for (size_t i = 0; ok && i < params.n_precisions; i++) {
        const size_t side = i >= n_first;
        names[i] = hrf_format("%c:%s", letters[side],
                              runs[side].params->precisions[i - side * n_first]);
        ok = names[i] != NULL;
    }
    params.precisions = (const char *const *)names;
    enum hrf_status status = ok ? hrf_cohort_create(&params, n_slides, out, err) : no_memory(err);
    free_names(names, params.n_precisions);
    return status;
}

/* *out: the two rows are of one file's content. */
static enum hrf_status is_same_file(const struct hrf_run_pair_side runs[2],
                                    const struct match *match, bool *out, struct hrf_error *err)
{
    struct hrf_tile_plan *plans[2] = { NULL, NULL };
    enum hrf_status status = HRF_OK;
    for (size_t side = 0; side < 2 && status == HRF_OK; side++)
        status = hrf_store_get_tile_plan(runs[side].store, match->rows[side]->id, &plans[side],
                                         err);
    if (status == HRF_OK)
        *out = strcmp(plans[0]->quickhash, plans[1]->quickhash) == 0 &&
               plans[0]->width == plans[1]->width && plans[0]->height == plans[1]->height;
    hrf_tile_plan_destroy(plans[0]);
    hrf_tile_plan_destroy(plans[1]);
    return status;
}

/* Two cohorts may call other slides by the same names: those are no matches. */
static enum hrf_status drop_namesakes(struct hrf_run_pair *pair,
                                      const struct hrf_run_pair_side runs[2], struct matches *m,
                                      struct hrf_error *err)
{
    const size_t n_named = m->n_items;
    m->n_items = 0;
    for (size_t i = 0; i < n_named; i++) {
        const struct match match = m->items[i];
        bool is_same;
        HRF_TRY(is_same_file(runs, &match, &is_same, err));
        if (is_same)
            m->items[m->n_items++] = match;
        else
            HRF_TRY(note(pair, match.rows[0]->name,
                         hrf_strdup("another slide file in B than in A; in no figure"), err));
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
    HRF_TRY(match_slides(pair, matches, err));
    HRF_TRY(drop_namesakes(pair, runs, matches, err));
    HRF_TRY(create_cohort(runs, matches->n_items, &pair->cohort, err));
    for (size_t i = 0; i < matches->n_items; i++)
        HRF_TRY(load_slide(pair, runs, &matches->items[i], i, err));
    return hrf_cohort_finish(pair->cohort, err);
}

enum hrf_status hrf_run_pair_load(const struct hrf_run_pair_side runs[2], struct hrf_run_pair **out,
                                  struct hrf_error *err)
{
    HRF_TRY(check_classes(runs, err));
    struct matches matches = { .n_items = 0 };
    HRF_AUTO(hrf_run_pair) pair = hrf_calloc(1, sizeof *pair);
    if (pair == NULL)
        return no_memory(err);
    enum hrf_status status = load(runs, &matches, pair, err);
    matches_release(&matches);
    HRF_TRY(status);
    *out = pair;
    pair = NULL;
    return HRF_OK;
}
