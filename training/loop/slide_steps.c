/* slide_steps.c - steps of slides, which train a network of patches and a slide head together
 * (fine_tuning_private.h). */
#include "training/loop/fine_tuning_private.h"
#include "training/loop/slide_bags.h"

struct hrf_tuning_learner {
    struct hrf_slide_trainer *pair;
};

static int64_t count_items(const struct hrf_train_recipe *recipe)
{
    (void)recipe;
    return 1;
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

static enum hrf_status create(struct hrf_tuning_job *job, const struct hrf_graph *network,
                              const struct hrf_trainer_config *config, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    struct hrf_slide_trainer_config pair = { .encoder = *config,
                                             .head = hrf_slide_head_form(r),
                                             .seed = (uint64_t)job->seed,
                                             .head_rate = r->head_rate,
                                             .skipped = r->skip_seeds };
    pair.encoder.step.layout = NULL;
    job->learner = hrf_calloc(1, sizeof *job->learner);
    HRF_TRY(hrf_slide_trainer_create(network, &pair, &job->learner->pair, err));
    job->trainer = hrf_slide_trainer_encoder(job->learner->pair);
    return hrf_slide_trainer_head(job->learner->pair, &job->head, err);
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

static enum hrf_status take_step(struct hrf_tuning_job *job, double rate, double *loss,
                                 struct hrf_tuning_pace *pace, struct hrf_error *err)
{
    const struct hrf_tuning_progress *p = &job->progress;
    HRF_AUTO_RELEASE(hrf_step_bag) bag = { .order = NULL };
    HRF_TRY(hrf_tuning_agree(job, HRF_OK, NULL, err));
    hrf_step_bag_init(&bag, job->tuning, job->order[p->step], job->seed,
                      p->epoch * job->n_steps + p->step + 1);
    const enum hrf_status status = hrf_slide_trainer_step(job->learner->pair, &bag.bag, rate, loss,
                                                          err);
    pace->n += bag.bag.n;
    pace->n_counted += hrf_slide_trainer_counted(job->learner->pair);
    pace->waited += bag.waited;
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "epoch %lld, slide '%s'", (long long)p->epoch + 1,
                              job->set.items[job->order[p->step]].name);
    return HRF_OK;
}

/* The head that is scored has the weights of now. */
static enum hrf_status end_epoch(struct hrf_tuning_job *job, struct hrf_tuning_pace *pace,
                                 struct hrf_error *err)
{
    (void)pace;
    return hrf_slide_trainer_head(job->learner->pair, &job->head, err);
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
