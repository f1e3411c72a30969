/* fine_tuning.c - the epochs of one training (fine_tuning.h). */
#include "training/loop/fine_tuning.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/path.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/request.h"
#include "engine/run/agree.h"
#include "engine/train/trainer.h"
#include "schema/record/input_entry.h"
#include "training/cohort/checkpoint_file.h"
#include "training/cohort/folds_and_seeds.h"
#include "training/cohort/training_files.h"
#include "training/loop/last_layer.h"
#include "training/loop/lora.h"
#include "training/loop/not_finite.h"
#include "training/loop/probe.h"
#include "training/loop/scorer.h"
#include "training/loop/slide_bags.h"
#include "training/loop/training_result.h"
#include "training/loop/weights.h"
#include "training/samples/sampler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a network of each kind of labels is trained by, and what its epochs are followed by. */
static const struct {
    enum hrf_loss loss;
    const char *figure; /* its short name on a terminal */
} kinds[HRF_N_LABEL_KINDS] = {
    [HRF_LABEL_CLASS] = { HRF_LOSS_CROSS_ENTROPY, "AUC" },
    [HRF_LABEL_SEVERAL] = { HRF_LOSS_BCE, "AUC" },
    [HRF_LABEL_NUMBERS] = { HRF_LOSS_MSE, "R2" },
    [HRF_LABEL_PIXELS] = { HRF_LOSS_CROSS_ENTROPY, "Dice" },
};

/* ---- what all trainings have in common ---- */

void hrf_fine_tuning_destroy(struct hrf_fine_tuning *tuning)
{
    if (tuning == NULL)
        return;
    hrf_graph_destroy(tuning->graph);
    hrf_free(tuning->embeddings);
    hrf_free(tuning);
}

/* As a run does: what the recipe does not say is as the model's file says. */
static enum hrf_status find_form(struct hrf_fine_tuning *t, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = t->recipe;
    struct hrf_model_input input = { .is_known = false };
    HRF_AUTO_FREE char *entry = NULL;
    HRF_TRY(hrf_onnx_read_entry(r->model, HRF_MODEL_INPUT_KEY, &entry, err));
    if (entry != NULL)
        HRF_TRY(hrf_model_input_parse(entry, strlen(entry), r->model, &input, err));
    if (r->tiler_mode != HRF_TILER_SLIDE) /* slides that are images go in as they are */
        HRF_TRY(hrf_model_input_prepare(&input, r->model, &r->input, t->list->side,
                                        &t->form.preparation, err));
    const bool is_of_file = input.is_known && !r->has_colours;
    memcpy(t->form.mean, is_of_file ? input.mean : r->mean, sizeof t->form.mean);
    memcpy(t->form.std, is_of_file ? input.std : r->std, sizeof t->form.std);
    t->form.side = t->form.preparation.size > 0 ? t->form.preparation.size : t->list->side;
    return HRF_OK;
}

/* The size of slides that are images is the tiler's alone. */
static enum hrf_status set_input(const struct hrf_fine_tuning *t, struct hrf_graph *graph,
                                 struct hrf_error *err)
{
    const struct hrf_shape own = graph->values[graph->inputs[0]].shape;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_engine_set_image_input(graph, t->recipe->batch, t->form.side,
                                                              &why);
    if (status == HRF_E_USER && t->recipe->tiler_mode == HRF_TILER_SLIDE && own.rank == 4 &&
        own.dims[2] > 0 && own.dims[2] != t->form.side)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes images of %lld px alone, and tiler.slide.size is %lld: "
                             "set it to %lld, or take a network for images of any size",
                             t->recipe->model, (long long)own.dims[2], (long long)t->form.side,
                             (long long)own.dims[2]);
    return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
}

enum hrf_status hrf_fine_tuning_shape(const struct hrf_fine_tuning *t,
                                      const struct hrf_graph *graph, struct hrf_graph **out,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(set_input(t, copy, err));
    HRF_TRY(hrf_graph_infer_shapes(copy, err));
    const struct hrf_shape *shape = &copy->values[copy->inputs[0]].shape;
    if (shape->dims[0] != t->recipe->batch)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes batches of %lld only: set train.batch to that, or export "
                             "it with an open batch",
                             t->recipe->model, (long long)shape->dims[0]);
    if (shape->rank != 4 || shape->dims[1] != 3)
        return hrf_error_set(err, HRF_E_USER, "'%s' takes no images of 3 channels",
                             t->recipe->model);
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

static bool has_head(const struct hrf_fine_tuning *t)
{
    return t->recipe->head != HRF_TRAIN_NONE;
}

/* A graph with the classes of the recipe. */
static enum hrf_status with_classes(const struct hrf_fine_tuning *t, int64_t seed,
                                    struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(t->graph, &copy, err));
    if (has_head(t)) { /* which reads the output as it is */
        HRF_MOVE(*out, copy);
        return HRF_OK;
    }
    if (t->recipe->method == HRF_METHOD_FINE_TUNING &&
        (t->recipe->output != HRF_LABEL_NUMBERS || t->is_renewed))
        hrf_last_layer_fit(copy, t->recipe->output);
    const int64_t n_classes = (int64_t)t->recipe->classes.n_items;
    if (t->added_to > 0)
        HRF_TRY(hrf_last_layer_add(copy, t->added_to, n_classes, seed, err));
    else if (t->is_renewed)
        HRF_TRY(hrf_last_layer_renew(copy, n_classes, seed, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

/* The numbers that the graph gives a picture, or a pixel of it. */
static enum hrf_status find_width(const struct hrf_fine_tuning *t, const struct hrf_graph *shaped,
                                  int64_t *width, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    if (t->recipe->output != HRF_LABEL_PIXELS)
        return hrf_engine_check_embedding(shaped, width, err);
    HRF_TRY(hrf_engine_check_output(shaped, "segmentation", err));
    const struct hrf_shape *shape = &shaped->values[shaped->outputs[0]].shape;
    *width = shape->rank == 4 ? shape->dims[1] : 0;
    HRF_TRY(hrf_graph_copy(shaped, &copy, err));
    HRF_TRY(hrf_engine_finish_scores(copy, *width, "segmentation", err));
    return t->form.preparation.size == 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "pictures of %lld px, and '%s' takes %lld: pictures with masks are "
                               "not resized",
                               (long long)t->list->side, t->recipe->model, (long long)t->form.side);
}

static enum hrf_status check_classes(struct hrf_fine_tuning *t, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = t->recipe;
    const int64_t n_classes = (int64_t)r->classes.n_items;
    HRF_AUTO(hrf_graph) shaped = NULL;
    HRF_AUTO(hrf_graph) renewed = NULL;
    HRF_AUTO_RELEASE(hrf_text_list) trained = { .items = NULL };
    int64_t width = 0;
    HRF_TRY(hrf_fine_tuning_shape(t, t->graph, &shaped, err));
    HRF_TRY(find_width(t, shaped, &width, err));
    const bool is_probe = r->method != HRF_METHOD_FINE_TUNING;
    t->width = is_probe || has_head(t) ? (size_t)width : 0;
    if (has_head(t))
        return hrf_last_layers_list(shaped, r->layers, &trained, err);
    t->added_to = is_probe || r->last_layer == HRF_LAST_LAYER_ADD ? width : 0;
    t->is_renewed = t->added_to > 0 || r->last_layer == HRF_LAST_LAYER_FRESH ||
                    (r->last_layer == HRF_LAST_LAYER_AUTO && width != n_classes);
    if (!t->is_renewed && width != n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' gives %lld numbers, and there are %lld classes: leave "
                             "model.last_layer out, and its last layer is made anew",
                             r->model, (long long)width, (long long)n_classes);
    HRF_TRY(with_classes(t, 0, &renewed, err));
    hrf_graph_destroy(shaped);
    shaped = NULL;
    HRF_TRY(hrf_fine_tuning_shape(t, renewed, &shaped, err));
    HRF_TRY(find_width(t, shaped, &width, err));
    return hrf_last_layers_list(shaped, r->layers, &trained, err);
}

enum hrf_status hrf_fine_tuning_open(const struct hrf_train_recipe *recipe,
                                     const struct hrf_sample_list *list,
                                     struct hrf_fine_tuning **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_fine_tuning) t = hrf_calloc(1, sizeof *t);
    t->recipe = recipe;
    t->list = list;
    t->device = "cpu";
    HRF_TRY(hrf_onnx_read_named(recipe->model, t->model_sha256, &t->graph, err));
    if (t->graph->n_inputs != 1 || t->graph->n_outputs != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has %d inputs and %d outputs; what is trained has one of each",
                             recipe->model, (int)t->graph->n_inputs, (int)t->graph->n_outputs);
    HRF_TRY(find_form(t, err));
    HRF_TRY(check_classes(t, err));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

/* ---- one training ---- */

/* What a checkpoint holds first. */
struct progress {
    int64_t epoch, step; /* epochs that are done, and steps of the one after them */
    int64_t best_epoch;  /* from 1; 0: none yet */
    double best_loss, loss_sum;
    char layout[128]; /* of the ranks that wrote it */
};

struct tuning_job {
    const struct hrf_fine_tuning *tuning;
    int64_t fold, seed;
    const char *folder;
    struct hrf_training_set set;   /* the list's, with units; its arrays are borrowed */
    enum hrf_training_part *parts; /* [n_items] */
    struct hrf_graph *base;        /* with the classes, without the shape of a batch */
    struct hrf_graph *shaped;
    struct hrf_graph *adapted;    /* NULL: `shaped` is trained as it is */
    struct hrf_text_list trained; /* names of weights */
    double *units, *offsets;      /* [n_classes] that numbers are trained in; NULL: as they are */
    struct hrf_trainer *trainer;
    struct hrf_slide_trainer *pair; /* instead, of the network and a head */
    struct hrf_head *head;          /* the pair's, borrowed: the weights that are scored */
    struct progress progress;
    struct hrf_training_epoch *records; /* [recipe->epochs] */
    float *best;                        /* all weights of `base`, and then of the head */
    int64_t n_weights;                  /* of both */
    int64_t n_steps;                    /* of an epoch */
    int64_t step_items;                 /* pictures of a step, or 1 slide */
    int32_t n_trained;                  /* tensors */
    int64_t *order;                     /* of the epoch, [n_steps * batch] */
    unsigned char *masks;               /* of a batch, [batch][side][side]; NULL: none */
    float *scores; /* [n_items][hrf_label_n_scores()] of the weights that are kept */
    char key[HRF_HASH_HEX];
    char *checkpoint;
    double kept, write_seconds; /* when the checkpoint was written, and how long that took */
    int64_t kept_steps;         /* that it is after, of all epochs */
    double shown;               /* when the line of progress was */
    bool is_stopping;           /* after the present step, on every process */
};

/* ---- the trainer, of the network alone or with a head ---- */

static struct hrf_trainer *network_trainer(const struct tuning_job *job)
{
    return job->pair != NULL ? hrf_slide_trainer_encoder(job->pair) : job->trainer;
}

static void destroy_trainer(struct tuning_job *job)
{
    hrf_trainer_destroy(job->trainer);
    hrf_slide_trainer_destroy(job->pair);
    job->trainer = NULL;
    job->pair = NULL;
}

static void append_state(const struct tuning_job *job, struct hrf_strbuf *out)
{
    if (job->pair != NULL)
        hrf_slide_trainer_append_state(job->pair, out);
    else
        hrf_trainer_append_state(job->trainer, out);
}

static enum hrf_status set_state(struct tuning_job *job, const void *bytes, size_t n_bytes,
                                 struct hrf_error *err)
{
    return job->pair != NULL ? hrf_slide_trainer_set_state(job->pair, bytes, n_bytes, err)
                             : hrf_trainer_set_state(job->trainer, bytes, n_bytes, err);
}

static void tuning_job_release(struct tuning_job *job)
{
    destroy_trainer(job);
    hrf_graph_destroy(job->base);
    hrf_graph_destroy(job->shaped);
    hrf_graph_destroy(job->adapted);
    hrf_text_list_release(&job->trained);
    hrf_free(job->parts);
    hrf_free(job->units);
    hrf_free(job->offsets);
    hrf_free(job->records);
    hrf_free(job->best);
    hrf_free(job->order);
    hrf_free(job->scores);
    hrf_free(job->masks);
    hrf_free(job->checkpoint);
}

enum hrf_status hrf_fine_tuning_key(const struct hrf_fine_tuning *t, int64_t fold, int64_t seed,
                                    char key[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) settings = HRF_STRBUF_INIT;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_train_recipe_describe(t->recipe, HRF_FOR_TRAINING, &settings);
    hrf_hash_text(hash, t->version);
    hrf_hash_text(hash, settings.text);
    hrf_hash_text(hash, t->model_sha256);
    hrf_hash_int(hash, fold);
    hrf_hash_int(hash, seed);
    for (size_t i = 0; i < t->list->set.n_items; i++) {
        const struct hrf_training_item *item = &t->list->set.items[i];
        hrf_hash_text(hash, item->name);
        hrf_hash_text(hash, item->patient);
        hrf_hash_int(hash, item->label);
        for (size_t k = 0; t->list->set.truths != NULL && k < t->list->set.n_classes; k++)
            hrf_hash_double(hash, (double)t->list->set.truths[i * t->list->set.n_classes + k]);
        hrf_hash_int(hash, (int64_t)item->part);
        hrf_hash_text(hash, t->list->items[i].sha256);
        if (t->list->has_masks)
            hrf_hash_text(hash, t->list->items[i].mask_sha256);
    }
    hrf_hash_hex(hash, key);
    return HRF_OK;
}

/* ---- ranks ---- */

/* True for the process that writes and prints. */
static bool is_first(const struct tuning_job *job)
{
    return job->tuning->comm == NULL || job->tuning->comm->rank == 0;
}

/* Gives every process what the first one has. */
static enum hrf_status share(const struct tuning_job *job, void *bytes, size_t n_bytes,
                             struct hrf_error *err)
{
    return job->tuning->comm != NULL ? hrf_broadcast(job->tuning->comm, bytes, n_bytes, err)
                                     : HRF_OK;
}

/* Before a step: either all processes have their pictures, or none of them waits for another. */
static enum hrf_status agree(struct tuning_job *job, enum hrf_status status,
                             const struct hrf_error *why, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    job->is_stopping = t->is_stopping != NULL && t->is_stopping(false);
    if (t->comm == NULL)
        return status == HRF_OK ? HRF_OK : hrf_error_pass(err, why);
    HRF_AUTO_FREE struct hrf_vote *vote = hrf_calloc(1, sizeof *vote);
    vote->status = status;
    vote->stops = job->is_stopping;
    snprintf(vote->text, sizeof vote->text, "%.511s", status == HRF_OK ? "" : why->text);
    HRF_TRY(hrf_agree(t->comm, vote, err));
    job->is_stopping = vote->stops;
    if (vote->stops && t->is_stopping != NULL)
        (void)t->is_stopping(true);
    return vote->status == HRF_OK ? HRF_OK : hrf_error_set(err, vote->status, "%s", vote->text);
}

/* ---- checkpoints ---- */

static const char magic[8] = "HRFTUNE2";

static enum hrf_status write_checkpoint(struct tuning_job *job, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) state = HRF_STRBUF_INIT;
    const double begin = hrf_clock_seconds();
    if (!is_first(job))
        return HRF_OK;
    snprintf(job->progress.layout, sizeof job->progress.layout, "%s", job->tuning->recipe->layout);
    append_state(job, &state);
    const struct hrf_checkpoint_part parts[] = {
        { &job->progress, sizeof job->progress },
        { job->records, (size_t)job->tuning->recipe->epochs * sizeof *job->records },
        { job->best, (size_t)job->n_weights * sizeof *job->best },
        { state.text, state.length },
    };
    HRF_TRY(hrf_checkpoint_file_write(job->checkpoint, job->tuning->attempt, magic, job->key, parts,
                                      sizeof parts / sizeof parts[0], err));
    job->kept = hrf_clock_seconds();
    job->kept_steps = hrf_trainer_steps(network_trainer(job));
    job->write_seconds = job->kept - begin;
    return HRF_OK;
}

/* Goes on where the checkpoint was written, if there is one of this training. */
static enum hrf_status read_checkpoint(struct tuning_job *job, bool *is_there,
                                       struct hrf_error *err)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const size_t n_records = (size_t)r->epochs * sizeof *job->records;
    const size_t n_best = (size_t)job->n_weights * sizeof *job->best;
    const size_t before = sizeof job->progress + n_records + n_best;
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    if (is_first(job) &&
        !hrf_checkpoint_file_read(job->checkpoint, magic, job->key, SIZE_MAX / 2, &bytes, &n))
        n = 0;
    HRF_TRY(share(job, &n, sizeof n, err));
    *is_there = n > before;
    if (!*is_there)
        return HRF_OK;
    if (!is_first(job))
        bytes = hrf_try_alloc(n);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for a checkpoint");
    HRF_TRY(share(job, bytes, n, err));
    HRF_TRY(set_state(job, bytes + before, n - before, err));
    job->kept_steps = hrf_trainer_steps(network_trainer(job));
    memcpy(&job->progress, bytes, sizeof job->progress);
    memcpy(job->records, bytes + sizeof job->progress, n_records);
    memcpy(job->best, bytes + sizeof job->progress + n_records, n_best);
    return HRF_OK;
}

/* At most every ten seconds, and for at most a twentieth of the time: a checkpoint of a large
 * network takes long. */
static enum hrf_status keep(struct tuning_job *job, struct hrf_error *err)
{
    enum { KEEP_MS = 10000, SHARE = 20 };
    const double interval = (double)hrf_clock_setting_ms("HRF_PART_MS", 0, KEEP_MS) / 1e3;
    const double since = hrf_clock_seconds() - job->kept;
    if (!is_first(job) || since < interval || (interval > 0 && since < SHARE * job->write_seconds))
        return HRF_OK;
    hrf_crash_point("train.checkpoint.before");
    HRF_TRY(write_checkpoint(job, err));
    hrf_crash_point("train.checkpoint.after");
    return HRF_OK;
}

/* ---- set-up ---- */

static bool is_trained(void *context, const char *weight)
{
    const struct hrf_text_list *names = context;
    for (size_t i = 0; i < names->n_items; i++)
        if (strcmp(names->items[i], weight) == 0)
            return true;
    return false;
}

/* The pictures of the epoch's steps from `first` on. */
static struct hrf_sample_feed_config feeding_of(const struct tuning_job *job, int64_t first)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    return (struct hrf_sample_feed_config){ .list = job->tuning->list,
                                            .form = &job->tuning->form,
                                            .order = job->order,
                                            .n = job->n_steps * r->batch,
                                            .first = first * r->batch,
                                            .batch = r->batch,
                                            .augmentation = &r->augmentation,
                                            .seed = job->seed,
                                            .epoch = job->progress.epoch + 1,
                                            .n_threads = hrf_scorer_readers(job->tuning) };
}

static enum hrf_status create_trainer(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_train_recipe *r = t->recipe;
    const struct hrf_sample_feed_config feeding = feeding_of(job, 0);
    struct hrf_trainer_config config = {
        .step = { .device = t->device,
                  .precision = r->precision == HRF_TRAIN_BF16 ? HRF_BF16 : HRF_FP32,
                  .loss = kinds[r->output].loss,
                  .uses_batch = r->batch_norm == HRF_NORM_BATCH,
                  .is_trained = r->layers > 0 || r->lora > 0 ? is_trained : NULL,
                  .context = &job->trained,
                  .n_threads = t->n_threads,
                  .layout = &r->ranks,
                  .comm = t->comm },
        .optimizer = hrf_train_recipe_optimizer(r),
    };
    const struct hrf_graph *network = job->adapted != NULL ? job->adapted : job->shaped;
    HRF_TRY(hrf_scorer_memory(t, &feeding, &config.step.memory_limit_bytes, err));
    if (!has_head(t)) {
        const enum hrf_status status = hrf_trainer_create(network, &config, &job->trainer, err);
        return hrf_scorer_explain_memory(t, &feeding, status, err);
    }
    config.step.layout = NULL;
    const struct hrf_slide_trainer_config pair = { .encoder = config,
                                                   .head = hrf_slide_head_form(r),
                                                   .seed = (uint64_t)job->seed,
                                                   .head_rate = r->head_rate,
                                                   .skipped = r->skip_seeds };
    const enum hrf_status status = hrf_slide_trainer_create(network, &pair, &job->pair, err);
    HRF_TRY(hrf_scorer_explain_memory(t, &feeding, status, err));
    return hrf_slide_trainer_head(job->pair, &job->head, err);
}

static enum hrf_status make_trainer(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    HRF_TRY(with_classes(t, job->seed, &job->base, err));
    HRF_TRY(hrf_fine_tuning_shape(t, job->base, &job->shaped, err));
    if (t->recipe->lora > 0) {
        HRF_TRY(hrf_graph_copy(job->shaped, &job->adapted, err));
        HRF_TRY(hrf_lora_add(job->adapted, t->recipe->lora, t->recipe->layers, job->seed,
                             &job->trained, err));
        HRF_TRY(hrf_graph_infer_shapes(job->adapted, err));
    } else {
        HRF_TRY(hrf_last_layers_list(job->shaped, t->recipe->layers, &job->trained, err));
    }
    HRF_TRY(create_trainer(job, err));
    const struct hrf_train_step *step = hrf_trainer_next(network_trainer(job));
    if (is_first(job) && hrf_train_step_text(step)[0] != '\0')
        fprintf(stderr, "fold %lld seed %lld: each step %s\n", (long long)job->fold,
                (long long)job->seed, hrf_train_step_text(step));
    return HRF_OK;
}

static enum hrf_status score_part(struct tuning_job *job, const struct hrf_graph *network,
                                  enum hrf_training_part part, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    return has_head(t)
               ? hrf_slide_bags_score(t, network, job->head, job->parts, part, job->scores, err)
               : hrf_scorer_run(t, network, job->parts, part, job->scores, err);
}

/* Within a limit the memory is the trainer's or the scorer's, one after the other. */
static enum hrf_status score(struct tuning_job *job, const struct hrf_graph *network,
                             enum hrf_training_part part, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) state = HRF_STRBUF_INIT;
    const bool is_limited = job->tuning->recipe->memory > 0 &&
                            hrf_predictions_count(&job->set, job->parts, part) > 0;
    if (is_limited) {
        append_state(job, &state);
        destroy_trainer(job);
    }
    HRF_TRY(score_part(job, network, part, err));
    if (!is_limited)
        return HRF_OK;
    HRF_TRY(create_trainer(job, err));
    return set_state(job, state.text, state.length, err);
}

/* Numbers are trained in deviations from their mean over the pictures for training, so that the
 * learning rate need not know their unit; a fresh last layer is scaled back at the end. */
static void find_units(struct tuning_job *job)
{
    const struct hrf_training_set *set = &job->set;
    const size_t n_classes = set->n_classes;
    if (set->kind != HRF_LABEL_NUMBERS || !job->tuning->is_renewed)
        return;
    const bool has_bias = hrf_last_layer_has_bias(job->base);
    const double n = (double)hrf_predictions_count(set, job->parts, HRF_PART_TRAINING);
    job->units = hrf_calloc(n_classes, sizeof *job->units);
    job->offsets = hrf_calloc(n_classes, sizeof *job->offsets);
    for (size_t k = 0; k < n_classes; k++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < set->n_items && has_bias; i++)
            sum += job->parts[i] == HRF_PART_TRAINING ? (double)set->truths[i * n_classes + k] : 0;
        const double mean = sum / n;
        for (size_t i = 0; i < set->n_items; i++) {
            const double off = (double)set->truths[i * n_classes + k] - mean;
            squares += job->parts[i] == HRF_PART_TRAINING ? off * off : 0;
        }
        job->offsets[k] = mean;
        job->units[k] = squares > 0 ? sqrt(squares / n) : 1;
    }
    job->set.units = job->units;
}

/* The network as it is trained now, with the layers of the file. */
static enum hrf_status trained_network(const struct tuning_job *job, struct hrf_graph **out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) network = NULL;
    if (job->tuning->recipe->lora == 0)
        return hrf_trainer_network(network_trainer(job), out, err);
    HRF_TRY(hrf_trainer_network(network_trainer(job), &network, err));
    return hrf_lora_merge(job->shaped, network, out, err);
}

/* The network that is scored and written: numbers in their own unit. */
static enum hrf_status finish_network(const struct tuning_job *job, const struct hrf_graph *trained,
                                      struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(trained, &copy, err));
    if (job->units != NULL)
        HRF_TRY(hrf_last_layer_scale(copy, job->units, job->offsets, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

/* What probes need, too. */
static enum hrf_status split(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_training_set *set = &job->set;
    job->set = t->list->set;
    job->parts = hrf_alloc_array(set->n_items + 1, sizeof *job->parts);
    job->scores = hrf_calloc((set->n_items + 1) *
                                 hrf_label_n_scores(set->kind, t->recipe->classes.n_items),
                             sizeof *job->scores);
    HRF_TRY(hrf_fine_tuning_key(t, job->fold, job->seed, job->key, err));
    return hrf_training_set_split(set, job->fold, job->parts, err);
}

static enum hrf_status set_up(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const struct hrf_training_set *set = &job->set;
    job->records = hrf_calloc((size_t)r->epochs, sizeof *job->records);
    job->checkpoint = hrf_path_join(job->folder, "checkpoint.bin");
    job->progress.best_loss = INFINITY;
    HRF_TRY(split(job, err));
    const int64_t n = r->epoch_samples > 0
                          ? r->epoch_samples
                          : hrf_predictions_count(set, job->parts, HRF_PART_TRAINING);
    job->step_items = has_head(job->tuning) ? 1 : r->batch;
    job->n_steps = n / job->step_items > 0 ? n / job->step_items : 1;
    job->order = hrf_alloc_array((size_t)(job->n_steps * job->step_items), sizeof *job->order);
    if (job->tuning->list->has_masks) {
        const size_t side = (size_t)job->tuning->form.side;
        job->masks = hrf_alloc_array((size_t)r->batch, side * side);
    }
    HRF_TRY(make_trainer(job, err));
    job->n_trained = hrf_train_step_n_weights(hrf_trainer_next(network_trainer(job))) +
                     (job->head != NULL ? job->head->n_parameters : 0);
    find_units(job);
    job->n_weights = hrf_weights_count(job->base) + (job->head != NULL ? job->head->n_values : 0);
    job->best = hrf_try_calloc((size_t)job->n_weights + 1, sizeof *job->best);
    HRF_CHECK_MEMORY(job->best != NULL, err, "no memory for the weights");
    return HRF_OK;
}

/* ---- epochs ---- */

static double rate_of(const struct tuning_job *job, int64_t step)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const double by_batch = (double)r->batch / 256;
    const bool is_sgd = r->optimizer == HRF_OPTIMIZER_SGD;
    const double most = r->learning_rate > 0    ? r->learning_rate
                        : has_head(job->tuning) ? (is_sgd ? 0.001 : 0.00002)
                        : is_sgd                ? 0.1 * by_batch
                                                : 0.0005 * sqrt(by_batch);
    const double all = (double)(r->epochs * job->n_steps);
    const double warm = r->warmup_epochs * (double)job->n_steps, at = (double)step;
    if (at < warm)
        return most * (at + 1) / warm < most ? most * (at + 1) / warm : most;
    return most * 0.5 * (1 + cos(3.14159265358979323846 * (at - warm) / (all - warm)));
}

/* The share of each class in what a pixel of the output covers. */
static void fill_pixel_targets(struct tuning_job *job)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    struct hrf_train_step *step = hrf_trainer_next(job->trainer);
    const struct hrf_shape *shape = hrf_train_step_target_shape(step);
    const int64_t side = job->tuning->form.side, n = shape->dims[1], out_side = shape->dims[2];
    const int64_t width = side / out_side; /* of what it covers */
    const double share = r->label_smoothing / (double)n, kept = 1 - r->label_smoothing;
    float *targets = hrf_train_step_targets(step);
    for (int64_t i = 0; i < r->batch; i++)
        for (int64_t y = 0; y < out_side; y++)
            for (int64_t x = 0; x < out_side; x++, targets += n) {
                double known = 0, counts[HRF_NO_CLASS] = { 0 };
                for (int64_t p = 0; p < width * width; p++) {
                    const unsigned char class =
                        job->masks[(i * side + y * width + p / width) * side + x * width +
                                   p % width];
                    if (class == HRF_NO_CLASS)
                        continue;
                    counts[class]++;
                    known++;
                }
                for (int64_t k = 0; k < n; k++)
                    targets[k] = (float)((known * share + counts[k] * kept) /
                                         (double)(width * width));
            }
}

static void fill_targets(struct tuning_job *job, int64_t first)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const size_t n_classes = r->classes.n_items;
    float *targets = hrf_train_step_targets(hrf_trainer_next(job->trainer));
    const double smoothing = r->label_smoothing;
    const double share = r->output == HRF_LABEL_CLASS ? smoothing / (double)n_classes
                                                      : smoothing / 2; /* of yes and no */
    for (int64_t i = 0; i < r->batch; i++, targets += n_classes) {
        hrf_training_set_truth(&job->set, (size_t)job->order[first + i], n_classes, targets);
        for (size_t k = 0; k < n_classes; k++) {
            const double truth = (double)targets[k];
            if (r->output != HRF_LABEL_NUMBERS)
                targets[k] = (float)(share + truth * (1 - smoothing));
            else if (job->units != NULL)
                targets[k] = (float)((truth - job->offsets[k]) / job->units[k]);
        }
    }
}

/* A line that is replaced, on a terminal alone. */
static void show_progress(struct tuning_job *job)
{
    const double now = hrf_clock_seconds();
    if (!is_first(job) || !isatty(STDERR_FILENO) || now - job->shown < 0.5)
        return;
    job->shown = now;
    fprintf(stderr, "\rfold %lld seed %lld epoch %lld: %lld of %lld %s, loss %.4f ",
            (long long)job->fold, (long long)job->seed, (long long)job->progress.epoch + 1,
            (long long)(job->progress.step * job->step_items),
            (long long)(job->n_steps * job->step_items), job->set.nouns,
            job->progress.loss_sum / (double)job->progress.step);
}

/* Tells how far it is, and ends the training if that is asked for. */
static enum hrf_status answer(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct progress *p = &job->progress;
    if (t->report != NULL && is_first(job))
        t->report(t->context, p->epoch * job->n_steps + p->step, t->recipe->epochs * job->n_steps);
    if (!job->is_stopping)
        return HRF_OK;
    HRF_TRY(write_checkpoint(job, err));
    return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal; epoch %lld, step %lld kept",
                         (long long)p->epoch + 1, (long long)p->step);
}

/* The batch once more, by the weights of now. The trainer's memory is the session's then. */
static enum hrf_status look_at_step(struct tuning_job *job, struct hrf_strbuf *details,
                                    struct hrf_strbuf *brief, struct hrf_error *err)
{
    struct hrf_sample_feed_config feeding = feeding_of(job, job->progress.step);
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(hrf_trainer_present_network(job->trainer, &network, err));
    hrf_trainer_destroy(job->trainer);
    job->trainer = NULL;
    feeding.n = feeding.first + feeding.batch;
    return hrf_not_finite_explain(job->tuning, network, &feeding,
                                  job->tuning->recipe->batch_norm == HRF_NORM_BATCH, details, brief,
                                  err);
}

/* Ends the training after a step whose numbers were not finite, on every process. */
static enum hrf_status end_not_finite(struct tuning_job *job, const struct hrf_error *why,
                                      struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) details = HRF_STRBUF_INIT, brief = HRF_STRBUF_INIT;
    struct hrf_error unseen = { .status = HRF_OK };
    char text[sizeof unseen.text] = "";
    if (is_first(job)) {
        if (look_at_step(job, &details, &brief, &unseen) != HRF_OK)
            hrf_strbuf_addf(&brief, "; its layers could not be looked at: %s", unseen.text);
        fprintf(stderr, "%sfold %lld seed %lld epoch %lld: %s\n%s",
                isatty(STDERR_FILENO) ? "\r\033[K" : "", (long long)job->fold, (long long)job->seed,
                (long long)job->progress.epoch + 1, why->text, details.text);
        snprintf(text, sizeof text, "epoch %lld, %.200s (the checkpoint after step %lld stays)%s",
                 (long long)job->progress.epoch + 1, why->text, (long long)job->kept_steps,
                 brief.text);
    }
    HRF_TRY(share(job, text, sizeof text, err));
    return hrf_error_set(err, HRF_E_USER, "%s", text);
}

struct pace {
    double seconds, waited;
    int64_t n;         /* pictures */
    int64_t n_counted; /* of those, of slides: that the network's gradients are of */
};

/* The step after that of `feed`. */
static enum hrf_status step_of_pictures(struct tuning_job *job, struct hrf_sample_feed *feed,
                                        double rate, double *loss, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_sample_feed_next(
        feed, hrf_train_step_images(hrf_trainer_next(job->trainer)), job->masks, &why);
    HRF_TRY(agree(job, status, &why, err));
    if (job->masks != NULL)
        fill_pixel_targets(job);
    else
        fill_targets(job, job->progress.step * job->tuning->recipe->batch);
    status = hrf_trainer_step(job->trainer, rate, loss, &why);
    if (status == HRF_E_USER)
        return end_not_finite(job, &why, err);
    return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
}

static enum hrf_status step_of_slide(struct tuning_job *job, double rate, double *loss,
                                     struct pace *pace, struct hrf_error *err)
{
    const struct progress *p = &job->progress;
    HRF_AUTO_RELEASE(hrf_step_bag) bag = { .order = NULL };
    HRF_TRY(agree(job, HRF_OK, NULL, err));
    hrf_step_bag_init(&bag, job->tuning, job->order[p->step], job->seed,
                      p->epoch * job->n_steps + p->step + 1);
    const enum hrf_status status = hrf_slide_trainer_step(job->pair, &bag.bag, rate, loss, err);
    pace->n += bag.bag.n;
    pace->n_counted += hrf_slide_trainer_counted(job->pair);
    pace->waited += bag.waited;
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "epoch %lld, slide '%s'", (long long)p->epoch + 1,
                              job->set.items[job->order[p->step]].name);
    return HRF_OK;
}

/* Reads the pictures of the epoch's steps that are to be taken. */
static enum hrf_status create_feed(struct tuning_job *job, struct hrf_sample_feed **out,
                                   struct hrf_error *err)
{
    const int64_t batch = job->tuning->recipe->batch;
    struct hrf_sample_feed_config feeding = feeding_of(job, job->progress.step);
    int64_t own = 0, n_own = 0;
    hrf_train_step_own_images(hrf_trainer_next(job->trainer), &own, &n_own);
    feeding.own_first = n_own > 0 ? own : batch;
    feeding.own_end = n_own > 0 ? own + n_own : batch;
    return hrf_sample_feed_create(&feeding, out, err);
}

static enum hrf_status train_epoch(struct tuning_job *job, struct pace *pace, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_train_recipe *r = t->recipe;
    struct progress *p = &job->progress;
    const int64_t epoch = p->epoch + 1, n = job->n_steps * job->step_items, first = p->step;
    HRF_AUTO(hrf_sample_feed) feed = NULL;
    hrf_sampler_draw(&t->list->set, job->parts, r->classes.n_items, r->sampling, job->seed, epoch,
                     n, job->order);
    const double begin = hrf_clock_seconds();
    if (first < job->n_steps && !has_head(t))
        HRF_TRY(create_feed(job, &feed, err));
    while (p->step < job->n_steps) {
        const double rate = rate_of(job, p->epoch * job->n_steps + p->step);
        double loss = 0;
        HRF_TRY(has_head(t) ? step_of_slide(job, rate, &loss, pace, err)
                            : step_of_pictures(job, feed, rate, &loss, err));
        p->loss_sum += loss;
        p->step++;
        show_progress(job);
        hrf_crash_point("train.step");
        HRF_TRY(keep(job, err));
        HRF_TRY(answer(job, err));
    }
    pace->seconds = hrf_clock_seconds() - begin;
    if (feed != NULL) {
        pace->waited = hrf_sample_feed_waited(feed);
        pace->n = n - first * r->batch;
    }
    return HRF_OK;
}

static void print_epoch(const struct tuning_job *job, const struct hrf_training_epoch *record,
                        const struct pace *pace)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    hrf_training_epoch_print(job->fold, job->seed, job->progress.epoch, record,
                             kinds[job->set.kind].figure);
    if (pace->n > 0 && pace->seconds > 0)
        fprintf(stderr, "; %.3g %s/s, %.0f %% of it waiting for them",
                (double)pace->n / pace->seconds, has_head(job->tuning) ? "patches" : "pictures",
                100 * pace->waited / pace->seconds);
    if (job->tuning->recipe->skip_seeds > 0 && pace->n > 0)
        fprintf(stderr, "; %.0f %% of them skipped",
                100 * (double)(pace->n - pace->n_counted) / (double)pace->n);
    fputc('\n', stderr);
}

/* The head's weights in those that are kept. */
static float *head_of_best(struct tuning_job *job)
{
    return job->best + (job->n_weights - job->head->n_values);
}

static enum hrf_status run_epoch(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    struct progress *p = &job->progress;
    struct hrf_training_epoch *record = &job->records[p->epoch];
    struct pace pace = { 0, 0, 0, 0 };
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO(hrf_graph) finished = NULL;
    HRF_TRY(train_epoch(job, &pace, err));
    HRF_TRY(trained_network(job, &network, err));
    HRF_TRY(finish_network(job, network, &finished, err));
    if (job->pair != NULL)
        HRF_TRY(hrf_slide_trainer_head(job->pair, &job->head, err));
    const enum hrf_status status = score(job, finished, HRF_PART_VALIDATION, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "after epoch %lld", (long long)p->epoch + 1);
    record->training_loss = p->loss_sum / (double)job->n_steps;
    record->validation_loss = hrf_predictions_loss(&job->set, job->parts, HRF_PART_VALIDATION,
                                                   t->recipe->classes.n_items, job->scores);
    const struct hrf_scored_figures figures = hrf_predictions_figures(
        &job->set, job->parts, HRF_PART_VALIDATION, &t->recipe->classes, job->scores);
    record->validation_figure = hrf_figure_value(hrf_scored_rows[job->set.kind], &figures);
    record->learning_rate = rate_of(job, (p->epoch + 1) * job->n_steps - 1);
    HRF_TRY(share(job, record, sizeof *record, err)); /* processors may differ in the last bit */
    p->epoch++;
    p->step = 0;
    p->loss_sum = 0;
    if (!(record->validation_loss >= p->best_loss)) { /* also without validation: NaN */
        p->best_loss = isnan(record->validation_loss) ? INFINITY : record->validation_loss;
        p->best_epoch = p->epoch;
        HRF_TRY(hrf_weights_get(job->base, network, job->best, err));
        if (job->head != NULL)
            memcpy(head_of_best(job), job->head->values,
                   (size_t)job->head->n_values * sizeof *job->best);
    }
    if (!is_first(job))
        return HRF_OK;
    print_epoch(job, record, &pace);
    return hrf_history_write(job->folder, t->attempt, hrf_epoch_of_pictures_rows[job->set.kind],
                             job->records, sizeof job->records[0], p->epoch, err);
}

static bool is_over(const struct tuning_job *job)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const struct progress *p = &job->progress;
    return p->epoch >= r->epochs ||
           (p->epoch >= r->min_epochs && p->epoch - p->best_epoch >= r->patience);
}

/* ---- the whole of it ---- */

/* `network` NULL: nothing that a run could take. */
static enum hrf_status leave(const struct tuning_job *job, const struct hrf_graph *network,
                             struct hrf_error *err)
{
    const struct hrf_training_result result = { .fold = job->fold,
                                                .seed = job->seed,
                                                .key = job->key,
                                                .network = network,
                                                .head = job->head,
                                                .set = &job->set,
                                                .parts = job->parts,
                                                .scores = job->scores,
                                                .records = job->records,
                                                .n_epochs = job->progress.epoch,
                                                .best_epoch = job->progress.best_epoch,
                                                .n_trained = job->n_trained };
    return hrf_training_result_write(&result, job->tuning, job->folder, err);
}

static enum hrf_status finish(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    HRF_AUTO(hrf_graph) trained = NULL;
    HRF_AUTO(hrf_graph) best = NULL;
    HRF_AUTO(hrf_graph) shaped = NULL;
    HRF_TRY(hrf_weights_set(job->base, job->best, &trained, err));
    if (job->head != NULL)
        memcpy(job->head->values, head_of_best(job),
               (size_t)job->head->n_values * sizeof *job->best);
    HRF_TRY(finish_network(job, trained, &best, err));
    HRF_TRY(hrf_fine_tuning_shape(t, best, &shaped, err));
    if (t->recipe->memory > 0) { /* which is the scorer's now */
        destroy_trainer(job);
    }
    HRF_TRY(score_part(job, shaped, HRF_PART_VALIDATION, err));
    HRF_TRY(score_part(job, shaped, HRF_PART_TESTING, err));
    return is_first(job) ? leave(job, best, err) : HRF_OK;
}

/* The embeddings' own training, which takes no steps of the network. */
static enum hrf_status probe(struct tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    HRF_AUTO_FREE double *weights = NULL;
    HRF_TRY(split(job, err));
    hrf_training_remove_leftovers(job->folder);
    if (t->recipe->method == HRF_METHOD_KNN) {
        HRF_TRY(hrf_probe_neighbours(t, job->parts, job->scores, err));
        return leave(job, NULL, err);
    }
    HRF_TRY(hrf_probe_linear(t, job->parts, &weights, &job->progress.epoch, job->scores, err));
    job->n_trained = 2;
    job->progress.best_epoch = job->progress.epoch;
    HRF_TRY(with_classes(t, job->seed, &job->base, err));
    HRF_TRY(hrf_last_layer_set(job->base, weights, err));
    return leave(job, job->base, err);
}

/* Sums are made in another order on other ranks. */
static void tell_layout(const struct tuning_job *job)
{
    const char *before = job->progress.layout, *now = job->tuning->recipe->layout;
    if (strcmp(before, now) != 0 && job->progress.epoch + job->progress.step > 0)
        fprintf(stderr,
                "fold %lld seed %lld: began with the layout %s and goes on with %s: the same "
                "within rounding, not to the last bit\n",
                (long long)job->fold, (long long)job->seed, before, now);
}

static enum hrf_status train(struct tuning_job *job, struct hrf_error *err)
{
    bool is_there = false;
    HRF_TRY(set_up(job, err));
    HRF_TRY(read_checkpoint(job, &is_there, err));
    if (is_there && is_first(job))
        tell_layout(job);
    if (!is_there)
        HRF_TRY(write_checkpoint(job, err)); /* the folder can be written */
    else if (is_first(job) && job->progress.epoch + job->progress.step > 0)
        fprintf(stderr, "fold %lld seed %lld: goes on after epoch %lld and %lld steps\n",
                (long long)job->fold, (long long)job->seed, (long long)job->progress.epoch,
                (long long)job->progress.step);
    if (is_first(job))
        hrf_training_remove_leftovers(job->folder);
    job->kept = hrf_clock_seconds();
    hrf_crash_point("train.start");
    while (!is_over(job)) {
        HRF_TRY(run_epoch(job, err));
        hrf_crash_point("train.epoch");
        HRF_TRY(keep(job, err));
    }
    return finish(job, err);
}

enum hrf_status hrf_fine_tuning_run(const struct hrf_fine_tuning *tuning, int64_t fold,
                                    int64_t seed, const char *folder, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(tuning_job)
    job = { .tuning = tuning, .fold = fold, .seed = seed, .folder = folder };
    return (tuning->recipe->method == HRF_METHOD_FINE_TUNING ? train : probe)(&job, err);
}
