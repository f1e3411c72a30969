/* row_blocks.h - a slide head's network on the rows of a bag in blocks, in memory that does not
 * grow with the bag.
 *
 * Each pass over the bag computes, block after block, what row_rules.h calls joints, and joins
 * them; the rest of the network is computed once from the joints. Sums over blocks are kept in
 * float64, so results differ from those of the whole bag by the order of its float32 sums (relative
 * 1e-5 at most in tests). They depend on n_block, and not on the memory that there is. One thread.
 */
#ifndef HRF_ENGINE_RUN_ROW_BLOCKS_H
#define HRF_ENGINE_RUN_ROW_BLOCKS_H

#include "engine/ir/graph.h"

/* A bag that is read in parts. */
struct hrf_bag_rows {
    int64_t n, width;
    /* Reads rows [first, first + n) to out [n][width]. */
    enum hrf_status (*read)(void *context, int64_t first, int64_t n, float *out,
                            struct hrf_error *err);
    void *context;
};

struct hrf_row_blocks; /* opaque */
/* The network on blocks of n_block rows. `graph` is borrowed for life. HRF_E_UNSUPPORTED: it needs
 * all rows at once; the text names the node. */
HRF_CHECKED enum hrf_status hrf_row_blocks_create(const struct hrf_graph *graph, int64_t width,
                                                  int64_t n_block, struct hrf_row_blocks **out,
                                                  struct hrf_error *err);
void hrf_row_blocks_destroy(struct hrf_row_blocks *blocks);
HRF_DEFINE_AUTO(hrf_row_blocks)

/* Computes a bag. HRF_E_NOMEM: not even a block, or the outputs, fit in memory. */
HRF_CHECKED enum hrf_status hrf_row_blocks_run(struct hrf_row_blocks *blocks,
                                               const struct hrf_bag_rows *bag, int64_t n_threads,
                                               struct hrf_error *err);
/* Graph output i, in ONNX order, valid until the next run; *count is its size. */
const float *hrf_row_blocks_output(const struct hrf_row_blocks *blocks, int32_t i, int64_t *count);

#endif
