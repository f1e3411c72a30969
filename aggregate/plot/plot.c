/* plot.c - lines and frames of charts; pages out of files (plot.h). */
#include "aggregate/plot/plot.h"

#include "base/embedded.h"
#include "statistics/precision_recall.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

extern const struct hrf_embedded hrf_plot_files[];

/* Neighbours differ in both; solid for the reference. */
static const char *dashes(size_t index)
{
    static const char *const kinds[] = { "", "7 3", "2 3", "10 3 2 3", "14 5" };
    return kinds[(index + index / HRF_PLOT_COLOURS) % (sizeof kinds / sizeof kinds[0])];
}

void hrf_plot_line(struct hrf_out *out, size_t index)
{
    hrf_out_addf(out,
                 "<path fill=\"none\" stroke=\"var(--s%zu)\" stroke-width=\"2\" "
                 "stroke-linejoin=\"round\" stroke-dasharray=\"%s\" d=\"",
                 index % HRF_PLOT_COLOURS, dashes(index));
}

void hrf_plot_key(struct hrf_out *out, size_t index)
{
    hrf_out_addf(out, "<li><svg class=\"line\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">");
    hrf_plot_line(out, index);
    hrf_out_addf(out, "M0 5h28\"/></svg>");
}

void hrf_plot_frame(struct hrf_out *out, const char *label, int height, const char *x_title)
{
    hrf_plot_scaled(out, label, height, x_title, 1, 1);
}

void hrf_plot_y_title(struct hrf_out *out, const char *title)
{
    hrf_out_markup(out,
                   "<text transform=\"translate(11 %d) rotate(-90)\" "
                   "text-anchor=\"middle\">%s</text>",
                   HRF_PLOT_TOP + HRF_PLOT_SIDE / 2, title);
}

static void begin(struct hrf_out *out, const char *label, int height, const char *x_title,
                  double least, double x_most, double y_most)
{
    hrf_out_markup(out,
                   "<svg viewBox=\"0 0 330 %d\" role=\"img\" aria-label=\"%s\">"
                   "<g class=\"axis\" fill=\"none\">",
                   height, label);
    for (int i = 0; i <= 4; i++) {
        const int at = i * HRF_PLOT_SIDE / 4;
        hrf_out_addf(out, "<path d=\"M%d %dv%dM%d %dh%d\"/>", HRF_PLOT_LEFT + at, HRF_PLOT_TOP,
                     HRF_PLOT_SIDE, HRF_PLOT_LEFT, HRF_PLOT_BOTTOM - at, HRF_PLOT_SIDE);
    }
    hrf_out_adds(out, "</g>");
    for (int i = 0; i <= 4; i += 2) {
        const int at = i * HRF_PLOT_SIDE / 4;
        hrf_out_addf(out,
                     "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%g</text>"
                     "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%g</text>",
                     HRF_PLOT_LEFT + at, HRF_PLOT_BOTTOM + 16, least + (x_most - least) * i / 4,
                     HRF_PLOT_LEFT - 7, HRF_PLOT_BOTTOM - at + 4, least + (y_most - least) * i / 4);
    }
    hrf_out_markup(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>",
                   HRF_PLOT_LEFT + HRF_PLOT_SIDE / 2, HRF_PLOT_BOTTOM + 33, x_title);
}

void hrf_plot_scaled(struct hrf_out *out, const char *label, int height, const char *x_title,
                     double x_most, double y_most)
{
    begin(out, label, height, x_title, 0, x_most, y_most);
}

static void add_diagonal(struct hrf_out *out)
{
    hrf_out_addf(out, "<path d=\"M%d %dL%d %d\" stroke-dasharray=\"4 4\" class=\"base\"/>",
                 HRF_PLOT_LEFT, HRF_PLOT_BOTTOM, HRF_PLOT_LEFT + HRF_PLOT_SIDE, HRF_PLOT_TOP);
}

void hrf_plot_square(struct hrf_out *out, const char *label, int height, const char *x_title)
{
    hrf_plot_frame(out, label, height, x_title);
    add_diagonal(out);
}

void hrf_plot_ranged(struct hrf_out *out, const char *label, int height, const char *x_title,
                     double least, double most)
{
    begin(out, label, height, x_title, least, most, most);
    add_diagonal(out);
}

/* Tenths of a unit, the finest that curves are drawn with: points that would be equal are left out,
 * so that the curve of a large cohort has no more bytes than its plot can show. */
static int tenths(double units)
{
    return (int)lround(10.0 * units);
}

void hrf_plot_roc(struct hrf_out *out, const struct hrf_labelled *items, size_t n, size_t index)
{
    HRF_AUTO_FREE struct hrf_roc_point *points = NULL;
    size_t n_points = 0;
    struct hrf_error err;
    if (hrf_roc_curve(items, n, &points, &n_points, &err) != HRF_OK) {
        hrf_out_fail(out, &err);
        return;
    }
    hrf_plot_line(out, index);
    int last_x = -1, last_y = -1;
    for (size_t i = 0; i < n_points; i++) {
        const double x = HRF_PLOT_LEFT + HRF_PLOT_SIDE * points[i].false_positive_rate;
        const double y = HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * points[i].true_positive_rate;
        if (tenths(x) == last_x && tenths(y) == last_y)
            continue;
        hrf_out_addf(out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x, y);
        last_x = tenths(x);
        last_y = tenths(y);
    }
    hrf_out_adds(out, "\"/>");
}

void hrf_plot_recall(struct hrf_out *out, const struct hrf_labelled *items, size_t n, size_t index)
{
    HRF_AUTO_FREE struct hrf_recall_point *points = NULL;
    size_t n_points = 0;
    struct hrf_error err;
    if (hrf_precision_recall_curve(items, n, &points, &n_points, &err) != HRF_OK) {
        hrf_out_fail(out, &err);
        return;
    }
    hrf_plot_line(out, index);
    int last_x = -1, last_y = -1;
    for (size_t i = 0; i < n_points; i++) {
        const double x = HRF_PLOT_LEFT + HRF_PLOT_SIDE * points[i].recall;
        const double y = HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * points[i].precision;
        if (i == 0)
            hrf_out_addf(out, "M%d %.1f", HRF_PLOT_LEFT, y);
        else if (tenths(x) == last_x && tenths(y) == last_y)
            continue;
        hrf_out_addf(out, "V%.1fH%.1f", y, x);
        last_x = tenths(x);
        last_y = tenths(y);
    }
    hrf_out_adds(out, "\"/>");
}

enum hrf_status hrf_page_write(const char *text, hrf_page_fill *fill, const void *context,
                               const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    for (const char *at = text; *at != '\0';) {
        const char *placeholder = strstr(at, "{{");
        if (placeholder == NULL) {
            hrf_out_adds(out, at);
            break;
        }
        const char *end = strstr(placeholder, "}}");
        char part[32];
        snprintf(part, sizeof part, "%.*s", (int)(end - placeholder - 2), placeholder + 2);
        hrf_out_add(out, at, (size_t)(placeholder - at));
        const struct hrf_embedded *file = hrf_embedded_find(hrf_plot_files, part);
        if (file != NULL)
            hrf_out_adds(out, file->text);
        else
            fill(out, part, context);
        const bool is_line = placeholder > text && placeholder[-1] == '\n' && end[2] == '\n';
        at = end + 2 + is_line;
    }
    return hrf_out_commit(out, err);
}
