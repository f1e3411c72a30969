/* store.h - the run store: one SQLite file with everything that is known about a run.
 *
 * Only one process, the driver, opens it for writing; a lease row says which. `status`, `why` and
 * `report` open it read-only. All changes of one loop iteration form one transaction. Records (tile
 * plans, scores) are kept as blobs, so that the report can be made again from the store alone.
 * One object must not be used by two threads at a time.
 */
#ifndef HRF_SCHEMA_STORE_STORE_H
#define HRF_SCHEMA_STORE_STORE_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/head_scores.h"
#include "schema/record/scores.h"
#include "schema/record/tile_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_store; /* opaque */

/* The state of a slide. At the end of a run it is done, failed, no tissue or excluded. */
enum hrf_slide_state {
    HRF_SLIDE_PENDING,
    HRF_SLIDE_DONE,
    HRF_SLIDE_FAILED,
    HRF_SLIDE_NO_TISSUE,
    HRF_SLIDE_EXCLUDED
};
enum { HRF_N_SLIDE_STATES = 5 };
/* The state's name in files and scripts ("no_tissue"), and its text for users ("no tissue"). */
const char *hrf_slide_state_word(enum hrf_slide_state state);
const char *hrf_slide_state_text(enum hrf_slide_state state);

enum hrf_truth { HRF_TRUTH_UNKNOWN = -1, HRF_TRUTH_NEGATIVE = 0, HRF_TRUTH_POSITIVE = 1 };

/* A slide of the cohort, or one that is used for calibration only. Ingest makes the row, and the
 * run updates it. */
struct hrf_slide_row {
    int64_t id; /* position, from 1: the cohort first */
    char *name; /* unique: the file's stem, with folders before it where stems are equal */
    char *path;
    int64_t n_bytes;
    int64_t mtime_ns;
    char seen[HRF_HASH_HEX];    /* names, sizes and times of its files when `content` was found */
    char content[HRF_HASH_HEX]; /* identity; "" until ingest has found it */
    enum hrf_truth truth;
    char *label_text; /* as the label file says it ("Tumor,Micro"), NULL = none */
    char *annotation; /* path of an ASAP XML, NULL = none */
    double mpp_csv;   /* 0 = none */
    enum hrf_slide_state state;
    char *reason;         /* failed, excluded, or a warning; NULL = none */
    char *tile_plan_hash; /* NULL until tiled */
    bool calibrates;      /* calibrate.slides: it is tiled and sampled, never evaluated */
};
void hrf_slide_row_release(struct hrf_slide_row *row);

/* The cohort in items[0 .. n_items), behind it n_sample slides that only calibrate. */
struct hrf_slide_rows {
    struct hrf_slide_row *items;
    size_t n_items, n_sample;
};
void hrf_slide_rows_release(struct hrf_slide_rows *rows);
/* Returns the slide of that id, or NULL if there is none. */
const struct hrf_slide_row *hrf_slide_rows_find(const struct hrf_slide_rows *rows, int64_t id);

/* The score of a slide at one precision, as aggregation computed it. */
struct hrf_slide_score {
    int64_t slide_id;
    char precision[8];
    double score;  /* NaN: none */
    bool positive; /* score >= threshold */
    int64_t n_patches;
};

struct hrf_phase_row {
    char name[16]; /* ingest tile calibrate infer train head aggregate report */
    double seconds;
    bool cached; /* every task of it was found done */
    int64_t n_tasks, n_cached;
};

enum hrf_store_mode { HRF_STORE_READ, HRF_STORE_WRITE };
/* Opens a store; in write mode, creates it. A damaged or foreign file and one of another version
 * are refused with a message that says what to do. */
HRF_CHECKED enum hrf_status hrf_store_open(const char *path, enum hrf_store_mode mode,
                                           struct hrf_store **out, struct hrf_error *err);
/* Opens the store of a run directory for reading. HRF_E_USER: there is no run in it. */
HRF_CHECKED enum hrf_status hrf_store_open_run(const char *directory, struct hrf_store **out,
                                               struct hrf_error *err);
void hrf_store_close(struct hrf_store *store);
static inline void hrf_store_destroy(struct hrf_store *store)
{
    hrf_store_close(store);
}
HRF_DEFINE_AUTO(hrf_store)

/* HRF_E_EXTERNAL if the file was deleted or moved after it was opened. Writing would still succeed,
 * but the data would be lost. */
HRF_CHECKED enum hrf_status hrf_store_check_place(struct hrf_store *store, struct hrf_error *err);
/* One transaction at a time. A failed commit is rolled back. If this process holds the lease, begin
 * first checks the file's place as above. */
HRF_CHECKED enum hrf_status hrf_store_begin(struct hrf_store *store, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_commit(struct hrf_store *store, struct hrf_error *err);
void hrf_store_rollback(struct hrf_store *store);

/* Small facts of the run: "run_id", "workflow", "created", ...; *out is heap, NULL when unset. */
HRF_CHECKED enum hrf_status hrf_store_get_fact(struct hrf_store *store, const char *key, char **out,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_set_fact(struct hrf_store *store, const char *key,
                                               const char *value, struct hrf_error *err);

/* Slides. put replaces the cohort row with the same id. Rows come in id order. */
HRF_CHECKED enum hrf_status hrf_store_put_slide(struct hrf_store *store,
                                                const struct hrf_slide_row *row,
                                                struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_get_slides(struct hrf_store *store,
                                                 struct hrf_slide_rows *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_set_slide_state(struct hrf_store *store, int64_t slide_id,
                                                      enum hrf_slide_state state,
                                                      const char *reason, struct hrf_error *err);
/* Sets the hash of the slide's tile plan; NULL = not tiled. */
HRF_CHECKED enum hrf_status hrf_store_set_slide_tiling(struct hrf_store *store, int64_t slide_id,
                                                       const char *tile_plan_hash,
                                                       struct hrf_error *err);
/* Removes the cohort rows and slide scores with an id above `last_id` (0: all of them), after the
 * cohort became smaller. */
HRF_CHECKED enum hrf_status hrf_store_trim_slides(struct hrf_store *store, int64_t last_id,
                                                  struct hrf_error *err);
/* Removes the slide scores of a precision (NULL: all), before they are computed again. */
HRF_CHECKED enum hrf_status
hrf_store_clear_slide_scores(struct hrf_store *store, const char *precision, struct hrf_error *err);

/* Reads the tile plan of a slide of the current cohort. HRF_E_AGAIN: it has none. HRF_E_USER: the
 * stored one is damaged or belongs to another task. */
HRF_CHECKED enum hrf_status hrf_store_get_tile_plan(struct hrf_store *store, int64_t slide_id,
                                                    struct hrf_tile_plan **out,
                                                    struct hrf_error *err);
/* Reads the tile plan that is stored under the key expected->task; the errors are the same. */
HRF_CHECKED enum hrf_status hrf_store_find_tile_plan(struct hrf_store *store,
                                                     const struct hrf_record_identity *expected,
                                                     struct hrf_tile_plan **out,
                                                     struct hrf_error *err);
/* Reads the scores of all patches of a slide at one precision. The shards are joined in order:
 * first_patch is 0, n_patches is that of the tile plan, and the times are summed. HRF_E_AGAIN: the
 * slide is not or not completely scored. HRF_E_USER: stored scores are damaged or belong to another
 * task. */
HRF_CHECKED enum hrf_status hrf_store_get_scores(struct hrf_store *store, int64_t slide_id,
                                                 const char *precision, struct hrf_scores **out,
                                                 struct hrf_error *err);

/* Reads the same without the numbers (probabilities is NULL): sizes, times and hardware. This also
 * works for a slide whose patches have embeddings, which hrf_store_get_scores() refuses. */
HRF_CHECKED enum hrf_status hrf_store_get_score_facts(struct hrf_store *store, int64_t slide_id,
                                                      const char *precision,
                                                      struct hrf_scores **out,
                                                      struct hrf_error *err);

/* Reads the scores of a slide by slide heads at one precision: the mean over the heads that were
 * trained on the first precision's features (or the score by the head that the workflow names), or,
 * with is_own, over those trained on this precision's features. HRF_E_AGAIN: not all of these heads
 * have scored the slide. */
HRF_CHECKED enum hrf_status hrf_store_get_head_scores(struct hrf_store *store, int64_t slide_id,
                                                      const char *precision, bool is_own,
                                                      struct hrf_head_scores **out,
                                                      struct hrf_error *err);

HRF_CHECKED enum hrf_status hrf_store_put_slide_score(struct hrf_store *store,
                                                      const struct hrf_slide_score *score,
                                                      struct hrf_error *err);
/* *out is a heap array in (precision, slide) order. */
HRF_CHECKED enum hrf_status hrf_store_get_slide_scores(struct hrf_store *store,
                                                       const char *precision,
                                                       struct hrf_slide_score **out,
                                                       size_t *n_items, struct hrf_error *err);

HRF_CHECKED enum hrf_status hrf_store_put_phase(struct hrf_store *store,
                                                const struct hrf_phase_row *phase,
                                                struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_get_phases(struct hrf_store *store,
                                                 struct hrf_phase_row **out, size_t *n_items,
                                                 struct hrf_error *err);
/* Tasks, jobs and attempts: store/tasks.h. */

#endif
