/* depthwise_weight_gradient_loops.c - see depthwise_weight_gradient.h; compiled once for each
 * instruction set, whose name is HRF_INSTRUCTION_SET. */
#include "engine/backend/cpu/gradient/depthwise_weight_gradient.h"

#include "base/inline.h"
#include "engine/backend/cpu/conv/depthwise_lanes.h"

#define JOIN(set)   hrf_depthwise_weight_line_##set
#define EXPAND(set) JOIN(set)

enum { PARTS = LANES / WIDTH, MOST_TAPS = 7 }; /* sums of 7 taps and dy fill 16 registers of AVX2 */

/* `taps` is a constant, so that the sums stay in registers. */
HRF_ALWAYS_INLINE void add_taps(const struct hrf_depthwise_weight_line *line, const float *x,
                                const int taps, float *to)
{
    const int64_t step = line->stride * LANES, dilation = line->dilation * LANES;
    lanes sums[MOST_TAPS][PARTS];
#pragma GCC unroll 8
    for (int t = 0; t < taps; t++)
#pragma GCC unroll 16
        for (int p = 0; p < PARTS; p++)
            sums[t][p] = LOAD(to + t * LANES + p * WIDTH);
    for (int64_t i = 0; i < line->n; i++)
#pragma GCC unroll 8
        for (int t = 0; t < taps; t++)
#pragma GCC unroll 16
            for (int p = 0; p < PARTS; p++)
                sums[t][p] = MULTIPLY(LOAD(line->dy + i * LANES + p * WIDTH),
                                      LOAD(x + i * step + t * dilation + p * WIDTH), sums[t][p]);
#pragma GCC unroll 8
    for (int t = 0; t < taps; t++)
#pragma GCC unroll 16
        for (int p = 0; p < PARTS; p++)
            STORE(to + t * LANES + p * WIDTH, sums[t][p]);
}

#define CASE(taps)                                                                                 \
    case taps:                                                                                     \
        add_taps(line, x, taps, sums);                                                             \
        break;

void EXPAND(HRF_INSTRUCTION_SET)(const struct hrf_depthwise_weight_line *line, float *sums)
{
    const float *x = line->x;
    for (int64_t first = 0; first < line->window_columns; first += MOST_TAPS) {
        const int64_t rest = line->window_columns - first;
        switch (rest < MOST_TAPS ? rest : MOST_TAPS) {
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
            CASE(7)
        default:
            break;
        }
        x += MOST_TAPS * line->dilation * LANES;
        sums += MOST_TAPS * LANES;
    }
}
