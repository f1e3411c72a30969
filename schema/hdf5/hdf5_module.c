/* hdf5_module.c - what hrf_hdf5.so exports (hdf5_calls.h). */
#include "base/module.h"
#include "module_builds.h"
#include "schema/hdf5/hdf5_calls.h"

#include <hdf5.h>
#include <stdio.h>

static void version(char *out, size_t size)
{
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    snprintf(out, size, "%u.%u.%u", major, minor, release);
}

static const struct hrf_hdf5_calls operations = {
    .file_create = hrf_hdf5_file_create,
    .file_destroy = hrf_hdf5_file_destroy,
    .begin_rows = hrf_hdf5_begin_rows,
    .append_rows = hrf_hdf5_append_rows,
    .end_rows = hrf_hdf5_end_rows,
    .refer_rows = hrf_hdf5_refer_rows,
    .set_text = hrf_hdf5_set_text,
    .set_int = hrf_hdf5_set_int,
    .set_real = hrf_hdf5_set_real,
    .file_write = hrf_hdf5_file_write,
    .reader_open = hrf_hdf5_reader_open,
    .reader_close = hrf_hdf5_reader_close,
    .reader_path = hrf_hdf5_reader_path,
    .kind = hrf_hdf5_kind,
    .check_inside = hrf_hdf5_check_inside,
    .members = hrf_hdf5_members,
    .table_size = hrf_hdf5_table_size,
    .read_floats = hrf_hdf5_read_floats,
    .read_doubles = hrf_hdf5_read_doubles,
    .text = hrf_hdf5_text,
    .numbers = hrf_hdf5_numbers,
    .version = version,
};

extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .build = HRF_BUILD_HDF5, .operations = &operations };
