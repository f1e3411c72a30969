/* scorer.c - a session over the pictures of a part. */
#include "training/loop/scorer.h"

#include "base/host.h"
#include "base/log.h"
#include "base/own_process.h"
#include "engine/planning/request.h"
#include "engine/run/network.h"

#include <string.h>

int hrf_scorer_readers(const struct hrf_fine_tuning *tuning)
{
    const int n = tuning->n_threads > 0 ? tuning->n_threads : hrf_process_cpu_count();
    return n > 2 ? n : 2;
}

enum hrf_status hrf_scorer_memory(const struct hrf_fine_tuning *tuning,
                                  const struct hrf_sample_feed_config *feeding, int64_t *out,
                                  struct hrf_error *err)
{
    const int64_t limit = tuning->recipe->memory, read = hrf_sample_feed_memory(feeding);
    if (limit == 0) {
        const int64_t left = hrf_process_memory_left() - read;
        *out = left > 0 ? left : 1;
        return HRF_OK;
    }
    if (limit <= read)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "images of %lld px that are read ahead need %.1f MiB alone, and "
                             "train.memory allows %.1f MiB: give it more, or make batches smaller",
                             (long long)tuning->form.side, (double)read / 0x1p20,
                             (double)limit / 0x1p20);
    *out = limit - read;
    return HRF_OK;
}

static enum hrf_status create_network(const struct hrf_fine_tuning *tuning,
                                      const struct hrf_graph *network,
                                      const struct hrf_sample_feed_config *feeding, size_t width,
                                      const char *activation, struct hrf_network **out,
                                      struct hrf_error *err)
{
    struct hrf_network_config config = { .session = { .device = tuning->device,
                                                      .precision = HRF_FP32,
                                                      .n_threads = tuning->n_threads } };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_TRY(hrf_engine_finish_scores(graph, (int64_t)width, activation, err));
    HRF_TRY(hrf_scorer_memory(tuning, feeding, &config.session.memory_limit_bytes, err));
    HRF_TRY(hrf_network_create(graph, &config, out, err));
    if (hrf_network_banded(*out) != NULL) {
        char text[HRF_BANDED_TEXT];
        hrf_banded_text(hrf_network_banded(*out), 0, text);
        hrf_log_debug("training", "scores %s", text);
    }
    return HRF_OK;
}

/* An hrf_source: boxes of the images of the batch that is held. */
static enum hrf_status read_box(void *context, int32_t input, int64_t first, int64_t n,
                                const struct hrf_box *box, float *out, struct hrf_error *err)
{
    const struct hrf_sample_feed *feed = context;
    const int64_t each = (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]) * 3;
    if (input != 0)
        return hrf_error_set(err, HRF_E_BUG, "a network of pictures has no input %d", (int)input);
    for (int64_t i = 0; i < n; i++)
        hrf_sample_feed_put(feed, first + i, box, out + i * each);
    return HRF_OK;
}

enum hrf_status hrf_scorer_outputs(const struct hrf_fine_tuning *tuning,
                                   const struct hrf_graph *network, const int64_t *order, int64_t n,
                                   size_t width, const char *activation, float *numbers,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_network) scorer = NULL;
    HRF_AUTO(hrf_sample_feed) feed = NULL;
    if (n == 0)
        return HRF_OK;
    const int64_t batch = network->values[network->inputs[0]].shape.dims[0];
    const struct hrf_sample_feed_config feeding = { .list = tuning->list,
                                                    .form = &tuning->form,
                                                    .order = order,
                                                    .n = n,
                                                    .batch = batch,
                                                    .n_threads = hrf_scorer_readers(tuning) };
    HRF_TRY(create_network(tuning, network, &feeding, width, activation, &scorer, err));
    HRF_TRY(hrf_sample_feed_create(&feeding, &feed, err));
    for (int64_t first = 0; first < n; first += batch) {
        HRF_TRY(hrf_sample_feed_hold(feed, err));
        HRF_TRY(hrf_network_run(scorer, read_box, feed, err));
        hrf_sample_feed_give_back(feed);
        const float *out = hrf_network_output(scorer, 0);
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
