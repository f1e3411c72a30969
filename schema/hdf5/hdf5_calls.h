/* hdf5_calls.h - the functions of hdf5_file.h and hdf5_reader.h as a table.
 *
 * HDF5 depends on a dozen libraries, which took half of a program's start, and few programs need
 * it. It is therefore in the module hrf_hdf5.so, which is loaded with the first file that is
 * created or opened. The module defines the functions themselves; hdf5_calls.c defines functions of
 * the same names for all other code, which pass their arguments to the module's.
 */
#ifndef HRF_SCHEMA_HDF5_HDF5_CALLS_H
#define HRF_SCHEMA_HDF5_HDF5_CALLS_H

#include "schema/hdf5/hdf5_file.h"
#include "schema/hdf5/hdf5_reader.h"

/* The module's functions; each entry is hrf_hdf5_<entry>. */
struct hrf_hdf5_calls {
    enum hrf_status (*file_create)(const char *path, struct hrf_hdf5_file **out,
                                   struct hrf_error *err);
    void (*file_destroy)(struct hrf_hdf5_file *file);
    void (*begin_rows)(struct hrf_hdf5_file *file, const char *name, enum hrf_hdf5_type type,
                       int64_t n, int64_t width);
    void (*append_rows)(struct hrf_hdf5_file *file, int64_t n, const void *values);
    void (*end_rows)(struct hrf_hdf5_file *file);
    void (*refer_rows)(struct hrf_hdf5_file *file, const char *name, int64_t n, int64_t width,
                       const struct hrf_hdf5_part *parts, size_t n_parts);
    void (*set_text)(struct hrf_hdf5_file *file, const char *name, const char *key,
                     const char *text);
    void (*set_int)(struct hrf_hdf5_file *file, const char *name, const char *key, int64_t value);
    void (*set_real)(struct hrf_hdf5_file *file, const char *name, const char *key, double value);
    enum hrf_status (*file_write)(struct hrf_hdf5_file *file, struct hrf_error *err);

    enum hrf_status (*reader_open)(const char *path, struct hrf_hdf5_reader **out,
                                   struct hrf_error *err);
    void (*reader_close)(struct hrf_hdf5_reader *reader);
    const char *(*reader_path)(const struct hrf_hdf5_reader *reader);
    char (*kind)(const struct hrf_hdf5_reader *reader, const char *name);
    enum hrf_status (*check_inside)(const struct hrf_hdf5_reader *reader, const char *name,
                                    struct hrf_error *err);
    int64_t (*members)(const struct hrf_hdf5_reader *reader, const char *group, char *name,
                       size_t size);
    enum hrf_status (*table_size)(const struct hrf_hdf5_reader *reader, const char *name,
                                  int64_t *rows, int64_t *columns, struct hrf_error *err);
    enum hrf_status (*read_floats)(const struct hrf_hdf5_reader *reader, const char *name,
                                   int64_t first, int64_t n, int64_t columns, float *out,
                                   struct hrf_error *err);
    enum hrf_status (*read_doubles)(const struct hrf_hdf5_reader *reader, const char *name,
                                    int64_t first, int64_t n, int64_t columns, double *out,
                                    struct hrf_error *err);
    bool (*text)(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                 char *out, size_t size);
    int64_t (*numbers)(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                       double *out, int64_t max);

    void (*version)(char *out, size_t size); /* of the HDF5 library: "1.10.8" */
};

/* Loads the module once and writes the version of the HDF5 library to `version` (may be NULL).
 * HRF_E_EXTERNAL: the text says what is missing and what to do. */
HRF_CHECKED enum hrf_status hrf_hdf5_look(char *version, size_t size, struct hrf_error *err);

#endif
