/* fine_tuning_private.h - one training of a network while it runs, and what its steps are of.
 *
 * fine_tuning.c has the epochs, the checkpoints and the results. A step is of a batch of pictures
 * (picture_steps.c) or of the patches of slides, with a slide head behind the network
 * (slide_steps.c): that is one row, struct hrf_tuning_steps, which a training takes by its recipe.
 */
#ifndef HRF_TRAINING_LOOP_FINE_TUNING_PRIVATE_H
#define HRF_TRAINING_LOOP_FINE_TUNING_PRIVATE_H

#include "engine/train/trainer.h"
#include "heads/model/head.h"
#include "training/loop/fine_tuning.h"
#include "training/loop/training_result.h"

/* What a checkpoint holds first. */
struct hrf_tuning_progress {
    int64_t epoch, step; /* epochs that are done, and steps of the one after them */
    int64_t best_epoch;  /* from 1; 0: none yet */
    double best_loss, loss_sum;
    char layout[128]; /* of the ranks that wrote it */
    char device[16];  /* that they computed on */
};

/* How fast an epoch was. */
struct hrf_tuning_pace {
    double seconds, waited; /* waited: for pictures or patches */
    int64_t n;              /* pictures, or patches */
    int64_t n_counted;      /* of those, of slides: that the network's gradients are of */
};

struct hrf_tuning_learner; /* what the steps keep: the trainer and what feeds it */
struct hrf_tuning_steps;

struct hrf_tuning_job {
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
    const struct hrf_tuning_steps *steps;
    struct hrf_tuning_learner *learner;
    struct hrf_trainer *trainer; /* the learner's, of the network; borrowed */
    struct hrf_head *head;       /* with the learner's weights that are scored, or NULL; heap */
    struct hrf_tuning_progress progress;
    struct hrf_training_epoch *records; /* [recipe->epochs] */
    float *best;                        /* all weights of `base`, and then of the head */
    int64_t n_weights;                  /* of both */
    int64_t n_steps;                    /* of an epoch */
    int64_t step_items;                 /* pictures or slides of a step */
    int32_t n_trained;                  /* tensors */
    int64_t *order;                     /* of the epoch, [n_steps * step_items] */
    float *scores; /* [n_items][hrf_label_n_scores()] of the weights that are kept */
    char key[HRF_HASH_HEX];
    char *checkpoint;
    double kept, write_seconds; /* when the checkpoint was written, and how long that took */
    int64_t kept_steps;         /* that it is after, of all epochs */
    double shown, told;         /* when the line of progress, and progress.json, were */
    bool is_stopping;           /* after the present step, on every process */
};

struct hrf_tuning_steps {
    const char *nouns; /* what is counted in a second: "pictures" */
    /* How many items of the set a step takes. */
    int64_t (*items)(const struct hrf_train_recipe *recipe);
    /* The learning rate where the recipe has none. */
    double (*usual_rate)(const struct hrf_train_recipe *recipe);
    /* Makes job->learner and ->trainer, and ->head if there is none yet. */
    enum hrf_status (*create)(struct hrf_tuning_job *job, const struct hrf_graph *network,
                              const struct hrf_trainer_config *config, struct hrf_error *err);
    void (*destroy)(struct hrf_tuning_learner *learner); /* NULL is fine */
    void (*append_state)(const struct hrf_tuning_learner *learner, struct hrf_strbuf *out);
    enum hrf_status (*set_state)(struct hrf_tuning_learner *learner, const void *bytes,
                                 size_t n_bytes, struct hrf_error *err);
    /* Around the steps of an epoch. NULL: there is nothing to do. */
    enum hrf_status (*begin_epoch)(struct hrf_tuning_job *job, struct hrf_error *err);
    enum hrf_status (*step)(struct hrf_tuning_job *job, double rate, double *loss,
                            struct hrf_tuning_pace *pace, struct hrf_error *err);
    enum hrf_status (*end_epoch)(struct hrf_tuning_job *job, struct hrf_tuning_pace *pace,
                                 struct hrf_error *err);
    /* The scores of a part's items into job->scores. */
    enum hrf_status (*score)(struct hrf_tuning_job *job, const struct hrf_graph *network,
                             enum hrf_training_part part, struct hrf_error *err);
};
extern const struct hrf_tuning_steps hrf_steps_of_pictures, hrf_steps_of_slides;

/* True for the process that writes and prints. */
bool hrf_tuning_is_first(const struct hrf_tuning_job *job);
/* Gives every process what the first one has. */
HRF_CHECKED enum hrf_status hrf_tuning_share(const struct hrf_tuning_job *job, void *bytes,
                                             size_t n_bytes, struct hrf_error *err);
/* Before a step: either all processes have their pictures, or none of them waits for another. */
HRF_CHECKED enum hrf_status hrf_tuning_agree(struct hrf_tuning_job *job, enum hrf_status status,
                                             const struct hrf_error *why, struct hrf_error *err);
/* The pictures of the epoch's steps from `first` on; of slides what reads a batch of patches. */
struct hrf_sample_feed_config hrf_tuning_feeding(const struct hrf_tuning_job *job, int64_t first);
/* The images of a batch that this process reads, [*first, *end). */
void hrf_tuning_find_own(const struct hrf_tuning_job *job, int64_t *first, int64_t *end);
/* Gives the trainer's memory back. */
void hrf_tuning_drop_learner(struct hrf_tuning_job *job);

#endif
