/* pixel_nets.h - random networks as exporters write them over [N][H][W][C]: blocks of ConvNeXt, of
 * Swin with windows shifted and not, and a product over the pixels as tokens.
 */
#ifndef HRF_TESTS_OPS_PIXEL_NETS_H
#define HRF_TESTS_OPS_PIXEL_NETS_H

#include "tests/ops/build.h"

enum pixel_net { CONVOLUTIONS, WINDOWS, TOKENS, N_PIXEL_NETS };

struct hrf_graph *make_pixel_net(uint64_t seed, enum pixel_net net);

#endif
