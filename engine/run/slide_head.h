/* slide_head.h - a slide head in ONNX on bags of any size.
 *
 * The model has one input [N][D] (or [1][N][D]). Its scores are the output "scores", or "logits",
 * of which the softmax is taken, or else the first output, [K] numbers from 0 to 1; its attention
 * is the output "attention" or another one with a multiple of N numbers, rows of N. A session is
 * made for each size of a bag. A bag of more than HRF_BAG_WHOLE patches is computed in blocks of
 * HRF_BAG_BLOCK if the network allows it (row_blocks.h); which bags are is a matter of their size
 * alone, so that scores do not depend on the memory of a machine. Used by one thread.
 */
#ifndef HRF_ENGINE_RUN_SLIDE_HEAD_H
#define HRF_ENGINE_RUN_SLIDE_HEAD_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/ir/graph.h"
#include "engine/run/row_blocks.h"

#include <stdint.h>

enum { HRF_BAG_WHOLE = 1 << 16, HRF_BAG_BLOCK = 1 << 14 };

struct hrf_slide_head; /* opaque */
/* HRF_E_USER: no model, or not one of such a bag. */
HRF_CHECKED enum hrf_status hrf_slide_head_open(const char *path, struct hrf_slide_head **out,
                                                struct hrf_error *err);
/* The same of a network, which it takes over on success. `name` is what errors call it. */
HRF_CHECKED enum hrf_status hrf_slide_head_create(struct hrf_graph **network, const char *name,
                                                  struct hrf_slide_head **out,
                                                  struct hrf_error *err);
void hrf_slide_head_close(struct hrf_slide_head *head); /* NULL is fine */
static inline void hrf_slide_head_destroy(struct hrf_slide_head *head)
{
    hrf_slide_head_close(head);
}
HRF_DEFINE_AUTO(hrf_slide_head)
int64_t hrf_slide_head_width(const struct hrf_slide_head *head); /* D; 0: any */

/* Valid until the next bag. */
struct hrf_slide_head_result {
    const float *scores; /* [n_classes] */
    int64_t n_classes;
    const float *attention; /* [n_branches][n]; NULL: the head has none */
    int64_t n_branches;
};
/* Bytes that a bag of n patches takes, which are then there for all smaller ones; beside them a bag
 * that is computed in blocks takes a few numbers of each patch. HRF_E_NOMEM. */
HRF_CHECKED enum hrf_status hrf_slide_head_reserve(struct hrf_slide_head *head, int64_t n,
                                                   int64_t width, int64_t n_threads,
                                                   int64_t *n_bytes, struct hrf_error *err);
/* HRF_E_NOMEM: the text names the bag, the memory that is left and, of a large bag, the node for
 * which it cannot be computed in blocks. */
HRF_CHECKED enum hrf_status hrf_slide_head_run(struct hrf_slide_head *head,
                                               const struct hrf_bag_rows *bag, int64_t n_threads,
                                               struct hrf_slide_head_result *out,
                                               struct hrf_error *err);

#endif
