/* components.c - the moments of connected runs of pixels. */
#include "aggregate/camelyon16/components.h"

#include <math.h>

void hrf_components_destroy(struct hrf_components *components)
{
    if (components == NULL)
        return;
    hrf_pixel_runs_release(&components->runs);
    hrf_free(components->items);
    hrf_free(components);
}

/* Sums over a component's pixels, relative to its first pixel so that the squares stay exact. */
struct sums {
    int64_t n, row, column, row_row, row_column, column_column;
    int32_t row0, column0;
    struct hrf_component box;
};

/* 0 + 1 + ... + (n - 1), and of the squares. */
static int64_t sum_below(int64_t n)
{
    return n * (n - 1) / 2;
}

static int64_t squares_below(int64_t n)
{
    return (n - 1) * n * (2 * n - 1) / 6;
}

static void add_run(struct sums *s, const struct hrf_pixel_run *run)
{
    if (s->n == 0) {
        s->row0 = run->row;
        s->column0 = run->begin;
        s->box = (struct hrf_component){ .row_begin = run->row,
                                         .column_begin = run->begin,
                                         .column_end = run->end };
    }
    const int64_t row = run->row - s->row0, begin = run->begin - s->column0,
                  end = run->end - s->column0, n = run->end - run->begin;
    const int64_t columns = sum_below(end) - sum_below(begin);
    s->n += n;
    s->row += n * row;
    s->row_row += n * row * row;
    s->column += columns;
    s->row_column += row * columns;
    s->column_column += squares_below(end) - squares_below(begin);
    s->box.row_end = run->row + 1;
    if (run->begin < s->box.column_begin)
        s->box.column_begin = run->begin;
    if (run->end > s->box.column_end)
        s->box.column_end = run->end;
}

static struct hrf_component finish(const struct sums *s)
{
    struct hrf_component c = s->box;
    /* The differences lose up to 9 digits; long double has 3 more than double. */
    const long double n = (long double)s->n;
    const long double row = (long double)s->row / n, column = (long double)s->column / n;
    const double rr = (double)((long double)s->row_row / n - row * row);
    const double cc = (double)((long double)s->column_column / n - column * column);
    const double rc = (double)((long double)s->row_column / n - row * column);
    const double spread = sqrt((rr - cc) * (rr - cc) + 4.0 * rc * rc);
    const double large = fmax(0.0, (rr + cc + spread) / 2.0);
    const double small = fmax(0.0, (rr + cc - spread) / 2.0);
    c.area = s->n;
    c.row = s->row0 + (double)row;
    c.column = s->column0 + (double)column;
    c.major_axis = 4.0 * sqrt(large);
    c.eccentricity = large > 0.0 ? sqrt(1.0 - small / large) : 0.0;
    return c;
}

static void measure(struct hrf_components *c)
{
    HRF_AUTO_FREE struct sums *sums = hrf_calloc(c->n_items + 1, sizeof *sums);
    c->items = hrf_alloc_array(c->n_items + 1, sizeof *c->items);
    for (size_t i = 0; i < c->runs.n; i++)
        add_run(&sums[c->runs.items[i].label - 1], &c->runs.items[i]);
    for (size_t i = 0; i < c->n_items; i++)
        c->items[i] = finish(&sums[i]);
}

enum hrf_status hrf_components_find(const unsigned char *pixels, int32_t width, int32_t height,
                                    unsigned char value, bool diagonal, struct hrf_components **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_components) c = hrf_calloc(1, sizeof *c);
    HRF_TRY(hrf_pixel_runs_find(pixels, width, height, value, diagonal, &c->runs, err));
    c->n_items = c->runs.n_regions;
    measure(c);
    HRF_MOVE(*out, c);
    return HRF_OK;
}

int32_t hrf_components_at(const struct hrf_components *components, int32_t row, int32_t column)
{
    size_t low = 0, high = components->runs.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct hrf_pixel_run *run = &components->runs.items[middle];
        if (run->row < row || (run->row == row && run->end <= column))
            low = middle + 1;
        else
            high = middle;
    }
    const struct hrf_pixel_run *run = &components->runs.items[low];
    return low < components->runs.n && run->row == row && run->begin <= column ? run->label : 0;
}
