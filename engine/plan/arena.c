/* arena.c - the lowest gap for each buffer (arena.h).
 *
 * A segment tree over the steps of the plan holds the bytes that are taken. A buffer that is held
 * from step a to step b covers few nodes of the tree completely; it is added to those nodes and to
 * the nodes above them. So everything that another buffer can overlap is in the few nodes that this
 * buffer covers and in the nodes above those. In each node the bytes are ranges without duplicates:
 * a thousand buffers side by side are one range.
 */
#include "engine/plan/arena.h"

#include "base/array.h"

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
    struct ranges *ever; /* taken during some of them, except what is in `always` of a node above */
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

static void tree_init(struct tree *tree, const struct hrf_buffer *buffers, int32_t n)
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
}

/* The index of the first range that ends at `at` or later (`beyond`: later only), or n. */
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

static void add_range(struct ranges *r, struct range added)
{
    const size_t at = find_range(r, added.begin, false);
    size_t after = at; /* the ranges [at, after) and the added one become one */
    for (; after < r->n && r->items[after].begin <= added.end; after++) {
        const struct range *old = &r->items[after];
        added.begin = old->begin < added.begin ? old->begin : added.begin;
        added.end = old->end > added.end ? old->end : added.end;
    }
    HRF_RESERVE(r->items, r->capacity, r->n + 1);
    memmove(&r->items[at + 1], &r->items[after], (r->n - after) * sizeof r->items[0]);
    r->n = r->n - (after - at) + 1;
    r->items[at] = added;
}

/* Adds the bytes to a node and to all nodes above it. */
static void add_upwards(struct tree *tree, int32_t node, struct range bytes)
{
    for (; node > 0; node /= 2)
        add_range(&tree->ever[node], bytes);
}

static void take(struct tree *tree, const struct hrf_buffer *b)
{
    const struct range bytes = { b->offset, b->offset + b->n_bytes };
    int32_t low = tree->n_leaves + b->first - tree->first_step;
    int32_t high = tree->n_leaves + b->last - tree->first_step;
    if (b->n_bytes == 0)
        return;
    /* Every node above a covered one is above one of the two ends, too. */
    add_upwards(tree, low, bytes);
    if (high != low)
        add_upwards(tree, high, bytes);
    for (high++; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1) {
            add_range(&tree->ever[low], bytes);
            add_range(&tree->always[low++], bytes);
        }
        if (high % 2 == 1) {
            add_range(&tree->ever[--high], bytes);
            add_range(&tree->always[high], bytes);
        }
    }
}

/* The lowest offset from `offset` on at which the buffer overlaps none of these ranges. */
static int64_t pass_over(const struct ranges *r, int64_t offset, int64_t n_bytes)
{
    for (size_t i = find_range(r, offset, true); i < r->n && r->items[i].begin < offset + n_bytes;
         i++)
        offset = r->items[i].end;
    return offset;
}

/* One pass over every range that the buffer may overlap. */
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

int64_t hrf_buffers_place(struct hrf_buffer *buffers, int32_t n)
{
    struct tree tree;
    int64_t arena = 0;
    HRF_AUTO_FREE struct hrf_buffer **order = hrf_alloc_array((size_t)n, sizeof order[0]);
    tree_init(&tree, buffers, n);
    for (int32_t i = 0; i < n; i++)
        order[i] = &buffers[i];
    qsort(order, (size_t)n, sizeof order[0], compare_sizes);
    for (int32_t i = 0; i < n; i++) {
        order[i]->offset = lowest_gap(&tree, order[i]);
        const int64_t end = order[i]->offset + order[i]->n_bytes;
        arena = end > arena ? end : arena;
        take(&tree, order[i]);
    }
    tree_release(&tree);
    return arena;
}
