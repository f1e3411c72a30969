/* features.c - the embeddings of a slide in the forms of other tools. */
#include "aggregate/features/features.h"

#include "base/file.h"
#include "base/float16.h"
#include "base/strbuf.h"
#include "schema/hdf5/hdf5_file.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const float max_half = 65504; /* the largest finite float16 */

const char *hrf_features_suffix(enum hrf_features_form form)
{
    return form == HRF_FEATURES_NPY ? ".npy" : ".h5";
}

/* ---- numbers ---- */

/* The values of patches from `first` on as float16. What does not fit is an error: infinity would
 * spoil every head that reads it. */
static enum hrf_status make_half(const float *values, int64_t first, int64_t n, int64_t width,
                                 uint16_t *out, struct hrf_error *err)
{
    for (int64_t i = 0; i < n * width; i++) {
        if (!(fabsf(values[i]) <= max_half))
            return hrf_error_set(
                err, HRF_E_USER,
                "number %lld of the embedding of patch %lld is %g, and float16 "
                "ends at 65504: set {features.type} to fp32, and {features.form} to "
                "another one than stamp",
                (long long)(i % width), (long long)(first + i / width), (double)values[i]);
        out[i] = hrf_half_from_float(values[i]);
    }
    return HRF_OK;
}

/* Where rows go: the data set of a file, or a file of rows alone. */
typedef enum hrf_status put_rows(void *to, int64_t n, int64_t width, size_t size,
                                 const void *values, struct hrf_error *err);

/* Hands on every row, in float16 or as it is. */
static enum hrf_status pass_rows(const struct hrf_features *f, bool is_half, put_rows *put,
                                 void *to, struct hrf_error *err)
{
    HRF_AUTO_FREE uint16_t *half = NULL;
    const float *values;
    int64_t at = 0, n = 0, room = 0;
    for (; at < f->plan->n_patches; at += n) {
        HRF_TRY(f->next(f->rows, &values, &n, err));
        if (n < 1 || at + n > f->plan->n_patches)
            return hrf_error_set(err, HRF_E_USER,
                                 "there are %lld embeddings for the %lld patches of its tile plan",
                                 (long long)(at + n), (long long)f->plan->n_patches);
        if (is_half && n > room) {
            hrf_free(half);
            half = hrf_try_alloc_array((size_t)(n * f->width), sizeof *half);
            room = half != NULL ? n : 0;
            HRF_CHECK_MEMORY(half != NULL, err, "no memory for %lld features", (long long)n);
        }
        if (is_half)
            HRF_TRY(make_half(values, at, n, f->width, half, err));
        HRF_TRY(put(to, n, f->width, is_half ? sizeof *half : sizeof *values,
                    is_half ? (const void *)half : (const void *)values, err));
    }
    return HRF_OK;
}

/* One number of a patch's coordinates. */
typedef double coordinate(const struct hrf_tile_plan *plan, int64_t patch, int column);

static double level0(const struct hrf_tile_plan *plan, int64_t patch, int column)
{
    return column == 0 ? plan->patches[patch].x : plan->patches[patch].y;
}

static double micrometres(const struct hrf_tile_plan *plan, int64_t patch, int column)
{
    return level0(plan, patch, column) * (column == 0 ? plan->mpp_x : plan->mpp_y);
}

/* x, y, width, height, level */
static double rectangle(const struct hrf_tile_plan *plan, int64_t patch, int column)
{
    if (column < 2)
        return level0(plan, patch, column);
    return column == 2 ? (double)plan->patch_width0 : column == 3 ? (double)plan->patch_height0 : 0;
}

static enum hrf_status add_coordinates(struct hrf_hdf5_file *file, const struct hrf_tile_plan *plan,
                                       enum hrf_hdf5_type type, int width, coordinate *value,
                                       struct hrf_error *err)
{
    const size_t size = hrf_hdf5_type_size(type);
    HRF_AUTO_FREE char *rows = hrf_try_alloc_array((size_t)(plan->n_patches * width) + 1, size);
    HRF_CHECK_MEMORY(rows != NULL, err, "no memory for the coordinates of %lld patches",
                     (long long)plan->n_patches);
    for (int64_t i = 0; i < plan->n_patches * width; i++) {
        const double v = value(plan, i / width, (int)(i % width));
        const int32_t narrow = (int32_t)v;
        const int64_t wide = (int64_t)v;
        const float real = (float)v;
        memcpy(rows + (size_t)i * size,
               type == HRF_HDF5_INT32   ? (const void *)&narrow
               : type == HRF_HDF5_INT64 ? (const void *)&wide
                                        : (const void *)&real,
               size);
    }
    hrf_hdf5_add_rows(file, "coords", type, plan->n_patches, width, rows);
    return HRF_OK;
}

/* What a form's embeddings are written from. */
struct numbers {
    const struct hrf_features *f;
    bool is_half;
    const struct hrf_hdf5_part *parts; /* where they stay; NULL: they are written */
    size_t n_parts;
};

static enum hrf_status put_in_set(void *to, int64_t n, int64_t width, size_t size,
                                  const void *values, struct hrf_error *err)
{
    (void)width, (void)size, (void)err;
    hrf_hdf5_append_rows(to, n, values);
    return HRF_OK;
}

static enum hrf_status add_features(struct hrf_hdf5_file *file, const struct numbers *numbers,
                                    const char *name, struct hrf_error *err)
{
    const struct hrf_features *f = numbers->f;
    const int64_t n = f->plan->n_patches;
    if (numbers->parts != NULL) {
        hrf_hdf5_refer_rows(file, name, n, f->width, numbers->parts, numbers->n_parts);
        return HRF_OK;
    }
    hrf_hdf5_begin_rows(file, name, numbers->is_half ? HRF_HDF5_FLOAT16 : HRF_HDF5_FLOAT32, n,
                        f->width);
    HRF_TRY(pass_rows(f, numbers->is_half, put_in_set, file, err));
    hrf_hdf5_end_rows(file);
    return HRF_OK;
}

/* ---- forms ---- */

/* Of an objective, as tools count it: 0.25 um/px is 40x. */
static int64_t magnification(double mpp)
{
    return mpp > 0 ? llround(10 / mpp) : 0;
}

/* What names the way in which the patches of all slides of a run were cut. */
static enum hrf_status hash_tiling(const struct hrf_tile_plan *plan, char out[HRF_HASH_HEX],
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, "hires-flow patches 1");
    hrf_hash_int(hash, plan->patch_size);
    hrf_hash_double(hash, plan->patch_mpp);
    hrf_hash_int(hash, plan->patch_stride);
    hrf_hash_text(hash, plan->tissue_method);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* The attributes that are ours, to the data set of the embeddings. */
static enum hrf_status describe(struct hrf_hdf5_file *file, const struct hrf_features *f,
                                const char *name, struct hrf_error *err)
{
    char tiling[HRF_HASH_HEX];
    HRF_TRY(hash_tiling(f->plan, tiling, err));
    if (f->precision != NULL)
        hrf_hdf5_set_text(file, name, "precision", f->precision);
    if (f->model != NULL)
        hrf_hdf5_set_text(file, name, "model_sha256", f->model);
    hrf_hdf5_set_text(file, name, "tiling", tiling);
    if (f->preparation.size > 0) {
        char text[96];
        snprintf(text, sizeof text, "resize:%lld,%s,crop:%lld", (long long)f->preparation.resize,
                 hrf_interpolation_names[f->preparation.interpolation],
                 (long long)f->preparation.size);
        hrf_hdf5_set_text(file, name, "preparation", text);
    }
    hrf_hdf5_set_text(file, name, "tile_plan", f->plan->hash);
    hrf_hdf5_set_real(file, name, "mpp", f->plan->patch_mpp);
    return HRF_OK;
}

static enum hrf_status fill_trident(struct hrf_hdf5_file *file, const struct numbers *numbers,
                                    struct hrf_error *err)
{
    const struct hrf_features *f = numbers->f;
    const struct hrf_tile_plan *plan = f->plan;
    const struct {
        const char *key;
        int64_t value;
    } facts[] = { { "patch_size", plan->patch_size },
                  { "patch_size_level0", plan->patch_width0 },
                  { "level0_magnification", magnification((plan->mpp_x + plan->mpp_y) / 2) },
                  { "target_magnification", magnification(plan->patch_mpp) },
                  { "overlap", plan->patch_size - plan->patch_stride },
                  { "level0_width", plan->width },
                  { "level0_height", plan->height } };
    HRF_TRY(add_features(file, numbers, "features", err));
    hrf_hdf5_set_text(file, "features", "name", f->slide);
    hrf_hdf5_set_text(file, "features", "savetodir", ".");
    hrf_hdf5_set_text(file, "features", "encoder", f->encoder);
    HRF_TRY(describe(file, f, "features", err));
    HRF_TRY(add_coordinates(file, plan, HRF_HDF5_INT64, 2, level0, err));
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        hrf_hdf5_set_int(file, "coords", facts[i].key, facts[i].value);
    hrf_hdf5_set_text(file, "coords", "name", f->slide);
    hrf_hdf5_set_text(file, "coords", "savetodir", ".");
    return HRF_OK;
}

static enum hrf_status fill_clam(struct hrf_hdf5_file *file, const struct numbers *numbers,
                                 struct hrf_error *err)
{
    HRF_TRY(add_features(file, numbers, "features", err));
    HRF_TRY(describe(file, numbers->f, "features", err));
    return add_coordinates(file, numbers->f->plan, HRF_HDF5_INT32, 2, level0, err);
}

static enum hrf_status fill_stamp(struct hrf_hdf5_file *file, const struct numbers *numbers,
                                  struct hrf_error *err)
{
    const struct hrf_features *f = numbers->f;
    const struct hrf_tile_plan *plan = f->plan;
    HRF_TRY(add_features(file, numbers, "feats", err));
    HRF_TRY(add_coordinates(file, plan, HRF_HDF5_FLOAT32, 2, micrometres, err));
    hrf_hdf5_set_text(file, "/", "stamp_version", "2.3.0"); /* whose form this is */
    hrf_hdf5_set_text(file, "/", "extractor", f->encoder);
    hrf_hdf5_set_text(file, "/", "unit", "um");
    hrf_hdf5_set_real(file, "/", "tile_size_um", (double)plan->patch_size * plan->patch_mpp);
    hrf_hdf5_set_int(file, "/", "tile_size_px", plan->patch_size);
    hrf_hdf5_set_text(file, "/", "code_hash", plan->hash);
    hrf_hdf5_set_text(file, "/", "feat_type", "tile");
    return describe(file, f, "feats", err);
}

static enum hrf_status fill_atlaspatch(struct hrf_hdf5_file *file, const struct numbers *numbers,
                                       struct hrf_error *err)
{
    const struct hrf_features *f = numbers->f;
    HRF_AUTO_FREE char *name = hrf_format("features/%s", f->encoder);
    HRF_TRY(add_features(file, numbers, name, err));
    HRF_TRY(add_coordinates(file, f->plan, HRF_HDF5_INT32, 5, rectangle, err));
    hrf_hdf5_set_int(file, "/", "patch_size", f->plan->patch_size);
    hrf_hdf5_set_int(file, "/", "patch_size_level0", f->plan->patch_width0);
    return describe(file, f, name, err);
}

/* A file of rows alone, as it is streamed. */
struct plain_file {
    int fd;
    const char *path;
};

static enum hrf_status put_in_file(void *to, int64_t n, int64_t width, size_t size,
                                   const void *values, struct hrf_error *err)
{
    const struct plain_file *file = to;
    return hrf_file_write_all(file->fd, values, (size_t)(n * width) * size, file->path, err);
}

/* The header is padded so that the numbers begin at a multiple of 64 bytes. Source: NumPy's
 * numpy.lib.format, version 1.0. */
static enum hrf_status fill_npy(const struct numbers *numbers, struct plain_file *file,
                                struct hrf_error *err)
{
    enum { START = 128 };
    char bytes[START], header[START];
    const struct hrf_features *f = numbers->f;
    const size_t size = numbers->is_half ? sizeof(uint16_t) : sizeof(float);
    memset(bytes, ' ', START);
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10); /* 118 bytes of header follow */
    const int n = snprintf(header, sizeof header,
                           "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%lld, %lld), }",
                           size, (long long)f->plan->n_patches, (long long)f->width);
    assert(n > 0 && n < START - 11);
    memcpy(bytes + 10, header, (size_t)n);
    bytes[START - 1] = '\n';
    HRF_TRY(hrf_file_write_all(file->fd, bytes, START, file->path, err));
    return pass_rows(f, numbers->is_half, put_in_file, file, err);
}

static enum hrf_status write_npy(const struct numbers *numbers, const char *path,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *temporary = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    HRF_TRY(hrf_file_temporary(path, &temporary, &fd, err));
    struct plain_file file = { fd, temporary };
    const enum hrf_status status = fill_npy(numbers, &file, err);
    if (status == HRF_OK)
        return hrf_file_commit(temporary, path, err);
    unlink(temporary);
    return status;
}

static enum hrf_status write_hdf5(enum hrf_features_form form, const struct numbers *numbers,
                                  const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_hdf5_file) file = NULL;
    HRF_TRY(hrf_hdf5_file_create(path, &file, err));
    switch (form) {
    case HRF_FEATURES_TRIDENT:
        HRF_TRY(fill_trident(file, numbers, err));
        break;
    case HRF_FEATURES_CLAM:
        HRF_TRY(fill_clam(file, numbers, err));
        break;
    case HRF_FEATURES_STAMP:
        HRF_TRY(fill_stamp(file, numbers, err));
        break;
    case HRF_FEATURES_ATLASPATCH:
        HRF_TRY(fill_atlaspatch(file, numbers, err));
        break;
    case HRF_FEATURES_NPY:
        return hrf_error_set(err, HRF_E_BUG, "form npy is no HDF5 file");
    }
    return hrf_hdf5_file_write(file, err);
}

enum hrf_status hrf_features_write(enum hrf_features_form form, bool is_half,
                                   const struct hrf_features *features, const char *path,
                                   struct hrf_error *err)
{
    if (is_half && (form == HRF_FEATURES_CLAM || form == HRF_FEATURES_ATLASPATCH))
        return hrf_error_set(err, HRF_E_USER,
                             "%s reads float32: set {features.type} to fp32, or {features.form} to "
                             "trident",
                             form == HRF_FEATURES_CLAM ? "CLAM" : "AtlasPatch");
    const struct numbers numbers = { .f = features,
                                     .is_half = is_half || form == HRF_FEATURES_STAMP };
    return form == HRF_FEATURES_NPY ? write_npy(&numbers, path, err)
                                    : write_hdf5(form, &numbers, path, err);
}

enum hrf_status hrf_features_refer(const struct hrf_features *features,
                                   const struct hrf_features_part *parts, size_t n_parts,
                                   const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_hdf5_file) file = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) hashes = HRF_STRBUF_INIT;
    HRF_AUTO_FREE struct hrf_hdf5_part *file_parts = hrf_alloc_array(n_parts + 1,
                                                                     sizeof *file_parts);
    for (size_t i = 0; i < n_parts; i++) {
        file_parts[i] = (struct hrf_hdf5_part){ parts[i].path, parts[i].n_bytes };
        hrf_strbuf_addf(&hashes, "%s%s", i > 0 ? " " : "", parts[i].sha256);
    }
    const struct numbers numbers = { .f = features, .parts = file_parts, .n_parts = n_parts };
    HRF_TRY(hrf_hdf5_file_create(path, &file, err));
    HRF_TRY(fill_trident(file, &numbers, err));
    hrf_hdf5_set_text(file, "features", "embeddings_sha256", hashes.text);
    return hrf_hdf5_file_write(file, err);
}
