/* Slide heads against PyTorch: tests/golden/heads/KIND.bin are losses, scores, attention and
 * gradients that tools/reference/head_goldens.py computed in double precision, on weights and bags
 * that both sides draw by the same numbers. */
#include "tests/unit/heads/model/golden.h"

#include <omp.h>
#include <string.h>

static void compare(const char *kind)
{
    struct golden g = load(kind);
    struct hrf_head *head = make_head(g.head);
    struct hrf_tape *tape = NULL;
    struct hrf_head_result r;
    const int64_t n = g.head[1], d = g.head[2];
    float *bag = hrf_alloc((size_t)(n * d) * sizeof *bag);
    assert_non_null(bag);
    fill(bag, n * d, 5, 1);
    hrf_tape_create(&tape);
    hrf_tape_clear(tape, 0, true);
    assert_int_equal(
        hrf_head_run(head, tape, hrf_tape_input(tape, bag, n, d), g.head[9], 1.5, &r, NULL),
        HRF_OK);
    assert_int_equal(hrf_tape_backward(tape, r.loss, NULL), HRF_OK);
    const size_t k = (size_t)g.head[3];
    const size_t n_attention = r.attention != NULL ? (size_t)hrf_tensor_count(r.attention) : 0;
    assert_int_equal(g.n_values, 1 + k + n_attention + (size_t)head->n_values);
    const float *v = g.values;
    assert_true(difference(r.loss->data, v, 1, fmaxf(1, fabsf(v[0]))) < 1e-5F);
    assert_true(difference(r.scores->data, v + 1, k, 1) < 1e-5F);
    if (n_attention > 0)
        assert_true(difference(r.attention->data, v + 1 + k, n_attention,
                               largest(v + 1 + k, n_attention)) < 1e-5F);
    v += 1 + k + n_attention;
    const float of_all = largest(v, (size_t)head->n_values);
    float worst = 0;
    for (int32_t i = 0; i < head->n_parameters; i++) {
        struct hrf_tensor *p = &head->parameters[i];
        const size_t count = (size_t)hrf_tensor_count(p);
        if (!p->has_grad) /* the other classes' instance classifiers */
            memset(p->grad, 0, count * sizeof *p->grad);
        const float scale = fmaxf(largest(v, count), 1e-2F * of_all);
        const float error = difference(p->grad, v, count, scale);
        if (error >= 1e-5F)
            print_message("%s: %s differs by %g of %g\n", kind, p->name, (double)error,
                          (double)scale);
        worst = fmaxf(worst, error);
        v += count;
    }
    print_message("%s: gradients differ by %.2g at most\n", kind, (double)worst);
    assert_true(worst < 1e-5F);
    hrf_tape_destroy(tape);
    hrf_head_destroy(head);
    hrf_free(bag);
    hrf_free(g.bytes);
}

static void gradients_are_pytorchs(void **state)
{
    (void)state;
    for (int i = 0; i < HRF_N_HEADS; i++)
        compare(hrf_head_kind_names[i]);
}

/* Loss and gradients of a bag long enough for every way of cutting the work. */
static void run_threads(enum hrf_head_kind kind, int n_threads, float **grads, size_t *n)
{
    const struct hrf_head_form form = { .kind = kind,
                                        .width = 48,
                                        .n_classes = 2,
                                        .hidden = 64,
                                        .attention = 32,
                                        .landmarks = 16,
                                        .dropout = 0.25,
                                        .instance_weight = 0.3 };
    enum { BAG = 9000 };
    struct hrf_head *head = NULL;
    struct hrf_tape *tape = NULL;
    struct hrf_head_result r;
    float *bag = hrf_alloc(BAG * 48 * sizeof *bag);
    assert_non_null(bag);
    fill(bag, BAG * 48, 3, 1);
    omp_set_num_threads(n_threads);
    assert_int_equal(hrf_head_create(&form, 7, &head, NULL), HRF_OK);
    hrf_tape_create(&tape);
    hrf_tape_clear(tape, 9, true);
    assert_int_equal(hrf_head_run(head, tape, hrf_tape_input(tape, bag, BAG, 48), 0, 1, &r, NULL),
                     HRF_OK);
    assert_int_equal(hrf_tape_backward(tape, r.loss, NULL), HRF_OK);
    *n = (size_t)head->n_values;
    *grads = hrf_alloc(*n * sizeof **grads);
    assert_non_null(*grads);
    memcpy(*grads, head->grads, *n * sizeof **grads);
    hrf_tape_destroy(tape);
    hrf_head_destroy(head);
    hrf_free(bag);
}

static void bits_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    for (int kind = 0; kind < HRF_N_HEADS; kind++) {
        float *one = NULL, *three = NULL;
        size_t n = 0;
        run_threads((enum hrf_head_kind)kind, 1, &one, &n);
        run_threads((enum hrf_head_kind)kind, 3, &three, &n);
        assert_true(largest(one, n) > 0);
        assert_memory_equal(one, three, n * sizeof *one);
        hrf_free(one);
        hrf_free(three);
    }
}

static double tape_bytes(struct hrf_head *head, int64_t n, bool is_training)
{
    struct hrf_tape *tape = NULL;
    struct hrf_head_result r;
    float *bag = hrf_calloc((size_t)n, 48 * sizeof *bag);
    hrf_tape_create(&tape);
    hrf_tape_clear(tape, 0, is_training);
    hrf_head_forget_grads(head);
    assert_int_equal(hrf_head_run(head, tape, hrf_tape_input(tape, bag, n, 48),
                                  is_training ? 0 : -1, 1, &r, NULL),
                     HRF_OK);
    if (is_training)
        assert_int_equal(hrf_tape_backward(tape, r.loss, NULL), HRF_OK);
    const double n_bytes = (double)hrf_tape_bytes(tape);
    hrf_tape_destroy(tape);
    hrf_free(bag);
    return n_bytes;
}

/* By which a training tells beforehand that a bag will not fit. */
static void what_a_tape_takes_grows_by_a_straight_line(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * HRF_N_HEADS; k++) {
        const struct hrf_head_form form = { .kind = (enum hrf_head_kind)(k / 2),
                                            .width = 48,
                                            .n_classes = 2,
                                            .hidden = 64,
                                            .attention = 32,
                                            .landmarks = 16 };
        struct hrf_head *head = NULL;
        assert_int_equal(hrf_head_create(&form, 7, &head, NULL), HRF_OK);
        const bool trains = k % 2 == 1;
        const double small = tape_bytes(head, 1024, trains),
                     larger = tape_bytes(head, 4096, trains);
        const double found = tape_bytes(head, 20000, trains);
        const double wanted = small + (20000 - 1024) * (larger - small) / (4096 - 1024);
        if (fabs(found - wanted) > 0.02 * found + 4096)
            fail_msg("%s: %.0f bytes, not %.0f", hrf_head_kind_names[k / 2], found, wanted);
        hrf_head_destroy(head);
    }
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct hrf_head *head = NULL;
    struct hrf_error err;
    struct hrf_head_form form = { .kind = HRF_HEAD_TRANSMIL, .width = 8, .n_classes = 2 };
    form.hidden = 12;
    assert_int_equal(hrf_head_create(&form, 1, &head, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "multiple of its heads (8)"));
    form = (struct hrf_head_form){ .kind = HRF_HEAD_ABMIL, .width = 8, .n_classes = 1 };
    assert_int_equal(hrf_head_create(&form, 1, &head, &err), HRF_E_USER);
    assert_null(head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_pytorchs),
        cmocka_unit_test(bits_do_not_depend_on_the_threads),
        cmocka_unit_test(what_a_tape_takes_grows_by_a_straight_line),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
