/* records.c - the results that are kept, each checked to be the one that is asked for.
 *
 * What a task's record must say of itself follows from the task's row and its slide's: key,
 * content of the slide, hash of the tile plan.
 */
#include "base/strbuf.h"
#include "base/text.h"
#include "schema/record/embedding_file.h"
#include "schema/record/trained_head.h"
#include "schema/store/columns.h"
#include "schema/store/embeddings.h"
#include "schema/store/tasks.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[HRF_N_TASK_KINDS] = { [HRF_TASK_TILE] = HRF_TILE_PLAN_KIND,
                                                     [HRF_TASK_INFER] = HRF_SCORES_KIND,
                                                     [HRF_TASK_CALIBRATE] = HRF_OBSERVATIONS_KIND,
                                                     [HRF_TASK_HEAD] = HRF_HEAD_SCORES_KIND,
                                                     [HRF_TASK_TRAIN] = HRF_TRAINED_HEAD_KIND };

const char *hrf_task_record_kind(enum hrf_task_kind kind)
{
    return kinds[kind];
}

struct hrf_record_identity hrf_slide_expect(const struct hrf_slide_row *slide,
                                            enum hrf_task_kind kind, const char *key)
{
    struct hrf_record_identity identity = { .task = "" };
    snprintf(identity.task, sizeof identity.task, "%s", key);
    if (kind != HRF_TASK_CALIBRATE && slide->tile_plan_hash != NULL)
        snprintf(identity.plan, sizeof identity.plan, "%s", slide->tile_plan_hash);
    memcpy(identity.slide, slide->content, sizeof identity.slide);
    return identity;
}

enum hrf_status hrf_store_expect(struct hrf_store *store, int64_t slide_id, enum hrf_task_kind kind,
                                 struct hrf_record_identity *out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    *out = (struct hrf_record_identity){ .task = "" };
    HRF_TRY(
        hrf_store_prepare(store, "SELECT content, tile_plan_hash FROM slide WHERE id=?", &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    if (!has_row)
        return HRF_OK;
    struct hrf_columns row = { store, "slide", s, HRF_OK, err };
    char hash[HRF_HASH_HEX];
    struct hrf_slide_row slide = { .tile_plan_hash = hash };
    hrf_column_copy(&row, 0, slide.content, sizeof slide.content);
    hrf_column_copy(&row, 1, hash, sizeof hash);
    HRF_TRY(row.status);
    *out = hrf_slide_expect(&slide, kind, "");
    return HRF_OK;
}

/* The bytes under a key; they are valid until the statement is reset. */
static enum hrf_status find_bytes(struct hrf_store *store, const char *key, sqlite3_stmt **s,
                                  const void **bytes, size_t *n, struct hrf_error *err)
{
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, "SELECT bytes FROM record WHERE key=?", s, err));
    hrf_bind_text(*s, 1, key);
    HRF_TRY(hrf_store_step(store, *s, &has_row, err));
    if (!has_row)
        return hrf_error_set(err, HRF_E_AGAIN, "the store has no result for the key %.12s...", key);
    struct hrf_columns row = { store, "record", *s, HRF_OK, err };
    *bytes = hrf_column_blob(&row, 0, n);
    return row.status;
}

enum hrf_status hrf_store_get_record(struct hrf_store *store, enum hrf_task_kind kind,
                                     const struct hrf_record_identity *expected,
                                     struct hrf_bytes *out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    const void *bytes = NULL;
    size_t n = 0;
    HRF_TRY(find_bytes(store, expected->task, &s, &bytes, &n, err));
    HRF_AUTO_FREE char *where = hrf_format("record %.12s... in '%s'", expected->task, store->path);
    HRF_AUTO_FREE unsigned char *copy = hrf_try_alloc(n);
    HRF_CHECK_MEMORY(copy != NULL, err, "no memory for a record of %zu bytes", n);
    HRF_TRY(hrf_record_check(bytes, n, kinds[kind], expected, where, err));
    memcpy(copy, bytes, n);
    *out = (struct hrf_bytes){ copy, n };
    copy = NULL;
    return HRF_OK;
}

/* ---- a record with the wrong identity is deleted, and its task is done again ---- */

static enum hrf_status drop(struct hrf_store *store, const char *key, int64_t slide_id,
                            enum hrf_task_kind kind, const char *why, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, "SELECT name FROM slide WHERE id=?", &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    struct hrf_columns row = { store, "slide", s, HRF_OK, err };
    HRF_AUTO_FREE char *name = has_row ? hrf_column_text(&row, 0, true) : hrf_strdup("?");
    HRF_TRY(row.status);
    HRF_AUTO_FREE char *text = hrf_format("the %s task is done again: %s", hrf_task_kind_name(kind),
                                          why);
    HRF_AUTO_FREE char *shown = hrf_text_escaped(name);
    hrf_strbuf_addf(&store->dropped, "%s: %s\n", shown, text);
    HRF_TRY(hrf_store_add_event(store, name, text, err));
    sqlite3_stmt *removal;
    HRF_TRY(hrf_store_prepare(store, "DELETE FROM record WHERE key=?", &removal, err));
    hrf_bind_text(removal, 1, key);
    return hrf_store_finish(store, removal, err);
}

enum hrf_status hrf_store_forget_result(struct hrf_store *store, const struct hrf_task_row *task,
                                        const char *why, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    const void *bytes = NULL;
    size_t n = 0;
    struct hrf_error none = { .status = HRF_OK };
    const enum hrf_status status = find_bytes(store, task->key, &s, &bytes, &n, &none);
    if (status == HRF_E_AGAIN)
        return HRF_OK;
    return status == HRF_OK ? drop(store, task->key, task->slide_id, task->kind, why, err)
                            : hrf_error_pass(err, &none);
}

/* HRF_E_USER: the embeddings that the record names are not beside the store. Their bytes are looked
 * at when they are read. */
static enum hrf_status check_embeddings(struct hrf_store *store, const struct hrf_task_row *task,
                                        const struct hrf_bytes *record, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO_FREE char *path = NULL;
    if (!hrf_scores_name_embeddings(record->data, record->n_bytes))
        return HRF_OK;
    HRF_TRY(hrf_store_embeddings_path(store, task->key, &path, err));
    HRF_TRY(hrf_scores_decode(record->data, record->n_bytes, NULL, "its record", &scores, err));
    const enum hrf_status status = hrf_embedding_file_check(path, scores, false, err);
    return status == HRF_E_AGAIN ? HRF_E_USER : status;
}

enum hrf_status hrf_store_find_result(struct hrf_store *store, const struct hrf_task_row *task,
                                      bool *found, struct hrf_error *err)
{
    struct hrf_record_identity expected;
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    struct hrf_error why = { .status = HRF_OK };
    HRF_TRY(hrf_store_expect(store, task->slide_id, task->kind, &expected, err));
    if (task->kind == HRF_TASK_TILE) /* the record is expected to bring the plan */
        expected.plan[0] = '\0';
    snprintf(expected.task, sizeof expected.task, "%s", task->key);
    enum hrf_status status = hrf_store_get_record(store, task->kind, &expected, &record, &why);
    if (status == HRF_OK && task->kind == HRF_TASK_INFER)
        status = check_embeddings(store, task, &record, &why);
    *found = status == HRF_OK;
    if (status == HRF_E_USER)
        return drop(store, task->key, task->slide_id, task->kind, why.text, err);
    if (status != HRF_OK && status != HRF_E_AGAIN)
        return hrf_error_set(err, status, "%s", why.text);
    return HRF_OK;
}

char *hrf_store_take_dropped(struct hrf_store *store)
{
    char *text = store->dropped.length > 0 ? hrf_strbuf_detach(&store->dropped) : NULL;
    if (text != NULL)
        store->dropped = (struct hrf_strbuf)HRF_STRBUF_INIT;
    return text;
}

/* ---- decoded records ---- */

static enum hrf_status tell_way_out(enum hrf_status status, struct hrf_error *err)
{
    if (status != HRF_E_USER || err == NULL)
        return status;
    const struct hrf_error cause = *err;
    return hrf_error_set(err, status, "%s; 'hires-flow run' does the task again", cause.text);
}

enum hrf_status hrf_store_find_tile_plan(struct hrf_store *store,
                                         const struct hrf_record_identity *expected,
                                         struct hrf_tile_plan **out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    const void *bytes = NULL;
    size_t n = 0;
    HRF_TRY(find_bytes(store, expected->task, &s, &bytes, &n, err));
    return hrf_tile_plan_decode(bytes, n, expected, "tile plan in the store", out, err);
}

static enum hrf_status get_tile_plan(struct hrf_store *store, int64_t slide_id,
                                     struct hrf_tile_plan **out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct hrf_record_identity expected;
    bool has_row;
    HRF_TRY(hrf_store_expect(store, slide_id, HRF_TASK_TILE, &expected, err));
    HRF_TRY(hrf_store_prepare(store,
                              "SELECT key FROM task JOIN record USING(key) WHERE kind=0 AND "
                              "slide_id=? AND state=2",
                              &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    if (!has_row)
        return hrf_error_set(err, HRF_E_AGAIN, "slide %lld has no tile plan", (long long)slide_id);
    struct hrf_columns row = { store, "record", s, HRF_OK, err };
    hrf_column_copy(&row, 0, expected.task, sizeof expected.task);
    HRF_TRY(row.status);
    return hrf_store_find_tile_plan(store, &expected, out, err);
}

enum hrf_status hrf_store_get_tile_plan(struct hrf_store *store, int64_t slide_id,
                                        struct hrf_tile_plan **out, struct hrf_error *err)
{
    return tell_way_out(get_tile_plan(store, slide_id, out, err), err);
}

static enum hrf_status join_numbers(struct hrf_scores *w, const struct hrf_scores *p,
                                    struct hrf_error *err)
{
    if (w->probabilities == NULL || p->probabilities == NULL) /* they are left out */
        return HRF_OK;
    float *joined = hrf_try_realloc_array(
        w->probabilities, (size_t)((w->n_patches + p->n_patches) * w->n_classes), sizeof joined[0]);
    HRF_CHECK_MEMORY(joined != NULL, err, "no memory for the scores of a slide");
    memcpy(joined + w->n_patches * w->n_classes, p->probabilities,
           (size_t)(p->n_patches * p->n_classes) * sizeof joined[0]);
    w->probabilities = joined;
    return HRF_OK;
}

/* Appends a shard to the scores; the first shard also brings the names. */
static enum hrf_status join_shard(struct hrf_scores **whole, struct hrf_scores **part,
                                  struct hrf_error *err)
{
    if (*whole == NULL) {
        *whole = *part;
        *part = NULL;
        return HRF_OK;
    }
    struct hrf_scores *w = *whole, *p = *part;
    if (w->n_classes != p->n_classes || w->first_patch + w->n_patches != p->first_patch)
        return hrf_error_set(err, HRF_E_AGAIN, "a shard is missing: patches from %lld on",
                             (long long)(w->first_patch + w->n_patches));
    HRF_TRY(hrf_label_maps_append(&w->labels, &p->labels, err));
    HRF_TRY(join_numbers(w, p, err));
    w->n_patches += p->n_patches;
    hrf_timing_add(&w->timing, &p->timing);
    hrf_traffics_add(&w->traffic, &p->traffic);
    w->energy_joules += p->energy_joules;
    w->gpu_energy_joules += p->gpu_energy_joules;
    if (p->device_memory_bytes > w->device_memory_bytes)
        w->device_memory_bytes = p->device_memory_bytes;
    if (p->peak_process_bytes > w->peak_process_bytes)
        w->peak_process_bytes = p->peak_process_bytes;
    if (p->peak_memory_bytes > w->peak_memory_bytes)
        w->peak_memory_bytes = p->peak_memory_bytes;
    return HRF_OK;
}

/* The scores of a slide at a precision, joined from its shards. */
struct shards {
    const char *precision;
    bool has_numbers; /* false: the facts alone */
    struct hrf_record_identity expected;
    struct hrf_scores *whole; /* owned; NULL before the first shard */
};

/* One shard. Columns: bytes, state, key, first_patch, n_patches. */
static enum hrf_status add_shard(struct hrf_columns *row, void *context)
{
    struct shards *shards = context;
    struct hrf_record_identity *expected = &shards->expected;
    const char *precision = shards->precision;
    struct hrf_error *err = row->err;
    HRF_AUTO(hrf_scores) part = NULL;
    size_t n;
    const void *bytes = hrf_column_blob(row, 0, &n);
    const int state = hrf_column_enum(row, 1, HRF_N_TASK_STATES);
    hrf_column_copy(row, 2, expected->task, sizeof expected->task);
    const int64_t first = hrf_column_count(row, 3), n_patches = hrf_column_count(row, 4);
    HRF_TRY(row->status);
    if (state != HRF_TASK_FINISHED || bytes == NULL)
        return hrf_error_set(err, HRF_E_AGAIN, "not all of it is scored yet in %s", precision);
    HRF_TRY(hrf_scores_decode(bytes, n, expected, "scores in the store", &part, err));
    if (part->first_patch != first || part->n_patches != n_patches ||
        strcmp(part->precision != NULL ? part->precision : "", precision) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "scores in the store: they are of patches %lld and on, %lld of them, "
                             "in %s; their task asks for %lld and on, %lld, in %s",
                             (long long)part->first_patch, (long long)part->n_patches,
                             part->precision != NULL ? part->precision : "?", (long long)first,
                             (long long)n_patches, precision);
    if (shards->has_numbers && part->probabilities == NULL)
        return hrf_error_set(err, HRF_E_USER, "its patches have embeddings in %s, not scores",
                             precision);
    if (!shards->has_numbers) {
        hrf_free(part->probabilities);
        part->probabilities = NULL;
    }
    return join_shard(&shards->whole, &part, err);
}

static enum hrf_status get_scores(struct hrf_store *store, int64_t slide_id, const char *precision,
                                  bool has_numbers, struct hrf_scores **out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct shards shards = { .precision = precision, .has_numbers = has_numbers };
    HRF_TRY(hrf_store_expect(store, slide_id, HRF_TASK_INFER, &shards.expected, err));
    HRF_TRY(hrf_store_prepare(store, HRF_STORE_SELECT_SHARDS, &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    hrf_bind_text(s, 2, precision);
    enum hrf_status status = hrf_store_each_row(store, s, "task", add_shard, &shards, err);
    if (status == HRF_OK && (shards.whole == NULL || shards.whole->first_patch != 0))
        status = hrf_error_set(err, HRF_E_AGAIN, "it has no scores in %s", precision);
    if (status == HRF_OK)
        *out = shards.whole;
    else
        hrf_scores_destroy(shards.whole);
    return status;
}

static enum hrf_status find_scores(struct hrf_store *store, int64_t slide_id, const char *precision,
                                   bool has_numbers, struct hrf_scores **out, struct hrf_error *err)
{
    const enum hrf_status status = get_scores(store, slide_id, precision, has_numbers, out, err);
    if (status != HRF_OK)
        hrf_error_wrap(err, status, "slide %lld", (long long)slide_id);
    return tell_way_out(status, err);
}

enum hrf_status hrf_store_get_scores(struct hrf_store *store, int64_t slide_id,
                                     const char *precision, struct hrf_scores **out,
                                     struct hrf_error *err)
{
    return find_scores(store, slide_id, precision, true, out, err);
}

enum hrf_status hrf_store_get_score_facts(struct hrf_store *store, int64_t slide_id,
                                          const char *precision, struct hrf_scores **out,
                                          struct hrf_error *err)
{
    return find_scores(store, slide_id, precision, false, out, err);
}

/* The scores of several heads become their mean; the first one's pictures stay. */
struct head_scores {
    struct hrf_record_identity expected;
    struct hrf_head_scores *sum;
    int64_t n;
    bool is_open; /* a head has not scored the slide yet */
};

static void add_arrays(struct hrf_head_scores *sum, const struct hrf_head_scores *more)
{
    for (int32_t k = 0; k < sum->n_classes; k++)
        sum->scores[k] += more->scores[k];
    for (int64_t i = 0; i < sum->n_branches * sum->n_patches; i++)
        sum->attention[i] += more->attention[i];
}

static enum hrf_status add_head_scores(struct hrf_columns *row, void *context)
{
    struct head_scores *all = context;
    size_t n = 0;
    hrf_column_copy(row, 0, all->expected.task, sizeof all->expected.task);
    const void *bytes = hrf_column_blob(row, 1, &n);
    const int64_t state = hrf_column_int(row, 2, 0, HRF_N_TASK_STATES - 1);
    HRF_TRY(row->status);
    HRF_AUTO(hrf_head_scores) one = NULL;
    all->is_open |= state != HRF_TASK_FINISHED;
    if (state != HRF_TASK_FINISHED)
        return HRF_OK;
    HRF_TRY(hrf_head_scores_decode(bytes, n, &all->expected, "scores of the head in the store",
                                   &one, row->err));
    if (all->n++ == 0) {
        HRF_MOVE(all->sum, one);
        return HRF_OK;
    }
    if (one->n_classes != all->sum->n_classes || one->n_patches != all->sum->n_patches ||
        one->n_branches != all->sum->n_branches)
        return hrf_error_set(row->err, HRF_E_USER, "its heads gave scores of different shapes");
    add_arrays(all->sum, one);
    return HRF_OK;
}

static enum hrf_status get_head_scores(struct hrf_store *store, int64_t slide_id,
                                       const char *precision, bool is_own,
                                       struct hrf_head_scores **out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct head_scores all = { .n = 0 };
    HRF_TRY(hrf_store_expect(store, slide_id, HRF_TASK_HEAD, &all.expected, err));
    HRF_TRY(hrf_store_prepare(store,
                              "SELECT task.key, bytes, state FROM task LEFT JOIN record USING(key) "
                              "WHERE kind=3 AND slide_id=?1 AND precision=?2 AND "
                              "(first_patch >= ?3) = ?4 ORDER BY first_patch",
                              &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    hrf_bind_text(s, 2, precision);
    sqlite3_bind_int64(s, 3, HRF_HEAD_OWN);
    sqlite3_bind_int(s, 4, is_own);
    const enum hrf_status status = hrf_store_each_row(store, s, "task", add_head_scores, &all, err);
    HRF_AUTO(hrf_head_scores) sum = all.sum;
    HRF_TRY(status);
    if (sum == NULL || all.is_open)
        return hrf_error_set(err, HRF_E_AGAIN, "no slide head has scored it in %s", precision);
    for (int32_t k = 0; k < sum->n_classes; k++)
        sum->scores[k] /= (double)all.n;
    for (int64_t i = 0; i < sum->n_branches * sum->n_patches; i++)
        sum->attention[i] /= (float)all.n;
    HRF_MOVE(*out, sum);
    return HRF_OK;
}

enum hrf_status hrf_store_get_head_scores(struct hrf_store *store, int64_t slide_id,
                                          const char *precision, bool is_own,
                                          struct hrf_head_scores **out, struct hrf_error *err)
{
    const enum hrf_status status = get_head_scores(store, slide_id, precision, is_own, out, err);
    if (status != HRF_OK)
        hrf_error_wrap(err, status, "slide %lld", (long long)slide_id);
    return tell_way_out(status, err);
}
