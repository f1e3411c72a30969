/* check.c - what no single key of a workflow can tell: keys that go together, that exclude each
 * other, that hang on each other's values. */
#include "base/message.h"
#include "base/path.h"
#include "base/text.h"
#include "schema/workflow/reader.h"

#include <stdio.h>
#include <string.h>

enum { WHERE_SIZE = 272, SLURM_MAX_JOBS = 64, MOST_LABELS = 254 };

static bool is_given(const struct hrf_reader *r, const char *path)
{
    return r->lines[hrf_reader_index(r, path)] != 0;
}

/* A finding where the key was given. */
static void find_at(struct hrf_reader *r, const char *path, const char *format, ...)
    HRF_PRINTF(3, 4);
static void find_at(struct hrf_reader *r, const char *path, const char *format, ...)
{
    size_t i = hrf_reader_index(r, path);
    char where[WHERE_SIZE];
    const char *file = r->where;
    va_list args;
    hrf_reader_name_override(path, where, sizeof where);
    r->where = r->lines[i] < 0 ? where : file;
    va_start(args, format);
    hrf_reader_vfind(r, r->lines[i], r->columns[i], format, args);
    va_end(args);
    r->where = file;
}

/* The keys of a dataset, in that section. */
static void check_dataset(struct hrf_reader *r, const char *section, struct hrf_workflow_dataset *d,
                          bool is_needed)
{
    static const char *const keys[] = { "root",  "files",     "csv",     "layout",
                                        "split", "recursive", "exclude", "mpp" };
    enum { N_OWN = 3, LAYOUT = 3, SPLIT = 4, RECURSIVE = 5, N_KEYS = 8 };
    char names[N_KEYS][32];
    bool given[N_KEYS], any = is_needed;
    for (int i = 0; i < N_KEYS; i++) {
        snprintf(names[i], sizeof names[i], "%s.%s", section, keys[i]);
        given[i] = is_given(r, names[i]);
        any |= given[i];
    }
    if (!any)
        return;
    const bool has_files = given[HRF_LAYOUT_FILES], has_csv = given[HRF_LAYOUT_CSV];
    if (!given[LAYOUT] && has_files != has_csv && !given[HRF_LAYOUT_CAMELYON16]) {
        d->layout = has_files ? HRF_LAYOUT_FILES : HRF_LAYOUT_CSV; /* they say it themselves */
        given[LAYOUT] = true;
    }
    if (!given[LAYOUT]) {
        hrf_reader_find(r, 0, 0, "'%s' is missing; it must be camelyon16, files or csv",
                        names[LAYOUT]);
        return;
    }
    for (int i = 0; i < N_OWN; i++) {
        const bool wanted = (int)d->layout == i;
        if (wanted && !given[i]) {
            find_at(r, names[LAYOUT], "layout '%s' needs '%s'", hrf_words_layout[i], names[i]);
        } else if (!wanted && given[i]) {
            find_at(r, names[i], "'%s' belongs to layout '%s', but the layout is '%s'", names[i],
                    hrf_words_layout[i], hrf_words_layout[d->layout]);
        }
    }
    if (d->layout == HRF_LAYOUT_FILES && given[HRF_LAYOUT_FILES] && d->files.n_items == 0) {
        find_at(r, names[HRF_LAYOUT_FILES], "'%s' is empty; name at least one glob",
                names[HRF_LAYOUT_FILES]);
    }
    if (d->layout != HRF_LAYOUT_CAMELYON16 && given[SPLIT]) {
        find_at(r, names[SPLIT], "'%s' belongs to layout 'camelyon16'", names[SPLIT]);
    }
    if (d->layout != HRF_LAYOUT_FILES && given[RECURSIVE]) {
        find_at(r, names[RECURSIVE], "'%s' belongs to layout 'files'", names[RECURSIVE]);
    }
}

static void check_model(struct hrf_reader *r)
{
    struct hrf_workflow_model *m = &r->workflow->model;
    bool found = false;
    if (m->file == NULL) {
        if (!is_given(r, "model.file"))
            hrf_reader_find(r, 0, 0, "'{model.file}' is missing; name an ONNX file");
    } else if (r->part != HRF_PART_OF_A_RUN && !hrf_path_exists(m->file)) {
        HRF_AUTO_FREE char *shown = hrf_text_escaped(m->file);
        find_at(r, "model.file", "the model file '%s' does not exist", shown);
    }
    if (m->classes.n_items == 0) {
        find_at(r, "model.classes", "'{model.classes}' is empty; name one class per output");
        return;
    }
    for (size_t i = 0; i < m->classes.n_items; i++) {
        found |= m->positive != NULL && strcmp(m->classes.items[i], m->positive) == 0;
        for (size_t k = 0; k < i; k++)
            if (strcmp(m->classes.items[i], m->classes.items[k]) == 0)
                find_at(r, "model.classes", "a class stands twice in '{model.classes}'");
    }
    if (m->positive == NULL) {
        m->positive = hrf_strdup(m->classes.items[m->classes.n_items - 1]);
    } else if (!found) {
        find_at(r, "model.positive",
                "'%s' is not one of '{model.classes}'; '{model.positive}' must be", m->positive);
    }
}

/* The key that sets the number of a job's ranks, as the file has it. */
static const char *ranks_key(const struct hrf_reader *r)
{
    if (r->workflow->executor.type != HRF_EXECUTOR_SLURM)
        return "executor.local.ranks";
    return is_given(r, "executor.slurm.ranks_per_node") ? "executor.slurm.ranks_per_node"
                                                        : "executor.slurm.nodes";
}

/* The number of processes of a job, and how many of them one copy of the network needs. */
static void check_ranks(struct hrf_reader *r)
{
    const struct hrf_workflow *w = r->workflow;
    const bool slurm = w->executor.type == HRF_EXECUTOR_SLURM;
    const int64_t all = slurm ? w->executor.slurm.nodes * w->executor.slurm.ranks_per_node
                              : w->executor.local.ranks;
    const int64_t one = w->engine.parallel.spatial_rows * w->engine.parallel.spatial_cols *
                        w->engine.parallel.tensor * w->engine.parallel.stages;
    const int64_t data = w->engine.parallel.data;
    const bool whole = w->tiler.mode == HRF_TILER_SLIDE;
    const char *from = slurm ? "executor.slurm: nodes x ranks_per_node" : "executor.local.ranks";
    if (all == 1 || w->engine.parallel.is_auto)
        return;
    if (whole && one != all)
        find_at(r, ranks_key(r),
                "a slide is one image: '{engine.parallel}' has to share it out over all %lld ranks "
                "of a job (%s), and multiplies to %lld; set e.g. {engine.parallel.spatial=%lld}",
                (long long)all, from, (long long)one, (long long)all);
    else if (data > 1 ? data * one != all : all % one != 0)
        find_at(r, ranks_key(r),
                "'{engine.parallel}' multiplies to %lld, and a job has %lld ranks (%s); they have "
                "to be the same, or without 'data' a multiple of %lld",
                (long long)(data * one), (long long)all, from, (long long)one);
}

static void check_file(struct hrf_reader *r, const char *key, const char *path)
{
    if (path == NULL || r->part == HRF_PART_OF_A_RUN || hrf_path_exists(path))
        return;
    HRF_AUTO_FREE char *shown = hrf_text_escaped(path);
    find_at(r, key, "'%s' does not exist", shown);
}

static void check_forest(struct hrf_reader *r)
{
    const struct hrf_workflow *w = r->workflow;
    if (hrf_slide_head_is_given(&w->slide_head))
        find_at(r, "slide_head.forest",
                "a forest scores slides from the scores of patches, 'file' and 'train' from "
                "embeddings; leave one out");
    else if (w->model.output == HRF_OUTPUT_EMBEDDING || w->model.output == HRF_OUTPUT_NONE ||
             w->model.output == HRF_OUTPUT_SEGMENTATION || w->model.classes.n_items > 2)
        find_at(r, "slide_head.forest",
                "a forest reads heat maps of one class and its opposite; name two classes at most, "
                "and a '{model.output}' that gives probabilities");
    if (w->tiler.mode == HRF_TILER_SLIDE)
        find_at(
            r, "slide_head.forest",
            "a forest reads heat maps of patches, and with {tiler.mode} 'slide' there are none");
}

static void check_slide_head(struct hrf_reader *r)
{
    const struct hrf_workflow_slide_head *h = &r->workflow->slide_head;
    const struct hrf_workflow_dataset *d = &r->workflow->dataset;
    const char *const key = h->file != NULL ? "slide_head.file" : "slide_head.train";
    const bool is_forest = h->forest != HRF_FOREST_NONE;
    if (is_forest)
        check_forest(r);
    if (!hrf_slide_head_is_given(h) && !is_forest)
        return;
    if (r->workflow->model.output != HRF_OUTPUT_EMBEDDING && !is_forest)
        find_at(r, key, "a slide head scores embeddings; set '{model.output}' to 'embedding'");
    check_file(r, "slide_head.file", h->file);
    check_file(r, "slide_head.table", h->table);
    if (h->file != NULL && h->train != HRF_TRAIN_NONE)
        find_at(r, "slide_head.train",
                "'file' is a head that is trained already; leave one of the two out");
    if (h->train != HRF_TRAIN_NONE && r->workflow->model.classes.n_items < 2)
        find_at(r, "model.classes", "a slide head is trained for two classes at least; name them");
    if (h->split == HRF_HEADS_BY_DATASET &&
        (d->layout != HRF_LAYOUT_CAMELYON16 || d->split != HRF_SPLIT_ALL))
        find_at(r, "slide_head.split",
                "the dataset says which slides test only with layout 'camelyon16' and "
                "'{dataset.split}' 'all'");
    if (h->split == HRF_HEADS_BY_TABLE && h->table == NULL)
        find_at(r, "slide_head.split", "'table' needs '{slide_head.table}'");
}

static void check_tissue(struct hrf_reader *r)
{
    const struct hrf_workflow_tiler *t = &r->workflow->tiler;
    const bool by_network = t->tissue.method == HRF_TISSUE_ONNX;
    if (!by_network)
        return;
    if (t->coords != NULL)
        find_at(r, "tiler.coords",
                "'coords' brings the patches or the tissue, and {tiler.tissue.method} 'onnx' would "
                "find it; leave one of the two out");
    if (t->tissue.model == NULL)
        find_at(r, "tiler.tissue.method",
                "'onnx' needs a network; name it in '{tiler.tissue.model}'");
    if (!(t->tissue.mpp > 0))
        find_at(r, "tiler.tissue.method",
                "'onnx' needs the resolution of the network's images; give '{tiler.tissue.mpp}', "
                "e.g. 8.0");
    check_file(r, "tiler.tissue.model", t->tissue.model);
}

static void check_budget(struct hrf_reader *r)
{
    const struct hrf_workflow *w = r->workflow;
    const bool has_cosine = w->calibrate.budget.cosine > 0;
    const char *const key = has_cosine ? "calibrate.budget.cosine" : "calibrate.budget.agreement";
    if (!hrf_workflow_has_budget(w))
        return;
    if (has_cosine && w->calibrate.budget.agreement > 0)
        find_at(r, key, "a budget is a cosine or an agreement; leave one of the two out");
    if (w->calibrate.budget.agreement > 0 &&
        (w->model.output == HRF_OUTPUT_EMBEDDING || w->model.output == HRF_OUTPUT_NONE))
        find_at(
            r, "calibrate.budget.agreement",
            "classes agree, and this '{model.output}' has none; use '{calibrate.budget.cosine}'");
    if (w->engine.device == HRF_DEVICE_CUDA)
        find_at(r, key,
                "layers are measured on processors; set '{engine.device}' to 'cpu', or leave the "
                "budget out and name layers in '{calibrate.keep}'");
    if (w->tiler.mode == HRF_TILER_SLIDE)
        find_at(
            r, key,
            "layers are measured on patches, and with {tiler.mode} 'slide' there are none; name "
            "layers in '{calibrate.keep}'");
}

static void check_decode(struct hrf_reader *r)
{
    const struct hrf_workflow *w = r->workflow;
    if (w->engine.decode != HRF_DECODE_GPU)
        return;
    if (w->engine.device == HRF_DEVICE_CPU)
        find_at(r, "engine.decode",
                "a GPU is to decode, and '{engine.device}' is 'cpu'; set 'decode' to 'cpu'");
    if (w->tiler.mode == HRF_TILER_SLIDE)
        find_at(
            r, "engine.decode",
            "GPUs decode patches, and with {tiler.mode} 'slide' there are none; set 'decode' to "
            "'cpu'");
}

/* What the model's file says is seen later (hrf_cli_adopt_input). */
static void check_preparation(struct hrf_reader *r)
{
    const struct hrf_workflow *w = r->workflow;
    const char *key = w->model.input.size > 0     ? "model.input.size"
                      : w->model.input.resize > 0 ? "model.input.resize"
                                                  : "model.input.interpolation";
    if (w->model.input.resize > 0 && w->model.input.resize < w->model.input.size)
        find_at(r, "model.input.resize",
                "'resize' is less than 'size', which is cut out of what a patch is resized to");
    if (w->model.input.size == 0 && w->model.input.resize == 0 &&
        w->model.input.interpolation == HRF_INTERPOLATION_AUTO)
        return;
    if (w->tiler.mode == HRF_TILER_SLIDE)
        find_at(r, key,
                "patches are resized, and with {tiler.mode} 'slide' there are none; set "
                "'{tiler.slide.size}' and leave it out");
}

/* Keys that mean nothing beside the others, of rows that want that said. */
static void check_cases(struct hrf_reader *r)
{
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *setting = &hrf_settings[i];
        if (r->lines[i] == 0 || hrf_setting_counts(setting, r->workflow) ||
            setting->when->refusal == NULL)
            continue;
        char text[256];
        hrf_message_expand(setting->when->refusal, text, sizeof text);
        find_at(r, setting->key, "%s", text);
    }
}

static void complete_executor(struct hrf_reader *r)
{
    struct hrf_workflow_executor *e = &r->workflow->executor;
    for (size_t i = 0; i < r->table.n; i++)
        e->is_given |= r->lines[i] != 0 && strncmp(r->table.rows[i].key, "executor.", 9) == 0;
    if (e->type == HRF_EXECUTOR_SLURM && !is_given(r, "executor.max_jobs"))
        e->max_jobs = SLURM_MAX_JOBS; /* a cluster runs more jobs than one machine */
}

void hrf_workflow_check(struct hrf_reader *r)
{
    struct hrf_workflow *w = r->workflow;
    if (r->part == HRF_PART_EXECUTOR) {
        complete_executor(r);
        return;
    }
    if (r->part != HRF_PART_TILER) {
        check_dataset(r, "dataset", &r->workflow->dataset, true);
        check_dataset(r, "calibrate.slides", &r->workflow->calibrate.slides, false);
        check_model(r);
    }
    check_slide_head(r);
    check_cases(r);
    check_tissue(r);
    check_budget(r);
    check_decode(r);
    complete_executor(r);
    w->model.input.is_given = is_given(r, "model.input.mean") || is_given(r, "model.input.std");
    w->tiler.patch.size_is_given = is_given(r, "tiler.patch.size");
    w->tiler.patch.stride_is_given = is_given(r, "tiler.patch.stride");
    if (!is_given(r, "tiler.patch.stride"))
        w->tiler.patch.stride = w->tiler.patch.size;
    if (w->engine.parallel.is_bidirectional &&
        (w->engine.parallel.stages == 1 || w->engine.parallel.microbatches % 2 != 0))
        find_at(r, "engine.parallel.bidirectional",
                "'bidirectional' sends half of the micro-batches each way through the stages; set "
                "'stages' to 2 or more and 'microbatches' to an even number");
    if (w->engine.parallel.microbatches > 1 && w->engine.parallel.stages == 1)
        find_at(r, "engine.parallel.microbatches",
                "'microbatches' needs pipeline stages; set 'stages' to 2 or more");
    if (w->tiler.mode == HRF_TILER_SLIDE && w->engine.parallel.data > 1)
        find_at(r, "engine.parallel.data",
                "a slide is one image, so 'data' has nothing to share; use 'spatial' or "
                "'executor.max_jobs'");
    if (w->tiler.mode == HRF_TILER_SLIDE && w->engine.parallel.microbatches > 1)
        find_at(r, "engine.parallel.microbatches",
                "a slide is one image, so there are no micro-batches; leave it out");
    if (w->tiler.mode == HRF_TILER_SLIDE && w->model.output == HRF_OUTPUT_EMBEDDING)
        find_at(r, "model.output",
                "'embedding' describes patches, and with {tiler.mode} 'slide' there are none; use "
                "{tiler.mode} 'patch'");
    check_preparation(r);
    const bool is_segmentation = w->model.output == HRF_OUTPUT_SEGMENTATION;
    if (w->tiler.mode == HRF_TILER_SLIDE && is_segmentation)
        find_at(r, "model.output",
                "'segmentation' labels the pixels of patches, and with {tiler.mode} 'slide' there "
                "are none; use {tiler.mode} 'patch'");
    if (w->tiler.mode == HRF_TILER_SLIDE && w->study.stain_jitter > 0)
        find_at(r, "study.stain_jitter",
                "'stain_jitter' scores patches once more, and with {tiler.mode} 'slide' there are "
                "none; leave it out");
    if (is_segmentation && w->model.classes.n_items > MOST_LABELS)
        find_at(r, "model.classes", "a label map has room for 254 classes");
    if ((w->model.output == HRF_OUTPUT_NONE || is_segmentation) &&
        !is_given(r, "aggregate.slide_score"))
        w->aggregate.slide_score = HRF_SCORE_MEAN;
    if (w->model.output == HRF_OUTPUT_NONE && w->aggregate.lesions.method != HRF_FIND_NO_LESIONS)
        find_at(r, "aggregate.lesions.method",
                "lesions are found in probabilities, and {model.output} 'none' gives none; use "
                "'softmax' or 'sigmoid'");
    if (w->model.output == HRF_OUTPUT_SOFTMAX && w->model.classes.n_items == 1)
        find_at(r, "model.output", "'softmax' over one class is 1 for every patch; use 'sigmoid'");
    if (w->tiler.mode == HRF_TILER_SLIDE &&
        (w->tiler.quality.pen > 0 || w->tiler.quality.bubble > 0 || w->tiler.quality.fold > 0 ||
         w->tiler.quality.blur > 0))
        find_at(r, "tiler.quality",
                "'quality' leaves patches out, and with {tiler.mode} 'slide' there are no patches; "
                "leave it out");
    if (w->tiler.mode == HRF_TILER_SLIDE && w->tiler.coords != NULL)
        find_at(
            r, "tiler.coords",
            "'coords' names patches or their tissue, and with {tiler.mode} 'slide' there are no "
            "patches; leave it out");
    if (is_given(r, "aggregate.tune.specificity") && w->aggregate.tune.slides.n_items == 0)
        find_at(r, "aggregate.tune.specificity",
                "'specificity' is reached on the slides of '{aggregate.tune.slides}'; name them");
    if (w->aggregate.tune.slides.n_items > 0 &&
        (w->model.output == HRF_OUTPUT_NONE ||
         (w->model.output == HRF_OUTPUT_EMBEDDING && !hrf_slide_head_is_given(&w->slide_head)) ||
         w->model.classes.n_items > 2))
        find_at(r, "aggregate.tune.slides",
                "a threshold is chosen for one class and its opposite; name two classes, and a "
                "'{model.output}' that gives probabilities");
    if (w->features.type == HRF_FEATURES_FP16 && (w->features.form == HRF_FEATURES_AS_CLAM ||
                                                  w->features.form == HRF_FEATURES_AS_ATLASPATCH))
        find_at(r, "features.type",
                "CLAM and AtlasPatch read fp32; use it, or {features.form} 'trident' or 'stamp'");
    if (w->engine.parallel.microbatches > w->engine.batch)
        find_at(r, "engine.parallel.microbatches",
                "'microbatches' is more than '{engine.batch}'; every micro-batch needs a patch");
    if (w->engine.parallel.spatial_rows * w->engine.parallel.spatial_cols > 1 &&
        w->tiler.mode == HRF_TILER_PATCH && w->tiler.patch.size < w->engine.parallel.spatial_rows)
        find_at(r, "engine.parallel.spatial.rows",
                "more spatial ranks than rows in a patch; use fewer");
    check_ranks(r);
}
