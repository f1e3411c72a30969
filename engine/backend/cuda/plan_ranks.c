#include "engine/backend/cuda/plan_ranks.h"

#include "base/json.h"
#include "engine/backend/backend.h"

#include <stdio.h>
#include <string.h>

enum { KIND_ROOM = HRF_PLAN_CACHE_DEVICE_ROOM, MOST_PLAN_BYTES = 1 << 30 };

/* What a rank says of itself. */
struct introduction {
    char kind[KIND_ROOM]; /* of its GPU, with driver and cuDNN */
    int32_t n_convs;
};

/* ---- messages ---- */

static enum hrf_status send_text(const struct hrf_backend_ranks *ranks, int32_t to,
                                 const char *text, struct hrf_error *err)
{
    const uint64_t n_bytes = strlen(text) + 1;
    HRF_TRY(ranks->send(ranks->context, to, &n_bytes, sizeof n_bytes, err));
    return ranks->send(ranks->context, to, text, n_bytes, err);
}

static enum hrf_status receive_text(const struct hrf_backend_ranks *ranks, int32_t from, char **out,
                                    struct hrf_error *err)
{
    uint64_t n_bytes = 0;
    HRF_TRY(ranks->receive(ranks->context, from, &n_bytes, sizeof n_bytes, err));
    if (n_bytes < 1 || n_bytes > MOST_PLAN_BYTES)
        return hrf_error_set(err, HRF_E_BUG, "plans of %llu bytes", (unsigned long long)n_bytes);
    HRF_AUTO_FREE char *text = hrf_alloc(n_bytes);
    HRF_TRY(ranks->receive(ranks->context, from, text, n_bytes, err));
    text[n_bytes - 1] = '\0';
    HRF_MOVE(*out, text);
    return HRF_OK;
}

/* Every rank gets all, in rank order: through rank 0. */
static enum hrf_status introduce_all(const struct hrf_backend_ranks *ranks,
                                     const struct introduction *own, struct introduction *all,
                                     struct hrf_error *err)
{
    const size_t n_bytes = (size_t)ranks->n_ranks * sizeof *all;
    if (ranks->rank != 0) {
        HRF_TRY(ranks->send(ranks->context, 0, own, sizeof *own, err));
        return ranks->receive(ranks->context, 0, all, n_bytes, err);
    }
    all[0] = *own;
    for (int32_t r = 1; r < ranks->n_ranks; r++)
        HRF_TRY(ranks->receive(ranks->context, r, &all[r], sizeof *all, err));
    for (int32_t r = 1; r < ranks->n_ranks; r++)
        HRF_TRY(ranks->send(ranks->context, r, all, n_bytes, err));
    return HRF_OK;
}

/* The first rank of its kind. */
static int32_t tuner_of(const struct introduction *all, int32_t rank)
{
    int32_t tuner = 0;
    while (strcmp(all[tuner].kind, all[rank].kind) != 0)
        tuner++;
    return tuner;
}

/* ---- one that tunes ---- */

static enum hrf_status send_plans(struct hrf_plan_cache *cache,
                                  const struct hrf_backend_ranks *ranks, int32_t to,
                                  const struct hrf_cudnn_conv *convs, int32_t n,
                                  struct hrf_error *err)
{
    HRF_AUTO_JSON list = json_array();
    for (int32_t i = 0; i < n; i++) {
        json_t *entry = NULL;
        HRF_TRY(hrf_plan_cache_export(cache, &convs[i], &entry, err));
        hrf_json_add(list, entry);
    }
    HRF_AUTO_FREE char *text = hrf_json_text(list);
    return send_text(ranks, to, text, err);
}

/* Convolutions of its own and of those that it tunes for, in rank order. */
static enum hrf_status tune(struct hrf_plan_cache *cache, const struct hrf_backend_ranks *ranks,
                            const struct introduction *all, const struct hrf_cudnn_conv *own,
                            int32_t n_threads, struct hrf_error *err)
{
    int32_t n = 0, first = all[ranks->rank].n_convs;
    for (int32_t r = 0; r < ranks->n_ranks; r++)
        n += tuner_of(all, r) == ranks->rank ? all[r].n_convs : 0;
    HRF_AUTO_FREE struct hrf_cudnn_conv *convs = hrf_alloc_array((size_t)n + 1, sizeof *convs);
    memcpy(convs, own, (size_t)first * sizeof *convs);
    for (int32_t r = ranks->rank + 1, at = first; r < ranks->n_ranks; r++) {
        if (tuner_of(all, r) != ranks->rank || all[r].n_convs == 0)
            continue;
        HRF_TRY(ranks->receive(ranks->context, r, &convs[at],
                               (size_t)all[r].n_convs * sizeof *convs, err));
        at += all[r].n_convs;
    }
    hrf_plan_cache_show_progress(cache, ranks->progress, ranks->context);
    const enum hrf_status status = hrf_plan_cache_prepare(cache, convs, n, n_threads, err);
    hrf_plan_cache_show_progress(cache, NULL, NULL);
    HRF_TRY(status);
    for (int32_t r = ranks->rank + 1; r < ranks->n_ranks; r++) {
        if (tuner_of(all, r) != ranks->rank || all[r].n_convs == 0)
            continue;
        HRF_TRY(send_plans(cache, ranks, r, &convs[first], all[r].n_convs, err));
        first += all[r].n_convs;
    }
    return HRF_OK;
}

/* ---- one that takes ---- */

static enum hrf_status plan_ranks_take(struct hrf_plan_cache *cache,
                                       const struct hrf_backend_ranks *ranks, int32_t from,
                                       const struct hrf_cudnn_conv *convs, int32_t n,
                                       struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO_JSON list = NULL;
    char where[64];
    if (n == 0)
        return HRF_OK;
    snprintf(where, sizeof where, "the plans of rank %d", (int)from);
    HRF_TRY(ranks->send(ranks->context, from, convs, (size_t)n * sizeof *convs, err));
    HRF_TRY(receive_text(ranks, from, &text, err));
    HRF_TRY(hrf_json_parse(text, strlen(text), where, &list, err));
    if (json_array_size(list) != (size_t)n)
        return hrf_error_set(err, HRF_E_BUG, "%s are %zu, not %d", where, json_array_size(list),
                             (int)n);
    for (int32_t i = 0; i < n; i++)
        HRF_TRY(
            hrf_plan_cache_import(cache, &convs[i], json_array_get(list, (size_t)i), where, err));
    return HRF_OK;
}

/* ---- all ---- */

static int32_t n_tuned_by(const struct introduction *all, int32_t n_ranks, int32_t tuner)
{
    int32_t n = 0;
    for (int32_t r = 0; r < n_ranks; r++)
        n += tuner_of(all, r) == tuner;
    return n;
}

/* Said by rank 0 where there are several. */
static void name_kinds(struct hrf_plan_cache *cache, const struct introduction *all,
                       int32_t n_ranks)
{
    HRF_AUTO_RELEASE(hrf_strbuf) line = HRF_STRBUF_INIT;
    if (n_tuned_by(all, n_ranks, 0) == n_ranks)
        return;
    hrf_strbuf_adds(&line,
                    "the ranks differ in their GPU, driver or cuDNN, so that INT8 may differ by "
                    "a step from ranks that are alike; each kind is tuned for itself:");
    for (int32_t r = 0; r < n_ranks; r++)
        if (tuner_of(all, r) == r)
            hrf_strbuf_addf(&line, " %s by rank %d for %d of %d.", all[r].kind, (int)r,
                            (int)n_tuned_by(all, n_ranks, r), (int)n_ranks);
    hrf_strbuf_adds(&line, "\n");
    hrf_plan_cache_note(cache, line.text);
}

enum hrf_status hrf_plan_cache_prepare_ranks(struct hrf_plan_cache *cache,
                                             const struct hrf_backend_ranks *ranks,
                                             const struct hrf_cudnn_conv *convs, int32_t n,
                                             int32_t n_threads, struct hrf_error *err)
{
    struct introduction own = { .n_convs = n };
    HRF_AUTO_FREE struct introduction *all = hrf_calloc((size_t)ranks->n_ranks, sizeof *all);
    hrf_plan_cache_device(cache, own.kind);
    HRF_TRY(introduce_all(ranks, &own, all, err));
    const int32_t tuner = tuner_of(all, ranks->rank);
    if (tuner != ranks->rank)
        return plan_ranks_take(cache, ranks, tuner, convs, n, err);
    if (ranks->rank == 0)
        name_kinds(cache, all, ranks->n_ranks);
    return tune(cache, ranks, all, convs, n_threads, err);
}
