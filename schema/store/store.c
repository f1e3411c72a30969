/* store.c - facts, slides, phases, slide scores, and the records joined to what they mean. */
#include "schema/store/store.h"

#include "schema/store/store_private.h"
#include "schema/store/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *hrf_slide_state_name(enum hrf_slide_state state)
{
    static const char *const names[] = { "pending", "done", "failed", "no tissue", "excluded" };
    return names[state];
}

void hrf_slide_row_release(struct hrf_slide_row *row)
{
    hrf_free(row->name);
    hrf_free(row->path);
    hrf_free(row->label_text);
    hrf_free(row->annotation);
    hrf_free(row->reason);
    hrf_free(row->tile_plan_hash);
    *row = (struct hrf_slide_row){ .id = 0 };
}

void hrf_slide_rows_release(struct hrf_slide_rows *rows)
{
    for (size_t i = 0; i < rows->n_items + rows->n_sample; i++)
        hrf_slide_row_release(&rows->items[i]);
    hrf_free(rows->items);
    *rows = (struct hrf_slide_rows){ .items = NULL };
}

enum hrf_status hrf_store_get_fact(struct hrf_store *store, const char *key, char **out,
                                   struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, "SELECT value FROM fact WHERE key=?", &s, err));
    hrf_bind_text(s, 1, key);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    bool failed = false;
    char *value = has_row ? hrf_column_text(s, 0, &failed) : NULL;
    if (failed)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the fact '%s'", key);
    *out = value;
    return HRF_OK;
}

enum hrf_status hrf_store_set_fact(struct hrf_store *store, const char *key, const char *value,
                                   struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, "INSERT OR REPLACE INTO fact VALUES(?,?)", &s, err));
    hrf_bind_text(s, 1, key);
    hrf_bind_text(s, 2, value);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_put_slide(struct hrf_store *store, const struct hrf_slide_row *row,
                                    struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(
        store, "INSERT OR REPLACE INTO slide VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", &s, err));
    sqlite3_bind_int64(s, 1, row->id);
    hrf_bind_text(s, 2, row->name);
    hrf_bind_text(s, 3, row->path);
    sqlite3_bind_int64(s, 4, row->n_bytes);
    sqlite3_bind_int64(s, 5, row->mtime_ns);
    sqlite3_bind_int(s, 6, row->truth);
    hrf_bind_text(s, 7, row->label_text);
    hrf_bind_text(s, 8, row->annotation);
    sqlite3_bind_double(s, 9, row->mpp_csv);
    sqlite3_bind_int(s, 10, row->state);
    hrf_bind_text(s, 11, row->reason);
    hrf_bind_text(s, 12, row->tile_plan_hash);
    sqlite3_bind_int(s, 13, row->calibrates);
    return hrf_store_finish(store, s, err);
}

static enum hrf_status read_slide(sqlite3_stmt *s, void *item, struct hrf_error *err)
{
    bool failed = false;
    struct hrf_slide_row *row = item;
    *row = (struct hrf_slide_row){
        .id = sqlite3_column_int64(s, 0),
        .name = hrf_column_text(s, 1, &failed),
        .path = hrf_column_text(s, 2, &failed),
        .n_bytes = sqlite3_column_int64(s, 3),
        .mtime_ns = sqlite3_column_int64(s, 4),
        .truth = (enum hrf_truth)sqlite3_column_int(s, 5),
        .label_text = hrf_column_text(s, 6, &failed),
        .annotation = hrf_column_text(s, 7, &failed),
        .mpp_csv = sqlite3_column_double(s, 8),
        .state = (enum hrf_slide_state)sqlite3_column_int(s, 9),
        .reason = hrf_column_text(s, 10, &failed),
        .tile_plan_hash = hrf_column_text(s, 11, &failed),
        .calibrates = sqlite3_column_int(s, 12) != 0,
    };
    if (failed)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the slides");
    return HRF_OK;
}

enum hrf_status hrf_store_get_slides(struct hrf_store *store, struct hrf_slide_rows *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct hrf_slide_rows rows = { .items = NULL };
    size_t n = 0;
    HRF_TRY(hrf_store_prepare(store, "SELECT * FROM slide ORDER BY calibrates, id", &s, err));
    const enum hrf_status status = hrf_store_read_rows(store, s, sizeof rows.items[0], read_slide,
                                                       (void **)&rows.items, &n, err);
    for (size_t i = 0; i < n; i++)
        *(rows.items[i].calibrates ? &rows.n_sample : &rows.n_items) += 1;
    if (status != HRF_OK)
        hrf_slide_rows_release(&rows);
    else
        *out = rows;
    return status;
}

enum hrf_status hrf_store_set_slide_state(struct hrf_store *store, int64_t slide_id,
                                          enum hrf_slide_state state, const char *reason,
                                          struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, "UPDATE slide SET state=?, reason=? WHERE id=?", &s, err));
    sqlite3_bind_int(s, 1, state);
    hrf_bind_text(s, 2, reason);
    sqlite3_bind_int64(s, 3, slide_id);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_set_slide_tiling(struct hrf_store *store, int64_t slide_id,
                                           const char *hash, struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, "UPDATE slide SET tile_plan_hash=? WHERE id=?", &s, err));
    hrf_bind_text(s, 1, hash);
    sqlite3_bind_int64(s, 2, slide_id);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_trim_slides(struct hrf_store *store, int64_t n_slides,
                                      struct hrf_error *err)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "DELETE FROM slide WHERE id > %lld; DELETE FROM task WHERE slide_id > %lld",
             (long long)n_slides, (long long)n_slides);
    return hrf_store_exec(store, sql, err);
}

enum hrf_status hrf_store_get_tile_plan(struct hrf_store *store, int64_t slide_id,
                                        struct hrf_tile_plan **out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store,
                              "SELECT bytes FROM task JOIN record USING(key) WHERE kind=0 AND "
                              "slide_id=? AND state=2",
                              &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    if (!has_row)
        return hrf_error_set(err, HRF_E_USER, "slide %lld has no tile plan", (long long)slide_id);
    return hrf_tile_plan_decode(sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0),
                                "tile plan in the store", out, err);
}

/* Appends a shard; the first one gives the names. */
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
        return hrf_error_set(err, HRF_E_USER, "a shard is missing: patches from %lld on",
                             (long long)(w->first_patch + w->n_patches));
    float *joined = hrf_realloc_array(
        w->probabilities, (size_t)((w->n_patches + p->n_patches) * w->n_classes), sizeof joined[0]);
    if (joined == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the scores of a slide");
    memcpy(joined + w->n_patches * w->n_classes, p->probabilities,
           (size_t)(p->n_patches * p->n_classes) * sizeof joined[0]);
    w->probabilities = joined;
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

enum hrf_status hrf_store_get_scores(struct hrf_store *store, int64_t slide_id,
                                     const char *precision, struct hrf_scores **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_AUTO(hrf_scores) whole = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store,
                              "SELECT bytes, state FROM task LEFT JOIN record USING(key) WHERE "
                              "kind=1 AND slide_id=? AND precision=? ORDER BY first_patch",
                              &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    hrf_bind_text(s, 2, precision);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    while (has_row) {
        HRF_AUTO(hrf_scores) part = NULL;
        if (sqlite3_column_int(s, 1) != HRF_TASK_FINISHED ||
            sqlite3_column_type(s, 0) == SQLITE_NULL)
            return hrf_error_set(err, HRF_E_USER, "slide %lld is not scored yet in %s",
                                 (long long)slide_id, precision);
        HRF_TRY(hrf_scores_decode(sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0),
                                  "scores in the store", &part, err));
        HRF_TRY(join_shard(&whole, &part, err));
        HRF_TRY(hrf_store_step(store, s, &has_row, err));
    }
    if (whole == NULL || whole->first_patch != 0)
        return hrf_error_set(err, HRF_E_USER, "slide %lld has no scores in %s", (long long)slide_id,
                             precision);
    *out = whole;
    whole = NULL;
    return HRF_OK;
}

enum hrf_status hrf_store_put_slide_score(struct hrf_store *store,
                                          const struct hrf_slide_score *score,
                                          struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(
        hrf_store_prepare(store, "INSERT OR REPLACE INTO slide_score VALUES(?,?,?,?,?)", &s, err));
    sqlite3_bind_int64(s, 1, score->slide_id);
    hrf_bind_text(s, 2, score->precision);
    sqlite3_bind_double(s, 3, score->score); /* NaN is stored as NULL */
    sqlite3_bind_int(s, 4, score->positive);
    sqlite3_bind_int64(s, 5, score->n_patches);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_clear_slide_scores(struct hrf_store *store, const char *precision,
                                             struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, "DELETE FROM slide_score WHERE precision=?1 OR ?1 IS NULL", &s,
                              err));
    hrf_bind_text(s, 1, precision);
    return hrf_store_finish(store, s, err);
}

static enum hrf_status read_slide_score(sqlite3_stmt *s, void *item, struct hrf_error *err)
{
    (void)err;
    struct hrf_slide_score *score = item;
    *score = (struct hrf_slide_score){
        .slide_id = sqlite3_column_int64(s, 0),
        .score = sqlite3_column_type(s, 2) == SQLITE_NULL ? (double)NAN
                                                          : sqlite3_column_double(s, 2),
        .positive = sqlite3_column_int(s, 3) != 0,
        .n_patches = sqlite3_column_int64(s, 4),
    };
    hrf_column_copy(s, 1, score->precision, sizeof score->precision);
    return HRF_OK;
}

enum hrf_status hrf_store_get_slide_scores(struct hrf_store *store, const char *precision,
                                           struct hrf_slide_score **out, size_t *n_items,
                                           struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_AUTO_FREE struct hrf_slide_score *items = NULL;
    size_t n = 0;
    HRF_TRY(hrf_store_prepare(store,
                              "SELECT * FROM slide_score WHERE precision=?1 OR ?1 IS NULL ORDER "
                              "BY precision, slide_id",
                              &s, err));
    hrf_bind_text(s, 1, precision);
    HRF_TRY(
        hrf_store_read_rows(store, s, sizeof items[0], read_slide_score, (void **)&items, &n, err));
    *out = items;
    *n_items = n;
    items = NULL;
    return HRF_OK;
}

enum hrf_status hrf_store_put_phase(struct hrf_store *store, const struct hrf_phase_row *phase,
                                    struct hrf_error *err)
{
    static const char *const order[] = { "ingest", "tile",      "calibrate",
                                         "infer",  "aggregate", "report" };
    sqlite3_stmt *s;
    int place = 0;
    while (place < 6 && strcmp(order[place], phase->name) != 0)
        place++;
    HRF_TRY(hrf_store_prepare(store, "INSERT OR REPLACE INTO phase VALUES(?,?,?,?,?,?)", &s, err));
    hrf_bind_text(s, 1, phase->name);
    sqlite3_bind_int(s, 2, place);
    sqlite3_bind_double(s, 3, phase->seconds);
    sqlite3_bind_int(s, 4, phase->cached);
    sqlite3_bind_int64(s, 5, phase->n_tasks);
    sqlite3_bind_int64(s, 6, phase->n_cached);
    return hrf_store_finish(store, s, err);
}

static enum hrf_status read_phase(sqlite3_stmt *s, void *item, struct hrf_error *err)
{
    (void)err;
    struct hrf_phase_row *row = item;
    *row = (struct hrf_phase_row){ .seconds = sqlite3_column_double(s, 2),
                                   .cached = sqlite3_column_int(s, 3) != 0,
                                   .n_tasks = sqlite3_column_int64(s, 4),
                                   .n_cached = sqlite3_column_int64(s, 5) };
    hrf_column_copy(s, 0, row->name, sizeof row->name);
    return HRF_OK;
}

enum hrf_status hrf_store_get_phases(struct hrf_store *store, struct hrf_phase_row **out,
                                     size_t *n_items, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_AUTO_FREE struct hrf_phase_row *items = NULL;
    size_t n = 0;
    HRF_TRY(hrf_store_prepare(store, "SELECT * FROM phase ORDER BY place", &s, err));
    HRF_TRY(hrf_store_read_rows(store, s, sizeof items[0], read_phase, (void **)&items, &n, err));
    *out = items;
    *n_items = n;
    items = NULL;
    return HRF_OK;
}
