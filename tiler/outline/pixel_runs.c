/* pixel_runs.c - runs of equal pixels, joined by union-find. While rows are read, a run's label is
 * the index of its parent in the union-find forest. */
#include "tiler/outline/pixel_runs.h"

#include "base/alloc.h"
#include "base/array.h"

void hrf_pixel_runs_release(struct hrf_pixel_runs *runs)
{
    hrf_free(runs->items);
    *runs = (struct hrf_pixel_runs){ .n = 0 };
}

static int32_t root_of(struct hrf_pixel_run *runs, int32_t i)
{
    while (runs[i].label != i) {
        runs[i].label = runs[runs[i].label].label;
        i = runs[i].label;
    }
    return i;
}

/* The earlier root stays, so that it is the run of the region's first pixel. */
static void pixel_runs_join(struct hrf_pixel_run *runs, int32_t a, int32_t b)
{
    a = root_of(runs, a);
    b = root_of(runs, b);
    if (a < b)
        runs[b].label = a;
    else
        runs[a].label = b;
}

static enum hrf_status add_row(struct hrf_pixel_runs *runs, const unsigned char *line, int32_t row,
                               int32_t width, unsigned char value, struct hrf_error *err)
{
    for (int32_t x = 0; x < width;) {
        if (line[x] != value) {
            x++;
            continue;
        }
        struct hrf_pixel_run run = { .row = row, .begin = x, .label = (int32_t)runs->n };
        while (x < width && line[x] == value)
            x++;
        run.end = x;
        if (runs->n >= INT32_MAX)
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "a bitmap of more than %d runs of pixels",
                                 INT32_MAX);
        HRF_RESERVE(runs->items, runs->capacity, runs->n + 1);
        runs->items[runs->n++] = run;
    }
    return HRF_OK;
}

/* Joins the runs [first, last) of a row with those of the row above, [above, first). `reach` 1:
 * touching at a corner counts. */
static void join_rows(struct hrf_pixel_run *runs, size_t above, size_t first, size_t last,
                      int32_t reach)
{
    for (size_t i = first, k = above; i < last; i++) {
        while (k < first && runs[k].end + reach <= runs[i].begin)
            k++;
        for (size_t j = k; j < first && runs[j].begin < runs[i].end + reach; j++)
            pixel_runs_join(runs, (int32_t)i, (int32_t)j);
    }
}

/* Parents become numbers; a root comes before all that point to it. */
static void number_regions(struct hrf_pixel_runs *runs)
{
    struct hrf_pixel_run *items = runs->items;
    for (size_t i = 0; i < runs->n; i++)
        items[i].label = root_of(items, (int32_t)i);
    for (size_t i = 0; i < runs->n; i++)
        items[i].label = items[i].label == (int32_t)i ? (int32_t)++runs->n_regions
                                                      : items[items[i].label].label;
}

enum hrf_status hrf_pixel_runs_find(const unsigned char *pixels, int32_t width, int32_t height,
                                    unsigned char value, bool diagonal, struct hrf_pixel_runs *runs,
                                    struct hrf_error *err)
{
    struct hrf_pixel_runs found = { .n = 0 };
    size_t above = 0, first = 0;
    for (int32_t row = 0; row < height; row++) {
        const enum hrf_status status = add_row(&found, pixels + (int64_t)row * width, row, width,
                                               value, err);
        if (status != HRF_OK) {
            hrf_pixel_runs_release(&found);
            return status;
        }
        join_rows(found.items, above, first, found.n, diagonal ? 1 : 0);
        above = first;
        first = found.n;
    }
    number_regions(&found);
    *runs = found;
    return HRF_OK;
}
