/* hdf5_file.h - an HDF5 file that is written once: data sets of rows, and attributes.
 *
 * The file is made in memory and written whole, by base/file.h: a full disk is told with the
 * system's reason, and a crash leaves the old file or the new one. Errors stick: after the first
 * one, adding does nothing and commit reports it.
 */
#ifndef HRF_SCHEMA_HDF5_HDF5_FILE_H
#define HRF_SCHEMA_HDF5_HDF5_FILE_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

struct hrf_hdf5_file; /* opaque */

enum hrf_hdf5_type { HRF_HDF5_INT32, HRF_HDF5_INT64, HRF_HDF5_FLOAT16, HRF_HDF5_FLOAT32 };
/* Bytes of a number. */
size_t hrf_hdf5_type_size(enum hrf_hdf5_type type);

HRF_CHECKED enum hrf_status hrf_hdf5_file_create(struct hrf_hdf5_file **out, struct hrf_error *err);
void hrf_hdf5_file_destroy(struct hrf_hdf5_file *file);
HRF_DEFINE_AUTO(hrf_hdf5_file)

/* Adds a data set of [n][width] numbers of this type; `name` may be of a group ("features/uni"),
 * which is made too. Float16 is given as its 16 bits. */
void hrf_hdf5_add_rows(struct hrf_hdf5_file *file, const char *name, enum hrf_hdf5_type type,
                       int64_t n, int64_t width, const void *values);
/* Adds an attribute to the data set `name`, or to the file ("/"). */
void hrf_hdf5_set_text(struct hrf_hdf5_file *file, const char *name, const char *key,
                       const char *text);
void hrf_hdf5_set_int(struct hrf_hdf5_file *file, const char *name, const char *key, int64_t value);
void hrf_hdf5_set_real(struct hrf_hdf5_file *file, const char *name, const char *key, double value);

/* Writes the file to `path`. Call once; nothing can be added after it. */
HRF_CHECKED enum hrf_status hrf_hdf5_file_write(struct hrf_hdf5_file *file, const char *path,
                                                struct hrf_error *err);

#endif
