/* bands.h - row tiling: computes an image that is too large for the device in bands (row tiles),
 * one after the other.
 *
 * The graph is cut in two (halves.h). The head runs once for each band; the tail runs once. Values
 * that cross the cut are gathered whole, or only as sums if a global mean is all that reads them.
 * There are two ways to compute the rows that neighbouring bands share: a line cache keeps them for
 * the next band, so that nothing is computed twice (line_cache.h), or each band computes all that
 * it needs and nothing is kept (partition.h, everything recomputed). Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_BANDS_H
#define HRF_ENGINE_PLAN_BANDS_H

#include "engine/plan/cost.h"
#include "engine/plan/halves.h"
#include "engine/plan/partition.h"

struct hrf_bands_plan {
    int32_t cut; /* the head is nodes [0, cut) */
    int32_t n_bands;
    int64_t activation_bytes; /* of the tail and of the largest band together */
    bool keeps; /* a line cache keeps rows for later bands; else they are computed again */
    int64_t line_cache_bytes; /* size of the line cache, part of activation_bytes */
    double recomputed;        /* operations with bands divided by those without; >= 1 */
    double seconds;           /* estimated time of one image */
};

/* "in 18 bands, 2.6 % computed twice", "in 12 bands, 34.1 MiB of rows kept". */
void hrf_bands_text(const struct hrf_bands_plan *plan, char out[96]);

struct hrf_bands_options {
    int64_t limit_bytes; /* of activations; 0: none */
    int32_t n_bands;     /* > 0: exactly so many */
    enum hrf_bands_rows rows;
    const struct hrf_cost_table *costs; /* NULL: rough estimates */
}; /* The cut, the number of bands, and whether rows are kept or computed again: the choice that
    * takes the least time among those whose activations are within the limit; without a limit, the
    * choice that needs the least memory. HRF_E_NOMEM if none is within the limit; the error names
    * the least memory possible. HRF_E_UNSUPPORTED if the first nodes of the network cannot be
    * computed in parts. */
HRF_CHECKED enum hrf_status hrf_bands_choose(const struct hrf_graph *graph,
                                             const struct hrf_bands_options *options,
                                             struct hrf_bands_plan *out, struct hrf_error *err);

/* The memory of a choice, predicted or measured. */
struct hrf_bands_memory {
    int64_t activation_bytes, weight_bytes, workspace_bytes;
    int32_t
        n_kinds; /* kinds of bands (hrf_bands_find_kinds); each has a copy of the head's weights */
};
static inline int64_t hrf_bands_memory_total(const struct hrf_bands_memory *m)
{
    return m->activation_bytes + m->weight_bytes + m->workspace_bytes;
}
typedef enum hrf_status hrf_bands_measure(void *context, const struct hrf_bands_plan *plan,
                                          struct hrf_bands_memory *out, struct hrf_error *err);
/* Like hrf_bands_choose(), but options->limit_bytes is for activations, weights and workspace
 * together. Chooses a plan, calls `measure` for its real memory, and repeats with a smaller limit
 * for activations until the sum fits. The last plan passed to `measure` is the result. HRF_E_NOMEM
 * with all numbers if none fits. */
HRF_CHECKED enum hrf_status hrf_bands_fit(const struct hrf_graph *graph,
                                          const struct hrf_bands_options *options,
                                          hrf_bands_measure *measure, void *context,
                                          struct hrf_error *err);

/* Partitions the head into n bands. HRF_E_UNSUPPORTED if the output of a node cannot be computed in
 * so many parts. The partition borrows `head`. */
HRF_CHECKED enum hrf_status hrf_bands_partition(const struct hrf_graph *head, int32_t n_bands,
                                                bool keeps, struct hrf_partition **out,
                                                struct hrf_error *err);
/* The graph of one band. Its outputs are the band's parts of the crossing values, or their sums; a
 * value of which the band has no rows is not an output. */
HRF_CHECKED enum hrf_status hrf_bands_graph(const struct hrf_partition *partition,
                                            const struct hrf_halves *halves, int32_t band,
                                            struct hrf_graph **out, struct hrf_rank_map **map_out,
                                            struct hrf_error *err);
/* Bands are of one kind if they compute boxes of the same sizes with the same padding. One session,
 * with one copy of the weights, serves all bands of a kind. kind_of [n_ranks]: the kind of each
 * band; first_of [n_kinds, at most n_ranks]: the first band of each kind. */
void hrf_bands_find_kinds(const struct hrf_partition *partition, int32_t *kind_of,
                          int32_t *first_of, int32_t *n_kinds);

/* Predicted time and memory of bands, with the choice that the engine would make. */
struct hrf_bands_prediction {
    struct hrf_bands_plan plan;
    struct hrf_bands_memory memory;
    double seconds; /* of all bands and the tail; bands of one colour are not taken as cheaper */
};
/* Errors are those of hrf_bands_fit() and hrf_cost_of(). */
HRF_CHECKED enum hrf_status hrf_bands_predict(const struct hrf_graph *graph,
                                              const struct hrf_bands_options *options,
                                              struct hrf_bands_prediction *out,
                                              struct hrf_error *err);

#endif
