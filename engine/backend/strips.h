/* strips.h - a CONV in pieces: a few rows of the image, or a few images, are a strip, which went
 * through the prologue (graph.h) where there is one, and the same CONV without it runs on that.
 *
 * All strips are of one size, so that one kernel with one copy of the weights does them all: where
 * they do not divide the rows, the last one reaches back over rows that are done, and its result is
 * made aside. Arithmetic and graphs alone: what fills a strip is the back end's.
 */
#ifndef HRF_ENGINE_BACKEND_STRIPS_H
#define HRF_ENGINE_BACKEND_STRIPS_H

#include "engine/backend/compute.h"

struct hrf_strips {
    int64_t n, rows, columns, channels, out_rows; /* of the whole image */
    int64_t stride, pad;                          /* of rows */
    bool by_images;        /* a strip is whole images, pads as they are; else rows of one */
    int64_t size, n_units; /* images or output rows: of a strip, of all (by rows: of an image) */
    int64_t in_rows;       /* of a strip (by rows), those above and below the image included */
};

/* Strips of at most `max_elements` of the image, but of `min_rows` output rows (or an image) at
 * least; as even as can be. */
void hrf_strips_choose(const struct hrf_graph *graph, const struct hrf_node *node,
                       int64_t max_elements, int64_t min_rows, struct hrf_strips *out);
/* Of the image, in a strip. */
int64_t hrf_strips_elements(const struct hrf_strips *strips);
/* The convolution of one strip, whose image is of `type`, as a graph of one node. */
HRF_CHECKED enum hrf_status hrf_strips_graph(const struct hrf_strips *strips,
                                             const struct hrf_graph *graph,
                                             const struct hrf_node *node, enum hrf_dtype type,
                                             struct hrf_graph **out, struct hrf_error *err);

#endif
