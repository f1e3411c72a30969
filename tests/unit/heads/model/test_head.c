/* Slide heads against PyTorch: tests/golden/heads/KIND.bin are losses, scores, attention and
 * gradients that tools/reference/head_goldens.py computed in double precision, on weights and bags
 * that both sides draw by the same numbers. */
#include "base/file.h"
#include "heads/model/head.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -scale .. scale, exact in both languages. */
static void fill(float *x, int64_t n, uint32_t seed, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        x[i] = ((float)(seed >> 8) / 8388608.0F - 1.0F) * scale;
    }
}

/* A golden file: 10 int32 (kind, N, D, K, hidden, attention, landmarks, heads, samples, label),
 * then float32: loss, scores [K], attention [rows][N], gradients of all parameters in their order.
 */
struct golden {
    int32_t head[10];
    const float *values;
    size_t n_values;
    char *bytes;
};

static struct golden load(const char *kind)
{
    const char *folder = getenv("HRF_HEAD_GOLDENS"); /* others: head_goldens.py --large */
    char path[512];
    size_t n = 0;
    struct golden g;
    snprintf(path, sizeof path, "%s/%s.bin", folder != NULL ? folder : "tests/golden/heads", kind);
    assert_int_equal(hrf_file_read(path, SIZE_MAX, &g.bytes, &n, NULL), HRF_OK);
    assert_true(n > sizeof g.head && n % sizeof(float) == 0);
    memcpy(g.head, g.bytes, sizeof g.head);
    g.values = (const float *)(const void *)(g.bytes + sizeof g.head);
    g.n_values = (n - sizeof g.head) / sizeof(float);
    return g;
}

static struct hrf_head *make_head(const int32_t h[10])
{
    const struct hrf_head_form form = { .kind = (enum hrf_head_kind)h[0],
                                        .width = h[2],
                                        .n_classes = h[3],
                                        .hidden = h[4],
                                        .attention = h[5],
                                        .landmarks = h[6],
                                        .heads = h[7],
                                        .samples = h[8],
                                        .dropout = 0,
                                        .instance_weight = 0.3 };
    struct hrf_head *head = NULL;
    assert_int_equal(hrf_head_create(&form, 1, &head, NULL), HRF_OK);
    for (int32_t i = 0; i < head->n_parameters; i++) {
        const struct hrf_tensor *p = &head->parameters[i];
        fill(p->data, hrf_tensor_count(p), 77U + (uint32_t)i,
             p->rows > 1 ? 1.0F / sqrtf((float)p->columns) : 0.5F);
    }
    return head;
}

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* The largest difference, in parts of `scale`. */
static float difference(const float *a, const float *b, size_t n, float scale)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(a[i] - b[i]) > most ? fabsf(a[i] - b[i]) : most;
    return most / scale;
}

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
    assert_int_equal(hrf_tape_create(&tape, NULL), HRF_OK);
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
        const float far = difference(p->grad, v, count, scale);
        if (far >= 1e-5F)
            print_message("%s: %s differs by %g of %g\n", kind, p->name, (double)far,
                          (double)scale);
        worst = fmaxf(worst, far);
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
        compare(hrf_head_words[i]);
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
    assert_int_equal(hrf_tape_create(&tape, NULL), HRF_OK);
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
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
