/* coords_hdf5.c - the data set `coords` and its attributes. */
#include "tiler/coords/coords_private.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATCHES = 50 * 1000 * 1000 };

/* A scalar attribute, or the first of a list, of `coords` or of the file; NaN: none, or no number
 * ("None" as text is TRIDENT's word for what is not known). */
static double number_of(hid_t file, hid_t set, const char *key)
{
    double values[16] = { (double)NAN };
    const hid_t places[] = { set, file };
    for (int i = 0; i < 2; i++) {
        if (H5Aexists(places[i], key) <= 0)
            continue;
        const hid_t attribute = H5Aopen(places[i], key, H5P_DEFAULT);
        const hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
        const H5T_class_t class = H5Tget_class(type);
        const hssize_t n = H5Sget_simple_extent_npoints(space);
        const bool is_number = class == H5T_INTEGER || class == H5T_FLOAT;
        if (!is_number || n < 1 || n > 16 || H5Aread(attribute, H5T_NATIVE_DOUBLE, values) < 0)
            values[0] = (double)NAN;
        H5Sclose(space);
        H5Tclose(type);
        H5Aclose(attribute);
        break;
    }
    return values[0];
}

/* Whether the text attribute of the file is this word. */
static bool is_word(hid_t file, const char *key, const char *word)
{
    bool is_it = false;
    if (H5Aexists(file, key) <= 0)
        return false;
    const hid_t attribute = H5Aopen(file, key, H5P_DEFAULT), type = H5Aget_type(attribute);
    if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        const hid_t memory = H5Tcopy(H5T_C_S1);
        H5Tset_size(memory, H5T_VARIABLE);
        H5Tset_cset(memory, H5Tget_cset(type));
        if (H5Aread(attribute, memory, &text) >= 0 && text != NULL)
            is_it = strcmp(text, word) == 0;
        H5free_memory(text);
        H5Tclose(memory);
    } else if (H5Tget_class(type) == H5T_STRING && H5Tget_size(type) < 64) {
        char text[64] = "";
        is_it = H5Aread(attribute, type, text) >= 0 && strncmp(text, word, H5Tget_size(type)) == 0;
    }
    H5Tclose(type);
    H5Aclose(attribute);
    return is_it;
}

struct open_file {
    hid_t file, set;
    int64_t n, n_columns;
};

static void close_file(struct open_file *f)
{
    if (f->set >= 0)
        H5Dclose(f->set);
    if (f->file >= 0)
        H5Fclose(f->file);
}

static enum hrf_status open_rows(const char *path, struct open_file *f, struct hrf_error *err)
{
    hsize_t size[2] = { 0, 0 };
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    f->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (f->file < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is no HDF5 file, or it is cut short; copy it again", path);
    if (H5Lexists(f->file, "coords", H5P_DEFAULT) > 0)
        f->set = H5Dopen2(f->file, "coords", H5P_DEFAULT);
    if (f->set < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has no data set 'coords', which CLAM, TRIDENT, AtlasPatch, "
                             "WSInfer and STAMP write",
                             path);
    const hid_t space = H5Dget_space(f->set);
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank == 2)
        H5Sget_simple_extent_dims(space, size, NULL);
    H5Sclose(space);
    if (rank != 2 || (size[1] != 2 && size[1] != 5) || size[0] > MOST_PATCHES)
        return hrf_error_set(err, HRF_E_USER,
                             "'coords' in '%s' is %lld x %lld; it must be N x 2 (or N x 5 of "
                             "AtlasPatch)",
                             path, (long long)size[0], (long long)size[1]);
    f->n = (int64_t)size[0];
    f->n_columns = (int64_t)size[1];
    return HRF_OK;
}

/* A size that the file states has to be the slide's. */
static enum hrf_status check_size(const char *path, const struct hrf_slide_info *slide,
                                  double width, double height, double slack, struct hrf_error *err)
{
    if (isnan(width) || isnan(height) ||
        (fabs(width - (double)slide->width) <= slack &&
         fabs(height - (double)slide->height) <= slack))
        return HRF_OK;
    return hrf_error_set(
        err, HRF_E_USER,
        "'%s' is of a slide of %.0f x %.0f px, and this one has %lld x %lld: it is "
        "another slide's",
        path, width, height, (long long)slide->width, (long long)slide->height);
}

/* Of CLAM and WSInfer: the patch's side is in px of one level. */
static enum hrf_status side_at_level(const char *path, const struct hrf_slide_info *slide,
                                     const struct open_file *f, struct hrf_coords *out,
                                     struct hrf_error *err)
{
    const double level = number_of(f->file, f->set, "patch_level");
    const double side = number_of(f->file, f->set, "patch_size");
    if (!(level >= 0 && level < slide->n_levels && level == floor(level)))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has patches of level %g, and the slide has levels 0 to %d", path,
                             level, slide->n_levels - 1);
    out->form = isnan(number_of(f->file, f->set, "patch_spacing_um_px")) ? "clam" : "wsinfer";
    const double downsample = slide->level[(int)level].downsample;
    out->side0 = llround(side * downsample);
    /* CLAM states the size of the level, as width and height. */
    double size[2] = { (double)NAN, (double)NAN };
    if (H5Aexists(f->set, "level_dim") > 0) {
        const hid_t attribute = H5Aopen(f->set, "level_dim", H5P_DEFAULT);
        const hid_t space = H5Aget_space(attribute);
        if (H5Sget_simple_extent_npoints(space) == 2)
            H5Aread(attribute, H5T_NATIVE_DOUBLE, size);
        H5Sclose(space);
        H5Aclose(attribute);
    }
    return check_size(path, slide, size[0] * downsample, size[1] * downsample, 2 * downsample, err);
}

/* The form, the side of patches, and the factor from the file's places to level-0 px. */
static enum hrf_status find_form(const char *path, const struct hrf_slide_info *slide, double mpp_x,
                                 double mpp_y, const struct open_file *f, struct hrf_coords *out,
                                 double scale[2], struct hrf_error *err)
{
    const double level0 = number_of(f->file, f->set, "patch_size_level0");
    scale[0] = scale[1] = 1;
    if (is_word(f->file, "unit", "um")) {
        out->form = "stamp";
        out->side0 = llround(number_of(f->file, f->set, "tile_size_um") / mpp_x);
        scale[0] = 1 / mpp_x;
        scale[1] = 1 / mpp_y;
        return HRF_OK;
    }
    if (!isnan(number_of(f->file, f->set, "patch_level")))
        return side_at_level(path, slide, f, out, err);
    out->form = f->n_columns == 5 ? "atlaspatch" : isnan(level0) ? "clam" : "trident";
    out->side0 = isnan(level0) ? 0 : llround(level0);
    return check_size(path, slide, number_of(f->file, f->set, "level0_width"),
                      number_of(f->file, f->set, "level0_height"), 0, err);
}

static enum hrf_status read_rows(const char *path, const struct open_file *f, const double scale[2],
                                 struct hrf_coords *out, struct hrf_error *err)
{
    HRF_AUTO_FREE double *rows = hrf_alloc_array((size_t)(f->n * f->n_columns) + 1, sizeof *rows);
    out->patches = hrf_alloc_array((size_t)f->n + 1, sizeof *out->patches);
    HRF_CHECK_MEMORY(rows != NULL && out->patches != NULL, err, "no memory for %lld patches",
                     (long long)f->n);
    if (f->n > 0 && H5Dread(f->set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'coords' in '%s' cannot be read: it is damaged or cut short", path);
    for (int64_t i = 0; i < f->n; i++) {
        const double x = rows[i * f->n_columns] * scale[0];
        const double y = rows[i * f->n_columns + 1] * scale[1];
        if (!coords_is_place(x) || !coords_is_place(y))
            return hrf_error_set(err, HRF_E_USER, "'%s': patch %lld is at %g, %g", path,
                                 (long long)i, x, y);
        out->patches[i] = (struct hrf_patch){ .x = (int32_t)lround(x), .y = (int32_t)lround(y) };
    }
    out->n_patches = f->n;
    return HRF_OK;
}

enum hrf_status coords_read_hdf5(const char *path, const struct hrf_slide_info *slide, double mpp_x,
                                 double mpp_y, struct hrf_coords *out, struct hrf_error *err)
{
    struct open_file f = { H5I_INVALID_HID, H5I_INVALID_HID, 0, 0 };
    double scale[2];
    enum hrf_status status = open_rows(path, &f, err);
    if (status == HRF_OK)
        status = find_form(path, slide, mpp_x, mpp_y, &f, out, scale, err);
    if (status == HRF_OK)
        status = read_rows(path, &f, scale, out, err);
    close_file(&f);
    return status;
}
