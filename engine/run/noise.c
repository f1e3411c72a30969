/* noise.c - records the tensors of one session and compares those of another with them
 * (noise.h). */
#include "engine/run/noise.h"

#include "base/array.h"

#include <math.h>
#include <string.h>

void hrf_noise_release(struct hrf_noise *noise)
{
    for (int32_t i = 0; i < noise->n_items; i++) {
        hrf_free(noise->items[i].name);
        hrf_free(noise->items[i].truth);
    }
    hrf_free(noise->items);
    *noise = (struct hrf_noise){ .items = NULL };
}

static struct hrf_noise_tensor *find(struct hrf_noise *noise, const char *name)
{
    for (int32_t i = 0; i < noise->n_items; i++)
        if (strcmp(noise->items[i].name, name) == 0)
            return &noise->items[i];
    return NULL;
}

static enum hrf_status add(struct hrf_noise *noise, const char *name, int64_t n,
                           struct hrf_noise_tensor **out, struct hrf_error *err)
{
    HRF_RESERVE(noise->items, noise->capacity, (size_t)noise->n_items + 1);
    struct hrf_noise_tensor added = { .name = hrf_strdup(name),
                                      .truth = hrf_try_alloc_array((size_t)n, sizeof(float)),
                                      .n = n };
    if (added.truth == NULL) {
        hrf_free(added.name);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to keep tensor '%s'", name);
    }
    noise->items[noise->n_items] = added;
    *out = &noise->items[noise->n_items++];
    return HRF_OK;
}

static enum hrf_status record(void *context, const char *name, const struct hrf_shape *shape,
                              const float *data, struct hrf_error *err)
{
    struct hrf_noise *noise = context;
    struct hrf_noise_tensor *tensor = find(noise, name);
    const int64_t n = hrf_shape_count(shape);
    if (tensor == NULL)
        HRF_TRY(add(noise, name, n, &tensor, err));
    memcpy(tensor->truth, data, (size_t)n * sizeof *data);
    return HRF_OK;
}

static enum hrf_status compare(void *context, const char *name, const struct hrf_shape *shape,
                               const float *data, struct hrf_error *err)
{
    (void)err;
    struct hrf_noise_tensor *tensor = find(context, name);
    double signal = 0, noise = 0;
    if (tensor == NULL || tensor->n != hrf_shape_count(shape)) /* lowering has inserted a copy */
        return HRF_OK;
    for (int64_t i = 0; i < tensor->n; i++) {
        const double truth = (double)tensor->truth[i], off = truth - (double)data[i];
        signal += truth * truth;
        noise += off * off;
    }
    tensor->is_compared = true;
    tensor->sqnr_db = noise > 0 ? 10 * log10(signal / noise) : INFINITY;
    return HRF_OK;
}

void hrf_noise_record(struct hrf_session *session, struct hrf_noise *noise)
{
    hrf_session_observe(session, record, noise);
}

void hrf_noise_compare(struct hrf_session *session, struct hrf_noise *noise)
{
    hrf_session_observe(session, compare, noise);
}
