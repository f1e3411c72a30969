/* label_maps.h - what a segmentation network gives for patches: a label for every pixel of its
 * output.
 *
 * A label is 0 (no class) or 1 + the index of a class. A patch's map has `side` x `side` labels,
 * row by row. Maps are held compressed (zlib), because a slide of 100,000 patches would need
 * gigabytes otherwise, and large areas of one class need hardly anything. The compressed bytes
 * depend on nothing but the map. Not safe for several threads.
 */
#ifndef HRF_SCHEMA_RECORD_LABEL_MAPS_H
#define HRF_SCHEMA_RECORD_LABEL_MAPS_H

#include "base/error.h"
#include "schema/record/container.h"

#include <stdbool.h>
#include <stdint.h>

enum { HRF_MOST_LABEL_CLASSES = 254, HRF_MOST_LABEL_SIDE = 1 << 13 };

struct hrf_label_maps {
    int32_t side;            /* of a patch's map; 0: the network gives no maps */
    int64_t n;               /* patches */
    struct hrf_bytes *items; /* [n], compressed; heap; n_bytes 0: there is none yet */
};

/* `maps` is zeroed; it gets room for n patches. */
HRF_CHECKED enum hrf_status hrf_label_maps_init(struct hrf_label_maps *maps, int32_t side,
                                                int64_t n, struct hrf_error *err);
void hrf_label_maps_release(struct hrf_label_maps *maps);
static inline int64_t hrf_label_maps_pixels(const struct hrf_label_maps *maps)
{
    return (int64_t)maps->side * maps->side;
}
/* Compresses the map of patch i, [side][side], in place of the one that is there. */
HRF_CHECKED enum hrf_status hrf_label_maps_put(struct hrf_label_maps *maps, int64_t i,
                                               const unsigned char *labels, struct hrf_error *err);
/* Fills labels [side][side]. HRF_E_USER: there is no map, it is damaged, or it has a label above
 * n_classes. */
HRF_CHECKED enum hrf_status hrf_label_maps_get(const struct hrf_label_maps *maps, int64_t i,
                                               int32_t n_classes, unsigned char *labels,
                                               struct hrf_error *err);
/* Appends the maps of `more`, which is left empty, to those of the patches before. HRF_E_USER: one
 * has maps and the other has none, or of another size. */
HRF_CHECKED enum hrf_status hrf_label_maps_append(struct hrf_label_maps *maps,
                                                  struct hrf_label_maps *more,
                                                  struct hrf_error *err);

/* As two sections of a record: `sizes` little-endian u32 [n], and the compressed maps one after the
 * other; both heap. */
HRF_CHECKED enum hrf_status hrf_label_maps_encode(const struct hrf_label_maps *maps,
                                                  struct hrf_bytes *sizes, struct hrf_bytes *bytes,
                                                  struct hrf_error *err);
/* `maps` is zeroed. HRF_E_USER: the sections do not fit together. */
HRF_CHECKED enum hrf_status hrf_label_maps_decode(const struct hrf_section *sizes,
                                                  const struct hrf_section *bytes, int32_t side,
                                                  int64_t n, const char *where,
                                                  struct hrf_label_maps *maps,
                                                  struct hrf_error *err);

#endif
