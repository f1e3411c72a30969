/* scorer.c - a session over the pictures of a part. */
#include "training/loop/scorer.h"

#include "base/own_process.h"
#include "engine/planning/request.h"
#include "engine/run/session.h"

#include <string.h>

int hrf_scorer_readers(const struct hrf_fine_tuning *tuning)
{
    const int n = tuning->n_threads > 0 ? tuning->n_threads : hrf_process_cpu_count();
    return n > 2 ? n : 2;
}

enum hrf_status hrf_scorer_outputs(const struct hrf_fine_tuning *tuning,
                                   const struct hrf_graph *network, const int64_t *order, int64_t n,
                                   size_t width, const char *activation, float *numbers,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    HRF_AUTO(hrf_sample_feed) feed = NULL;
    if (n == 0)
        return HRF_OK;
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_TRY(hrf_engine_finish_scores(graph, (int64_t)width, activation, err));
    const struct hrf_session_config config = { .device = tuning->device,
                                               .precision = HRF_FP32,
                                               .n_threads = tuning->n_threads };
    HRF_TRY(hrf_session_create(graph, &config, &session, err));
    const int64_t batch = hrf_session_input_shape(session, 0)->dims[0];
    const struct hrf_sample_feed_config feeding = { .list = tuning->list,
                                                    .form = &tuning->form,
                                                    .order = order,
                                                    .n = n,
                                                    .batch = batch,
                                                    .n_threads = hrf_scorer_readers(tuning) };
    HRF_TRY(hrf_sample_feed_create(&feeding, &feed, err));
    for (int64_t first = 0; first < n; first += batch) {
        HRF_TRY(hrf_sample_feed_next(feed, hrf_session_input(session, 0), err));
        HRF_TRY(hrf_session_run(session, err));
        const float *out = hrf_session_output(session, 0);
        for (int64_t i = 0; i < batch && first + i < n; i++)
            memcpy(numbers + (size_t)order[first + i] * width, out + (size_t)i * width,
                   width * sizeof *numbers);
    }
    return HRF_OK;
}

enum hrf_status hrf_scorer_run(const struct hrf_fine_tuning *tuning,
                               const struct hrf_graph *network, const enum hrf_training_part *parts,
                               enum hrf_training_part part, float *scores, struct hrf_error *err)
{
    const struct hrf_training_set *set = &tuning->list->set;
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array(set->n_items + 1, sizeof *order);
    int64_t n = 0;
    for (size_t i = 0; i < set->n_items; i++)
        if (parts[i] == part)
            order[n++] = (int64_t)i;
    return hrf_scorer_outputs(tuning, network, order, n, tuning->recipe->classes.n_items,
                              hrf_train_recipe_activation(tuning->recipe), scores, err);
}
