/* head.c - the parameters of heads, and all networks except TransMIL's. */
#include "heads/model/head.h"

#include "base/min_max.h"
#include "base/random.h"
#include "heads/model/head_build.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const hrf_head_kind_names[HRF_N_HEADS + 1] = { "mean",    "abmil", "clam_sb",
                                                           "clam_mb", "dsmil", "transmil" };

static bool is_clam(enum hrf_head_kind kind)
{
    return kind == HRF_HEAD_CLAM_SB || kind == HRF_HEAD_CLAM_MB;
}

/* Replaces every 0 (or negative share) in *form by the default of its kind. */
static void complete_form(struct hrf_head_form *form)
{
    const struct {
        int64_t *value, fallback;
    } sizes[] = { { &form->hidden, 512 },
                  { &form->attention, form->kind == HRF_HEAD_DSMIL ? 128 : 256 },
                  { &form->landmarks, 256 },
                  { &form->heads, 8 },
                  { &form->samples, 8 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (*sizes[i].value <= 0)
            *sizes[i].value = sizes[i].fallback;
    if (form->dropout < 0)
        form->dropout = form->kind == HRF_HEAD_TRANSMIL                               ? 0.1
                        : form->kind == HRF_HEAD_MEAN || form->kind == HRF_HEAD_DSMIL ? 0
                                                                                      : 0.25;
    if (form->instance_weight < 0)
        form->instance_weight = 0.3;
}

/* ---- parameters ---- */

void hrf_head_declare(struct hrf_head *head, const char *name, const struct hrf_shape *shape,
                      enum hrf_head_start start, int64_t fan_in)
{
    assert(head->n_parameters < HRF_HEAD_MAX_PARAMETERS);
    struct hrf_head_parameter *p = &head->parameters[head->n_parameters++];
    *p = (struct hrf_head_parameter){ .shape = *shape, .start = start, .fan_in = fan_in };
    snprintf(p->name, sizeof p->name, "%s", name);
    head->n_values += hrf_shape_count(shape);
}

void hrf_head_declare_linear(struct hrf_head *head, const char *name, int64_t inputs,
                             int64_t outputs)
{
    const struct hrf_shape of_weight = { 2, { outputs, inputs } }, of_bias = { 1, { outputs } };
    char text[HRF_HEAD_NAME];
    snprintf(text, sizeof text, "%.40s.weight", name);
    hrf_head_declare(head, text, &of_weight, HRF_START_UNIFORM, inputs);
    snprintf(text, sizeof text, "%.40s.bias", name);
    hrf_head_declare(head, text, &of_bias, HRF_START_UNIFORM, inputs);
}

static void declare_attention(struct hrf_head *head)
{
    const struct hrf_head_form *f = &head->form;
    const bool is_multiple = f->kind == HRF_HEAD_CLAM_MB;
    char name[HRF_HEAD_NAME];
    hrf_head_declare_linear(head, "fc", f->width, f->hidden);
    hrf_head_declare_linear(head, "attention_a", f->hidden, f->attention);
    hrf_head_declare_linear(head, "attention_b", f->hidden, f->attention);
    hrf_head_declare_linear(head, "attention_c", f->attention, is_multiple ? f->n_classes : 1);
    hrf_head_declare_linear(head, "classifier", f->hidden, f->n_classes);
    for (int64_t k = 0; is_clam(f->kind) && k < f->n_classes; k++) {
        snprintf(name, sizeof name, "instance_classifiers.%d", (int)k);
        hrf_head_declare_linear(head, name, f->hidden, 2);
    }
}

static void declare(struct hrf_head *head)
{
    const struct hrf_head_form *f = &head->form;
    switch (f->kind) {
    case HRF_HEAD_MEAN:
        hrf_head_declare_linear(head, "classifier", f->width, f->n_classes);
        break;
    case HRF_HEAD_DSMIL:
        hrf_head_declare_linear(head, "i_classifier.fc", f->width, f->n_classes);
        hrf_head_declare_linear(head, "b_classifier.q.0", f->width, f->attention);
        hrf_head_declare_linear(head, "b_classifier.q.2", f->attention, f->attention);
        hrf_head_declare_linear(head, "b_classifier.fcc", f->n_classes * f->width, f->n_classes);
        break;
    case HRF_HEAD_TRANSMIL:
        hrf_transmil_declare(head);
        break;
    default:
        declare_attention(head);
    }
}

static void draw(struct hrf_head *head, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed ^ 0x68656164ULL);
    for (int32_t i = 0; i < head->n_parameters; i++) {
        const struct hrf_head_parameter *p = &head->parameters[i];
        const double bound = 1 / sqrt((double)hrf_max(1, p->fan_in));
        for (int64_t j = 0; j < hrf_shape_count(&p->shape); j++)
            switch (p->start) {
            case HRF_START_UNIFORM:
                p->numbers[j] = (float)((2 * hrf_random_unit(&random) - 1) * bound);
                break;
            case HRF_START_NORMAL:
                p->numbers[j] = (float)hrf_random_normal(&random);
                break;
            case HRF_START_ZERO:
            case HRF_START_ONE:
                p->numbers[j] = p->start == HRF_START_ONE ? 1.0F : 0.0F;
            }
    }
}

static enum hrf_status check_form(const struct hrf_head_form *f, struct hrf_error *err)
{
    enum { MAX_WIDTH = 65536, MAX_CLASSES = 20 };
    if (f->n_classes < 2 || f->n_classes > MAX_CLASSES)
        return hrf_error_set(err, HRF_E_USER, "a head has 2 to %d classes, and these are %lld",
                             MAX_CLASSES, (long long)f->n_classes);
    if (f->width < 1 || f->width > MAX_WIDTH || f->hidden > MAX_WIDTH || f->attention > MAX_WIDTH)
        return hrf_error_set(
            err, HRF_E_USER,
            "embeddings of %lld numbers, hidden %lld, attention %lld: each is 1 to "
            "%d",
            (long long)f->width, (long long)f->hidden, (long long)f->attention, MAX_WIDTH);
    if (f->kind == HRF_HEAD_TRANSMIL && (f->hidden % f->heads != 0 || f->landmarks > 4096))
        return hrf_error_set(err, HRF_E_USER,
                             "transmil's hidden width (%lld) must be a multiple of its heads "
                             "(%lld), and its landmarks (%lld) at most 4096",
                             (long long)f->hidden, (long long)f->heads, (long long)f->landmarks);
    return HRF_OK;
}

enum hrf_status hrf_head_create(const struct hrf_head_form *form, uint64_t seed,
                                struct hrf_head **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_head) head = hrf_calloc(1, sizeof *head);
    head->form = *form;
    complete_form(&head->form);
    HRF_TRY(check_form(&head->form, err));
    declare(head);
    head->values = hrf_try_alloc_array((size_t)head->n_values, sizeof *head->values);
    HRF_CHECK_MEMORY(head->values != NULL, err, "no memory for %lld weights of a head",
                     (long long)head->n_values);
    int64_t at = 0;
    for (int32_t i = 0; i < head->n_parameters; i++) {
        head->parameters[i].numbers = head->values + at;
        at += hrf_shape_count(&head->parameters[i].shape);
    }
    draw(head, seed);
    HRF_MOVE(*out, head);
    return HRF_OK;
}

void hrf_head_destroy(struct hrf_head *head)
{
    if (head == NULL)
        return;
    hrf_free(head->values);
    hrf_free(head);
}

/* ---- networks ---- */

static struct hrf_head_outputs build_mean(struct hrf_head_build *b, int32_t x)
{
    static const int64_t rows = 0;
    const int32_t mean = hrf_head_reduced(b, HRF_OP_REDUCE_MEAN, x, &rows, 1, true);
    return (struct hrf_head_outputs){ .logits = hrf_head_linear(b, "classifier", mean),
                                      .attention = HRF_NO_VALUE,
                                      .terms = HRF_NO_VALUE };
}

/* [1][rows]: of each row of x, its product with the same row of NAME.weight, plus NAME.bias. */
static int32_t of_rows(struct hrf_head_build *b, const char *name, int32_t x)
{
    static const int64_t columns = 1;
    const int32_t products = HRF_NODE(b, HRF_OP_MUL, NULL, x,
                                      hrf_head_parameter(b, "%s.weight", name));
    const int32_t sums = hrf_head_reduced(b, HRF_OP_REDUCE_SUM, products, &columns, 1, true);
    return HRF_NODE(b, HRF_OP_ADD, NULL, hrf_head_transposed(b, sums, 2),
                    hrf_head_parameter(b, "%s.bias", name));
}

static int64_t n_samples(const struct hrf_head *head, const struct hrf_head_step *step)
{
    return hrf_min(head->form.samples, step->n);
}

/* Marks of those of the [1][N] numbers that are the highest, 1, or else 0. */
static int32_t marks(struct hrf_head_build *b, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.greatest = n_samples(b->head, b->step);
    return HRF_NODE(b, HRF_OP_TOP_K_MASK, &a, x);
}

/* The classifier of class k learns that the patches of highest attention are of the class, and
 * those of lowest attention are not. The terms, [1][4], are sums over the former of the logarithms
 * of the probabilities that they are not and that they are, and then over the latter. */
static int32_t instance_terms(struct hrf_head_build *b, int32_t h, int32_t attention, int64_t k)
{
    static const int64_t flat[] = { 1, 4 };
    char name[HRF_HEAD_NAME];
    snprintf(name, sizeof name, "instance_classifiers.%d", (int)k);
    if (b->head->form.kind == HRF_HEAD_CLAM_MB)
        attention = hrf_head_part(b, attention, k, k + 1, 0);
    const int32_t chosen = hrf_head_concat(b, marks(b, attention),
                                           marks(b, HRF_NODE(b, HRF_OP_NEG, NULL, attention)), 0);
    const int32_t of_each = hrf_head_softmax(b, HRF_OP_LOG_SOFTMAX, hrf_head_linear(b, name, h), 1);
    return hrf_head_reshaped(b, HRF_NODE(b, HRF_OP_MATMUL, NULL, chosen, of_each), flat, 2);
}

static bool has_instances(const struct hrf_head_form *f)
{
    return is_clam(f->kind) && f->instance_weight > 0;
}

static struct hrf_head_outputs build_attention(struct hrf_head_build *b, int32_t x)
{
    const struct hrf_head_form *f = &b->head->form;
    const int64_t n = b->step != NULL ? b->step->n : -1;
    struct hrf_head_outputs out = { .terms = HRF_NO_VALUE };
    int32_t h = HRF_NODE(b, HRF_OP_RELU, NULL, hrf_head_linear(b, "fc", x));
    h = hrf_head_dropped(b, h, n, f->hidden);
    int32_t v = HRF_NODE(b, HRF_OP_TANH, NULL, hrf_head_linear(b, "attention_a", h));
    v = hrf_head_dropped(b, v, n, f->attention);
    int32_t u = HRF_NODE(b, HRF_OP_SIGMOID, NULL, hrf_head_linear(b, "attention_b", h));
    u = hrf_head_dropped(b, u, n, f->attention);
    const int32_t a = hrf_head_linear(b, "attention_c", HRF_NODE(b, HRF_OP_MUL, NULL, v, u));
    out.attention = hrf_head_softmax(b, HRF_OP_SOFTMAX, hrf_head_transposed(b, a, 2), 1);
    const int32_t z = HRF_NODE(b, HRF_OP_MATMUL, NULL, out.attention, h);
    out.logits = f->kind == HRF_HEAD_CLAM_MB ? of_rows(b, "classifier", z)
                                             : hrf_head_linear(b, "classifier", z);
    for (int64_t k = 0; k < f->n_classes && b->step != NULL && has_instances(f); k++)
        if (b->step->label < 0 || b->step->label == k) {
            const int32_t terms = instance_terms(b, h, out.attention, k);
            out.terms = out.terms < 0 ? terms : hrf_head_concat(b, out.terms, terms, 1);
        }
    return out;
}

static int32_t queries(struct hrf_head_build *b, int32_t x)
{
    const int32_t inner = HRF_NODE(b, HRF_OP_RELU, NULL, hrf_head_linear(b, "b_classifier.q.0", x));
    return HRF_NODE(b, HRF_OP_TANH, NULL, hrf_head_linear(b, "b_classifier.q.2", inner));
}

static struct hrf_head_outputs build_dsmil(struct hrf_head_build *b, int32_t x)
{
    static const int64_t flat[] = { 1, -1 };
    struct hrf_head_outputs out = { .terms = HRF_NO_VALUE };
    const int32_t peaks = HRF_NODE(b, HRF_OP_SELECT_MAX, NULL, x,
                                   hrf_head_linear(b, "i_classifier.fc", x));
    const int32_t q = queries(b, x), best = queries(b, peaks);
    struct hrf_attributes a = hrf_attributes_default();
    a.gemm.transpose_b = true;
    a.gemm.alpha = 1.0F / sqrtf((float)b->head->form.attention);
    out.attention = hrf_head_softmax(b, HRF_OP_SOFTMAX, HRF_NODE(b, HRF_OP_GEMM, &a, best, q), 1);
    const int32_t z = HRF_NODE(b, HRF_OP_MATMUL, NULL, out.attention, x);
    out.logits = hrf_head_linear(b, "b_classifier.fcc", hrf_head_reshaped(b, z, flat, 2));
    if (b->step != NULL) /* the highest logit of each class is that of its peak */
        out.terms = hrf_head_softmax(b, HRF_OP_LOG_SOFTMAX, of_rows(b, "i_classifier.fc", peaks),
                                     1);
    return out;
}

/* The graph with its parameters, and what the head's kind makes of the bag. */
static struct hrf_head_outputs build(struct hrf_head_build *b)
{
    const struct hrf_head *head = b->head;
    const struct hrf_shape of_bag = { 2, { b->step != NULL ? b->step->n : -1, head->form.width } };
    struct hrf_head_outputs none = { HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE };
    for (int32_t i = 0, value; i < head->n_parameters && b->status == HRF_OK; i++) {
        const struct hrf_head_parameter *p = &head->parameters[i];
        b->status = hrf_graph_add_value(b->graph, p->name, HRF_F32, &p->shape, p->numbers, &value,
                                        b->err);
        if (b->status == HRF_OK)
            b->graph->values[value].is_initializer = true;
    }
    if (b->status == HRF_OK)
        b->status = hrf_graph_add_value(b->graph, "bag", HRF_F32, &of_bag, NULL, &b->inputs[0],
                                        b->err);
    b->n_inputs = 1;
    if (b->status != HRF_OK)
        return none;
    switch (head->form.kind) {
    case HRF_HEAD_MEAN:
        return build_mean(b, b->inputs[0]);
    case HRF_HEAD_DSMIL:
        return build_dsmil(b, b->inputs[0]);
    case HRF_HEAD_TRANSMIL:
        return hrf_transmil_build(b, b->inputs[0]);
    default:
        return build_attention(b, b->inputs[0]);
    }
}

static void rename_value(struct hrf_graph *graph, int32_t value, const char *name)
{
    hrf_free(graph->values[value].name);
    graph->values[value].name = hrf_strdup(name);
}

enum hrf_status hrf_head_network(const struct hrf_head *head, struct hrf_graph **out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_create(hrf_head_kind_names[head->form.kind], &graph, err));
    struct hrf_head_build b = { .head = head, .graph = graph, .err = err };
    const struct hrf_head_outputs made = build(&b);
    const int32_t outputs[] = { hrf_head_softmax(&b, HRF_OP_SOFTMAX, made.logits, 1),
                                made.attention };
    HRF_TRY(b.status);
    rename_value(graph, outputs[0], "scores");
    if (made.attention >= 0)
        rename_value(graph, made.attention, "attention");
    HRF_TRY(
        hrf_graph_set_io(graph, b.inputs, b.n_inputs, outputs, made.attention >= 0 ? 2 : 1, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

enum hrf_status hrf_head_step_network(const struct hrf_head *head, const struct hrf_head_step *step,
                                      struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_create(hrf_head_kind_names[head->form.kind], &graph, err));
    struct hrf_head_build b = { .head = head, .graph = graph, .step = step, .err = err };
    const struct hrf_head_outputs made = build(&b);
    int32_t output = hrf_head_softmax(&b, HRF_OP_LOG_SOFTMAX, made.logits, 1);
    if (made.terms >= 0)
        output = hrf_head_concat(&b, output, made.terms, 1);
    HRF_TRY(b.status);
    HRF_TRY(hrf_graph_set_io(graph, b.inputs, b.n_inputs, &output, 1, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

void hrf_head_step_factors(const struct hrf_head *head, const struct hrf_head_step *step,
                           double class_weight, float *out)
{
    const struct hrf_head_form *f = &head->form;
    const int64_t k = f->n_classes;
    const double of_instances = has_instances(f) ? f->instance_weight : 0;
    const double share = f->kind == HRF_HEAD_DSMIL ? 0.5 : 1 - of_instances;
    const float factor = (float)(-share * class_weight);
    const int64_t more = f->kind == HRF_HEAD_DSMIL ? k : of_instances > 0 ? 4 : 0;
    memset(out, 0, (size_t)(k + more) * sizeof *out);
    out[step->label] = factor;
    if (f->kind == HRF_HEAD_DSMIL)
        out[k + step->label] = factor;
    if (of_instances > 0)
        out[k + 1] = out[k + 2] = (float)(-of_instances / (double)(2 * n_samples(head, step)));
}

/* ---- dropout ---- */

/* Source: "lowbias32", C. Wellons, Prospecting for Hash Functions. */
static inline uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
}

void hrf_head_draw_dropout(double share, uint64_t key, int64_t n_rows, int64_t n_columns,
                           float *out)
{
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    const uint32_t limit = (uint32_t)(share * 0x1p24);
    const float kept = (float)(1 / (1 - share));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_rows; i++) {
        const uint32_t of_row = mix(low ^ mix((uint32_t)i ^ mix(high ^ (uint32_t)(i >> 32))));
        for (int64_t j = 0; j < n_columns; j++)
            out[i * n_columns + j] = mix(of_row + (uint32_t)j * 0x9E3779B9U) >> 8 < limit ? 0
                                                                                          : kept;
    }
}
