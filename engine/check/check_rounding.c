/* check_rounding.c - INT8 convolutions whose every result is known exactly.
 *
 * Inputs and weights are whole numbers of steps that are powers of two, so a sum is a whole number
 * and the output's step is 2^shift of them: results are exact, and many lie half-way between two
 * steps. A second, 1 x 1 convolution by one in each channel keeps the first one's output in 8 bits
 * and hands it out. */
#include "base/random.h"
#include "engine/check/check_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 9 };
static const float INPUT_STEP = 0x1p-6f, WEIGHT_STEP = 0x1p-7f;

static const struct rounding {
    int64_t in, out, kernel;
    int shift; /* the output's step, in sums' steps, as a power of two: half-way sums are common */
    bool residual;
} roundings[] = {
    { 3, 64, 7, 2, false },  { 4, 4, 1, 3, false },   { 4, 4, 3, 3, true },
    { 16, 16, 1, 1, false }, { 16, 16, 3, 2, false }, { 16, 16, 3, 2, true },
    { 64, 64, 1, 1, false }, { 64, 64, 3, 3, false }, { 64, 64, 3, 3, true },
    { 32, 96, 1, 1, false },
};
enum { N_ROUNDINGS = sizeof roundings / sizeof roundings[0] };

struct problem {
    const struct rounding *row;
    struct hrf_graph *graph;
    float *weights; /* [out][in][kernel][kernel], whole numbers of WEIGHT_STEP */
    struct hrf_range ranges[HRF_CHECK_MAX_RANGES];
    int32_t n_ranges;
};

/* Whole numbers up to 7, and in each output channel one of 127, which makes the channel's step. */
static void fill_weights(const struct rounding *row, float *weights)
{
    struct hrf_random random = hrf_random_init(3);
    const int64_t n = row->in * row->kernel * row->kernel;
    for (int64_t o = 0; o < row->out; o++) {
        for (int64_t i = 0; i < n; i++)
            weights[o * n + i] = (float)((int)(hrf_random_unit(&random) * 15) - 7) * WEIGHT_STEP;
        weights[o * n + (o * 5) % n] = 127 * WEIGHT_STEP;
    }
}

static float input_at(const struct rounding *row, int64_t image, int64_t c, int64_t y, int64_t x)
{
    const uint64_t at = (uint64_t)(((image * row->in + c) * SIZE + y) * SIZE + x);
    return (float)((int)((at * 2654435761u >> 13) % 15) - 7) * INPUT_STEP;
}

static enum hrf_status add_value(struct problem *p, const char *name, const struct hrf_shape *shape,
                                 const float *data, float step, int32_t *index,
                                 struct hrf_error *err)
{
    if (data == NULL) /* a value that is computed or given: its range is +-127 steps */
        p->ranges[p->n_ranges++] = (struct hrf_range){ .value = name,
                                                       .low = -127 * step,
                                                       .high = 127 * step };
    return hrf_graph_add_value(p->graph, name, HRF_F32, shape, data, index, err);
}

static enum hrf_status add_conv(struct problem *p, const char *name, int32_t x, int32_t weight,
                                int64_t kernel, float step, int32_t *y, struct hrf_error *err)
{
    const struct hrf_shape unknown = { .rank = -1 };
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = kernel;
        a.window.pad_begin[i] = a.window.pad_end[i] = kernel / 2;
    }
    HRF_TRY(add_value(p, name, &unknown, NULL, step, y, err));
    return hrf_graph_add_node(p->graph, HRF_OP_CONV, name, (int32_t[]){ x, weight }, 2, y, 1, &a,
                              err);
}

static enum hrf_status add_identity(struct problem *p, int32_t *weight, struct hrf_error *err)
{
    const int64_t n = p->row->out;
    const struct hrf_shape shape = { .rank = 4, .dims = { n, n, 1, 1 } };
    HRF_AUTO_FREE float *one = hrf_try_calloc((size_t)(n * n), sizeof *one);
    HRF_CHECK_MEMORY(one != NULL, err, "no memory for weights");
    for (int64_t i = 0; i < n; i++)
        one[i * n + i] = 1;
    return add_value(p, "one", &shape, one, 0, weight, err);
}

static float output_step(const struct rounding *row)
{
    return ldexpf(INPUT_STEP * WEIGHT_STEP, row->shift);
}

static enum hrf_status check_rounding_build(struct problem *p, struct hrf_error *err)
{
    const struct rounding *row = p->row;
    const struct hrf_shape in = { .rank = 4, .dims = { 2, row->in, SIZE, SIZE } },
                           kernel = { .rank = 4,
                                      .dims = { row->out, row->in, row->kernel, row->kernel } },
                           unknown = { .rank = -1 };
    const struct hrf_attributes plain = hrf_attributes_default();
    const float step = output_step(row);
    int32_t input, weight, y, sum, one, output;
    HRF_TRY(add_value(p, "input", &in, NULL, INPUT_STEP, &input, err));
    HRF_TRY(add_value(p, "weight", &kernel, p->weights, 0, &weight, err));
    HRF_TRY(add_identity(p, &one, err));
    HRF_TRY(add_conv(p, "conv", input, weight, row->kernel, step, &y, err));
    if (row->residual && row->in == row->out) {
        HRF_TRY(add_value(p, "sum", &unknown, NULL, step, &sum, err));
        HRF_TRY(hrf_graph_add_node(p->graph, HRF_OP_ADD, "sum", (int32_t[]){ y, input }, 2, &sum, 1,
                                   &plain, err));
        y = sum;
    }
    HRF_TRY(add_conv(p, "output", y, one, 1, 1, &output, err));
    HRF_TRY(hrf_graph_set_io(p->graph, &input, 1, &output, 1, err));
    return hrf_graph_infer_shapes(p->graph, err);
}

/* The first convolution's result in the output's steps, not rounded. */
static double exact(const struct problem *p, int64_t image, int64_t o, int64_t y, int64_t x)
{
    const struct rounding *row = p->row;
    const int64_t k = row->kernel, pad = k / 2;
    double sum = row->residual && row->in == row->out ? (double)input_at(row, image, o, y, x) : 0;
    for (int64_t c = 0; c < row->in; c++)
        for (int64_t r = 0; r < k; r++)
            for (int64_t s = 0; s < k; s++) {
                const int64_t yy = y + r - pad, xx = x + s - pad;
                if (yy >= 0 && yy < SIZE && xx >= 0 && xx < SIZE)
                    sum += (double)input_at(row, image, c, yy, xx) *
                           (double)p->weights[((o * row->in + c) * k + r) * k + s];
            }
    return sum / (double)output_step(row);
}

struct tally {
    int64_t n, n_saturated, n_halfway, n_even, n_wrong;
    double worst;    /* |result - exact| in steps, of what is not saturated */
    double mean;     /* of result - exact, rounded to the nearest, half-way sums to even */
    bool leaves_out; /* an engine of the device's library, because its results were wrong */
};

static void compare_all(const struct problem *p, const float *output, struct tally *t)
{
    const struct rounding *row = p->row;
    const double step = (double)output_step(row);
    for (int64_t image = 0; image < 2; image++)
        for (int64_t o = 0; o < row->out; o++)
            for (int64_t i = 0; i < SIZE * SIZE; i++) {
                const int64_t at = (image * SIZE * SIZE + i) * row->out + o; /* NHWC */
                const double want = exact(p, image, o, i / SIZE, i % SIZE);
                const double got = rint((double)output[at] / step), off = got - want;
                t->n++;
                if (fabs(want) > 127) { /* -128 is a step that some devices use and others do not */
                    t->n_saturated++;
                    t->n_wrong += want > 0 ? got != 127 : got > -127 || got < -128;
                    continue;
                }
                const bool halfway = want - floor(want) == 0.5;
                t->n_halfway += halfway;
                t->n_even += halfway && got == rint(want);
                t->n_wrong += !halfway && got != rint(want) ? 1 : !(fabs(off) <= 1);
                t->worst = fmax(t->worst, isfinite(off) ? fabs(off) : INFINITY);
                t->mean += got - rint(want);
            }
    t->mean /= (double)(t->n - t->n_saturated > 0 ? t->n - t->n_saturated : 1);
}

static enum hrf_status run_problem(struct problem *p, const char *device, struct tally *tally,
                                   struct hrf_error *err)
{
    const struct rounding *row = p->row;
    HRF_AUTO(hrf_session) session = NULL;
    const struct hrf_session_config config = {
        .device = device, .precision = HRF_INT8, .ranges = p->ranges, .n_ranges = p->n_ranges
    };
    HRF_TRY(hrf_session_create(p->graph, &config, &session, err));
    float *input = hrf_session_input(session, 0); /* NHWC */
    for (int64_t image = 0, at = 0; image < 2; image++)
        for (int64_t i = 0; i < SIZE * SIZE; i++)
            for (int64_t c = 0; c < row->in; c++)
                input[at++] = input_at(row, image, c, i / SIZE, i % SIZE);
    HRF_TRY(hrf_session_run(session, err));
    tally->leaves_out = hrf_session_wrong_engines(session) > 0;
    compare_all(p, hrf_session_output(session, 0), tally);
    return HRF_OK;
}

static enum hrf_status init(struct problem *p, struct hrf_error *err)
{
    const struct rounding *row = p->row;
    p->weights = hrf_alloc_array((size_t)(row->out * row->in * row->kernel * row->kernel),
                                 sizeof *p->weights);
    fill_weights(row, p->weights);
    HRF_TRY(hrf_graph_create("rounding", &p->graph, err));
    return check_rounding_build(p, err); /* which makes the ranges */
}

static void check_rounding_release(struct problem *p)
{
    hrf_graph_destroy(p->graph);
    hrf_free(p->weights);
}

static enum hrf_status try_rounding(const struct rounding *row, const char *device,
                                    struct tally *tally, struct hrf_error *err)
{
    struct problem problem = { .row = row };
    enum hrf_status status = init(&problem, err);
    if (status == HRF_OK)
        status = run_problem(&problem, device, tally, err);
    check_rounding_release(&problem);
    return status;
}

int hrf_check_n_roundings(void)
{
    return N_ROUNDINGS;
}

enum hrf_status hrf_check_rounding_graph(int i, struct hrf_graph **out, struct hrf_range *ranges,
                                         int32_t *n_ranges, struct hrf_error *err)
{
    struct problem problem = { .row = &roundings[i] };
    const enum hrf_status status = init(&problem, err);
    memcpy(ranges, problem.ranges, sizeof problem.ranges);
    *n_ranges = problem.n_ranges;
    if (status == HRF_OK)
        HRF_MOVE(*out, problem.graph);
    check_rounding_release(&problem);
    return status;
}

static void name_rounding(int row, char *name, size_t size)
{
    const struct rounding *r = &roundings[row];
    snprintf(name, size, "%lldx%lld-%lldto%lld%s", (long long)r->kernel, (long long)r->kernel,
             (long long)r->in, (long long)r->out, r->residual ? "-residual" : "");
}

static void run_rounding(const struct hrf_check *check, int which, struct hrf_check_row *out)
{
    struct hrf_error why = { .text = "" };
    struct tally t = { .n = 0 };
    char name[64];
    name_rounding(which, name, sizeof name);
    const bool ran = try_rounding(&roundings[which], check->device, &t, &why) == HRF_OK;
    out->good = ran && t.n_wrong == 0 && fabs(t.mean) < 0.02 && !t.leaves_out;
    if (ran)
        snprintf(out->text, sizeof out->text,
                 "%-20s int8: %lld of %lld half-way sums to even, %lld saturated, %lld wrong, "
                 "mean error %+.4f steps%s",
                 name, (long long)t.n_even, (long long)t.n_halfway, (long long)t.n_saturated,
                 (long long)t.n_wrong, t.mean,
                 t.leaves_out ? "; an engine was left out, its results were wrong" : "");
    else
        snprintf(out->text, sizeof out->text, "%-20s int8: %s", name, why.text);
    out->json = json_object();
    hrf_json_put_text(out->json, "convolution", name);
    hrf_json_put_int(out->json, "results", t.n);
    hrf_json_put_int(out->json, "saturated", t.n_saturated);
    hrf_json_put_int(out->json, "halfway", t.n_halfway);
    hrf_json_put_int(out->json, "halfway_to_even", t.n_even);
    hrf_json_put_int(out->json, "wrong", t.n_wrong);
    hrf_json_put_number(out->json, "worst_steps", t.worst);
    hrf_json_put_number(out->json, "mean_steps", t.mean);
    hrf_json_put_bool(out->json, "leaves_out_engines", t.leaves_out);
    hrf_json_put_text(out->json, "error", why.text);
}

const struct hrf_check_part hrf_check_rounding = { "rounding", N_ROUNDINGS, N_ROUNDINGS,
                                                   name_rounding, run_rounding };
