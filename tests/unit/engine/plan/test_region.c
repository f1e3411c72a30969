/* Parts of a resize: what they need of the input and what they make of it, against the whole. */
#include "base/random.h"
#include "engine/ir/resize.h"
#include "engine/plan/region.h"
#include "tests/ops/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int64_t pick(struct hrf_random *random, int64_t lo, int64_t hi)
{
    return lo + hrf_random_below(random, hi - lo + 1);
}

struct resized {
    struct hrf_graph *graph;
    struct hrf_node *node;
    struct hrf_shape in, out;
};

static struct resized make(struct hrf_random *random)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct build b = build_start(1);
    struct resized r = { .in = { 4, { 1, 1, pick(random, 1, 20), pick(random, 1, 20) } } };
    const bool by_scales = pick(random, 0, 1) == 0;
    a.resize.mode = (enum hrf_resize_mode)pick(random, 0, 2);
    a.resize.coordinates = (enum hrf_resize_coordinates)pick(random, 0, 3);
    a.resize.rounding = (enum hrf_resize_rounding)pick(random, 0, 3);
    a.resize.cubic_a = -0.75f;
    a.resize.exclude_outside = pick(random, 0, 1) == 0;
    for (int i = 0; i < 4; i++) {
        a.resize.scales[i] = !by_scales ? 0 : i < 2 ? 1 : 1 + 0.3f * (float)pick(random, 0, 7);
        a.resize.sizes[i] = i < 2 ? 0 : pick(random, 1, 50);
    }
    const int32_t x = build_input(&b, r.in);
    const int32_t y = build_node(&b, HRF_OP_RESIZE, &x, 1, &a);
    r.graph = build_finish(&b, &y, 1);
    r.node = &r.graph->nodes[0];
    r.out = r.graph->values[r.node->outputs[0]].shape;
    return r;
}

/* Each row of the part by the part's attributes is that row of the whole, of rows that it has. */
static void compare(const struct hrf_resize *whole, const struct hrf_resize *part, int axis,
                    const struct resized *r, const struct hrf_box *need, const struct hrf_box *out)
{
    const int64_t n_in = need->hi[axis] - need->lo[axis], n_out = out->hi[axis] - out->lo[axis];
    int64_t least = n_in, most = -1;
    for (int64_t i = 0; i < n_out; i++) {
        const struct hrf_resize_tap a = hrf_resize_tap_at(whole, axis, r->in.dims[2 + axis],
                                                          r->out.dims[2 + axis], out->lo[axis] + i);
        const struct hrf_resize_tap b = hrf_resize_tap_at(part, axis, n_in, n_out, i);
        for (int t = 0; t < hrf_resize_n(whole); t++) {
            assert_int_equal(b.index[t] + need->lo[axis], a.index[t]);
            assert_true(b.weight[t] == a.weight[t]);
            least = b.index[t] < least ? b.index[t] : least;
            most = b.index[t] > most ? b.index[t] : most;
        }
    }
    assert_int_equal(least, 0); /* no more than is needed */
    assert_int_equal(most, n_in - 1);
}

static void a_part_of_a_resize_needs_and_makes_what_the_whole_does(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(17);
    for (int k = 0; k < 3000; k++) {
        const struct resized r = make(&random);
        struct hrf_box out;
        assert_true(hrf_region_can_split(r.graph, r.node) || r.out.dims[2] * r.out.dims[3] <= 1);
        for (int i = 0; i < 2; i++) {
            out.lo[i] = pick(&random, 0, r.out.dims[2 + i] - 1);
            out.hi[i] = pick(&random, out.lo[i] + 1, r.out.dims[2 + i]);
        }
        const struct hrf_box need = hrf_region_needed(r.graph, r.node, 0, &out);
        const struct hrf_attributes part = hrf_region_attributes(r.graph, r.node, &out);
        for (int axis = 0; axis < 2; axis++)
            compare(&r.node->attributes.resize, &part.resize, axis, &r, &need, &out);
        hrf_graph_destroy(r.graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_resize_needs_and_makes_what_the_whole_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
