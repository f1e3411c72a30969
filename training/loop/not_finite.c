/* not_finite.c - the batch once more, forward alone, by a session that is observed
 * (not_finite.h). */
#include "training/loop/not_finite.h"

#include "engine/comm/comm.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/train/layer_peaks.h"
#include "training/loop/scorer.h"

#include <math.h>
#include <stdio.h>

static const char *name_of(const struct hrf_sample_feed_config *feeding, int64_t i)
{
    return feeding->list->items[feeding->order[feeding->first + i]].name;
}

/* Of the batch, which may be longer than what is left. */
static int64_t n_images(const struct hrf_sample_feed_config *feeding)
{
    const int64_t left = feeding->n - feeding->first;
    return left < feeding->batch ? left : feeding->batch;
}

/* The names of the batch, those of broken images alone if there are any; at most `most`. */
static void add_names(const struct hrf_sample_feed_config *feeding, const bool *is_broken,
                      int64_t most, struct hrf_strbuf *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < n_images(feeding); i++) {
        if (is_broken != NULL && !is_broken[i])
            continue;
        if (n < most)
            hrf_strbuf_addf(out, "%s'%s'", n > 0 ? ", " : "", name_of(feeding, i));
        n++;
    }
    if (n > most)
        hrf_strbuf_addf(out, " and %lld more", (long long)(n - most));
}

static bool has_broken_images(const struct hrf_sample_feed_config *feeding,
                              const struct hrf_layer_peaks *a)
{
    bool has = false;
    for (int64_t i = 0; i < n_images(feeding); i++)
        has |= a->is_broken[i];
    return has;
}

static void describe(const struct hrf_sample_feed_config *feeding, const struct hrf_layer_peaks *a,
                     struct hrf_strbuf *details, struct hrf_strbuf *brief)
{
    enum { NAMES = 3, LAYERS = 3, DETAILED_LAYERS = 10 }; /* brief: an error has 511 characters */
    const bool *broken = has_broken_images(feeding, a) ? a->is_broken : NULL;
    hrf_strbuf_adds(brief, "; ");
    if (a->first_broken >= 0) {
        const char *layer = a->items[a->first_broken].layer;
        hrf_strbuf_addf(brief, "'%s' is the first layer whose numbers are not finite, of ", layer);
        hrf_strbuf_addf(details, "  first layer whose numbers are not finite: '%s', of ", layer);
        add_names(feeding, broken, INT64_MAX, details);
        hrf_strbuf_adds(details, "\n  largest numbers before it: ");
    } else {
        hrf_strbuf_adds(brief, "the numbers of all layers are finite, of ");
        hrf_strbuf_adds(details, "  the numbers of all layers are finite; largest: ");
    }
    add_names(feeding, broken, NAMES, brief);
    hrf_strbuf_adds(brief, "; largest numbers: ");
    hrf_layer_peaks_text(a, LAYERS, brief);
    hrf_layer_peaks_text(a, DETAILED_LAYERS, details);
    hrf_strbuf_addc(details, '\n');
}

static enum hrf_status find(const struct hrf_fine_tuning *tuning, const struct hrf_graph *network,
                            const struct hrf_sample_feed_config *feeding, bool uses_batch,
                            struct hrf_layer_peaks *out, struct hrf_error *err)
{
    const int64_t side = feeding->form->side, n_pixels = feeding->batch * side * side;
    struct hrf_session_config config = { .device = tuning->device,
                                         .precision = HRF_FP32,
                                         .n_threads = tuning->n_threads };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_sample_feed) feed = NULL;
    HRF_AUTO_FREE float *images = hrf_try_alloc_array((size_t)n_pixels * 3, sizeof *images);
    HRF_AUTO_FREE unsigned char *masks = hrf_try_alloc_array((size_t)n_pixels, 1);
    HRF_CHECK_MEMORY(images != NULL && masks != NULL, err, "no memory for a batch");
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    if (uses_batch) {
        HRF_AUTO_RELEASE(hrf_batch_norms) norms = { .n = 0 };
        HRF_TRY(hrf_graph_infer_shapes(graph, err));
        HRF_TRY(hrf_pass_batch_statistics(graph, &norms, err));
    }
    HRF_TRY(hrf_scorer_memory(tuning, feeding, &config.memory_limit_bytes, err));
    HRF_TRY(hrf_sample_feed_create(feeding, &feed, err));
    HRF_TRY(hrf_sample_feed_next(feed, images, tuning->list->has_masks ? masks : NULL, err));
    return hrf_layer_peaks_find(graph, &config, images, out, err);
}

enum hrf_status hrf_not_finite_explain(const struct hrf_fine_tuning *tuning,
                                       const struct hrf_graph *network,
                                       const struct hrf_sample_feed_config *feeding,
                                       bool uses_batch, struct hrf_strbuf *details,
                                       struct hrf_strbuf *brief, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_layer_peaks) peaks = { .first_broken = -1 };
    struct hrf_error why = { .status = HRF_OK };
    hrf_strbuf_adds(details, "  pictures: ");
    add_names(feeding, NULL, INT64_MAX, details);
    hrf_strbuf_addc(details, '\n');
    const enum hrf_status status = find(tuning, network, feeding, uses_batch, &peaks, &why);
    if (status == HRF_OK) {
        describe(feeding, &peaks, details, brief);
        return HRF_OK;
    }
    if (status != HRF_E_NOMEM)
        return hrf_error_pass(err, &why);
    hrf_strbuf_adds(brief, "; of ");
    add_names(feeding, NULL, 3, brief);
    hrf_strbuf_addf(details, "  no memory to look at the layers: %s\n", why.text);
    return HRF_OK;
}

enum hrf_status hrf_not_finite_check(const struct hrf_fine_tuning *tuning,
                                     const struct hrf_graph *network,
                                     const enum hrf_training_part *parts,
                                     enum hrf_training_part part, const float *scores,
                                     struct hrf_error *err)
{
    const struct hrf_training_set *set = &tuning->list->set;
    const size_t n_scores = hrf_label_n_scores(set->kind, tuning->recipe->classes.n_items);
    HRF_AUTO_RELEASE(hrf_strbuf) details = HRF_STRBUF_INIT, brief = HRF_STRBUF_INIT;
    int64_t first = -1, n_broken = 0;
    for (size_t i = 0; i < set->n_items; i++) {
        bool is_finite = true;
        for (size_t k = 0; k < n_scores && parts[i] == part; k++)
            is_finite &= isfinite(scores[i * n_scores + k]) != 0;
        if (!is_finite)
            first = n_broken++ == 0 ? (int64_t)i : first;
    }
    if (first < 0)
        return HRF_OK;
    const struct hrf_sample_feed_config feeding = {
        .list = tuning->list,
        .form = &tuning->form,
        .order = &first,
        .n = 1,
        .batch = network->values[network->inputs[0]].shape.dims[0],
        .n_threads = hrf_scorer_readers(tuning)
    };
    HRF_TRY(hrf_not_finite_explain(tuning, network, &feeding, false, &details, &brief, err));
    if (tuning->comm == NULL || tuning->comm->rank == 0)
        fputs(details.text, stderr);
    return hrf_error_set(err, HRF_E_USER, "the scores of %lld of the %s for %s are not finite%s",
                         (long long)n_broken, set->nouns, hrf_training_parts[part], brief.text);
}
