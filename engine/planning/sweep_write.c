#include "engine/planning/sweep_write.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "engine/plan/chart.h"
#include "engine/plan/timeline.h"

#include <stdio.h>

static const char *const family_names[] = {
    "spatial", "data", "layers", "pipeline", "bidirectional", "spatial + bidirectional"
};
_Static_assert(sizeof family_names / sizeof family_names[0] == HRF_N_FAMILIES,
               "a name for every family");

const char *hrf_family_name(enum hrf_family family)
{
    return family_names[family];
}

static double images_per_second(const struct hrf_sweep *sweep, const struct hrf_sweep_row *row)
{
    return (double)sweep->batch / row->seconds;
}

/* ---- one picture ---- */

struct picture {
    const char *file, *title, *y_name;
    bool of_memory;
    bool all_precisions; /* spatial in each; else every family named in the first */
    unsigned families;   /* bits */
};

static const struct picture pictures[] = {
    { "memory.svg", "Memory of a rank, spatial", "GiB", true, true, 1u << HRF_FAMILY_SPATIAL },
    { "throughput.svg", "Throughput, spatial", "images/s", false, true, 1u << HRF_FAMILY_SPATIAL },
    { "pipeline.svg", "Pipeline against spatial", "images/s", false, false,
      1u << HRF_FAMILY_SPATIAL | 1u << HRF_FAMILY_LAYERS | 1u << HRF_FAMILY_PIPELINE },
    { "bidirectional.svg", "Spatial, bidirectional and both", "images/s", false, false,
      1u << HRF_FAMILY_SPATIAL | 1u << HRF_FAMILY_BIDIRECTIONAL |
          1u << HRF_FAMILY_SPATIAL_BIDIRECTIONAL },
};
enum { N_PICTURES = sizeof pictures / sizeof pictures[0] };

enum { MOST_SERIES = 16, MOST_POINTS = 64 };

struct drawing {
    struct hrf_chart_series series[MOST_SERIES];
    char names[MOST_SERIES][80];
    struct hrf_chart_point points[MOST_SERIES][MOST_POINTS];
    int32_t n_series;
};

static void add_series(const struct hrf_sweep *sweep, const struct picture *picture,
                       enum hrf_family family, enum hrf_rate precision, bool is_measured,
                       struct drawing *d)
{
    struct hrf_chart_series *s = &d->series[d->n_series];
    struct hrf_chart_point *points = d->points[d->n_series];
    *s = (struct hrf_chart_series){ .points = points };
    for (size_t i = 0; i < sweep->n_rows && s->n_points < MOST_POINTS; i++) {
        const struct hrf_sweep_row *row = &sweep->rows[i];
        if (row->family != family || row->precision != precision || row->is_measured != is_measured)
            continue;
        points[s->n_points++] = (struct hrf_chart_point){ .x = row->n_ranks,
                                                          .y = picture->of_memory
                                                                   ? (double)row->peak_bytes /
                                                                         0x1p30
                                                                   : images_per_second(sweep, row),
                                                          .is_measured = is_measured };
    }
    if (s->n_points == 0)
        return;
    snprintf(d->names[d->n_series], sizeof d->names[0], "%s%s",
             picture->all_precisions ? hrf_rate_name(precision) : family_names[family],
             is_measured ? ", measured" : "");
    s->name = d->names[d->n_series++];
}

static enum hrf_status draw(const struct hrf_sweep *sweep, const struct picture *picture,
                            struct hrf_strbuf *out, struct hrf_error *err)
{
    HRF_AUTO_FREE struct drawing *d = hrf_calloc(1, sizeof *d);
    char title[256];
    if (d == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a picture");
    for (int f = 0; f < HRF_N_FAMILIES; f++)
        for (int r = 0; r < HRF_N_RATES; r++)
            for (int m = 0; m < 2; m++)
                if ((picture->families >> f & 1) != 0 && d->n_series < MOST_SERIES &&
                    (picture->all_precisions || r == (int)sweep->first))
                    add_series(sweep, picture, (enum hrf_family)f, (enum hrf_rate)r, m == 1, d);
    snprintf(title, sizeof title, "%s: %s, %lld px%s%s", picture->title,
             hrf_path_name(sweep->model), (long long)sweep->size,
             picture->all_precisions ? "" : ", ",
             picture->all_precisions ? "" : hrf_rate_name(sweep->first));
    const struct hrf_chart chart = { .title = title,
                                     .x_name = "ranks (filled: measured, hollow: simulated)",
                                     .y_name = picture->y_name,
                                     .series = d->series,
                                     .n_series = d->n_series };
    hrf_chart_svg(&chart, out);
    return hrf_strbuf_status(out, err);
}

/* ---- the numbers ---- */

/* One rank's time in the same precision, measured for measured rows where it was. */
static double single_seconds(const struct hrf_sweep *sweep, const struct hrf_sweep_row *of)
{
    double seconds = 0;
    for (size_t i = 0; i < sweep->n_rows; i++) {
        const struct hrf_sweep_row *row = &sweep->rows[i];
        if (row->n_ranks == 1 && row->precision == of->precision &&
            (seconds == 0 || row->is_measured == of->is_measured))
            seconds = row->seconds;
    }
    return seconds;
}

static void write_csv(const struct hrf_sweep *sweep, struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "family,precision,ranks,layout,origin,seconds_per_batch,images_per_second,"
                         "speedup,efficiency,peak_memory_bytes\n");
    for (size_t i = 0; i < sweep->n_rows; i++) {
        const struct hrf_sweep_row *r = &sweep->rows[i];
        const double speedup = single_seconds(sweep, r) / r->seconds;
        hrf_strbuf_addf(out, "%s,%s,%d,\"%s\",%s,%.6g,%.6g,%.4f,%.4f,%lld\n",
                        family_names[r->family], hrf_rate_name(r->precision), r->n_ranks, r->layout,
                        r->is_measured ? "measured" : "simulated", r->seconds,
                        images_per_second(sweep, r), speedup, speedup / r->n_ranks,
                        (long long)r->peak_bytes);
    }
}

static void add_table(const struct hrf_sweep *sweep, struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "<table><tr><th>layout<th>precision<th>ranks<th>origin<th>ms a batch"
                         "<th>images/s<th>efficiency<th>GiB a rank</tr>\n");
    for (size_t i = 0; i < sweep->n_rows; i++) {
        const struct hrf_sweep_row *r = &sweep->rows[i];
        hrf_strbuf_addf(
            out, "<tr><td>%s<td>%s<td>%d<td>%s<td>%.2f<td>%.2f<td>%.0f %%<td>%.3f</tr>\n",
            r->layout, hrf_rate_name(r->precision), r->n_ranks,
            r->is_measured ? "measured" : "simulated", r->seconds * 1e3,
            images_per_second(sweep, r), 100 * single_seconds(sweep, r) / r->seconds / r->n_ranks,
            (double)r->peak_bytes / 0x1p30);
    }
    hrf_strbuf_adds(out, "</table>\n");
}

static enum hrf_status write_page(const struct hrf_sweep *sweep, struct hrf_strbuf *out,
                                  struct hrf_error *err)
{
    hrf_strbuf_adds(out, "<!doctype html><meta charset=\"utf-8\"><title>Layouts</title>\n<style>"
                         "body{font:14px sans-serif;max-width:1180px;margin:2em auto}"
                         "td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}"
                         "table{border-collapse:collapse}</style>\n<h1>");
    hrf_svg_text(out, hrf_path_name(sweep->model));
    hrf_strbuf_addf(out,
                    ", %lld x %lld px, batches of %lld</h1>\n<p>Machine: ", (long long)sweep->size,
                    (long long)sweep->size, (long long)sweep->batch);
    hrf_svg_text(out, sweep->known.machine.name);
    hrf_strbuf_adds(out, " (");
    hrf_svg_text(out, sweep->known.machine_source);
    hrf_strbuf_adds(out, "). Costs of nodes: ");
    hrf_svg_text(out, sweep->known.cost_source);
    hrf_strbuf_adds(out, ". Filled points were measured, hollow ones simulated.</p>\n");
    for (size_t i = 0; i < N_PICTURES; i++)
        HRF_TRY(draw(sweep, &pictures[i], out, err));
    add_table(sweep, out);
    return hrf_strbuf_status(out, err);
}

static enum hrf_status write_text(const struct hrf_strbuf *text, const char *directory,
                                  const char *name, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    HRF_TRY(hrf_strbuf_status(text, err));
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    return hrf_file_write_atomic(path, text->text, text->length, err);
}

enum hrf_status hrf_sweep_write(const struct hrf_sweep *sweep, const char *directory,
                                struct hrf_error *err)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    HRF_TRY(hrf_path_make_directories(directory, err));
    write_csv(sweep, &text);
    enum hrf_status status = write_text(&text, directory, "sweep.csv", err);
    for (size_t i = 0; i < N_PICTURES && status == HRF_OK; i++) {
        hrf_strbuf_clear(&text);
        status = draw(sweep, &pictures[i], &text, err);
        if (status == HRF_OK)
            status = write_text(&text, directory, pictures[i].file, err);
    }
    hrf_strbuf_clear(&text);
    if (status == HRF_OK)
        status = write_page(sweep, &text, err);
    if (status == HRF_OK)
        status = write_text(&text, directory, "index.html", err);
    hrf_strbuf_release(&text);
    return status;
}
