/* attention.c - ATTENTION, ATTENTION_PART and BYTE_ATTENTION as one launch of a kernel of
 * attention.h. */
#include "engine/backend/cuda/attention.h"

#include "engine/backend/cuda/cuda_private.h"

/* Heads in the channels of tokens [N][T][C]: those of y stand side by side. */
static struct hrf_k_heads tokens_of(const struct hrf_spec *spec, int32_t input)
{
    const bool is_y = input > HRF_ATTENTION_V;
    const struct hrf_attributes *a = &spec->attributes;
    const struct hrf_shape *x = is_y ? &spec->output.shape : &spec->inputs[input].shape;
    return (struct hrf_k_heads){ .image = x->dims[1] * x->dims[2],
                                 .head = is_y ? a->attention.head_size : a->attention.stride[input],
                                 .token = x->dims[2],
                                 .channel = 1,
                                 .shared = 1 };
}

/* [N][T][d] or [N][heads][T][d] as they lie in memory. */
static struct hrf_k_heads last_axes_of(const struct hrf_shape *x, int64_t n_heads)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(x, strides);
    return (struct hrf_k_heads){ .image = strides[0],
                                 .head = x->rank == 4 ? strides[1] : 0,
                                 .token = strides[x->rank - 2],
                                 .channel = strides[x->rank - 1],
                                 .shared = x->rank == 4 ? n_heads / x->dims[1] : 1 };
}

/* The mask's axes are the last of those of the scores; along one of a single element, and one that
 * it lacks, it is the same. */
static void set_mask(const struct hrf_spec *spec, struct hrf_k_attention *f)
{
    const struct hrf_shape *x = &spec->inputs[HRF_ATTENTION_MASK].shape;
    const bool has_heads = spec->op != HRF_OP_ATTENTION || spec->output.shape.rank == 4;
    int64_t own[HRF_MAX_RANK], strides[4] = { 0 }; /* of image, head, query, key */
    hrf_layout_strides(x, own);
    for (int32_t i = 0; i < x->rank; i++) {
        const int32_t axis = 4 - x->rank + i;
        if (x->dims[i] > 1)
            strides[has_heads || axis > 1 ? axis : axis - 1] = own[i];
    }
    f->mask.image = strides[0];
    f->mask.head = strides[1];
    f->mask.token = strides[2];
    f->mask.channel = strides[3];
    const int32_t n_axes = has_heads ? 4 : 3;
    f->mask_images = x->rank == n_axes ? x->dims[0] : 1;
}

static struct hrf_k_attention attention_of(const struct hrf_spec *spec)
{
    const struct hrf_attributes *a = &spec->attributes;
    const struct hrf_shape *q = &spec->inputs[HRF_ATTENTION_Q].shape, *y = &spec->output.shape;
    const struct hrf_shape *v = &spec->inputs[HRF_ATTENTION_V].shape;
    struct hrf_k_attention f = { .scale = a->attention.scale,
                                 .causal = a->attention.causal,
                                 .mask = { .shared = 1 } };
    f.images = q->dims[0];
    f.n_queries = q->dims[q->rank - 2];
    f.n_keys = v->dims[v->rank - 2];
    if (spec->op != HRF_OP_ATTENTION) { /* heads in the channels */
        f.heads = a->attention.heads;
        f.depth = f.channels = a->attention.head_size;
        f.q = tokens_of(spec, HRF_ATTENTION_Q);
        f.k = tokens_of(spec, HRF_ATTENTION_K);
        f.v = tokens_of(spec, HRF_ATTENTION_V);
        f.y = tokens_of(spec, HRF_ATTENTION_MASK);
        f.gives_state = spec->op == HRF_OP_ATTENTION_PART && hrf_attention_gives_state(a, y);
        return f;
    }
    f.heads = q->rank == 4 ? q->dims[1] : 1;
    f.depth = q->dims[q->rank - 1];
    f.channels = v->dims[v->rank - 1];
    f.q = last_axes_of(q, f.heads);
    f.k = last_axes_of(&spec->inputs[HRF_ATTENTION_K].shape, f.heads);
    f.v = last_axes_of(v, f.heads);
    f.y = last_axes_of(y, f.heads);
    if (a->attention.transpose_k) {
        const int64_t token = f.k.channel;
        f.k.channel = f.k.token;
        f.k.token = token;
    }
    return f;
}

/* An operand's first head. */
static struct hrf_k_array head_of(const struct hrf_cuda_kernel *kernel,
                                  const struct hrf_kernel_call *call, int32_t input)
{
    struct hrf_k_array array = hrf_cuda_input(kernel, call, input);
    const struct hrf_attributes *a = &kernel->spec->attributes;
    if (kernel->spec->op != HRF_OP_ATTENTION)
        array.data = (char *)array.data +
                     a->attention.first[input] *
                         (int64_t)hrf_dtype_size(kernel->spec->inputs[input].dtype);
    return array;
}

/* The kernel's tensors; `call` NULL: how they lie, without where. */
static struct hrf_k_attention attention_describe(const struct hrf_cuda_kernel *kernel,
                                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    struct hrf_k_attention f = attention_of(spec);
    struct hrf_k_heads *const views[] = { &f.q, &f.k, &f.v };
    for (int32_t i = HRF_ATTENTION_Q; i <= HRF_ATTENTION_V; i++)
        views[i]->array = call != NULL ? head_of(kernel, call, i)
                                       : hrf_cuda_array(&spec->inputs[i], NULL);
    f.y.array = hrf_cuda_array(&spec->output, call != NULL ? call->output : NULL);
    if (hrf_spec_has(spec, HRF_ATTENTION_MASK) && call != NULL) {
        set_mask(spec, &f);
        f.mask.array = hrf_cuda_input(kernel, call, HRF_ATTENTION_MASK);
    }
    if (hrf_spec_has(spec, HRF_ATTENTION_SEEN) && call != NULL)
        f.seen = hrf_cuda_input(kernel, call, HRF_ATTENTION_SEEN).data;
    return f;
}

void hrf_cuda_plan_attention(struct hrf_cuda_kernel *kernel)
{
    const struct hrf_spec *spec = kernel->spec;
    struct hrf_backend *backend = kernel->backend;
    const struct hrf_k_attention f = attention_describe(kernel, NULL);
    if (hrf_spec_has(spec, HRF_ATTENTION_MASK))
        return;
    for (int32_t i = HRF_ATTENTION_Q; i <= HRF_ATTENTION_V; i++)
        if (spec->attributes.attention.first[i] % 8 != 0 || spec->inputs[i].constant != NULL)
            return;
    hrf_cudnn_attention_plan(&backend->attentions, backend->device, backend->cudnn,
                             backend->properties, &f, &backend->lines, &kernel->attention);
    if (kernel->attention == NULL)
        return;
    kernel->base.implementation = "cudnn attention";
    kernel->base.workspace_bytes = (size_t)kernel->attention->workspace_bytes;
}

enum hrf_status hrf_cuda_run_attention(const struct hrf_cuda_kernel *kernel,
                                       const struct hrf_kernel_call *call, struct hrf_error *err)
{
    const struct hrf_k_attention f = attention_describe(kernel, call);
    const enum hrf_status status = hrf_cudnn_attention_run(
        kernel->attention, kernel->backend->cudnn, &f, call->workspace, err);
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "node '%s'", kernel->spec->name);
}

cudaError_t hrf_cuda_launch_attention(const struct hrf_cuda_kernel *kernel,
                                      const struct hrf_kernel_call *call)
{
    const struct hrf_k_attention f = attention_describe(kernel, call);
    return hrf_k_attend(&f, kernel->backend->device->stream);
}

enum hrf_status hrf_cuda_prepare_byte_attention(struct hrf_cuda_kernel *kernel,
                                                struct hrf_error *err)
{
    const struct hrf_attention_steps steps = hrf_attention_steps_of(kernel->spec);
    return hrf_cuda_upload_table(kernel, 0, &steps, sizeof steps, err);
}

cudaError_t hrf_cuda_launch_byte_attention(const struct hrf_cuda_kernel *kernel,
                                           const struct hrf_kernel_call *call)
{
    const struct hrf_k_attention f = attention_describe(kernel, call);
    return hrf_k_attend_bytes(&f, kernel->tables[0], kernel->backend->device->stream);
}
