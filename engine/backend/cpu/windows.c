#include "engine/backend/cpu/windows.h"

#include "engine/backend/cpu/cpu_private.h"

#include <string.h>

struct place {
    int64_t image, row, column; /* of an output */
};

static struct place place_of(const struct hrf_windows *w, int64_t pixel)
{
    const int64_t per_image = w->out_rows * w->out_columns;
    return (struct place){ .image = pixel / per_image,
                           .row = pixel % per_image / w->out_columns,
                           .column = pixel % w->out_columns };
}

static void advance(const struct hrf_windows *w, struct place *at)
{
    if (++at->column < w->out_columns)
        return;
    at->column = 0;
    if (++at->row < w->out_rows)
        return;
    at->row = 0;
    at->image++;
}

bool hrf_windows_are_plain(const struct hrf_windows *w)
{
    return (w->type == HRF_F32 || w->words == HRF_PAIRS) &&
           !hrf_cpu_prologue_is_there(&w->prologue);
}

/* n pixels that follow each other without a gap, as words; `pitch`: from one to the next of those.
 */
static void take_dense(const struct hrf_windows *w, const char *pixels, int64_t n, float *to,
                       int64_t pitch)
{
    const float *words = (const float *)(const void *)pixels;
    const bool has_prologue = hrf_cpu_prologue_is_there(&w->prologue);
    if (hrf_windows_are_plain(w) && pitch == w->pixel_words) {
        memcpy(to, words, (size_t)(n * pitch) * sizeof(float));
    } else if (hrf_windows_are_plain(w)) {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * pitch, words + i * w->pixel_words,
                   (size_t)w->pixel_words * sizeof(float));
    } else if (w->type == HRF_F32) {
        hrf_cpu_prologue_lines(&w->prologue, words, to, pitch, w->channels, n);
    } else if (w->words == HRF_PAIRS) {
        hrf_prologue_b16_lines_avx512(&w->prologue, (const uint16_t *)(const void *)pixels,
                                      (uint16_t *)(void *)to, 2 * pitch, w->channels, n);
    } else if (!has_prologue && pitch == w->channels) {
        hrf_widen_lines_avx512(w->type, pixels, to, 0, n * w->channels, 1);
    } else {
        hrf_widen_lines_avx512(w->type, pixels, to, pitch, w->channels, n);
        for (int64_t i = 0; has_prologue && i < n; i++)
            hrf_cpu_prologue_lines(&w->prologue, to + i * pitch, to + i * pitch, pitch, w->channels,
                                   1);
    }
}

int64_t hrf_windows_pixel_bytes(const struct hrf_windows *w)
{
    return w->x_pitch * (int64_t)hrf_dtype_size(w->type);
}

int64_t hrf_windows_pitch(const struct hrf_windows *w)
{
    return hrf_windows_pixel_bytes(w) / (int64_t)sizeof(float);
}

static void take(const struct hrf_windows *w, const char *pixels, int64_t n, float *to,
                 int64_t pitch)
{
    const int64_t at_once = w->x_pitch == w->channels ? n : 1;
    for (int64_t i = 0; i < n; i += at_once)
        take_dense(w, pixels + i * hrf_windows_pixel_bytes(w), at_once, to + i * pitch, pitch);
}

static void zero(const struct hrf_windows *w, int64_t n, float *to)
{
    if (n > 0)
        memset(to, 0, (size_t)(n * w->pixel_words) * sizeof(float));
}

/* Where the window of an output at `at` stands, and which of its positions the image has. */
struct span {
    int64_t from, first, end;
};

static struct span span_of(const struct hrf_windows *w, int axis, int64_t at)
{
    const int64_t n = w->kernel[axis], step = w->dilation[axis];
    const int64_t size = axis == 0 ? w->rows : w->columns;
    const int64_t from = at * w->stride[axis] - w->pad[axis];
    struct span span = { .from = from, .first = 0, .end = n };
    if (from < 0)
        span.first = hrf_least(hrf_ceil_div(-from, step), n);
    if (from + (n - 1) * step >= size)
        span.end = from < size ? hrf_ceil_div(size - from, step) : 0;
    return span;
}

/* One row of a window whose columns are `span` of that row of the image. */
static void take_row(const struct hrf_windows *w, const char *row, struct span span, float *to)
{
    const int64_t step = w->dilation[1], n = span.end - span.first;
    if (n <= 0) {
        zero(w, w->kernel[1], to);
        return;
    }
    zero(w, span.first, to);
    if (step == 1)
        take(w, row + (span.from + span.first) * hrf_windows_pixel_bytes(w), n,
             to + span.first * w->pixel_words, w->pixel_words);
    else
        for (int64_t i = span.first; i < span.end; i++)
            take(w, row + (span.from + i * step) * hrf_windows_pixel_bytes(w), 1,
                 to + i * w->pixel_words, w->pixel_words);
    zero(w, w->kernel[1] - span.end, to + span.end * w->pixel_words);
}

/* Rows [begin, end) of one window. */
static void take_window(const struct hrf_windows *w, const char *image, struct span rows,
                        struct span columns, int64_t begin, int64_t end, float *to)
{
    const int64_t row_bytes = w->columns * hrf_windows_pixel_bytes(w);
    const int64_t row_words = w->kernel[1] * w->pixel_words;
    const bool in_one_piece = w->dilation[1] == 1 && w->x_pitch == w->channels;
    if (hrf_windows_are_plain(w) && (in_one_piece || w->kernel[1] == 1) && rows.first <= begin &&
        rows.end >= end && columns.first == 0 && columns.end == w->kernel[1]) {
        const int64_t step = w->dilation[0] * w->columns * hrf_windows_pitch(w);
        const float *x = (const float *)(const void *)image +
                         (rows.from * w->columns + columns.from) * hrf_windows_pitch(w) +
                         begin * step;
        hrf_copy_lines_avx512(x, step, to, row_words, row_words, end - begin);
        return;
    }
    for (int64_t r = begin; r < end; r++, to += row_words)
        if (r >= rows.first && r < rows.end)
            take_row(w, image + (rows.from + r * w->dilation[0]) * row_bytes, columns, to);
        else
            zero(w, w->kernel[1], to);
}

static void take_windows(const struct hrf_windows *w, const char *x, int64_t first, int64_t n,
                         int64_t begin, int64_t end, float *to, int64_t pitch)
{
    const int64_t image_bytes = w->rows * w->columns * hrf_windows_pixel_bytes(w);
    struct place at = place_of(w, first);
    for (int64_t i = 0; i < n; i++, advance(w, &at), to += pitch)
        take_window(w, x + at.image * image_bytes, span_of(w, 0, at.row), span_of(w, 1, at.column),
                    begin, end, to);
}

bool hrf_windows_are_pixels(const struct hrf_windows *w)
{
    return w->kernel[0] == 1 && w->kernel[1] == 1 && w->pad[0] == 0 && w->pad[1] == 0 &&
           w->stride[0] == 1 && w->stride[1] == 1;
}

void hrf_windows_gather(const struct hrf_windows *w, const char *x, int64_t first, int64_t n,
                        int64_t begin, int64_t end, float *to, int64_t pitch)
{
    if (hrf_windows_are_pixels(w))
        take(w, x + first * hrf_windows_pixel_bytes(w), n, to, pitch);
    else
        take_windows(w, x, first, n, begin, end, to, pitch);
}
