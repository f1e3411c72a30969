/* The driver of line caches with a kernel that only notes what it is asked for: every output is
 * computed once, and the lines under it are there, whatever the shape and the cut. */
#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "base/random.h"
#include "engine/backend/cpu/conv/conv_lines.h"

#include <omp.h>
#include <string.h>

enum { MAX_OUTPUTS = 4096, N_CASES = 400, NO_ROW = -1000 };

/* What a line is made of: the row that it was filled with, and of which image. */
struct line {
    int64_t image, y;
};

struct noting_kernel {
    struct hrf_own_conv own;
    struct hrf_conv_lines lines;
    int times[MAX_OUTPUTS]; /* [images][rows][columns][units]: computed */
    int n_wrong;            /* lines that were not there */
};

static void fill(const struct hrf_conv_work *w, int64_t image, int64_t y, int64_t end)
{
    for (; y < end; y++) {
        const struct line line = { image, y };
        memcpy(hrf_conv_line(w, y), &line, sizeof line);
    }
}

/* The lines of one run of rows, the first of which stands at `first`; 0: in the ring. */
static int count_wrong(const struct hrf_conv_work *w, const struct hrf_conv_run *run,
                       const char *first)
{
    const struct hrf_conv_shape *s = &w->kernel->shape;
    int n_wrong = 0;
    for (int64_t i = 0; i < run->n_rows; i++)
        for (int64_t tap = 0; tap < s->window.kernel[0]; tap++) {
            const int64_t row = run->row + i;
            const int64_t y = hrf_window_first(&s->window, 0, row) + tap * s->window.dilation[0];
            const int64_t nth = y - hrf_window_first(&s->window, 0, run->row);
            struct line line = { NO_ROW, NO_ROW };
            if (!hrf_conv_tap_exists(s, 0, row, tap) && first == NULL)
                continue;
            memcpy(&line, first != NULL ? first + nth * w->lines->line_bytes : hrf_conv_line(w, y),
                   sizeof line);
            n_wrong += line.image != run->image || line.y != y;
        }
    return n_wrong;
}

static void compute(const struct hrf_conv_work *w, int64_t row, int64_t n_rows)
{
    struct noting_kernel *k = (struct noting_kernel *)(uintptr_t)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_conv_part *p = &w->part;
    const char *line = w->scratch;
    int n_wrong = 0;
    for (const int64_t end = row + n_rows; row < end;) {
        struct hrf_conv_run run = hrf_conv_run_of(s, row, end - row);
        run.image += p->image;
        n_wrong += count_wrong(w, &run, w->lines->pads_rows ? line : NULL);
        line += hrf_window_span(&s->window, 0, run.n_rows) * w->lines->line_bytes;
        row += run.n_rows;
        for (int64_t i = 0; i < run.n_rows * p->n_columns * (p->end_unit - p->unit); i++) {
            const int64_t unit = p->unit + i % (p->end_unit - p->unit);
            const int64_t column = p->column + i / (p->end_unit - p->unit) % p->n_columns;
            const int64_t y = run.row + i / (p->end_unit - p->unit) / p->n_columns;
            const int64_t at = ((run.image * s->out_rows + y) * s->out_columns + column) *
                                   w->lines->cut.n_units +
                               unit;
#pragma omp atomic
            k->times[at]++;
        }
    }
#pragma omp atomic
    k->n_wrong += n_wrong;
}

static struct hrf_random numbers;

static int64_t any(int64_t low, int64_t high)
{
    return low + hrf_random_below(&numbers, high - low + 1);
}

static struct hrf_conv_shape any_shape(void)
{
    struct hrf_conv_shape s = { .n_images = any(1, 3), .rows = any(1, 9), .columns = any(1, 9) };
    for (int i = 0; i < 2; i++) {
        s.window.kernel[i] = any(1, 4);
        s.window.stride[i] = any(1, 5);
        s.window.dilation[i] = any(1, 2);
        s.window.pad_begin[i] = any(0, 4);
    }
    s.out_rows = any(1, 6);
    s.out_columns = any(1, 6);
    return s;
}

static void choose(struct noting_kernel *k, bool joins_images)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    struct hrf_conv_lines *l = &k->lines;
    struct hrf_conv_cut *c = &l->cut;
    *l = (struct hrf_conv_lines){ .fill = fill,
                                  .compute = compute,
                                  .line_bytes = sizeof(struct line),
                                  .pads_rows = joins_images };
    c->joins_images = joins_images;
    c->n_units = any(1, 5);
    c->n_slices = any(1, c->n_units);
    c->n_bands = any(1, 4);
    c->n_strips = any(1, 4);
    hrf_conv_cut_evenly((joins_images ? s->n_images : 1) * s->out_rows, &c->n_bands, &c->band_rows);
    hrf_conv_cut_evenly(s->out_columns, &c->n_strips, &c->strip_columns);
    if (joins_images) {
        l->rows_at_once = c->band_rows;
        l->n_lines = l->fill_at_once = hrf_conv_lines_under_part(s, l);
    } else {
        l->rows_at_once = any(1, c->band_rows);
        l->fill_at_once = any(1, 3);
        l->n_lines = hrf_window_span(&s->window, 0, l->rows_at_once) + l->fill_at_once - 1;
    }
    l->scratch_bytes = (size_t)(l->n_lines * l->line_bytes);
}

static void run_case(bool joins_images)
{
    struct noting_kernel k = { .own.shape = any_shape(), .own.n_threads = any(1, 3) };
    choose(&k, joins_images);
    omp_set_num_threads((int)k.own.n_threads);
    const size_t n_bytes = hrf_conv_lines_workspace(&k.own, &k.lines);
    void *workspace = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    memset(workspace, 0xff, n_bytes);
    const struct hrf_kernel_call call = { .workspace = workspace };
    hrf_conv_lines_run(&k.own, &k.lines, &call, NULL);
    hrf_free(workspace);
    assert_int_equal(k.n_wrong, 0);
    const int64_t n = k.own.shape.n_images * k.own.shape.out_rows * k.own.shape.out_columns *
                      k.lines.cut.n_units;
    for (int64_t i = 0; i < MAX_OUTPUTS; i++)
        assert_int_equal(k.times[i], i < n ? 1 : 0);
}

static void lines_in_a_ring_are_there_when_rows_are_computed(void **state)
{
    (void)state;
    numbers = hrf_random_init(1);
    for (int i = 0; i < N_CASES; i++)
        run_case(false);
}

static void lines_of_bands_over_several_images_follow_each_other(void **state)
{
    (void)state;
    numbers = hrf_random_init(2);
    for (int i = 0; i < N_CASES; i++)
        run_case(true);
}

static void a_reach_says_what_is_padding(void **state)
{
    (void)state;
    const struct hrf_conv_shape s = { .rows = 5,
                                      .columns = 4,
                                      .window = { .kernel = { 3, 3 },
                                                  .stride = { 2, 1 },
                                                  .dilation = { 1, 2 },
                                                  .pad_begin = { 1, 2 } } };
    const struct hrf_conv_reach rows = hrf_conv_reach_of(&s, 0, 0, 3); /* rows -1 to 5 */
    assert_int_equal(rows.first, -1);
    assert_int_equal(rows.n, 7);
    assert_int_equal(rows.begin, 1);
    assert_int_equal(rows.end, 6);
    const struct hrf_conv_reach columns = hrf_conv_reach_of(&s, 1, 3, 1); /* columns 1 to 5 */
    assert_int_equal(columns.first, 1);
    assert_int_equal(columns.n, 5);
    assert_int_equal(columns.begin, 0);
    assert_int_equal(columns.end, 3);
    const struct hrf_conv_reach outside = hrf_conv_reach_of(&s, 0, 4, 2); /* rows 7 to 11 */
    assert_int_equal(outside.begin, outside.end);
    assert_false(hrf_conv_tap_exists(&s, 1, 0, 0));
    assert_true(hrf_conv_tap_exists(&s, 1, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_in_a_ring_are_there_when_rows_are_computed),
        cmocka_unit_test(lines_of_bands_over_several_images_follow_each_other),
        cmocka_unit_test(a_reach_says_what_is_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
