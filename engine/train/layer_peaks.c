/* layer_peaks.c - a session that is observed (layer_peaks.h). */
#include "engine/train/layer_peaks.h"

#include "base/array.h"

#include <math.h>
#include <string.h>

void hrf_layer_peaks_release(struct hrf_layer_peaks *a)
{
    for (int32_t i = 0; i < a->n; i++)
        hrf_free(a->items[i].layer);
    hrf_free(a->items);
    hrf_free(a->is_broken);
    *a = (struct hrf_layer_peaks){ .first_broken = -1 };
}

struct look {
    const struct hrf_graph *network;
    struct hrf_layer_peaks *out;
};

/* Fused nodes leave the value of the last of them, which has its name of the file. */
static const char *layer_of(const struct hrf_graph *network, const char *value)
{
    const int32_t v = hrf_graph_find_value(network, value);
    const int32_t node = v >= 0 ? network->values[v].producer : -1;
    return node >= 0 && network->nodes[node].name[0] != '\0' ? network->nodes[node].name : value;
}

static enum hrf_status look_at(void *context, const char *value, const struct hrf_shape *shape,
                               const float *data, struct hrf_error *err)
{
    const struct look *look = context;
    struct hrf_layer_peaks *a = look->out;
    const int64_t n = hrf_shape_count(shape);
    const bool has_images = shape->rank > 0 && shape->dims[0] % a->n_images == 0;
    double largest = 0;
    bool is_finite = true;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(data[i])) {
            largest = fmax(largest, fabs((double)data[i]));
            continue;
        }
        is_finite = false;
        if (a->first_broken < 0 && has_images)
            a->is_broken[i / (n / a->n_images)] = true;
    }
    if (!is_finite && a->first_broken < 0)
        a->first_broken = a->n;
    HRF_RESERVE(a->items, a->capacity, (size_t)a->n + 1);
    a->items[a->n++] = (struct hrf_layer_peak){ .layer = hrf_strdup(layer_of(look->network, value)),
                                                .largest = largest,
                                                .is_finite = is_finite };
    return HRF_OK;
}

enum hrf_status hrf_layer_peaks_find(const struct hrf_graph *network,
                                     const struct hrf_session_config *config, const float *images,
                                     struct hrf_layer_peaks *out, struct hrf_error *err)
{
    struct hrf_session_config how = *config;
    HRF_AUTO(hrf_session) session = NULL;
    HRF_AUTO_RELEASE(hrf_layer_peaks) found = { .first_broken = -1 };
    struct look look = { network, &found };
    how.every_tensor = true;
    HRF_TRY(hrf_session_create(network, &how, &session, err));
    const struct hrf_shape *shape = hrf_session_input_shape(session, 0);
    found.n_images = shape->dims[0];
    found.is_broken = hrf_calloc((size_t)found.n_images + 1, sizeof *found.is_broken);
    memcpy(hrf_session_input(session, 0), images, (size_t)hrf_shape_count(shape) * sizeof *images);
    hrf_session_observe(session, look_at, &look);
    HRF_TRY(hrf_session_run(session, err));
    *out = found;
    found = (struct hrf_layer_peaks){ .first_broken = -1 };
    return HRF_OK;
}

void hrf_layer_peaks_text(const struct hrf_layer_peaks *a, int32_t n, struct hrf_strbuf *out)
{
    const int32_t end = a->first_broken >= 0 ? a->first_broken : a->n;
    HRF_AUTO_FREE bool *is_shown = hrf_calloc((size_t)end + 1, sizeof *is_shown);
    for (int32_t k = 0; k < n && k < end; k++) {
        int32_t most = -1;
        for (int32_t i = 0; i < end; i++)
            if (!is_shown[i] && (most < 0 || a->items[i].largest > a->items[most].largest))
                most = i;
        is_shown[most] = true;
        hrf_strbuf_addf(out, "%s'%s' %.3g", k > 0 ? ", " : "", a->items[most].layer,
                        a->items[most].largest);
    }
}
