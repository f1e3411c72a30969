/* The CPU's outputs that are carried to a device: written, read back, and compared with what is
 * right, of another image, or of a wrong sign. */
#include "base/directory.h"
#include "engine/check/check_outputs.h"
#include "tests/unit/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void outputs_are_carried_and_compared(void **state)
{
    const struct hrf_check_network network = { "resnet18", HRF_FP32, 32, 9 };
    struct hrf_graph *graph = NULL;
    struct hrf_expected made, carried;
    struct hrf_error err = { .text = "" };
    char folder[] = "/tmp/hrf-outputs-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    must(hrf_check_graph(NULL, network.model, network.size, network.batch, &graph, &err), &err);
    must(hrf_expected_init(graph, &network, folder, false, &carried, &err), &err);
    assert_null(carried.outputs); /* nothing there yet */
    hrf_expected_release(&carried);
    must(hrf_expected_init(graph, &network, NULL, true, &made, &err), &err);
    must(hrf_expected_write(&made, &network, folder, &err), &err);
    must(hrf_expected_init(graph, &network, folder, false, &carried, &err), &err);
    assert_int_equal(carried.n_images, 9);
    for (int32_t i = 0; i < made.made.n_ranges; i++)
        assert_true(fabsf(made.made.ranges[i].high - carried.made.ranges[i].high) <=
                    0.006f * fabsf(made.made.ranges[i].high));

    float outputs[9 * 4];
    const int64_t each = carried.n_each;
    assert_int_equal(each, 4);
    for (int i = 0; i < 9 * 4; i++)
        outputs[i] = made.outputs[i];
    struct hrf_likeness likeness = hrf_expected_compare(&carried, HRF_FP32, outputs, each);
    assert_true(hrf_likeness_is_good(&likeness, HRF_FP32) && likeness.cosine > 0.99999);
    /* Each image in its neighbour's place: in a network of random weights they are much alike. */
    for (int i = 0; i < 9 * 4; i++)
        outputs[i] = made.outputs[(i + 4) % (9 * 4)];
    likeness = hrf_expected_compare(&carried, HRF_FP32, outputs, each);
    assert_true(likeness.cosine < 0.5);
    assert_false(hrf_likeness_is_good(&likeness, HRF_INT8));
    for (int i = 0; i < 9 * 4; i++)
        outputs[i] = i == 7 ? NAN : made.outputs[i];
    likeness = hrf_expected_compare(&carried, HRF_FP32, outputs, each);
    assert_false(hrf_likeness_is_good(&likeness, HRF_INT8));
    hrf_expected_release(&carried);

    /* What the emulated GPU gives in 8 bits is compared with its own, in other precisions not. */
    made.emulated[0].outputs = hrf_calloc(HRF_EMULATED_IMAGES * 4, sizeof(float));
    for (int i = 0; i < HRF_EMULATED_IMAGES * 4; i++)
        made.emulated[0].outputs[i] = made.outputs[(i + 4) % (9 * 4)];
    must(hrf_expected_write(&made, &network, folder, &err), &err);
    must(hrf_expected_init(graph, &network, folder, false, &carried, &err), &err);
    for (int i = 0; i < 9 * 4; i++)
        outputs[i] = made.outputs[(i + 4) % (9 * 4)];
    likeness = hrf_expected_compare(&carried, HRF_INT8, outputs, each);
    assert_true(likeness.by_emulation && hrf_likeness_is_good(&likeness, HRF_INT8));
    likeness = hrf_expected_compare(&carried, HRF_BF16, outputs, each);
    assert_false(likeness.by_emulation || hrf_likeness_is_good(&likeness, HRF_BF16));
    likeness = hrf_expected_compare(&carried, HRF_INT8, made.outputs, each);
    assert_false(hrf_likeness_is_good(&likeness, HRF_INT8));
    hrf_expected_release(&carried);
    /* Without them, networks that need them have wide limits. */
    likeness = (struct hrf_likeness){ .difference = 0.03, .cosine = 0.9 };
    assert_false(hrf_likeness_is_good(&likeness, HRF_INT8));
    likeness.is_rough = true;
    assert_true(hrf_likeness_is_good(&likeness, HRF_INT8));
    likeness.cosine = 0.8;
    assert_false(hrf_likeness_is_good(&likeness, HRF_INT8));

    /* A file of another network is refused. */
    struct hrf_check_network other = network;
    other.model = "resnet34";
    must(hrf_expected_write(&made, &other, folder, &err), &err);
    hrf_graph_destroy(graph);
    graph = NULL;
    must(hrf_check_graph(NULL, other.model, other.size, other.batch, &graph, &err), &err);
    assert_int_equal(hrf_expected_init(graph, &other, folder, false, &carried, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "resnet34-32x9.json: 'ranges' has "));
    hrf_expected_release(&carried);
    hrf_expected_release(&made);
    hrf_graph_destroy(graph);
    assert_int_equal(hrf_path_remove_tree(folder, NULL), HRF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_carried_and_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
