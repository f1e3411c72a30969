/* The networks of the papers, each by a spatial, a pipelined and a mixed layout and in bands: what
 * one rank gives with the whole image. In INT8 the bits are the same. */

#include "engine/model/model.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *model;
    int64_t size; /* px; small: what counts is every kind of join and cut */
};

static const struct row rows[] = {
    { "resnet-v2-101-hires", 32 },
    { "resnet50", 64 },
    { "amoebanet-d:3,16", 64 },
    { "unet:3,8", 64 },
    { "hct", 64 },
    { "hct-softmax", 64 },
    { "inception-v3", 139 },
    { "alexnet:8,16", 224 },
};

static const char *const layouts[] = {
    "spatial=3",
    "stages=3,microbatches=2",
    "spatial=2x2,stages=2,microbatches=2,bidirectional",
};

static struct hrf_graph *make(const struct row *row)
{
    struct hrf_graph *graph = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_shape shape = SHAPE(2, 3, row->size, row->size);
    if (hrf_model_make(row->model, 5, row->size, 1, &graph, &err) != HRF_OK ||
        hrf_graph_set_input_shape(graph, 0, &shape, &err) != HRF_OK ||
        hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        fail_msg("%s: %s", row->model, err.text);
    return graph;
}

static void compare(const struct row *row, enum hrf_precision precision, const char *how,
                    const float *a, const float *b, int64_t n)
{
    const double difference = relative_difference(a, b, n);
    if (difference > (precision == HRF_INT8 ? 0 : 1e-5))
        fail_msg("%s in %s, %s: %g of the largest output apart", row->model,
                 hrf_precision_name(precision), how, difference);
}

static void check(const struct row *row, enum hrf_precision precision)
{
    struct hrf_graph *graph = make(row);
    int64_t n, m;
    float *alone = run_graph_in(graph, "cpu", precision, 1, 1, 1, &n, NULL);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        float *together = run_layout_in(graph, "cpu", precision, layouts[i], NULL, 1, &m);
        assert_int_equal(n, m);
        compare(row, precision, layouts[i], together, alone, n);
        hrf_free(together);
    }
    static const char *const how[] = { "3 bands", "3 bands that keep rows" };
    for (int i = 0; i < 2; i++) {
        float *banded = run_bands_in(graph, "cpu", precision, 3,
                                     i == 0 ? HRF_BANDS_RECOMPUTE : HRF_BANDS_KEEP, 1, &m);
        if (banded != NULL)
            compare(row, precision, how[i], banded, alone, n);
        print_message("%s, %s: 3 layouts, %s%s\n", row->model, hrf_precision_name(precision),
                      banded != NULL ? "" : "it cannot run in ", how[i]);
        hrf_free(banded);
    }
    hrf_free(alone);
    hrf_graph_destroy(graph);
}

static void every_network_of_the_papers_runs_by_every_kind_of_layout(void **state)
{
    (void)state;
    const char *only = getenv("HRF_TEST_MODEL"); /* one of them, to look into it */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (only != NULL && strcmp(only, rows[i].model) != 0)
            continue;
        check(&rows[i], HRF_FP32);
        check(&rows[i], HRF_INT8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_of_the_papers_runs_by_every_kind_of_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
