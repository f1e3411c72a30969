/* slide_head.c - sessions of a slide head, one for each size of a bag. */
#include "engine/run/slide_head.h"

#include "base/host.h"
#include "base/min_max.h"
#include "engine/onnx/onnx.h"
#include "engine/run/row_rules.h"
#include "engine/run/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct hrf_slide_head {
    char *name;
    struct hrf_graph *graph;
    struct hrf_session *session; /* for the last bag's size */
    int64_t n, bag_width;        /* that size; 0: none */
    struct hrf_kept_memory memory;
    struct hrf_row_blocks *blocks;
    int64_t blocks_width;    /* 0: it is not known whether blocks can be computed */
    char why_no_blocks[200]; /* if `blocks` is NULL */
    float *scores;
    int64_t width; /* that the model wants; 0: it leaves it open */
};

void hrf_slide_head_close(struct hrf_slide_head *head)
{
    if (head == NULL)
        return;
    hrf_session_destroy(head->session);
    hrf_kept_memory_release(&head->memory);
    hrf_row_blocks_destroy(head->blocks);
    hrf_graph_destroy(head->graph);
    hrf_free(head->scores);
    hrf_free(head->name);
    hrf_free(head);
}

int64_t hrf_slide_head_width(const struct hrf_slide_head *head)
{
    return head->width;
}

enum hrf_status hrf_slide_head_create(struct hrf_graph **network, const char *name,
                                      struct hrf_slide_head **out, struct hrf_error *err)
{
    const struct hrf_graph *g = *network;
    const struct hrf_shape *shape = g->n_inputs == 1 ? &g->values[g->inputs[0]].shape : NULL;
    if (shape == NULL || (shape->rank != 2 && shape->rank != 3) ||
        (shape->rank == 3 && shape->dims[0] > 1) || shape->dims[shape->rank - 2] > 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is no slide head: its input must be one bag, [N][D] with N "
                             "open",
                             name);
    struct hrf_slide_head *head = hrf_calloc(1, sizeof *head);
    head->name = hrf_strdup(name);
    head->width = shape->dims[shape->rank - 1] > 0 ? shape->dims[shape->rank - 1] : 0;
    HRF_MOVE(head->graph, *network);
    *out = head;
    return HRF_OK;
}

enum hrf_status hrf_slide_head_open(const char *path, struct hrf_slide_head **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(hrf_onnx_read(path, &network, err));
    return hrf_slide_head_create(&network, path, out, err);
}

static enum hrf_status make_session(struct hrf_slide_head *head, int64_t n, int64_t width,
                                    int64_t n_threads, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    const int64_t left = hrf_min(hrf_process_memory_left(), INT64_MAX / 2);
    const int64_t kept = head->memory.arena_bytes + head->memory.workspace_bytes;
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .memory_limit_bytes = left + kept,
                                               .n_threads = (int32_t)n_threads,
                                               .is_lent = true };
    hrf_session_destroy(head->session);
    head->session = NULL;
    head->n = 0;
    HRF_TRY(hrf_graph_copy(head->graph, &graph, err));
    HRF_TRY(hrf_row_input_set(graph, n, width, err));
    const enum hrf_status status = hrf_session_create(graph, &config, &head->session, err);
    if (status == HRF_E_NOMEM)
        return hrf_error_set(
            err, status,
            "a slide head on %lld embeddings of %lld numbers takes more than the "
            "%.2f GiB of memory that are left%s%s: run it where there is more, or leave the slide "
            "out",
            (long long)n, (long long)width, (double)config.memory_limit_bytes / 0x1p30,
            n > HRF_BAG_WHOLE ? ", and cannot be computed in blocks, for " : "",
            n > HRF_BAG_WHOLE ? head->why_no_blocks : "");
    HRF_TRY(status);
    HRF_TRY(hrf_session_lend_kept(head->session, &head->memory, err));
    head->n = n;
    head->bag_width = width;
    return HRF_OK;
}

enum hrf_status hrf_slide_head_reserve(struct hrf_slide_head *head, int64_t n, int64_t width,
                                       int64_t n_threads, int64_t *n_bytes, struct hrf_error *err)
{
    HRF_TRY(make_session(head, hrf_min(n, HRF_BAG_WHOLE), width, n_threads, err));
    const struct hrf_session_memory memory = hrf_session_memory(head->session);
    *n_bytes = hrf_session_memory_total(&memory);
    return HRF_OK;
}

/* Finds out once for each width whether bags can be computed in blocks. */
static enum hrf_status make_blocks(struct hrf_slide_head *head, int64_t width,
                                   struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    if (head->blocks_width == width)
        return HRF_OK;
    hrf_row_blocks_destroy(head->blocks);
    head->blocks = NULL;
    const enum hrf_status status = hrf_row_blocks_create(head->graph, width, HRF_BAG_BLOCK,
                                                         &head->blocks, &why);
    if (status != HRF_OK && status != HRF_E_UNSUPPORTED)
        return hrf_error_pass(err, &why);
    snprintf(head->why_no_blocks, sizeof head->why_no_blocks, "%.199s", why.text);
    head->blocks_width = width;
    return HRF_OK;
}

/* Output i of the bag that was computed last, and how many numbers it has. */
static const float *output_of(const struct hrf_slide_head *head, bool in_blocks, int32_t i,
                              int64_t *count)
{
    if (in_blocks)
        return hrf_row_blocks_output(head->blocks, i, count);
    *count = hrf_shape_count(hrf_session_output_shape(head->session, i));
    return hrf_session_output(head->session, i);
}

static int32_t find_output(const struct hrf_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->values[g->outputs[i]].name, name) == 0)
            return i;
    return -1;
}

static enum hrf_status read_scores(struct hrf_slide_head *head, const float *x, int64_t k,
                                   bool are_logits, struct hrf_slide_head_result *out,
                                   struct hrf_error *err)
{
    double sum = 0, most = -INFINITY;
    hrf_free(head->scores);
    head->scores = hrf_alloc_array((size_t)k + 1, sizeof *head->scores);
    for (int64_t i = 0; i < k; i++)
        most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < k; i++)
        sum += exp((double)x[i] - most);
    for (int64_t i = 0; i < k; i++) {
        head->scores[i] = are_logits ? (float)(exp((double)x[i] - most) / sum) : x[i];
        if (!(head->scores[i] >= 0.0F && head->scores[i] <= 1.0F))
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s': score %lld is %g, not from 0 to 1: export it after the "
                                 "softmax, or name the output 'logits'",
                                 head->name, (long long)i, (double)x[i]);
    }
    out->scores = head->scores;
    out->n_classes = k;
    return HRF_OK;
}

enum hrf_status hrf_slide_head_run(struct hrf_slide_head *head, const struct hrf_bag_rows *bag,
                                   int64_t n_threads, struct hrf_slide_head_result *out,
                                   struct hrf_error *err)
{
    const struct hrf_graph *g = head->graph;
    const int64_t n = bag->n, width = bag->width;
    int64_t count = 0;
    *out = (struct hrf_slide_head_result){ .scores = NULL };
    if (head->width > 0 && width != head->width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes embeddings of %lld numbers, and these have %lld",
                             head->name, (long long)head->width, (long long)width);
    if (n > HRF_BAG_WHOLE)
        HRF_TRY(make_blocks(head, width, err));
    const bool in_blocks = n > HRF_BAG_WHOLE && head->blocks != NULL;
    if (in_blocks) {
        HRF_TRY(hrf_row_blocks_run(head->blocks, bag, n_threads, err));
    } else {
        if (head->n != n || head->bag_width != width)
            HRF_TRY(make_session(head, n, width, n_threads, err));
        HRF_TRY(bag->read(bag->context, 0, n, hrf_session_input(head->session, 0), err));
        HRF_TRY(hrf_session_run(head->session, err));
    }
    int32_t scores = find_output(g, "scores"), attention = find_output(g, "attention");
    const int32_t logits = scores < 0 ? find_output(g, "logits") : -1;
    scores = scores >= 0 ? scores : logits >= 0 ? logits : 0;
    for (int32_t i = 0; i < g->n_outputs && attention < 0; i++) {
        output_of(head, in_blocks, i, &count);
        if (i != scores && count % n == 0)
            attention = i;
    }
    const float *x = output_of(head, in_blocks, scores, &count);
    HRF_TRY(read_scores(head, x, count, logits >= 0, out, err));
    if (attention < 0 || attention == scores)
        return HRF_OK;
    x = output_of(head, in_blocks, attention, &count);
    if (count % n != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': %lld numbers of attention do not fit %lld patches", head->name,
                             (long long)count, (long long)n);
    out->attention = x;
    out->n_branches = count / n;
    return HRF_OK;
}
