/* nets.h - random small networks for tests of what works on whole graphs. */
#ifndef HRF_TESTS_OPS_NETS_H
#define HRF_TESTS_OPS_NETS_H

#include "tests/ops/build.h"

/* Images of odd sizes through windows, strides, branches, joins and gates, to a few numbers (or,
 * one time in four, to an image). The same seed gives the same network. */
struct hrf_graph *make_net(uint64_t seed);

/* A transformer on the patches of images of odd sizes, or on tokens: class tokens, masks, gates,
 * and what encoders make of their tokens. */
struct hrf_graph *make_sequence_net(uint64_t seed);

/* A transformer on patches with positions, as exporters write it. */
struct hrf_graph *make_exported_transformer(uint64_t seed);

/* One attention over a few more tokens than one block of scores has, each of very few channels. */
struct hrf_graph *make_long_net(uint64_t seed);

/* A convolution, and what may stand before and behind it. */
struct conv_kind {
    int64_t n, channels, rows, columns, out, group;
    int64_t kernel[2], stride[2], dilation[2], pad_begin[2], pad_end[2];
};
/* `x` (n x channels x rows x columns) through BatchNormalization, if `has_norm`, an activation (0
 * to 2; 3: none) and the convolution, then a sum and ReLU, if `has_sum`. */
struct hrf_graph *finish_prologue_net(struct build *b, int32_t x, const struct conv_kind *kind,
                                      int act, bool has_norm, bool has_sum);

#endif
