/* hdf5_reader.h - HDF5 files that other programs wrote: opening, tables of numbers, attributes.
 *
 * The one place that opens such files for reading. Files are not trusted: a table that claims more
 * numbers than its file can hold is refused before memory is taken for it, and so is one whose
 * numbers are in other files, unless those are a run's embeddings. Only one thread at a time may
 * use HDF5's library; the caller ensures that. The library is loaded when it is first needed
 * (hdf5_calls.h).
 */
#ifndef HRF_SCHEMA_HDF5_HDF5_READER_H
#define HRF_SCHEMA_HDF5_HDF5_READER_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_hdf5_reader; /* opaque */
/* HRF_E_USER: no HDF5 file, or it is cut short. */
HRF_CHECKED enum hrf_status hrf_hdf5_reader_open(const char *path, struct hrf_hdf5_reader **out,
                                                 struct hrf_error *err);
void hrf_hdf5_reader_close(struct hrf_hdf5_reader *reader);
static inline void hrf_hdf5_reader_destroy(struct hrf_hdf5_reader *reader)
{
    hrf_hdf5_reader_close(reader);
}
HRF_DEFINE_AUTO(hrf_hdf5_reader)

/* Returns the path as it was opened; the reader owns it. */
const char *hrf_hdf5_reader_path(const struct hrf_hdf5_reader *reader);

/* Returns 'd' for a data set, 'g' for a group and 0 for anything else. */
char hrf_hdf5_kind(const struct hrf_hdf5_reader *reader, const char *name);
/* HRF_E_USER: the object, or a group above it, is a link into another file. Such links are not
 * followed, because everything that is read must be in the file that was named, hashed and checked.
 */
HRF_CHECKED enum hrf_status hrf_hdf5_check_inside(const struct hrf_hdf5_reader *reader,
                                                  const char *name, struct hrf_error *err);
/* Returns the number of members of a group, and writes the alphabetically first name to `name`, or
 * "" if it does not fit. */
int64_t hrf_hdf5_members(const struct hrf_hdf5_reader *reader, const char *group, char *name,
                         size_t size);

/* Gets the size of a data set of two dimensions. HRF_E_USER: there is none of that name, it holds
 * no numbers (but text or booleans), it claims more numbers than the file can hold, or a part of it
 * was never written, which HDF5 would read as zeros. */
HRF_CHECKED enum hrf_status hrf_hdf5_table_size(const struct hrf_hdf5_reader *reader,
                                                const char *name, int64_t *rows, int64_t *columns,
                                                struct hrf_error *err);
/* Reads rows [first, first + n) of a table of so many columns, whose numbers are of any type, as
 * [n][columns]. HRF_E_USER: the table is damaged or truncated, or does not have them. */
HRF_CHECKED enum hrf_status hrf_hdf5_read_floats(const struct hrf_hdf5_reader *reader,
                                                 const char *name, int64_t first, int64_t n,
                                                 int64_t columns, float *out,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_hdf5_read_doubles(const struct hrf_hdf5_reader *reader,
                                                  const char *name, int64_t first, int64_t n,
                                                  int64_t columns, double *out,
                                                  struct hrf_error *err);

/* Reads a text attribute of a data set, or of the file ("/"), as printable text. False: there is
 * none, or it is of another type. */
bool hrf_hdf5_text(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                   char *out, size_t size);
/* Reads the first `most` numbers of an attribute and returns how many it has; 0 if there is none or
 * if it has no numbers. */
int64_t hrf_hdf5_numbers(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                         double *out, int64_t max);

#endif
