/* conv_lines.h - the driver of convolutions whose threads keep input rows in a line cache.
 *
 * The work is cut into parts: bands of output rows by strips of columns by slices of the channels;
 * the kernel says what a slice is. A thread takes a part. For a few output rows at a time it asks
 * the kernel to fill the lines under them that are not filled yet, then to compute the rows. A line
 * is the kernel's form of one input row: for example widened, divided into planes, zero-padded. The
 * layout of lines, the tile and the packing of weights are the kernel's own.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_CONV_LINES_H
#define HRF_ENGINE_BACKEND_CPU_CONV_CONV_LINES_H

#include "engine/backend/cpu/conv/own_conv.h"

/* How the work is cut into parts. */
struct hrf_conv_cut {
    int64_t band_rows,
        n_bands; /* of output rows of one image, or of all images with joins_images */
    int64_t strip_columns, n_strips;
    /* The kernel's units of channels are divided among the slices. */
    int64_t n_units, n_slices;
    /* If set, bands continue from one image into the next, and the parts of a slice are
     * consecutive, so that a thread reads few weights. Otherwise the parts of an image are
     * consecutive, so that it reads few pixels. */
    bool joins_images;
};
/* Divides output rows or columns evenly into at most *n bands or strips of *size each. */
void hrf_conv_cut_evenly(int64_t total, int64_t *n, int64_t *size);

struct hrf_conv_part {
    int64_t image; /* 0 with joins_images, where rows are counted through all images */
    int64_t row, n_rows, column, n_columns;
    int64_t slice, unit, end_unit;
};

/* Consecutive output rows of one image. */
struct hrf_conv_run {
    int64_t image, row, n_rows;
};
/* The first run of the n rows from `row` on, counted through all images. */
struct hrf_conv_run hrf_conv_run_of(const struct hrf_conv_shape *shape, int64_t row, int64_t n);

struct hrf_conv_work;

/* A kernel's line cache. Lines lie in a ring buffer. If a kernel needs consecutive lines in
 * consecutive memory, the ring has room for all lines of a part. */
struct hrf_conv_lines {
    struct hrf_conv_cut cut;
    int64_t rows_at_once; /* output rows of one call of compute() */
    int64_t fill_at_once; /* lines of one call of fill(), at most */
    int64_t n_lines;      /* of the ring */
    int64_t line_bytes;   /* from one line to the next */
    bool pads_rows;       /* rows above and below the image also have lines */
    size_t scratch_bytes; /* of a thread: the lines, then the kernel's other scratch */
    /* Fills the lines of rows [y, end) of an image. NULL: compute() does that itself. */
    void (*fill)(const struct hrf_conv_work *work, int64_t image, int64_t y, int64_t end);
    /* Computes output rows [row, row + n_rows) of the part. */
    void (*compute)(const struct hrf_conv_work *work, int64_t row, int64_t n_rows);
};

/* The state of one thread's part. */
struct hrf_conv_work {
    const struct hrf_own_conv *kernel;
    const struct hrf_kernel_call *call;
    const struct hrf_conv_lines *lines;
    const void *source; /* the argument of hrf_conv_lines_run() */
    struct hrf_conv_part part;
    struct hrf_conv_reach columns; /* of the part's outputs */
    char *scratch;
    /* The image whose rows are being filled, its first line, and the number of lines of earlier
     * images in the ring. */
    int64_t image, first_line, n_before;
    int64_t end_line; /* of the part, in the image */
    int64_t filled;   /* lines before this one are filled or no longer needed */
};

/* The line of row y of the image. */
static inline char *hrf_conv_line(const struct hrf_conv_work *w, int64_t y)
{
    const struct hrf_conv_lines *l = w->lines;
    return w->scratch + (w->n_before + y - w->first_line) % l->n_lines * l->line_bytes;
}

/* The most lines of a part whose rows are all computed at once. */
int64_t hrf_conv_lines_under_part(const struct hrf_conv_shape *shape,
                                  const struct hrf_conv_lines *lines);
/* The workspace that the run needs, in bytes. */
size_t hrf_conv_lines_workspace(const struct hrf_own_conv *kernel,
                                const struct hrf_conv_lines *lines);
/* Computes all parts with all threads. `source` is passed to the kernel. */
void hrf_conv_lines_run(const struct hrf_own_conv *kernel, const struct hrf_conv_lines *lines,
                        const struct hrf_kernel_call *call, const void *source);

#endif
