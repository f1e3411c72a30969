/* picture_steps.c - steps of batches of pictures, which train a network alone
 * (fine_tuning_private.h). */
#include "training/loop/fine_tuning_private.h"
#include "training/loop/not_finite.h"
#include "training/loop/scorer.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

struct hrf_tuning_learner {
    struct hrf_trainer *trainer;
    struct hrf_sample_feed *feed; /* of the present epoch; NULL: between epochs */
    unsigned char *masks;         /* of a batch, [batch][side][side]; NULL: none */
};

static int64_t count_items(const struct hrf_train_recipe *recipe)
{
    return recipe->batch;
}

static double usual_rate(const struct hrf_train_recipe *recipe)
{
    const double by_batch = (double)recipe->batch / 256;
    return recipe->optimizer == HRF_OPTIMIZER_SGD ? 0.1 * by_batch : 0.0005 * sqrt(by_batch);
}

static void destroy(struct hrf_tuning_learner *learner)
{
    if (learner == NULL)
        return;
    hrf_sample_feed_destroy(learner->feed);
    hrf_trainer_destroy(learner->trainer);
    hrf_free(learner->masks);
    hrf_free(learner);
}

static enum hrf_status create(struct hrf_tuning_job *job, const struct hrf_graph *network,
                              const struct hrf_trainer_config *config, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    job->learner = hrf_calloc(1, sizeof *job->learner);
    HRF_TRY(hrf_trainer_create(network, config, &job->learner->trainer, err));
    job->trainer = job->learner->trainer;
    if (t->list->has_masks) {
        const size_t side = (size_t)t->form.side;
        job->learner->masks = hrf_alloc_array((size_t)t->recipe->batch, side * side);
    }
    return HRF_OK;
}

static void append_state(const struct hrf_tuning_learner *learner, struct hrf_strbuf *out)
{
    hrf_trainer_append_state(learner->trainer, out);
}

static enum hrf_status set_state(struct hrf_tuning_learner *learner, const void *bytes,
                                 size_t n_bytes, struct hrf_error *err)
{
    return hrf_trainer_set_state(learner->trainer, bytes, n_bytes, err);
}

/* The share of each class in what a pixel of the output covers. */
static void fill_pixel_targets(struct hrf_tuning_job *job)
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
                        job->learner->masks[(i * side + y * width + p / width) * side + x * width +
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

static void fill_targets(struct hrf_tuning_job *job, int64_t first)
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

/* The batch once more, by the weights of now. The trainer's memory is the session's then. */
static enum hrf_status look_at_step(struct hrf_tuning_job *job, struct hrf_strbuf *details,
                                    struct hrf_strbuf *brief, struct hrf_error *err)
{
    struct hrf_sample_feed_config feeding = hrf_tuning_feeding(job, job->progress.step);
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(hrf_trainer_present_network(job->trainer, &network, err));
    hrf_tuning_drop_learner(job);
    feeding.n = feeding.first + feeding.batch;
    return hrf_not_finite_explain(job->tuning, network, &feeding,
                                  job->tuning->recipe->batch_norm == HRF_NORM_BATCH, details, brief,
                                  err);
}

/* Ends the training after a step whose numbers were not finite, on every process. */
static enum hrf_status end_not_finite(struct hrf_tuning_job *job, const struct hrf_error *why,
                                      struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) details = HRF_STRBUF_INIT, brief = HRF_STRBUF_INIT;
    struct hrf_error unseen = { .status = HRF_OK };
    char text[sizeof unseen.text] = "";
    if (hrf_tuning_is_first(job)) {
        if (look_at_step(job, &details, &brief, &unseen) != HRF_OK)
            hrf_strbuf_addf(&brief, "; its layers could not be looked at: %s", unseen.text);
        fprintf(stderr, "%sfold %lld seed %lld epoch %lld: %s\n%s",
                isatty(STDERR_FILENO) ? "\r\033[K" : "", (long long)job->fold, (long long)job->seed,
                (long long)job->progress.epoch + 1, why->text, details.text);
        snprintf(text, sizeof text, "epoch %lld, %.200s (the checkpoint after step %lld stays)%s",
                 (long long)job->progress.epoch + 1, why->text, (long long)job->kept_steps,
                 brief.text);
    }
    HRF_TRY(hrf_tuning_share(job, text, sizeof text, err));
    return hrf_error_set(err, HRF_E_USER, "%s", text);
}

static enum hrf_status take_step(struct hrf_tuning_job *job, double rate, double *loss,
                                 struct hrf_tuning_pace *pace, struct hrf_error *err)
{
    struct hrf_tuning_learner *l = job->learner;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_sample_feed_next(
        l->feed, hrf_train_step_images(hrf_trainer_next(job->trainer)), l->masks, &why);
    HRF_TRY(hrf_tuning_agree(job, status, &why, err));
    if (l->masks != NULL)
        fill_pixel_targets(job);
    else
        fill_targets(job, job->progress.step * job->tuning->recipe->batch);
    status = hrf_trainer_step(job->trainer, rate, loss, &why);
    if (status == HRF_E_USER)
        return end_not_finite(job, &why, err);
    pace->n += job->step_items;
    return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
}

/* Reads the pictures of the epoch's steps that are to be taken. */
static enum hrf_status begin_epoch(struct hrf_tuning_job *job, struct hrf_error *err)
{
    struct hrf_sample_feed_config feeding = hrf_tuning_feeding(job, job->progress.step);
    if (job->progress.step == job->n_steps)
        return HRF_OK;
    hrf_tuning_find_own(job, &feeding.own_first, &feeding.own_end);
    return hrf_sample_feed_create(&feeding, &job->learner->feed, err);
}

static enum hrf_status end_epoch(struct hrf_tuning_job *job, struct hrf_tuning_pace *pace,
                                 struct hrf_error *err)
{
    (void)err;
    if (job->learner->feed != NULL)
        pace->waited = hrf_sample_feed_waited(job->learner->feed);
    hrf_sample_feed_destroy(job->learner->feed);
    job->learner->feed = NULL;
    return HRF_OK;
}

static enum hrf_status score(struct hrf_tuning_job *job, const struct hrf_graph *network,
                             enum hrf_training_part part, struct hrf_error *err)
{
    return hrf_scorer_run(job->tuning, network, job->parts, part, job->scores, err);
}

const struct hrf_tuning_steps hrf_steps_of_pictures = { .nouns = "pictures",
                                                        .items = count_items,
                                                        .usual_rate = usual_rate,
                                                        .create = create,
                                                        .destroy = destroy,
                                                        .append_state = append_state,
                                                        .set_state = set_state,
                                                        .begin_epoch = begin_epoch,
                                                        .step = take_step,
                                                        .end_epoch = end_epoch,
                                                        .score = score };
