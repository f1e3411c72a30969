/* bag.h - reads the embeddings of one slide from an HDF5 file of any of the known tools.
 *
 * The data sets are "features" (TRIDENT, CLAM), "feats" (STAMP) or "features/ENCODER" (AtlasPatch),
 * and "coords". Any float type becomes float32. Files are not trusted. Only one thread at a time
 * may use HDF5's library; the caller ensures that.
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
    size_t capacity; /* of `values`, in numbers */
};
void hrf_bag_destroy(struct hrf_bag *bag);
HRF_DEFINE_AUTO(hrf_bag)

/* The origin of the embeddings, as far as the file says it: "encoder=uni patch_size=256 ...". Files
 * of different origins must not train one head. */
enum { HRF_BAG_ORIGIN = 512 };
struct hrf_bag_facts {
    int64_t n, width;
    char origin[HRF_BAG_ORIGIN]; /* "" if the file says nothing */
};

/* True if two origins are the same; `any_precision` ignores their precisions. */
bool hrf_bag_same_origin(const char *a, const char *b, bool any_precision);

/* Reads the facts of a file without its numbers. `set` names the data set; NULL searches for it.
 * HRF_E_USER: this is no HDF5 file or a truncated one, it has no such data set, it names another
 * slide than `slide` (NULL: not checked), or "coords" has another number of patches. */
HRF_CHECKED enum hrf_status hrf_bag_look(const char *path, const char *set, const char *slide,
                                         struct hrf_bag_facts *out, struct hrf_error *err);
/* A file of embeddings that is open to be read in parts. */
struct hrf_bag_file {
    struct hrf_hdf5_reader *reader;
    char *path;
    int64_t n, width;
    int64_t n_position_columns; /* of "coords"; 0: the file has no positions */
    char name[256];             /* of the data set */
};
/* Opens a file and checks its positions. HRF_E_USER: as hrf_bag_look(), or the embeddings do not
 * have `width` numbers (0: any), there is no patch, or a position is none. */
HRF_CHECKED enum hrf_status hrf_bag_file_open(const char *path, const char *set, int64_t width,
                                              struct hrf_bag_file **out, struct hrf_error *err);
void hrf_bag_file_close(struct hrf_bag_file *file); /* NULL is fine */
static inline void hrf_bag_file_destroy(struct hrf_bag_file *file)
{
    hrf_bag_file_close(file);
}
HRF_DEFINE_AUTO(hrf_bag_file)
/* Reads the embeddings of patches [first, first + n) to out [n][width]. HRF_E_USER: the file is
 * damaged, or a number is not finite. */
HRF_CHECKED enum hrf_status hrf_bag_file_read(struct hrf_bag_file *file, int64_t first, int64_t n,
                                              float *out, struct hrf_error *err);
/* The same of their positions, to out [n][2], x and y in the file's unit. */
HRF_CHECKED enum hrf_status hrf_bag_file_read_positions(struct hrf_bag_file *file, int64_t first,
                                                        int64_t n, double *out,
                                                        struct hrf_error *err);

/* Reads a whole bag. If *out is a bag, its memory is used again, because touching new memory takes
 * as long as reading; *out is NULL on failure. HRF_E_NOMEM: the text names both numbers. */
HRF_CHECKED enum hrf_status hrf_bag_read(const char *path, const char *set, int64_t width,
                                         struct hrf_bag **out, struct hrf_error *err);
/* Returns the origin for a sentence, or words that say that the file does not state it. */
const char *hrf_bag_origin_shown(const char *origin);

/* Reads a file that this process has read before: its numbers are not checked again. */
HRF_CHECKED enum hrf_status hrf_bag_read_again(const char *path, const char *set, int64_t width,
                                               struct hrf_bag **out, struct hrf_error *err);

#endif
