/* fine_tuning.h - one training of a network, or a probe of its embeddings: a fold and a seed, from
 * pictures to a model as ONNX.
 *
 * checkpoint.bin in its folder is replaced at most every ten seconds (HRF_PART_MS), also within an
 * epoch; a training that is run again continues from there and ends with the same bytes, on any
 * number of threads. training_result.h is what it leaves.
 */
#ifndef HRF_TRAINING_LOOP_FINE_TUNING_H
#define HRF_TRAINING_LOOP_FINE_TUNING_H

#include "engine/ir/graph.h"
#include "training/cohort/scored.h"
#include "training/samples/sample_feed.h"

/* What all trainings of a recipe have in common. */
struct hrf_fine_tuning {
    const struct hrf_train_recipe *recipe; /* borrowed */
    const struct hrf_sample_list *list;    /* borrowed */
    struct hrf_graph *graph;               /* as read */
    char model_sha256[HRF_HASH_HEX];
    bool is_renewed;  /* the last layer gets fresh weights ... */
    int64_t added_to; /* ... and is put behind an embedding of so many numbers; 0: it is not */
    struct hrf_sample_form form;
    size_t width;      /* of embeddings, if these are probed or a head's: what the graph gives */
    float *embeddings; /* [n_items][width] (hrf_probe_embed()); heap */
    const char *version, *device;
    const char *attempt; /* folder of the job's attempt whose task it is; NULL: of no job */
    int32_t n_threads;   /* 0: all that the process may use */
    /* The ranks of recipe->ranks are processes, of which this is one: all of them make the same
     * calls, and the first one writes. NULL: they are threads. */
    struct hrf_comm *comm;
    /* Of a task of a job; NULL: nobody asks. If it is true, the training writes a checkpoint and
     * ends with HRF_E_AGAIN. `others`: another rank was asked to, so that this one is, too. */
    bool (*is_stopping)(bool others);
    /* Hears after each step how many of all are done; NULL: nobody does. */
    void (*report)(void *context, int64_t done, int64_t all);
    void *context;
};
/* Reads the model and finds how pictures become its images. HRF_E_USER: it does not fit the recipe
 * or the pictures. */
HRF_CHECKED enum hrf_status hrf_fine_tuning_open(const struct hrf_train_recipe *recipe,
                                                 const struct hrf_sample_list *list,
                                                 struct hrf_fine_tuning **out,
                                                 struct hrf_error *err);
void hrf_fine_tuning_destroy(struct hrf_fine_tuning *tuning);
HRF_DEFINE_AUTO(hrf_fine_tuning)

/* The hash of everything that the training's files depend on. */
HRF_CHECKED enum hrf_status hrf_fine_tuning_key(const struct hrf_fine_tuning *tuning, int64_t fold,
                                                int64_t seed, char key[HRF_HASH_HEX],
                                                struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_fine_tuning_run(const struct hrf_fine_tuning *tuning, int64_t fold,
                                                int64_t seed, const char *folder,
                                                struct hrf_error *err);

#endif
