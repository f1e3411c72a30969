/* Built-in architectures against the figures their authors give. */
#include "base/directory.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/model/model.h"
#include "engine/onnx/onnx.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters: torchvision's counts (trainable) and two running statistics for each BatchNorm
 * channel. GMAC per image: torchvision's table; for the hires nets the figures computed from
 * the paper's code. AmoebaNet-D (18, 208): GPipe's 82 M. */
static const struct {
    const char *name;
    int64_t n_classes, parameters, batch_norm_channels;
    double gmac;
} known[] = {
    { "resnet18", 1000, 11689512, 4800, 1.814 },
    { "resnet34", 1000, 21797672, 8512, 3.664 },
    { "resnet50", 1000, 25557032, 26560, 4.089 },
    { "resnet101", 1000, 44549160, 52672, 7.801 },
    { "inception-v3", 1000, 23834568, 17216, 5.713 },
    { "alexnet", 1000, 61100840, 0, 0.714 },
    { "amoebanet-d:18,208", 1000, 81505540, 84058, 10.019 },
    { "hct", 4, 1739092 + 5056, 1808, 1.248 }, /* and the random features */
    { "unet", 2, 31037698, 5888, 48.172 },
    { "resnet-v2-101-hires", 10, 0, 0, 50.561 },
    { "resnet-v2-110-hires", 10, 0, 0, 55.276 },
};

static void parameters_and_operations_are_the_published_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        HRF_AUTO(hrf_graph) g = NULL;
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_model_summary summary;
        if (hrf_model_make(known[i].name, known[i].n_classes, 0, 1, &g, &err) != HRF_OK)
            fail_msg("%s", err.text);
        struct hrf_shape shape = g->values[g->inputs[0]].shape;
        shape.dims[0] = 2;
        assert_int_equal(hrf_graph_set_input_shape(g, 0, &shape, &err), HRF_OK);
        if (hrf_graph_infer_shapes(g, &err) != HRF_OK)
            fail_msg("%s", err.text);
        assert_int_equal(hrf_model_inspect(g, &summary, &err), HRF_OK);
        double gmac = summary.gop_per_image / 2;
        if (gmac < known[i].gmac - 0.001 || gmac > known[i].gmac + 0.001)
            fail_msg("%s: %.4f GMAC, not %.4f", known[i].name, gmac, known[i].gmac);
        if (known[i].parameters > 0)
            assert_int_equal(summary.n_parameters,
                             known[i].parameters + 2 * known[i].batch_norm_channels);
        assert_int_equal(summary.batch, 2);
        hrf_model_summary_release(&summary);
    }
}

static void the_hires_net_grows_with_its_image(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_model_make("resnet-v2-101-hires", 2, 512, 1, &g, &err), HRF_OK);
    int32_t fc = hrf_graph_find_value(g, "fc.weight");
    assert_int_equal(g->values[fc].shape.dims[1], 256 * 16 * 16);
    struct hrf_shape wrong = { .rank = 4, .dims = { 1, 3, 256, 256 } };
    assert_int_equal(hrf_graph_set_input_shape(g, 0, &wrong, &err), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "the inner sizes 16384 and 65536 differ"));
}

static void the_seed_decides_every_weight(void **state)
{
    (void)state;
    char hash[3][65];
    for (uint64_t i = 0; i < 3; i++) {
        HRF_AUTO(hrf_graph) g = NULL;
        assert_int_equal(hrf_model_make("resnet18", 2, 64, i / 2, &g, NULL), HRF_OK);
        assert_int_equal(hrf_graph_hash(g, hash[i], NULL), HRF_OK);
    }
    assert_string_equal(hash[0], hash[1]);
    assert_string_not_equal(hash[1], hash[2]);
}

static void a_made_model_survives_its_file(void **state)
{
    (void)state;
    char directory[] = "/tmp/hrf-model-XXXXXX", before[65], after[65];
    assert_non_null(mkdtemp(directory));
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "m.onnx");
    static const char *const names[] = { "resnet18",     "resnet-v2-101-hires", "googlenet",
                                         "inception-v3", "amoebanet-d:3,32",    "unet:3,8",
                                         "hct-softmax" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        HRF_AUTO(hrf_graph) g = NULL;
        HRF_AUTO(hrf_graph) back = NULL;
        assert_int_equal(hrf_model_make(names[i], 3, 0, 1, &g, NULL), HRF_OK);
        assert_int_equal(hrf_onnx_write(g, path, NULL), HRF_OK);
        assert_int_equal(hrf_onnx_read(path, &back, NULL), HRF_OK);
        assert_int_equal(hrf_graph_hash(g, before, NULL), HRF_OK);
        assert_int_equal(hrf_graph_hash(back, after, NULL), HRF_OK);
        assert_string_equal(before, after);
    }
    assert_int_equal(hrf_path_remove_tree(directory, NULL), HRF_OK);
}

static void wrong_names_and_sizes_are_refused(void **state)
{
    (void)state;
    struct hrf_graph *g = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_model_make("resnet51", 2, 0, 1, &g, &err), HRF_E_USER);
    assert_non_null(
        strstr(err.text, "there is no built-in model 'resnet51' (did you mean 'resnet"));
    assert_int_equal(hrf_model_make("resnet-v2-101-hires", 2, 100, 1, &g, &err), HRF_E_USER);
    assert_string_equal(err.text, "resnet-v2-101-hires cannot have images of 100 px: at least 32 "
                                  "and a multiple of 32 are needed");
    assert_int_equal(hrf_model_make("alexnet", 2, 300, 1, &g, &err), HRF_E_USER);
    /* A last map of less than a pool: once a division by zero. */
    assert_int_equal(hrf_model_make("alexnet", 2, 63, 1, &g, &err), HRF_E_USER);
    assert_int_equal(hrf_model_make("resnet18", 0, 0, 1, &g, &err), HRF_E_USER);
    static const char *const wrong[] = { "amoebanet-d:4,64",
                                         "amoebanet-d:3,60",
                                         "amoebanet-d:3",
                                         "amoebanet-d:3,64,1",
                                         "amoebanet-d:",
                                         "amoebanet-d:-3,64",
                                         "amoebanet-d:99999999999999999999,64" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(hrf_model_make(wrong[i], 2, 0, 1, &g, &err), HRF_E_USER);
        assert_non_null(strstr(err.text, "is no model: give amoebanet-d:L,F: "));
    }
    assert_int_equal(hrf_model_make("unet:9,4", 2, 0, 1, &g, &err), HRF_E_USER);
    assert_int_equal(hrf_model_make("unet:5,4", 2, 100, 1, &g, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "at least 16 and a multiple of 16 are needed"));
    assert_int_equal(hrf_model_make("resnet18:3,4", 2, 0, 1, &g, &err), HRF_E_USER);
    assert_string_equal(err.text, "resnet18 has no parameters: leave out ':3,4'");
    assert_null(g);
}

static void the_json_summary_holds_the_totals(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_int_equal(hrf_model_make("resnet18", 1000, 0, 1, &g, NULL), HRF_OK);
    assert_int_equal(hrf_model_inspect_print(g, true, out, NULL), HRF_OK);
    fclose(out);
    HRF_AUTO_JSON root = NULL;
    assert_int_equal(hrf_json_parse(text, n, "summary", &root, NULL), HRF_OK);
    free(text); /* ci-allow: open_memstream's */
    int64_t parameters;
    double gop;
    const char *note;
    json_t *layers;
    assert_int_equal(hrf_json_get_int(root, "parameters", "s", &parameters, NULL), HRF_OK);
    assert_int_equal(parameters, 11689512 + 2 * 4800);
    assert_int_equal(hrf_json_get_number(root, "gop_per_image", "s", &gop, NULL), HRF_OK);
    assert_true(gop > 3.627 && gop < 3.629);
    assert_int_equal(hrf_json_get_array(root, "layers", "s", &layers, NULL), HRF_OK);
    assert_int_equal(json_array_size(layers), g->n_nodes);
    assert_int_equal(hrf_json_get_text(root, "note", "s", &note, NULL), HRF_OK);
    assert_string_equal(note, "the model leaves the batch open: 1 was taken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_and_operations_are_the_published_ones),
        cmocka_unit_test(the_hires_net_grows_with_its_image),
        cmocka_unit_test(the_seed_decides_every_weight),
        cmocka_unit_test(a_made_model_survives_its_file),
        cmocka_unit_test(wrong_names_and_sizes_are_refused),
        cmocka_unit_test(the_json_summary_holds_the_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
