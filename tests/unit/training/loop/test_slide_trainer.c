/* An encoder and a head that are trained together: the gradients in two passes are those of both
 * networks as one graph; steps, and their state. */
#include "base/random.h"
#include "engine/model/model.h"
#include "tests/unit/must.h"
#include "training/loop/slide_trainer.h"

#include <math.h>
#include <string.h>

enum { SIDE = 32, BATCH = 2, N = 5, WIDTH = 12, N_CLASSES = 3, LABEL = 1, DROPOUT = 9 };
enum { IMAGE = SIDE * SIDE * 3 };

static struct hrf_graph *make_encoder(int64_t n_images)
{
    const struct hrf_shape shape = { 4, { n_images, 3, SIDE, SIDE } };
    struct hrf_graph *graph = NULL;
    struct hrf_error err = { .status = HRF_OK };
    must(hrf_model_make("resnet:1,8", WIDTH, SIDE, 3, &graph, &err), &err);
    for (int32_t v = 0; v < graph->n_values; v++) {
        struct hrf_value *value = &graph->values[v];
        char *name = hrf_format("encoder.%s", value->name); /* heads have an fc.weight, too */
        hrf_free(value->name);
        value->name = name;
        value->is_initializer = value->data != NULL; /* as those of a file */
    }
    must(hrf_graph_set_input_shape(graph, 0, &shape, &err), &err);
    must(hrf_graph_infer_shapes(graph, &err), &err);
    return graph;
}

static struct hrf_slide_trainer_config config_of(enum hrf_head_kind kind, int32_t n_threads)
{
    return (struct hrf_slide_trainer_config){
        .encoder = { .step = { .device = "cpu", .n_threads = n_threads },
                     .optimizer = hrf_optimizer_default(HRF_OPTIMIZER_ADAMW) },
        .head = { .kind = kind,
                  .n_classes = N_CLASSES,
                  .hidden = 16,
                  .attention = 8,
                  .landmarks = 4,
                  .heads = 2,
                  .samples = 2,
                  .dropout = 0.25,
                  .instance_weight = 0.3 },
        .seed = 5,
        .most = N,
        .head_rate = 2,
    };
}

static void fill(float *numbers, int64_t n, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)((double)(hrf_random_u64(&random) >> 40) / 0x1p23 - 1);
}

/* The images of a part of the bag; what the last batch lacks is no image. */
static enum hrf_status give(void *context, const struct hrf_bag_part *part, int64_t first,
                            float *images, struct hrf_error *err)
{
    const float *bag = context;
    (void)err;
    for (int64_t i = 0; i < BATCH; i++) {
        const bool is_there = first + i < part->n;
        const int64_t image = is_there && part->which != NULL ? part->which[first + i] : first + i;
        if (is_there)
            memcpy(images + i * IMAGE, bag + image * IMAGE, IMAGE * sizeof *bag);
        else
            fill(images + i * IMAGE, IMAGE, 77);
    }
    return HRF_OK;
}

/* ---- both networks as one graph ---- */

/* Puts `head` behind the output of `graph`; after its first input, those of dropout follow. */
static void join(struct hrf_graph *graph, const struct hrf_graph *head)
{
    HRF_AUTO_FREE int32_t *number = hrf_alloc_array((size_t)head->n_values + 1, sizeof *number);
    int32_t inputs[16], n_inputs = 1;
    struct hrf_error err = { .status = HRF_OK };
    inputs[0] = graph->inputs[0];
    for (int32_t v = 0; v < head->n_values; v++) {
        const struct hrf_value *value = &head->values[v];
        HRF_AUTO_FREE char *name = value->is_initializer ? hrf_strdup(value->name)
                                                         : hrf_format("head.%d", (int)v);
        if (v == head->inputs[0]) {
            number[v] = graph->outputs[0];
            continue;
        }
        must(hrf_graph_add_value(graph, name, value->dtype, &value->shape, value->data, &number[v],
                                 &err),
             &err);
        graph->values[number[v]].is_initializer = value->is_initializer;
    }
    for (int32_t n = 0; n < head->n_nodes; n++) {
        const struct hrf_node *node = &head->nodes[n];
        int32_t from[16], to[4];
        HRF_AUTO_FREE char *name = hrf_format("head node %d", (int)n);
        assert_true(node->n_inputs <= 16 && node->n_outputs <= 4);
        for (int32_t i = 0; i < node->n_inputs; i++)
            from[i] = node->inputs[i] >= 0 ? number[node->inputs[i]] : node->inputs[i];
        for (int32_t i = 0; i < node->n_outputs; i++)
            to[i] = node->outputs[i] >= 0 ? number[node->outputs[i]] : node->outputs[i];
        must(hrf_graph_add_node(graph, node->op, name, from, node->n_inputs, to, node->n_outputs,
                                &node->attributes, &err),
             &err);
    }
    for (int32_t i = 1; i < head->n_inputs; i++)
        inputs[n_inputs++] = number[head->inputs[i]];
    must(hrf_graph_set_io(graph, inputs, n_inputs, &number[head->outputs[0]], 1, &err), &err);
}

/* A step of the joined graph, on the whole bag at once. */
static struct hrf_train_step *run_joined(const struct hrf_slide_trainer_config *config,
                                         const float *bag, double *loss)
{
    const struct hrf_head_step made = { .n = N, .label = LABEL };
    const struct hrf_train_step_config whole = { .device = "cpu",
                                                 .loss = HRF_LOSS_LINEAR,
                                                 .tiles = { 1, 1 } };
    struct hrf_head_form form = config->head;
    struct hrf_random random = hrf_random_init(DROPOUT);
    struct hrf_train_step *step = NULL;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_head) head = NULL;
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO(hrf_graph) graph = make_encoder(N);
    form.width = WIDTH;
    must(hrf_head_create(&form, config->seed, &head, &err), &err);
    must(hrf_head_step_network(head, &made, &network, &err), &err);
    join(graph, network);
    must(hrf_train_step_create(graph, &whole, &step, &err), &err);
    memcpy(hrf_train_step_images(step), bag, N * IMAGE * sizeof *bag);
    for (int32_t i = 1; i < graph->n_inputs; i++) {
        const struct hrf_shape *shape = &graph->values[graph->inputs[i]].shape;
        hrf_head_draw_dropout(form.dropout, hrf_random_u64(&random), shape->dims[0], shape->dims[1],
                              hrf_train_step_input(step, i));
    }
    hrf_head_step_factors(head, &made, 1, hrf_train_step_targets(step));
    must(hrf_train_step_run(step, loss, &err), &err);
    return step;
}

/* The loss and the gradients of one bag alone. */
static double run(struct hrf_slide_trainer *trainer, const struct hrf_slide_bag *bag)
{
    struct hrf_error err = { .status = HRF_OK };
    hrf_slide_trainer_begin(trainer);
    must(hrf_slide_trainer_add(trainer, bag, 1, &err), &err);
    return hrf_slide_trainer_loss(trainer);
}

static void two_passes_give_the_gradients_of_one_graph(void **state)
{
    (void)state;
    HRF_AUTO_FREE float *bag = hrf_alloc_array(N, IMAGE * sizeof *bag);
    fill(bag, (int64_t)N * IMAGE, 1);
    for (int kind = 0; kind < HRF_N_HEADS; kind++) {
        const struct hrf_slide_trainer_config config = config_of((enum hrf_head_kind)kind, 0);
        const struct hrf_slide_bag given = { N, LABEL, DROPOUT, give, bag };
        struct hrf_error err = { .status = HRF_OK };
        double expected = 0, loss = 0, most = 0, off = 0;
        int32_t n_of_head = 0;
        HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
        HRF_AUTO(hrf_slide_trainer) trainer = NULL;
        HRF_AUTO(hrf_train_step) joined = run_joined(&config, bag, &expected);
        must(hrf_slide_trainer_create(encoder, &config, &trainer, &err), &err);
        loss = run(trainer, &given);
        if (fabs(loss - expected) > 1e-5 * fabs(expected))
            fail_msg("%s: loss %g and %g", hrf_head_kind_names[kind], loss, expected);
        for (int32_t i = 0; i < hrf_train_step_n_weights(joined); i++) {
            const struct hrf_trained_tensor *w = &hrf_train_step_weights(joined)[i];
            const float *wanted = hrf_train_step_gradient(joined, i);
            const float *found = hrf_slide_trainer_gradient(trainer, w->name);
            assert_non_null(found);
            n_of_head += hrf_graph_find_value(encoder, w->name) < 0;
            for (int64_t k = 0; k < hrf_shape_count(&w->shape); k++) {
                most = fmax(most, fabs((double)wanted[k]));
                off = fmax(off, fabs((double)wanted[k] - (double)found[k]));
            }
        }
        assert_true(n_of_head > 0 && most > 0);
        if (off > 1e-5 * most)
            fail_msg("%s: %g of %g", hrf_head_kind_names[kind], off, most);
    }
}

/* Of the gradients to the encoder's weights: the largest number, and the largest difference. */
struct difference {
    double most, off;
};

static int32_t n_weights_of(struct hrf_slide_trainer *trainer)
{
    return hrf_train_step_n_weights(hrf_trainer_next(hrf_slide_trainer_encoder(trainer)));
}

static struct difference compare(struct hrf_slide_trainer *a, struct hrf_slide_trainer *b)
{
    const struct hrf_train_step *step = hrf_trainer_next(hrf_slide_trainer_encoder(a));
    struct difference found = { 0, 0 };
    for (int32_t i = 0; i < n_weights_of(a); i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(step)[i];
        const float *x = hrf_slide_trainer_gradient(a, w->name);
        const float *y = hrf_slide_trainer_gradient(b, w->name);
        for (int64_t k = 0; k < hrf_shape_count(&w->shape); k++) {
            found.most = fmax(found.most, fabs((double)x[k]));
            found.off = fmax(found.off, fabs((double)x[k] - (double)y[k]));
        }
    }
    return found;
}

/* Numbers of the weights of this name, in the encoder or in the state of the head's network. */
static int64_t count_of(struct hrf_slide_trainer *trainer, const char *name)
{
    const struct hrf_train_step *step = hrf_trainer_next(hrf_slide_trainer_encoder(trainer));
    struct hrf_head *head = NULL;
    struct hrf_error err = { .status = HRF_OK };
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++)
        if (strcmp(hrf_train_step_weights(step)[i].name, name) == 0)
            return hrf_shape_count(&hrf_train_step_weights(step)[i].shape);
    must(hrf_slide_trainer_head(trainer, &head, &err), &err);
    for (int32_t i = 0; i < head->n_parameters; i++)
        if (strcmp(head->parameters[i].name, name) == 0)
            return hrf_shape_count(&head->parameters[i].shape);
    return 0;
}

/* Three slides of different lengths and labels. */
static void a_step_of_several_slides_has_the_mean_of_their_losses_and_gradients(void **state)
{
    (void)state;
    enum { N_SLIDES = 3 };
    static const char *const of_head[] = { "fc.weight", "attention_c.weight", "classifier.bias" };
    HRF_AUTO_FREE float *bag = hrf_alloc_array(N, IMAGE * sizeof *bag);
    const struct hrf_slide_bag slides[N_SLIDES] = { { N, 1, 9, give, bag },
                                                    { 2, 0, 10, give, bag },
                                                    { 3, 2, 11, give, bag + IMAGE } };
    const struct hrf_slide_trainer_config config = config_of(HRF_HEAD_ABMIL, 0);
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
    HRF_AUTO(hrf_slide_trainer) together = NULL;
    HRF_AUTO(hrf_slide_trainer) alone = NULL;
    const char *names[64];
    double *sums[64];
    int32_t n = 0;
    double loss = 0, most = 0, off = 0;
    fill(bag, (int64_t)N * IMAGE, 1);
    must(hrf_slide_trainer_create(encoder, &config, &together, &err), &err);
    must(hrf_slide_trainer_create(encoder, &config, &alone, &err), &err);
    hrf_slide_trainer_begin(together);
    for (int i = 0; i < N_SLIDES; i++)
        must(hrf_slide_trainer_add(together, &slides[i], 1.0 / N_SLIDES, &err), &err);
    assert_int_equal(hrf_slide_trainer_counted(together), N + 2 + 3);
    const struct hrf_train_step *step = hrf_trainer_next(hrf_slide_trainer_encoder(alone));
    for (; n < n_weights_of(alone); n++)
        names[n] = hrf_train_step_weights(step)[n].name;
    assert_true(n > 10 && n + 3 <= 64);
    for (int i = 0; i < 3; i++)
        names[n++] = of_head[i];
    for (int32_t i = 0; i < n; i++)
        sums[i] = hrf_calloc(1 << 16, sizeof *sums[i]);
    for (int s = 0; s < N_SLIDES; s++) {
        loss += run(alone, &slides[s]) / N_SLIDES;
        for (int32_t i = 0; i < n; i++) {
            const int64_t count = count_of(alone, names[i]);
            assert_true(count > 0 && count <= 1 << 16);
            for (int64_t k = 0; k < count; k++)
                sums[i][k] += (double)hrf_slide_trainer_gradient(alone, names[i])[k] / N_SLIDES;
        }
    }
    assert_true(fabs(loss - hrf_slide_trainer_loss(together)) < 1e-6);
    for (int32_t i = 0; i < n; i++) {
        const int64_t count = count_of(alone, names[i]);
        for (int64_t k = 0; k < count; k++) {
            most = fmax(most, fabs(sums[i][k]));
            off = fmax(
                off, fabs(sums[i][k] - (double)hrf_slide_trainer_gradient(together, names[i])[k]));
        }
        hrf_free(sums[i]);
    }
    if (most == 0 || off > 1e-6 * most)
        fail_msg("%g of %g", off, most);
}

static void copy_state(struct hrf_slide_trainer *from, struct hrf_slide_trainer *to)
{
    HRF_AUTO_RELEASE(hrf_strbuf) state = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    hrf_slide_trainer_append_state(from, &state);
    must(hrf_slide_trainer_set_state(to, state.text, state.length, &err), &err);
}

static void compare_losses_and_gradients(struct hrf_slide_trainer *whole,
                                         struct hrf_slide_trainer *trainer,
                                         const struct hrf_slide_bag *bag, double limit)
{
    const double expected = run(whole, bag), loss = run(trainer, bag);
    const struct difference found = compare(whole, trainer);
    if (fabs(loss - expected) > 1e-5 || found.most == 0 || found.off > limit * found.most)
        fail_msg("%s: loss %g and %g; %g of %g",
                 hrf_train_step_text(hrf_trainer_next(hrf_slide_trainer_encoder(trainer))), loss,
                 expected, found.off, found.most);
}

/* By the weights of the beginning, and by those after an update. */
static void tiles_and_ranks_give_the_gradients_of_one_piece(void **state)
{
    (void)state;
    static const struct {
        const char *layout;
        int32_t tiles[2];
        enum hrf_precision precision;
        double limit; /* of the difference, by the largest gradient */
    } ways[] = {
        { "single", { 2, 2 }, HRF_FP32, 1e-5 },    { "data=2", { 0, 0 }, HRF_FP32, 1e-5 },
        { "spatial=2", { 0, 0 }, HRF_FP32, 1e-5 }, { "stages=2", { 0, 0 }, HRF_FP32, 1e-5 },
        { "single", { 2, 2 }, HRF_BF16, 0.1 },     { "data=2", { 0, 0 }, HRF_BF16, 0.1 }
    };
    HRF_AUTO_FREE float *bag = hrf_alloc_array(N, IMAGE * sizeof *bag);
    const struct hrf_slide_bag given = { N, LABEL, DROPOUT, give, bag };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
    fill(bag, (int64_t)N * IMAGE, 1);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct hrf_slide_trainer_config config = config_of(HRF_HEAD_ABMIL, 2);
        struct hrf_layout_plan layout;
        HRF_AUTO(hrf_slide_trainer) whole = NULL;
        HRF_AUTO(hrf_slide_trainer) trainer = NULL;
        config.encoder.step.precision = ways[i].precision;
        config.encoder.step.tiles[0] = config.encoder.step.tiles[1] = 1;
        must(hrf_slide_trainer_create(encoder, &config, &whole, &err), &err);
        must(hrf_layout_parse(ways[i].layout, &layout, &err), &err);
        config.encoder.step.layout = &layout;
        memcpy(config.encoder.step.tiles, ways[i].tiles, sizeof ways[i].tiles);
        must(hrf_slide_trainer_create(encoder, &config, &trainer, &err), &err);
        const struct hrf_train_step *step = hrf_trainer_next(hrf_slide_trainer_encoder(trainer));
        assert_non_null(strstr(hrf_train_step_text(step),
                               ways[i].tiles[0] > 0 ? "2 x 2 tiles" : ways[i].layout));
        compare_losses_and_gradients(whole, trainer, &given, ways[i].limit);
        must(hrf_slide_trainer_update(trainer, 1e-3, &err), &err);
        copy_state(trainer, whole);
        compare_losses_and_gradients(whole, trainer, &given, ways[i].limit);
    }
}

static void gradients_in_bf16_are_those_of_fp32_but_for_their_rounding(void **state)
{
    (void)state;
    HRF_AUTO_FREE float *bag = hrf_alloc_array(N, IMAGE * sizeof *bag);
    const struct hrf_slide_bag given = { N, LABEL, DROPOUT, give, bag };
    struct hrf_slide_trainer_config config = config_of(HRF_HEAD_ABMIL, 0);
    struct hrf_error err = { .status = HRF_OK };
    double loss = 0, loss_of_bf16 = 0, most = 0, off = 0;
    HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
    HRF_AUTO(hrf_slide_trainer) exact = NULL;
    HRF_AUTO(hrf_slide_trainer) rounded = NULL;
    fill(bag, (int64_t)N * IMAGE, 1);
    must(hrf_slide_trainer_create(encoder, &config, &exact, &err), &err);
    config.encoder.step.precision = HRF_BF16;
    must(hrf_slide_trainer_create(encoder, &config, &rounded, &err), &err);
    loss = run(exact, &given);
    loss_of_bf16 = run(rounded, &given);
    assert_true(loss == loss_of_bf16); /* of embeddings in FP32 */
    const struct hrf_train_step *step = hrf_trainer_next(hrf_slide_trainer_encoder(exact));
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(step)[i];
        const float *wanted = hrf_slide_trainer_gradient(exact, w->name);
        const float *found = hrf_slide_trainer_gradient(rounded, w->name);
        for (int64_t k = 0; k < hrf_shape_count(&w->shape); k++) {
            most = fmax(most, fabs((double)wanted[k]));
            off = fmax(off, fabs((double)wanted[k] - (double)found[k]));
        }
    }
    if (off == 0 || off > 0.1 * most)
        fail_msg("%g of %g", off, most);
}

/* Weights, moments and all else after two steps; heap. */
static struct hrf_strbuf train(const struct hrf_slide_trainer_config *config, float *bag,
                               const struct hrf_strbuf *state, int n_steps, double *loss)
{
    const struct hrf_slide_bag given = { N, LABEL, DROPOUT, give, bag };
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
    HRF_AUTO(hrf_slide_trainer) trainer = NULL;
    must(hrf_slide_trainer_create(encoder, config, &trainer, &err), &err);
    if (state != NULL)
        must(hrf_slide_trainer_set_state(trainer, state->text, state->length, &err), &err);
    for (int i = 0; i < n_steps; i++) {
        *loss = run(trainer, &given);
        must(hrf_slide_trainer_update(trainer, 1e-3, &err), &err);
    }
    hrf_slide_trainer_append_state(trainer, &out);
    return out;
}

static void steps_go_on_from_a_state_with_the_same_bytes_on_any_number_of_threads(void **state)
{
    (void)state;
    const struct hrf_slide_trainer_config one = config_of(HRF_HEAD_ABMIL, 1),
                                          two = config_of(HRF_HEAD_ABMIL, 2);
    HRF_AUTO_FREE float *bag = hrf_alloc_array(N, IMAGE * sizeof *bag);
    double first = 0, last = 0, again = 0;
    fill(bag, (int64_t)N * IMAGE, 1);
    HRF_AUTO_RELEASE(hrf_strbuf) begun = train(&one, bag, NULL, 1, &first);
    HRF_AUTO_RELEASE(hrf_strbuf) whole = train(&one, bag, NULL, 4, &last);
    HRF_AUTO_RELEASE(hrf_strbuf) resumed = train(&two, bag, &begun, 3, &again);
    assert_true(last < first && last == again);
    assert_int_equal(whole.length, resumed.length);
    assert_memory_equal(whole.text, resumed.text, whole.length);
    HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
    HRF_AUTO(hrf_slide_trainer) trainer = NULL;
    assert_int_equal(hrf_slide_trainer_create(encoder, &one, &trainer, NULL), HRF_OK);
    for (size_t n = 0; n < 24; n += 7)
        assert_int_equal(hrf_slide_trainer_set_state(trainer, whole.text, n, NULL), HRF_E_USER);
}

static void the_smallest_gradients_are_left_out_up_to_a_share_of_their_norms(void **state)
{
    (void)state;
    static const float gradients[] = { 0, 3, 10, 0, 0, -1, 2, 0 }; /* norms 3, 10, 1, 2 */
    static const struct {
        double skipped;
        int64_t n, which[4];
    } rows[] = { { 0, 4, { 0, 1, 2, 3 } }, { 0.06, 4, { 0, 1, 2, 3 } }, { 0.1, 3, { 0, 1, 3 } },
                 { 0.2, 2, { 0, 1 } },     { 0.4, 1, { 1 } },           { 1, 1, { 1 } } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t which[4];
        assert_int_equal(hrf_slide_gradients_choose(gradients, 4, 2, rows[i].skipped, which),
                         rows[i].n);
        assert_memory_equal(which, rows[i].which, (size_t)rows[i].n * sizeof which[0]);
    }
}

static void gradients_of_the_parts_of_a_bag_add_up_to_those_of_the_bag(void **state)
{
    (void)state;
    static const int64_t odd[] = { 1, 3 }, even[] = { 0, 2, 4 };
    static const struct hrf_bag_part all = { N, NULL }, parts[] = { { 2, odd }, { 3, even } };
    const struct hrf_train_step_config config = {
        .device = "cpu", .loss = HRF_LOSS_LINEAR, .has_forward = true, .tiles = { 1, 1 }
    };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) encoder = make_encoder(BATCH);
    HRF_AUTO(hrf_train_step) step = NULL;
    HRF_AUTO(hrf_bag_step) bag = NULL;
    HRF_AUTO_FREE float *images = hrf_alloc_array(N, IMAGE * sizeof *images);
    float seeds[N * WIDTH];
    double most = 0, off = 0;
    fill(images, (int64_t)N * IMAGE, 1);
    fill(seeds, (int64_t)N * WIDTH, 2);
    must(hrf_train_step_create(encoder, &config, &step, &err), &err);
    must(hrf_bag_step_create(step, &bag, &err), &err);
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        const size_t n = (size_t)hrf_shape_count(&hrf_train_step_weights(step)[i].shape);
        HRF_AUTO_FREE float *sum = hrf_calloc(n, sizeof *sum);
        hrf_bag_step_begin(bag);
        for (int p = 0; p < 2; p++)
            must(hrf_bag_step_run(bag, &parts[p], give, images, seeds, &err), &err);
        memcpy(sum, hrf_bag_step_gradient(bag, i), n * sizeof *sum);
        hrf_bag_step_begin(bag);
        must(hrf_bag_step_run(bag, &all, give, images, seeds, &err), &err);
        for (size_t k = 0; k < n; k++) {
            most = fmax(most, fabs((double)sum[k]));
            off = fmax(off, fabs((double)sum[k] - (double)hrf_bag_step_gradient(bag, i)[k]));
        }
    }
    if (off > 1e-5 * most)
        fail_msg("%g of %g", off, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_gradients_are_left_out_up_to_a_share_of_their_norms),
        cmocka_unit_test(gradients_of_the_parts_of_a_bag_add_up_to_those_of_the_bag),
        cmocka_unit_test(two_passes_give_the_gradients_of_one_graph),
        cmocka_unit_test(a_step_of_several_slides_has_the_mean_of_their_losses_and_gradients),
        cmocka_unit_test(tiles_and_ranks_give_the_gradients_of_one_piece),
        cmocka_unit_test(gradients_in_bf16_are_those_of_fp32_but_for_their_rounding),
        cmocka_unit_test(steps_go_on_from_a_state_with_the_same_bytes_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
