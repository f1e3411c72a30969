/* store.c - facts, slides, phases and slide scores. */
#include "schema/store/store.h"

#include "schema/store/columns.h"
#include "schema/store/tasks.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *text;
} states[HRF_N_SLIDE_STATES] = {
    [HRF_SLIDE_PENDING] = { "pending", "pending" },
    [HRF_SLIDE_DONE] = { "done", "done" },
    [HRF_SLIDE_FAILED] = { "failed", "failed" },
    [HRF_SLIDE_NO_TISSUE] = { "no_tissue", "no tissue" },
    [HRF_SLIDE_EXCLUDED] = { "excluded", "excluded" },
};

const char *hrf_slide_state_word(enum hrf_slide_state state)
{
    return states[state].word;
}

const char *hrf_slide_state_text(enum hrf_slide_state state)
{
    return states[state].text;
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

const struct hrf_slide_row *hrf_slide_rows_find(const struct hrf_slide_rows *rows, int64_t id)
{
    const bool there = id >= 1 && (uint64_t)id <= rows->n_items + rows->n_sample &&
                       rows->items[id - 1].id == id;
    return there ? &rows->items[id - 1] : NULL;
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
    struct hrf_columns row = { store, "fact", s, HRF_OK, err };
    char *value = has_row ? hrf_column_text(&row, 0, false) : NULL;
    HRF_TRY(row.status);
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
        store, "INSERT OR REPLACE INTO slide VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &s, err));
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
    hrf_bind_text(s, 14, row->seen);
    hrf_bind_text(s, 15, row->content);
    return hrf_store_finish(store, s, err);
}

static void read_slide(struct hrf_columns *row, void *item)
{
    struct hrf_slide_row *slide = item;
    *slide = (struct hrf_slide_row){
        .id = hrf_column_id(row, 0),
        .name = hrf_column_text(row, 1, true),
        .path = hrf_column_text(row, 2, true),
        .n_bytes = hrf_column_int(row, 3, 0, INT64_MAX),
        .mtime_ns = hrf_column_int(row, 4, INT64_MIN, INT64_MAX),
        .truth = (enum hrf_truth)hrf_column_int(row, 5, HRF_TRUTH_UNKNOWN, HRF_TRUTH_POSITIVE),
        .label_text = hrf_column_text(row, 6, false),
        .annotation = hrf_column_text(row, 7, false),
        .mpp_csv = hrf_column_real(row, 8),
        .state = (enum hrf_slide_state)hrf_column_enum(row, 9, HRF_N_SLIDE_STATES),
        .reason = hrf_column_text(row, 10, false),
        .calibrates = hrf_column_bool(row, 12),
    };
    char hash[HRF_HASH_HEX]; /* no longer than that */
    hrf_column_copy(row, 11, hash, sizeof hash);
    hrf_column_copy(row, 13, slide->seen, sizeof slide->seen);
    hrf_column_copy(row, 14, slide->content, sizeof slide->content);
    slide->tile_plan_hash = hrf_column_text(row, 11, false);
}

enum hrf_status hrf_store_get_slides(struct hrf_store *store, struct hrf_slide_rows *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct hrf_slide_rows rows = { .items = NULL };
    size_t n = 0;
    HRF_TRY(hrf_store_prepare(store, "SELECT * FROM slide ORDER BY calibrates, id", &s, err));
    const enum hrf_status status = hrf_store_read_rows(store, s, "slide", sizeof rows.items[0],
                                                       read_slide, (void **)&rows.items, &n, err);
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

static void read_slide_score(struct hrf_columns *row, void *item)
{
    struct hrf_slide_score *score = item;
    *score = (struct hrf_slide_score){
        .slide_id = hrf_column_id(row, 0),
        .score = hrf_column_score(row, 2),
        .positive = hrf_column_bool(row, 3),
        .n_patches = hrf_column_count(row, 4),
    };
    hrf_column_copy(row, 1, score->precision, sizeof score->precision);
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
    HRF_TRY(hrf_store_read_rows(store, s, "slide_score", sizeof items[0], read_slide_score,
                                (void **)&items, &n, err));
    *out = items;
    *n_items = n;
    items = NULL;
    return HRF_OK;
}

enum hrf_status hrf_store_put_phase(struct hrf_store *store, const struct hrf_phase_row *phase,
                                    struct hrf_error *err)
{
    static const char *const order[] = { "ingest", "tile", "calibrate", "infer",
                                         "train",  "head", "aggregate", "report" };
    sqlite3_stmt *s;
    int place = 0;
    while (place < (int)(sizeof order / sizeof order[0]) && strcmp(order[place], phase->name) != 0)
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

static void read_phase(struct hrf_columns *row, void *item)
{
    struct hrf_phase_row *phase = item;
    *phase = (struct hrf_phase_row){ .seconds = hrf_column_real(row, 2),
                                     .cached = hrf_column_bool(row, 3),
                                     .n_tasks = hrf_column_count(row, 4),
                                     .n_cached = hrf_column_count(row, 5) };
    hrf_column_copy(row, 0, phase->name, sizeof phase->name);
}

enum hrf_status hrf_store_get_phases(struct hrf_store *store, struct hrf_phase_row **out,
                                     size_t *n_items, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_AUTO_FREE struct hrf_phase_row *items = NULL;
    size_t n = 0;
    HRF_TRY(hrf_store_prepare(store, "SELECT * FROM phase ORDER BY place", &s, err));
    HRF_TRY(hrf_store_read_rows(store, s, "phase", sizeof items[0], read_phase, (void **)&items, &n,
                                err));
    *out = items;
    *n_items = n;
    items = NULL;
    return HRF_OK;
}
