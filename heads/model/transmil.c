/* transmil.c - TransMIL: Nystroem attention over the patches of a slide. */
#include "heads/model/head_private.h"

#include <math.h>
#include <stdio.h>

enum { INVERSE_STEPS = 6, TOKEN_TAPS = 33 };

static void add_layer(struct hrf_head *head, int layer)
{
    const int64_t c = head->form.hidden;
    const struct {
        const char *name;
        int64_t rows, columns, fan_in;
        enum hrf_head_start start;
    } rows[] = { { "norm.weight", 1, c, 0, HRF_START_ONE },
                 { "norm.bias", 1, c, 0, HRF_START_ZERO },
                 { "attn.to_qkv.weight", 3 * c, c, c, HRF_START_UNIFORM },
                 { "attn.to_out.0.weight", c, c, c, HRF_START_UNIFORM },
                 { "attn.to_out.0.bias", 1, c, c, HRF_START_UNIFORM },
                 { "attn.res_conv.weight", head->form.heads, TOKEN_TAPS, TOKEN_TAPS,
                   HRF_START_UNIFORM } };
    char name[48];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(name, sizeof name, "layer%d.%s", layer, rows[i].name);
        hrf_head_add(head, name, rows[i].rows, rows[i].columns, rows[i].start, rows[i].fan_in);
    }
}

static const char *const grid_names[3] = { "pos_layer.proj", "pos_layer.proj1", "pos_layer.proj2" };

void hrf_transmil_declare(struct hrf_head *head)
{
    const struct hrf_head_form *f = &head->form;
    const int64_t c = f->hidden;
    char name[48];
    hrf_head_add(head, "_fc1.0.weight", c, f->width, HRF_START_UNIFORM, f->width);
    hrf_head_add(head, "_fc1.0.bias", 1, c, HRF_START_UNIFORM, f->width);
    hrf_head_add(head, "cls_token", 1, c, HRF_START_NORMAL, 0);
    add_layer(head, 1);
    for (int64_t k = 0; k < 3; k++) {
        const int64_t taps = (7 - 2 * k) * (7 - 2 * k);
        snprintf(name, sizeof name, "%s.weight", grid_names[k]);
        hrf_head_add(head, name, c, taps, HRF_START_UNIFORM, taps);
        snprintf(name, sizeof name, "%s.bias", grid_names[k]);
        hrf_head_add(head, name, 1, c, HRF_START_UNIFORM, taps);
    }
    add_layer(head, 2);
    hrf_head_add(head, "norm.weight", 1, c, HRF_START_ONE, 0);
    hrf_head_add(head, "norm.bias", 1, c, HRF_START_ZERO, 0);
    hrf_head_add(head, "_fc2.weight", f->n_classes, c, HRF_START_UNIFORM, c);
    hrf_head_add(head, "_fc2.bias", 1, f->n_classes, HRF_START_UNIFORM, c);
}

static struct hrf_tensor *of_layer(struct hrf_head_run *run, int layer, const char *name)
{
    char text[48];
    snprintf(text, sizeof text, "layer%d.%s", layer, name);
    return hrf_head_find(run->head, text);
}

/* z = z / 4 (13 I - x z (15 I - x z (7 I - x z))), six times. */
static struct hrf_tensor *pseudo_inverse(struct hrf_tape *tape, struct hrf_tensor *x)
{
    struct hrf_tensor *z = hrf_tape_inverse_start(tape, x);
    for (int i = 0; i < INVERSE_STEPS; i++) {
        struct hrf_tensor *xz = hrf_tape_matmul(tape, x, z, false, 1);
        struct hrf_tensor *inner = hrf_tape_eye_minus(tape, 7, xz);
        inner = hrf_tape_eye_minus(tape, 15, hrf_tape_matmul(tape, xz, inner, false, 1));
        inner = hrf_tape_eye_minus(tape, 13, hrf_tape_matmul(tape, xz, inner, false, 1));
        z = hrf_tape_matmul(tape, z, inner, false, 0.25F);
    }
    return z;
}

/* Tokens to landmarks, landmarks to each other, landmarks to tokens: [heads][..][..] each. */
struct nystroem {
    struct hrf_tensor *to_landmarks, *inverse, *from_landmarks;
};

/* x + attention(norm(x)). */
static struct hrf_tensor *run_layer(struct hrf_head_run *run, int layer, struct hrf_tensor *x,
                                    struct nystroem *n)
{
    struct hrf_tape *tape = run->tape;
    const struct hrf_head_form *f = &run->head->form;
    const int64_t m = f->landmarks;
    const float scale = 1.0F / sqrtf((float)(f->hidden / f->heads));
    struct hrf_tensor *normed = hrf_tape_layer_norm(tape, x, of_layer(run, layer, "norm.weight"),
                                                    of_layer(run, layer, "norm.bias"));
    struct hrf_tensor *padded = hrf_tape_pad_front(tape, normed, m);
    struct hrf_tensor *qkv = hrf_tape_linear(
        tape, padded, of_layer(run, layer, "attn.to_qkv.weight"), NULL, HRF_TAPE_PLAIN, 0);
    struct hrf_tensor *q = hrf_tape_split_heads(tape, qkv, 0, f->heads, scale);
    struct hrf_tensor *k = hrf_tape_split_heads(tape, qkv, 1, f->heads, 1);
    struct hrf_tensor *v = hrf_tape_split_heads(tape, qkv, 2, f->heads, 1);
    struct hrf_tensor *q_marks = hrf_tape_group_mean(tape, q, m);
    struct hrf_tensor *k_marks = hrf_tape_group_mean(tape, k, m);
    n->to_landmarks = hrf_tape_softmax(tape, hrf_tape_matmul(tape, q, k_marks, true, 1));
    struct hrf_tensor *between = hrf_tape_softmax(tape,
                                                  hrf_tape_matmul(tape, q_marks, k_marks, true, 1));
    n->from_landmarks = hrf_tape_softmax(tape, hrf_tape_matmul(tape, q_marks, k, true, 1));
    n->inverse = pseudo_inverse(tape, between);
    struct hrf_tensor *values = hrf_tape_matmul(
        tape, n->inverse, hrf_tape_matmul(tape, n->from_landmarks, v, false, 1), false, 1);
    struct hrf_tensor *out = hrf_tape_matmul(tape, n->to_landmarks, values, false, 1);
    out = hrf_tape_add(tape, out, 1,
                       hrf_tape_token_conv(tape, v, of_layer(run, layer, "attn.res_conv.weight")),
                       1);
    out = hrf_tape_linear(
        tape, hrf_tape_merge_heads(tape, out), of_layer(run, layer, "attn.to_out.0.weight"),
        of_layer(run, layer, "attn.to_out.0.bias"), HRF_TAPE_PLAIN, (float)f->dropout);
    return hrf_tape_add(tape, x, 1, hrf_tape_rows_like(tape, out, x, HRF_TAPE_LAST), 1);
}

/* [1][N]: the class token's row of a layer's attention, as the mean over the heads. It approximates
 * an attention: numbers may be below 0. */
static struct hrf_tensor *class_attention(struct hrf_head_run *run, const struct nystroem *n,
                                          struct hrf_tensor *tokens)
{
    struct hrf_tape *tape = run->tape;
    struct hrf_tensor *row = hrf_tape_first_of_last(tape, n->to_landmarks, tokens);
    row = hrf_tape_matmul(tape, row, n->inverse, false, 1);
    row = hrf_tape_matmul(tape, row, n->from_landmarks, false, 1); /* [heads][1][padded tokens] */
    row = hrf_tape_reshape(tape, row, run->head->form.heads);
    row = hrf_tape_transpose(tape, hrf_tape_group_mean(tape, row, 1));
    row = hrf_tape_rows(tape, hrf_tape_rows_like(tape, row, tokens, HRF_TAPE_LAST), 1, -1);
    return hrf_tape_transpose(tape, hrf_tape_rows_like(tape, row, run->bag, HRF_TAPE_FIRST));
}

static struct hrf_tensor *grid(struct hrf_head_run *run, struct hrf_tensor *tokens)
{
    struct hrf_tensor *weights[3], *biases[3];
    char name[48];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s.weight", grid_names[k]);
        weights[k] = hrf_head_find(run->head, name);
        snprintf(name, sizeof name, "%s.bias", grid_names[k]);
        biases[k] = hrf_head_find(run->head, name);
    }
    return hrf_tape_concat(
        run->tape, hrf_tape_rows(run->tape, tokens, 0, 1),
        hrf_tape_grid_conv(run->tape, hrf_tape_rows(run->tape, tokens, 1, -1), weights, biases));
}

void hrf_transmil_run(struct hrf_head_run *run)
{
    struct hrf_tape *tape = run->tape;
    struct hrf_head *head = run->head;
    struct nystroem n = { NULL, NULL, NULL };
    struct hrf_tensor *h = hrf_tape_linear(tape, run->bag, hrf_head_find(head, "_fc1.0.weight"),
                                           hrf_head_find(head, "_fc1.0.bias"), HRF_TAPE_RELU, 0);
    struct hrf_tensor *tokens = hrf_tape_concat(tape, hrf_head_find(head, "cls_token"),
                                                hrf_tape_square(tape, h));
    tokens = run_layer(run, 1, tokens, &n);
    tokens = grid(run, tokens);
    tokens = run_layer(run, 2, tokens, &n);
    run->out->attention = class_attention(run, &n, tokens);
    struct hrf_tensor *of_class = hrf_tape_layer_norm(tape, hrf_tape_rows(tape, tokens, 0, 1),
                                                      hrf_head_find(head, "norm.weight"),
                                                      hrf_head_find(head, "norm.bias"));
    run->out->logits = hrf_tape_linear(tape, of_class, hrf_head_find(head, "_fc2.weight"),
                                       hrf_head_find(head, "_fc2.bias"), HRF_TAPE_PLAIN, 0);
}
