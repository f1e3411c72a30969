#include "engine/backend/cpu/transformer/byte_attention.h"

#include "engine/backend/cpu/conv/winograd_integer.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/transformer/attention.h"

#include <math.h>
#include <omp.h>

struct byte_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    struct hrf_head_view view;
    int64_t slot_bytes; /* of the workspace of one thread */
    uint32_t exponentials[256];
    struct hrf_byte_attention head; /* what all heads have in common */
    void (*run)(const struct hrf_byte_attention *a);
};

int64_t hrf_byte_attention_bytes(int64_t n_keys, int64_t depth)
{
    const int64_t keys = (n_keys + 15) / 16 * 16, channels = (depth + 15) / 16 * 16;
    const int64_t wide = keys > channels ? keys : channels;
    const int64_t bytes = 4 * (2 * keys + channels + HRF_BYTE_QUERIES * wide) +
                          2 * keys * channels + HRF_BYTE_QUERIES * (keys + channels);
    return (bytes + HRF_BUFFER_ALIGNMENT - 1) / HRF_BUFFER_ALIGNMENT * HRF_BUFFER_ALIGNMENT;
}

/* Bytes of that type as unsigned ones, or as signed ones. */
static struct hrf_byte_matrix matrix_of(const struct hrf_operand *x, bool is_signed)
{
    const bool flips = (x->dtype == HRF_S8) != is_signed;
    const int32_t shift = !flips ? 0 : is_signed ? -128 : 128;
    return (struct hrf_byte_matrix){ .flip = flips ? 128 : 0,
                                     .zero = x->quantization.zero_point + shift };
}

/* `lowest`: what the smallest number of the type becomes. */
static struct hrf_byte_steps steps_of(enum hrf_dtype type, int32_t zero_point, double factor,
                                      int32_t lowest)
{
    const int32_t least = (type == HRF_S8 ? -128 : 0) - zero_point;
    return (struct hrf_byte_steps){ .factor = (float)factor,
                                    .low = (float)least,
                                    .high = (float)(least + 255),
                                    .zero = lowest - least };
}

static void prepare(struct byte_kernel *kernel)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const struct hrf_operand *x = spec->inputs, *y = &spec->output;
    struct hrf_byte_attention *a = &kernel->head;
    const double scores = (double)x[HRF_ATTENTION_Q].quantization.scale *
                          (double)x[HRF_ATTENTION_K].quantization.scale * (double)t->scale;
    const double values = (double)t->weights.scale * (double)x[HRF_ATTENTION_V].quantization.scale;
    a->n_queries = kernel->view.of[HRF_HEAD_Q].rows;
    a->n_keys = kernel->view.of[HRF_HEAD_K].rows;
    a->depth = kernel->view.of[HRF_HEAD_V].columns;
    a->q = matrix_of(&x[HRF_ATTENTION_Q], false);
    a->k = matrix_of(&x[HRF_ATTENTION_K], true);
    a->v = matrix_of(&x[HRF_ATTENTION_V], true);
    a->scores = steps_of(t->scores.dtype, t->scores.zero_point, scores / (double)t->scores.scale,
                         0);
    a->weights = steps_of(t->weights.dtype, t->weights.zero_point, 1, 0);
    a->weights_zero = a->weights.zero;
    a->weight_scale = (double)t->weights.scale;
    a->output = steps_of(y->dtype, y->quantization.zero_point,
                         values / (double)y->quantization.scale, y->dtype == HRF_S8 ? -128 : 0);
    for (int i = 0; i < 256; i++)
        kernel->exponentials[i] = (uint32_t)rint(exp(-i * (double)t->scores.scale) *
                                                 HRF_BYTE_EXPONENTIAL);
    a->exponentials = kernel->exponentials;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct byte_kernel *kernel = (const struct byte_kernel *)base;
    const struct hrf_spec *spec = kernel->spec;
    const uint8_t *x[3];
    for (int k = 0; k < 3; k++)
        x[k] = hrf_spec_data(spec, call, k);
#pragma omp parallel for schedule(static)
    for (int64_t head = 0; head < kernel->view.n_heads; head++) {
        struct hrf_byte_attention a = kernel->head;
        struct hrf_byte_matrix *const sides[] = { &a.q, &a.k, &a.v };
        for (int k = 0; k < 3; k++) {
            sides[k]->data = x[k] + hrf_head_begin(spec, k, head);
            sides[k]->row = kernel->view.of[k].row;
        }
        a.y = (uint8_t *)call->output + hrf_head_begin(spec, HRF_HEAD_Y, head);
        a.y_row = kernel->view.of[HRF_HEAD_Y].row;
        a.workspace = (char *)call->workspace + omp_get_thread_num() * kernel->slot_bytes;
        kernel->run(&a);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct byte_kernel *kernel = (struct byte_kernel *)base;
    hrf_spec_destroy(kernel->spec);
    hrf_free(kernel);
}

bool hrf_cpu_byte_attention_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (node->op != HRF_OP_ATTENTION || node->n_inputs != 3 ||
        !hrf_attention_is_of_tokens(&node->attributes) || !(node->attributes.scores.scale > 0))
        return false;
    for (int k = 0; k < 3; k++) {
        const enum hrf_dtype type = graph->values[node->inputs[k]].dtype;
        if (type != HRF_S8 && type != HRF_U8)
            return false;
    }
    return true;
}

enum hrf_status hrf_cpu_byte_attention_compile(struct hrf_backend *backend,
                                               const struct hrf_graph *graph,
                                               const struct hrf_node *node, struct hrf_kernel **out,
                                               struct hrf_error *err)
{
    struct byte_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    HRF_CHECK_MEMORY(kernel != NULL, err, "kernel of node '%s'", node->name);
    kernel->base = (struct hrf_kernel){ .run = run,
                                        .destroy = destroy,
                                        .implementation = "bytes:plain" };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    hrf_head_view(kernel->spec, &kernel->view);
    kernel->run = hrf_byte_attention_plain;
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_vnni()) {
        kernel->run = hrf_byte_attention_avx512;
        kernel->base.implementation = "bytes:avx512_vnni";
    }
#endif
    prepare(kernel);
    kernel->slot_bytes = hrf_byte_attention_bytes(kernel->head.n_keys, kernel->head.depth);
    kernel->base.workspace_bytes = (size_t)(kernel->slot_bytes * backend->n_threads);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
