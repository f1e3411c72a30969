/* train.c - the epochs of one training, and what it leaves. */
#include "heads/train/train.h"

#include "aggregate/camelyon16/metrics.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "base/random.h"
#include "heads/bags/bag_ahead.h"
#include "heads/export/export.h"
#include "heads/train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most work that is lost if a training is killed, and an epoch. A checkpoint is on the disk
 * when it counts, which may take longer than an epoch of a small head. */
enum { KEEP_S = 10 };

struct job {
    const struct hrf_training *training;
    enum hrf_head_part *parts; /* [n_items] */
    double *class_weights;     /* [n_classes] */
    struct hrf_training_state state;
    struct hrf_tape *tape;
    struct hrf_bag_ahead ahead;
    int64_t *order; /* slides of the epoch */
    bool *is_read;  /* [n_items]: by this process, once or more */
    float *scores;  /* [n_items][n_classes] of the weights that are kept */
    char key[HRF_HASH_HEX];
    char *checkpoint;
};

static void job_release(struct job *job)
{
    hrf_bag_ahead_release(&job->ahead);
    hrf_tape_destroy(job->tape);
    hrf_head_destroy(job->state.head);
    hrf_adam_release(&job->state.adam);
    hrf_free(job->state.best);
    hrf_free(job->state.records);
    hrf_free(job->parts);
    hrf_free(job->class_weights);
    hrf_free(job->order);
    hrf_free(job->is_read);
    hrf_free(job->scores);
    hrf_free(job->checkpoint);
}

char *hrf_training_name(int64_t fold, int64_t seed)
{
    return hrf_format("fold-%lld-seed-%lld", (long long)fold, (long long)seed);
}

/* ---- what names a training ---- */

static enum hrf_status make_key(const struct hrf_training *t, char key[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    const struct hrf_recipe *r = t->recipe;
    const int64_t numbers[] = { (int64_t)r->kind, r->hidden,         r->attention,  r->landmarks,
                                r->samples,       (int64_t)r->split, r->folds,      r->split_seed,
                                r->epochs,        r->patience,       r->min_epochs, r->is_decoupled,
                                r->is_balanced,   r->shuffle,        t->fold,       t->seed,
                                t->slides->width };
    const double reals[] = { r->dropout, r->instance_weight, r->validation, r->learning_rate,
                             r->weight_decay };
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, t->version);
    hrf_hash_text(hash, r->set);
    hrf_hash_text(hash, t->slides->origin);
    hrf_hash_bytes(hash, numbers, sizeof numbers);
    hrf_hash_bytes(hash, reals, sizeof reals);
    for (int32_t k = 0; k < r->classes.n_items; k++)
        hrf_hash_text(hash, r->classes.items[k]);
    for (size_t i = 0; i < t->slides->n_items; i++) {
        const struct hrf_head_slide *s = &t->slides->items[i];
        hrf_hash_text(hash, s->name);
        hrf_hash_text(hash, s->patient);
        hrf_hash_int(hash, s->label);
        hrf_hash_int(hash, (int64_t)s->part);
        hrf_hash_text(hash, s->sha256);
    }
    hrf_hash_hex(hash, key);
    return HRF_OK;
}

/* heads/tape/loops.c is compiled for these instructions. */
enum hrf_status hrf_training_check_processor(struct hrf_error *err)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED,
            "training a slide head needs AVX2 and FMA, which this processor does not have");
#endif
    (void)err;
    return HRF_OK;
}

bool hrf_training_is_done(const struct hrf_training *training, struct hrf_training_figures *out)
{
    char key[HRF_HASH_HEX];
    const char *found = NULL;
    HRF_AUTO_JSON json = NULL;
    HRF_AUTO_FREE char *path = hrf_path_join(training->folder, "result.json");
    if (path == NULL || make_key(training, key, NULL) != HRF_OK ||
        hrf_json_read_file(path, &json, NULL) != HRF_OK ||
        hrf_json_get_text(json, "key", path, &found, NULL) != HRF_OK || strcmp(found, key) != 0)
        return false;
    *out = (struct hrf_training_figures){ .auc = NAN, .balanced_accuracy = NAN };
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = { { "training_slides", &out->n_training },
                    { "validation_slides", &out->n_validation },
                    { "testing_slides", &out->n_testing },
                    { "epochs", &out->n_epochs },
                    { "best_epoch", &out->best_epoch } };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (hrf_json_get_int(json, numbers[i].name, path, numbers[i].value, NULL) != HRF_OK)
            return false;
    if (hrf_json_get_number(json, "auc", path, &out->auc, NULL) != HRF_OK)
        out->auc = NAN;
    if (hrf_json_get_number(json, "balanced_accuracy", path, &out->balanced_accuracy, NULL) !=
        HRF_OK)
        out->balanced_accuracy = NAN;
    if (hrf_json_get_text(json, "why_no_figure", path, &found, NULL) == HRF_OK)
        snprintf(out->why, sizeof out->why, "%s", found);
    return true;
}

/* ---- set-up ---- */

/* slides / (classes * slides of the class), as scikit-learn's "balanced". */
static enum hrf_status weigh_classes(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const int32_t n_classes = t->recipe->classes.n_items;
    int64_t n = 0;
    job->class_weights = hrf_calloc((size_t)n_classes, sizeof *job->class_weights);
    HRF_CHECK_MEMORY(job->class_weights != NULL, err, "no memory for class weights");
    for (size_t i = 0; i < t->slides->n_items; i++)
        if (job->parts[i] == HRF_PART_TRAINING) {
            job->class_weights[t->slides->items[i].label]++;
            n++;
        }
    for (int32_t k = 0; k < n_classes; k++) {
        const double count = job->class_weights[k];
        job->class_weights[k] = t->recipe->is_balanced && count > 0
                                    ? (double)n / (n_classes * count)
                                    : 1.0;
    }
    return HRF_OK;
}

static enum hrf_status make_state(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_recipe *r = t->recipe;
    struct hrf_training_state *s = &job->state;
    const struct hrf_head_form form = { .kind = r->kind,
                                        .width = t->slides->width,
                                        .n_classes = r->classes.n_items,
                                        .hidden = r->hidden,
                                        .attention = r->attention,
                                        .landmarks = r->landmarks,
                                        .samples = r->samples,
                                        .dropout = r->dropout,
                                        .instance_weight = r->instance_weight };
    HRF_TRY(hrf_head_create(&form, (uint64_t)t->seed, &s->head, err));
    s->adam.learning_rate = r->learning_rate;
    s->adam.weight_decay = r->weight_decay;
    s->adam.is_decoupled = r->is_decoupled;
    HRF_TRY(hrf_adam_init(&s->adam, s->head, err));
    s->best_loss = INFINITY;
    s->most_epochs = r->epochs;
    s->best = hrf_alloc_array((size_t)s->head->n_values, sizeof *s->best);
    s->records = hrf_calloc((size_t)r->epochs, sizeof *s->records);
    HRF_CHECK_MEMORY(s->best != NULL && s->records != NULL, err, "no memory for a training");
    memcpy(s->best, s->head->values, (size_t)s->head->n_values * sizeof *s->best);
    return HRF_OK;
}

static enum hrf_status set_up(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const size_t n = t->slides->n_items;
    job->parts = hrf_alloc_array(n, sizeof *job->parts);
    job->order = hrf_alloc_array(n, sizeof *job->order);
    job->is_read = hrf_calloc(n, sizeof *job->is_read);
    job->scores = hrf_calloc(n * (size_t)t->recipe->classes.n_items, sizeof *job->scores);
    job->checkpoint = hrf_path_join(t->folder, "checkpoint.bin");
    HRF_CHECK_MEMORY(job->parts != NULL && job->order != NULL && job->is_read != NULL &&
                         job->scores != NULL && job->checkpoint != NULL,
                     err, "no memory for a training");
    HRF_TRY(make_key(t, job->key, err));
    HRF_TRY(hrf_head_slides_split(t->slides, t->recipe, t->fold, job->parts, err));
    HRF_TRY(weigh_classes(job, err));
    HRF_TRY(make_state(job, err));
    return hrf_tape_create(&job->tape, err);
}

/* ---- epochs ---- */

static uint64_t draw_seed(const struct job *job, int64_t epoch, int64_t slide)
{
    struct hrf_random random = hrf_random_init((uint64_t)job->training->seed);
    uint64_t seed = hrf_random_u64(&random);
    random = hrf_random_init(seed ^ (uint64_t)epoch);
    seed = hrf_random_u64(&random);
    random = hrf_random_init(seed ^ (uint64_t)slide);
    return hrf_random_u64(&random);
}

/* The slides of a part in order; for training, in the drawn order of the epoch. */
static size_t make_order(struct job *job, enum hrf_head_part part, int64_t epoch)
{
    size_t n = 0;
    for (size_t i = 0; i < job->training->slides->n_items; i++)
        if (job->parts[i] == part)
            job->order[n++] = (int64_t)i;
    if (part != HRF_PART_TRAINING || !job->training->recipe->shuffle)
        return n;
    struct hrf_random random = hrf_random_init(draw_seed(job, epoch, -1));
    for (size_t i = n; i > 1; i--) {
        const int64_t other = hrf_random_below(&random, (int64_t)i);
        const int64_t kept = job->order[i - 1];
        job->order[i - 1] = job->order[other];
        job->order[other] = kept;
    }
    return n;
}

/* The i-th bag of the order in place of the one before, in whose memory the next one is read. */
static enum hrf_status take_bag(struct job *job, size_t i, size_t n, struct hrf_bag **bag,
                                struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_head_slide *slides = t->slides->items;
    HRF_AUTO(hrf_bag) spare = NULL;
    HRF_MOVE(spare, *bag);
    HRF_TRY(hrf_bag_ahead_take(&job->ahead, slides[job->order[i]].path, t->recipe->set,
                               t->slides->width, bag, err));
    if (i + 1 == n)
        return HRF_OK;
    const int64_t next = job->order[i + 1];
    hrf_bag_ahead_start(&job->ahead, slides[next].path, t->recipe->set, t->slides->width,
                        job->is_read[next], spare);
    spare = NULL;
    job->is_read[next] = true;
    return HRF_OK;
}

static enum hrf_status train_slide(struct job *job, const struct hrf_bag *bag, int64_t epoch,
                                   int64_t index, double *loss, struct hrf_error *err)
{
    const struct hrf_head_slide *slide = &job->training->slides->items[index];
    struct hrf_head_result r;
    hrf_tape_clear(job->tape, draw_seed(job, epoch, index), true);
    hrf_head_forget_grads(job->state.head);
    HRF_TRY(hrf_head_run(job->state.head, job->tape,
                         hrf_tape_input(job->tape, bag->values, bag->n, bag->width), slide->label,
                         job->class_weights[slide->label], &r, err));
    HRF_TRY(hrf_tape_backward(job->tape, r.loss, err));
    *loss += (double)r.loss->data[0];
    if (!isfinite(r.loss->data[0]))
        return hrf_error_set(err, HRF_E_USER,
                             "epoch %lld: the loss of slide '%s' is %f: a lower "
                             "train.learning_rate may help",
                             (long long)epoch, slide->name, (double)r.loss->data[0]);
    hrf_adam_step(&job->state.adam, job->state.head);
    return HRF_OK;
}

static enum hrf_status train_epoch(struct job *job, int64_t epoch, double *loss,
                                   struct hrf_error *err)
{
    const size_t n = make_order(job, HRF_PART_TRAINING, epoch);
    HRF_AUTO(hrf_bag) bag = NULL;
    *loss = 0;
    for (size_t i = 0; i < n; i++) {
        HRF_TRY(take_bag(job, i, n, &bag, err));
        HRF_TRY(train_slide(job, bag, epoch, job->order[i], loss, err));
    }
    *loss /= (double)n;
    return HRF_OK;
}

/* Scores of all slides of a part, without dropout. */
static enum hrf_status score_part(struct job *job, enum hrf_head_part part, struct hrf_error *err)
{
    const size_t n = make_order(job, part, 0);
    const size_t n_classes = (size_t)job->training->recipe->classes.n_items;
    HRF_AUTO(hrf_bag) bag = NULL;
    for (size_t i = 0; i < n; i++) {
        struct hrf_head_result r;
        HRF_TRY(take_bag(job, i, n, &bag, err));
        hrf_tape_clear(job->tape, 0, false);
        HRF_TRY(hrf_head_run(job->state.head, job->tape,
                             hrf_tape_input(job->tape, bag->values, bag->n, bag->width), -1, 1, &r,
                             err));
        memcpy(job->scores + (size_t)job->order[i] * n_classes, r.scores->data,
               n_classes * sizeof *job->scores);
    }
    return HRF_OK;
}

/* The AUC of two classes, or the mean of those of each class against all others. */
static double part_auc(const struct job *job, enum hrf_head_part part, char why[160])
{
    const struct hrf_head_slides *s = job->training->slides;
    const int32_t n_classes = job->training->recipe->classes.n_items;
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(s->n_items, sizeof *items);
    struct hrf_error err = { .status = HRF_OK };
    double sum = 0;
    for (int32_t k = n_classes == 2 ? 1 : 0; k < n_classes && items != NULL; k++) {
        size_t n = 0;
        double auc = 0;
        for (size_t i = 0; i < s->n_items; i++)
            if (job->parts[i] == part)
                items[n++] = (struct hrf_labelled){
                    (double)job->scores[i * (size_t)n_classes + (size_t)k], s->items[i].label == k
                };
        if (hrf_auc(items, n, &auc, &err) != HRF_OK) {
            snprintf(why, 160, "%.159s", err.text);
            return NAN;
        }
        sum += auc;
    }
    return n_classes == 2 ? sum : sum / n_classes;
}

static double part_loss(const struct job *job, enum hrf_head_part part)
{
    const struct hrf_head_slides *s = job->training->slides;
    const size_t n_classes = (size_t)job->training->recipe->classes.n_items;
    double sum = 0, n = 0;
    for (size_t i = 0; i < s->n_items; i++)
        if (job->parts[i] == part) {
            const double p = (double)job->scores[i * n_classes + (size_t)s->items[i].label];
            sum -= log(p > 1e-30 ? p : 1e-30);
            n++;
        }
    return n > 0 ? sum / n : NAN;
}

/* The mean over the classes of the share of their slides whose highest score is the class's. */
static double part_accuracy(const struct job *job, enum hrf_head_part part)
{
    const struct hrf_head_slides *s = job->training->slides;
    const int32_t n_classes = job->training->recipe->classes.n_items;
    double sum = 0;
    int32_t n_seen = 0;
    for (int32_t k = 0; k < n_classes; k++) {
        int64_t n = 0, right = 0;
        for (size_t i = 0; i < s->n_items; i++)
            if (job->parts[i] == part && s->items[i].label == k) {
                const float *row = job->scores + i * (size_t)n_classes;
                int32_t best = 0;
                for (int32_t j = 1; j < n_classes; j++)
                    best = row[j] > row[best] ? j : best;
                right += best == k;
                n++;
            }
        if (n > 0) {
            sum += (double)right / (double)n;
            n_seen++;
        }
    }
    return n_seen > 0 ? sum / n_seen : NAN;
}

static enum hrf_status run_epoch(struct job *job, struct hrf_error *err)
{
    struct hrf_training_state *s = &job->state;
    struct hrf_epoch_record *record = &s->records[s->epoch];
    char why[160];
    HRF_TRY(train_epoch(job, s->epoch + 1, &record->training_loss, err));
    HRF_TRY(score_part(job, HRF_PART_VALIDATION, err));
    record->validation_loss = part_loss(job, HRF_PART_VALIDATION);
    record->validation_auc = part_auc(job, HRF_PART_VALIDATION, why);
    s->epoch++;
    if (!(record->validation_loss >= s->best_loss)) { /* also without validation: NaN */
        s->best_loss = isnan(record->validation_loss) ? INFINITY : record->validation_loss;
        s->best_epoch = s->epoch;
        memcpy(s->best, s->head->values, (size_t)s->head->n_values * sizeof *s->best);
    }
    fprintf(stderr, "fold %lld seed %lld epoch %lld: loss %.4f", (long long)job->training->fold,
            (long long)job->training->seed, (long long)s->epoch, record->training_loss);
    if (!isnan(record->validation_loss))
        fprintf(stderr, ", validation %.4f", record->validation_loss);
    if (!isnan(record->validation_auc))
        fprintf(stderr, " (AUC %.3f)", record->validation_auc);
    fputc('\n', stderr);
    return HRF_OK;
}

static bool is_over(const struct job *job)
{
    const struct hrf_recipe *r = job->training->recipe;
    const struct hrf_training_state *s = &job->state;
    return s->epoch >= r->epochs ||
           (s->epoch >= r->min_epochs && s->epoch - s->best_epoch >= r->patience);
}

/* ---- what it leaves ---- */

static enum hrf_status write_text(const struct job *job, const char *name,
                                  const struct hrf_strbuf *text, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(job->training->folder, name);
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    HRF_TRY(hrf_strbuf_status(text, err));
    return hrf_file_write_atomic(path, text->text, text->length, err);
}

static void add_number(struct hrf_strbuf *out, double value)
{
    if (isnan(value))
        hrf_strbuf_addc(out, ',');
    else
        hrf_strbuf_addf(out, ",%.9g", value);
}

static enum hrf_status write_history(const struct job *job, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&out, "epoch,training_loss,validation_loss,validation_auc\n");
    for (int64_t i = 0; i < job->state.epoch; i++) {
        hrf_strbuf_addf(&out, "%lld", (long long)i + 1);
        add_number(&out, job->state.records[i].training_loss);
        add_number(&out, job->state.records[i].validation_loss);
        add_number(&out, job->state.records[i].validation_auc);
        hrf_strbuf_addc(&out, '\n');
    }
    return write_text(job, "history.csv", &out, err);
}

static enum hrf_status write_predictions(const struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_recipe_list *classes = &t->recipe->classes;
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&out, "slide,patient,part,truth");
    for (int32_t k = 0; k < classes->n_items; k++) {
        HRF_AUTO_FREE char *title = hrf_format("score_%s", classes->items[k]);
        hrf_strbuf_addc(&out, ',');
        hrf_csv_add_cell(&out, title != NULL ? title : "");
    }
    hrf_strbuf_addc(&out, '\n');
    for (size_t i = 0; i < t->slides->n_items; i++) {
        const struct hrf_head_slide *slide = &t->slides->items[i];
        if (job->parts[i] == HRF_PART_TRAINING)
            continue;
        hrf_csv_add_cell(&out, slide->name);
        hrf_strbuf_addc(&out, ',');
        hrf_csv_add_cell(&out, slide->patient);
        hrf_strbuf_addf(&out, ",%s,", hrf_head_parts[job->parts[i]]);
        hrf_csv_add_cell(&out, classes->items[slide->label]);
        for (int32_t k = 0; k < classes->n_items; k++)
            add_number(&out, (double)job->scores[i * (size_t)classes->n_items + (size_t)k]);
        hrf_strbuf_addc(&out, '\n');
    }
    return write_text(job, "predictions.csv", &out, err);
}

static int64_t count_part(const struct job *job, enum hrf_head_part part)
{
    int64_t n = 0;
    for (size_t i = 0; i < job->training->slides->n_items; i++)
        n += job->parts[i] == part;
    return n;
}

static enum hrf_status write_result(const struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    char why[160] = "";
    const int64_t n_testing = count_part(job, HRF_PART_TESTING);
    const double auc = n_testing > 0 ? part_auc(job, HRF_PART_TESTING, why) : NAN;
    HRF_AUTO_FREE char *path = hrf_path_join(t->folder, "result.json");
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    if (n_testing == 0)
        snprintf(why, sizeof why, "no slides for testing");
    HRF_AUTO_JSON json = json_pack(
        "{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:s}", "version", 1,
        "key", job->key, "head", hrf_head_words[t->recipe->kind], "fold", (json_int_t)t->fold,
        "seed", (json_int_t)t->seed, "training_slides",
        (json_int_t)count_part(job, HRF_PART_TRAINING), "validation_slides",
        (json_int_t)count_part(job, HRF_PART_VALIDATION), "testing_slides", (json_int_t)n_testing,
        "epochs", (json_int_t)job->state.epoch, "best_epoch", (json_int_t)job->state.best_epoch,
        "auc", hrf_json_number(auc), "balanced_accuracy",
        hrf_json_number(part_accuracy(job, HRF_PART_TESTING)), "why_no_figure", why, "features",
        t->slides->origin);
    HRF_CHECK_MEMORY(json != NULL, err, "no memory for '%s'", path);
    return hrf_json_write_file(path, json, err);
}

/* What stays with the head: who it is, and what it has seen. */
static enum hrf_status write_head(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    HRF_AUTO_FREE char *path = hrf_path_join(t->folder, "head.onnx");
    HRF_AUTO_FREE const char **seen = hrf_calloc(t->slides->n_items + 1, sizeof *seen);
    HRF_CHECK_MEMORY(path != NULL && seen != NULL, err, "no memory for a head");
    size_t n = 0;
    for (size_t i = 0; i < t->slides->n_items; i++)
        if (job->parts[i] != HRF_PART_TESTING)
            seen[n++] = t->slides->items[i].name;
    const struct hrf_head_labels labels = { .classes = t->recipe->classes.items,
                                            .n_classes = t->recipe->classes.n_items,
                                            .origin = t->slides->origin,
                                            .seen = seen,
                                            .n_seen = n };
    return hrf_head_export(job->state.head, &labels, path, err);
}

static enum hrf_status finish(struct job *job, struct hrf_error *err)
{
    memcpy(job->state.head->values, job->state.best,
           (size_t)job->state.head->n_values * sizeof *job->state.best);
    HRF_TRY(score_part(job, HRF_PART_VALIDATION, err));
    HRF_TRY(score_part(job, HRF_PART_TESTING, err));
    HRF_TRY(write_history(job, err));
    HRF_TRY(write_predictions(job, err));
    hrf_crash_point("head.write.before");
    HRF_TRY(write_head(job, err));
    hrf_crash_point("head.result.before");
    HRF_TRY(write_result(job, err));
    hrf_crash_point("head.result.after");
    unlink(job->checkpoint);
    return HRF_OK;
}

static enum hrf_status train(struct job *job, struct hrf_error *err)
{
    HRF_TRY(set_up(job, err));
    if (!hrf_checkpoint_read(&job->state, job->key, job->checkpoint))
        HRF_TRY(hrf_checkpoint_write(&job->state, job->key, job->checkpoint, err));
    else if (job->state.epoch > 0)
        fprintf(stderr, "fold %lld seed %lld: goes on after epoch %lld\n",
                (long long)job->training->fold, (long long)job->training->seed,
                (long long)job->state.epoch);
    hrf_crash_point("head.start");
    const char *asked = getenv("HRF_PART_MS");
    const double interval = asked != NULL ? strtod(asked, NULL) / 1e3 : KEEP_S;
    double kept = hrf_clock_seconds();
    while (!is_over(job)) {
        HRF_TRY(run_epoch(job, err));
        const bool stops = job->training->is_stopping != NULL && job->training->is_stopping() &&
                           !is_over(job);
        hrf_crash_point("head.epoch.before");
        if (stops || hrf_clock_seconds() - kept >= interval) {
            HRF_TRY(hrf_checkpoint_write(&job->state, job->key, job->checkpoint, err));
            kept = hrf_clock_seconds();
        }
        hrf_crash_point("head.epoch.after");
        if (stops)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
    }
    return finish(job, err);
}

enum hrf_status hrf_training_run(const struct hrf_training *training, struct hrf_error *err)
{
    struct job job = { .training = training };
    const enum hrf_status status = train(&job, err);
    job_release(&job);
    return status;
}
