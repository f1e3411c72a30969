/* byte_attention_problem.h - a BYTE_ATTENTION of random sizes, types, scales and numbers. */
#ifndef HRF_TESTS_ENGINE_BACKEND_CPU_BYTE_ATTENTION_PROBLEM_H
#define HRF_TESTS_ENGINE_BACKEND_CPU_BYTE_ATTENTION_PROBLEM_H

#include "tests/unit/engine/backend/cpu/integer_layer.h"

enum { MAX_SIZE = 80 };

static struct hrf_random numbers;

static inline int32_t pick(int32_t low, int32_t high)
{
    return low + (int32_t)hrf_random_below(&numbers, high - low + 1);
}

/* Q, K, V and Y as a BYTE_ATTENTION has them. */
struct problem {
    int64_t n_queries, n_keys, depth, heads;
    struct hrf_attributes attributes;
    struct hrf_graph *graph;
    uint8_t *x[3];
};

static inline int32_t add_bytes(struct problem *p, const char *name, int64_t rows, int64_t columns,
                                double scale)
{
    const bool is_signed = pick(0, 1) != 0;
    return add_quantized(p->graph, name, is_signed ? HRF_S8 : HRF_U8, SHAPE(1, rows, columns), NULL,
                         (float)scale, is_signed ? pick(-128, 127) : pick(0, 255));
}

/* Heads of `more_channels` beside up to MAX_SIZE. */
static inline struct problem make_problem(int64_t more_channels)
{
    struct problem p = { .n_queries = pick(1, MAX_SIZE),
                         .n_keys = pick(1, MAX_SIZE),
                         .depth = more_channels + pick(1, MAX_SIZE),
                         .heads = pick(1, 2),
                         .attributes = hrf_attributes_default() };
    struct hrf_attributes *a = &p.attributes;
    const double score_step = 0.001 * pick(1, 100), value_step = 0.01 * pick(1, 9);
    int32_t inputs[3], output;
    must(hrf_graph_create("bytes", &p.graph, &err));
    a->attention.scale = 0.5f;
    a->attention.heads = p.heads;
    a->attention.head_size = p.depth;
    a->attention.scores = (struct hrf_inner_form){ .dtype = pick(0, 1) != 0 ? HRF_S8 : HRF_U8,
                                                   .scale = (float)score_step };
    a->attention.scores.zero_point = a->attention.scores.dtype == HRF_S8 ? pick(-128, 127)
                                                                         : pick(0, 255);
    a->attention.weights = (struct hrf_inner_form){ .dtype = HRF_U8,
                                                    .scale = pick(0, 1) != 0 ? 1 / 255.0f : 0.02f,
                                                    .zero_point = pick(0, 3) != 0 ? 0
                                                                                  : pick(0, 255) };
    const double scales[] = { 2e-6 * pick(100, 4000) * score_step, 1, value_step };
    for (int i = 0; i < 3; i++) {
        a->attention.first[i] = pick(0, 5);
        a->attention.stride[i] = p.depth + pick(0, 2);
        const int64_t rows = i == HRF_ATTENTION_Q ? p.n_queries : p.n_keys;
        const int64_t columns = a->attention.first[i] + p.heads * a->attention.stride[i];
        inputs[i] = add_bytes(&p, i == 0 ? "q" : i == 1 ? "k" : "v", rows, columns, scales[i]);
        p.x[i] = hrf_alloc((size_t)(rows * columns));
        for (int64_t k = 0; k < rows * columns; k++)
            p.x[i][k] = (uint8_t)pick(0, 255);
    }
    output = add_bytes(&p, "y", p.n_queries, p.heads * p.depth,
                       (double)a->attention.weights.scale * value_step / (1e-4 * pick(1, 40)));
    must(
        hrf_graph_add_node(p.graph, HRF_OP_BYTE_ATTENTION, "node", inputs, 3, &output, 1, a, &err));
    return p;
}

static inline void release_problem(struct problem *p)
{
    hrf_graph_destroy(p->graph);
    for (int i = 0; i < 3; i++)
        hrf_free(p->x[i]);
}

#endif
