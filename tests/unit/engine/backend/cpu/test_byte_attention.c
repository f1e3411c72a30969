/* Attention of bytes: plain loops against sums in double, and AVX-512 VNNI against plain loops. */
#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "engine/backend/cpu/conv/winograd_integer.h"
#include "engine/backend/cpu/transformer/byte_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 80, ROW = 96 };

static uint32_t state;

static int32_t pick(int32_t low, int32_t high)
{
    state = state * 1664525u + 1013904223u;
    return low + (int32_t)((state >> 8) % (uint32_t)(high - low + 1));
}

struct problem {
    struct hrf_byte_attention a;
    uint8_t q[MOST * ROW], k[MOST * ROW], v[MOST * ROW];
    uint32_t exponentials[256];
    double score_step;
};

static struct hrf_byte_matrix matrix(uint8_t *data, bool is_left)
{
    for (int i = 0; i < MOST * ROW; i++)
        data[i] = (uint8_t)pick(0, 255);
    const uint8_t flip = pick(0, 1) != 0 ? 128 : 0;
    return (struct hrf_byte_matrix){
        .data = data, .row = ROW, .flip = flip, .zero = is_left ? pick(0, 255) : pick(-128, 127)
    };
}

static struct hrf_byte_steps steps(double factor, int32_t zero)
{
    return (struct hrf_byte_steps){ (float)factor, (float)-zero, (float)(255 - zero), zero };
}

static void make(struct problem *p)
{
    struct hrf_byte_attention *a = &p->a;
    *a = (struct hrf_byte_attention){ .n_queries = pick(1, MOST),
                                      .n_keys = pick(1, MOST),
                                      .depth = pick(1, MOST),
                                      .q = matrix(p->q, true),
                                      .k = matrix(p->k, false),
                                      .v = matrix(p->v, false),
                                      .y_row = ROW };
    p->score_step = 0.001 * pick(1, 100);
    a->scores = steps(1e-6 * pick(100, 4000), pick(0, 255));
    a->weight_scale = pick(0, 1) != 0 ? 1 / 255.0 : 0.02;
    a->weights_zero = pick(0, 3) != 0 ? 0 : pick(0, 255);
    a->weights = steps(1, a->weights_zero);
    a->output = steps(1e-4 * pick(1, 40), pick(0, 255));
    for (int i = 0; i < 256; i++)
        p->exponentials[i] = (uint32_t)rint(exp(-i * p->score_step) * HRF_BYTE_EXPONENTIAL);
    a->exponentials = p->exponentials;
}

static double number(const struct hrf_byte_matrix *m, bool is_left, int64_t i, int64_t c)
{
    const uint8_t byte = m->data[i * m->row + c] ^ m->flip;
    return (is_left ? byte : (int8_t)byte) - m->zero;
}

static double round_to(const struct hrf_byte_steps *s, double x)
{
    x = x * (double)s->factor;
    return rint(fmin(fmax(x, (double)s->low), (double)s->high));
}

/* How far the bytes of y are from the operators in double, one after the other. */
static int64_t worst(const struct problem *p, const uint8_t *y)
{
    const struct hrf_byte_attention *a = &p->a;
    double scores[MOST];
    int64_t most_apart = 0;
    for (int64_t i = 0; i < a->n_queries; i++) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < a->n_keys; j++) {
            double dot = 0;
            for (int64_t c = 0; c < a->depth; c++)
                dot += number(&a->q, true, i, c) * number(&a->k, false, j, c);
            scores[j] = p->score_step * round_to(&a->scores, dot);
            most = fmax(most, scores[j]);
        }
        for (int64_t j = 0; j < a->n_keys; j++)
            sum += exp(scores[j] - most);
        for (int64_t c = 0; c < a->depth; c++) {
            double dot = 0;
            for (int64_t j = 0; j < a->n_keys; j++)
                dot += round_to(&a->weights, exp(scores[j] - most) / sum / a->weight_scale) *
                       number(&a->v, false, j, c);
            const int64_t want = (int64_t)round_to(&a->output, dot) + a->output.zero;
            const int64_t apart = llabs(want - y[i * ROW + c]);
            most_apart = apart > most_apart ? apart : most_apart;
        }
    }
    return most_apart;
}

static void attention_of_bytes_is_what_the_operators_say(void **unused)
{
    (void)unused;
    struct problem *p = hrf_calloc(1, sizeof *p);
    uint8_t *y[2] = { hrf_calloc(MOST, ROW), hrf_calloc(MOST, ROW) };
    int n_exact = 0;
    assert_true(p != NULL && y[0] != NULL && y[1] != NULL);
    for (int i = 0; i < 150; i++) {
        state = (uint32_t)i;
        make(p);
        p->a.workspace = hrf_alloc_aligned(
            (size_t)hrf_byte_attention_bytes(p->a.n_keys, p->a.depth), 64);
        assert_non_null(p->a.workspace);
        p->a.y = y[0];
        hrf_byte_attention_plain(&p->a);
        const int64_t apart = worst(p, y[0]);
        assert_true(apart <= 2); /* a weight near a half of a step */
        n_exact += apart == 0;
        if (hrf_cpu_has_vnni()) {
            p->a.y = y[1];
            hrf_byte_attention_avx512(&p->a);
            for (int64_t q = 0; q < p->a.n_queries; q++)
                assert_memory_equal(y[0] + q * ROW, y[1] + q * ROW, (size_t)p->a.depth);
        }
        hrf_free(p->a.workspace);
    }
    assert_true(n_exact >= 120);
    hrf_free(y[0]);
    hrf_free(y[1]);
    hrf_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_bytes_is_what_the_operators_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
