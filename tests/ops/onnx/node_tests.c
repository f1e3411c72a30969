/* node_tests.c - the ONNX project's own backend tests, run through our sessions.
 *
 *   node_tests DATA_DIR MIN_PASSED [--list]
 *
 * DATA_DIR holds folders of tests (Debian's libonnx-testdata): each a model and sets of inputs
 * and expected outputs. A test whose model we refuse as unsupported is counted with its reason;
 * one that PyTorch and ONNX Runtime contradict must be contradicted; every other one must agree on
 * both devices. Ends with 1 when one fails or fewer than
 * MIN_PASSED pass, with 77 when the data is not there. */
#include "base/array.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "engine/ir/number.h"
#include "engine/onnx/onnx.h"
#include "engine/run/session.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double relative_limit = 1e-3, absolute_limit = 1e-5;
enum { MAX_TENSORS = 16, MAX_REASONS = 512 };

/* Where PyTorch and ONNX Runtime agree on another result than these expect, it is ours, too:
 * corners that are aligned meet, by whatever scale. */
static const char *const contradicted[] = {
    "node/test_resize_downsample_scales_cubic_align_corners",
    "node/test_resize_downsample_scales_linear_align_corners",
};

struct reason {
    char *text;
    int count;
};
struct tally {
    int passed, unsupported, contradicted, failed;
    bool list;
    struct reason reasons[MAX_REASONS];
    int n_reasons;
};

struct tensors {
    struct hrf_onnx_tensor items[MAX_TENSORS];
    double limits[MAX_TENSORS]; /* relative */
    int32_t n;
};

static void tensors_release(struct tensors *t)
{
    for (int32_t i = 0; i < t->n; i++)
        hrf_onnx_tensor_release(&t->items[i]);
}

/* SET/KIND_0.pb, KIND_1.pb ... */
static enum hrf_status read_tensors(const char *set, const char *kind, struct tensors *out,
                                    struct hrf_error *err)
{
    for (;;) {
        HRF_AUTO_FREE char *path = hrf_format("%s/%s_%d.pb", set, kind, (int)out->n);
        if (path == NULL || !hrf_path_exists(path))
            return HRF_OK;
        if (out->n == MAX_TENSORS)
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "more than %d tensors", MAX_TENSORS);
        if (hrf_path_size(path) == 0)
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "an empty tensor file");
        HRF_TRY(hrf_onnx_read_tensor(path, &out->items[out->n], err));
        /* bfloat16 was rounded in the middle, too. */
        out->limits[out->n] = out->items[out->n].dtype == HRF_B16 ? 0x1p-6 : relative_limit;
        out->n++;
    }
}

/* Inputs that a model would have as weights: they become constants here. */
static bool is_parameter(const struct hrf_graph *graph, int32_t value)
{
    if (graph->values[value].dtype != HRF_F32)
        return true;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        bool weights = node->op == HRF_OP_CONV || node->op == HRF_OP_CONV_TRANSPOSE ||
                       node->op == HRF_OP_GEMM || node->op == HRF_OP_BATCH_NORM ||
                       node->op == HRF_OP_CLIP || node->op == HRF_OP_PAD ||
                       node->op == HRF_OP_RESIZE || node->op == HRF_OP_MATMUL ||
                       node->op == HRF_OP_QUANTIZE || node->op == HRF_OP_DEQUANTIZE;
        for (int32_t k = 1; weights && k < node->n_inputs; k++)
            if (node->inputs[k] == value)
                return true;
    }
    return false;
}

static bool is_float(enum hrf_dtype dtype)
{
    return dtype == HRF_F32 || dtype == HRF_F64 || dtype == HRF_F16 || dtype == HRF_B16;
}

/* Everything is computed in float32, whatever floats the model has. */
static enum hrf_status make_float(struct hrf_onnx_tensor *tensor, struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(&tensor->shape);
    if (!is_float(tensor->dtype) || tensor->dtype == HRF_F32)
        return HRF_OK;
    float *floats = hrf_alloc_array((size_t)n, sizeof *floats);
    if (floats == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a tensor");
    if (tensor->dtype != HRF_F64)
        hrf_floats_from(tensor->dtype, tensor->data, floats, n);
    for (int64_t i = 0; i < n && tensor->dtype == HRF_F64; i++)
        floats[i] = (float)((const double *)tensor->data)[i];
    hrf_free(tensor->data);
    tensor->data = floats;
    tensor->dtype = HRF_F32;
    return HRF_OK;
}

/* The test's inputs: shapes of those that stay inputs (their tensors come first, in order, in
 * `kept`), data of those that become constants. */
static enum hrf_status bind_inputs(struct hrf_graph *graph, struct tensors *in,
                                   const struct hrf_onnx_tensor **kept, struct hrf_error *err)
{
    int32_t n = 0;
    if (graph->n_inputs != in->n)
        return hrf_error_set(err, HRF_E_BUG, "%d inputs for a model that takes %d", (int)in->n,
                             (int)graph->n_inputs);
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        int32_t index = graph->inputs[i];
        struct hrf_value *value = &graph->values[index];
        struct hrf_onnx_tensor *tensor = &in->items[i];
        HRF_TRY(make_float(tensor, err));
        if (hrf_shape_count(&tensor->shape) == 0)
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "an empty input");
        value->shape = tensor->shape;
        value->dtype = tensor->dtype;
        if (is_parameter(graph, index)) {
            value->data = tensor->data;
            tensor->data = NULL;
            continue;
        }
        kept[n] = tensor;
        graph->inputs[n++] = index;
    }
    graph->n_inputs = n;
    return HRF_OK;
}

/* Index of element `i` of an ONNX-ordered tensor in session order (N, H, W, C for rank 4). */
static int64_t session_index(const struct hrf_shape *s, int64_t i)
{
    if (s->rank != 4)
        return i;
    int64_t w = i % s->dims[3], h = i / s->dims[3] % s->dims[2];
    int64_t c = i / (s->dims[3] * s->dims[2]) % s->dims[1];
    int64_t n = i / (s->dims[3] * s->dims[2] * s->dims[1]);
    return ((n * s->dims[2] + h) * s->dims[3] + w) * s->dims[1] + c;
}

static enum hrf_status check_shape(const struct hrf_shape *got, const struct hrf_onnx_tensor *want,
                                   struct hrf_error *err)
{
    char a[128], b[128];
    hrf_shape_text(got, a);
    hrf_shape_text(&want->shape, b);
    if (!hrf_shape_equal(got, &want->shape))
        return hrf_error_set(err, HRF_E_BUG, "shape %s, expected %s", a, b);
    return HRF_OK;
}

/* 8-bit results must agree exactly. */
static enum hrf_status compare_bytes(const uint8_t *got, const struct hrf_onnx_tensor *want,
                                     struct hrf_error *err)
{
    const uint8_t *bytes = want->data;
    for (int64_t i = 0; i < hrf_shape_count(&want->shape); i++)
        if (got[i] != bytes[i])
            return hrf_error_set(err, HRF_E_BUG, "element %lld is byte %d, expected %d",
                                 (long long)i, got[i], bytes[i]);
    return HRF_OK;
}

/* `limit`: relative. */
static enum hrf_status compare_floats(const float *got, const struct hrf_onnx_tensor *want,
                                      double limit, struct hrf_error *err)
{
    for (int64_t i = 0; i < hrf_shape_count(&want->shape); i++) {
        double a = (double)got[i];
        double b = (double)((const float *)want->data)[i];
        bool same = fabs(a - b) <= absolute_limit + limit * fabs(b) || (isnan(a) && isnan(b)) ||
                    (isinf(a) && isinf(b) && signbit(a) == signbit(b));
        if (!same)
            return hrf_error_set(err, HRF_E_BUG, "element %lld is %.9g, expected %.9g",
                                 (long long)i, a, b);
    }
    return HRF_OK;
}

/* Integers that depend on the input are computed in float32: their values must be the same. */
static enum hrf_status compare_integers(const float *got, const struct hrf_onnx_tensor *want,
                                        struct hrf_error *err)
{
    for (int64_t i = 0; i < hrf_shape_count(&want->shape); i++) {
        const double integer = want->dtype == HRF_S64   ? (double)((const int64_t *)want->data)[i]
                               : want->dtype == HRF_S32 ? ((const int32_t *)want->data)[i]
                               : want->dtype == HRF_S8  ? ((const int8_t *)want->data)[i]
                                                        : ((const uint8_t *)want->data)[i];
        if ((double)got[i] != integer)
            return hrf_error_set(err, HRF_E_BUG, "element %lld is %.9g, expected %.9g",
                                 (long long)i, (double)got[i], integer);
    }
    return HRF_OK;
}

/* Floats of 16 bits were rounded where the model says so; here they are not. */
static enum hrf_status compare_any(enum hrf_dtype type, const void *got,
                                   struct hrf_onnx_tensor *want, double limit, int32_t i,
                                   struct hrf_error *err)
{
    if (type != want->dtype && type == HRF_F32 && !is_float(want->dtype))
        return compare_integers(got, want, err);
    HRF_TRY(make_float(want, err));
    if (type != want->dtype)
        return hrf_error_set(err, HRF_E_BUG, "output %d is %s, expected %s", (int)i,
                             hrf_dtype_name(type), hrf_dtype_name(want->dtype));
    return type == HRF_F32 ? compare_floats(got, want, limit, err) : compare_bytes(got, want, err);
}

/* Output `i` in ONNX order and in the model's type, as `eval` writes it. */
static enum hrf_status compare(const struct hrf_graph *graph, const struct hrf_session *session,
                               int32_t i, struct hrf_onnx_tensor *want, double limit,
                               struct hrf_error *err)
{
    const struct hrf_shape *shape = hrf_session_output_shape(session, i);
    const enum hrf_dtype type = graph->values[graph->outputs[i]].dtype;
    const size_t n = (size_t)hrf_shape_count(shape);
    HRF_AUTO_FREE float *floats = hrf_alloc_array(n, sizeof *floats);
    HRF_AUTO_FREE void *typed = hrf_alloc_array(n, hrf_dtype_size(type));
    if (floats == NULL || typed == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for output %d", (int)i);
    HRF_TRY(check_shape(shape, want, err));
    for (size_t k = 0; k < n; k++)
        floats[k] = hrf_session_output(session, i)[session_index(shape, (int64_t)k)];
    hrf_graph_output_from_float(graph, i, shape, floats, typed);
    return compare_any(type, typed, want, limit, i, err);
}

static enum hrf_status run_on(const char *device, const struct hrf_graph *graph,
                              const struct hrf_onnx_tensor *const *in, struct tensors *want,
                              struct hrf_error *err)
{
    struct hrf_session_config config = { .device = device, .precision = HRF_FP32, .n_threads = 1 };
    HRF_AUTO(hrf_session) session = NULL;
    HRF_TRY(hrf_session_create(graph, &config, &session, err));
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        float *buffer = hrf_session_input(session, i);
        for (int64_t k = 0; k < hrf_shape_count(&in[i]->shape); k++)
            buffer[session_index(&in[i]->shape, k)] = ((const float *)in[i]->data)[k];
    }
    HRF_TRY(hrf_session_run(session, err));
    for (int32_t i = 0; i < want->n; i++)
        HRF_TRY(compare(graph, session, i, &want->items[i], want->limits[i], err));
    return HRF_OK;
}

/* Outputs that shape inference knew: nothing to run, but to compare exactly. */
static enum hrf_status check_known(const struct hrf_graph *graph, struct tensors *want,
                                   bool *all_known, struct hrf_error *err)
{
    *all_known = true;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        *all_known = *all_known && graph->values[graph->outputs[i]].data != NULL;
    for (int32_t i = 0; *all_known && i < want->n; i++) {
        const struct hrf_value *value = &graph->values[graph->outputs[i]];
        HRF_TRY(check_shape(&value->shape, &want->items[i], err));
        size_t n_bytes = (size_t)hrf_shape_count(&value->shape) * hrf_dtype_size(value->dtype);
        if (value->dtype == HRF_F32) {
            HRF_TRY(compare_any(HRF_F32, value->data, &want->items[i], want->limits[i], i, err));
            continue;
        }
        if (value->dtype != want->items[i].dtype ||
            memcmp(value->data, want->items[i].data, n_bytes) != 0)
            return hrf_error_set(err, HRF_E_BUG, "the constant output %d differs", (int)i);
    }
    return HRF_OK;
}

static enum hrf_status run_set(const char *model, const char *set, struct hrf_error *err)
{
    static const char *const devices[] = { "ref", "cpu" };
    __attribute__((cleanup(tensors_release))) struct tensors in = { .n = 0 };
    __attribute__((cleanup(tensors_release))) struct tensors want = { .n = 0 };
    const struct hrf_onnx_tensor *kept[MAX_TENSORS];
    HRF_AUTO(hrf_graph) graph = NULL;
    bool known;
    HRF_TRY(hrf_onnx_read(model, &graph, err));
    HRF_TRY(read_tensors(set, "input", &in, err));
    HRF_TRY(read_tensors(set, "output", &want, err));
    if (want.n == 0 || want.n != graph->n_outputs)
        return hrf_error_set(err, HRF_E_BUG, "%d expected outputs for a model that gives %d",
                             (int)want.n, (int)graph->n_outputs);
    HRF_TRY(bind_inputs(graph, &in, kept, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_TRY(check_known(graph, &want, &known, err));
    for (int i = 0; i < 2 && !known; i++) {
        enum hrf_status status = run_on(devices[i], graph, kept, &want, err);
        if (status != HRF_OK)
            return hrf_error_wrap(err, status, "%s", devices[i]);
    }
    return HRF_OK;
}

/* "node 'x' (Op, opset 13): why; more" -> "Op: why", so that equal reasons count together. */
static char *shorten(const char *text)
{
    const char *at = strstr(text, "the operator '");
    if (at != NULL)
        return hrf_strdup("the operator is not supported");
    at = strstr(text, "model.onnx': ");
    text = at != NULL ? at + strlen("model.onnx': ") : text;
    at = strstr(text, "node '");
    if (at != NULL && strstr(at, "' (") != NULL)
        text = strstr(at, "' (") + 3;
    at = strchr(text, ';');
    return hrf_strndup(text, at != NULL ? (size_t)(at - text) : strlen(text));
}

static void count_reason(struct tally *tally, const char *text)
{
    char *reason = shorten(text);
    for (int i = 0; reason != NULL && i < tally->n_reasons; i++)
        if (strcmp(tally->reasons[i].text, reason) == 0) {
            tally->reasons[i].count++;
            hrf_free(reason);
            return;
        }
    if (reason != NULL && tally->n_reasons < MAX_REASONS)
        tally->reasons[tally->n_reasons++] = (struct reason){ .text = reason, .count = 1 };
    else
        hrf_free(reason);
}

static bool is_contradicted(const char *name)
{
    for (size_t i = 0; i < sizeof contradicted / sizeof contradicted[0]; i++)
        if (strcmp(name, contradicted[i]) == 0)
            return true;
    return false;
}

static void run_test(const char *directory, const char *name, struct tally *tally)
{
    HRF_AUTO_FREE char *model = hrf_format("%s/model.onnx", directory);
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    int n_sets = 0;
    for (; status == HRF_OK; n_sets++) {
        HRF_AUTO_FREE char *set = hrf_format("%s/test_data_set_%d", directory, n_sets);
        if (model == NULL || set == NULL || !hrf_path_is_directory(set))
            break;
        status = run_set(model, set, &err);
    }
    const char *verdict = status == HRF_OK && n_sets > 0 ? "passed" : "FAILED";
    if (n_sets == 0)
        hrf_error_set(&err, HRF_E_BUG, "there is no test data");
    if (status == HRF_E_UNSUPPORTED) {
        verdict = "unsupported";
        count_reason(tally, err.text);
        tally->unsupported++;
    } else if (is_contradicted(name)) {
        verdict = status == HRF_E_BUG ? "contradicts" : "FAILED";
        tally->contradicted += status == HRF_E_BUG;
        tally->failed += status != HRF_E_BUG;
    } else if (verdict[0] == 'p') {
        tally->passed++;
    } else {
        tally->failed++;
    }
    if (tally->list || verdict[0] == 'F')
        printf("%-11s %s%s%s\n", verdict, name, verdict[0] == 'p' ? "" : ": ",
               verdict[0] == 'p' ? "" : err.text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every test of one group, in the order of their names. */
static void run_group(const char *data, const char *group, struct tally *tally)
{
    HRF_AUTO_FREE char *directory = hrf_path_join(data, group);
    DIR *d = directory != NULL ? opendir(directory) : NULL;
    const struct dirent *entry;
    char **names = NULL;
    size_t n = 0, capacity = 0;
    while (d != NULL && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.') {
            HRF_RESERVE(names, capacity, n + 1);
            names[n++] = hrf_strdup(entry->d_name);
        }
    if (d != NULL)
        closedir(d);
    if (n > 0)
        qsort(names, n, sizeof(char *), by_name);
    for (size_t i = 0; i < n; i++) {
        HRF_AUTO_FREE char *name = names[i];
        HRF_AUTO_FREE char *test = hrf_path_join(directory, name);
        HRF_AUTO_FREE char *label = hrf_format("%s/%s", group, name);
        run_test(test, label, tally);
    }
    hrf_free(names);
}

static int report(struct tally *tally, int minimum)
{
    printf("\nunsupported, by reason:\n");
    for (int i = 0; i < tally->n_reasons; i++) {
        printf("%5d  %s\n", tally->reasons[i].count, tally->reasons[i].text);
        hrf_free(tally->reasons[i].text);
    }
    printf("\n%d passed, %d unsupported, %d contradicted, %d failed (ONNX backend tests)\n",
           tally->passed, tally->unsupported, tally->contradicted, tally->failed);
    if (tally->passed < minimum)
        printf("fewer than the %d that have passed before\n", minimum);
    return tally->failed > 0 || tally->passed < minimum;
}

int main(int argc, char **argv)
{
    static const char *const groups[] = { "node", "simple", "pytorch-converted",
                                          "pytorch-operator" };
    struct tally tally = { .list = argc == 4 && strcmp(argv[3], "--list") == 0 };
    if (argc < 3) {
        fprintf(stderr, "usage: %s DATA_DIR MIN_PASSED [--list]\n", argv[0]);
        return 2;
    }
    if (!hrf_path_is_directory(argv[1])) {
        printf("skipped: '%s' is not there (Debian: libonnx-testdata)\n", argv[1]);
        return 77;
    }
    for (int i = 0; i < 4; i++)
        run_group(argv[1], groups[i], &tally);
    return report(&tally, (int)strtol(argv[2], NULL, 10));
}
