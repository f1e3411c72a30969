/* label_maps.h - the outputs of a segmentation network for patches: a label for every output pixel.
 *
 * A label is 0 (no class) or 1 + the index of a class. A patch's map has `side` x `side` labels,
 * row by row. Maps are compressed (zlib), because a slide of 100,000 patches would otherwise need
 * gigabytes, and large areas of one class compress to hardly anything. The compressed bytes depend
 * only on the map. Not thread-safe.
 */
#ifndef HRF_SCHEMA_RECORD_LABEL_MAPS_H
#define HRF_SCHEMA_RECORD_LABEL_MAPS_H

#include "base/error.h"
#include "schema/record/container.h"

#include <stdbool.h>
#include <stdint.h>

enum { HRF_MAX_LABEL_CLASSES = 254, HRF_MAX_LABEL_SIDE = 1 << 13 };

struct hrf_label_maps {
    int32_t side;            /* of a patch's map; 0: the network gives no maps */
    int64_t n;               /* patches */
    struct hrf_bytes *items; /* [n], compressed; heap; n_bytes 0: there is none yet */
};

/* Initialises `maps`, which the caller has zeroed, for n patches. */
HRF_CHECKED enum hrf_status hrf_label_maps_init(struct hrf_label_maps *maps, int32_t side,
                                                int64_t n, struct hrf_error *err);
void hrf_label_maps_release(struct hrf_label_maps *maps);
static inline int64_t hrf_label_maps_pixels(const struct hrf_label_maps *maps)
{
    return (int64_t)maps->side * maps->side;
}
/* Compresses the map of patch i, [side][side], and stores it in place of an earlier one. */
HRF_CHECKED enum hrf_status hrf_label_maps_put(struct hrf_label_maps *maps, int64_t i,
                                               const unsigned char *labels, struct hrf_error *err);
/* Decompresses the map of patch i to labels[side][side]. HRF_E_USER: there is no map, it is
 * damaged, or it has a label above n_classes. */
HRF_CHECKED enum hrf_status hrf_label_maps_get(const struct hrf_label_maps *maps, int64_t i,
                                               int32_t n_classes, unsigned char *labels,
                                               struct hrf_error *err);
/* Moves the maps of `more` behind those of the patches before. HRF_E_USER: only one of both has
 * maps, or their sizes differ. */
HRF_CHECKED enum hrf_status hrf_label_maps_append(struct hrf_label_maps *maps,
                                                  struct hrf_label_maps *more,
                                                  struct hrf_error *err);

/* Encodes the maps as two sections of a record (heap): `sizes`, little-endian u32 [n], and the
 * compressed maps one after the other. */
HRF_CHECKED enum hrf_status hrf_label_maps_encode(const struct hrf_label_maps *maps,
                                                  struct hrf_bytes *sizes, struct hrf_bytes *bytes,
                                                  struct hrf_error *err);
/* Decodes two sections into `maps`, which the caller has zeroed. HRF_E_USER: the sections do not
 * fit together. */
HRF_CHECKED enum hrf_status hrf_label_maps_decode(const struct hrf_section *sizes,
                                                  const struct hrf_section *bytes, int32_t side,
                                                  int64_t n, const char *where,
                                                  struct hrf_label_maps *maps,
                                                  struct hrf_error *err);

#endif
