#include "tests/unit/aggregate/study/stored.h"

#include "base/directory.h"
#include "base/path.h"
#include "schema/store/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stored_open(struct stored *stored)
{
    char name[] = "/tmp/hrf-study-XXXXXX";
    assert_non_null(mkdtemp(name));
    stored->directory = hrf_strdup(name);
    HRF_AUTO_FREE char *path = hrf_path_join(stored->directory, "run.db");
    MUST(hrf_store_open(path, HRF_STORE_WRITE, &stored->store, err));
}

void stored_close(struct stored *stored)
{
    hrf_store_close(stored->store);
    MUST(hrf_path_remove_tree(stored->directory, err));
    hrf_free(stored->directory);
}

void stored_put_slide(struct stored *stored, int64_t id, const char *name, enum hrf_truth truth,
                      enum hrf_slide_state slide_state, const char *reason)
{
    char text[64], path[96], why[64];
    snprintf(text, sizeof text, "%s", name);
    snprintf(path, sizeof path, "/data/%s.tif", name);
    snprintf(why, sizeof why, "%s", reason != NULL ? reason : "");
    const struct hrf_slide_row row = { .id = id,
                                       .name = text,
                                       .path = path,
                                       .n_bytes = 1000,
                                       .content = "0a",
                                       .truth = truth,
                                       .state = slide_state,
                                       .reason = reason != NULL ? why : NULL };
    MUST(hrf_store_put_slide(stored->store, &row, err));
}

/* Plans one task and gives it its record. */
static void put_result(struct hrf_store *store, struct hrf_task_row *row, size_t n_rows,
                       const struct hrf_bytes *records)
{
    MUST(hrf_store_plan_tasks(store, row->slide_id, row->kind, row, n_rows, err));
    struct hrf_task_rows all = { 0 };
    MUST(hrf_store_get_tasks(store, &all, err));
    for (size_t r = 0; r < n_rows; r++)
        for (size_t i = 0; i < all.n_items; i++)
            if (strcmp(all.items[i].key, row[r].key) == 0) {
                bool is_new = false;
                MUST(hrf_store_finish_task(store, all.items[i].id, row[r].key, records[r].data,
                                           records[r].n_bytes, &is_new, err));
            }
    hrf_task_rows_release(&all);
}

static void set_key(struct hrf_task_row *row, const char *what, int64_t slide, int64_t first)
{
    snprintf(row->key, sizeof row->key, "%s-%lld-%lld", what, (long long)slide, (long long)first);
}

/* What the task's record is to say of itself. */
static struct hrf_record_identity identity_of(struct hrf_store *store,
                                              const struct hrf_task_row *row)
{
    struct hrf_record_identity identity = { .task = "" };
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { 0 };
    MUST(hrf_store_get_slides(store, &slides, err));
    for (size_t i = 0; i < slides.n_items; i++)
        if (slides.items[i].id == row->slide_id)
            identity = hrf_slide_expect(&slides.items[i], row->kind, row->key);
    return identity;
}

void stored_put_plan_at(struct stored *stored, int64_t slide, int64_t n_patches, int32_t first,
                        int64_t size)
{
    struct hrf_tile_plan *plan = hrf_calloc(1, sizeof *plan);
    plan->slide_path = hrf_strdup("/data/x.tif");
    plan->vendor = hrf_strdup("generic-tiff");
    plan->mpp_source = hrf_strdup("csv");
    plan->tissue_method = hrf_strdup("otsu");
    plan->width = plan->height = 4096;
    plan->n_levels = 1;
    plan->mpp_x = plan->mpp_y = 0.5;
    plan->patch_size = plan->patch_stride = 256;
    plan->patch_mpp = 0.5;
    plan->patch_width0 = plan->patch_height0 = size;
    plan->stride_x0 = plan->stride_y0 = 256.0;
    plan->grid_columns = plan->grid_rows = 16;
    plan->read_downsample = 1.0;
    plan->thumbnail_downsample = 4.0;
    plan->n_patches = n_patches;
    plan->patches = hrf_calloc((size_t)n_patches + 1, sizeof *plan->patches);
    for (int32_t i = 0; i < (int32_t)n_patches; i++)
        plan->patches[i] = (struct hrf_patch){ 0, first + 256 * i };
    MUST(hrf_tile_plan_seal(plan, err));
    struct hrf_bytes record = { 0 };
    struct hrf_task_row row = { .kind = HRF_TASK_TILE, .slide_id = slide };
    set_key(&row, "tile", slide, 0);
    plan->identity = identity_of(stored->store, &row);
    MUST(hrf_tile_plan_encode(plan, &record, err));
    put_result(stored->store, &row, 1, &record);
    MUST(hrf_store_set_slide_tiling(stored->store, slide, plan->hash, err));
    hrf_bytes_release(&record);
    hrf_tile_plan_destroy(plan);
}

void stored_put_plan(struct stored *stored, int64_t slide, int64_t n_patches)
{
    stored_put_plan_at(stored, slide, n_patches, 0, 256);
}

static struct hrf_bytes make_shard(struct hrf_store *store, const struct hrf_task_row *row,
                                   const float *tumor)
{
    struct hrf_scores *scores = hrf_calloc(1, sizeof *scores);
    scores->identity = identity_of(store, row);
    scores->precision = hrf_strdup(row->precision);
    scores->device = hrf_strdup("cpu");
    scores->host = hrf_strdup("node");
    scores->first_patch = row->first_patch;
    scores->n_patches = row->n_patches;
    scores->n_classes = 2;
    scores->probabilities = hrf_alloc_array((size_t)row->n_patches * 2, sizeof(float));
    for (int64_t i = 0; i < row->n_patches; i++) {
        scores->probabilities[2 * i] = 1.0f - tumor[i];
        scores->probabilities[2 * i + 1] = tumor[i];
    }
    scores->timing = (struct hrf_timing){ .compute = 0.75, .wait = 0.25, .total = 1.0 };
    scores->peak_memory_bytes = 1000 * row->n_patches;
    scores->n_threads = 2;
    scores->n_readers = 1;
    struct hrf_bytes record = { 0 };
    MUST(hrf_scores_encode(scores, &record, err));
    hrf_scores_destroy(scores);
    return record;
}

void stored_put_scores(struct stored *stored, int64_t slide, const float fp32[3],
                       const float int8[3])
{
    struct hrf_task_row rows[4];
    struct hrf_bytes records[4];
    for (size_t i = 0; i < 4; i++) {
        bool second = i % 2 == 1;
        rows[i] = (struct hrf_task_row){ .kind = HRF_TASK_INFER,
                                         .slide_id = slide,
                                         .first_patch = second ? 2 : 0,
                                         .n_patches = second ? 1 : 2 };
        snprintf(rows[i].precision, sizeof rows[i].precision, "%s", precisions[i / 2]);
        set_key(&rows[i], precisions[i / 2], slide, rows[i].first_patch);
        records[i] = make_shard(stored->store, &rows[i],
                                (i < 2 ? fp32 : int8) + rows[i].first_patch);
    }
    put_result(stored->store, rows, 4, records);
    for (size_t i = 0; i < 4; i++)
        hrf_bytes_release(&records[i]);
}
