/* build.h - small graphs for tests: values by name, seeded numbers, one line per node. A build
 * that fails ends the test (cmocka's assertions). */
#ifndef HRF_TESTS_OPS_BUILD_H
#define HRF_TESTS_OPS_BUILD_H

#include "base/random.h"
#include "engine/ir/graph.h"
#include "schema/settings/layout.h"
#include "schema/settings/precision.h"

struct build {
    struct hrf_graph *graph;
    struct hrf_random random;
    int32_t n_made; /* for names */
    /* A product before every input and after the output, so that what lies between goes low. */
    bool between_products;
};

#define SHAPE(...)                                                                                 \
    (struct hrf_shape)                                                                             \
    {                                                                                              \
        .rank = (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dims = {         \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

struct build build_start(uint64_t seed);
int32_t build_input(struct build *b, struct hrf_shape shape);
/* A constant of numbers in [low, high). */
int32_t build_constant(struct build *b, struct hrf_shape shape, double low, double high);
int32_t build_index(struct build *b, int64_t number); /* an integer of rank 0 */
int32_t build_integers(struct build *b, int64_t n, const int64_t *numbers);
/* A node with one output; returns that value. Inputs end with n. */
int32_t build_node(struct build *b, enum hrf_op op, const int32_t *inputs, int32_t n,
                   const struct hrf_attributes *attributes);
int32_t build_unary(struct build *b, enum hrf_op op, int32_t x);
int32_t build_binary(struct build *b, enum hrf_op op, int32_t x, int32_t y);
/* Random weights of fan-in scale; bias when `bias`. The window is the caller's. */
int32_t build_conv(struct build *b, int32_t x, int64_t in, int64_t out, int64_t group, bool bias,
                   const struct hrf_attributes *attributes);
/* Square kernel, "same" padding. */
int32_t build_plain_conv(struct build *b, int32_t x, int64_t in, int64_t out, int64_t kernel,
                         int64_t stride, bool bias);
int32_t build_batch_norm(struct build *b, int32_t x, int64_t channels);
/* Declares the outputs, infers shapes and checks. The graph is the caller's. */
struct hrf_graph *build_finish(struct build *b, const int32_t *outputs, int32_t n);

/* Puts a weight before every input, which adds 0 to it, so that the gradient to the input is one to
 * a weight; constants of floats are weights, too. */
void build_make_weights(struct hrf_graph *graph);

/* A number in [low, high]. */
int64_t build_pick(struct build *b, int64_t low, int64_t high);

/* Runs `graph` on `device`, inputs filled from `seed`; the outputs one after the other (heap).
 * Run `n_runs` times: all runs must give the same bits. */
float *run_graph(const struct hrf_graph *graph, const char *device, int32_t n_threads,
                 uint64_t seed, int n_runs, int64_t *count);
/* The same by the reference, each node as it stands in `graph`: no pass changes it first. */
float *run_unchanged(const struct hrf_graph *graph, uint64_t seed, int64_t *count);
/* The same in a precision; int8 with ranges from a run in fp32 on the same inputs. *is_pure: no
 * node stayed in float32 (may be NULL). */
float *run_graph_in(const struct hrf_graph *graph, const char *device, enum hrf_precision precision,
                    int32_t n_threads, uint64_t seed, int n_runs, int64_t *count, bool *is_pure);
/* The graph as a session on the CPU computes it in a precision; NULL: it leaves nothing to compute.
 * The caller's. */
struct hrf_graph *prepare_graph_in(const struct hrf_graph *graph, enum hrf_precision precision,
                                   uint64_t seed);
/* The same with fixed scales (session.h). */
float *run_graph_fixed(const struct hrf_graph *graph, const char *device,
                       enum hrf_precision precision, int32_t n_threads, uint64_t seed, int n_runs,
                       int64_t *count, bool *is_pure);
/* The same by the ranks of a layout ("spatial=2x2,stages=2"), for a graph with one input. `cutting`
 * (NULL: rough costs) says what the layout is cut and its halos are chosen by. */
struct hrf_cutting;
float *run_layout_in(const struct hrf_graph *graph, const char *device,
                     enum hrf_precision precision, const char *layout,
                     const struct hrf_cutting *cutting, uint64_t seed, int64_t *count);
/* The same in bands; NULL: the network cannot be run so. */
float *run_bands_in(const struct hrf_graph *graph, const char *device, enum hrf_precision precision,
                    int32_t n_bands, enum hrf_bands_rows rows, uint64_t seed, int64_t *count);
/* max |a - b| / max |b| (or / 1e-3, if that is larger). */
double relative_difference(const float *a, const float *b, int64_t n);
/* How many of a graph's nodes have the operator. */
static inline int build_count(const struct hrf_graph *graph, enum hrf_op op)
{
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == op;
    return n;
}

#endif
