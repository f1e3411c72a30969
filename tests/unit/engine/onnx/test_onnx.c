/* Reading and writing ONNX: golden files for every form and every fault (made by
 * tools/reference/make_onnx_goldens.py), and the round trip. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "engine/ir/op.h"
#include "engine/onnx/onnx.h"
#include "engine/onnx/source.h"
#include "tests/ops/odd_nets.h"
#include "tests/unit/refusal_text.h"
#include "tests/unit/unit.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *golden(const char *kind, const char *name)
{
    char *path = hrf_format("tests/golden/onnx/%s/%s.onnx", kind, name);
    assert_non_null(path);
    return path;
}

static struct hrf_graph *read_good(const char *name, char hash[65])
{
    struct hrf_graph *g = NULL;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = golden("good", name);
    if (hrf_onnx_read(path, &g, &err) != HRF_OK || hrf_graph_hash(g, hash, &err) != HRF_OK)
        fail_msg("%s: %s", name, err.text);
    return g;
}

static const struct {
    const char *name, *shape; /* of the output for an input of 3x2x5x7 */
    const char *same_as;      /* another form with the same hash, NULL = none */
} good[] = {
    { "conv", "3x4x3x7", NULL },
    { "conv_new", "3x4x3x5", NULL },
    { "conv_old", "3x4x3x5", "conv_new" },
    { "shared_weights", "3x4x3x5", "conv_new" },
    { "conv_same_upper", "3x4x3x4", NULL },
    { "conv_same_lower", "3x4x3x4", NULL },
    { "clip_6", "3x2x5x7", NULL },
    { "clip_13", "3x2x5x7", "clip_6" },
    { "clip_13_max_only", "3x2x5x7", NULL },
    { "pad_2", "3x2x9x13", NULL },
    { "pad_13", "3x2x9x13", "pad_2" },
    { "pad_18", "3x2x9x13", NULL },
    { "pad_by_arithmetic", "3x2x12x10", NULL },
    { "slice_1", "3x2x4x2", NULL },
    { "slice_13", "3x2x4x2", "slice_1" },
    { "slice_reverse", "3x2x5x4", NULL },
    { "squeeze_11", "3x2x5x7", NULL },
    { "squeeze_13", "3x2x5x7", "squeeze_11" },
    { "reduce_mean_11", "3x2", NULL },
    { "reduce_mean_18", "3x2", "reduce_mean_11" },
    { "dropout_7", "3x2x5x7", NULL },
    { "dropout_13", "3x2x5x7", "dropout_7" },
    { "batch_norm_7", "3x2x5x7", NULL },
    { "sum_3", "3x2x5x7", NULL },
    { "constants", "3x2x5x7", NULL },
    { "add_6", "3x2x5x7", NULL },
    { "add_13", "3x2x5x7", "add_6" },
    { "view", "3x70", NULL },
    { "half", "3x1x5x7", NULL },
    { "half_weights", "3x4x3x5", "float_weights" },
    { "float_weights", "3x4x3x5", NULL },
    { "zero_dim", "3x2x5x7", NULL },
    { "layer_norm_17", "3x2x5x7", NULL },
    { "group_norm_21", "3x2x5x7", NULL },
    { "rms_norm_23", "3x2x5x7", NULL },
    { "gelu_20", "3x2x5x7", NULL },
    { "attention_23", "3x2x5x7", NULL },
    { "attention_heads", "3x5x14", NULL },
    { "rotary_23", "3x2x5x6", NULL },
    { "split_2", "3x2x5x4", NULL },
    { "split_13", "3x2x5x4", "split_2" },
    { "split_equal", "3x1x5x7", NULL },
    { "split_18", "3x2x5x1", NULL },
    { "conv_1d", "3x4x2", NULL },
    { "pad_reflect", "3x2x9x13", NULL },
    { "einsum", "3x2x5x3x4", NULL },
    { "einsum_two", "3x5x5", NULL },
    { "arg_max", "2x70", NULL },
    { "top_k", "2x70", "arg_max" },
    { "expand", "3x2x5x7", NULL },
    { "same_pads", "3x2x5x9", NULL },
    { "resize_axes", "3x2x10x14", NULL },
    { "resize_antialias", "3x2x5x7", NULL },
    { "if_true", "3x2x5x7", NULL },
    { "pad_cut", "3x2x5x7", NULL },
    { "gather_nd", "2x3x2x5", NULL },
    { "tile", "3x4x5x21", NULL },
    { "instance_norm", "3x2x5x7", NULL },
    { "matmul_integer", "3x2x5x3", NULL },
    { "softmax_old_on_channels", "3x2x1x1", NULL },
};
enum { N_GOOD = sizeof good / sizeof good[0] };

static void old_and_new_forms_give_the_same_graph(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOOD; i++) {
        char hash[65], other[65];
        HRF_AUTO(hrf_graph) g = read_good(good[i].name, hash);
        if (good[i].same_as == NULL)
            continue;
        HRF_AUTO(hrf_graph) same = read_good(good[i].same_as, other);
        if (strcmp(hash, other) != 0)
            fail_msg("%s and %s differ", good[i].name, good[i].same_as);
    }
}

static void shapes_are_inferred_by_value(void **state)
{
    (void)state;
    struct hrf_shape image = { .rank = 4, .dims = { 3, 2, 5, 7 } };
    for (size_t i = 0; i < N_GOOD; i++) {
        char hash[65], text[128];
        struct hrf_error err = { .status = HRF_OK };
        HRF_AUTO(hrf_graph) g = read_good(good[i].name, hash);
        assert_int_equal(hrf_graph_set_input_shape(g, 0, &image, &err), HRF_OK);
        if (hrf_graph_infer_shapes(g, &err) != HRF_OK)
            fail_msg("%s: %s", good[i].name, err.text);
        hrf_shape_text(&g->values[g->outputs[0]].shape, text);
        assert_string_equal(text, good[i].shape);
        /* Compacting leaves nothing of the shape arithmetic, and inference finds the same. */
        assert_int_equal(hrf_graph_compact(g, &err), HRF_OK);
        assert_int_equal(hrf_graph_infer_shapes(g, &err), HRF_OK);
        hrf_shape_text(&g->values[g->outputs[0]].shape, text);
        assert_string_equal(text, good[i].shape);
        for (int32_t k = 0; k < g->n_nodes; k++)
            assert_int_equal(g->values[g->nodes[k].outputs[0]].dtype, HRF_F32);
    }
}

/* pad_18's pads become those of pad_2 only when the rank is known. */
static void pads_of_some_axes_are_completed(void **state)
{
    (void)state;
    char hash[65];
    struct hrf_shape image = { .rank = 4, .dims = { 3, 2, 5, 7 } };
    static const int64_t want[] = { 0, 0, 1, 2, 0, 0, 3, 4 };
    HRF_AUTO(hrf_graph) g = read_good("pad_18", hash);
    assert_int_equal(hrf_graph_set_input_shape(g, 0, &image, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_memory_equal(g->nodes[0].attributes.pad.sizes, want, sizeof want);
    assert_true(g->nodes[0].attributes.pad.value == 0.5f);
}

static void what_is_written_reads_back_the_same(void **state)
{
    (void)state;
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *path = hrf_path_join(template, "m.onnx");
    for (size_t i = 0; i < N_GOOD; i++) {
        char before[65], after[65];
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_shape image = { .rank = 4, .dims = { 3, 2, 5, 7 } };
        HRF_AUTO(hrf_graph) g = read_good(good[i].name, before);
        HRF_AUTO(hrf_graph) back = NULL;
        bool needs_shapes = strcmp(good[i].name, "pad_18") == 0 ||
                            strcmp(good[i].name, "split_equal") == 0 ||
                            strcmp(good[i].name, "split_18") == 0 ||
                            strcmp(good[i].name, "rotary_23") == 0 ||
                            strcmp(good[i].name, "softmax_old_on_channels") == 0;
        if (needs_shapes) {
            assert_int_equal(hrf_onnx_write(g, path, &err), HRF_E_UNSUPPORTED);
            assert_non_null(strstr(err.text, "infer shapes first"));
            assert_int_equal(hrf_graph_set_input_shape(g, 0, &image, NULL), HRF_OK);
            assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
        }
        if (hrf_onnx_write(g, path, &err) != HRF_OK || hrf_onnx_read(path, &back, &err) != HRF_OK)
            fail_msg("%s: %s", good[i].name, err.text);
        assert_int_equal(hrf_graph_hash(back, after, &err), HRF_OK);
        if (!needs_shapes && strcmp(before, after) != 0)
            fail_msg("%s changes on its way through a file", good[i].name);
        if (needs_shapes)
            assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
        assert_int_equal(back->values[back->inputs[0]].shape.dims[0], needs_shapes ? 3 : -1);
    }
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

/* All axes and the first one alone are different things, though both are a list of zeros. */
static void a_reduction_of_the_first_axis_stays_one(void **state)
{
    (void)state;
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *path = hrf_path_join(template, "m.onnx");
    for (int32_t n_axes = 0; n_axes < 2; n_axes++) {
        HRF_AUTO(hrf_graph) g = NULL;
        HRF_AUTO(hrf_graph) back = NULL;
        int32_t x, y;
        const struct hrf_shape shape = { .rank = 2, .dims = { 3, 2 } }, unknown = { .rank = -1 };
        struct hrf_attributes a = hrf_attributes_of(HRF_OP_REDUCE_MAX);
        a.n_axes = n_axes; /* of axes that are 0 */
        assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
        assert_int_equal(hrf_graph_add_value(g, "x", HRF_F32, &shape, NULL, &x, NULL), HRF_OK);
        assert_int_equal(hrf_graph_add_value(g, "y", HRF_F32, &unknown, NULL, &y, NULL), HRF_OK);
        assert_int_equal(hrf_graph_add_node(g, HRF_OP_REDUCE_MAX, "max", &x, 1, &y, 1, &a, NULL),
                         HRF_OK);
        assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
        assert_int_equal(hrf_onnx_write(g, path, NULL), HRF_OK);
        assert_int_equal(hrf_onnx_read(path, &back, NULL), HRF_OK);
        assert_int_equal(back->nodes[0].attributes.n_axes, n_axes);
    }
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

/* Every class of operators, with attributes that opset 13 lacks. */
static void networks_that_were_never_files_read_back_the_same(void **state)
{
    (void)state;
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *path = hrf_path_join(template, "m.onnx");
    for (uint64_t seed = 700; seed < 760; seed++) { /* some have averages that skip places */
        struct hrf_error err = { .status = HRF_OK };
        int64_t n, n_back;
        HRF_AUTO(hrf_graph) g = make_odd_net(seed);
        HRF_AUTO(hrf_graph) back = NULL;
        if (hrf_onnx_write(g, path, &err) != HRF_OK || hrf_onnx_read(path, &back, &err) != HRF_OK ||
            hrf_graph_infer_shapes(back, &err) != HRF_OK)
            fail_msg("network %d: %s", (int)seed, err.text);
        HRF_AUTO_FREE float *y = run_graph(g, "ref", 1, seed, 1, &n);
        HRF_AUTO_FREE float *y_back = run_graph(back, "ref", 1, seed, 1, &n_back);
        if (n != n_back || memcmp(y, y_back, (size_t)n * sizeof *y) != 0)
            fail_msg("network %d gives other numbers after its way through a file", (int)seed);
    }
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

static void fused_graphs_are_not_written(void **state)
{
    (void)state;
    char hash[65];
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) g = read_good("conv", hash);
    g->nodes[0].attributes.activation = HRF_ACT_RELU;
    assert_int_equal(hrf_onnx_write(g, "/nowhere/x.onnx", &err), HRF_E_UNSUPPORTED);
    assert_string_equal(err.text,
                        "model '/nowhere/x.onnx': node 'the_conv' (Conv) cannot be written as "
                        "ONNX: the passes have fused it; write the graph before them");
}

static const struct {
    const char *name;
    enum hrf_status status;
    const char *text; /* the end of the message, after the model's name */
} bad[] = {
    { "unknown_operator", HRF_E_UNSUPPORTED,
      "node 'the_lstm' (Lstm, opset 13): the operator 'Lstm' is not supported: write it as other "
      "operators in the model and export again" },
    { "layer_norm_does_not_fit", HRF_E_UNSUPPORTED,
      "input 1 does not hold one number for each of the normalised elements" },
    { "attention_with_cache", HRF_E_UNSUPPORTED,
      "softcap, past keys and past values are not supported: export the model without a cache" },
    { "attention_does_not_fit", HRF_E_USER, "q, k and v do not fit together" },
    { "arg_max_computed", HRF_E_UNSUPPORTED,
      "indices of the greatest elements are computed only to choose whole rows by the greatest "
      "score of a column (axis 0)" },
    { "arg_max_last", HRF_E_UNSUPPORTED, "of equal elements only the first is chosen" },
    { "top_k_smallest", HRF_E_UNSUPPORTED, "only the greatest in falling order are computed" },
    { "top_k_values", HRF_E_UNSUPPORTED, "a further output that is not supported" },
    { "einsum_repeated", HRF_E_UNSUPPORTED, "the equation 'nnhw->hw' is not supported" },
    { "einsum_without_arrow", HRF_E_UNSUPPORTED, "the equation 'nchw' is not supported" },
    { "split_sizes_computed", HRF_E_UNSUPPORTED,
      "its sizes must be at most 64 integer constants: export with constant sizes" },
    { "split_too_many", HRF_E_USER, "has 2 outputs, and sizes for another number" },
    { "if_computed", HRF_E_UNSUPPORTED,
      "its condition is not a constant: export again by PyTorch's default exporter" },
    { "if_without_branch", HRF_E_USER, "has no branch with 1 outputs" },
    { "if_branch_unnamed", HRF_E_USER, "output 0 of its branch has no name" },
    { "loop", HRF_E_UNSUPPORTED,
      "the operator 'Loop' is not supported: unroll it in the model, and export again" },
    { "antialias", HRF_E_UNSUPPORTED,
      "antialias is not supported where the output is smaller; inputs: 1x2x5x7" },
    { "range_without_end", HRF_E_USER, "are not at most 16777216 numbers" },
    { "modulo_zero", HRF_E_USER, "division by zero" },
    { "condition_computed", HRF_E_UNSUPPORTED,
      "node 'the_greater' (Greater): the result is bool, which depends on the input" },
    { "weights_nan", HRF_E_USER, "the weights 'w' hold a NaN (element 71)" },
    { "weights_infinite", HRF_E_USER, "the weights 'w' hold an infinite number (element 0)" },
    { "unknown_attribute", HRF_E_UNSUPPORTED,
      "node 'the_relu' (Relu, opset 13): attribute 'alpha' is not supported; it has none" },
    { "other_domain", HRF_E_UNSUPPORTED,
      "operators of the domain 'com.example' are not supported" },
    { "opset_5", HRF_E_UNSUPPORTED, "the model is of ONNX opset 5; opsets 6 to 28 can be read" },
    { "opset_99", HRF_E_UNSUPPORTED, "the model is of ONNX opset 99; opsets 6 to 28 can be read" },
    { "no_opset", HRF_E_UNSUPPORTED, "the model uses no operators of ONNX's own domain" },
    { "no_graph", HRF_E_USER, "there is no graph in it: is it an ONNX model?" },
    { "not_onnx", HRF_E_USER, "not an ONNX file" },
    { "cut_short", HRF_E_USER, "not an ONNX file, or cut short" },
    { "deep_nesting", HRF_E_USER, "not an ONNX file" },
    { "external_missing", HRF_E_EXTERNAL, "nowhere.bin', which cannot be opened" },
    { "external_absolute", HRF_E_USER,
      "tensor 'w' keeps its data in '/etc/passwd': only files beside the model are read" },
    { "external_parent", HRF_E_USER, "'a/../../../weights.bin': only files beside the model" },
    { "external_too_short", HRF_E_USER,
      "tensor 'w' needs 288 bytes; the model puts 26 bytes from 0 of 'not_onnx.onnx' there" },
    { "external_beyond", HRF_E_USER, "puts 288 bytes from 4611686018427387904 of" },
    { "external_no_number", HRF_E_USER, "the offset '12x' of its external data is no number" },
    { "external_nowhere", HRF_E_USER, "tensor 'w' has external data without a location" },
    { "external_constant", HRF_E_USER, "'/etc/passwd': only files beside the model are read" },
    { "data_too_short", HRF_E_USER,
      "tensor 'w' should hold 72 elements of float32 but has data for 71" },
    { "huge_tensor", HRF_E_USER, "tensor 'w' is impossibly large" },
    { "large_claim", HRF_E_USER,
      "tensor 'w' should hold 1099511627776 elements of float32 but has data for 1" },
    { "negative_dim", HRF_E_USER, "tensor 'w' has the negative dimension -4" },
    { "rank_7", HRF_E_UNSUPPORTED, "tensor 'w' has 7 dimensions; at most 6 are supported" },
    { "string_tensor", HRF_E_UNSUPPORTED, "'w' has the element type STRING (8)" },
    { "cycle", HRF_E_USER, "the nodes form a cycle: 'the_relu' (Relu) needs 'a'" },
    { "produced_twice", HRF_E_USER, "the value 'y' is produced twice" },
    { "output_is_input", HRF_E_USER, "the nodes form a cycle" },
    { "weights_twice", HRF_E_USER, "the name 'w' is given twice" },
    { "missing_input", HRF_E_USER,
      "node 'the_relu' (Relu) uses 'nowhere', which nothing produces" },
    { "missing_output", HRF_E_USER, "graph output 0 uses 'z', which nothing produces" },
    { "no_output", HRF_E_USER, "the model has no output" },
    { "mask_used", HRF_E_UNSUPPORTED, "uses 'mask', a further output that is not supported" },
    { "too_many_inputs", HRF_E_USER, "(Relu, opset 13): has 2 inputs; it takes 1 to 1" },
    { "too_few_inputs", HRF_E_USER, "(Conv, opset 13): has 1 inputs; it takes 2 to 3" },
    { "hole_in_inputs", HRF_E_USER, "node 'the_conv' (Conv) lacks its input 0" },
    { "conv_1d", HRF_E_UNSUPPORTED, "works on N, C, H, W only" },
    { "wrong_attribute_type", HRF_E_USER, "attribute 'group' is not an integer" },
    { "training_batch_norm", HRF_E_UNSUPPORTED,
      "training_mode 1 is not supported: export the model for inference" },
    { "pad_reflect_far", HRF_E_UNSUPPORTED, "pads of 5 and 0 reach beyond the 5 of axis 2" },
    { "axes_not_constant", HRF_E_UNSUPPORTED,
      "input 1, an input of the model, must be known when the model is loaded" },
    { "impossible_dim", HRF_E_USER, "input 'x' has the dimension -5" },
    { "add_along_axis", HRF_E_UNSUPPORTED, "broadcasting along an axis is not supported" },
    { "broadcast_since_7", HRF_E_UNSUPPORTED, "attribute 'broadcast' is not of this opset" },
    { "training_dropout_6", HRF_E_UNSUPPORTED, "is_test is not 1: export the model for inference" },
    { "channels_differ", HRF_E_USER, "the weights do not fit 2 channels in 1 groups" },
    { "window_too_large", HRF_E_USER, "a window of 9 rows does not fit into 5" },
    { "impossible_stride", HRF_E_USER, "impossible window along the rows: kernel 2, stride 0" },
    { "negative_pads", HRF_E_USER, "impossible window along the rows" },
    { "reshape_does_not_fit", HRF_E_USER, "70 elements do not make 3x11" },
    { "overflowing_pads", HRF_E_UNSUPPORTED, "on axis 0 are not supported" },
    { "no_broadcast", HRF_E_USER, "the shapes do not broadcast; inputs: 1x2x5x7, 3" },
    { "gather_outside", HRF_E_USER, "index 2 is outside the 2 of axis 1" },
    { "quantize_without_scale", HRF_E_USER, "has no scale" },
    { "quantize_scale_computed", HRF_E_UNSUPPORTED,
      "its scale, input 1, an input of the model, must be a constant of the model" },
    { "quantize_scale_zero", HRF_E_USER, "its scale 0 is 0: it must be above 0" },
    { "quantize_scales_do_not_fit", HRF_E_USER, "3 scales for 2 places along axis 1" },
    { "quantize_in_blocks", HRF_E_UNSUPPORTED, "block_size 2 is not supported" },
    { "dequantize_otherwise", HRF_E_UNSUPPORTED,
      "with scale 0.25 and zero point 0; it was written with 0.5 and 0" },
    { "quantized_and_computed", HRF_E_UNSUPPORTED, "the result is uint8" },
    { "qlinear_conv", HRF_E_UNSUPPORTED, "its input is float32; int8, uint8 and int32" },
    { "softmax_old_over_image", HRF_E_UNSUPPORTED, "export the model with opset 13 or newer" },
    { "integers_computed", HRF_E_UNSUPPORTED,
      "the result is int64, which depends on the input: only float32 is computed there" },
};
enum { N_BAD = sizeof bad / sizeof bad[0] };

static void every_fault_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BAD; i++) {
        HRF_AUTO_FREE char *path = golden("bad", bad[i].name);
        HRF_AUTO(hrf_graph) g = NULL;
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_shape image = { .rank = 4, .dims = { 1, 2, 5, 7 } };
        enum hrf_status status = hrf_onnx_read(path, &g, &err);
        if (status != HRF_OK)
            assert_null(g);
        if (status == HRF_OK)
            status = hrf_graph_set_input_shape(g, 0, &image, &err);
        if (status == HRF_OK)
            status = hrf_graph_infer_shapes(g, &err);
        if (status != bad[i].status || strstr(err.text, bad[i].text) == NULL)
            fail_msg("%s: %s: %s", bad[i].name, hrf_status_row(status)->name,
                     status == HRF_OK ? "accepted" : err.text);
        check_refusal_text(bad[i].name, status, g, err.text);
    }
}

static bool is_word_of(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

static bool is_operator(const char *name, size_t n)
{
    for (size_t i = 0; hrf_onnx_operator(i) != NULL; i++)
        if (strlen(hrf_onnx_operator(i)) == n && strncmp(hrf_onnx_operator(i), name, n) == 0)
            return true;
    return false;
}

/* The table of docs/models.md has each operator that can be read, and no other. */
static void the_page_lists_the_operators(void **state)
{
    (void)state;
    HRF_AUTO_FREE char *page = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_file_read("docs/models.md", 1 << 20, &page, &n_bytes, NULL), HRF_OK);
    char *table = strstr(page, "\n## Operators"), *end = strstr(table, "\nIntegers and truth");
    assert_non_null(table);
    assert_non_null(end);
    *end = '\0';
    for (size_t i = 0; hrf_onnx_operator(i) != NULL; i++) {
        const char *name = hrf_onnx_operator(i);
        if (strcmp(name, "GeluTanh") != 0 && !is_word_of(table, name)) /* Gelu with an attribute */
            fail_msg("the table of docs/models.md lacks %s", name);
    }
    int column = 0;
    for (const char *c = strstr(table, "|---"); *c != '\0'; c++) {
        column = *c == '\n' ? 0 : column + (*c == '|');
        const bool begins = isupper((unsigned char)*c) && !isalnum((unsigned char)c[-1]);
        size_t n = 0;
        while (begins && isalnum((unsigned char)c[n]))
            n++;
        if (column == 2 && n > 1 && !is_operator(c, n))
            fail_msg("docs/models.md lists %.*s, which is no operator that is read", (int)n, c);
    }
}

static bool has_precision(enum hrf_op op, int rule)
{
    return (int)hrf_op_precision(op) == rule;
}

static bool is_of_images(enum hrf_op op, int unused)
{
    (void)unused;
    return hrf_op_info(op)->rank == 4;
}

/* The operators of which that is true and which models may bring, in the order of the table: "|
 * `what` | Conv, Gemm |". */
static char *page_row(const char *what, bool (*is_in)(enum hrf_op op, int number), int number)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&text, "| %s |", what);
    const size_t empty = text.length;
    for (int k = 0; k < HRF_N_OPS; k++) {
        const enum hrf_op op = (enum hrf_op)k;
        const char *name = hrf_op_name(op);
        if (!hrf_op_is_foldable_only(op) && op != HRF_OP_GELU_TANH &&
            is_operator(name, strlen(name)) && is_in(op, number))
            hrf_strbuf_addf(&text, "%s%s", text.length > empty ? ", " : " ", name);
    }
    hrf_strbuf_addf(&text, " |\n");
    return hrf_strbuf_detach(&text);
}

static char *page_row_of_constants(void)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&text, "| read constants of the model as these inputs |");
    const size_t empty = text.length;
    for (int k = 0; k < HRF_N_OPS; k++) {
        const struct hrf_op_info *info = hrf_op_info((enum hrf_op)k);
        bool any = false;
        for (int32_t i = 0;
             is_operator(info->name, strlen(info->name)) && i < info->max_inputs && i < 5; i++) {
            const enum hrf_input_role role = hrf_op_role(info->op, i);
            /* Of CONV and GEMM, passes add what comes after the bias. */
            if ((role != HRF_INPUT_WEIGHTS && role != HRF_INPUT_INDEX) ||
                (info->op_class == HRF_CLASS_PRODUCT && i > HRF_CONV_BIAS))
                continue;
            if (any)
                hrf_strbuf_addf(&text, " and %d", (int)i);
            else
                hrf_strbuf_addf(&text, "%s%s %d", text.length > empty ? ", " : " ", info->name,
                                (int)i);
            any = true;
        }
    }
    hrf_strbuf_addf(&text, " |\n");
    return hrf_strbuf_detach(&text);
}

/* The second table of docs/models.md is what the rows of engine/ir/op.c say. */
static void the_page_says_what_the_rows_say(void **state)
{
    (void)state;
    static const char *const rules[HRF_N_PRECISION_RULES] = {
        [HRF_PRECISION_PRODUCT] = "compute in 16 or 8 bits if their weights are constants",
        [HRF_PRECISION_FOLLOWS] = "compute in as few bits as their inputs have",
        [HRF_PRECISION_SELECTS] = "the same; an 8-bit result has the scale of its input",
        [HRF_PRECISION_HALF] = "compute in 16 bits with their inputs, beside 8 bits in float32",
        [HRF_PRECISION_SUM] = "the same; while a network is trained their results are float32",
        [HRF_PRECISION_MATRICES] = "the same; while a network is trained in 16 bits in any case",
        [HRF_PRECISION_FLOAT] = "compute in float32 in every precision",
    };
    HRF_AUTO_FREE char *page = NULL,
                       *images = page_row("take images (N, C, H, W) only", is_of_images, 0);
    HRF_AUTO_FREE char *constants = page_row_of_constants();
    size_t n_bytes;
    assert_int_equal(hrf_file_read("docs/models.md", 1 << 20, &page, &n_bytes, NULL), HRF_OK);
    for (int rule = HRF_PRECISION_FLOAT; rule < HRF_N_PRECISION_RULES; rule++) {
        HRF_AUTO_FREE char *row = page_row(rules[rule], has_precision, rule);
        if (strstr(page, row) == NULL)
            fail_msg("docs/models.md lacks this row:\n%s", row);
    }
    if (strstr(page, images) == NULL || strstr(page, constants) == NULL)
        fail_msg("docs/models.md lacks one of these rows:\n%s%s", images, constants);
}

static size_t count_files(const char *directory)
{
    size_t n = 0;
    const struct dirent *entry;
    DIR *d = opendir(directory);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static void every_golden_file_is_used(void **state)
{
    (void)state;
    assert_int_equal(count_files("tests/golden/onnx/good"), N_GOOD);
    assert_int_equal(count_files("tests/golden/onnx/bad"), N_BAD);
}

static void a_missing_file_is_not_the_models_fault(void **state)
{
    (void)state;
    struct hrf_graph *g = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_not_equal(hrf_onnx_read("/nowhere/m.onnx", &g, &err), HRF_OK);
    assert_null(g);
    assert_non_null(strstr(err.text, "/nowhere/m.onnx"));
}

static void running_out_of_memory_is_a_status(void **state)
{
    (void)state;
    HRF_AUTO_FREE char *path = golden("good", "pad_by_arithmetic");
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes;
    assert_int_equal(hrf_file_read(path, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
    enum hrf_status status = HRF_E_NOMEM;
    for (int64_t n = 1; status != HRF_OK; n++) {
        struct hrf_graph *g = NULL;
        struct hrf_error err = { .status = HRF_OK };
        hrf_alloc_fail_after(n);
        status = hrf_onnx_parse(bytes, n_bytes, "m", &g, &err);
        hrf_alloc_fail_after(0);
        hrf_graph_destroy(g);
        if (status != HRF_OK && status != HRF_E_NOMEM)
            fail_msg("allocation %lld: %s", (long long)n, err.text);
        assert_true(n < 5000);
    }
}

static void running_out_of_memory_while_writing_is_a_status(void **state)
{
    (void)state;
    static const char *const models[] = { "clip_13_max_only", "pad_by_arithmetic", "conv" };
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *out = hrf_path_join(template, "m.onnx");
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        HRF_AUTO_FREE char *path = golden("good", models[i]);
        HRF_AUTO(hrf_graph) g = NULL;
        assert_int_equal(hrf_onnx_read(path, &g, NULL), HRF_OK);
        enum hrf_status status = HRF_E_NOMEM;
        for (int64_t n = 1; status != HRF_OK; n++) {
            struct hrf_error err = { .status = HRF_OK };
            hrf_alloc_fail_after(n);
            status = hrf_onnx_write(g, out, &err);
            hrf_alloc_fail_after(0);
            if (status != HRF_OK && status != HRF_E_NOMEM)
                fail_msg("allocation %lld: %s", (long long)n, err.text);
            assert_true(n < 5000);
        }
    }
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

static void the_makers_name_is_read(void **state)
{
    (void)state;
    HRF_AUTO_FREE char *path = golden("good", "conv");
    HRF_AUTO_FREE char *bytes = NULL;
    HRF_AUTO(hrf_graph) g = NULL;
    size_t n_bytes;
    struct hrf_onnx_info info;
    assert_int_equal(hrf_file_read(path, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
    assert_int_equal(hrf_onnx_parse_info(bytes, n_bytes, path, NULL, &info, &g, NULL), HRF_OK);
    assert_string_equal(info.producer, "by hand");
    assert_int_equal(info.opset, 13);
    assert_int_equal(info.ir_version, 7);
}

/* The golden model wants 288 bytes of nowhere.bin, which a test may put beside a copy of it. */
static void weights_are_read_from_beside_the_model_only(void **state)
{
    (void)state;
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    static float weights[72];
    size_t n_bytes;
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *from = golden("bad", "external_missing");
    HRF_AUTO_FREE char *folder = hrf_path_join(template, "models");
    HRF_AUTO_FREE char *model = hrf_path_join(folder, "m.onnx");
    HRF_AUTO_FREE char *data = hrf_path_join(folder, "nowhere.bin");
    HRF_AUTO_FREE char *inside = hrf_path_join(folder, "blob");
    HRF_AUTO_FREE char *outside = hrf_path_join(template, "blob");
    HRF_AUTO_FREE char *bytes = NULL;
    for (int i = 0; i < 72; i++)
        weights[i] = (float)i;
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(hrf_file_read(from, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(model, bytes, n_bytes, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(inside, weights, sizeof weights, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(outside, weights, sizeof weights, NULL), HRF_OK);
    for (int is_outside = 0; is_outside < 2; is_outside++) {
        struct hrf_error err = { .status = HRF_OK };
        HRF_AUTO(hrf_graph) g = NULL;
        assert_int_equal(symlink(is_outside ? "../blob" : "blob", data), 0);
        const enum hrf_status status = hrf_onnx_read(model, &g, &err);
        assert_int_equal(unlink(data), 0);
        if (is_outside) {
            assert_int_equal(status, HRF_E_USER);
            assert_non_null(strstr(err.text, "a link that leads out of the model's folder"));
        } else {
            assert_int_equal(status, HRF_OK);
            assert_memory_equal(g->values[0].data, weights, sizeof weights);
        }
    }
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

/* Sums with constants of every small size and some larger ones, and with names of any length, so
 * that the file is many windows long and weights begin and end anywhere in them. */
static struct hrf_graph *many_constants(uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct hrf_graph *g = NULL;
    const struct hrf_shape open = { .rank = -1 };
    int32_t x, y;
    assert_int_equal(hrf_graph_create("many", &g, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "x", HRF_F32, &open, NULL, &x, NULL), HRF_OK);
    const int32_t input = x;
    for (int i = 0; i < 60; i++) {
        static float numbers[3000];
        const int64_t n = i < 20 ? i : (int64_t)hrf_random_below(&random, i % 8 == 0 ? 3000 : 90);
        const struct hrf_shape shape = { .rank = 1, .dims = { n } };
        char name[400];
        int32_t constant;
        for (int64_t k = 0; k < n; k++)
            numbers[k] = (float)hrf_random_below(&random, 1000);
        snprintf(name, sizeof name, "%03d%0*d", i, (int)hrf_random_below(&random, 390), 0);
        assert_int_equal(hrf_graph_add_value(g, name, HRF_F32, &shape, numbers, &constant, NULL),
                         HRF_OK);
        name[0] = 'y';
        assert_int_equal(hrf_graph_add_value(g, name, HRF_F32, &open, NULL, &y, NULL), HRF_OK);
        assert_int_equal(hrf_graph_add_node(g, HRF_OP_ADD, name, (const int32_t[]){ x, constant },
                                            2, &y, 1, NULL, NULL),
                         HRF_OK);
        x = y;
    }
    assert_int_equal(hrf_graph_set_io(g, &input, 1, &x, 1, NULL), HRF_OK);
    return g;
}

/* From a file, of which few bytes are seen at a time, and from memory. What is cut short is refused
 * by both in the same words. */
static void files_and_memory_are_read_alike(void **state)
{
    (void)state;
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *path = hrf_path_join(template, "m.onnx");
    for (uint64_t seed = 0; seed < 5; seed++) {
        HRF_AUTO(hrf_graph) g = many_constants(seed);
        HRF_AUTO_FREE char *bytes = NULL;
        size_t n_bytes;
        char hash[3][65];
        assert_int_equal(hrf_onnx_write(g, path, NULL), HRF_OK);
        assert_int_equal(hrf_file_read(path, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
        assert_true(n_bytes > 4 * HRF_ONNX_WINDOW);
        HRF_AUTO(hrf_graph) file = NULL;
        HRF_AUTO(hrf_graph) memory = NULL;
        assert_int_equal(hrf_onnx_read(path, &file, NULL), HRF_OK);
        assert_int_equal(hrf_onnx_parse(bytes, n_bytes, path, &memory, NULL), HRF_OK);
        assert_int_equal(hrf_graph_hash(g, hash[0], NULL), HRF_OK);
        assert_int_equal(hrf_graph_hash(file, hash[1], NULL), HRF_OK);
        assert_int_equal(hrf_graph_hash(memory, hash[2], NULL), HRF_OK);
        assert_string_equal(hash[1], hash[0]);
        assert_string_equal(hash[2], hash[0]);
        for (size_t cut = n_bytes - 1; cut > 0; cut = cut > 997 ? cut - 997 : cut / 2) {
            struct hrf_error of_file, of_memory;
            HRF_AUTO(hrf_graph) none = NULL;
            assert_int_equal(truncate(path, (off_t)cut), 0);
            assert_int_not_equal(hrf_onnx_read(path, &none, &of_file), HRF_OK);
            assert_int_not_equal(hrf_onnx_parse(bytes, cut, path, &none, &of_memory), HRF_OK);
            assert_string_equal(of_file.text, of_memory.text);
        }
    }
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

static void a_file_that_changes_while_it_is_read_is_refused(void **state)
{
    (void)state;
    char template[] = "/tmp/hrf-onnx-XXXXXX";
    static const char bytes[3 * HRF_ONNX_WINDOW];
    struct hrf_onnx_source source = { 0 };
    struct hrf_error err;
    const uint8_t *seen;
    char all[sizeof bytes];
    size_t have;
    assert_non_null(mkdtemp(template));
    HRF_AUTO_FREE char *path = hrf_path_join(template, "m.onnx");
    assert_int_equal(hrf_file_write_atomic(path, bytes, sizeof bytes, NULL), HRF_OK);
    assert_int_equal(hrf_onnx_source_open(path, sizeof bytes, &source, NULL), HRF_OK);
    assert_int_equal(hrf_onnx_source_read(&source, 0, all, sizeof all, NULL), HRF_OK);
    assert_int_equal(hrf_onnx_source_read(&source, 1, all, sizeof all, &err), HRF_E_USER);
    assert_int_equal(hrf_onnx_source_check(&source, NULL), HRF_OK);
    assert_int_equal(truncate(path, HRF_ONNX_WINDOW), 0);
    assert_int_equal(hrf_onnx_source_check(&source, &err), HRF_E_EXTERNAL);
    assert_int_equal(hrf_onnx_source_see(&source, HRF_ONNX_WINDOW, &seen, &have, &err),
                     HRF_E_EXTERNAL);
    assert_string_equal(err.text, "the file became shorter while it was read");
    assert_int_equal(hrf_onnx_source_read(&source, 0, all, sizeof all, &err), HRF_E_EXTERNAL);
    hrf_onnx_source_release(&source);
    assert_int_equal(hrf_path_remove_tree(template, NULL), HRF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_read_from_beside_the_model_only),
        cmocka_unit_test(old_and_new_forms_give_the_same_graph),
        cmocka_unit_test(shapes_are_inferred_by_value),
        cmocka_unit_test(pads_of_some_axes_are_completed),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(a_reduction_of_the_first_axis_stays_one),
        cmocka_unit_test(networks_that_were_never_files_read_back_the_same),
        cmocka_unit_test(fused_graphs_are_not_written),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(every_golden_file_is_used),
        cmocka_unit_test(the_page_lists_the_operators),
        cmocka_unit_test(the_page_says_what_the_rows_say),
        cmocka_unit_test(a_missing_file_is_not_the_models_fault),
        cmocka_unit_test(running_out_of_memory_is_a_status),
        cmocka_unit_test(running_out_of_memory_while_writing_is_a_status),
        cmocka_unit_test(the_makers_name_is_read),
        cmocka_unit_test(files_and_memory_are_read_alike),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
