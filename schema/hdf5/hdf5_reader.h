/* hdf5_reader.h - HDF5 files that other programs wrote: opening, tables of numbers, attributes.
 *
 * The one place that opens such files for reading. Files are not trusted: a table that claims more
 * numbers than its file can hold is refused before memory is taken for it, and so is one whose
 * numbers are in other files, unless those are a run's embeddings. HDF5's library is used
 * by one thread at a time: the caller sees to that. It is loaded when it is first needed
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

/* 'd': a data set, 'g': a group, 0: neither. */
char hrf_hdf5_kind(const struct hrf_hdf5_reader *reader, const char *name);
/* Members of a group; the name of the first by the alphabet into `name`, "" if it does not fit. */
int64_t hrf_hdf5_members(const struct hrf_hdf5_reader *reader, const char *group, char *name,
                         size_t size);

/* The size of a data set of two dimensions. HRF_E_USER: there is none of that name, or of another
 * form, or of more numbers than the file can hold. */
HRF_CHECKED enum hrf_status hrf_hdf5_table_size(const struct hrf_hdf5_reader *reader,
                                                const char *name, int64_t *rows, int64_t *columns,
                                                struct hrf_error *err);
/* The whole table, [rows][columns], of any number type. HRF_E_USER: it is damaged or cut short. */
HRF_CHECKED enum hrf_status hrf_hdf5_read_floats(const struct hrf_hdf5_reader *reader,
                                                 const char *name, float *out,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_hdf5_read_doubles(const struct hrf_hdf5_reader *reader,
                                                  const char *name, double *out,
                                                  struct hrf_error *err);

/* An attribute of a data set or, of "/", of the file. False: there is none, or not of that type; a
 * text is printable. */
bool hrf_hdf5_text(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                   char *out, size_t size);
/* The first `most` numbers of it; how many there are in all. 0: there is none, or no number. */
int64_t hrf_hdf5_numbers(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                         double *out, int64_t most);

#endif
