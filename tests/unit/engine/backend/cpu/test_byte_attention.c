/* Attention of bytes: plain loops against sums in double, and AVX-512 VNNI against plain loops. */
#include "engine/backend/cpu/cpu_private.h"
#include "tests/unit/engine/backend/cpu/byte_attention_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double byte_of(enum hrf_dtype type, uint8_t byte)
{
    return type == HRF_S8 ? (int8_t)byte : byte;
}

/* A number of a head, less its zero point. */
static double number(const struct problem *p, int which, int64_t head, int64_t i, int64_t c)
{
    const struct hrf_value *v = &p->graph->values[p->graph->nodes[0].inputs[which]];
    const struct hrf_attributes *a = &p->attributes;
    const int64_t at = i * v->shape.dims[2] + a->attention.first[which] +
                       head * a->attention.stride[which] + c;
    return byte_of(v->dtype, p->x[which][at]) - v->quantization.zero_point;
}

/* In steps from the zero point; sums of bytes are exact floats. */
static double round_to(enum hrf_dtype type, int32_t zero_point, double factor, double x)
{
    const double min = (type == HRF_S8 ? -128 : 0) - zero_point;
    return rint(fmin(fmax((double)((float)x * (float)factor), min), min + 255));
}

/* The bytes of a query as the operators make them in double, one after the other. */
static void attend(const struct problem *p, int64_t head, int64_t i, double *y)
{
    const struct hrf_value *values = p->graph->values;
    const struct hrf_node *node = &p->graph->nodes[0];
    const struct hrf_value *out = &values[node->outputs[0]];
    const struct hrf_inner_form *s = &p->attributes.attention.scores;
    const struct hrf_inner_form *w = &p->attributes.attention.weights;
    const double of_scores = (double)values[node->inputs[0]].quantization.scale *
                             (double)values[node->inputs[1]].quantization.scale *
                             (double)p->attributes.attention.scale / (double)s->scale;
    const double of_values = (double)w->scale * (double)values[node->inputs[2]].quantization.scale /
                             (double)out->quantization.scale;
    double scores[MAX_SIZE], largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p->n_keys; j++) {
        double dot = 0;
        for (int64_t c = 0; c < p->depth; c++)
            dot += number(p, HRF_ATTENTION_Q, head, i, c) * number(p, HRF_ATTENTION_K, head, j, c);
        scores[j] = (double)s->scale * round_to(s->dtype, s->zero_point, of_scores, dot);
        largest = fmax(largest, scores[j]);
    }
    for (int64_t j = 0; j < p->n_keys; j++)
        sum += exp(scores[j] - largest);
    for (int64_t c = 0; c < p->depth; c++) {
        double dot = 0;
        for (int64_t j = 0; j < p->n_keys; j++)
            dot += round_to(w->dtype, w->zero_point, 1,
                            exp(scores[j] - largest) / sum / (double)w->scale) *
                   number(p, HRF_ATTENTION_V, head, j, c);
        y[c] = round_to(out->dtype, out->quantization.zero_point, of_values, dot) +
               out->quantization.zero_point;
    }
}

/* How far the bytes of y are from those. */
static double worst(const struct problem *p, const uint8_t *y)
{
    const enum hrf_dtype type = p->graph->values[p->graph->nodes[0].outputs[0]].dtype;
    double wanted[MAX_SIZE], most_apart = 0;
    for (int64_t i = 0; i < p->n_queries; i++)
        for (int64_t head = 0; head < p->heads; head++) {
            attend(p, head, i, wanted);
            for (int64_t c = 0; c < p->depth; c++)
                most_apart = fmax(
                    most_apart,
                    fabs(wanted[c] - byte_of(type, y[(i * p->heads + head) * p->depth + c])));
        }
    return most_apart;
}

static uint8_t *compute(const struct hrf_kernel_row *row, const struct problem *p)
{
    struct hrf_backend backend = { .n_threads = 2 };
    const struct hrf_node *node = &p->graph->nodes[0];
    struct hrf_kernel *kernel = NULL;
    uint8_t *y = hrf_alloc((size_t)(p->n_queries * p->heads * p->depth));
    assert_null(row->misfit(p->graph, node));
    must(row->compile(row, &backend, p->graph, node, &kernel, &err));
    void *workspace = hrf_alloc_aligned(kernel->workspace_bytes, HRF_BUFFER_ALIGNMENT);
    assert_non_null(workspace);
    memset(workspace, 0xff, kernel->workspace_bytes);
    const struct hrf_kernel_call call = { (const void *const *)p->x, y, workspace };
    must(kernel->run(kernel, &call, &err));
    hrf_free(workspace);
    hrf_kernel_destroy(kernel);
    return y;
}

static void attention_of_bytes_is_what_the_operators_say(void **unused)
{
    (void)unused;
    int n_exact = 0;
    for (int i = 0; i < 150; i++) {
        numbers = hrf_random_init((uint64_t)i);
        struct problem p = make_problem(0);
        uint8_t *y = compute(&hrf_cpu_byte_attention, &p);
        const double apart = worst(&p, y);
        assert_true(apart <= 2); /* a weight near a half of a step */
        n_exact += apart == 0;
        if (hrf_cpu_has_avx512_vnni()) {
            uint8_t *fast = compute(&hrf_cpu_byte_attention_avx512, &p);
            assert_memory_equal(y, fast, (size_t)(p.n_queries * p.heads * p.depth));
            hrf_free(fast);
        }
        hrf_free(y);
        release_problem(&p);
    }
    assert_true(n_exact >= 120);
}

/* No row computes it, so that it would not be silently the attention of all keys. */
static void causal_attention_of_bytes_is_refused(void **unused)
{
    (void)unused;
    numbers = hrf_random_init(1);
    struct problem p = make_problem(0);
    p.graph->nodes[0].attributes.attention.causal = true;
    assert_non_null(hrf_cpu_byte_attention.misfit(p.graph, &p.graph->nodes[0]));
    release_problem(&p);
}

/* Ranks do not add its keys in parts, which are of floats (ATTENTION_PART). */
static void attention_of_bytes_is_never_in_parts(void **unused)
{
    (void)unused;
    numbers = hrf_random_init(1);
    struct problem p = make_problem(0);
    struct hrf_node *node = &p.graph->nodes[0];
    p.graph->values[node->inputs[HRF_ATTENTION_K]].shape.dims[1] = HRF_ATTENTION_LONG + 1;
    assert_false(hrf_attention_is_long(p.graph, node));
    node->op = HRF_OP_TOKEN_ATTENTION;
    assert_true(hrf_attention_is_long(p.graph, node));
    release_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_bytes_is_what_the_operators_say),
        cmocka_unit_test(causal_attention_of_bytes_is_refused),
        cmocka_unit_test(attention_of_bytes_is_never_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
