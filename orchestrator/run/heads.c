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
#include "schema/record/embedding_file.h"
#include "schema/store/embeddings.h"

#include <stdio.h>
#include <string.h>

void run_heads_release(struct run *run)
{
    for (size_t i = 0; i < run->n_heads; i++) {
        hrf_free(run->heads[i].path);
        hrf_free(run->heads[i].onnx.data);
        for (size_t k = 0; k < run->heads[i].n_testing; k++)
            hrf_free(run->heads[i].testing[k]);
        hrf_free(run->heads[i].testing);
    }
    hrf_free(run->heads);
    run->heads = NULL;
    run->n_heads = 0;
}

enum hrf_status run_open_head(struct run *run, struct hrf_error *err)
{
    char with_data[HRF_HASH_HEX];
    const char *path = run->workflow->slide_head.file;
    if (path == NULL)
        return HRF_OK;
    run->heads = hrf_calloc(1, sizeof *run->heads);
    HRF_CHECK_MEMORY(run->heads != NULL, err, "no memory for a slide head");
    run->n_heads = 1;
    run->heads[0].path = hrf_strdup(path);
    HRF_CHECK_MEMORY(run->heads[0].path != NULL, err, "no memory for a path");
    HRF_TRY(hrf_hash_file(path, run->heads[0].sha256, err));
    HRF_TRY(hrf_launch_model_hash(path, with_data, err));
    if (strcmp(with_data, run->heads[0].sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "the slide head '%s' keeps its weights in other files: save it as one",
                             path);
    return HRF_OK;
}

/* ---- bags ---- */

/* Seen from it, the embeddings are in ../../embeddings (schema/hdf5/hdf5_reader.c). */
static char *bag_path(const struct run *run, const struct hrf_slide_row *slide,
                      const char *precision)
{
    HRF_AUTO_FREE char *name = hrf_text_file_name(slide->name);
    return name != NULL ? hrf_format("%s/bags/%s/%s.h5", run->directory, precision, name) : NULL;
}

/* *out: hash of the keys of the slide's infer tasks; "" unless all of them have a result, and its
 * tiling, too: until then there are those of an earlier tiling. */
static enum hrf_status find_parts(const struct run *run, int64_t slide_id, const char *precision,
                                  char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    bool any = false, all = true;
    HRF_TRY(hrf_hash_create(&hash, err));
    size_t first;
    size_t n = hrf_task_rows_of(&run->tasks, HRF_TASK_TILE, slide_id, &first);
    for (size_t i = first; i < first + n; i++)
        all &= run->tasks.items[i].state == HRF_TASK_FINISHED;
    n = hrf_task_rows_of(&run->tasks, HRF_TASK_INFER, slide_id, &first);
    for (size_t i = first; i < first + n; i++) { /* in the order of patches */
        const struct hrf_task_row *t = &run->tasks.items[i];
        if (strcmp(t->precision, precision) != 0)
            continue;
        any = true;
        all &= t->state == HRF_TASK_FINISHED;
        hrf_hash_text(hash, t->key);
    }
    out[0] = '\0';
    if (any && all && !run->slide_notes[slide_id].is_unread)
        hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* A shard that the store of an earlier version has within its record becomes a file, so that a bag
 * can refer to it. */
static enum hrf_status bring_out(struct run *run, struct hrf_embedding_shard *shard,
                                 struct hrf_error *err)
{
    struct hrf_record_identity expected = { .task = "" };
    struct hrf_bytes record;
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO_FREE char *folder = hrf_path_directory(shard->path);
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    if (shard->sha256[0] != '\0')
        return HRF_OK;
    memcpy(expected.task, shard->key, sizeof expected.task);
    HRF_TRY(hrf_store_get_record(run->store, HRF_TASK_INFER, &expected, &record, err));
    const enum hrf_status status = hrf_scores_decode(record.data, record.n_bytes, &expected,
                                                     "embeddings in the store", &scores, err);
    hrf_bytes_release(&record);
    HRF_TRY(status);
    const size_t n_bytes = (size_t)hrf_embedding_file_bytes(scores);
    HRF_TRY(hrf_path_make_directories(folder, err));
    HRF_TRY(hrf_hash_buffer(scores->probabilities, n_bytes, shard->sha256, err));
    return hrf_file_write_atomic(shard->path, scores->probabilities, n_bytes, err);
}

static enum hrf_status list_parts(struct run *run, struct hrf_embeddings *e,
                                  struct hrf_features_part *parts, char **names,
                                  struct hrf_error *err)
{
    for (size_t i = 0; i < e->n_shards; i++) {
        struct hrf_embedding_shard *shard = &e->shards[i];
        HRF_TRY(bring_out(run, shard, err));
        names[i] = hrf_format("../../embeddings/%s", shard->key);
        HRF_CHECK_MEMORY(names[i] != NULL, err, "no memory for a path");
        parts[i] = (struct hrf_features_part){
            names[i], shard->sha256, shard->n_patches * e->width * (int64_t)sizeof(float)
        };
    }
    return HRF_OK;
}

static enum hrf_status refer(struct run *run, const struct run_bag *bag, const char *name,
                             const char *encoder, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_embeddings) e = NULL;
    HRF_TRY(hrf_store_get_tile_plan(run->store, bag->slide->id, &plan, err));
    HRF_TRY(hrf_store_open_embeddings(run->store, bag->slide->id, bag->precision, &e, err));
    HRF_AUTO_FREE struct hrf_features_part *parts = hrf_calloc(e->n_shards, sizeof *parts);
    HRF_AUTO_FREE char **names = hrf_calloc(e->n_shards, sizeof *names);
    HRF_CHECK_MEMORY(parts != NULL && names != NULL, err, "no memory for a bag");
    const struct hrf_features features = { .plan = plan,
                                           .slide = name,
                                           .encoder = encoder,
                                           .precision = bag->precision,
                                           .model = run->model_sha256,
                                           .preparation = hrf_workflow_preparation(run->workflow),
                                           .width = e->width };
    enum hrf_status status = list_parts(run, e, parts, names, err);
    if (status == HRF_OK && e->n != plan->n_patches)
        status = hrf_error_set(err, HRF_E_AGAIN,
                               "%lld embeddings, and the tile plan has %lld "
                               "patches: run again",
                               (long long)e->n, (long long)plan->n_patches);
    if (status == HRF_OK)
        status = hrf_features_refer(&features, parts, e->n_shards, bag->path, err);
    for (size_t i = 0; i < e->n_shards; i++)
        hrf_free(names[i]);
    return status;
}

static enum hrf_status write_bag(struct run *run, struct run_bag *bag, struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = hrf_path_directory(bag->path);
    HRF_AUTO_FREE char *name = hrf_path_stem(bag->path);
    HRF_AUTO_FREE char *encoder = hrf_path_stem(run->workflow->model.file);
    HRF_CHECK_MEMORY(folder != NULL && name != NULL && encoder != NULL, err,
                     "no memory for a path");
    HRF_TRY(hrf_path_make_directories(folder, err));
    hrf_crash_point("run.bag.before");
    HRF_TRY(refer(run, bag, name, encoder, err));
    hrf_crash_point("run.bag.after");
    return hrf_hash_file(bag->path, bag->sha256, err);
}

/* The store remembers of each bag what it was made of and the hash of its bytes. ("bag/...", which
 * earlier versions wrote, was of files that had the numbers in them.) */
static enum hrf_status bag_fact(struct run *run, struct run_bag *bag, bool is_new,
                                struct hrf_error *err)
{
    char value[2 * HRF_HASH_HEX];
    HRF_AUTO_FREE char *known = NULL;
    HRF_AUTO_FREE char *key = hrf_format("bag2/%lld/%s", (long long)bag->slide->id, bag->precision);
    HRF_CHECK_MEMORY(key != NULL, err, "no memory for the name of a bag");
    if (is_new) {
        snprintf(value, sizeof value, "%s %s", bag->made_of, bag->sha256);
        return hrf_store_set_fact(run->store, key, value, err);
    }
    HRF_TRY(hrf_store_get_fact(run->store, key, &known, err));
    const size_t n = strlen(bag->made_of);
    bag->sha256[0] = '\0';
    if (known != NULL && strlen(known) == 2 * n + 1 && strncmp(known, bag->made_of, n) == 0)
        snprintf(bag->sha256, sizeof bag->sha256, "%s", known + n + 1);
    return HRF_OK;
}

enum hrf_status run_find_bag(struct run *run, const struct hrf_slide_row *slide,
                             const char *precision, struct run_bag *bag, struct hrf_error *err)
{
    *bag = (struct run_bag){ .slide = slide, .precision = precision };
    HRF_TRY(find_parts(run, slide->id, precision, bag->made_of, err));
    if (bag->made_of[0] == '\0')
        return HRF_OK;
    bag->path = bag_path(run, slide, precision);
    HRF_CHECK_MEMORY(bag->path != NULL, err, "no memory for a path");
    HRF_TRY(bag_fact(run, bag, false, err));
    if (bag->sha256[0] != '\0')
        return HRF_OK;
    HRF_TRY(write_bag(run, bag, err));
    return bag_fact(run, bag, true, err);
}

/* The files that the bag refers to: HRF_E_USER if one is lost or harmed. */
static enum hrf_status check_parts(struct run *run, const struct run_bag *bag,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_embeddings) e = NULL;
    HRF_TRY(hrf_store_open_embeddings(run->store, bag->slide->id, bag->precision, &e, err));
    return hrf_embeddings_verify(e, err);
}

enum hrf_status run_restore_bag(struct run *run, struct run_bag *bag, struct hrf_error *err)
{
    char planned[HRF_HASH_HEX], found[HRF_HASH_HEX];
    HRF_TRY(check_parts(run, bag, err));
    if (hrf_path_exists(bag->path) && hrf_hash_file(bag->path, found, NULL) == HRF_OK &&
        strcmp(found, bag->sha256) == 0)
        return HRF_OK;
    memcpy(planned, bag->sha256, sizeof planned);
    HRF_TRY(write_bag(run, bag, err));
    HRF_TRY(bag_fact(run, bag, true, err));
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

/* Where the head's scores of a precision stand among the slide's tasks; -1: it scores none of it.
 * Heads of the first precision score all precisions, which is what the study compares; heads of
 * another one score their own. */
static int64_t place_of(const struct run_head *head, size_t precision)
{
    if (head->precision == 0)
        return head->index;
    return head->precision == precision ? HRF_HEAD_OWN + head->index : -1;
}

/* Whether the slide is one that the head may score: `name` is of its file of embeddings. */
static bool is_tested(const struct run_head *head, const char *name, bool is_labelled)
{
    if (head->onnx.data == NULL) /* a file: the worker looks what it has seen */
        return true;
    for (size_t i = 0; i < head->n_testing; i++)
        if (strcmp(head->testing[i], name) == 0)
            return true;
    return !is_labelled; /* nobody could train with it */
}

static enum hrf_status make_row(const struct run *run, const struct run_bag *bag,
                                const struct run_head *head, size_t precision, int64_t place,
                                struct hrf_task_row *row, struct hrf_error *err)
{
    HRF_AUTO_FREE char *classes = join_classes(run->workflow);
    HRF_CHECK_MEMORY(classes != NULL, err, "no memory for the names of classes");
    const struct hrf_head_inputs inputs = { .slide = run_slide_identity(bag->slide),
                                            .features_sha256 = bag->sha256,
                                            .head_sha256 = head->sha256,
                                            .classes = classes,
                                            .mixed = run->workflow->slide_head.mixed,
                                            .any_precision = precision != head->precision };
    *row = (struct hrf_task_row){ .kind = HRF_TASK_HEAD,
                                  .slide_id = bag->slide->id,
                                  .first_patch = place };
    snprintf(row->precision, sizeof row->precision, "%s", bag->precision);
    return hrf_dag_head_key(&inputs, row->key, err);
}

/* The tasks of one precision of a slide, appended to rows. */
static enum hrf_status add_rows(struct run *run, const struct hrf_slide_row *slide,
                                size_t precision, struct hrf_task_row *rows, size_t *n,
                                struct hrf_error *err)
{
    const char *word = hrf_workflow_variant_name(run->workflow, precision);
    struct run_bag bag;
    enum hrf_status status = run_find_bag(run, slide, word, &bag, err);
    HRF_AUTO_FREE char *path = bag.path;
    HRF_TRY(status);
    if (path == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *name = hrf_path_stem(path);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for a name");
    const bool is_labelled = run_class_of(run->workflow, slide) >= 0;
    for (size_t i = 0; i < run->n_heads; i++) {
        const int64_t place = place_of(&run->heads[i], precision);
        if (place < 0 || !is_tested(&run->heads[i], name, is_labelled))
            continue;
        HRF_TRY(make_row(run, &bag, &run->heads[i], precision, place, &rows[*n], err));
        rows[(*n)++].cached = run->is_planned;
    }
    return HRF_OK;
}

enum hrf_status run_plan_head(struct run *run, int64_t slide_id, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    const struct hrf_slide_row *slide = run_find_slide(run, slide_id);
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(
        run->n_heads * hrf_workflow_n_variants(w) + 1, sizeof *rows);
    size_t n = 0;
    HRF_CHECK_MEMORY(rows != NULL, err, "no memory for tasks");
    for (size_t p = 0; p < hrf_workflow_n_variants(w) && run->n_heads > 0 && !slide->calibrates;
         p++)
        HRF_TRY(add_rows(run, slide, p, rows, &n, err));
    run_note_new(run);
    return hrf_store_plan_tasks(run->store, slide_id, HRF_TASK_HEAD, rows, n, err);
}

static enum hrf_status plan_heads(struct run *run, struct hrf_error *err)
{
    for (size_t i = 0; i < run->slides.n_items + run->slides.n_sample; i++)
        HRF_TRY(run_plan_head(run, run->slides.items[i].id, err));
    return HRF_OK;
}

enum hrf_status run_plan_all_heads(struct run *run, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    HRF_TRY(plan_heads(run, err));
    hrf_crash_point("run.plan_heads.before_commit");
    HRF_TRY(hrf_store_commit(run->store, err));
    run_warn_dropped(run);
    return run_reload_tasks(run, err);
}

static char *copy(const char *text, bool *failed)
{
    char *out = hrf_strdup(text);
    *failed |= out == NULL;
    return out;
}

static const struct run_head *find_head(const struct run *run, const struct hrf_task_row *row)
{
    const size_t variant = hrf_workflow_find_variant(run->workflow, row->precision);
    for (size_t i = 0; i < run->n_heads; i++)
        if (place_of(&run->heads[i], variant) == row->first_patch)
            return &run->heads[i];
    return NULL;
}

/* The file of a head that the run trained: it is made from the store. */
static enum hrf_status restore_head(const struct run_head *head, struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    if (head->onnx.data == NULL ||
        (hrf_path_exists(head->path) && hrf_hash_file(head->path, found, NULL) == HRF_OK &&
         strcmp(found, head->sha256) == 0))
        return HRF_OK;
    HRF_AUTO_FREE char *folder = hrf_path_directory(head->path);
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    HRF_TRY(hrf_path_make_directories(folder, err));
    return hrf_file_write_atomic(head->path, head->onnx.data, head->onnx.n_bytes, err);
}

enum hrf_status run_fill_bag(struct run *run, const struct hrf_task_row *row,
                             struct hrf_job_bag *out, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    const struct run_head *head = find_head(run, row);
    struct run_bag bag;
    bool failed = false;
    enum hrf_status status = run_find_bag(run, run_find_slide(run, row->slide_id), row->precision,
                                          &bag, err);
    if (status == HRF_OK && (bag.path == NULL || head == NULL))
        status = hrf_error_set(err, HRF_E_BUG, "a head task without embeddings or head");
    if (status == HRF_OK)
        status = run_restore_bag(run, &bag, err);
    if (status == HRF_OK)
        status = restore_head(head, err);
    out->features = bag.path; /* the spec's to free, also on failure */
    HRF_TRY(status);
    out->features_sha256 = copy(bag.sha256, &failed);
    out->head = copy(head->path, &failed);
    out->head_sha256 = copy(head->sha256, &failed);
    out->classes = join_classes(w);
    out->mixed = w->slide_head.mixed;
    out->any_precision = strcmp(row->precision,
                                hrf_precision_name(w->precision[head->precision])) != 0;
    return failed || out->classes == NULL
               ? hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec")
               : HRF_OK;
}
