/* slide_source.c - feeds a whole slide as one image, and keeps the class map that it leaves
 * (slide_source.h). */
#include "engine/worker/slide_source.h"

void hrf_slide_source_init(struct hrf_slide_source *source, const struct hrf_rows_config *rows)
{
    *source = (struct hrf_slide_source){ .rows = *rows };
    pthread_mutex_init(&source->lock, NULL);
}

void hrf_slide_source_release(struct hrf_slide_source *source)
{
    pthread_mutex_destroy(&source->lock);
}

enum hrf_status hrf_slide_source_read(void *context, int32_t input, int64_t first, int64_t n,
                                      const struct hrf_box *box, float *out, struct hrf_error *err)
{
    struct hrf_slide_source *source = context;
    struct hrf_rows_config rows = source->rows;
    struct hrf_feed_times times = { 0 };
    if (input != 0 || first != 0 || n != 1)
        return hrf_error_set(err, HRF_E_BUG, "a slide is one image, not images %lld..%lld",
                             (long long)first, (long long)(first + n));
    rows.first_row = box->lo[0];
    rows.n_rows = box->hi[0] - box->lo[0];
    rows.first_column = box->lo[1];
    rows.n_columns = box->hi[1] - box->lo[1];
    HRF_TRY(hrf_rows_read(&rows, out, &times, err));
    pthread_mutex_lock(&source->lock);
    source->times.decode += times.decode;
    source->times.prepare += times.prepare;
    source->times.wait += times.wait;
    pthread_mutex_unlock(&source->lock);
    return HRF_OK;
}

void hrf_keep_class_map(const struct hrf_network *network, struct hrf_scores *scores)
{
    if (hrf_network_n_outputs(network) < 2)
        return;
    const struct hrf_shape shape = hrf_network_output_shape(network, 1);
    const float *all = hrf_network_output(network, 1); /* [rows][columns][n_maps] */
    const int64_t n_maps = shape.dims[1], n = shape.dims[2] * shape.dims[3];
    struct hrf_class_map *map = &scores->class_map;
    for (int32_t c = 1; c < scores->n_classes; c++)
        if (scores->probabilities[c] > scores->probabilities[map->class_index])
            map->class_index = c;
    map->rows = (int32_t)shape.dims[2];
    map->columns = (int32_t)shape.dims[3];
    map->values = hrf_alloc_array((size_t)n, sizeof map->values[0]);
    const int64_t own = n_maps > 1 ? map->class_index : 0; /* or it is that of the class alone */
    for (int64_t i = 0; i < n; i++)
        map->values[i] = all[i * n_maps + own];
}
