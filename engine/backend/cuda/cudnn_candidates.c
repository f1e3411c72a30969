#include "engine/backend/cuda/cudnn_candidates.h"

static bool has_engine(const struct hrf_candidates *c, int64_t engine)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->plans[i].engine == engine)
            return true;
    return false;
}

void hrf_candidates_build(cudnnHandle_t cudnn, const struct hrf_cudnn_device *properties,
                          enum hrf_cudnn_way way, struct hrf_cudnn_engines *engines,
                          struct hrf_candidates *c, struct hrf_strbuf *lines)
{
    struct hrf_error why = { .text = "" };
    c->n = 0;
    for (int32_t i = 0; i < engines->n_items && c->n < HRF_MOST_CANDIDATES; i++) {
        const bool is_last = c->n == HRF_MOST_CANDIDATES - 1;
        if (is_last && has_engine(c, engines->items[i].index))
            continue;
        if (hrf_cudnn_plan_build(cudnn, properties, way, &engines->items[i], &c->plans[c->n],
                                 &why) == HRF_OK)
            c->n++;
    }
    if (c->n == 0)
        hrf_strbuf_addf(lines,
                        "none of %d engines for a convolution could be built, so another kernel "
                        "runs it: %s\n",
                        (int)engines->n_items, why.text);
}

void hrf_candidates_release(struct hrf_candidates *c)
{
    while (c->n > 0)
        hrf_cudnn_plan_release(&c->plans[--c->n]);
}
