/* transmil.c - TransMIL: Nystroem attention over the patches of a slide.
 *
 * Sizes that follow from the number of patches are computed by nodes, so that a file's number is
 * open. A stack of matrices, one for each head, has rank 3. Sources: Shao et al., "TransMIL"
 * (2021); Xiong et al., "Nystroemformer" (2021). */
#include "heads/model/head_build.h"

#include <math.h>
#include <stdio.h>

enum { INVERSE_STEPS = 6, TOKEN_TAPS = 33 };

static void declare_layer(struct hrf_head *head, int layer)
{
    const int64_t c = head->form.hidden;
    const struct {
        const char *name;
        struct hrf_shape shape;
        int64_t fan_in;
        enum hrf_head_start start;
    } rows[] = { { "norm.weight", { 1, { c } }, 0, HRF_START_ONE },
                 { "norm.bias", { 1, { c } }, 0, HRF_START_ZERO },
                 { "attn.to_qkv.weight", { 2, { 3 * c, c } }, c, HRF_START_UNIFORM },
                 { "attn.to_out.0.weight", { 2, { c, c } }, c, HRF_START_UNIFORM },
                 { "attn.to_out.0.bias", { 1, { c } }, c, HRF_START_UNIFORM },
                 { "attn.res_conv.weight",
                   { 4, { head->form.heads, 1, TOKEN_TAPS, 1 } },
                   TOKEN_TAPS,
                   HRF_START_UNIFORM } };
    char name[HRF_HEAD_NAME];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(name, sizeof name, "layer%d.%s", layer, rows[i].name);
        hrf_head_declare(head, name, &rows[i].shape, rows[i].start, rows[i].fan_in);
    }
}

/* The convolutions over the square of patches, and their sides. */
static const struct {
    const char *name;
    int64_t side;
} grids[] = { { "pos_layer.proj", 7 }, { "pos_layer.proj1", 5 }, { "pos_layer.proj2", 3 } };

void hrf_transmil_declare(struct hrf_head *head)
{
    const struct hrf_head_form *f = &head->form;
    const int64_t c = f->hidden;
    const struct hrf_shape of_token = { 2, { 1, c } }, of_norm = { 1, { c } };
    char name[HRF_HEAD_NAME];
    hrf_head_declare_linear(head, "_fc1.0", f->width, c);
    hrf_head_declare(head, "cls_token", &of_token, HRF_START_NORMAL, 0);
    declare_layer(head, 1);
    for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++) {
        const int64_t side = grids[k].side;
        const struct hrf_shape of_weight = { 4, { c, 1, side, side } };
        snprintf(name, sizeof name, "%s.weight", grids[k].name);
        hrf_head_declare(head, name, &of_weight, HRF_START_UNIFORM, side * side);
        snprintf(name, sizeof name, "%s.bias", grids[k].name);
        hrf_head_declare(head, name, &of_norm, HRF_START_UNIFORM, side * side);
    }
    declare_layer(head, 2);
    hrf_head_declare(head, "norm.weight", &of_norm, HRF_START_ONE, 0);
    hrf_head_declare(head, "norm.bias", &of_norm, HRF_START_ZERO, 0);
    hrf_head_declare_linear(head, "_fc2", c, f->n_classes);
}

/* ---- the pseudo-inverse of a stack of square matrices ---- */

/* factor * identity - x. */
static int32_t eye_less(struct hrf_head_build *b, float factor, int32_t x)
{
    const int64_t m = b->head->form.landmarks, dims[2] = { m, m };
    HRF_AUTO_FREE float *eye = hrf_try_calloc((size_t)(m * m), sizeof *eye);
    if (eye == NULL)
        return hrf_head_fail(
            b, hrf_error_set(b->err, HRF_E_NOMEM, "no memory for %lld landmarks", (long long)m));
    for (int64_t i = 0; i < m; i++)
        eye[i * m + i] = factor;
    return HRF_NODE(b, HRF_OP_SUB, NULL, hrf_head_floats(b, eye, dims, 2), x);
}

/* x' / (largest row sum * largest column sum of |x|, over all matrices). */
static int32_t inverse_start(struct hrf_head_build *b, int32_t x)
{
    static const int64_t axes[] = { 0, 1, 2 };
    int32_t sums[2];
    for (int i = 0; i < 2; i++)
        sums[i] = hrf_head_reduced(b, HRF_OP_REDUCE_MAX,
                                   hrf_head_reduced(b, HRF_OP_REDUCE_L1, x, &axes[2 - i], 1, true),
                                   axes, 3, true);
    return HRF_NODE(b, HRF_OP_DIV, NULL, hrf_head_transposed(b, x, 3),
                    HRF_NODE(b, HRF_OP_MUL, NULL, sums[0], sums[1]));
}

/* z = z / 4 (13 I - x z (15 I - x z (7 I - x z))), six times. */
static int32_t pseudo_inverse(struct hrf_head_build *b, int32_t x)
{
    int32_t z = inverse_start(b, x);
    for (int i = 0; i < INVERSE_STEPS; i++) {
        const int32_t xz = HRF_NODE(b, HRF_OP_MATMUL, NULL, x, z);
        int32_t inner = eye_less(b, 7, xz);
        inner = eye_less(b, 15, HRF_NODE(b, HRF_OP_MATMUL, NULL, xz, inner));
        inner = eye_less(b, 13, HRF_NODE(b, HRF_OP_MATMUL, NULL, xz, inner));
        z = hrf_head_scaled(b, HRF_NODE(b, HRF_OP_MATMUL, NULL, z, inner), 0.25F);
    }
    return z;
}

/* ---- a layer ---- */

static int32_t layer_norm(struct hrf_head_build *b, const char *name, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = -1;
    a.epsilon = 1e-5F; /* PyTorch's default */
    return HRF_NODE(b, HRF_OP_LAYER_NORM, &a, x, hrf_head_parameter(b, "%s.weight", name),
                    hrf_head_parameter(b, "%s.bias", name));
}

/* Rows of zeros in front, up to a multiple of the landmarks. */
static int32_t padded(struct hrf_head_build *b, int32_t x)
{
    static const int64_t zeros[3] = { 0, 0, 0 };
    const int32_t m = hrf_head_integers(b, &b->head->form.landmarks, 1);
    int32_t more = HRF_NODE(b, HRF_OP_MOD, NULL, hrf_head_length(b, x, 0), m);
    more = HRF_NODE(b, HRF_OP_MOD, NULL, HRF_NODE(b, HRF_OP_SUB, NULL, m, more), m);
    const int32_t pads = hrf_head_concat(b, more, hrf_head_integers(b, zeros, 3), 0);
    return HRF_NODE(b, HRF_OP_PAD, NULL, x, pads, hrf_head_number(b, 0));
}

/* The heads' parts of queries (0), keys (1) or values (2): [heads][rows][d]. */
static int32_t of_heads(struct hrf_head_build *b, int32_t qkv, int64_t third)
{
    static const int64_t order[] = { 1, 0, 2 };
    const int64_t c = b->head->form.hidden, heads = b->head->form.heads;
    const int64_t dims[] = { -1, heads, c / heads };
    const int32_t x = hrf_head_part(b, qkv, third * c, (third + 1) * c, 1);
    return hrf_head_permuted(b, hrf_head_reshaped(b, x, dims, 3), order, 3);
}

/* The means of as many consecutive runs of rows as there are landmarks. */
static int32_t landmarks_of(struct hrf_head_build *b, int32_t x)
{
    static const int64_t run = 2;
    const struct hrf_head_form *f = &b->head->form;
    const int64_t dims[] = { f->heads, f->landmarks, -1, f->hidden / f->heads };
    return hrf_head_reduced(b, HRF_OP_REDUCE_MEAN, hrf_head_reshaped(b, x, dims, 4), &run, 1,
                            false);
}

/* softmax(q k'), of each head. */
static int32_t similarity(struct hrf_head_build *b, int32_t q, int32_t k)
{
    const int32_t scores = HRF_NODE(b, HRF_OP_MATMUL, NULL, q, hrf_head_transposed(b, k, 3));
    return hrf_head_softmax(b, HRF_OP_SOFTMAX, scores, 2);
}

static int32_t convolved(struct hrf_head_build *b, const char *name, int32_t x, int64_t group,
                         int64_t rows, int64_t columns)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t inputs[] = { x, hrf_head_parameter(b, "%s.weight", name),
                               hrf_head_parameter(b, "%s.bias", name) };
    a.group = group;
    a.window.kernel[0] = rows;
    a.window.kernel[1] = columns;
    a.window.pad_begin[0] = a.window.pad_end[0] = rows / 2;
    a.window.pad_begin[1] = a.window.pad_end[1] = columns / 2;
    return hrf_head_node(b, HRF_OP_CONV, inputs, inputs[2] >= 0 ? 3 : 2, &a);
}

/* The values of each head convolved along the tokens: an image with the heads as channels. */
static int32_t along_tokens(struct hrf_head_build *b, int layer, int32_t v)
{
    const struct hrf_head_form *f = &b->head->form;
    const int64_t d = f->hidden / f->heads, image[] = { 1, f->heads, -1, d };
    const int64_t stack[] = { f->heads, -1, d };
    char name[HRF_HEAD_NAME];
    snprintf(name, sizeof name, "layer%d.attn.res_conv", layer);
    return hrf_head_reshaped(
        b, convolved(b, name, hrf_head_reshaped(b, v, image, 4), f->heads, TOKEN_TAPS, 1), stack,
        3);
}

/* Tokens to landmarks, the inverse of landmarks to landmarks, landmarks to tokens. */
struct nystroem {
    int32_t to_landmarks, inverse, from_landmarks;
};

/* So many rows as `like` has, from the last on. */
static int32_t last_rows(struct hrf_head_build *b, int32_t x, int32_t like, int64_t axis)
{
    static const int64_t all = INT64_MAX;
    const int32_t begin = HRF_NODE(b, HRF_OP_SUB, NULL, hrf_head_length(b, x, axis),
                                   hrf_head_length(b, like, 0));
    return hrf_head_sliced(b, x, begin, hrf_head_integers(b, &all, 1), axis);
}

/* The rows of the tokens of `n` patches, padded as padded() does. */
static int64_t count_padded(const struct hrf_head_form *f, int64_t n)
{
    int64_t side = 1;
    while (side * side < n)
        side++;
    return (side * side + f->landmarks) / f->landmarks * f->landmarks;
}

/* x + attention(norm(x)). */
static int32_t build_layer(struct hrf_head_build *b, int layer, int32_t x, struct nystroem *n)
{
    static const int64_t order[] = { 1, 0, 2 };
    const struct hrf_head_form *f = &b->head->form;
    const int64_t tokens[] = { -1, f->hidden };
    char name[HRF_HEAD_NAME];
    snprintf(name, sizeof name, "layer%d.norm", layer);
    const int32_t normed = padded(b, layer_norm(b, name, x));
    snprintf(name, sizeof name, "layer%d.attn.to_qkv", layer);
    const int32_t qkv = hrf_head_linear(b, name, normed);
    const int32_t q = hrf_head_scaled(b, of_heads(b, qkv, 0),
                                      1.0F / sqrtf((float)(f->hidden / f->heads)));
    const int32_t k = of_heads(b, qkv, 1), v = of_heads(b, qkv, 2);
    const int32_t of_q = landmarks_of(b, q), of_k = landmarks_of(b, k);
    n->to_landmarks = similarity(b, q, of_k);
    n->inverse = pseudo_inverse(b, similarity(b, of_q, of_k));
    n->from_landmarks = similarity(b, of_q, k);
    int32_t out = HRF_NODE(b, HRF_OP_MATMUL, NULL, n->from_landmarks, v);
    out = HRF_NODE(b, HRF_OP_MATMUL, NULL, n->inverse, out);
    out = HRF_NODE(b, HRF_OP_MATMUL, NULL, n->to_landmarks, out);
    out = HRF_NODE(b, HRF_OP_ADD, NULL, out, along_tokens(b, layer, v));
    out = hrf_head_reshaped(b, hrf_head_permuted(b, out, order, 3), tokens, 2);
    snprintf(name, sizeof name, "layer%d.attn.to_out.0", layer);
    out = hrf_head_linear(b, name, out);
    out = hrf_head_dropped(b, out, b->step != NULL ? count_padded(f, b->step->n) : -1, f->hidden);
    return HRF_NODE(b, HRF_OP_ADD, NULL, x, last_rows(b, out, x, 0));
}

/* [1][N]: the class token's row of a layer's attention, as the mean over the heads. It approximates
 * an attention: numbers may be below 0. */
static int32_t class_attention(struct hrf_head_build *b, const struct nystroem *n, int32_t tokens,
                               int32_t bag)
{
    static const int64_t heads = 0, one = 1;
    const int32_t zero = hrf_head_integers(b, &heads, 1);
    int32_t row = hrf_head_part(b, last_rows(b, n->to_landmarks, tokens, 1), 0, 1, 1);
    row = HRF_NODE(b, HRF_OP_MATMUL, NULL, row, n->inverse);
    row = HRF_NODE(b, HRF_OP_MATMUL, NULL, row, n->from_landmarks); /* [heads][1][padded tokens] */
    row = hrf_head_reduced(b, HRF_OP_REDUCE_MEAN, row, &heads, 1, false);
    row = hrf_head_part(b, last_rows(b, row, tokens, 1), one, INT64_MAX, 1);
    return hrf_head_sliced(b, row, zero, hrf_head_length(b, bag, 0), 1);
}

/* The patches h and their first ones again, up to a square number of them. The side is
 * ceil(sqrt(N)); the patches twice are always enough. */
static int32_t squared(struct hrf_head_build *b, int32_t h, int32_t *side)
{
    static const int64_t zero = 0;
    struct hrf_attributes a = hrf_attributes_default();
    a.to = HRF_F32;
    int32_t x = HRF_NODE(b, HRF_OP_CAST, &a, hrf_head_length(b, h, 0));
    x = HRF_NODE(b, HRF_OP_CEIL, NULL, HRF_NODE(b, HRF_OP_SQRT, NULL, x));
    a.to = HRF_S64;
    *side = HRF_NODE(b, HRF_OP_CAST, &a, x);
    return hrf_head_sliced(b, hrf_head_concat(b, h, h, 0), hrf_head_integers(b, &zero, 1),
                           HRF_NODE(b, HRF_OP_MUL, NULL, *side, *side), 0);
}

/* Convolutions over the square of patches, added to them; the class token stays. */
static int32_t over_grid(struct hrf_head_build *b, int32_t tokens, int32_t side)
{
    const int64_t c = b->head->form.hidden, front[] = { 1, c }, flat[] = { c, -1 };
    const int32_t shape = HRF_NODE(b, HRF_OP_CONCAT, NULL, hrf_head_integers(b, front, 2), side,
                                   side);
    const int32_t patches = hrf_head_transposed(b, hrf_head_part(b, tokens, 1, INT64_MAX, 0), 2);
    const int32_t image = HRF_NODE(b, HRF_OP_RESHAPE, NULL, patches, shape);
    int32_t sum = image;
    for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++)
        sum = HRF_NODE(b, HRF_OP_ADD, NULL, sum,
                       convolved(b, grids[k].name, image, c, grids[k].side, grids[k].side));
    sum = hrf_head_transposed(b, hrf_head_reshaped(b, sum, flat, 2), 2);
    return hrf_head_concat(b, hrf_head_part(b, tokens, 0, 1, 0), sum, 0);
}

struct hrf_head_outputs hrf_transmil_build(struct hrf_head_build *b, int32_t bag)
{
    struct hrf_head_outputs out = { .attention = HRF_NO_VALUE, .terms = HRF_NO_VALUE };
    struct nystroem n;
    int32_t side;
    const int32_t h = HRF_NODE(b, HRF_OP_RELU, NULL, hrf_head_linear(b, "_fc1.0", bag));
    int32_t tokens = hrf_head_concat(b, hrf_head_parameter(b, "cls_token"), squared(b, h, &side),
                                     0);
    tokens = build_layer(b, 1, tokens, &n);
    tokens = over_grid(b, tokens, side);
    tokens = build_layer(b, 2, tokens, &n);
    if (b->step == NULL)
        out.attention = class_attention(b, &n, tokens, bag);
    const int32_t of_class = layer_norm(b, "norm", hrf_head_part(b, tokens, 0, 1, 0));
    out.logits = hrf_head_linear(b, "_fc2", of_class);
    return out;
}
