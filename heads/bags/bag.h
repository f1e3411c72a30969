/* bag.h - the embeddings of one slide from an HDF5 file, whoever made it.
 *
 * Data sets are found by the forms of their tools: "features" (TRIDENT, CLAM), "feats" (STAMP),
 * "features/ENCODER" (AtlasPatch), and "coords". Any float type becomes float32. Files are not
 * trusted. HDF5's library is used by one thread at a time: the caller sees to that.
 */
#ifndef HRF_HEADS_BAGS_BAG_H
#define HRF_HEADS_BAGS_BAG_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_bag {
    int64_t n, width;
    float *values;   /* [n][width] */
    size_t capacity; /* numbers that there is room for */
    double *places;  /* [n][2], x and y in the file's unit; NULL: the file has none */
};
void hrf_bag_destroy(struct hrf_bag *bag);
HRF_DEFINE_AUTO(hrf_bag)

/* What made the embeddings, as far as the file says: "encoder=uni patch_size=256 ...". Two files
 * with different texts do not belong to one training. */
enum { HRF_BAG_ORIGIN = 512 };
struct hrf_bag_facts {
    int64_t n, width;
    char origin[HRF_BAG_ORIGIN]; /* "" if the file says nothing */
};

/* Whether two such texts say the same; `any_precision`: but for their precision. */
bool hrf_bag_same_origin(const char *a, const char *b, bool any_precision);

/* `set` names the data set; NULL: it is found. HRF_E_USER: no HDF5 file or one that is cut short,
 * no such data set, a file that names another slide than `slide` (NULL: not checked). */
HRF_CHECKED enum hrf_status hrf_bag_look(const char *path, const char *set, const char *slide,
                                         struct hrf_bag_facts *out, struct hrf_error *err);
/* The memory of *out, if it is a bag, is used again: touching new memory takes as long as reading.
 * It is NULL on failure. Also HRF_E_USER: not `width` numbers a patch (0: any), no patch at all, a
 * number that is not finite. */
HRF_CHECKED enum hrf_status hrf_bag_read(const char *path, const char *set, int64_t width,
                                         struct hrf_bag **out, struct hrf_error *err);
/* A file that this process has read before: its numbers are not looked at again. */
HRF_CHECKED enum hrf_status hrf_bag_read_again(const char *path, const char *set, int64_t width,
                                               struct hrf_bag **out, struct hrf_error *err);

#endif
