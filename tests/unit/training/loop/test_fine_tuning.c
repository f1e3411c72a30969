/* Fine-tuning's parts: the last layer made anew, the layers that are trained, weights as one array,
 * results as JSON and back, and the table in docs/training-results.md. */
#include "base/random.h"
#include "engine/model/model.h"
#include "engine/train/trainer.h"
#include "tests/unit/figure_docs.h"
#include "training/loop/last_layer.h"
#include "training/loop/lora.h"
#include "training/loop/training_result.h"
#include "training/loop/weights.h"

#include <math.h>
#include <string.h>

static struct hrf_graph *make(const char *name)
{
    struct hrf_graph *graph = NULL;
    assert_int_equal(hrf_model_make(name, 3, 32, 1, &graph, NULL), HRF_OK);
    return graph;
}

static int64_t n_outputs(struct hrf_graph *graph)
{
    const struct hrf_shape shape = { .rank = 4, .dims = { 2, 3, 32, 32 } };
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(graph, NULL), HRF_OK);
    return graph->values[graph->outputs[0]].shape.dims[1];
}

static void a_last_layer_is_drawn_by_the_seed_for_other_classes(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make("resnet:2,8");
    HRF_AUTO(hrf_graph) same = make("resnet:2,8");
    HRF_AUTO(hrf_graph) other = make("resnet:2,8");
    assert_int_equal(hrf_last_layer_renew(graph, 5, 7, NULL), HRF_OK);
    assert_int_equal(hrf_last_layer_renew(same, 5, 7, NULL), HRF_OK);
    assert_int_equal(hrf_last_layer_renew(other, 5, 8, NULL), HRF_OK);
    assert_int_equal(n_outputs(graph), 5);
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    assert_int_equal(hrf_last_layers_list(graph, 1, &names, NULL), HRF_OK);
    assert_int_equal(names.n_items, 2); /* weights and bias of the last product */
    for (size_t i = 0; i < names.n_items; i++) {
        const int32_t v = hrf_graph_find_value(graph, names.items[i]);
        const int64_t n = hrf_shape_count(&graph->values[v].shape);
        const float *numbers = graph->values[v].data;
        const float most = 1 / sqrtf(64); /* as PyTorch's Linear */
        assert_true(n == 5 || n == 5 * 64);
        for (int64_t k = 0; k < n; k++)
            assert_true(numbers[k] >= -most && numbers[k] <= most);
        const float *again = same->values[hrf_graph_find_value(same, names.items[i])].data;
        const float *others = other->values[hrf_graph_find_value(other, names.items[i])].data;
        assert_memory_equal(numbers, again, (size_t)n * sizeof *numbers);
        assert_memory_not_equal(numbers, others, (size_t)n * sizeof *numbers);
    }
}

static void what_ends_in_no_layer_is_refused(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = NULL;
    const struct hrf_shape shape = { .rank = 4, .dims = { -1, 3, -1, -1 } };
    int32_t x = 0, y = 0;
    struct hrf_error err;
    assert_int_equal(hrf_graph_create("g", &graph, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(graph, "x", HRF_F32, &shape, NULL, &x, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(graph, "y", HRF_F32, &shape, NULL, &y, NULL), HRF_OK);
    const struct hrf_attributes attributes = hrf_attributes_default();
    assert_int_equal(hrf_graph_add_node(graph, HRF_OP_GLOBAL_AVERAGE_POOL, "pool", &x, 1, &y, 1,
                                        &attributes, NULL),
                     HRF_OK);
    assert_int_equal(hrf_graph_set_io(graph, &x, 1, &y, 1, NULL), HRF_OK);
    assert_int_equal(hrf_last_layer_renew(graph, 2, 1, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "ends in no Gemm, MatMul or 1x1 Conv"));
}

static void what_ends_the_network_fits_the_labels(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make("resnet:2,8");
    const struct hrf_shape shape = { .rank = 2, .dims = { -1, 3 } };
    const struct hrf_attributes attributes = hrf_attributes_default();
    const int32_t input = graph->inputs[0], before = graph->outputs[0];
    int32_t y = 0;
    hrf_last_layer_fit(graph, HRF_LABEL_CLASS); /* nothing to change */
    assert_int_equal(hrf_graph_add_value(graph, "p", HRF_F32, &shape, NULL, &y, NULL), HRF_OK);
    assert_int_equal(
        hrf_graph_add_node(graph, HRF_OP_SIGMOID, "s", &before, 1, &y, 1, &attributes, NULL),
        HRF_OK);
    assert_int_equal(hrf_graph_set_io(graph, &input, 1, &y, 1, NULL), HRF_OK);
    hrf_last_layer_fit(graph, HRF_LABEL_CLASS);
    assert_int_equal(graph->nodes[graph->values[y].producer].op, HRF_OP_SOFTMAX);
    assert_int_equal(hrf_last_layer_renew(graph, 4, 1, NULL), HRF_OK); /* through it */
    assert_int_equal(n_outputs(graph), 4);
    hrf_last_layer_fit(graph, HRF_LABEL_SEVERAL);
    assert_int_equal(graph->nodes[graph->values[y].producer].op, HRF_OP_IDENTITY);
    assert_int_equal(n_outputs(graph), 4);
}

static void a_last_layer_is_scaled_and_moved(void **state)
{
    (void)state;
    static const double factors[] = { 2, -3 }, offsets[] = { 5, 7 };
    static const char *const ends[] = { "resnet:2,8", "unet:2,8" }; /* a Gemm and a 1x1 Conv */
    for (size_t e = 0; e < 2; e++) {
        HRF_AUTO(hrf_graph) graph = make(ends[e]);
        HRF_AUTO(hrf_graph) before = NULL;
        HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
        assert_int_equal(hrf_last_layer_renew(graph, 2, 1, NULL), HRF_OK);
        assert_true(hrf_last_layer_has_bias(graph));
        assert_int_equal(hrf_graph_copy(graph, &before, NULL), HRF_OK);
        assert_int_equal(hrf_last_layers_list(graph, 1, &names, NULL), HRF_OK);
        assert_int_equal(hrf_last_layer_scale(graph, factors, offsets, NULL), HRF_OK);
        for (size_t i = 0; i < names.n_items; i++) {
            const int32_t v = hrf_graph_find_value(graph, names.items[i]);
            const int64_t n = hrf_shape_count(&graph->values[v].shape);
            const float *now = graph->values[v].data, *was = before->values[v].data;
            for (int64_t k = 0; k < n; k++) {
                const int64_t c = k / (n / 2);
                assert_float_equal(
                    now[k], was[k] * (float)factors[c] + (n == 2 ? (float)offsets[c] : 0), 1e-5);
            }
        }
    }
}

static void a_layer_is_put_behind_an_embedding(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make("resnet:2,8");
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    assert_int_equal(hrf_last_layer_add(graph, 3, 5, 1, NULL), HRF_OK);
    assert_int_equal(n_outputs(graph), 5);
    assert_int_equal(hrf_last_layers_list(graph, 1, &names, NULL), HRF_OK);
    assert_int_equal(names.n_items, 2);
    assert_string_equal(names.items[0], "hires-flow.classes.weight");
}

static void the_last_layers_are_those_of_the_end(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make("resnet:2,8");
    HRF_AUTO_RELEASE(hrf_text_list) all = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_text_list) two = { .items = NULL };
    struct hrf_error err;
    assert_int_equal(hrf_last_layers_list(graph, 0, &all, NULL), HRF_OK);
    assert_int_equal(hrf_last_layers_list(graph, 2, &two, NULL), HRF_OK);
    assert_true(two.n_items > 2 && two.n_items < 10 && all.n_items > 60);
    assert_int_equal(hrf_last_layers_list(graph, 500, &two, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "train.layers is 500, and the model has "));
}

/* ---- LoRA ---- */

static bool is_named(void *context, const char *weight)
{
    const struct hrf_text_list *names = context;
    for (size_t i = 0; names != NULL && i < names->n_items; i++)
        if (strcmp(names->items[i], weight) == 0)
            return true;
    return names == NULL;
}

/* A step on two drawn images. */
static void make_step(const struct hrf_graph *graph, struct hrf_text_list *trained,
                      const char *device, struct hrf_train_step **out, double *loss)
{
    const struct hrf_train_step_config config = {
        .device = device, .loss = HRF_LOSS_CROSS_ENTROPY, .is_trained = is_named, .context = trained
    };
    struct hrf_random random = hrf_random_init(5);
    struct hrf_error err;
    if (hrf_train_step_create(graph, &config, out, &err) != HRF_OK)
        fail_msg("%s", err.text);
    const int64_t n = hrf_shape_count(&graph->values[graph->inputs[0]].shape);
    for (int64_t i = 0; i < n; i++)
        hrf_train_step_images(*out)[i] = (float)(2 * hrf_random_unit(&random) - 1);
    for (int i = 0; i < 2 * 3; i++)
        hrf_train_step_targets(*out)[i] = i % 4 == 0;
    assert_int_equal(hrf_train_step_run(*out, loss, NULL), HRF_OK);
}

static int32_t find_weights(struct hrf_train_step *step, const char *name)
{
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++)
        if (strcmp(hrf_train_step_weights(step)[i].name, name) == 0)
            return i;
    fail_msg("no weights '%s'", name);
    return -1;
}

/* With M = W + B A, whichever way these lie: dB = dM A', dA = B' dM. `left` and `right` are the
 * factors in the order of the product. */
static void check_factors(struct hrf_train_step *adapted, struct hrf_train_step *merged,
                          const char *name, double *worst, double *largest)
{
    HRF_AUTO_FREE char *name_a = hrf_format("%s.lora_A", name);
    HRF_AUTO_FREE char *name_b = hrf_format("%s.lora_B", name);
    const int32_t a = find_weights(adapted, name_a), b = find_weights(adapted, name_b);
    const int32_t m = find_weights(merged, name);
    const struct hrf_trained_tensor *ta = &hrf_train_step_weights(adapted)[a];
    const struct hrf_trained_tensor *tb = &hrf_train_step_weights(adapted)[b];
    const struct hrf_shape *shape = &hrf_train_step_weights(merged)[m].shape;
    const bool is_first = tb->shape.dims[0] == shape->dims[0] &&
                          ta->shape.dims[1] == shape->dims[1];
    const float *left = is_first ? tb->numbers : ta->numbers;
    const float *right = is_first ? ta->numbers : tb->numbers;
    const int64_t rows = shape->dims[0], columns = shape->dims[1];
    const int64_t rank = is_first ? ta->shape.dims[0] : ta->shape.dims[1];
    const int64_t n = rows * columns;
    HRF_AUTO_FREE float *whole = hrf_alloc_array((size_t)n, sizeof *whole);
    memcpy(whole, hrf_train_step_gradient(merged, m), (size_t)n * sizeof *whole);
    const float *of_left = hrf_train_step_gradient(adapted, is_first ? b : a);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t r = 0; r < rank; r++) {
            double sum = 0;
            for (int64_t j = 0; j < columns; j++)
                sum += (double)whole[i * columns + j] * (double)right[r * columns + j];
            *worst = fmax(*worst, fabs(sum - (double)of_left[i * rank + r]));
            *largest = fmax(*largest, fabs(sum));
        }
    const float *of_right = hrf_train_step_gradient(adapted, is_first ? a : b);
    for (int64_t r = 0; r < rank; r++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t i = 0; i < rows; i++)
                sum += (double)left[i * rank + r] * (double)whole[i * columns + j];
            *worst = fmax(*worst, fabs(sum - (double)of_right[r * columns + j]));
            *largest = fmax(*largest, fabs(sum));
        }
}

/* The gradients to A and B follow from that to the weights of the merged network, which PyTorch's
 * are compared with elsewhere; the loss of both networks is the same. */
static void low_rank_factors_have_the_gradients_of_the_merged_network(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t n_factors; /* of A and B together; and the last layer's weights */
    } networks[] = { { "resnet50", 72 }, { "vit:2,64", 16 } };
    const struct hrf_shape shape = { .rank = 4, .dims = { 2, 3, 32, 32 } };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        HRF_AUTO(hrf_graph) graph = make(networks[i].name);
        HRF_AUTO(hrf_graph) adapted = NULL;
        HRF_AUTO(hrf_graph) merged = NULL;
        HRF_AUTO(hrf_graph) begun = NULL;
        HRF_AUTO(hrf_train_step) step = NULL;
        HRF_AUTO(hrf_train_step) whole = NULL;
        HRF_AUTO_RELEASE(hrf_text_list) trained = { .items = NULL };
        double loss = 0, of_merged = 0, worst = 0, largest = 0;
        assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, NULL), HRF_OK);
        assert_int_equal(hrf_graph_infer_shapes(graph, NULL), HRF_OK);
        for (int32_t v = 0; v < graph->n_values; v++) /* as if it had been read from a file */
            graph->values[v].is_initializer = graph->values[v].data != NULL;
        assert_int_equal(hrf_graph_copy(graph, &adapted, NULL), HRF_OK);
        assert_int_equal(hrf_lora_add(adapted, 3, 0, 1, &trained, NULL), HRF_OK);
        assert_int_equal(hrf_graph_infer_shapes(adapted, NULL), HRF_OK);
        assert_int_equal(trained.n_items, networks[i].n_factors + 2);
        assert_int_equal(hrf_lora_merge(graph, adapted, &begun, NULL), HRF_OK);
        struct hrf_random random = hrf_random_init(9);
        for (size_t k = 0; k < trained.n_items; k++) { /* B is zero: the file's network */
            struct hrf_value *value =
                &adapted->values[hrf_graph_find_value(adapted, trained.items[k])];
            const size_t n = strlen(value->name);
            if (strcmp(value->name + n - 2, "_B") != 0)
                continue;
            for (int64_t e = 0; e < hrf_shape_count(&value->shape); e++) {
                assert_float_equal(((float *)value->data)[e], 0, 0);
                ((float *)value->data)[e] = (float)(0.1 * (2 * hrf_random_unit(&random) - 1));
            }
        }
        for (int32_t v = 0; v < graph->n_values; v++)
            if (graph->values[v].data != NULL && graph->values[v].dtype == HRF_F32)
                assert_memory_equal(graph->values[v].data, begun->values[v].data,
                                    (size_t)hrf_shape_count(&graph->values[v].shape) *
                                        sizeof(float));
        assert_int_equal(hrf_lora_merge(graph, adapted, &merged, NULL), HRF_OK);
        make_step(adapted, &trained, "cpu", &step, &loss);
        make_step(merged, NULL, "cpu", &whole, &of_merged);
        assert_true(fabs(loss - of_merged) < 1e-5 * fabs(loss));
        assert_int_equal(hrf_train_step_n_weights(step), trained.n_items);
        for (size_t k = 0; k < trained.n_items; k++) {
            const size_t n = strlen(trained.items[k]);
            HRF_AUTO_FREE char *name = hrf_strndup(trained.items[k], n > 7 ? n - 7 : n);
            if (n > 7 && strcmp(trained.items[k] + n - 7, ".lora_A") == 0)
                check_factors(step, whole, name, &worst, &largest);
        }
        assert_true(largest > 0 && worst < 1e-3 * largest);
    }
}

static void weights_go_into_an_array_and_back(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make("resnet:2,8");
    HRF_AUTO(hrf_graph) copy = NULL;
    const int64_t n = hrf_weights_count(graph);
    assert_int_equal(n, 178107);
    HRF_AUTO_FREE float *numbers = hrf_alloc_array((size_t)n, sizeof *numbers);
    HRF_AUTO_FREE float *back = hrf_alloc_array((size_t)n, sizeof *back);
    assert_int_equal(hrf_weights_get(graph, graph, numbers, NULL), HRF_OK);
    for (int64_t i = 0; i < n; i++)
        numbers[i] += 1;
    assert_int_equal(hrf_weights_set(graph, numbers, &copy, NULL), HRF_OK);
    assert_int_equal(hrf_weights_get(graph, copy, back, NULL), HRF_OK);
    assert_memory_equal(numbers, back, (size_t)n * sizeof *back);
}

static void a_training_reads_back_what_it_wrote(void **state)
{
    (void)state;
    const struct hrf_training_figures figures = {
        5, 4, 3, 12, 9, { .auc = 0.875, .balanced_accuracy = (double)NAN, .why = "one class" }
    };
    HRF_AUTO_JSON json = hrf_training_figures_json(hrf_training_of_pictures_rows, HRF_LABEL_CLASS,
                                                   2, 7, &figures);
    HRF_AUTO_FREE char *text = hrf_json_text(json);
    assert_string_equal(text,
                        "{\"auc\":0.875,\"balanced_accuracy\":null,\"best_epoch\":9,\"epochs\":12,"
                        "\"fold\":2,\"seed\":7,\"testing_pictures\":3,\"training_pictures\":5,"
                        "\"validation_pictures\":4,\"why_no_figure\":\"one class\"}");
}

/* Each line once: kinds of labels share rows. */
static void add_rows(struct hrf_strbuf *out, const struct hrf_figure_row *rows)
{
    for (const struct hrf_figure_row *row = rows; row->key != NULL; row++) {
        HRF_AUTO_RELEASE(hrf_strbuf) line = HRF_STRBUF_INIT;
        docs_add_figure(&line, "", row);
        if (strstr(out->text, line.text) == NULL)
            hrf_strbuf_adds(out, line.text);
    }
}

static void the_page_of_training_has_every_figure(void **state)
{
    (void)state;
    struct hrf_strbuf rows = HRF_STRBUF_INIT;
    add_rows(&rows, hrf_training_of_pictures_rows);
    for (int kind = 0; kind < HRF_N_LABEL_KINDS; kind++)
        add_rows(&rows, hrf_scored_rows[kind]);
    for (int kind = 0; kind < HRF_N_LABEL_KINDS; kind++)
        add_rows(&rows, hrf_epoch_of_pictures_rows[kind]);
    docs_compare("docs/training-results.md", "test_fine_tuning",
                 "| in `result.json` | in `history.csv` | unit | | what |", &rows);
    hrf_strbuf_release(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_last_layer_is_drawn_by_the_seed_for_other_classes),
        cmocka_unit_test(what_ends_in_no_layer_is_refused),
        cmocka_unit_test(what_ends_the_network_fits_the_labels),
        cmocka_unit_test(a_last_layer_is_scaled_and_moved),
        cmocka_unit_test(a_layer_is_put_behind_an_embedding),
        cmocka_unit_test(the_last_layers_are_those_of_the_end),
        cmocka_unit_test(low_rank_factors_have_the_gradients_of_the_merged_network),
        cmocka_unit_test(weights_go_into_an_array_and_back),
        cmocka_unit_test(a_training_reads_back_what_it_wrote),
        cmocka_unit_test(the_page_of_training_has_every_figure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
