/* plot.h - the drawings of pages as SVG, the style sheet, and pages out of files with placeholders.
 *
 * Charts take their colours from the page's variables, so that one drawing serves light and dark.
 */
#ifndef HRF_AGGREGATE_PLOT_PLOT_H
#define HRF_AGGREGATE_PLOT_PLOT_H

#include "aggregate/plot/out.h"
#include "statistics/metrics.h"

/* How line `index` is drawn: eight colours (--s0 ... of the style sheet) and five kinds of
 * strokes, forty pairs in all. line begins "<path ... d=\""; key begins "<li>" with a piece of the
 * line. */
enum { HRF_PLOT_COLOURS = 8 };
void hrf_plot_line(struct hrf_out *out, size_t index);
void hrf_plot_key(struct hrf_out *out, size_t index);

/* Begins an SVG with a square plot of 0 to 1 in both directions; square: and its diagonal. `height`
 * of 330 units of width; the caller ends it with </svg>. */
enum {
    HRF_PLOT_LEFT = 40,
    HRF_PLOT_TOP = 8,
    HRF_PLOT_SIDE = 270,
    HRF_PLOT_BOTTOM = HRF_PLOT_TOP + HRF_PLOT_SIDE
};
void hrf_plot_frame(struct hrf_out *out, const char *label, int height, const char *x_title);
/* The same of 0 to x_most and 0 to y_most. */
void hrf_plot_scaled(struct hrf_out *out, const char *label, int height, const char *x_title,
                     double x_most, double y_most);
/* The same from `least` to `most` in both directions, with its diagonal. */
void hrf_plot_ranged(struct hrf_out *out, const char *label, int height, const char *x_title,
                     double least, double most);
/* What stands along the upright axis. */
void hrf_plot_y_title(struct hrf_out *out, const char *title);
void hrf_plot_square(struct hrf_out *out, const char *label, int height, const char *x_title);
/* The line `index` of the ROC curve, and of precision by recall: steps, as the average precision
 * sums them. */
void hrf_plot_roc(struct hrf_out *out, const struct hrf_labelled *items, size_t n, size_t index);
void hrf_plot_recall(struct hrf_out *out, const struct hrf_labelled *items, size_t n, size_t index);

/* Writes `text` with its placeholders "{{name}}" filled by `fill`. A line that is a placeholder
 * alone is what fills it, and nothing where that is nothing. "{{report.css}}" is filled here. */
typedef void hrf_page_fill(struct hrf_out *out, const char *name, const void *context);
HRF_CHECKED enum hrf_status hrf_page_write(const char *text, hrf_page_fill *fill,
                                           const void *context, const char *path,
                                           struct hrf_error *err);

#endif
