/* hdf5_calls.c - loads the module on the first call, and hands every call to it. */
#include "schema/hdf5/hdf5_calls.h"

#include "base/guard.h"
#include "base/module.h"
#include "module_builds.h"

/* Set by the first file. Callers see to it that one thread at a time is here (hdf5_file.h). */
static const struct hrf_hdf5_calls *calls;

static enum hrf_status load(struct hrf_error *err)
{
    const void *operations = NULL;
    if (calls != NULL)
        return HRF_OK;
    struct hrf_error why = { .status = HRF_OK };
    if (hrf_module_load("hdf5", HRF_BUILD_HDF5, &operations, &why) != HRF_OK) {
        const bool is_stale = why.id == HRF_ERROR_MODULE_VERSION; /* its hint says what helps */
        (void)hrf_error_pass(err, &why);
        return hrf_error_wrap(err, HRF_E_EXTERNAL, "HDF5 files can be neither read nor written%s",
                              is_stale ? ""
                                       : ": install HDF5's library (libhdf5-103 in Debian 12)");
    }
    calls = operations;
    return HRF_OK;
}

enum hrf_status hrf_hdf5_look(char *version, size_t size, struct hrf_error *err)
{
    HRF_TRY(load(err));
    if (version != NULL)
        calls->version(version, size);
    return HRF_OK;
}

/* ---- writing ---- */

enum hrf_status hrf_hdf5_file_create(const char *path, struct hrf_hdf5_file **out,
                                     struct hrf_error *err)
{
    HRF_TRY(load(err));
    return calls->file_create(path, out, err);
}

void hrf_hdf5_file_destroy(struct hrf_hdf5_file *file)
{
    if (file != NULL)
        calls->file_destroy(file);
}

void hrf_hdf5_begin_rows(struct hrf_hdf5_file *file, const char *name, enum hrf_hdf5_type type,
                         int64_t n, int64_t width)
{
    calls->begin_rows(file, name, type, n, width);
}

void hrf_hdf5_append_rows(struct hrf_hdf5_file *file, int64_t n, const void *values)
{
    calls->append_rows(file, n, values);
}

void hrf_hdf5_end_rows(struct hrf_hdf5_file *file)
{
    calls->end_rows(file);
}

void hrf_hdf5_refer_rows(struct hrf_hdf5_file *file, const char *name, int64_t n, int64_t width,
                         const struct hrf_hdf5_part *parts, size_t n_parts)
{
    calls->refer_rows(file, name, n, width, parts, n_parts);
}

void hrf_hdf5_set_text(struct hrf_hdf5_file *file, const char *name, const char *key,
                       const char *text)
{
    calls->set_text(file, name, key, text);
}

void hrf_hdf5_set_int(struct hrf_hdf5_file *file, const char *name, const char *key, int64_t value)
{
    calls->set_int(file, name, key, value);
}

void hrf_hdf5_set_real(struct hrf_hdf5_file *file, const char *name, const char *key, double value)
{
    calls->set_real(file, name, key, value);
}

enum hrf_status hrf_hdf5_file_write(struct hrf_hdf5_file *file, struct hrf_error *err)
{
    return calls->file_write(file, err);
}

/* ---- reading: the library may die of the file, which is noted, or never end ---- */

enum {
    LONGEST_S = 10,     /* of the processor, for what takes milliseconds */
    MIN_PER_S = 1000000 /* numbers that are read; compressed ones come a hundred times as fast */
};

enum hrf_status hrf_hdf5_reader_open(const char *path, struct hrf_hdf5_reader **out,
                                     struct hrf_error *err)
{
    HRF_TRY(load(err));
    HRF_GUARD_LIMIT(path, LONGEST_S);
    return calls->reader_open(path, out, err);
}

void hrf_hdf5_reader_close(struct hrf_hdf5_reader *reader)
{
    if (reader == NULL)
        return;
    HRF_AUTO_FREE char *path = hrf_strdup(calls->reader_path(reader)); /* closing frees it */
    HRF_GUARD_LIMIT(path, LONGEST_S);
    calls->reader_close(reader);
}

char hrf_hdf5_kind(const struct hrf_hdf5_reader *reader, const char *name)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S);
    return calls->kind(reader, name);
}

enum hrf_status hrf_hdf5_check_inside(const struct hrf_hdf5_reader *reader, const char *name,
                                      struct hrf_error *err)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S);
    return calls->check_inside(reader, name, err);
}

int64_t hrf_hdf5_members(const struct hrf_hdf5_reader *reader, const char *group, char *name,
                         size_t size)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S);
    return calls->members(reader, group, name, size);
}

enum hrf_status hrf_hdf5_table_size(const struct hrf_hdf5_reader *reader, const char *name,
                                    int64_t *rows, int64_t *columns, struct hrf_error *err)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S);
    return calls->table_size(reader, name, rows, columns, err);
}

enum hrf_status hrf_hdf5_read_floats(const struct hrf_hdf5_reader *reader, const char *name,
                                     int64_t first, int64_t n, int64_t columns, float *out,
                                     struct hrf_error *err)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S + n * columns / MIN_PER_S);
    return calls->read_floats(reader, name, first, n, columns, out, err);
}

enum hrf_status hrf_hdf5_read_doubles(const struct hrf_hdf5_reader *reader, const char *name,
                                      int64_t first, int64_t n, int64_t columns, double *out,
                                      struct hrf_error *err)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S + n * columns / MIN_PER_S);
    return calls->read_doubles(reader, name, first, n, columns, out, err);
}

bool hrf_hdf5_text(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                   char *out, size_t size)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S);
    return calls->text(reader, object, key, out, size);
}

int64_t hrf_hdf5_numbers(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                         double *out, int64_t max)
{
    HRF_GUARD_LIMIT(calls->reader_path(reader), LONGEST_S);
    return calls->numbers(reader, object, key, out, max);
}
