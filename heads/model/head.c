/* head.c - the parameters of heads, and all heads except TransMIL. */
#include "heads/model/head_private.h"

#include "base/min_max.h"
#include "base/random.h"

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

void hrf_head_form_complete(struct hrf_head_form *form)
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

/* Names, and what is needed to draw them: kept in the table of the head while it is made. */
struct start {
    enum hrf_head_start kind;
    int64_t fan_in;
};
struct building {
    struct hrf_head head; /* first: hrf_head_add() finds the rest behind it */
    struct start starts[HRF_HEAD_MAX_PARAMETERS];
    char names[HRF_HEAD_MAX_PARAMETERS][48];
};

void hrf_head_add(struct hrf_head *head, const char *name, int64_t rows, int64_t columns,
                  enum hrf_head_start start, int64_t fan_in)
{
    struct building *b = (struct building *)(void *)head;
    const int32_t i = head->n_parameters++;
    assert(i < HRF_HEAD_MAX_PARAMETERS);
    snprintf(b->names[i], sizeof b->names[i], "%s", name);
    head->parameters[i] = (struct hrf_tensor){
        .batch = 1, .rows = rows, .columns = columns, .name = b->names[i]
    };
    b->starts[i] = (struct start){ start, fan_in };
    head->n_values += rows * columns;
}

static void add_linear(struct hrf_head *head, const char *name, int64_t inputs, int64_t outputs)
{
    char text[48];
    snprintf(text, sizeof text, "%.40s.weight", name);
    hrf_head_add(head, text, outputs, inputs, HRF_START_UNIFORM, inputs);
    snprintf(text, sizeof text, "%.40s.bias", name);
    hrf_head_add(head, text, 1, outputs, HRF_START_UNIFORM, inputs);
}

static void declare_attention(struct hrf_head *head)
{
    const struct hrf_head_form *f = &head->form;
    const bool is_multiple = f->kind == HRF_HEAD_CLAM_MB;
    char name[48];
    add_linear(head, "fc", f->width, f->hidden);
    add_linear(head, "attention_a", f->hidden, f->attention);
    add_linear(head, "attention_b", f->hidden, f->attention);
    add_linear(head, "attention_c", f->attention, is_multiple ? f->n_classes : 1);
    add_linear(head, "classifier", f->hidden, f->n_classes);
    for (int64_t k = 0; is_clam(f->kind) && k < f->n_classes; k++) {
        snprintf(name, sizeof name, "instance_classifiers.%lld", (long long)k);
        add_linear(head, name, f->hidden, 2);
    }
}

static void declare(struct hrf_head *head)
{
    const struct hrf_head_form *f = &head->form;
    switch (f->kind) {
    case HRF_HEAD_MEAN:
        add_linear(head, "classifier", f->width, f->n_classes);
        break;
    case HRF_HEAD_DSMIL:
        add_linear(head, "i_classifier.fc", f->width, f->n_classes);
        add_linear(head, "b_classifier.q.0", f->width, f->attention);
        add_linear(head, "b_classifier.q.2", f->attention, f->attention);
        add_linear(head, "b_classifier.fcc", f->n_classes * f->width, f->n_classes);
        break;
    case HRF_HEAD_TRANSMIL:
        hrf_transmil_declare(head);
        break;
    default:
        declare_attention(head);
    }
}

static void draw(struct hrf_head *head, const struct start *starts, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed ^ 0x68656164ULL);
    for (int32_t i = 0; i < head->n_parameters; i++) {
        struct hrf_tensor *p = &head->parameters[i];
        const double bound = 1 / sqrt((double)hrf_max(1, starts[i].fan_in));
        for (int64_t j = 0; j < hrf_tensor_count(p); j++)
            switch (starts[i].kind) {
            case HRF_START_UNIFORM:
                p->data[j] = (float)((2 * hrf_random_unit(&random) - 1) * bound);
                break;
            case HRF_START_NORMAL:
                p->data[j] = (float)hrf_random_normal(&random);
                break;
            case HRF_START_ZERO:
            case HRF_START_ONE:
                p->data[j] = starts[i].kind == HRF_START_ONE ? 1.0F : 0.0F;
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
    struct hrf_head_form complete = *form;
    hrf_head_form_complete(&complete);
    HRF_TRY(check_form(&complete, err));
    struct building *b = hrf_calloc(1, sizeof *b);
    HRF_AUTO(hrf_head) head = &b->head;
    head->form = complete;
    declare(head);
    const size_t n = (size_t)head->n_values;
    head->values = hrf_alloc_aligned(n * sizeof *head->values, 64);
    head->grads = hrf_alloc_aligned(n * sizeof *head->grads, 64);
    HRF_CHECK_MEMORY(head->values != NULL && head->grads != NULL, err,
                     "no memory for %zu weights of a head", n);
    memset(head->grads, 0, n * sizeof *head->grads);
    for (int64_t i = 0, at = 0; i < head->n_parameters; i++) {
        head->parameters[i].data = head->values + at;
        head->parameters[i].grad = head->grads + at;
        at += hrf_tensor_count(&head->parameters[i]);
    }
    draw(head, b->starts, seed);
    HRF_MOVE(*out, head);
    return HRF_OK;
}

void hrf_head_destroy(struct hrf_head *head)
{
    if (head == NULL)
        return;
    hrf_free(head->values);
    hrf_free(head->grads);
    hrf_free(head);
}

struct hrf_tensor *hrf_head_find(struct hrf_head *head, const char *name)
{
    for (int32_t i = 0; i < head->n_parameters; i++)
        if (strcmp(head->parameters[i].name, name) == 0)
            return &head->parameters[i];
    return NULL;
}

void hrf_head_forget_grads(struct hrf_head *head)
{
    for (int32_t i = 0; i < head->n_parameters; i++)
        head->parameters[i].has_grad = false;
}

/* ---- calculations ---- */

static struct hrf_tensor *linear(const struct hrf_head_run *run, const char *name,
                                 struct hrf_tensor *x, enum hrf_tape_activation activation,
                                 double dropout)
{
    char text[48];
    snprintf(text, sizeof text, "%.40s.weight", name);
    struct hrf_tensor *w = hrf_head_find(run->head, text);
    snprintf(text, sizeof text, "%.40s.bias", name);
    return hrf_tape_linear(run->tape, x, w, hrf_head_find(run->head, text), activation,
                           (float)dropout);
}

static void run_mean(struct hrf_head_run *run)
{
    struct hrf_tensor *mean = hrf_tape_group_mean(run->tape, run->bag, 1);
    run->out->logits = linear(run, "classifier", mean, HRF_TAPE_PLAIN, 0);
}

/* The `n` indices of the highest (sign 1) or lowest (-1) numbers, the best first; of equals the
 * first place. n is small. */
static void find_extremes(const float *x, int64_t count, float sign, int64_t *indices, int64_t n)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = found;
        while (at > 0 && sign * x[i] > sign * x[indices[at - 1]])
            at--;
        if (at == n)
            continue;
        found = hrf_min(found + 1, n);
        memmove(&indices[at + 1], &indices[at], (size_t)(found - 1 - at) * sizeof *indices);
        indices[at] = i;
    }
}

enum { MAX_SAMPLES = 1024 };

/* The class's own classifier learns that its patches of highest attention are of the class, and
 * those of lowest attention are not. */
static struct hrf_tensor *instance_loss(struct hrf_head_run *run, struct hrf_tensor *h)
{
    int64_t indices[2 * MAX_SAMPLES], targets[2 * MAX_SAMPLES];
    const struct hrf_tensor *attention = run->out->attention;
    char name[48];
    if (h == NULL || attention == NULL)
        return NULL;
    const int64_t n = hrf_min(hrf_min(run->head->form.samples, MAX_SAMPLES), h->rows);
    const float *a = attention->data + (attention->rows > 1 ? run->label : 0) * h->rows;
    find_extremes(a, h->rows, 1, indices, n);
    find_extremes(a, h->rows, -1, indices + n, n);
    for (int64_t i = 0; i < 2 * n; i++)
        targets[i] = i < n;
    snprintf(name, sizeof name, "instance_classifiers.%lld", (long long)run->label);
    struct hrf_tensor *chosen = hrf_tape_gather(run->tape, h, indices, 2 * n);
    return hrf_tape_cross_entropy(run->tape, linear(run, name, chosen, HRF_TAPE_PLAIN, 0), targets);
}

static void run_attention(struct hrf_head_run *run)
{
    const struct hrf_head_form *f = &run->head->form;
    struct hrf_tensor *h = linear(run, "fc", run->bag, HRF_TAPE_RELU, f->dropout);
    struct hrf_tensor *a = linear(run, "attention_a", h, HRF_TAPE_TANH, f->dropout);
    struct hrf_tensor *b = linear(run, "attention_b", h, HRF_TAPE_SIGMOID, f->dropout);
    struct hrf_tensor *raw = linear(run, "attention_c", hrf_tape_gate(run->tape, a, b),
                                    HRF_TAPE_PLAIN, 0);
    run->out->attention = hrf_tape_softmax(run->tape, hrf_tape_transpose(run->tape, raw));
    struct hrf_tensor *z = hrf_tape_matmul(run->tape, run->out->attention, h, false, 1);
    if (f->kind == HRF_HEAD_CLAM_MB)
        run->out->logits = hrf_tape_row_dot(run->tape, z,
                                            hrf_head_find(run->head, "classifier.weight"),
                                            hrf_head_find(run->head, "classifier.bias"));
    else
        run->out->logits = linear(run, "classifier", z, HRF_TAPE_PLAIN, 0);
    if (run->label < 0)
        return;
    const float share = is_clam(f->kind) ? (float)f->instance_weight : 0.0F;
    struct hrf_tensor *loss = hrf_tape_cross_entropy(run->tape, run->out->logits, &run->label);
    run->out->loss = share > 0.0F ? hrf_tape_add(run->tape, loss, (1 - share) * run->class_weight,
                                                 instance_loss(run, h), share)
                                  : loss;
}

static void run_dsmil(struct hrf_head_run *run)
{
    struct hrf_tape *tape = run->tape;
    struct hrf_tensor *x = run->bag;
    struct hrf_tensor *patches = linear(run, "i_classifier.fc", x, HRF_TAPE_PLAIN, 0);
    struct hrf_tensor *peaks = hrf_tape_peaks(tape, x, patches);
    struct hrf_tensor *q = linear(run, "b_classifier.q.2",
                                  linear(run, "b_classifier.q.0", x, HRF_TAPE_RELU, 0),
                                  HRF_TAPE_TANH, 0);
    struct hrf_tensor *best = linear(run, "b_classifier.q.2",
                                     linear(run, "b_classifier.q.0", peaks, HRF_TAPE_RELU, 0),
                                     HRF_TAPE_TANH, 0);
    const float scale = 1.0F / sqrtf((float)run->head->form.attention);
    run->out->attention = hrf_tape_softmax(tape, hrf_tape_matmul(tape, best, q, true, scale));
    struct hrf_tensor *z = hrf_tape_matmul(tape, run->out->attention, x, false, 1);
    run->out->logits = linear(run, "b_classifier.fcc", hrf_tape_reshape(tape, z, 1), HRF_TAPE_PLAIN,
                              0);
    if (run->label < 0)
        return;
    /* The highest logit of each class is at its peak: the same numbers, from the same weights. */
    struct hrf_tensor *highest = hrf_tape_row_dot(
        tape, peaks, hrf_head_find(run->head, "i_classifier.fc.weight"),
        hrf_head_find(run->head, "i_classifier.fc.bias"));
    run->out->loss = hrf_tape_add(tape, hrf_tape_cross_entropy(tape, run->out->logits, &run->label),
                                  0.5F, hrf_tape_cross_entropy(tape, highest, &run->label), 0.5F);
}

enum hrf_status hrf_head_run(struct hrf_head *head, struct hrf_tape *tape, struct hrf_tensor *bag,
                             int64_t label, double class_weight, struct hrf_head_result *out,
                             struct hrf_error *err)
{
    *out = (struct hrf_head_result){ .loss = NULL };
    struct hrf_head_run run = { head, tape, bag, label, (float)class_weight, out };
    HRF_TRY(hrf_tape_status(tape, err));
    if (bag->columns != head->form.width || bag->rows < 1)
        return hrf_error_set(
            err, HRF_E_USER, "a bag of %lld embeddings of %lld numbers: the head takes %lld",
            (long long)bag->rows, (long long)bag->columns, (long long)head->form.width);
    switch (head->form.kind) {
    case HRF_HEAD_MEAN:
        run_mean(&run);
        break;
    case HRF_HEAD_DSMIL:
        run_dsmil(&run);
        break;
    case HRF_HEAD_TRANSMIL:
        hrf_transmil_run(&run);
        break;
    default:
        run_attention(&run);
    }
    if (label >= 0 && out->loss == NULL)
        out->loss = hrf_tape_cross_entropy(tape, out->logits, &label);
    if (label >= 0 && run.class_weight != 1.0F && !is_clam(head->form.kind))
        out->loss = hrf_tape_add(tape, out->loss, run.class_weight, out->loss, 0);
    out->scores = hrf_tape_softmax(tape, out->logits);
    return hrf_tape_status(tape, err);
}
