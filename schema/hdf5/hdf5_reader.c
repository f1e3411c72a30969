/* hdf5_reader.c - reading with the HDF5 library (hdf5_reader.h). */
#include "schema/hdf5/hdf5_reader.h"

#include "base/file.h"
#include "base/path.h"
#include "base/text.h"

#include <hdf5.h>
#include <stdio.h>
#include <string.h>

/* Deflate makes a byte of at most 1032; a float of half a one is twice as long. */
enum { MOST_EXPANSION = 2 * 1032, MOST_NUMBERS = 4096 };

struct hrf_hdf5_reader {
    hid_t file;
    int64_t n_bytes; /* of the file */
    char *path;
    hid_t access; /* of data sets: rows in other files are looked for beside this one */
};

void hrf_hdf5_reader_close(struct hrf_hdf5_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->access > 0)
        H5Pclose(reader->access);
    if (reader->file >= 0)
        H5Fclose(reader->file);
    hrf_free(reader->path);
    hrf_free(reader);
}

enum hrf_status hrf_hdf5_reader_open(const char *path, struct hrf_hdf5_reader **out,
                                     struct hrf_error *err)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are returned, not printed */
    HRF_TRY(hrf_file_check(path, err));
    HRF_AUTO(hrf_hdf5_reader) reader = hrf_calloc(1, sizeof *reader);
    HRF_CHECK_MEMORY(reader != NULL, err, "no memory to read '%s'", path);
    reader->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    reader->n_bytes = hrf_path_size(path);
    reader->path = hrf_strdup(path);
    HRF_AUTO_FREE char *folder = hrf_path_directory(path);
    reader->access = H5Pcreate(H5P_DATASET_ACCESS);
    HRF_CHECK_MEMORY(reader->path != NULL && folder != NULL && reader->access >= 0 &&
                         H5Pset_efile_prefix(reader->access, folder) >= 0,
                     err, "no memory to read '%s'", path);
    if (reader->file < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is no HDF5 file, or it is cut short; copy it again", path);
    HRF_MOVE(*out, reader);
    return HRF_OK;
}

char hrf_hdf5_kind(const struct hrf_hdf5_reader *reader, const char *name)
{
    const hid_t object = H5Lexists(reader->file, name, H5P_DEFAULT) > 0
                             ? H5Oopen(reader->file, name, H5P_DEFAULT)
                             : H5I_INVALID_HID;
    if (object < 0)
        return 0;
    const H5I_type_t type = H5Iget_type(object);
    H5Oclose(object);
    return type == H5I_DATASET ? 'd' : type == H5I_GROUP ? 'g' : 0;
}

int64_t hrf_hdf5_members(const struct hrf_hdf5_reader *reader, const char *group, char *name,
                         size_t size)
{
    H5G_info_t info;
    name[0] = '\0';
    if (H5Gget_info_by_name(reader->file, group, &info, H5P_DEFAULT) < 0 || info.nlinks == 0)
        return 0;
    const ssize_t n = H5Lget_name_by_idx(reader->file, group, H5_INDEX_NAME, H5_ITER_INC, 0, name,
                                         size, H5P_DEFAULT);
    if (n < 0 || (size_t)n >= size)
        name[0] = '\0';
    return (int64_t)info.nlinks;
}

/* ---- numbers that are in other files ---- */

/* Where a run's embeddings are, seen from its bags (schema/store/embeddings.h). Nothing else is
 * opened on the word of an HDF5 file. */
static bool is_embeddings(const char *name)
{
    static const char start[] = "../../embeddings/";
    const size_t n = sizeof start - 1;
    return strncmp(name, start, n) == 0 && strspn(name + n, "0123456789abcdef") == 64 &&
           name[n + 64] == '\0';
}

/* How many bytes of one of these files are there. HRF_E_USER: it is not one that may be opened, or
 * is cut short. */
static enum hrf_status count_part(const struct hrf_hdf5_reader *reader, const char *name,
                                  int64_t claimed, struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = hrf_path_directory(reader->path);
    HRF_AUTO_FREE char *path = folder != NULL ? hrf_path_join(folder, name) : NULL;
    if (!is_embeddings(name))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' keeps its numbers in another file, '%.200s': save it as one",
                             reader->path, name);
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    const int64_t found = hrf_path_exists(path) ? hrf_path_size(path) : -1;
    if (found >= claimed)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         found < 0 ? "'%s' belongs to '%s', which is missing; 'hires-flow run' "
                                     "computes it again"
                                   : "'%s' belongs to '%s', which is cut short; remove it, and "
                                     "'hires-flow run' computes it again",
                         reader->path, path);
}

/* Checks every file in which the numbers of a data set are; *n_bytes is of all. 0: they are in the
 * HDF5 file. */
static enum hrf_status check_parts(const struct hrf_hdf5_reader *reader, hid_t set, double *n_bytes,
                                   struct hrf_error *err)
{
    const hid_t layout = H5Dget_create_plist(set);
    const int n = layout >= 0 ? H5Pget_external_count(layout) : 0;
    enum hrf_status status = HRF_OK;
    *n_bytes = 0;
    for (int i = 0; i < n && status == HRF_OK; i++) {
        char name[128] = "";
        off_t offset = 0;
        hsize_t size = 0;
        if (H5Pget_external(layout, (unsigned)i, sizeof name - 1, name, &offset, &size) < 0 ||
            offset != 0 || size > INT64_MAX)
            status = hrf_error_set(err, HRF_E_USER, "'%s' is damaged", reader->path);
        else
            status = count_part(reader, name, (int64_t)size, err);
        *n_bytes += (double)size;
    }
    if (layout >= 0)
        H5Pclose(layout);
    return status;
}

/* ---- tables ---- */

enum hrf_status hrf_hdf5_table_size(const struct hrf_hdf5_reader *reader, const char *name,
                                    int64_t *rows, int64_t *columns, struct hrf_error *err)
{
    hsize_t size[2] = { 0, 0 };
    const hid_t set = hrf_hdf5_kind(reader, name) == 'd' ? H5Dopen2(reader->file, name, H5P_DEFAULT)
                                                         : H5I_INVALID_HID;
    const hid_t space = set >= 0 ? H5Dget_space(set) : H5I_INVALID_HID;
    double stored = set >= 0 ? (double)H5Dget_storage_size(set) : 0, elsewhere = 0;
    const bool is_table = space >= 0 && H5Sget_simple_extent_ndims(space) == 2 &&
                          H5Sget_simple_extent_dims(space, size, NULL) == 2;
    const enum hrf_status status = is_table ? check_parts(reader, set, &elsewhere, err) : HRF_OK;
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
    HRF_TRY(status);
    if (!is_table)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no table of numbers '%s'", reader->path,
                             name);
    const double claimed = (double)size[0] * (double)size[1] * sizeof(float);
    const double there = elsewhere > 0 ? elsewhere : (double)reader->n_bytes;
    if (elsewhere > 0)
        stored = elsewhere / MOST_EXPANSION; /* as it is, not compressed */
    if (stored > there || claimed > stored * MOST_EXPANSION)
        return hrf_error_set(
            err, HRF_E_USER,
            "'%s': '%s' claims to be %llu x %llu numbers in %.0f bytes of a file of "
            "%.0f: it is damaged or cut short",
            reader->path, name, (unsigned long long)size[0], (unsigned long long)size[1], stored,
            there);
    *rows = (int64_t)size[0];
    *columns = (int64_t)size[1];
    return HRF_OK;
}

static enum hrf_status read_all(const struct hrf_hdf5_reader *reader, const char *name, hid_t type,
                                void *out, struct hrf_error *err)
{
    const hid_t set = H5Dopen2(reader->file, name, reader->access);
    const bool is_read = set >= 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
    if (set >= 0)
        H5Dclose(set);
    return is_read ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER,
                                   "'%s': '%s' cannot be read: it is damaged or cut short, or "
                                   "holds no numbers",
                                   reader->path, name);
}

enum hrf_status hrf_hdf5_read_floats(const struct hrf_hdf5_reader *reader, const char *name,
                                     float *out, struct hrf_error *err)
{
    return read_all(reader, name, H5T_NATIVE_FLOAT, out, err);
}

enum hrf_status hrf_hdf5_read_doubles(const struct hrf_hdf5_reader *reader, const char *name,
                                      double *out, struct hrf_error *err)
{
    return read_all(reader, name, H5T_NATIVE_DOUBLE, out, err);
}

/* ---- attributes ---- */

struct attribute {
    hid_t id, type, space;
    int64_t n; /* numbers or texts; 0: there is no such attribute */
};

static void attribute_close(struct attribute *a)
{
    if (a->space >= 0)
        H5Sclose(a->space);
    if (a->type >= 0)
        H5Tclose(a->type);
    if (a->id >= 0)
        H5Aclose(a->id);
}

static struct attribute attribute_open(const struct hrf_hdf5_reader *reader, const char *object,
                                       const char *key)
{
    struct attribute a = { H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID, 0 };
    if ((strcmp(object, "/") != 0 && hrf_hdf5_kind(reader, object) == 0) ||
        H5Aexists_by_name(reader->file, object, key, H5P_DEFAULT) <= 0)
        return a;
    a.id = H5Aopen_by_name(reader->file, object, key, H5P_DEFAULT, H5P_DEFAULT);
    a.type = a.id >= 0 ? H5Aget_type(a.id) : H5I_INVALID_HID;
    a.space = a.id >= 0 ? H5Aget_space(a.id) : H5I_INVALID_HID;
    const hssize_t n = a.space >= 0 ? H5Sget_simple_extent_npoints(a.space) : 0;
    a.n = a.type >= 0 && n > 0 ? (int64_t)n : 0;
    return a;
}

static bool read_variable_text(const struct attribute *a, char *out, size_t size)
{
    char *text = NULL;
    const hid_t memory = H5Tget_native_type(a->type, H5T_DIR_DEFAULT);
    const bool is_read = memory >= 0 && H5Aread(a->id, memory, &text) >= 0 && text != NULL;
    if (memory >= 0)
        H5Tclose(memory);
    if (is_read)
        hrf_text_show(text, out, size);
    H5free_memory(text);
    return is_read;
}

bool hrf_hdf5_text(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                   char *out, size_t size)
{
    char fixed[256] = "";
    struct attribute a = attribute_open(reader, object, key);
    bool is_read = a.n == 1 && H5Tget_class(a.type) == H5T_STRING;
    if (is_read && H5Tis_variable_str(a.type) > 0) {
        is_read = read_variable_text(&a, out, size);
    } else if (is_read) {
        is_read = H5Tget_size(a.type) < sizeof fixed && H5Aread(a.id, a.type, fixed) >= 0;
        if (is_read)
            hrf_text_show(fixed, out, size);
    }
    attribute_close(&a);
    return is_read;
}

int64_t hrf_hdf5_numbers(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                         double *out, int64_t most)
{
    double values[MOST_NUMBERS];
    struct attribute a = attribute_open(reader, object, key);
    const H5T_class_t class = a.n > 0 ? H5Tget_class(a.type) : H5T_NO_CLASS;
    int64_t n = class == H5T_INTEGER || class == H5T_FLOAT ? a.n : 0;
    if (n > MOST_NUMBERS || (n > 0 && H5Aread(a.id, H5T_NATIVE_DOUBLE, values) < 0))
        n = 0;
    for (int64_t i = 0; i < n && i < most; i++)
        out[i] = values[i];
    attribute_close(&a);
    return n;
}
