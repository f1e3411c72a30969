/* label_maps.c - see label_maps.h. */
#include "schema/record/label_maps.h"

#include "base/alloc.h"
#include "base/little_endian.h"

#include <string.h>
#include <zlib.h>

enum { LEVEL = 6 };

enum hrf_status hrf_label_maps_init(struct hrf_label_maps *maps, int32_t side, int64_t n,
                                    struct hrf_error *err)
{
    if (side < 1 || side > HRF_MAX_LABEL_SIDE || n < 0)
        return hrf_error_set(err, HRF_E_USER, "%lld label maps of %d x %d", (long long)n, side,
                             side);
    maps->items = hrf_calloc((size_t)n + 1, sizeof *maps->items);
    maps->side = side;
    maps->n = n;
    return HRF_OK;
}

void hrf_label_maps_release(struct hrf_label_maps *maps)
{
    for (int64_t i = 0; maps->items != NULL && i < maps->n; i++)
        hrf_bytes_release(&maps->items[i]);
    hrf_free(maps->items);
    *maps = (struct hrf_label_maps){ .side = 0 };
}

enum hrf_status hrf_label_maps_put(struct hrf_label_maps *maps, int64_t i,
                                   const unsigned char *labels, struct hrf_error *err)
{
    const uLong n = (uLong)hrf_label_maps_pixels(maps);
    uLongf n_bytes = compressBound(n);
    HRF_AUTO_FREE unsigned char *bytes = hrf_try_alloc(n_bytes);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for a label map");
    if (compress2(bytes, &n_bytes, labels, n, LEVEL) != Z_OK)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to compress a label map");
    unsigned char *kept = hrf_try_alloc(n_bytes);
    HRF_CHECK_MEMORY(kept != NULL, err, "no memory for a label map");
    memcpy(kept, bytes, n_bytes);
    hrf_bytes_release(&maps->items[i]);
    maps->items[i] = (struct hrf_bytes){ kept, n_bytes };
    return HRF_OK;
}

enum hrf_status hrf_label_maps_get(const struct hrf_label_maps *maps, int64_t i, int32_t n_classes,
                                   unsigned char *labels, struct hrf_error *err)
{
    const int64_t n = hrf_label_maps_pixels(maps);
    uLongf n_out = (uLongf)n;
    const struct hrf_bytes *item = &maps->items[i];
    if (item->n_bytes == 0)
        return hrf_error_set(err, HRF_E_USER, "patch %lld has no label map", (long long)i);
    if (uncompress(labels, &n_out, item->data, item->n_bytes) != Z_OK || (int64_t)n_out != n)
        return hrf_error_set(err, HRF_E_USER, "the label map of patch %lld is damaged",
                             (long long)i);
    unsigned char max = 0;
    for (int64_t k = 0; k < n; k++)
        max = labels[k] > max ? labels[k] : max;
    if (max > n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "the label map of patch %lld has the label %d of %d classes",
                             (long long)i, max, n_classes);
    return HRF_OK;
}

enum hrf_status hrf_label_maps_append(struct hrf_label_maps *maps, struct hrf_label_maps *more,
                                      struct hrf_error *err)
{
    if (maps->side != more->side)
        return hrf_error_set(err, HRF_E_USER, "label maps of %d px after those of %d px",
                             more->side, maps->side);
    if (maps->side == 0)
        return HRF_OK;
    struct hrf_bytes *items = hrf_realloc_array(maps->items, (size_t)(maps->n + more->n) + 1,
                                                sizeof *items);
    memcpy(items + maps->n, more->items, (size_t)more->n * sizeof *items);
    maps->items = items;
    maps->n += more->n;
    more->n = 0; /* its maps are not its own any more */
    hrf_label_maps_release(more);
    return HRF_OK;
}

/* ---- in a record ---- */

enum hrf_status hrf_label_maps_encode(const struct hrf_label_maps *maps, struct hrf_bytes *sizes,
                                      struct hrf_bytes *bytes, struct hrf_error *err)
{
    size_t all = 0, at = 0;
    for (int64_t i = 0; i < maps->n; i++)
        all += maps->items[i].n_bytes;
    *sizes = (struct hrf_bytes){ hrf_try_alloc((size_t)maps->n * 4 + 1), (size_t)maps->n * 4 };
    *bytes = (struct hrf_bytes){ hrf_try_alloc(all + 1), all };
    if (sizes->data == NULL || bytes->data == NULL) {
        hrf_bytes_release(sizes);
        hrf_bytes_release(bytes);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %lld label maps", (long long)maps->n);
    }
    for (int64_t i = 0; i < maps->n; i++) {
        const struct hrf_bytes *item = &maps->items[i];
        hrf_put_u32(sizes->data + 4 * i, (uint32_t)item->n_bytes);
        if (item->n_bytes > 0)
            memcpy(bytes->data + at, item->data, item->n_bytes);
        at += item->n_bytes;
    }
    return HRF_OK;
}

enum hrf_status hrf_label_maps_decode(const struct hrf_section *sizes,
                                      const struct hrf_section *bytes, int32_t side, int64_t n,
                                      const char *where, struct hrf_label_maps *maps,
                                      struct hrf_error *err)
{
    const unsigned char *from = sizes->data, *at = bytes->data;
    size_t left = bytes->n_bytes;
    if (sizes->n_bytes != (size_t)n * 4)
        return hrf_error_set(err, HRF_E_USER, "%s: %zu bytes of sizes for %lld label maps", where,
                             sizes->n_bytes, (long long)n);
    HRF_TRY(hrf_label_maps_init(maps, side, n, err));
    for (int64_t i = 0; i < n; i++) {
        const size_t size = hrf_get_u32(from + 4 * i);
        if (size > left)
            return hrf_error_set(err, HRF_E_USER, "%s: label map %lld is cut short", where,
                                 (long long)i);
        if (size == 0)
            continue;
        maps->items[i] = (struct hrf_bytes){ hrf_try_alloc(size), size };
        HRF_CHECK_MEMORY(maps->items[i].data != NULL, err, "%s: no memory for label maps", where);
        memcpy(maps->items[i].data, at, size);
        at += size;
        left -= size;
    }
    if (left > 0)
        return hrf_error_set(err, HRF_E_USER, "%s: %zu bytes after the last label map", where,
                             left);
    return HRF_OK;
}
