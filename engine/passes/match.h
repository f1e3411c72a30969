/* match.h - what passes ask of a graph when they look for a pattern; for this folder only. */
#ifndef HRF_ENGINE_PASSES_MATCH_H
#define HRF_ENGINE_PASSES_MATCH_H

#include "engine/ir/readers.h"

struct hrf_match {
    struct hrf_graph *graph;
    struct hrf_readers readers;
};

void hrf_match_init(struct hrf_graph *graph, struct hrf_match *out);
void hrf_match_release(struct hrf_match *match);

/* A value of the graph. */
static inline const struct hrf_value *hrf_match_value(const struct hrf_match *match, int32_t value)
{
    return &match->graph->values[value];
}
/* The node that computes `value` if it has that operator and nobody else reads the value; NULL. */
const struct hrf_node *hrf_match_sole(const struct hrf_match *match, int32_t value, enum hrf_op op);
/* The same, whatever else reads the value. */
const struct hrf_node *hrf_match_any(const struct hrf_match *match, int32_t value, enum hrf_op op);
/* True if the value is a float32 constant of one number. */
bool hrf_match_number(const struct hrf_match *match, int32_t value, double *number);
/* The input of a binary node that is not its constant number; -1: it has none. */
int32_t hrf_match_other(const struct hrf_match *match, const struct hrf_node *node, double *number);

/* A product: constant numbers, and up to HRF_MATCH_FACTORS other factors. */
enum { HRF_MATCH_FACTORS = 4 };
struct hrf_match_product {
    double number;
    int32_t n, factors[HRF_MATCH_FACTORS]; /* values */
};
/* Follows MULs, and DIVs by a number, from `value` up as far as nobody else reads what is between
 * them. False: there are too many factors. */
bool hrf_match_factors(const struct hrf_match *match, int32_t value, struct hrf_match_product *out);

/* Finds the scores that the masks of shifted windows are added to. `value` is [B *
 * windows][heads][T][S], reshaped from [B][windows][heads][T][S], where a constant that is alike
 * for all B is added to the reshaped scores: returns the scores, of value's shape, and that
 * constant. -1: the pattern does not match. */
int32_t hrf_match_window_mask(const struct hrf_match *match, int32_t value, int32_t *mask);
/* True if such a constant and what is added before it (`mask`, -1: nothing) can be one mask. */
bool hrf_match_masks_can_join(const struct hrf_match *match, int32_t window_mask, int32_t mask,
                              const struct hrf_shape *scores);
/* Makes that mask, [windows][heads][T][S]; *mask becomes it. */
HRF_CHECKED enum hrf_status hrf_match_join_masks(struct hrf_match *match, const char *name,
                                                 int32_t window_mask,
                                                 const struct hrf_shape *scores, int32_t *mask,
                                                 struct hrf_error *err);

/* Inserts a node before node `at` that gives a new value, *out, of that name and shape and of the
 * type of the first input. The caller places it (hrf_graph_place_nodes()). */
HRF_CHECKED enum hrf_status hrf_match_insert(struct hrf_graph *graph, int32_t at, enum hrf_op op,
                                             const char *name, const int32_t *inputs,
                                             int32_t n_inputs, const struct hrf_shape *shape,
                                             const struct hrf_attributes *attributes, int32_t *out,
                                             struct hrf_error *err);
/* Makes `node` compute by another operator of other inputs; it keeps its name and output. */
void hrf_match_become(struct hrf_node *node, enum hrf_op op, const int32_t *inputs,
                      int32_t n_inputs, const struct hrf_attributes *attributes);

#endif
