/* weight_tile_loops.c - see weight_tile.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET.
 *
 * With AVX2 the sums, 16 channels of a pixel and one number of dy fill 15 of 16 registers, and 12
 * multiply-adds of eight lanes need 8 loads. */
#include "engine/backend/cpu/gradient/weight_tile.h"

#ifdef __AVX2__
#include "base/vector_8.h"
#else
#include "base/vector_1.h"
#endif

#define JOIN(set)   hrf_weight_tile_##set
#define EXPAND(set) JOIN(set)

enum {
    ROWS = HRF_WEIGHT_ROWS,
    LANES = HRF_VECTOR_LANES,
    REGISTERS = HRF_WEIGHT_COLUMNS / LANES,
};

#define UNROLLED    _Pragma("GCC unroll 96")
#define EACH_SUM(i) UNROLLED for (int i = 0; i < ROWS * REGISTERS; i++)

void EXPAND(HRF_INSTRUCTION_SET)(const struct hrf_weight_tile *t)
{
    hrf_vector sums[ROWS * REGISTERS], pixel[REGISTERS];
    const float *dy = t->dy;
    EACH_SUM(i) sums[i] = hrf_v_all(0.0f);
    for (int64_t image = 0; image < t->images; image++)
        for (int64_t row = 0; row < t->rows; row++) {
            const float *x = t->x + image * t->image_step + row * t->row_step;
            for (int64_t k = 0; k < t->columns; k++, dy += ROWS, x += t->column_step) {
                UNROLLED for (int c = 0; c < REGISTERS; c++) pixel[c] = hrf_v_load(x + c * LANES);
                UNROLLED for (int i = 0; i < ROWS; i++)
                {
                    const hrf_vector v = hrf_v_all(dy[i]);
                    UNROLLED for (int c = 0; c < REGISTERS; c++)
                        sums[i * REGISTERS + c] = hrf_v_fma(v, pixel[c], sums[i * REGISTERS + c]);
                }
            }
        }
    UNROLLED for (int i = 0; i < ROWS; i++)
    {
        float *to = t->sums + i * t->stride;
        UNROLLED for (int c = 0; c < REGISTERS; c++)
        {
            hrf_vector sum = sums[i * REGISTERS + c];
            if (!t->is_first)
                sum = sum + hrf_v_load(to + c * LANES);
            hrf_v_store(to + c * LANES, sum);
        }
    }
}
