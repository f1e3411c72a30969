/* conv_lines.h - the driver of convolutions whose threads keep input rows in a line cache.
 *
 * The work is cut into parts: bands of output rows by strips of columns by slices of the channels,
 * whose meaning is the kernel's. A thread takes a part, and for each few output rows of it first
 * asks the kernel to fill the lines that they read and that are not there yet, then to compute
 * them. A line is what the kernel makes of one input row: widened, divided into planes, with zeros
 * where the image ends. Everything else about a convolution is a kernel's own: how its lines look,
 * its tile, its packed weights.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_CONV_LINES_H
#define HRF_ENGINE_BACKEND_CPU_CONV_CONV_LINES_H

#include "engine/backend/cpu/conv/own_conv.h"

/* How the work is cut into parts. */
struct hrf_conv_cut {
    int64_t band_rows, n_bands; /* of output rows: of an image, or with joins_images of all */
    int64_t strip_columns, n_strips;
    /* Channels: the kernel's units of them are shared out over slices. */
    int64_t n_units, n_slices;
    /* Bands go on from one image into the next, and the parts of a slice follow each other, so that
     * a thread reads few weights; else those of an image do, so that it reads few pixels. */
    bool joins_images;
};
/* Shares out output rows or columns evenly over at most `n` bands or strips; `size`: of one. */
void hrf_conv_cut_evenly(int64_t total, int64_t *n, int64_t *size);
int64_t hrf_conv_count_parts(const struct hrf_conv_shape *shape, const struct hrf_conv_cut *cut);

struct hrf_conv_part {
    int64_t image; /* 0 with joins_images: rows are then counted through all images */
    int64_t row, n_rows, column, n_columns;
    int64_t slice, unit, end_unit;
};

/* Output rows of one image that follow each other. */
struct hrf_conv_run {
    int64_t image, row, n_rows;
};
/* The first run of n rows that are counted through all images. */
struct hrf_conv_run hrf_conv_run_of(const struct hrf_conv_shape *shape, int64_t row, int64_t n);

struct hrf_conv_work;

/* A kernel's line cache. Lines stand in a ring; for a kernel whose lines must follow each other in
 * memory it has room for all lines of a part. */
struct hrf_conv_lines {
    struct hrf_conv_cut cut;
    int64_t rows_at_once; /* output rows of one call of compute() */
    int64_t fill_at_once; /* lines of one call of fill(), at most */
    int64_t n_lines;      /* of the ring */
    int64_t line_bytes;   /* from line to line */
    bool pads_rows;       /* rows above and below the image have lines, too */
    size_t scratch_bytes; /* of a thread: the lines, then what else the kernel wants */
    /* Makes lines of the rows [y, end) of an image; NULL: compute() does that. */
    void (*fill)(const struct hrf_conv_work *work, int64_t image, int64_t y, int64_t end);
    /* Output rows [row, row + n_rows) of the part. */
    void (*compute)(const struct hrf_conv_work *work, int64_t row, int64_t n_rows);
};

/* What one thread works on. */
struct hrf_conv_work {
    const struct hrf_own_conv *kernel;
    const struct hrf_kernel_call *call;
    const struct hrf_conv_lines *lines;
    const void *source; /* what hrf_conv_lines_run() was given */
    struct hrf_conv_part part;
    struct hrf_conv_reach columns; /* of the part's outputs */
    char *scratch;
    /* Of the image whose rows are being filled: its first line, and how many lines of images before
     * it stand in the ring. */
    int64_t image, first_line, n_before;
    int64_t end_line; /* of the part, in the image */
    int64_t filled;   /* lines before this one are there, or no longer needed */
};

/* Where the line of row y of the image stands. */
static inline char *hrf_conv_line(const struct hrf_conv_work *w, int64_t y)
{
    const struct hrf_conv_lines *l = w->lines;
    return w->scratch + (w->n_before + y - w->first_line) % l->n_lines * l->line_bytes;
}

/* The most lines that a part needs at once if all of its rows are computed at once. */
int64_t hrf_conv_lines_under_part(const struct hrf_conv_shape *shape,
                                  const struct hrf_conv_lines *lines);
/* Bytes that the run needs of the workspace. */
size_t hrf_conv_lines_workspace(const struct hrf_own_conv *kernel,
                                const struct hrf_conv_lines *lines);
/* All parts, by all threads. `source` is passed on. */
void hrf_conv_lines_run(const struct hrf_own_conv *kernel, const struct hrf_conv_lines *lines,
                        const struct hrf_kernel_call *call, const void *source);

#endif
