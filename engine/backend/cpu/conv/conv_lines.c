#include "engine/backend/cpu/conv/conv_lines.h"

#include "engine/backend/cpu/part_queues.h"

void hrf_conv_cut_evenly(int64_t total, int64_t *n, int64_t *size)
{
    *size = hrf_ceil_div(total, *n);
    *n = hrf_ceil_div(total, *size);
}

static int64_t rows_of(const struct hrf_conv_shape *s, const struct hrf_conv_cut *c)
{
    return c->joins_images ? s->n_images * s->out_rows : s->out_rows;
}

static int64_t count_parts(const struct hrf_conv_shape *s, const struct hrf_conv_cut *c)
{
    return (c->joins_images ? 1 : s->n_images) * c->n_bands * c->n_strips * c->n_slices;
}

static struct hrf_conv_part part_of(const struct hrf_conv_shape *s, const struct hrf_conv_cut *c,
                                    int64_t i)
{
    int64_t image = 0, band, strip, slice;
    if (c->joins_images) {
        band = i % c->n_bands;
        strip = i / c->n_bands % c->n_strips;
        slice = i / c->n_bands / c->n_strips;
    } else {
        slice = i % c->n_slices;
        strip = i / c->n_slices % c->n_strips;
        band = i / c->n_slices / c->n_strips % c->n_bands;
        image = i / c->n_slices / c->n_strips / c->n_bands;
    }
    const int64_t row = band * c->band_rows, column = strip * c->strip_columns;
    return (struct hrf_conv_part){ .image = image,
                                   .row = row,
                                   .n_rows = hrf_min(c->band_rows, rows_of(s, c) - row),
                                   .column = column,
                                   .n_columns = hrf_min(c->strip_columns, s->out_columns - column),
                                   .slice = slice,
                                   .unit = c->n_units * slice / c->n_slices,
                                   .end_unit = c->n_units * (slice + 1) / c->n_slices };
}

struct hrf_conv_run hrf_conv_run_of(const struct hrf_conv_shape *s, int64_t row, int64_t n)
{
    const int64_t in_image = row % s->out_rows;
    return (struct hrf_conv_run){ row / s->out_rows, in_image, hrf_min(n, s->out_rows - in_image) };
}

/* The lines under a run of output rows. */
static struct hrf_conv_reach lines_of(const struct hrf_conv_shape *s,
                                      const struct hrf_conv_lines *l,
                                      const struct hrf_conv_run *run)
{
    struct hrf_conv_reach r = hrf_conv_reach_of(s, 0, run->row, run->n_rows);
    if (l->pads_rows) {
        r.begin = 0;
        r.end = r.n;
    }
    return r;
}

int64_t hrf_conv_lines_under_part(const struct hrf_conv_shape *s, const struct hrf_conv_lines *l)
{
    int64_t most = 0;
    for (int64_t band = 0; band < l->cut.n_bands; band++) {
        const int64_t first = band * l->cut.band_rows;
        const int64_t end = hrf_min(first + l->cut.band_rows, rows_of(s, &l->cut));
        int64_t n = 0;
        for (int64_t row = first; row < end;) {
            const struct hrf_conv_run run = hrf_conv_run_of(s, row, end - row);
            const struct hrf_conv_reach reach = lines_of(s, l, &run);
            n += reach.end - reach.begin;
            row += run.n_rows;
        }
        most = hrf_max(most, n);
    }
    return most;
}

/* Starts an image: `run` is the part's rows in it. */
static void begin_image(struct hrf_conv_work *w, const struct hrf_conv_run *run)
{
    const struct hrf_conv_reach r = lines_of(&w->kernel->shape, w->lines, run);
    w->n_before += w->end_line - w->first_line;
    w->image = run->image;
    w->first_line = w->filled = r.first + r.begin;
    w->end_line = r.first + r.end;
}

/* Fills those lines under output rows [row, row + n_rows) that are not filled yet. */
static void fill_under(struct hrf_conv_work *w, int64_t row, int64_t n_rows)
{
    const struct hrf_conv_shape *s = &w->kernel->shape;
    const struct hrf_conv_part *p = &w->part;
    for (const int64_t end_row = row + n_rows; row < end_row;) {
        struct hrf_conv_run run = hrf_conv_run_of(s, row, p->row + p->n_rows - row);
        run.image += p->image;
        if (run.image != w->image)
            begin_image(w, &run);
        run.n_rows = hrf_min(run.n_rows, end_row - row);
        const struct hrf_conv_reach r = hrf_conv_reach_of(s, 0, run.row, run.n_rows);
        const int64_t end = hrf_min(r.first + r.n, w->end_line);
        w->filled = hrf_max(w->filled, r.first);
        while (w->filled < end) {
            const int64_t next = hrf_min(w->end_line, w->filled + w->lines->fill_at_once);
            w->lines->fill(w, w->image, w->filled, next);
            w->filled = next;
        }
        row += run.n_rows;
    }
}

static void run_part(const void *context, int64_t i, int64_t before, void *scratch)
{
    struct hrf_conv_work w = *(const struct hrf_conv_work *)context;
    const struct hrf_conv_shape *s = &w.kernel->shape;
    const struct hrf_conv_lines *l = w.lines;
    (void)before;
    w.part = part_of(s, &l->cut, i);
    w.columns = hrf_conv_reach_of(s, 1, w.part.column, w.part.n_columns);
    w.scratch = scratch;
    const int64_t end = w.part.row + w.part.n_rows;
    for (int64_t row = w.part.row; row < end; row += l->rows_at_once) {
        const int64_t n = hrf_min(l->rows_at_once, end - row);
        if (l->fill != NULL)
            fill_under(&w, row, n);
        l->compute(&w, row, n);
    }
}

size_t hrf_conv_lines_workspace(const struct hrf_own_conv *k, const struct hrf_conv_lines *l)
{
    return hrf_parts_workspace(k->n_threads, l->scratch_bytes);
}

void hrf_conv_lines_run(const struct hrf_own_conv *k, const struct hrf_conv_lines *l,
                        const struct hrf_kernel_call *call, const void *source)
{
    const struct hrf_conv_work work = {
        .kernel = k, .call = call, .lines = l, .source = source, .image = -1
    };
    hrf_parts_run(call->workspace, k->n_threads, count_parts(&k->shape, &l->cut), l->scratch_bytes,
                  run_part, &work);
}
