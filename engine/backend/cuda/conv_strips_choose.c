/* conv_strips_choose.c - how large strips are and what is computed of one: needs no GPU. */
#include "engine/backend/cuda/conv_strips.h"
#include "engine/backend/cuda/cudnn_choose.h"

/* Reading and writing 256 MiB takes an H200 100 us, against which starting kernels counts little;
 * 8192 x 8192 pixels of 64 channels are 64 times that. */
static const int64_t MOST_STRIP_BYTES = (int64_t)256 << 20;
enum { STRIP_ROWS = 2, SHARE_OF_MEMORY = 256 };

/* A power of two, so that the same GPU with a little more or less of it has the same plans. */
int64_t hrf_cuda_strip_bytes(int64_t memory_bytes)
{
    int64_t n = MOST_STRIP_BYTES;
    while (n > 1 && n > memory_bytes / SHARE_OF_MEMORY)
        n /= 2;
    return n;
}

bool hrf_cuda_strips_help(const struct hrf_cudnn_conv *conv, int64_t strip_bytes)
{
    return conv->has_prologue ||
           conv->x[0] * conv->x[1] * conv->x[2] * conv->x[3] * (int64_t)hrf_dtype_size(conv->type) >
               strip_bytes;
}

enum hrf_status hrf_cuda_strips_graph(const struct hrf_graph *graph, const struct hrf_node *node,
                                      int64_t strip_bytes, struct hrf_strips *at,
                                      struct hrf_graph **out, struct hrf_error *err)
{
    const enum hrf_dtype type = graph->values[node->inputs[HRF_CONV_X]].dtype;
    hrf_strips_choose(graph, node, strip_bytes / (int64_t)hrf_dtype_size(type), STRIP_ROWS, at);
    return hrf_strips_graph(at, graph, node, type, out, err);
}

enum hrf_status hrf_cuda_strips_describe(const struct hrf_graph *graph, const struct hrf_node *node,
                                         int64_t strip_bytes, bool allow_tf32,
                                         struct hrf_cudnn_conv *out, bool *is_one,
                                         struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) strip = NULL;
    struct hrf_strips at;
    HRF_TRY(hrf_cuda_strips_graph(graph, node, strip_bytes, &at, &strip, err));
    *is_one = hrf_cudnn_conv_describe(strip, &strip->nodes[0], allow_tf32, out);
    return HRF_OK;
}
