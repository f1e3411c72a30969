/* heads.c - plans the scoring of slides by a slide head, once their embeddings are complete.
 *
 * The embeddings of a slide at one precision are written as one HDF5 file, its bag. A head task is
 * keyed by the bytes of the head and of that file, so that the same file is scored once, and a file
 * that was lost is made again with the same bytes.
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

#include <stdio.h>
#include <string.h>

static bool wants_heads(const struct run *run)
{
    return hrf_slide_head_is_given(&run->workflow->slide_head);
}

enum hrf_status run_open_head(struct run *run, struct hrf_error *err)
{
    char with_data[HRF_HASH_HEX];
    const char *path = run->workflow->slide_head.file;
    if (!wants_heads(run))
        return HRF_OK;
    HRF_TRY(hrf_hash_file(path, run->head_sha256, err));
    HRF_TRY(hrf_launch_model_hash(path, with_data, err));
    if (strcmp(with_data, run->head_sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "the slide head '%s' keeps its weights in other files: save it as one",
                             path);
    return hrf_store_set_fact(run->store, "slide_head_sha256", run->head_sha256, err);
}

/* ---- bags ---- */

struct bag {
    const struct hrf_slide_row *slide;
    const char *precision;
    char made_of[HRF_HASH_HEX]; /* hash of the keys of its infer tasks */
    char *path;                 /* heap */
    char sha256[HRF_HASH_HEX];  /* of the file */
};

/* Where embeddings are written in this form anyway, that file is the bag. */
static char *bag_path(const struct run *run, const struct hrf_slide_row *slide,
                      const char *precision)
{
    const struct hrf_workflow_features *f = &run->workflow->features;
    const bool is_result = f->form == HRF_FEATURES_AS_TRIDENT && f->type == HRF_FEATURES_FP32;
    HRF_AUTO_FREE char *name = hrf_text_file_name(slide->name);
    if (name == NULL)
        return NULL;
    return is_result ? hrf_format("%s/results/%s/features/%s.h5", run->directory, precision, name)
                     : hrf_format("%s/bags/%s/%s.h5", run->directory, precision, name);
}

/* *out: hash of the keys of the slide's infer tasks; "" unless all of them have a result, and its
 * tiling, too: until then there are those of an earlier tiling. */
static enum hrf_status find_parts(const struct run *run, int64_t slide_id, const char *precision,
                                  char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    bool any = false, all = true;
    HRF_TRY(hrf_hash_create(&hash, err));
    for (size_t i = 0; i < run->tasks.n_items; i++) { /* in the order of patches */
        const struct hrf_task_row *t = &run->tasks.items[i];
        const bool is_part = t->kind == HRF_TASK_INFER && strcmp(t->precision, precision) == 0;
        if (t->slide_id != slide_id || !(is_part || t->kind == HRF_TASK_TILE))
            continue;
        any |= is_part;
        all &= t->state == HRF_TASK_FINISHED;
        if (is_part)
            hrf_hash_text(hash, t->key);
    }
    out[0] = '\0';
    if (any && all)
        hrf_hash_hex(hash, out);
    return HRF_OK;
}

static enum hrf_status write_bag(struct run *run, struct bag *bag, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO_FREE char *folder = hrf_path_directory(bag->path);
    HRF_AUTO_FREE char *name = hrf_path_stem(bag->path);
    HRF_AUTO_FREE char *encoder = hrf_path_stem(run->workflow->model.file);
    HRF_CHECK_MEMORY(folder != NULL && name != NULL && encoder != NULL, err,
                     "no memory for a path");
    HRF_TRY(hrf_path_make_directories(folder, err));
    HRF_TRY(hrf_store_get_tile_plan(run->store, bag->slide->id, &plan, err));
    HRF_TRY(hrf_store_get_scores(run->store, bag->slide->id, bag->precision, &scores, err));
    const struct hrf_features features = { .plan = plan,
                                           .slide = name,
                                           .encoder = encoder,
                                           .precision = bag->precision,
                                           .model = run->model_sha256,
                                           .values = scores->probabilities,
                                           .width = scores->n_classes };
    hrf_crash_point("run.bag.before");
    HRF_TRY(hrf_features_write(HRF_FEATURES_TRIDENT, false, &features, bag->path, err));
    hrf_crash_point("run.bag.after");
    return hrf_hash_file(bag->path, bag->sha256, err);
}

/* The store remembers of each bag what it was made of and the hash of its bytes. */
static enum hrf_status bag_fact(struct run *run, struct bag *bag, bool is_new,
                                struct hrf_error *err)
{
    char value[2 * HRF_HASH_HEX];
    HRF_AUTO_FREE char *known = NULL;
    HRF_AUTO_FREE char *key = hrf_format("bag/%lld/%s", (long long)bag->slide->id, bag->precision);
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

/* Finds the bag, or makes it. bag->path is NULL while the embeddings are not complete. */
static enum hrf_status find_bag(struct run *run, const struct hrf_slide_row *slide,
                                const char *precision, struct bag *bag, struct hrf_error *err)
{
    *bag = (struct bag){ .slide = slide, .precision = precision };
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

/* Makes the file again if it is gone or has other bytes. */
static enum hrf_status restore_bag(struct run *run, struct bag *bag, struct hrf_error *err)
{
    char planned[HRF_HASH_HEX], found[HRF_HASH_HEX];
    if (hrf_path_exists(bag->path) && hrf_hash_file(bag->path, found, NULL) == HRF_OK &&
        strcmp(found, bag->sha256) == 0)
        return HRF_OK;
    memcpy(planned, bag->sha256, sizeof planned);
    HRF_TRY(write_bag(run, bag, err));
    HRF_TRY(bag_fact(run, bag, true, err));
    if (strcmp(planned, bag->sha256) == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_AGAIN,
                         "the embeddings in '%s' were lost, and made again they are other bytes "
                         "(another HDF5 library?): run again, and they are scored anew",
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

/* The study compares precisions: only the first has to be the one that the head was trained on. */
static bool may_differ(const struct hrf_workflow *w, const char *precision)
{
    return strcmp(precision, hrf_precision_name(w->precision[0])) != 0;
}

static enum hrf_status make_row(const struct run *run, const struct bag *bag,
                                struct hrf_task_row *row, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    HRF_AUTO_FREE char *classes = join_classes(w);
    HRF_CHECK_MEMORY(classes != NULL, err, "no memory for the names of classes");
    const struct hrf_head_inputs inputs = { .slide = run_slide_identity(bag->slide),
                                            .features_sha256 = bag->sha256,
                                            .head_sha256 = run->head_sha256,
                                            .classes = classes,
                                            .mixed = w->slide_head.mixed,
                                            .any_precision = may_differ(w, bag->precision) };
    *row = (struct hrf_task_row){ .kind = HRF_TASK_HEAD, .slide_id = bag->slide->id };
    snprintf(row->precision, sizeof row->precision, "%s", bag->precision);
    return hrf_dag_head_key(&inputs, row->key, err);
}

enum hrf_status run_plan_head(struct run *run, int64_t slide_id, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    const struct hrf_slide_row *slide = run_find_slide(run, slide_id);
    struct hrf_task_row rows[HRF_N_PRECISIONS];
    size_t n = 0;
    for (size_t p = 0; p < w->n_precisions && wants_heads(run) && !slide->calibrates; p++) {
        struct bag bag;
        enum hrf_status status = find_bag(run, slide, hrf_precision_name(w->precision[p]), &bag,
                                          err);
        if (status == HRF_OK && bag.path != NULL)
            status = make_row(run, &bag, &rows[n++], err);
        hrf_free(bag.path);
        HRF_TRY(status);
    }
    for (size_t i = 0; i < n; i++)
        rows[i].cached = run->is_planned;
    run->needs_reload = true;
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

enum hrf_status run_fill_bag(struct run *run, const struct hrf_task_row *row,
                             struct hrf_job_bag *out, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    struct bag bag;
    bool failed = false;
    enum hrf_status status = find_bag(run, run_find_slide(run, row->slide_id), row->precision, &bag,
                                      err);
    if (status == HRF_OK && bag.path == NULL)
        status = hrf_error_set(err, HRF_E_BUG, "a head task without embeddings");
    if (status == HRF_OK)
        status = restore_bag(run, &bag, err);
    out->features = bag.path; /* the spec's to free, also on failure */
    HRF_TRY(status);
    out->features_sha256 = copy(bag.sha256, &failed);
    out->head = copy(w->slide_head.file, &failed);
    out->head_sha256 = copy(run->head_sha256, &failed);
    out->classes = join_classes(w);
    out->mixed = w->slide_head.mixed;
    out->any_precision = may_differ(w, row->precision);
    return failed || out->classes == NULL
               ? hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec")
               : HRF_OK;
}
