/* hdf5_reader.c - reading with the HDF5 library (hdf5_reader.h). */
#include "schema/hdf5/hdf5_reader.h"

#include "base/file.h"
#include "base/path.h"
#include "base/text.h"

#include <hdf5.h>
#include <stdio.h>
#include <string.h>

/* Deflate makes a byte of at most 1032; a float of half a one is twice as long. */
enum { MAX_EXPANSION = 2 * 1032, MAX_NUMBERS = 4096 };

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
    H5Lunregister(H5L_TYPE_EXTERNAL);      /* links into other files are not followed */
    HRF_TRY(hrf_file_check(path, err));
    HRF_AUTO(hrf_hdf5_reader) reader = hrf_calloc(1, sizeof *reader);
    reader->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    reader->n_bytes = hrf_path_size(path);
    reader->path = hrf_strdup(path);
    HRF_AUTO_FREE char *folder = hrf_path_directory(path);
    reader->access = H5Pcreate(H5P_DATASET_ACCESS);
    HRF_CHECK_MEMORY(reader->access >= 0 && H5Pset_efile_prefix(reader->access, folder) >= 0, err,
                     "no memory to read '%s'", path);
    if (reader->file < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is no HDF5 file, or it is cut short; copy it again", path);
    HRF_MOVE(*out, reader);
    return HRF_OK;
}

const char *hrf_hdf5_reader_path(const struct hrf_hdf5_reader *reader)
{
    return reader->path;
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

enum hrf_status hrf_hdf5_check_inside(const struct hrf_hdf5_reader *reader, const char *name,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char *part = hrf_strdup(name);
    for (char *at = part; at != NULL;) { /* "a", "a/b", "a/b/c" */
        H5L_info_t info;
        at = strchr(at + (*at == '/'), '/');
        if (at != NULL)
            *at = '\0';
        if (part[0] != '\0' && H5Lget_info(reader->file, part, &info, H5P_DEFAULT) >= 0 &&
            info.type == H5L_TYPE_EXTERNAL)
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s': '%s' is a link into another file, which is not followed: "
                                 "save it as one",
                                 reader->path, part);
        if (at != NULL)
            *at = '/';
    }
    return HRF_OK;
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
    HRF_AUTO_FREE char *path = hrf_path_join(folder, name);
    if (!is_embeddings(name))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' keeps its numbers in another file, '%.200s': save it as one",
                             reader->path, name);
    if (hrf_path_exists(path))
        HRF_TRY(hrf_file_check(path, err));
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
static enum hrf_status check_parts(const struct hrf_hdf5_reader *reader, hid_t layout,
                                   double *n_bytes, struct hrf_error *err)
{
    const int n = H5Pget_external_count(layout);
    *n_bytes = 0;
    for (int i = 0; i < n; i++) {
        char name[128] = "";
        off_t offset = 0;
        hsize_t size = 0;
        if (H5Pget_external(layout, (unsigned)i, sizeof name - 1, name, &offset, &size) < 0 ||
            offset != 0 || size > INT64_MAX)
            return hrf_error_set(err, HRF_E_USER, "'%s' is damaged", reader->path);
        HRF_TRY(count_part(reader, name, (int64_t)size, err));
        *n_bytes += (double)size;
    }
    return HRF_OK;
}

/* ---- tables ---- */

/* A plain number. A damaged type can claim to be gigabytes long, for which HDF5 takes memory; text
 * and truth values (an enumeration) become numbers when they are read, or are left as they are. */
static bool is_number(hid_t type)
{
    const H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    return (class == H5T_INTEGER || class == H5T_FLOAT) && H5Tget_size(type) <= sizeof(long double);
}

/* HRF_E_USER: not all blocks (chunks) of the data set are in the file, or they are too large to be
 * those of such a table. */
static enum hrf_status check_blocks(const struct hrf_hdf5_reader *reader, const char *name,
                                    hid_t set, hid_t layout, const hsize_t size[2],
                                    struct hrf_error *err)
{
    enum { MAX_BLOCK_NUMBERS = 1 << 28 };
    hsize_t block[2] = { 0, 0 }, n_written = 0;
    const hid_t all = H5Dget_space(set);
    const bool is_read = H5Pget_chunk(layout, 2, block) == 2 && block[0] > 0 && block[1] > 0 &&
                         H5Dget_num_chunks(set, all, &n_written) >= 0;
    H5Sclose(all);
    if (!is_read || block[0] > MAX_BLOCK_NUMBERS / block[1])
        return hrf_error_set(
            err, HRF_E_USER, "'%s': '%s' is stored in blocks of %llu x %llu numbers: it is damaged",
            reader->path, name, (unsigned long long)block[0], (unsigned long long)block[1]);
    const hsize_t n = ((size[0] + block[0] - 1) / block[0]) * ((size[1] + block[1] - 1) / block[1]);
    if (n_written >= n)
        return HRF_OK;
    return hrf_error_set(
        err, HRF_E_USER,
        "'%s': of the %llu blocks of '%s' only %llu were written: the program that "
        "made it did not finish; make it again",
        reader->path, (unsigned long long)n, name, (unsigned long long)n_written);
}

/* Checks a table of `size`; `layout` is how it is stored. */
static enum hrf_status check_table(const struct hrf_hdf5_reader *reader, const char *name,
                                   hid_t set, hid_t layout, const hsize_t size[2],
                                   struct hrf_error *err)
{
    const double claimed = (double)size[0] * (double)size[1] * sizeof(float);
    double stored = (double)H5Dget_storage_size(set), elsewhere = 0;
    if (H5Pget_layout(layout) == H5D_VIRTUAL)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': '%s' is put together from other files: save it as one",
                             reader->path, name);
    HRF_TRY(check_parts(reader, layout, &elsewhere, err));
    const double there = elsewhere > 0 ? elsewhere : (double)reader->n_bytes;
    if (elsewhere > 0)
        stored = elsewhere / MAX_EXPANSION; /* as it is, not compressed */
    if (stored > there || claimed > stored * MAX_EXPANSION)
        return hrf_error_set(
            err, HRF_E_USER,
            "'%s': '%s' claims to be %llu x %llu numbers in %.0f bytes of a file of "
            "%.0f: it is damaged or cut short",
            reader->path, name, (unsigned long long)size[0], (unsigned long long)size[1], stored,
            there);
    return H5Pget_layout(layout) == H5D_CHUNKED ? check_blocks(reader, name, set, layout, size, err)
                                                : HRF_OK;
}

enum hrf_status hrf_hdf5_table_size(const struct hrf_hdf5_reader *reader, const char *name,
                                    int64_t *rows, int64_t *columns, struct hrf_error *err)
{
    hsize_t size[2] = { 0, 0 };
    const hid_t set = hrf_hdf5_kind(reader, name) == 'd' ? H5Dopen2(reader->file, name, H5P_DEFAULT)
                                                         : H5I_INVALID_HID;
    const hid_t space = set >= 0 ? H5Dget_space(set) : H5I_INVALID_HID;
    const hid_t type = set >= 0 ? H5Dget_type(set) : H5I_INVALID_HID;
    const hid_t layout = set >= 0 ? H5Dget_create_plist(set) : H5I_INVALID_HID;
    const bool is_table = is_number(type) && space >= 0 && layout >= 0 &&
                          H5Sget_simple_extent_ndims(space) == 2 &&
                          H5Sget_simple_extent_dims(space, size, NULL) == 2;
    const enum hrf_status status = is_table ? check_table(reader, name, set, layout, size, err)
                                            : hrf_error_set(err, HRF_E_USER,
                                                            "'%s' has no table of numbers '%s'",
                                                            reader->path, name);
    if (layout >= 0)
        H5Pclose(layout);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
    HRF_TRY(status);
    *rows = (int64_t)size[0];
    *columns = (int64_t)size[1];
    return HRF_OK;
}

static enum hrf_status read_rows(const struct hrf_hdf5_reader *reader, const char *name, hid_t type,
                                 int64_t first, int64_t n, int64_t columns, void *out,
                                 struct hrf_error *err)
{
    const hid_t set = H5Dopen2(reader->file, name, reader->access);
    const hid_t space = set >= 0 ? H5Dget_space(set) : H5I_INVALID_HID;
    hsize_t start[2] = { (hsize_t)first, 0 }, count[2] = { 0, 0 };
    bool is_read = space >= 0 && H5Sget_simple_extent_ndims(space) == 2 &&
                   H5Sget_simple_extent_dims(space, count, NULL) == 2 &&
                   count[1] == (hsize_t)columns;
    count[0] = (hsize_t)n;
    const hid_t memory = is_read ? H5Screate_simple(2, count, NULL) : H5I_INVALID_HID;
    is_read = memory >= 0 &&
              H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              H5Dread(set, type, memory, space, H5P_DEFAULT, out) >= 0;
    if (memory >= 0)
        H5Sclose(memory);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
    return is_read ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER,
                                   "'%s': '%s' cannot be read: it is damaged or cut short, or "
                                   "holds no numbers",
                                   reader->path, name);
}

enum hrf_status hrf_hdf5_read_floats(const struct hrf_hdf5_reader *reader, const char *name,
                                     int64_t first, int64_t n, int64_t columns, float *out,
                                     struct hrf_error *err)
{
    return read_rows(reader, name, H5T_NATIVE_FLOAT, first, n, columns, out, err);
}

enum hrf_status hrf_hdf5_read_doubles(const struct hrf_hdf5_reader *reader, const char *name,
                                      int64_t first, int64_t n, int64_t columns, double *out,
                                      struct hrf_error *err)
{
    return read_rows(reader, name, H5T_NATIVE_DOUBLE, first, n, columns, out, err);
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
        hrf_text_escape(text, out, size);
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
            hrf_text_escape(fixed, out, size);
    }
    attribute_close(&a);
    return is_read;
}

int64_t hrf_hdf5_numbers(const struct hrf_hdf5_reader *reader, const char *object, const char *key,
                         double *out, int64_t max)
{
    double values[MAX_NUMBERS];
    struct attribute a = attribute_open(reader, object, key);
    int64_t n = a.n > 0 && is_number(a.type) ? a.n : 0;
    if (n > MAX_NUMBERS || (n > 0 && H5Aread(a.id, H5T_NATIVE_DOUBLE, values) < 0))
        n = 0;
    for (int64_t i = 0; i < n && i < max; i++)
        out[i] = values[i];
    attribute_close(&a);
    return n;
}
