/* slide_steps.c - steps of slides, which train a network of patches and a slide head together
 * (fine_tuning_private.h). */
#include "training/loop/fine_tuning_private.h"

#include "base/min_max.h"
#include "training/loop/slide_bags.h"

#include <string.h>

struct hrf_tuning_learner {
    struct hrf_slide_trainer *pair;
};

static int64_t count_items(const struct hrf_train_recipe *recipe)
{
    return recipe->batch;
}

static double usual_rate(const struct hrf_train_recipe *recipe)
{
    return recipe->optimizer == HRF_OPTIMIZER_SGD ? 0.001 : 0.00002;
}

static void destroy(struct hrf_tuning_learner *learner)
{
    if (learner == NULL)
        return;
    hrf_slide_trainer_destroy(learner->pair);
    hrf_free(learner);
}

/* The head's weights of now, or their average, which outlive the pair. */
static enum hrf_status copy_head(struct hrf_tuning_job *job, struct hrf_error *err)
{
    struct hrf_head *head = NULL;
    HRF_TRY(hrf_slide_trainer_head(job->learner->pair, &head, err));
    if (job->head == NULL)
        HRF_TRY(hrf_head_create(&head->form, 0, &job->head, err));
    memcpy(job->head->values, head->values, (size_t)head->n_values * sizeof *head->values);
    return HRF_OK;
}

/* The most patches of a slide in a step. */
static int64_t largest_bag(const struct hrf_tuning_job *job)
{
    int64_t most = 1;
    for (size_t i = 0; i < job->set.n_items; i++)
        if (job->parts[i] == HRF_PART_TRAINING)
            most = hrf_max(most, hrf_step_bag_patches(job->tuning, i));
    return most;
}

static enum hrf_status create(struct hrf_tuning_job *job, const struct hrf_graph *network,
                              const struct hrf_trainer_config *config, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const struct hrf_slide_trainer_config pair = { .encoder = *config,
                                                   .head = hrf_slide_head_form(r),
                                                   .seed = (uint64_t)job->seed,
                                                   .most = largest_bag(job),
                                                   .head_rate = r->head_rate,
                                                   .skipped = r->skip_gradients };
    job->learner = hrf_calloc(1, sizeof *job->learner);
    HRF_TRY(hrf_slide_trainer_create(network, &pair, &job->learner->pair, err));
    job->trainer = hrf_slide_trainer_encoder(job->learner->pair);
    return job->head == NULL ? copy_head(job, err) : HRF_OK;
}

static void append_state(const struct hrf_tuning_learner *learner, struct hrf_strbuf *out)
{
    hrf_slide_trainer_append_state(learner->pair, out);
}

static enum hrf_status set_state(struct hrf_tuning_learner *learner, const void *bytes,
                                 size_t n_bytes, struct hrf_error *err)
{
    return hrf_slide_trainer_set_state(learner->pair, bytes, n_bytes, err);
}

/* Slide i of the step. */
static enum hrf_status add_slide(struct hrf_tuning_job *job, int64_t i,
                                 struct hrf_tuning_pace *pace, struct hrf_error *err)
{
    const struct hrf_tuning_progress *p = &job->progress;
    const int64_t place = p->step * job->step_items + i; /* in the epoch */
    HRF_AUTO_RELEASE(hrf_step_bag) bag = { .order = NULL };
    int64_t own_first, own_end;
    hrf_tuning_find_own(job, &own_first, &own_end);
    hrf_step_bag_init(&bag, job->tuning, job->order[place], job->seed,
                      p->epoch * job->n_steps * job->step_items + place + 1, own_first, own_end);
    const enum hrf_status status = hrf_slide_trainer_add(job->learner->pair, &bag.bag,
                                                         1 / (double)job->step_items, err);
    pace->n += bag.bag.n;
    pace->waited += bag.waited;
    return status == HRF_OK
               ? HRF_OK
               : hrf_error_wrap(err, status, "epoch %lld, slide '%s'", (long long)p->epoch + 1,
                                job->set.items[job->order[place]].name);
}

static enum hrf_status take_step(struct hrf_tuning_job *job, double rate, double *loss,
                                 struct hrf_tuning_pace *pace, struct hrf_error *err)
{
    const struct hrf_tuning_progress *p = &job->progress;
    const int64_t *slides = job->order + p->step * job->step_items;
    struct hrf_slide_trainer *pair = job->learner->pair;
    HRF_TRY(hrf_tuning_agree(job, HRF_OK, NULL, err));
    hrf_slide_trainer_begin(pair);
    for (int64_t i = 0; i < job->step_items; i++)
        HRF_TRY(add_slide(job, i, pace, err));
    pace->n_counted += hrf_slide_trainer_counted(pair);
    *loss = hrf_slide_trainer_loss(pair);
    const enum hrf_status status = hrf_slide_trainer_update(pair, rate, err);
    if (status == HRF_OK)
        return HRF_OK;
    HRF_AUTO_RELEASE(hrf_strbuf) names = HRF_STRBUF_INIT;
    for (int64_t i = 0; i < job->step_items && names.length < 200; i++)
        hrf_strbuf_addf(&names, "%s'%s'", i > 0 ? ", " : "", job->set.items[slides[i]].name);
    return hrf_error_wrap(err, status, "epoch %lld, slide%s %.240s", (long long)p->epoch + 1,
                          job->step_items > 1 ? "s" : "", names.text);
}

/* The head that is scored has the weights of now. */
static enum hrf_status end_epoch(struct hrf_tuning_job *job, struct hrf_tuning_pace *pace,
                                 struct hrf_error *err)
{
    (void)pace;
    return copy_head(job, err);
}

static enum hrf_status score(struct hrf_tuning_job *job, const struct hrf_graph *network,
                             enum hrf_training_part part, struct hrf_error *err)
{
    return hrf_slide_bags_score(job->tuning, network, job->head, job->parts, part, job->scores,
                                err);
}

const struct hrf_tuning_steps hrf_steps_of_slides = { .nouns = "patches",
                                                      .items = count_items,
                                                      .usual_rate = usual_rate,
                                                      .create = create,
                                                      .destroy = destroy,
                                                      .append_state = append_state,
                                                      .set_state = set_state,
                                                      .step = take_step,
                                                      .end_epoch = end_epoch,
                                                      .score = score };
