/* performer.c - PERFORMER's parts as launches: a piece of the tokens at a time, through the
 * workspace. */
#include "engine/backend/cuda/performer.h"
#include "engine/backend/cuda/cuda_private.h"

#include <math.h>

/* Features of a piece, in double, at most; one token at least. */
static const int64_t WORKSPACE_BYTES = (int64_t)64 << 20;

static int32_t projection_input(enum hrf_op op)
{
    return op == HRF_OP_PERFORMER_MAX ? 1 : HRF_STATE_PROJECTION;
}

static struct hrf_k_performer attention_of(const struct hrf_spec *spec)
{
    const struct hrf_shape *x = &spec->inputs[0].shape;
    const struct hrf_shape *p = &spec->inputs[projection_input(spec->op)].shape;
    return (struct hrf_k_performer){
        .m = p->dims[0],
        .d = p->dims[1],
        .heads = spec->attributes.performer.heads,
        .tokens = x->dims[2] * x->dims[3],
        .channels = x->dims[1],
        .images = x->dims[0],
        .exponential = spec->attributes.performer.exponential,
        .scale = 1 / sqrt(sqrt((double)p->dims[1])),
        .half_inverse_root = 1 / (2 * sqrt((double)p->dims[1])),
        .epsilon = (double)spec->attributes.performer.epsilon,
        .magic = 1.5 * 0x1p52 * HRF_PERFORMER_GRID,
    };
}

static int64_t bytes_per_token(const struct hrf_k_performer *a)
{
    return a->images * a->heads * (a->m + 1) * (int64_t)sizeof(double);
}

static int64_t piece_of(const struct hrf_k_performer *a)
{
    const int64_t n = WORKSPACE_BYTES / bytes_per_token(a);
    return n < 1 ? 1 : n < a->tokens ? n : a->tokens;
}

bool hrf_cuda_is_performer(enum hrf_op op)
{
    return op == HRF_OP_PERFORMER_MAX || op == HRF_OP_PERFORMER_STATE ||
           op == HRF_OP_PERFORMER_APPLY;
}

size_t hrf_cuda_performer_workspace(const struct hrf_spec *spec)
{
    const struct hrf_k_performer a = attention_of(spec);
    return (size_t)(piece_of(&a) * bytes_per_token(&a));
}

/* One piece: phi stands first in the workspace, the tokens' maxima behind it. */
static cudaError_t launch_piece(const struct hrf_cuda_kernel *kernel,
                                const struct hrf_kernel_call *call, const struct hrf_k_performer *a,
                                int64_t first, int64_t n)
{
    const enum hrf_op op = kernel->spec->op;
    const float *x = hrf_cuda_input(kernel, call, 0).data;
    cudaStream_t stream = kernel->backend->device->stream;
    double *phi = call->workspace;
    double *most = phi + a->images * a->heads * n * a->m;
    const bool is_own = op != HRF_OP_PERFORMER_STATE && a->exponential != 0;
    const float *high = op == HRF_OP_PERFORMER_STATE
                            ? hrf_cuda_input(kernel, call, HRF_STATE_MAX).data
                            : NULL;
    cudaError_t status = cudaSuccess;
    if (is_own || op == HRF_OP_PERFORMER_MAX)
        status = hrf_k_token_max(a, x, first, n, most, stream);
    if (status == cudaSuccess && op == HRF_OP_PERFORMER_MAX)
        return hrf_k_head_max(a, most, n, first == 0, call->output, stream);
    if (status == cudaSuccess)
        status = hrf_k_features(a, x, first, n, is_own ? most : NULL, high, phi, stream);
    if (status != cudaSuccess)
        return status;
    if (op == HRF_OP_PERFORMER_STATE)
        return hrf_k_sum_state(a, phi, hrf_cuda_input(kernel, call, HRF_STATE_V).data, first, n,
                               first == 0, call->output, stream);
    return hrf_k_apply_state(a, phi, hrf_cuda_input(kernel, call, 1).data, first, n, call->output,
                             stream);
}

cudaError_t hrf_cuda_launch_performer(const struct hrf_cuda_kernel *kernel,
                                      const struct hrf_kernel_call *call)
{
    struct hrf_k_performer a = attention_of(kernel->spec);
    const int64_t piece = piece_of(&a);
    a.projection = hrf_cuda_input(kernel, call, projection_input(kernel->spec->op)).data;
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < a.tokens && status == cudaSuccess; first += piece)
        status = launch_piece(kernel, call, &a, first,
                              a.tokens - first < piece ? a.tokens - first : piece);
    return status;
}
