/* vit.c - timm's VisionTransformer (and transformers', in timm's names): class token, registers,
 * LayerScale, SwiGLU, position embeddings at any image size. Source:
 * timm/models/vision_transformer.py (1.0). */
#include "engine/encoder/build_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct vit {
    int64_t width, patch, grid, n_prefix, n_heads, depth;
    bool has_class;
};

static int64_t n_tokens(const struct vit *v)
{
    return v->n_prefix + v->grid * v->grid;
}

/* That the weights are of the network that the name stands for: another number of heads, which no
 * tensor shows, makes other outputs without a word. */
static void check_named(struct hrf_encoder_build *b, const struct vit *v)
{
    const struct hrf_encoder_network *named = b->named;
    const int64_t n_registers = v->n_prefix - v->has_class;
    if (named->width == 0 ||
        (v->width == named->width && v->depth == named->depth && v->n_heads == named->n_heads &&
         v->patch == named->patch && n_registers == named->n_registers))
        return;
    (void)hrf_encoder_fail(
        b, hrf_error_set(b->err, HRF_E_USER,
                         "%s: %" PRId64 " channels, %" PRId64 " blocks, %" PRId64
                         " heads, patches of %" PRId64 " px, %" PRId64
                         " registers, where %s has %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                         " and %" PRId64 ": take the encoder's own weights, or 'vit' with --heads",
                         b->file->path, v->width, v->depth, v->n_heads, v->patch, n_registers,
                         b->graph->name, named->width, named->depth, named->n_heads, named->patch,
                         named->n_registers));
}

static void find_sizes(struct hrf_encoder_build *b, struct vit *v)
{
    const struct hrf_safetensor *proj = hrf_encoder_look(b, "patch_embed.proj.weight");
    const struct hrf_safetensor *registers = hrf_encoder_look(b, "reg_token");
    const int64_t size = b->wanted->size;
    if (proj == NULL || proj->shape.rank != 4 || proj->shape.dims[2] < 1) {
        (void)hrf_encoder_refuse(
            b, "it has no 'patch_embed.proj.weight' of 4 axes: these are not the weights "
               "of a vision transformer in timm's names");
        return;
    }
    v->width = proj->shape.dims[0];
    v->patch = proj->shape.dims[2];
    v->has_class = hrf_encoder_look(b, "cls_token") != NULL;
    v->n_prefix = v->has_class;
    if (registers != NULL && registers->shape.rank == 3)
        v->n_prefix += registers->shape.dims[1];
    while (hrf_encoder_look(b, "blocks.%" PRId64 ".norm1.weight", v->depth) != NULL)
        v->depth++;
    v->n_heads = b->wanted->n_heads > 0 ? b->wanted->n_heads : v->width / 64;
    if (v->n_heads < 1 || v->width % v->n_heads != 0)
        (void)hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER,
                                                "%" PRId64 " channels cannot be shared by %" PRId64
                                                " heads: give --heads",
                                                v->width, v->n_heads));
    else if (size % v->patch != 0 || size / v->patch < 1)
        (void)hrf_encoder_fail(
            b, hrf_error_set(b->err, HRF_E_USER,
                             "images of %" PRId64 " px cannot be cut into patches of %" PRId64
                             " px, so the position embedding has no place for them: take a "
                             "multiple of %" PRId64,
                             size, v->patch, v->patch));
    v->grid = size / v->patch;
    if (b->status == HRF_OK)
        check_named(b, v);
}

/* Rows of a tensor, whose last axes are [n][width], are copied to `to`; false: it failed. */
static bool copy_rows(struct hrf_encoder_build *b, const char *name, const struct vit *v, int64_t n,
                      float *to)
{
    struct hrf_safetensor *t = hrf_encoder_look(b, "%s", name);
    HRF_AUTO_FREE float *rows = NULL;
    const int32_t rank = t != NULL ? t->shape.rank : 0;
    if (t == NULL || hrf_shape_count(&t->shape) != n * v->width || rank < 1 ||
        t->shape.dims[rank - 1] != v->width || (rank > 1 && t->shape.dims[rank - 2] != n)) {
        char text[128] = "missing";
        if (t != NULL)
            hrf_shape_text(&t->shape, text);
        (void)hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER,
                                                "%s: tensor '%s' is %s where %" PRId64
                                                " rows of %" PRId64 " channels are needed",
                                                b->file->path, name, text, n, v->width));
        return false;
    }
    (void)hrf_encoder_fail(b, hrf_safetensors_read(b->file, t, &rows, b->err));
    if (b->status != HRF_OK)
        return false;
    memcpy(to, rows, (size_t)(n * v->width) * sizeof *to);
    return true;
}

/* What is added to the patches' tokens, whose prefix is zeros so far: class token and registers,
 * and the position embedding of all tokens that have one. */
static int32_t position_table(struct hrf_encoder_build *b, const struct vit *v)
{
    const struct hrf_safetensor *pos = hrf_encoder_look(b, "pos_embed");
    const int64_t width = v->width, dims[] = { 1, n_tokens(v), width };
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    const int64_t n_pos = pos != NULL && pos->shape.rank == 3 ? pos->shape.dims[1] : 0;
    /* Places of the prefix: none, all, or the class token's alone. */
    const int64_t prefixes[] = { 0, v->n_prefix, v->has_class };
    int64_t from = 0, embedded = 0;
    for (int i = 0; i < 3 && from * from + embedded != n_pos; i++) {
        embedded = prefixes[i];
        from = (int64_t)lrint(sqrt((double)(n_pos > embedded ? n_pos - embedded : 0)));
    }
    if (n_pos == 0 || from * from + embedded != n_pos)
        return hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER,
                                                 "%s: 'pos_embed' has %" PRId64
                                                 " places, which are no square grid",
                                                 b->file->path, n_pos));
    HRF_AUTO_FREE float *given = hrf_try_calloc((size_t)(n_pos * width) + 1, sizeof *given);
    HRF_AUTO_FREE float *table = hrf_try_calloc((size_t)(n_tokens(v) * width) + 1, sizeof *table);
    if (given == NULL || table == NULL)
        return hrf_encoder_fail(
            b, hrf_error_set(b->err, HRF_E_NOMEM, "no memory for position embeddings"));
    if (!copy_rows(b, "pos_embed", v, n_pos, given) ||
        (v->has_class && !copy_rows(b, "cls_token", v, 1, table)) ||
        (v->n_prefix > v->has_class &&
         !copy_rows(b, "reg_token", v, v->n_prefix - v->has_class, table + v->has_class * width)))
        return HRF_NO_VALUE;
    for (int64_t i = 0; i < embedded * width; i++)
        table[i] += given[i];
    float *patches = table + v->n_prefix * width;
    if (from == v->grid)
        memcpy(patches, given + embedded * width, (size_t)(from * from * width) * sizeof *given);
    else
        (void)hrf_encoder_fail(b, hrf_position_resize(given + embedded * width, from, v->grid,
                                                      width, patches, b->err));
    return hrf_encoder_constant(b, HRF_F32, 3, dims, table);
}

static int32_t tokens_of(struct hrf_encoder_build *b, const struct vit *v, int32_t x)
{
    const int64_t flat[] = { 0, v->width, v->grid * v->grid };
    x = hrf_encoder_conv(b, "patch_embed.proj", x, 3, v->width, v->patch, v->patch, 0, 1);
    x = hrf_encoder_transpose(b, hrf_encoder_reshape(b, x, 3, flat), 3,
                              (const int64_t[]){ 0, 2, 1 });
    if (v->n_prefix > 0) {
        struct hrf_attributes a = hrf_attributes_default();
        a.n_axes = 3;
        for (int i = 0; i < 3; i++)
            a.axes[i] = i;
        a.pad.sizes[1] = v->n_prefix;
        x = hrf_encoder_node(b, HRF_OP_PAD, &x, 1, &a);
    }
    x = hrf_encoder_binary(b, HRF_OP_ADD, x, position_table(b, v));
    if (hrf_encoder_look(b, "norm_pre.weight") != NULL)
        x = hrf_encoder_layer_norm(b, "norm_pre", x, 2, v->width, b->epsilon);
    return x;
}

/* q, k or v: [N][heads][T][d] of [3][N][heads][T][d]. */
static int32_t part_of(struct hrf_encoder_build *b, const struct vit *v, int32_t all, int64_t i)
{
    const int64_t dims[] = { -1, v->n_heads, n_tokens(v), v->width / v->n_heads };
    return hrf_encoder_reshape(b, hrf_encoder_slice(b, all, 0, i, i + 1), 4, dims);
}

/* x times the matrices of q, k and v side by side: [N][T][3 * width]. */
static int32_t apart(struct hrf_encoder_build *b, const struct vit *v, const char *block, int32_t x)
{
    static const char *const parts[] = { "q", "k", "v" };
    const int64_t w = v->width, dims[] = { w, 3 * w };
    HRF_AUTO_FREE float *matrix = hrf_try_alloc_array((size_t)(3 * w * w), sizeof *matrix);
    HRF_AUTO_FREE float *rows = hrf_try_alloc_array((size_t)(w * w), sizeof *rows);
    HRF_AUTO_FREE float *bias = hrf_try_calloc((size_t)(3 * w), sizeof *bias);
    char name[96];
    if (matrix == NULL || rows == NULL || bias == NULL)
        return hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_NOMEM, "no memory for '%s'", block));
    for (int64_t p = 0; p < 3; p++) {
        snprintf(name, sizeof name, "%s.attn.%s.weight", block, parts[p]);
        if (!copy_rows(b, name, v, w, rows))
            return HRF_NO_VALUE;
        for (int64_t r = 0; r < w; r++)
            for (int64_t c = 0; c < w; c++)
                matrix[c * 3 * w + p * w + r] = rows[r * w + c];
        snprintf(name, sizeof name, "%s.attn.%s.bias", block, parts[p]);
        if (hrf_encoder_look(b, "%s", name) != NULL && !copy_rows(b, name, v, 1, bias + p * w))
            return HRF_NO_VALUE;
    }
    x = hrf_encoder_binary(b, HRF_OP_MATMUL, x, hrf_encoder_constant(b, HRF_F32, 2, dims, matrix));
    return hrf_encoder_binary(b, HRF_OP_ADD, x,
                              hrf_encoder_constant(b, HRF_F32, 1, &dims[1], bias));
}

static int32_t attention(struct hrf_encoder_build *b, const struct vit *v, const char *block,
                         int32_t x)
{
    char name[96];
    const int64_t d = v->width / v->n_heads, one = 1;
    const float scale = (float)(1 / sqrt((double)d));
    struct hrf_attributes softmax = hrf_attributes_default();
    softmax.axis = 3;
    snprintf(name, sizeof name, "%s.attn.qkv", block);
    int32_t all = hrf_encoder_look(b, "%s.attn.q.weight", block) != NULL
                      ? apart(b, v, block, x)
                      : hrf_encoder_linear(b, name, x, 3 * v->width, v->width);
    all = hrf_encoder_reshape(b, all, 5, (const int64_t[]){ 0, n_tokens(v), 3, v->n_heads, d });
    all = hrf_encoder_transpose(b, all, 5, (const int64_t[]){ 2, 0, 3, 1, 4 });
    int32_t q = part_of(b, v, all, 0), k = part_of(b, v, all, 1);
    static const char *const norms[] = { "q_norm", "k_norm" };
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.attn.%s", block, norms[i]);
        if (hrf_encoder_look(b, "%s.weight", name) != NULL)
            *(i == 0 ? &q : &k) = hrf_encoder_layer_norm(b, name, i == 0 ? q : k, 3, d, b->epsilon);
    }
    q = hrf_encoder_binary(b, HRF_OP_MUL, q, hrf_encoder_constant(b, HRF_F32, 1, &one, &scale));
    k = hrf_encoder_transpose(b, k, 4, (const int64_t[]){ 0, 1, 3, 2 });
    int32_t y = hrf_encoder_binary(b, HRF_OP_MATMUL, q, k);
    y = hrf_encoder_node(b, HRF_OP_SOFTMAX, &y, 1, &softmax);
    y = hrf_encoder_binary(b, HRF_OP_MATMUL, y, part_of(b, v, all, 2));
    y = hrf_encoder_transpose(b, y, 4, (const int64_t[]){ 0, 2, 1, 3 });
    y = hrf_encoder_reshape(b, y, 3, (const int64_t[]){ 0, n_tokens(v), v->width });
    snprintf(name, sizeof name, "%s.attn.norm", block);
    if (hrf_encoder_look(b, "%s.weight", name) != NULL)
        y = hrf_encoder_layer_norm(b, name, y, 2, v->width, b->epsilon);
    snprintf(name, sizeof name, "%s.attn.proj", block);
    return hrf_encoder_linear(b, name, y, v->width, v->width);
}

/* GELU, or SwiGLU in timm's packed form: the first half through SiLU, times the second. */
static int32_t mlp(struct hrf_encoder_build *b, const struct vit *v, const char *block, int32_t x)
{
    char fc1[96], fc2[96];
    snprintf(fc1, sizeof fc1, "%s.mlp.fc1", block);
    snprintf(fc2, sizeof fc2, "%s.mlp.fc2", block);
    const struct hrf_safetensor *first = hrf_encoder_look(b, "%s.weight", fc1);
    const struct hrf_safetensor *second = hrf_encoder_look(b, "%s.weight", fc2);
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    if (first == NULL || second == NULL || first->shape.rank != 2 || second->shape.rank != 2)
        return hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER,
                                                 "%s has no '%s.weight' and '%s.weight' of 2 axes",
                                                 b->file->path, fc1, fc2));
    const int64_t hidden = first->shape.dims[0], narrow = second->shape.dims[1];
    x = hrf_encoder_linear(b, fc1, x, hidden, v->width);
    if (hidden == 2 * narrow) {
        const int32_t gate = hrf_encoder_slice(b, x, 2, 0, narrow);
        const int32_t silu = hrf_encoder_binary(b, HRF_OP_MUL, gate,
                                                hrf_encoder_unary(b, HRF_OP_SIGMOID, gate));
        x = hrf_encoder_binary(b, HRF_OP_MUL, silu, hrf_encoder_slice(b, x, 2, narrow, hidden));
    } else {
        x = hrf_encoder_unary(b, HRF_OP_GELU, x);
    }
    return hrf_encoder_linear(b, fc2, x, v->width, narrow);
}

/* x + LayerScale(y) */
static int32_t add_scaled(struct hrf_encoder_build *b, const struct vit *v, const char *block,
                          const char *scale, int32_t x, int32_t y)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s.gamma", block, scale);
    if (hrf_encoder_look(b, "%s", name) != NULL)
        y = hrf_encoder_binary(b, HRF_OP_MUL, y, hrf_encoder_tensor(b, name, 1, &v->width));
    return hrf_encoder_binary(b, HRF_OP_ADD, x, y);
}

static int32_t transform(struct hrf_encoder_build *b, const struct vit *v, int64_t i, int32_t x)
{
    char block[48], norm[64];
    snprintf(block, sizeof block, "blocks.%" PRId64, i);
    snprintf(norm, sizeof norm, "%s.norm1", block);
    int32_t y = hrf_encoder_layer_norm(b, norm, x, 2, v->width, b->epsilon);
    x = add_scaled(b, v, block, "ls1", x, attention(b, v, block, y));
    snprintf(norm, sizeof norm, "%s.norm2", block);
    y = hrf_encoder_layer_norm(b, norm, x, 2, v->width, b->epsilon);
    return add_scaled(b, v, block, "ls2", x, mlp(b, v, block, y));
}

static int32_t first_token(struct hrf_encoder_build *b, const struct vit *v, int32_t x)
{
    return hrf_encoder_reshape(b, hrf_encoder_slice(b, x, 1, 0, 1), 2,
                               (const int64_t[]){ -1, v->width });
}

static int32_t mean_of_patches(struct hrf_encoder_build *b, const struct vit *v, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 1;
    a.axes[0] = 1;
    a.keep_dims = false;
    if (v->n_prefix > 0)
        x = hrf_encoder_slice(b, x, 1, v->n_prefix, n_tokens(v));
    return hrf_encoder_node(b, HRF_OP_REDUCE_MEAN, &x, 1, &a);
}

static int32_t pool(struct hrf_encoder_build *b, const struct vit *v, int32_t x,
                    enum hrf_encoder_pool which)
{
    struct hrf_attributes a = hrf_attributes_default();
    const bool norms_after = hrf_encoder_look(b, "fc_norm.weight") != NULL;
    a.axis = 1;
    if (which != HRF_POOL_MEAN && !v->has_class)
        return hrf_encoder_refuse(b, "these weights have no class token: take --pool mean");
    if (which != HRF_POOL_MEAN && norms_after)
        return hrf_encoder_refuse(
            b, "these weights norm the mean of the patches' tokens ('fc_norm'): take "
               "--pool mean");
    if (hrf_encoder_look(b, "norm.weight") != NULL)
        x = hrf_encoder_layer_norm(b, "norm", x, 2, v->width, b->epsilon);
    else if (!norms_after)
        return hrf_encoder_refuse(b, "it has no last norm ('norm.weight')");
    if (which == HRF_POOL_CLASS)
        return first_token(b, v, x);
    if (which == HRF_POOL_BOTH)
        return hrf_encoder_node(b, HRF_OP_CONCAT,
                                (const int32_t[]){ first_token(b, v, x), mean_of_patches(b, v, x) },
                                2, &a);
    x = mean_of_patches(b, v, x);
    return norms_after ? hrf_encoder_layer_norm(b, "fc_norm", x, 1, v->width, b->epsilon) : x;
}

int32_t hrf_encoder_vit(struct hrf_encoder_build *b, int32_t x)
{
    struct vit v = { .width = 0 };
    enum hrf_encoder_pool which = b->wanted->pool;
    find_sizes(b, &v);
    if (which == HRF_POOL_STAGE3)
        return hrf_encoder_refuse(b, "stage3 is an output of ResNets");
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    x = tokens_of(b, &v, x);
    for (int64_t i = 0; i < v.depth; i++)
        x = transform(b, &v, i, x);
    if (which != HRF_POOL_LOGITS)
        return pool(b, &v, x, which);
    const struct hrf_safetensor *head = hrf_encoder_look(b, "head.weight");
    if (head == NULL || head->shape.rank != 2)
        return hrf_encoder_refuse(b, "these weights bring no classifier ('head.weight')");
    const bool is_mean = !v.has_class || hrf_encoder_look(b, "fc_norm.weight") != NULL;
    x = pool(b, &v, x, is_mean ? HRF_POOL_MEAN : HRF_POOL_CLASS);
    return hrf_encoder_linear(b, "head", x, head->shape.dims[0], v.width);
}
