/* Outlines of cells: by value, and random regions against the cells that they came from. */
#include "aggregate/slide/cell_rings.h"

#include "base/random.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static struct hrf_cell_rings find(const unsigned char *cells, int32_t columns, int32_t rows)
{
    struct hrf_cell_rings rings = { .n = 0 };
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_cell_rings_find(cells, columns, rows, &rings, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return rings;
}

static void a_frame_is_a_ring_with_a_hole(void **state)
{
    (void)state;
    const unsigned char cells[] = { 1, 1, 1, 1, 0, 1, 1, 1, 1 };
    struct hrf_cell_rings rings = find(cells, 3, 3);
    const struct hrf_corner outer[] = { { 0, 0 }, { 3, 0 }, { 3, 3 }, { 0, 3 } };
    assert_int_equal(rings.n, 2);
    assert_true(!rings.items[0].is_hole && rings.items[1].is_hole);
    assert_int_equal(rings.items[0].n, 4);
    assert_memory_equal(rings.items[0].corners, outer, sizeof outer);
    assert_int_equal(rings.items[1].n, 4);
    hrf_cell_rings_release(&rings);
}

static void cells_that_touch_at_a_corner_are_apart(void **state)
{
    (void)state;
    const unsigned char cells[] = { 1, 0, 0, 1 };
    struct hrf_cell_rings rings = find(cells, 2, 2);
    assert_int_equal(rings.n, 2);
    assert_true(!rings.items[0].is_hole && !rings.items[1].is_hole);
    hrf_cell_rings_release(&rings);
    /* A ring that is closed by a corner: its hole touches the outside there. */
    const unsigned char closed[] = { 1, 1, 1, 1, 0, 1, 1, 1, 0 };
    rings = find(closed, 3, 3);
    assert_int_equal(rings.n, 2);
    assert_true(!rings.items[0].is_hole && rings.items[1].is_hole);
    hrf_cell_rings_release(&rings);
    const unsigned char none[] = { 0, 0 };
    rings = find(none, 2, 1);
    assert_int_equal(rings.n, 0);
    hrf_cell_rings_release(&rings);
}

static int64_t area2(const struct hrf_cell_ring *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct hrf_corner a = r->corners[i], b = r->corners[(i + 1) % r->n];
        sum += (int64_t)a.column * b.row - (int64_t)b.column * a.row;
    }
    return sum;
}

/* Which side of every vertical edge a cell's middle is on, counted for all rings together. */
static int crossings(const struct hrf_cell_rings *rings, int32_t column, int32_t row)
{
    int n = 0;
    for (size_t k = 0; k < rings->n; k++)
        for (size_t i = 0; i < rings->items[k].n; i++) {
            const struct hrf_corner a = rings->items[k].corners[i];
            const struct hrf_corner b = rings->items[k].corners[(i + 1) % rings->items[k].n];
            const double y = row + 0.5;
            if (a.column == b.column && a.column <= column && ((a.row < y) != (b.row < y)))
                n++;
        }
    return n;
}

static void no_corner_comes_twice(const struct hrf_cell_ring *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = i + 1; k < r->n; k++)
            assert_false(r->corners[i].column == r->corners[k].column &&
                         r->corners[i].row == r->corners[k].row);
}

static void random_regions_are_their_outlines(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(7);
    for (int round = 0; round < 300; round++) {
        const int32_t columns = 1 + (int32_t)hrf_random_below(&random, 12);
        const int32_t rows = 1 + (int32_t)hrf_random_below(&random, 12);
        const int64_t share = 1 + hrf_random_below(&random, 9);
        unsigned char cells[144];
        int64_t n = 0, sum = 0;
        for (int32_t i = 0; i < columns * rows; i++) {
            cells[i] = hrf_random_below(&random, 10) < share;
            n += cells[i];
        }
        struct hrf_cell_rings rings = find(cells, columns, rows);
        for (size_t k = 0; k < rings.n; k++) {
            no_corner_comes_twice(&rings.items[k]);
            assert_true(rings.items[k].is_hole == (area2(&rings.items[k]) < 0));
            assert_true(k > 0 || !rings.items[k].is_hole);
            sum += area2(&rings.items[k]);
        }
        assert_true(sum == 2 * n);
        for (int32_t i = 0; i < columns * rows; i++)
            assert_int_equal(crossings(&rings, i % columns, i / columns) % 2, cells[i]);
        hrf_cell_rings_release(&rings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_a_ring_with_a_hole),
        cmocka_unit_test(cells_that_touch_at_a_corner_are_apart),
        cmocka_unit_test(random_regions_are_their_outlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
