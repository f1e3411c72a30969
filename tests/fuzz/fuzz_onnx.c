/* fuzz_onnx.c - model files of any bytes are read or refused, from a file as from memory; what is
 * read can be inferred, hashed and compacted without harm. */
#define _GNU_SOURCE /* memfd_create() */
#include "engine/onnx/onnx.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct hrf_graph *graph)
{
    static const struct hrf_shape image = { .rank = 4, .dims = { 1, 2, 5, 7 } };
    struct hrf_error err;
    char hash[65];
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (hrf_graph_set_input_shape(graph, i, &image, &err) != HRF_OK)
            break;
    if (hrf_graph_infer_shapes(graph, &err) == HRF_OK)
        for (int32_t i = 0; i < graph->n_nodes; i++)
            (void)hrf_node_operations(graph, &graph->nodes[i]);
    if (hrf_graph_hash(graph, hash, &err) != HRF_OK || hrf_graph_compact(graph, &err) != HRF_OK ||
        hrf_graph_check(graph, &err) != HRF_OK)
        __builtin_trap(); /* what was read must stay sound */
}

/* What memory gives a graph for gives the same one as a file. */
static void compare(const uint8_t *data, size_t size, const struct hrf_graph *graph)
{
    struct hrf_graph *read = NULL;
    struct hrf_error err;
    char path[40], want[65], got[65];
    const int fd = memfd_create("fuzz.onnx", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        __builtin_trap();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const enum hrf_status status = hrf_onnx_read(path, &read, &err);
    if (graph != NULL && (status != HRF_OK || hrf_graph_hash(graph, want, &err) != HRF_OK ||
                          hrf_graph_hash(read, got, &err) != HRF_OK || strcmp(want, got) != 0))
        __builtin_trap();
    hrf_graph_destroy(read);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hrf_graph *graph = NULL;
    struct hrf_error err;
    const enum hrf_status status = hrf_onnx_parse(data, size, "fuzz.onnx", &graph, &err);
    compare(data, size, graph);
    if (status == HRF_OK)
        use(graph);
    hrf_graph_destroy(graph);
    return 0;
}
