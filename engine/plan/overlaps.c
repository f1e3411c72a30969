/* overlaps.c - a sweep over the bytes of the arena (overlaps.h).
 *
 * From offset 0 upwards, buffers begin and end. Each buffer that begins asks how many of those that
 * have begun and not ended are held at one of its steps. Of these, it subtracts those whose first
 * step comes after its last step and those whose last step comes before its first step, so two
 * counts by step suffice.
 */
#include "engine/plan/overlaps.h"

#include <stdlib.h>

/* A Fenwick tree of counts by step; it gives the sum over the first steps. */
struct counts {
    int32_t *sums;
    int32_t n;
};

static void count(struct counts *c, int32_t at, int32_t by)
{
    for (int32_t i = at + 1; i <= c->n; i += i & -i)
        c->sums[i] += by;
}

/* The sum over all steps before `end`. */
static int32_t sum_before(const struct counts *c, int32_t end)
{
    int32_t sum = 0;
    for (int32_t i = end; i > 0; i -= i & -i)
        sum += c->sums[i];
    return sum;
}

/* The order of events at one offset: a buffer that ends there does not overlap one that begins
 * there. */
enum event_kind { END, EMPTY, BEGIN };

struct event {
    int64_t offset;
    enum event_kind kind;
    const struct hrf_buffer *buffer;
};

static int compare_events(const void *a, const void *b)
{
    const struct event *u = a, *v = b;
    if (u->offset != v->offset)
        return u->offset < v->offset ? -1 : 1;
    return (int)u->kind - (int)v->kind;
}

static int32_t list_events(const struct hrf_plan *plan, struct event *events)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const struct hrf_buffer *b = &plan->buffers[i];
        if (b->n_bytes > 0)
            events[n++] = (struct event){ b->offset + b->n_bytes, END, b };
        events[n++] = (struct event){ b->offset, b->n_bytes > 0 ? BEGIN : EMPTY, b };
    }
    qsort(events, (size_t)n, sizeof events[0], compare_events);
    return n;
}

/* Names the two buffers that the sweep has found to overlap. */
static enum hrf_status tell(const struct hrf_plan *plan, const struct hrf_buffer *a,
                            struct hrf_error *err)
{
    int32_t k = 0;
    for (; k < plan->n_buffers; k++) {
        const struct hrf_buffer *b = &plan->buffers[k];
        if (a != b && hrf_buffers_are_held_together(a, b) && a->offset < b->offset + b->n_bytes &&
            b->offset < a->offset + a->n_bytes)
            break;
    }
    return hrf_error_set(err, HRF_E_BUG, "plan: buffers %d and %d overlap", k,
                         (int)(a - plan->buffers));
}

/* `first_step` is the first step of any buffer: steps count from there. */
static enum hrf_status sweep(const struct hrf_plan *plan, int32_t first_step,
                             const struct event *events, int32_t n, struct counts *firsts,
                             struct counts *lasts, struct hrf_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_buffer *b = events[i].buffer;
        const int32_t first = b->first - first_step, last = b->last - first_step;
        if (events[i].kind != END && sum_before(firsts, last + 1) - sum_before(lasts, first) > 0)
            return tell(plan, b, err);
        if (events[i].kind != EMPTY) {
            const int32_t by = events[i].kind == BEGIN ? 1 : -1;
            count(firsts, first, by);
            count(lasts, last, by);
        }
    }
    return HRF_OK;
}

enum hrf_status hrf_plan_check_overlaps(const struct hrf_plan *plan, struct hrf_error *err)
{
    int32_t first = 0, last = 0;
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const struct hrf_buffer *b = &plan->buffers[i];
        if (b->offset < 0 || b->offset % HRF_PLAN_ALIGNMENT != 0 ||
            b->offset + b->n_bytes > plan->arena_bytes)
            return hrf_error_set(err, HRF_E_BUG, "plan: buffer %d lies outside the arena", i);
        if (b->first > b->last)
            return hrf_error_set(err, HRF_E_BUG, "plan: buffer %d ends before it begins", i);
        first = b->first < first ? b->first : first;
        last = b->last > last ? b->last : last;
    }
    const int32_t n_steps = last - first + 1;
    HRF_AUTO_FREE struct event *events = hrf_alloc_array(2 * (size_t)plan->n_buffers + 1,
                                                         sizeof events[0]);
    HRF_AUTO_FREE int32_t *sums = hrf_calloc(2 * ((size_t)n_steps + 1), sizeof sums[0]);
    struct counts firsts = { sums, n_steps }, lasts = { sums + n_steps + 1, n_steps };
    return sweep(plan, first, events, list_events(plan, events), &firsts, &lasts, err);
}
