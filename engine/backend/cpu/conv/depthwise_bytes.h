/* depthwise_bytes.h - inner loops of depth-wise convolution of 8-bit integers by AVX-512 VNNI.
 *
 * One instruction multiplies four bytes of a lane and adds the products, so the bytes of four rows
 * of a window lie side by side: the rows are interleaved. A register of 64 bytes of an image - 64
 * channels of a pixel, 32 of two or 16 of four - becomes four registers of interleaved bytes,
 * called quarters; quarter j has the channels 4 j to 4 j + 3 of every 16. That order is what
 * interleaving within 128 bits gives, and packing sums within 128 bits undoes it. Weights are 0 for
 * rows outside a window, so one set of lines serves several rows of outputs.
 *
 * A line keeps the columns that a strip of outputs reads, for each quarter those of one phase
 * (column modulo stride) after those of the other: what neighbouring outputs read is contiguous
 * whatever the stride. Sums are exact in 32 bits; then come the steps of struct hrf_requantize,
 * which only take sums well within 32 bits.
 *
 * One thread. Only to be called where hrf_cpu_has_avx512_vnni() says so. Knows nothing of tensors.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_DEPTHWISE_BYTES_H
#define HRF_ENGINE_BACKEND_CPU_CONV_DEPTHWISE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HRF_INTERLEAVED_ROWS = 4,
    HRF_INTERLEAVED_QUARTERS = 4,
    HRF_REGISTER_BYTES = 64, /* of a register */
    HRF_REGISTER_SUMS = 16,  /* of a register */
};

/* Four rows of an image for one block of channels, and the lines that they are interleaved in. */
struct hrf_interleaved_lines {
    const uint8_t *rows[HRF_INTERLEAVED_ROWS]; /* at column `begin` of the line */
    int64_t
        steps[HRF_INTERLEAVED_ROWS]; /* bytes from one pixel to the next; 0: the row is one pixel */
    int64_t begin, end, n;           /* columns of the line; those in [begin, end) are read */
    int64_t n_pixels;                /* of a register: 1, 2 or 4 */
    int64_t n_channels;              /* of the block: at most 64 / n_pixels */
    int64_t stride;                  /* phases */
    uint8_t border;                  /* the value of the other columns, as stored in the lines */
    uint8_t flip;                    /* XORed with a byte of a row to get that of the line */
    /* In bytes. Up to a register may be written beyond a phase's last column. */
    int64_t phase_step, quarter_step;
    uint8_t *to;
};

/* Outputs of a block of channels, of one or more rows that read the same lines. */
struct hrf_interleaved_outputs {
    const uint8_t *lines;
    int64_t group_step, quarter_step; /* bytes; group: of four rows */
    int64_t n_groups, n_taps;
    const int64_t *taps;   /* [n_taps]: bytes from the beginning of the first output's line */
    const int8_t *weights; /* [n_rows][n_groups][n_taps][QUARTERS][BYTES] */
    int64_t n, n_rows;     /* n_rows: 1, 2 or 4 */
    int64_t n_pixels, n_channels;
    /* [QUARTERS][SUMS], in the order of the quarters; the initial values of the sums. */
    const int32_t *start;
    const float *bias, *multiplier;
    void *y;
    int64_t pixel_step, row_step; /* bytes, of y */
    bool to_floats;
    float low, high; /* of floats */
    /* For byte outputs: the zero point that is added, then the bounds, then the bits that are
     * flipped. */
    int16_t zero;
    uint8_t min, max, flip;
};

void hrf_interleaved_lines_fill(const struct hrf_interleaved_lines *lines);
void hrf_interleaved_outputs_compute(const struct hrf_interleaved_outputs *outputs);

#endif
