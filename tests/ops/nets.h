/* nets.h - random small networks for tests of what works on whole graphs. */
#ifndef HRF_TESTS_OPS_NETS_H
#define HRF_TESTS_OPS_NETS_H

#include "tests/ops/build.h"

/* Images of odd sizes through windows, strides, branches, joins and gates, to a few numbers (or,
 * one time in four, to an image). The same seed gives the same network. */
struct hrf_graph *make_net(uint64_t seed);

#endif
