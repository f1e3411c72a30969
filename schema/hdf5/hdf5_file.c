/* hdf5_file.c - an HDF5 file made in memory by the HDF5 library's core driver. */
#include "schema/hdf5/hdf5_file.h"

#include "base/file.h"

#include <hdf5.h>
#include <stdbool.h>
#include <string.h>

enum { GROWTH_BYTES = 1 << 20, CHUNK_BYTES = 1 << 18, DEFLATE_LEVEL = 1 };

struct hrf_hdf5_file {
    hid_t file, float16;
    const char *failed; /* what could not be made; NULL: nothing */
};

static const size_t sizes[] = {
    [HRF_HDF5_INT32] = 4, [HRF_HDF5_INT64] = 8, [HRF_HDF5_FLOAT16] = 2, [HRF_HDF5_FLOAT32] = 4
};

size_t hrf_hdf5_type_size(enum hrf_hdf5_type type)
{
    return sizes[type];
}

static void note(struct hrf_hdf5_file *file, bool is_good, const char *what)
{
    if (!is_good && file->failed == NULL)
        file->failed = what;
}

/* IEEE 754 binary16 as NumPy describes it. */
static hid_t make_float16(void)
{
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    if (type < 0 || H5Tset_fields(type, 15, 10, 5, 0, 10) < 0 || H5Tset_size(type, 2) < 0 ||
        H5Tset_ebias(type, 15) < 0)
        return H5I_INVALID_HID;
    return type;
}

static hid_t create_in_memory(void)
{
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file = H5I_INVALID_HID;
    if (access >= 0 && H5Pset_fapl_core(access, GROWTH_BYTES, false) >= 0)
        file = H5Fcreate("features", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (access >= 0)
        H5Pclose(access);
    return file;
}

enum hrf_status hrf_hdf5_file_create(struct hrf_hdf5_file **out, struct hrf_error *err)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are returned, not printed */
    struct hrf_hdf5_file *file = hrf_calloc(1, sizeof *file);
    HRF_CHECK_MEMORY(file != NULL, err, "no memory for an HDF5 file");
    file->float16 = make_float16();
    file->file = create_in_memory();
    note(file, file->float16 >= 0, "the type float16");
    note(file, file->file >= 0, "the file");
    *out = file;
    return HRF_OK;
}

void hrf_hdf5_file_destroy(struct hrf_hdf5_file *file)
{
    if (file == NULL)
        return;
    if (file->float16 >= 0)
        H5Tclose(file->float16);
    if (file->file >= 0)
        H5Fclose(file->file);
    hrf_free(file);
}

static hid_t type_of(const struct hrf_hdf5_file *file, enum hrf_hdf5_type type)
{
    switch (type) {
    case HRF_HDF5_INT32:
        return H5T_STD_I32LE;
    case HRF_HDF5_INT64:
        return H5T_STD_I64LE;
    case HRF_HDF5_FLOAT16:
        return file->float16;
    case HRF_HDF5_FLOAT32:
        break;
    }
    return H5T_IEEE_F32LE;
}

/* How a data set is stored: whole rows to a chunk, compressed, without times. */
static hid_t make_layout(enum hrf_hdf5_type type, int64_t n, int64_t width)
{
    const int64_t row = width * (int64_t)sizes[type];
    const int64_t fit = CHUNK_BYTES / row > 0 ? CHUNK_BYTES / row : 1;
    const hsize_t chunk[2] = { (hsize_t)(fit < n ? fit : n), (hsize_t)width };
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    bool is_good = layout >= 0 && H5Pset_obj_track_times(layout, false) >= 0;
    if (n > 0) /* chunks of no row are not allowed */
        is_good = is_good && H5Pset_chunk(layout, 2, chunk) >= 0 && H5Pset_shuffle(layout) >= 0 &&
                  H5Pset_deflate(layout, DEFLATE_LEVEL) >= 0;
    if (is_good)
        return layout;
    if (layout >= 0)
        H5Pclose(layout);
    return H5I_INVALID_HID;
}

/* Groups on the way are made, without times. */
static hid_t make_links(void)
{
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    if (links >= 0)
        H5Pset_create_intermediate_group(links, 1);
    return links;
}

void hrf_hdf5_add_rows(struct hrf_hdf5_file *file, const char *name, enum hrf_hdf5_type type,
                       int64_t n, int64_t width, const void *values)
{
    if (file->failed != NULL)
        return;
    const hid_t number = type_of(file, type);
    const hsize_t size[2] = { (hsize_t)n, (hsize_t)width };
    const hid_t space = H5Screate_simple(2, size, NULL), layout = make_layout(type, n, width);
    const hid_t links = make_links();
    hid_t set = H5I_INVALID_HID;
    if (space >= 0 && layout >= 0 && links >= 0)
        set = H5Dcreate2(file->file, name, number, space, links, layout, H5P_DEFAULT);
    bool is_good = set >= 0;
    if (is_good && n > 0)
        is_good = H5Dwrite(set, number, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    note(file, is_good, "a data set");
    if (set >= 0)
        note(file, H5Dclose(set) >= 0, "a data set");
    if (links >= 0)
        H5Pclose(links);
    if (layout >= 0)
        H5Pclose(layout);
    if (space >= 0)
        H5Sclose(space);
}

static void set_attribute(struct hrf_hdf5_file *file, const char *name, const char *key, hid_t type,
                          const void *value)
{
    if (file->failed != NULL)
        return;
    const hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5I_INVALID_HID;
    if (space >= 0)
        attribute = H5Acreate_by_name(file->file, name, key, type, space, H5P_DEFAULT, H5P_DEFAULT,
                                      H5P_DEFAULT);
    note(file, attribute >= 0 && H5Awrite(attribute, type, value) >= 0, "an attribute");
    if (attribute >= 0)
        H5Aclose(attribute);
    if (space >= 0)
        H5Sclose(space);
}

/* Of variable length and in UTF-8, as h5py writes and reads text. */
void hrf_hdf5_set_text(struct hrf_hdf5_file *file, const char *name, const char *key,
                       const char *text)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    const bool is_good = type >= 0 && H5Tset_size(type, H5T_VARIABLE) >= 0 &&
                         H5Tset_cset(type, H5T_CSET_UTF8) >= 0;
    note(file, is_good, "an attribute");
    set_attribute(file, name, key, type, &text);
    if (type >= 0)
        H5Tclose(type);
}

void hrf_hdf5_set_int(struct hrf_hdf5_file *file, const char *name, const char *key, int64_t value)
{
    set_attribute(file, name, key, H5T_STD_I64LE, &value);
}

void hrf_hdf5_set_real(struct hrf_hdf5_file *file, const char *name, const char *key, double value)
{
    set_attribute(file, name, key, H5T_IEEE_F64LE, &value);
}

enum hrf_status hrf_hdf5_file_write(struct hrf_hdf5_file *file, const char *path,
                                    struct hrf_error *err)
{
    ssize_t n_bytes = -1;
    if (file->failed == NULL && H5Fflush(file->file, H5F_SCOPE_GLOBAL) >= 0)
        n_bytes = H5Fget_file_image(file->file, NULL, 0);
    if (n_bytes <= 0)
        return hrf_error_set(err, HRF_E_NOMEM, "the HDF5 library cannot make %s of '%s'",
                             file->failed != NULL ? file->failed : "the bytes", path);
    HRF_AUTO_FREE char *bytes = hrf_alloc((size_t)n_bytes);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for the %lld bytes of '%s'", (long long)n_bytes,
                     path);
    if (H5Fget_file_image(file->file, bytes, (size_t)n_bytes) != n_bytes)
        return hrf_error_set(err, HRF_E_NOMEM, "the HDF5 library cannot give the bytes of '%s'",
                             path);
    return hrf_file_write_atomic(path, bytes, (size_t)n_bytes, err);
}
