/* hdf5_file.h - an HDF5 file that is written once: data sets of rows, and attributes.
 *
 * It is written under a temporary name beside its place, a chunk at a time, so that memory does not
 * depend on its size, then synced and renamed: a crash leaves the old file or the new one. Errors
 * are kept: after the first one, adding does nothing and hrf_hdf5_file_write() reports it, a full
 * disk with the system's reason. Only one thread at a time may use HDF5's library; the caller
 * ensures that. The library is loaded when it is first needed (hdf5_calls.h).
 */
#ifndef HRF_SCHEMA_HDF5_HDF5_FILE_H
#define HRF_SCHEMA_HDF5_HDF5_FILE_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

struct hrf_hdf5_file; /* opaque */

enum hrf_hdf5_type { HRF_HDF5_INT32, HRF_HDF5_INT64, HRF_HDF5_FLOAT16, HRF_HDF5_FLOAT32 };
/* Returns the size of a number in bytes. */
static inline size_t hrf_hdf5_type_size(enum hrf_hdf5_type type)
{
    return type == HRF_HDF5_INT64 ? 8 : type == HRF_HDF5_FLOAT16 ? 2 : 4;
}

HRF_CHECKED enum hrf_status hrf_hdf5_file_create(const char *path, struct hrf_hdf5_file **out,
                                                 struct hrf_error *err);
/* Removes the file unless hrf_hdf5_file_write() succeeded. */
void hrf_hdf5_file_destroy(struct hrf_hdf5_file *file);
HRF_DEFINE_AUTO(hrf_hdf5_file)

/* Adds a data set of [n][width] numbers of this type in steps: the rows are appended in order until
 * there are n. `name` may be of a group ("features/uni"), which is made too. Float16 is given as
 * its 16 bits. One data set at a time. */
void hrf_hdf5_begin_rows(struct hrf_hdf5_file *file, const char *name, enum hrf_hdf5_type type,
                         int64_t n, int64_t width);
void hrf_hdf5_append_rows(struct hrf_hdf5_file *file, int64_t n, const void *values);
void hrf_hdf5_end_rows(struct hrf_hdf5_file *file);
/* Adds a data set in one step. */
static inline void hrf_hdf5_add_rows(struct hrf_hdf5_file *file, const char *name,
                                     enum hrf_hdf5_type type, int64_t n, int64_t width,
                                     const void *values)
{
    hrf_hdf5_begin_rows(file, name, type, n, width);
    hrf_hdf5_append_rows(file, n, values);
    hrf_hdf5_end_rows(file);
}

/* A file of float32 rows and nothing else, that a data set refers to. */
struct hrf_hdf5_part {
    const char *path; /* relative to the folder of the HDF5 file */
    int64_t n_bytes;
};
/* Adds a data set of [n][width] float32 whose numbers are not copied: they are in the parts, one
 * after the other. */
void hrf_hdf5_refer_rows(struct hrf_hdf5_file *file, const char *name, int64_t n, int64_t width,
                         const struct hrf_hdf5_part *parts, size_t n_parts);

/* Adds an attribute to the data set `name`, or to the file ("/"). */
void hrf_hdf5_set_text(struct hrf_hdf5_file *file, const char *name, const char *key,
                       const char *text);
void hrf_hdf5_set_int(struct hrf_hdf5_file *file, const char *name, const char *key, int64_t value);
void hrf_hdf5_set_real(struct hrf_hdf5_file *file, const char *name, const char *key, double value);

/* Completes the file and puts it in its place. Call once; nothing can be added after it. */
HRF_CHECKED enum hrf_status hrf_hdf5_file_write(struct hrf_hdf5_file *file, struct hrf_error *err);

#endif
