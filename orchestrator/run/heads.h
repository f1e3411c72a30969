/* heads.h - slide heads: training them on the run's embeddings (trainings.c), and the scoring of
 * slides by them (heads.c). */
#ifndef HRF_ORCHESTRATOR_RUN_HEADS_H
#define HRF_ORCHESTRATOR_RUN_HEADS_H

#include "orchestrator/run/task_table.h"
#include "schema/record/job.h"

struct run;

/* A slide head of the run. */
struct run_head {
    char *path;       /* path of its file; heap */
    char sha256[65];  /* of the file */
    size_t precision; /* index of the precision of the features that it was trained on */
    int64_t index;    /* among those of a precision: seed by seed, fold by fold */
    /* Of one that the run trained: the file's bytes, and the slides that test it, by the names of
     * their files of embeddings. */
    struct hrf_bytes onnx;
    char **testing;
    size_t n_testing;
};

struct run_heads {
    struct run_head *items; /* that score slides: slide_head.file, or those that were trained */
    size_t n;
    bool trainings_are_planned; /* slide_head.train: and no head is known yet */
    bool are_known;
};
void run_heads_release(struct run_heads *heads);
/* Opens the head that the workflow names as a file, if it does, and computes its hash. */
HRF_CHECKED enum hrf_status run_heads_open(struct run_heads *heads, const struct run_setup *setup,
                                           struct hrf_error *err);

/* The bag of a slide at one precision: a file that refers to its embeddings. */
struct run_bag {
    const struct hrf_slide_row *slide;
    const char *precision;
    char made_of[65]; /* hash of the keys of its infer tasks */
    char *path;       /* heap; NULL: they are not complete */
    char sha256[65];  /* of the file */
};
/* Finds the bag of a slide, or makes it. */
HRF_CHECKED enum hrf_status run_bag_find(struct run_bag *bag, const struct run_setup *setup,
                                         const struct run_tasks *tasks,
                                         const struct hrf_slide_row *slide, const char *precision,
                                         struct hrf_error *err);
/* Makes its file again if it is gone or has other bytes. HRF_E_USER: embeddings that it refers to
 * are gone or have other bytes; the next run computes them again. */
HRF_CHECKED enum hrf_status run_bag_restore(struct run_bag *bag, const struct run_setup *setup,
                                            struct hrf_error *err);

/* Plans the head tasks of a slide: of each precision whose embeddings are complete, one for each
 * head that may score it. Must be called in a transaction. */
HRF_CHECKED enum hrf_status run_plan_head(struct run *run, int64_t slide_id, struct hrf_error *err);
/* Plans the head tasks of every slide anew, in a transaction of its own. */
HRF_CHECKED enum hrf_status run_plan_all_heads(struct run *run, struct hrf_error *err);
/* Fills in what a head task needs. A bag that is lost is made again. */
HRF_CHECKED enum hrf_status run_fill_bag(struct run *run, const struct hrf_task_row *row,
                                         struct hrf_job_bag *out, struct hrf_error *err);

/* trainings.c */
/* Returns the class of a slide's truth, an index into model.classes; -1: it has none. */
int32_t run_class_of(const struct hrf_workflow *workflow, const struct hrf_slide_row *slide);
/* True if heads are to be trained and are not known yet: slides wait for them. */
bool run_waits_for_heads(const struct run *run);
/* Return how many heads are trained on a precision's features, and how many precisions, from the
 * first on, train heads. */
int64_t run_n_trainings(const struct hrf_workflow *workflow);
size_t run_training_precisions(const struct hrf_workflow *workflow);
/* Goes on with slide_head.train as far as the tasks allow: plans the trainings once all embeddings
 * are there, and the head tasks once all trainings have ended. */
HRF_CHECKED enum hrf_status run_tend_trainings(struct run *run, struct hrf_error *err);
/* Fills in what a train task needs. Bags that are lost are made again. */
HRF_CHECKED enum hrf_status run_fill_training(struct run *run, const struct hrf_task_row *row,
                                              struct hrf_job_training *out, struct hrf_error *err);

#endif
