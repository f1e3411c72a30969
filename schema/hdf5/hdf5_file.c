/* hdf5_file.c - an HDF5 file written beside its place by the HDF5 library, in chunks. */
#include "schema/hdf5/hdf5_file.h"

#include "base/file.h"

#include <assert.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 18, DEFLATE_LEVEL = 1 };

struct hrf_hdf5_file {
    char *path, *temporary;
    hid_t file, float16;
    const char *failed; /* what could not be made; NULL: nothing */
    int native;         /* errno of that, as far as the library tells; 0: it does not */
    /* The data set that is being filled. */
    hid_t set, number;
    int64_t n, width, at;
};

/* The library's errors of files end in "..., errno = 28, error message = ...". */
static herr_t find_errno(unsigned n, const H5E_error2_t *error, void *context)
{
    (void)n;
    const char *at = error->desc != NULL ? strstr(error->desc, "errno = ") : NULL;
    if (at != NULL)
        *(int *)context = (int)strtol(at + strlen("errno = "), NULL, 10);
    return 0;
}

/* To be called before the library's next call, which forgets why this one failed. */
static void note(struct hrf_hdf5_file *file, bool is_good, const char *what)
{
    if (is_good || file->failed != NULL)
        return;
    file->failed = what;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, find_errno, &file->native);
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

enum hrf_status hrf_hdf5_file_create(const char *path, struct hrf_hdf5_file **out,
                                     struct hrf_error *err)
{
    int fd = -1;
    H5dont_atexit(); /* a file that a full disk left half written would be tried again at the end */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are returned, not printed */
    HRF_AUTO(hrf_hdf5_file) file = hrf_calloc(1, sizeof *file);
    file->file = file->float16 = file->set = H5I_INVALID_HID;
    file->path = hrf_strdup(path);
    HRF_TRY(hrf_file_temporary(path, &file->temporary, &fd, err));
    close(fd); /* the library opens it by its name */
    file->file = H5Fcreate(file->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    note(file, file->file >= 0, "the file");
    file->float16 = make_float16();
    note(file, file->float16 >= 0, "the type float16");
    HRF_MOVE(*out, file);
    return HRF_OK;
}

/* False: not everything is on its way to the disk. */
static bool close_file(struct hrf_hdf5_file *file)
{
    if (file->set >= 0)
        note(file, H5Dclose(file->set) >= 0, "a data set");
    file->set = H5I_INVALID_HID;
    if (file->file >= 0)
        note(file, H5Fclose(file->file) >= 0, "the file");
    file->file = H5I_INVALID_HID;
    return file->failed == NULL;
}

void hrf_hdf5_file_destroy(struct hrf_hdf5_file *file)
{
    if (file == NULL)
        return;
    if (file->float16 >= 0)
        H5Tclose(file->float16);
    close_file(file);
    if (file->temporary != NULL)
        unlink(file->temporary);
    hrf_free(file->temporary);
    hrf_free(file->path);
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
    const int64_t row = width * (int64_t)hrf_hdf5_type_size(type);
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

static void create_set(struct hrf_hdf5_file *file, const char *name, hid_t layout)
{
    const hsize_t size[2] = { (hsize_t)file->n, (hsize_t)file->width };
    const hid_t space = H5Screate_simple(2, size, NULL), links = make_links();
    if (space >= 0 && layout >= 0 && links >= 0)
        file->set = H5Dcreate2(file->file, name, file->number, space, links, layout, H5P_DEFAULT);
    note(file, file->set >= 0, "a data set");
    if (links >= 0)
        H5Pclose(links);
    if (layout >= 0)
        H5Pclose(layout);
    if (space >= 0)
        H5Sclose(space);
}

void hrf_hdf5_begin_rows(struct hrf_hdf5_file *file, const char *name, enum hrf_hdf5_type type,
                         int64_t n, int64_t width)
{
    if (file->failed != NULL)
        return;
    assert(file->set < 0);
    file->number = type_of(file, type);
    file->n = n;
    file->width = width;
    file->at = 0;
    create_set(file, name, make_layout(type, n, width));
}

void hrf_hdf5_append_rows(struct hrf_hdf5_file *file, int64_t n, const void *values)
{
    if (file->failed != NULL || n == 0)
        return;
    assert(file->set >= 0 && file->at + n <= file->n);
    const hsize_t start[2] = { (hsize_t)file->at, 0 };
    const hsize_t count[2] = { (hsize_t)n, (hsize_t)file->width };
    const hid_t memory = H5Screate_simple(2, count, NULL), space = H5Dget_space(file->set);
    bool is_good = memory >= 0 && space >= 0 &&
                   H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0;
    is_good = is_good && H5Dwrite(file->set, file->number, memory, space, H5P_DEFAULT, values) >= 0;
    note(file, is_good, "a data set");
    file->at += n;
    if (space >= 0)
        H5Sclose(space);
    if (memory >= 0)
        H5Sclose(memory);
}

void hrf_hdf5_end_rows(struct hrf_hdf5_file *file)
{
    if (file->failed != NULL)
        return;
    assert(file->set >= 0 && file->at == file->n);
    note(file, H5Dclose(file->set) >= 0, "a data set");
    file->set = H5I_INVALID_HID;
}

/* ---- rows that are in other files ---- */

static hid_t make_external(const struct hrf_hdf5_part *parts, size_t n_parts)
{
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    bool is_good = layout >= 0 && H5Pset_obj_track_times(layout, false) >= 0;
    for (size_t i = 0; i < n_parts && is_good; i++)
        is_good = H5Pset_external(layout, parts[i].path, 0, (hsize_t)parts[i].n_bytes) >= 0;
    if (is_good)
        return layout;
    if (layout >= 0)
        H5Pclose(layout);
    return H5I_INVALID_HID;
}

void hrf_hdf5_refer_rows(struct hrf_hdf5_file *file, const char *name, int64_t n, int64_t width,
                         const struct hrf_hdf5_part *parts, size_t n_parts)
{
    if (file->failed != NULL)
        return;
    assert(file->set < 0);
    file->number = H5T_IEEE_F32LE;
    file->n = file->at = n;
    file->width = width;
    create_set(file, name, make_external(parts, n_parts));
    hrf_hdf5_end_rows(file);
}

/* ---- attributes ---- */

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

enum hrf_status hrf_hdf5_file_write(struct hrf_hdf5_file *file, struct hrf_error *err)
{
    if (!close_file(file) && file->native != 0)
        return hrf_error_set_errno(err, file->native, "the HDF5 library cannot write %s of '%s'",
                                   file->failed, file->path);
    if (file->failed != NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "the HDF5 library cannot make %s of '%s'",
                             file->failed, file->path);
    const enum hrf_status status = hrf_file_commit(file->temporary, file->path, err);
    hrf_free(file->temporary);
    file->temporary = NULL;
    return status;
}
