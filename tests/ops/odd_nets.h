/* odd_nets.h - random networks whose rows and columns are divided at the worst places: every class
 * of operators, images of a row or a column, windows in nothing but padding, rows that a slice
 * takes away, reductions over any axes.
 */
#ifndef HRF_TESTS_OPS_ODD_NETS_H
#define HRF_TESTS_OPS_ODD_NETS_H

#include "tests/ops/build.h"

/* The same seed gives the same network. Batches are of 1, 3 or 8 images. */
struct hrf_graph *make_odd_net(uint64_t seed);

#endif
