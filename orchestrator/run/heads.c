/* heads.c - plans the scoring of slides by a slide head, once their embeddings are complete.
 *
 * A slide's bag at one precision is a small HDF5 file with the places and the origin of its
 * embeddings, that refers to the files in which the run keeps them and names their hashes. A head
 * task is keyed by the bytes of the head and of that file, so that the same embeddings are scored
 * once, and a bag that was lost is made again with the same bytes.
 */
#include "aggregate/features/features.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/dag/dag.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/run_private.h"
#include "schema/store/embeddings.h"

#include <stdio.h>
#include <string.h>

void run_heads_release(struct run_heads *heads)
{
    for (size_t i = 0; i < heads->n; i++) {
        hrf_free(heads->items[i].path);
        hrf_free(heads->items[i].onnx.data);
        for (size_t k = 0; k < heads->items[i].n_testing; k++)
            hrf_free(heads->items[i].testing[k]);
        hrf_free(heads->items[i].testing);
    }
    hrf_free(heads->items);
    heads->items = NULL;
    heads->n = 0;
}

enum hrf_status run_heads_open(struct run_heads *heads, const struct run_setup *setup,
                               struct hrf_error *err)
{
    char with_data[HRF_HASH_HEX];
    const char *path = setup->workflow->slide_head.file;
    if (path == NULL)
        return HRF_OK;
    heads->items = hrf_calloc(1, sizeof *heads->items);
    heads->n = 1;
    heads->items[0].path = hrf_strdup(path);
    HRF_TRY(hrf_hash_file(path, heads->items[0].sha256, err));
    HRF_TRY(hrf_launch_model_hash(path, with_data, err));
    if (strcmp(with_data, heads->items[0].sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "the slide head '%s' keeps its weights in other files: save it as one",
                             path);
    return HRF_OK;
}

/* ---- bags ---- */

/* *out: hash of the keys of the slide's infer tasks; "" unless all of them and the tile task have a
 * result: until then the tasks are those of an earlier tiling. */
static enum hrf_status hash_parts(const struct run_tasks *tasks, int64_t slide_id,
                                  const char *precision, char out[HRF_HASH_HEX],
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    bool any = false, all = true;
    HRF_TRY(hrf_hash_create(&hash, err));
    size_t first;
    size_t n = hrf_task_rows_of(&tasks->rows, HRF_TASK_TILE, slide_id, &first);
    for (size_t i = first; i < first + n; i++)
        all &= tasks->rows.items[i].state == HRF_TASK_FINISHED;
    n = hrf_task_rows_of(&tasks->rows, HRF_TASK_INFER, slide_id, &first);
    for (size_t i = first; i < first + n; i++) { /* in the order of patches */
        const struct hrf_task_row *t = &tasks->rows.items[i];
        if (strcmp(t->precision, precision) != 0)
            continue;
        any = true;
        all &= t->state == HRF_TASK_FINISHED;
        hrf_hash_text(hash, t->key);
    }
    out[0] = '\0';
    if (any && all && !tasks->slide_notes[slide_id].is_unread)
        hrf_hash_hex(hash, out);
    return HRF_OK;
}

static enum hrf_status refer_to_parts(const struct run_setup *setup, const struct run_bag *bag,
                                      const char *name, const char *encoder, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_embeddings) e = NULL;
    HRF_TRY(hrf_store_get_tile_plan(setup->store, bag->slide->id, &plan, err));
    HRF_TRY(hrf_store_open_embeddings(setup->store, bag->slide->id, bag->precision, &e, err));
    if (e->n != plan->n_patches)
        return hrf_error_set(err, HRF_E_AGAIN,
                             "%lld embeddings, and the tile plan has %lld patches: run again",
                             (long long)e->n, (long long)plan->n_patches);
    HRF_AUTO_FREE struct hrf_features_part *parts = hrf_calloc(e->n_shards, sizeof *parts);
    HRF_AUTO_RELEASE(hrf_text_list)
    names = { hrf_calloc(e->n_shards, sizeof(char *)), e->n_shards };
    for (size_t i = 0; i < e->n_shards; i++) {
        const struct hrf_embedding_shard *shard = &e->shards[i];
        names.items[i] = hrf_format("../../embeddings/%s", shard->key); /* relative to the bag */
        parts[i] = (struct hrf_features_part){
            names.items[i], shard->sha256, shard->n_patches * e->width * (int64_t)sizeof(float)
        };
    }
    const struct hrf_features features = { .plan = plan,
                                           .slide = name,
                                           .encoder = encoder,
                                           .precision = bag->precision,
                                           .model = setup->model_sha256,
                                           .preparation = hrf_workflow_preparation(setup->workflow),
                                           .width = e->width };
    return hrf_features_refer(&features, parts, e->n_shards, bag->path, err);
}

static enum hrf_status write_bag(const struct run_setup *setup, struct run_bag *bag,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = hrf_path_directory(bag->path);
    HRF_AUTO_FREE char *name = hrf_path_stem(bag->path);
    HRF_AUTO_FREE char *encoder = hrf_path_stem(setup->workflow->model.file);
    HRF_TRY(hrf_path_make_directories(folder, err));
    hrf_crash_point("run.bag.before");
    HRF_TRY(refer_to_parts(setup, bag, name, encoder, err));
    hrf_crash_point("run.bag.after");
    return hrf_hash_file(bag->path, bag->sha256, err);
}

/* Reads or writes the store's fact about a bag: what it was made of, and the hash of its bytes. */
static enum hrf_status bag_fact(const struct run_setup *setup, struct run_bag *bag, bool is_new,
                                struct hrf_error *err)
{
    char value[2 * HRF_HASH_HEX];
    HRF_AUTO_FREE char *known = NULL;
    HRF_AUTO_FREE char *key = hrf_format("bag/%lld/%s", (long long)bag->slide->id, bag->precision);
    if (is_new) {
        snprintf(value, sizeof value, "%s %s", bag->made_of, bag->sha256);
        return hrf_store_set_fact(setup->store, key, value, err);
    }
    HRF_TRY(hrf_store_get_fact(setup->store, key, &known, err));
    const size_t n = strlen(bag->made_of);
    bag->sha256[0] = '\0';
    if (known != NULL && strlen(known) == 2 * n + 1 && strncmp(known, bag->made_of, n) == 0)
        snprintf(bag->sha256, sizeof bag->sha256, "%s", known + n + 1);
    return HRF_OK;
}

enum hrf_status run_bag_find(struct run_bag *bag, const struct run_setup *setup,
                             const struct run_tasks *tasks, const struct hrf_slide_row *slide,
                             const char *precision, struct hrf_error *err)
{
    *bag = (struct run_bag){ .slide = slide, .precision = precision };
    HRF_TRY(hash_parts(tasks, slide->id, precision, bag->made_of, err));
    if (bag->made_of[0] == '\0')
        return HRF_OK;
    HRF_AUTO_FREE char *name = hrf_text_file_name(slide->name);
    bag->path = hrf_format("%s/bags/%s/%s.h5", setup->directory, precision, name);
    HRF_TRY(bag_fact(setup, bag, false, err));
    if (bag->sha256[0] != '\0')
        return HRF_OK;
    HRF_TRY(write_bag(setup, bag, err));
    return bag_fact(setup, bag, true, err);
}

enum hrf_status run_bag_restore(struct run_bag *bag, const struct run_setup *setup,
                                struct hrf_error *err)
{
    char planned[HRF_HASH_HEX], found[HRF_HASH_HEX];
    HRF_AUTO(hrf_embeddings) e = NULL;
    HRF_TRY(hrf_store_open_embeddings(setup->store, bag->slide->id, bag->precision, &e, err));
    HRF_TRY(hrf_embeddings_verify(e, err)); /* HRF_E_USER: one of its files is lost or harmed */
    if (hrf_path_exists(bag->path) && hrf_hash_file(bag->path, found, NULL) == HRF_OK &&
        strcmp(found, bag->sha256) == 0)
        return HRF_OK;
    memcpy(planned, bag->sha256, sizeof planned);
    HRF_TRY(write_bag(setup, bag, err));
    HRF_TRY(bag_fact(setup, bag, true, err));
    if (strcmp(planned, bag->sha256) == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_AGAIN,
                         "'%s' was lost, and made again it has other bytes (another HDF5 "
                         "library?): run again, and its slide is scored anew",
                         bag->path);
}

/* ---- tasks ---- */

static char *join_classes(const struct hrf_workflow *w)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    for (size_t i = 0; i < w->model.classes.n_items; i++)
        hrf_strbuf_addf(&text, "%s%s", i > 0 ? "\n" : "", w->model.classes.items[i]);
    return hrf_strbuf_detach(&text);
}

/* Returns the index of the head's scores of a precision among the slide's tasks; -1: it does not
 * score that precision. Heads of the first precision score all precisions, which is what the study
 * compares; heads of another one score their own. */
static int64_t find_slot(const struct run_head *head, size_t precision)
{
    if (head->precision == 0)
        return head->index;
    return head->precision == precision ? HRF_HEAD_OWN + head->index : -1;
}

/* True if the head may score the slide. `name`: its file of embeddings. */
static bool is_tested(const struct run_head *head, const char *name, bool is_labelled)
{
    /* A head from a file: the worker checks which slides it was trained on. */
    if (head->onnx.data == NULL)
        return true;
    for (size_t i = 0; i < head->n_testing; i++)
        if (strcmp(head->testing[i], name) == 0)
            return true;
    return !is_labelled; /* no head was trained with a slide without a label */
}

static enum hrf_status make_row(const struct run *run, const struct run_bag *bag,
                                const struct run_head *head, size_t precision, int64_t slot,
                                struct hrf_task_row *row, struct hrf_error *err)
{
    const struct hrf_head_inputs inputs = { .slide = bag->slide->content,
                                            .features_sha256 = bag->sha256,
                                            .head_sha256 = head->sha256,
                                            .any_precision = precision != head->precision };
    *row = (struct hrf_task_row){ .kind = HRF_TASK_HEAD,
                                  .slide_id = bag->slide->id,
                                  .first_patch = slot };
    snprintf(row->precision, sizeof row->precision, "%s", bag->precision);
    return hrf_dag_head_key(run->setup.workflow, &inputs, row->key, err);
}

/* Appends the tasks of one precision of a slide to rows. */
static enum hrf_status add_rows(struct run *run, const struct hrf_slide_row *slide,
                                size_t precision, struct hrf_task_row *rows, size_t *n,
                                struct hrf_error *err)
{
    const char *word = hrf_workflow_variant_name(run->setup.workflow, precision);
    struct run_bag bag;
    enum hrf_status status = run_bag_find(&bag, &run->setup, &run->tasks, slide, word, err);
    HRF_AUTO_FREE char *path = bag.path;
    HRF_TRY(status);
    if (path == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *name = hrf_path_stem(path);
    const bool is_labelled = run_class_of(run->setup.workflow, slide) >= 0;
    for (size_t i = 0; i < run->heads.n; i++) {
        const int64_t slot = find_slot(&run->heads.items[i], precision);
        if (slot < 0 || !is_tested(&run->heads.items[i], name, is_labelled))
            continue;
        HRF_TRY(make_row(run, &bag, &run->heads.items[i], precision, slot, &rows[*n], err));
        rows[(*n)++].cached = run->tasks.are_planned;
    }
    return HRF_OK;
}

enum hrf_status run_plan_head(struct run *run, int64_t slide_id, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->setup.workflow;
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, slide_id);
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(
        run->heads.n * hrf_workflow_n_variants(w) + 1, sizeof *rows);
    size_t n = 0;
    for (size_t p = 0; p < hrf_workflow_n_variants(w) && run->heads.n > 0 && !slide->calibrates;
         p++)
        HRF_TRY(add_rows(run, slide, p, rows, &n, err));
    run_tasks_note_new(&run->tasks);
    return hrf_store_plan_tasks(run->setup.store, slide_id, HRF_TASK_HEAD, rows, n, err);
}

static enum hrf_status plan_heads(struct run *run, struct hrf_error *err)
{
    for (size_t i = 0; i < run->slides.n_items + run->slides.n_sample; i++)
        HRF_TRY(run_plan_head(run, run->slides.items[i].id, err));
    return HRF_OK;
}

enum hrf_status run_plan_all_heads(struct run *run, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    HRF_TRY(plan_heads(run, err));
    hrf_crash_point("run.plan_heads.before_commit");
    return run_commit_plan(run, err);
}

static const struct run_head *find_head(const struct run *run, const struct hrf_task_row *row)
{
    const size_t variant = hrf_workflow_find_variant(run->setup.workflow, row->precision);
    for (size_t i = 0; i < run->heads.n; i++)
        if (find_slot(&run->heads.items[i], variant) == row->first_patch)
            return &run->heads.items[i];
    return NULL;
}

/* Writes the file of a head that the run trained, from the store. */
static enum hrf_status restore_head(const struct run_head *head, struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    if (head->onnx.data == NULL ||
        (hrf_path_exists(head->path) && hrf_hash_file(head->path, found, NULL) == HRF_OK &&
         strcmp(found, head->sha256) == 0))
        return HRF_OK;
    HRF_AUTO_FREE char *folder = hrf_path_directory(head->path);
    HRF_TRY(hrf_path_make_directories(folder, err));
    return hrf_file_write_atomic(head->path, head->onnx.data, head->onnx.n_bytes, err);
}

enum hrf_status run_fill_bag(struct run *run, const struct hrf_task_row *row,
                             struct hrf_job_bag *out, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->setup.workflow;
    const struct run_head *head = find_head(run, row);
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, row->slide_id);
    struct run_bag bag;
    enum hrf_status status = run_bag_find(&bag, &run->setup, &run->tasks, slide, row->precision,
                                          err);
    if (status == HRF_OK && (bag.path == NULL || head == NULL))
        status = hrf_error_set(err, HRF_E_BUG, "a head task without embeddings or head");
    if (status == HRF_OK)
        status = run_bag_restore(&bag, &run->setup, err);
    if (status == HRF_OK)
        status = restore_head(head, err);
    out->features = bag.path; /* the spec frees it, also on failure */
    HRF_TRY(status);
    out->features_sha256 = hrf_strdup(bag.sha256);
    out->head = hrf_strdup(head->path);
    out->head_sha256 = hrf_strdup(head->sha256);
    out->classes = join_classes(w);
    out->mixed = w->slide_head.mixed;
    out->any_precision = strcmp(row->precision,
                                hrf_precision_name(w->precision[head->precision])) != 0;
    return HRF_OK;
}
