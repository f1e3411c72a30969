/* place.c - the lowest gap for each buffer (place.h).
 *
 * A segment tree over the steps of the plan holds the bytes that are taken. A buffer that is held
 * from step a to step b covers few nodes of the tree completely; it is added to those nodes and to
 * the nodes above them. So all that can be in the way of another buffer stands in the few nodes
 * that this buffer covers and in the nodes above those. In each node the bytes are ranges without
 * duplicates: a thousand buffers side by side are one range.
 */
#include "engine/plan/place.h"

#include <stdlib.h>
#include <string.h>

struct range {
    int64_t begin, end; /* bytes of the arena */
};

/* Ordered ranges that neither overlap nor touch. */
struct ranges {
    struct range *items;
    size_t n, capacity;
};

struct tree {
    int32_t
        n_leaves; /* a power of two: leaf i, which is node n_leaves + i, is step first_step + i */
    int32_t first_step;
    struct ranges *always; /* [2 * n_leaves]: taken during all steps of the node */
    struct ranges *ever;   /* taken during some of them, but for what a node above always has */
};

static void tree_release(struct tree *tree)
{
    for (int32_t i = 0; i < 2 * tree->n_leaves; i++) {
        if (tree->always != NULL)
            hrf_free(tree->always[i].items);
        if (tree->ever != NULL)
            hrf_free(tree->ever[i].items);
    }
    hrf_free(tree->always);
    hrf_free(tree->ever);
}

static enum hrf_status tree_init(struct tree *tree, const struct hrf_buffer *buffers, int32_t n,
                                 struct hrf_error *err)
{
    int32_t first = n > 0 ? buffers[0].first : 0, last = first;
    for (int32_t i = 0; i < n; i++) {
        first = buffers[i].first < first ? buffers[i].first : first;
        last = buffers[i].last > last ? buffers[i].last : last;
    }
    *tree = (struct tree){ .n_leaves = 1, .first_step = first };
    while (tree->n_leaves <= last - first)
        tree->n_leaves *= 2;
    tree->always = hrf_calloc(2 * (size_t)tree->n_leaves, sizeof tree->always[0]);
    tree->ever = hrf_calloc(2 * (size_t)tree->n_leaves, sizeof tree->ever[0]);
    if (tree->always != NULL && tree->ever != NULL)
        return HRF_OK;
    tree_release(tree);
    return hrf_error_set(err, HRF_E_NOMEM, "no memory to place %d buffers", n);
}

/* Index of the first range that ends at `at` or later (beyond: later only), or n. */
static size_t find_range(const struct ranges *r, int64_t at, bool beyond)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (r->items[middle].end > at || (!beyond && r->items[middle].end == at))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static enum hrf_status add_range(struct ranges *r, struct range added, struct hrf_error *err)
{
    const size_t at = find_range(r, added.begin, false);
    size_t after = at; /* the ranges [at, after) and the added one become one */
    for (; after < r->n && r->items[after].begin <= added.end; after++) {
        const struct range *old = &r->items[after];
        added.begin = old->begin < added.begin ? old->begin : added.begin;
        added.end = old->end > added.end ? old->end : added.end;
    }
    HRF_TRY(hrf_array_reserve((void **)&r->items, &r->capacity, r->n + 1, sizeof r->items[0], err));
    memmove(&r->items[at + 1], &r->items[after], (r->n - after) * sizeof r->items[0]);
    r->n = r->n - (after - at) + 1;
    r->items[at] = added;
    return HRF_OK;
}

/* A node and all above it. */
static enum hrf_status add_upwards(struct tree *tree, int32_t node, struct range bytes,
                                   struct hrf_error *err)
{
    for (; node > 0; node /= 2)
        HRF_TRY(add_range(&tree->ever[node], bytes, err));
    return HRF_OK;
}

static enum hrf_status take(struct tree *tree, const struct hrf_buffer *b, struct hrf_error *err)
{
    const struct range bytes = { b->offset, b->offset + b->n_bytes };
    int32_t low = tree->n_leaves + b->first - tree->first_step;
    int32_t high = tree->n_leaves + b->last - tree->first_step;
    if (b->n_bytes == 0)
        return HRF_OK;
    /* Every node above a covered one is above one of the two ends, too. */
    HRF_TRY(add_upwards(tree, low, bytes, err));
    if (high != low)
        HRF_TRY(add_upwards(tree, high, bytes, err));
    for (high++; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1) {
            HRF_TRY(add_range(&tree->ever[low], bytes, err));
            HRF_TRY(add_range(&tree->always[low++], bytes, err));
        }
        if (high % 2 == 1) {
            HRF_TRY(add_range(&tree->ever[--high], bytes, err));
            HRF_TRY(add_range(&tree->always[high], bytes, err));
        }
    }
    return HRF_OK;
}

/* The lowest offset from `offset` on that leaves the bytes of these ranges alone. */
static int64_t pass_over(const struct ranges *r, int64_t offset, int64_t n_bytes)
{
    for (size_t i = find_range(r, offset, true); i < r->n && r->items[i].begin < offset + n_bytes;
         i++)
        offset = r->items[i].end;
    return offset;
}

/* The same of all that is in the way of the buffer, once. */
static int64_t pass_over_all(const struct tree *tree, const struct hrf_buffer *b, int64_t offset)
{
    int32_t low = tree->n_leaves + b->first - tree->first_step;
    int32_t high = tree->n_leaves + b->last - tree->first_step;
    for (int32_t node = low; node > 0; node /= 2)
        offset = pass_over(&tree->always[node], offset, b->n_bytes);
    for (int32_t node = high; node > 0; node /= 2)
        offset = pass_over(&tree->always[node], offset, b->n_bytes);
    for (high++; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1)
            offset = pass_over(&tree->ever[low++], offset, b->n_bytes);
        if (high % 2 == 1)
            offset = pass_over(&tree->ever[--high], offset, b->n_bytes);
    }
    return offset;
}

static int64_t lowest_gap(const struct tree *tree, const struct hrf_buffer *b)
{
    int64_t offset = 0, before = -1;
    while (offset != before && b->n_bytes > 0) {
        before = offset;
        offset = pass_over_all(tree, b, offset);
    }
    return offset;
}

static int compare_sizes(const void *a, const void *b)
{
    const struct hrf_buffer *u = *(const struct hrf_buffer *const *)a;
    const struct hrf_buffer *v = *(const struct hrf_buffer *const *)b;
    if (u->n_bytes != v->n_bytes)
        return u->n_bytes > v->n_bytes ? -1 : 1;
    return u < v ? -1 : u > v; /* same array: a stable order */
}

enum hrf_status hrf_buffers_place(struct hrf_buffer *buffers, int32_t n, int64_t *arena_bytes,
                                  struct hrf_error *err)
{
    struct tree tree;
    enum hrf_status status = HRF_OK;
    int64_t arena = 0;
    HRF_AUTO_FREE struct hrf_buffer **order = hrf_alloc_array((size_t)n, sizeof order[0]);
    HRF_CHECK_MEMORY(order != NULL, err, "no memory to place %d buffers", n);
    HRF_TRY(tree_init(&tree, buffers, n, err));
    for (int32_t i = 0; i < n; i++)
        order[i] = &buffers[i];
    qsort(order, (size_t)n, sizeof order[0], compare_sizes);
    for (int32_t i = 0; i < n && status == HRF_OK; i++) {
        order[i]->offset = lowest_gap(&tree, order[i]);
        const int64_t end = order[i]->offset + order[i]->n_bytes;
        arena = end > arena ? end : arena;
        status = take(&tree, order[i], err);
    }
    tree_release(&tree);
    if (status == HRF_OK)
        *arena_bytes = arena;
    return status;
}
