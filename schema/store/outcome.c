/* outcome.c - derives the state of a slide from its tasks, for one precision or for all. */
#include "base/strbuf.h"
#include "schema/store/columns.h"
#include "schema/store/tasks.h"

#include <string.h>

/* The outcome of a slide's tasks, which are read in the order of precisions. */
struct tally {
    int64_t n_open, n_failed, n_infer;
    char precision[8];       /* precision of the previous row; "" at the first one */
    int64_t n_precisions;    /* seen so far */
    bool is_explained;       /* a reason for the present precision has been found */
    struct hrf_strbuf names; /* the precisions that failed for `reason`: "bf16, fp16" */
    int64_t n_names;
    char *reason;           /* heap */
    struct hrf_strbuf text; /* the text of the reasons before that one */
};

static void tally_release(struct tally *t)
{
    hrf_strbuf_release(&t->names);
    hrf_strbuf_release(&t->text);
    hrf_free(t->reason);
}

/* Appends the collected reason to the text. A reason that all precisions share, or that concerns
 * the tiling, stands without their names. */
static void explain(struct tally *t, bool is_last)
{
    const bool is_of_all = is_last && t->text.length == 0 && t->n_names == t->n_precisions;
    if (t->reason == NULL)
        return;
    if (t->text.length > 0)
        hrf_strbuf_adds(&t->text, "; ");
    if (t->n_names > 0 && !is_of_all)
        hrf_strbuf_addf(&t->text, "%s: ", t->names.text);
    hrf_strbuf_adds(&t->text, t->reason);
    hrf_strbuf_clear(&t->names);
    t->n_names = 0;
    hrf_free(t->reason);
    t->reason = NULL;
}

/* Only the first failure of each precision is reported. */
static enum hrf_status add_failure(struct tally *t, struct hrf_columns *row)
{
    HRF_AUTO_FREE char *reason = hrf_column_text(row, 3, false);
    HRF_TRY(row->status);
    t->n_failed++;
    if (t->is_explained)
        return HRF_OK;
    t->is_explained = true;
    if (reason == NULL)
        reason = hrf_strdup("no reason given");
    if (t->reason == NULL || strcmp(t->reason, reason) != 0) {
        explain(t, false);
        HRF_MOVE(t->reason, reason);
    }
    if (t->precision[0] != '\0') {
        hrf_strbuf_addf(&t->names, "%s%s", t->n_names > 0 ? ", " : "", t->precision);
        t->n_names++;
    }
    return HRF_OK;
}

static enum hrf_status add_task(struct hrf_columns *row, void *context)
{
    struct tally *t = context;
    const int kind = hrf_column_enum(row, 0, HRF_N_TASK_KINDS);
    const int state = hrf_column_enum(row, 2, HRF_N_TASK_STATES);
    if (kind != HRF_TASK_TILE) {
        char precision[sizeof t->precision];
        hrf_column_copy(row, 1, precision, sizeof precision);
        t->n_infer += kind == HRF_TASK_INFER;
        if (t->precision[0] == '\0' || strcmp(precision, t->precision) != 0) {
            memcpy(t->precision, precision, sizeof precision);
            t->n_precisions++;
            t->is_explained = false;
        }
    }
    HRF_TRY(row->status);
    t->n_open += state == HRF_TASK_PENDING || state == HRF_TASK_RUNNING;
    return state == HRF_TASK_BROKEN ? add_failure(t, row) : HRF_OK;
}

static enum hrf_status count_tasks(struct hrf_store *store, int64_t slide_id, const char *precision,
                                   struct tally *t, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_TRY(hrf_store_prepare(
        store,
        "SELECT kind, precision, state, reason FROM task WHERE slide_id=?1 AND kind IN (0, 1, 3) "
        "AND (kind=0 OR ?2 IS NULL OR precision=?2) ORDER BY kind<>0, precision, kind, first_patch",
        &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    hrf_bind_text(s, 2, precision);
    HRF_TRY(hrf_store_each_row(store, s, "task", add_task, t, err));
    explain(t, true);
    return HRF_OK;
}

enum hrf_status hrf_store_slide_outcome(struct hrf_store *store, int64_t slide_id,
                                        const char *precision, enum hrf_slide_state *state,
                                        char **reason, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(tally) t = { .names = HRF_STRBUF_INIT, .text = HRF_STRBUF_INIT };
    const enum hrf_status status = count_tasks(store, slide_id, precision, &t, err);
    const bool has_failed = status == HRF_OK && t.n_open == 0 && t.n_failed > 0;
    char *text = has_failed ? hrf_strbuf_detach(&t.text) : NULL;
    if (status == HRF_OK) {
        const bool is_open = t.n_open > 0 || (precision != NULL && t.n_infer == 0);
        *state = has_failed ? HRF_SLIDE_FAILED : is_open ? HRF_SLIDE_PENDING : HRF_SLIDE_DONE;
        *reason = text;
    }
    return status;
}
