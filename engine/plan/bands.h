/* bands.h - an image too large for the device, in parts one after the other.
 *
 * The graph is cut in two (halves.h). The head runs once for each band of rows of what crosses the
 * cut; a band computes all it needs, so neighbours overlap and nothing is exchanged (partition.h,
 * everything recomputed). What crosses is gathered whole, or, where a global mean is all that reads
 * it, as its sums. The tail runs once. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_BANDS_H
#define HRF_ENGINE_PLAN_BANDS_H

#include "engine/plan/cost.h"
#include "engine/plan/halves.h"
#include "engine/plan/partition.h"

struct hrf_bands_plan {
    int32_t cut; /* nodes before it are the head */
    int32_t n_bands;
    int64_t activation_bytes; /* of the tail and of the largest band, both at once */
    double recomputed;        /* operations with bands / without; >= 1 */
};

/* The cut and the number of bands that compute least among those that keep activations within
 * `limit_bytes`; n_bands > 0: just so many; without a limit those that need least memory.
 * HRF_E_NOMEM when none does, naming the least that could be reached; HRF_E_UNSUPPORTED when the
 * network's first nodes cannot be run in parts. */
HRF_CHECKED enum hrf_status hrf_bands_choose(const struct hrf_graph *graph, int64_t limit_bytes,
                                             int32_t n_bands, struct hrf_bands_plan *out,
                                             struct hrf_error *err);

/* The head in n bands. HRF_E_UNSUPPORTED when a node's output cannot be computed in so many parts.
 * `head` is borrowed by the partition. */
HRF_CHECKED enum hrf_status hrf_bands_partition(const struct hrf_graph *head, int32_t n_bands,
                                                struct hrf_partition **out, struct hrf_error *err);
/* A band's graph: its outputs are its parts of what crosses, or their sums; none where the band has
 * no rows of it. */
HRF_CHECKED enum hrf_status hrf_bands_graph(const struct hrf_partition *partition,
                                            const struct hrf_halves *halves, int32_t band,
                                            struct hrf_graph **out, struct hrf_error *err);
/* Two bands are computed alike: the same boxes, moved, with the same padding. One session, with one
 * copy of the weights, then serves both. */
bool hrf_bands_are_alike(const struct hrf_partition *partition, int32_t a, int32_t b);

/* What bands will take, by the same choice that the engine makes. */
struct hrf_bands_prediction {
    struct hrf_bands_plan plan;
    int32_t n_kinds; /* of bands: as many copies of the head's weights */
    int64_t activation_bytes, weight_bytes, workspace_bytes;
    double seconds; /* of all bands and the tail; a band of one colour counts like any other */
};
/* `limit_bytes`: of activations, weights and workspace together; n_bands as above. Errors are those
 * of hrf_bands_choose() and hrf_cost_of(). */
HRF_CHECKED enum hrf_status hrf_bands_predict(const struct hrf_graph *graph,
                                              const struct hrf_cost_table *costs,
                                              int64_t limit_bytes, int32_t n_bands,
                                              struct hrf_bands_prediction *out,
                                              struct hrf_error *err);

#endif
