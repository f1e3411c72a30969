/* tensor_parallel_private.h - a graph while it is divided for tensor parallelism; between
 * tensor_parallel.c and tensor_parallel_channels.c. */
#ifndef HRF_ENGINE_PLAN_TENSOR_PARALLEL_PRIVATE_H
#define HRF_ENGINE_PLAN_TENSOR_PARALLEL_PRIVATE_H

#include "engine/plan/tensor_parallel.h"

/* Which channels of a value a rank's part has. PLAIN: a range, and the parts one after the other
 * are the value. HALVES: the same range of both halves, for a SWIGLU. HEADS: those of some heads,
 * for an ATTENTION. */
enum tensor_form { WHOLE, PLAIN, HALVES, HEADS };

/* Channels [begin, end) of a PLAIN value. */
struct tensor_part {
    int32_t value; /* in the new graph; -1: the rank has no part */
    int64_t begin, end;
};

struct tensor_split {
    const struct hrf_graph *from;
    struct hrf_graph *to;
    int32_t n_ranks;
    enum tensor_form *form; /* [values of from] */
    int32_t *whole;         /* [values of from] in `to`; -1: not there (yet) */
    int32_t *reader;        /* [values of from] the only node that reads it; -1: several, or none */
    struct tensor_part *parts; /* [values of from][n_ranks] */
    int32_t n_divided;         /* nodes */
};

static inline int32_t hrf_tensor_axis(const struct hrf_shape *shape)
{
    return shape->rank == 4 ? 1 : shape->rank - 1;
}

static inline const struct hrf_value *hrf_tensor_value(const struct tensor_split *s, int32_t value)
{
    return &s->from->values[value];
}

static inline int64_t hrf_tensor_channels(const struct tensor_split *s, int32_t value)
{
    const struct hrf_shape *shape = &hrf_tensor_value(s, value)->shape;
    return shape->dims[hrf_tensor_axis(shape)];
}

static inline struct tensor_part *hrf_tensor_part(const struct tensor_split *s, int32_t value,
                                                  int32_t rank)
{
    return &s->parts[(int64_t)value * s->n_ranks + rank];
}

/* Where rank `rank` of n_ranks begins of n channels. */
int64_t hrf_tensor_bound(int64_t n, int32_t rank, int32_t n_ranks);
/* The axis of the weights along which the output channels lie; -1: the node is no product whose
 * channels can be divided. */
int32_t hrf_tensor_columns_axis(const struct tensor_split *s, const struct hrf_node *node);
/* True if the node computes each element from one of the only value that comes at run time. */
bool hrf_tensor_is_elementwise(const struct tensor_split *s, const struct hrf_node *node);
/* True if the node is an attention whose heads can be divided. */
bool hrf_tensor_has_heads(const struct tensor_split *s, const struct hrf_node *node);
int64_t hrf_tensor_first_head(const struct tensor_split *s, const struct hrf_node *attention,
                              int32_t rank);
/* How the output of a product is divided, which depends on what reads it. */
HRF_CHECKED enum hrf_status hrf_tensor_find_form(const struct tensor_split *s,
                                                 const struct hrf_node *product,
                                                 enum tensor_form *form, struct hrf_error *err);
/* mine[channels]: which channels the rank's part of a product's output has. */
void hrf_tensor_mark_channels(const struct tensor_split *s, int32_t value, enum tensor_form form,
                              int32_t rank, bool *mine);
/* Marks the channels of `value`, which an attention reads, of the rank's heads. */
void hrf_tensor_mark_heads(const struct tensor_split *s, const struct hrf_node *attention,
                           int32_t value, int32_t rank, bool *mine);
int64_t hrf_tensor_count_marked(const bool *mine, int64_t n);
/* Where head `head` of the attention's input k begins in the rank's part of its channels. */
int64_t hrf_tensor_place_of_head(const struct hrf_node *attention, int32_t k, int64_t head,
                                 const bool *mine);

#endif
