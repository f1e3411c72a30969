/* report_key.c - whether the files of the last report are what a report of this run would be.
 *
 * The store keeps one fact about a report that was written: the hash of everything it depends on
 * (this program, the workflow, slides with their outcome and annotation, the keys and ends of
 * tasks), and of the names, sizes and times of its files. Reports of embeddings, slide heads and
 * forests are always written: they read files beside the store, and that is when damage of these is
 * found.
 */
#include "base/directory.h"
#include "base/hash.h"
#include "base/own_process.h"
#include "base/path.h"
#include "orchestrator/run/run_private.h"
#include "schema/store/tasks.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char fact[] = "report";

/* Hashes the content of a file, or that it cannot be read. */
static void hash_content(struct hrf_hash *hash, const char *path)
{
    char content[HRF_HASH_HEX] = "";
    if (path != NULL && hrf_hash_file(path, content, NULL) != HRF_OK)
        snprintf(content, sizeof content, "none");
    hrf_hash_text(hash, content);
}

static enum hrf_status hash_slides(struct hrf_store *store, struct hrf_hash *hash,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    for (size_t i = 0; i < slides.n_items + slides.n_sample; i++) {
        const struct hrf_slide_row *slide = &slides.items[i];
        hrf_hash_text(hash, slide->name);
        hrf_hash_text(hash, slide->path);
        hrf_hash_text(hash, slide->content);
        hrf_hash_int(hash, slide->truth);
        hrf_hash_text(hash, slide->label_text);
        hrf_hash_text(hash, slide->annotation);
        hash_content(hash, slide->annotation);
        hrf_hash_double(hash, slide->mpp_csv);
        hrf_hash_int(hash, slide->calibrates);
        hrf_hash_int(hash, slide->state);
        hrf_hash_text(hash, slide->reason);
        hrf_hash_text(hash, slide->tile_plan_hash);
    }
    return HRF_OK;
}

static enum hrf_status hash_tasks(struct hrf_store *store, struct hrf_hash *hash,
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = { .items = NULL };
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    for (size_t i = 0; i < tasks.n_items; i++) {
        const struct hrf_task_row *task = &tasks.items[i];
        hrf_hash_int(hash, task->kind);
        hrf_hash_text(hash, task->key);
        hrf_hash_int(hash, task->slide_id);
        hrf_hash_text(hash, task->precision);
        hrf_hash_int(hash, task->first_patch);
        hrf_hash_int(hash, task->state);
    }
    return HRF_OK;
}

/* Hashes the names, sizes and times of the files below a folder: whoever edits one changes its
 * time, and to read gigabytes of heat maps at each start would take longer than it saves. A folder
 * that is not there has none. */
static void hash_files(struct hrf_hash *hash, const char *folder)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    if (hrf_path_list_directory(folder, &names, NULL) != HRF_OK)
        return;
    for (size_t i = 0; i < names.n_items; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, names.items[i]);
        struct stat st;
        hrf_hash_text(hash, names.items[i]);
        if (lstat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            hash_files(hash, path);
        } else {
            hrf_hash_int(hash, st.st_size);
            hrf_hash_int(hash, st.st_mtim.tv_sec);
            hrf_hash_int(hash, st.st_mtim.tv_nsec);
        }
    }
}

static enum hrf_status hash_report(const struct run_setup *setup, char out[HRF_HASH_HEX],
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) workflow = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *program = NULL, *results = hrf_path_join(setup->directory, "results");
    HRF_AUTO_FREE char *report = hrf_path_join(setup->directory, "report");
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(hrf_process_self(&program, err));
    hash_content(hash, program);
    hrf_workflow_write(setup->workflow, &workflow);
    hrf_hash_text(hash, workflow.text);
    HRF_TRY(hash_slides(setup->store, hash, err));
    HRF_TRY(hash_tasks(setup->store, hash, err));
    hash_files(hash, results);
    hash_files(hash, report);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status run_report_is_kept(const struct run_setup *setup, bool *out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *last = NULL;
    char now[HRF_HASH_HEX];
    *out = false;
    HRF_TRY(hrf_store_get_fact(setup->store, fact, &last, err));
    if (last == NULL || last[0] == '\0')
        return HRF_OK;
    HRF_TRY(hash_report(setup, now, err));
    *out = strcmp(last, now) == 0;
    return HRF_OK;
}

enum hrf_status run_report_forget(struct hrf_store *store, struct hrf_error *err)
{
    return hrf_store_set_fact(store, fact, "", err);
}

enum hrf_status run_report_remember(const struct run_setup *setup, struct hrf_error *err)
{
    char now[HRF_HASH_HEX];
    const struct hrf_workflow *w = setup->workflow;
    if (hrf_slide_head_is_given(&w->slide_head) || w->slide_head.forest != HRF_FOREST_NONE ||
        w->model.output == HRF_OUTPUT_EMBEDDING)
        return HRF_OK;
    HRF_TRY(hash_report(setup, now, err));
    return hrf_store_set_fact(setup->store, fact, now, err);
}
