/* bands.h - an image too large for the device, in parts one after the other.
 *
 * The graph is cut in two (halves.h). The head runs once for each band of rows; what crosses the
 * cut is gathered whole, or, where a global mean is all that reads it, as its sums; the tail runs
 * once. Bands either keep rows for the ones after them, so that nothing is computed twice (kept.h),
 * or each computes all it needs, so that neighbours overlap and nothing is kept (partition.h,
 * everything recomputed). Pure arithmetic.
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
    bool keeps;               /* rows for the next bands; else they are computed again */
    int64_t kept_bytes;       /* of activation_bytes: what is kept from band to band */
    double recomputed;        /* operations with bands / without; >= 1 */
    double seconds;           /* by costs, or roughly */
};

/* "in 18 bands, 2.6 % computed twice", "in 12 bands, 34.1 MiB of rows kept". */
void hrf_bands_text(const struct hrf_bands_plan *plan, char out[96]);

struct hrf_bands_wishes {
    int64_t limit_bytes; /* of activations; 0: none */
    int32_t n_bands;     /* > 0: just so many */
    enum hrf_bands_rows rows;
    const struct hrf_cost_table *costs; /* NULL: rough ones */
};
/* The cut, the number of bands, and kept or computed again: what takes least time among those that
 * keep activations within the limit; without a limit those that need least memory. HRF_E_NOMEM when
 * none does, naming the least that could be reached; HRF_E_UNSUPPORTED when the network's first
 * nodes cannot be run in parts. */
HRF_CHECKED enum hrf_status hrf_bands_choose(const struct hrf_graph *graph,
                                             const struct hrf_bands_wishes *wishes,
                                             struct hrf_bands_plan *out, struct hrf_error *err);

/* What a choice holds: as predicted, or as built. */
struct hrf_bands_memory {
    int64_t activation_bytes, weight_bytes, workspace_bytes;
    int32_t n_kinds; /* of bands: as many copies of the head's weights */
};
static inline int64_t hrf_bands_memory_total(const struct hrf_bands_memory *m)
{
    return m->activation_bytes + m->weight_bytes + m->workspace_bytes;
}
typedef enum hrf_status hrf_bands_measure(void *context, const struct hrf_bands_plan *plan,
                                          struct hrf_bands_memory *out, struct hrf_error *err);
/* Chooses until what `measure` finds keeps to wishes->limit_bytes, which is of activations, weights
 * and workspace together here: what the latter two take, activations get less. The last plan that
 * was measured is the one. HRF_E_NOMEM with all numbers when none keeps to it. */
HRF_CHECKED enum hrf_status hrf_bands_fit(const struct hrf_graph *graph,
                                          const struct hrf_bands_wishes *wishes,
                                          hrf_bands_measure *measure, void *context,
                                          struct hrf_error *err);

/* The head in n bands. HRF_E_UNSUPPORTED when a node's output cannot be computed in so many parts.
 * `head` is borrowed by the partition. */
HRF_CHECKED enum hrf_status hrf_bands_partition(const struct hrf_graph *head, int32_t n_bands,
                                                bool keeps, struct hrf_partition **out,
                                                struct hrf_error *err);
/* The most bands up to *n_bands that keep rows and are alike but for the first ones and the last
 * one. */
HRF_CHECKED enum hrf_status hrf_bands_make_alike(const struct hrf_graph *head, int32_t *n_bands,
                                                 struct hrf_error *err);
/* A band's graph: its outputs are its parts of what crosses, or their sums; none where the band has
 * no rows of it. */
HRF_CHECKED enum hrf_status hrf_bands_graph(const struct hrf_partition *partition,
                                            const struct hrf_halves *halves, int32_t band,
                                            struct hrf_graph **out, struct hrf_rank_map **map_out,
                                            struct hrf_error *err);
/* Bands of one kind are computed alike: the same boxes, moved, with the same padding. One session,
 * with one copy of the weights, then serves all of them. kind_of [n_ranks]; first_of [n_ranks at
 * most]: the first band of each kind. */
void hrf_bands_find_kinds(const struct hrf_partition *partition, int32_t *kind_of,
                          int32_t *first_of, int32_t *n_kinds);

/* What bands will take, by the same choice that the engine makes. */
struct hrf_bands_prediction {
    struct hrf_bands_plan plan;
    struct hrf_bands_memory memory;
    double seconds; /* of all bands and the tail; a band of one colour counts like any other */
};
/* Errors are those of hrf_bands_fit() and hrf_cost_of(). */
HRF_CHECKED enum hrf_status hrf_bands_predict(const struct hrf_graph *graph,
                                              const struct hrf_bands_wishes *wishes,
                                              struct hrf_bands_prediction *out,
                                              struct hrf_error *err);

#endif
