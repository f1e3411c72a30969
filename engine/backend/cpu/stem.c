#include "engine/backend/cpu/stem.h"

#include "engine/backend/cpu/winograd.h"

enum { TAPS = HRF_STEM_KERNEL / 2, POINTS = HRF_STEM_IN * HRF_STEM_IN };

static int64_t count_far(int64_t kernel)
{
    const int64_t n = kernel - (HRF_STEM_KERNEL - 2);
    return n > 0 ? n : 0;
}

struct hrf_stem hrf_stem_of(int64_t channels, int64_t kernel_rows, int64_t kernel_columns)
{
    return (struct hrf_stem){ .channels = channels,
                              .n_far = { count_far(kernel_rows), count_far(kernel_columns) } };
}

/* Lanes of a phase of rows that have weights at column's point `column`. */
static int64_t count_lanes(const struct hrf_stem *stem, int column)
{
    return (column < HRF_STEM_IN - 1 ? 2 : stem->n_far[1]) * stem->channels;
}

/* Of row's points, likewise: the last is infinity. */
static int end_of_rows(const struct hrf_stem *stem, int64_t phase)
{
    return phase < stem->n_far[0] ? HRF_STEM_IN : HRF_STEM_IN - 1;
}

int64_t hrf_stem_packed_count(const struct hrf_stem *stem, int64_t n_outputs)
{
    int64_t n = 0;
    for (int column = 0; column < HRF_STEM_IN; column++)
        for (int64_t phase = 0; phase < 2; phase++)
            n += count_lanes(stem, column) * end_of_rows(stem, phase) * n_outputs;
    return n;
}

/* u[36] of one channel and lane: the taps of its phase. */
static void transform(const float *w, int64_t rows, int64_t columns, int64_t phase_row,
                      int64_t phase_column, double u[POINTS])
{
    float taps[TAPS * TAPS] = { 0 };
    for (int64_t i = phase_row; i < rows; i += 2)
        for (int64_t j = phase_column; j < columns; j += 2)
            taps[i / 2 * TAPS + j / 2] = w[i * columns + j];
    hrf_winograd_weights(taps, TAPS, u);
}

/* In the order in which they are used: by column's point, by half a column of points, by phase of
 * rows, by lane. */
static void pack_output(const struct hrf_stem *stem, const float *w, int64_t rows, int64_t columns,
                        int64_t n_outputs, float *to)
{
    enum { HALF = HRF_STEM_IN / 2 };
    double u[HRF_STEM_LANES][POINTS];
    const int64_t run = 2 * stem->channels;
    for (int64_t lane = 0; lane < 2 * run; lane++)
        transform(w + lane % stem->channels * rows * columns, rows, columns, lane / run,
                  lane % run / stem->channels, u[lane]);
    for (int column = 0; column < HRF_STEM_IN; column++)
        for (int first = 0; first < HRF_STEM_IN; first += HALF)
            for (int64_t phase = 0; phase < 2; phase++)
                for (int64_t i = 0; i < count_lanes(stem, column); i++)
                    for (int row = first; row < first + HALF && row < end_of_rows(stem, phase);
                         row++, to += n_outputs)
                        *to = (float)u[phase * run + i][row * HRF_STEM_IN + column];
}

void hrf_stem_pack(const struct hrf_stem *stem, const float *w, int64_t rows, int64_t columns,
                   int64_t n_outputs, float *packed)
{
    for (int64_t m = 0; m < n_outputs; m++)
        pack_output(stem, w + m * stem->channels * rows * columns, rows, columns, n_outputs,
                    packed + m);
}
