/* coords_hdf5.c - the data set `coords` and its attributes. */
#include "schema/hdf5/hdf5_reader.h"
#include "tiler/coords/coords_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATCHES = 50 * 1000 * 1000 };

/* A table `coords` and its file. */
struct open_file {
    struct hrf_hdf5_reader *file;
    int64_t n, n_columns;
};

/* Returns a scalar attribute, or the first number of a list, of `coords` or of the file. NaN: there
 * is none, or it is no number (TRIDENT writes the text "None" for what is not known). */
static double number_of(const struct open_file *f, const char *key)
{
    double value = (double)NAN;
    if (hrf_hdf5_numbers(f->file, "coords", key, &value, 1) == 0)
        hrf_hdf5_numbers(f->file, "/", key, &value, 1);
    return value;
}

static enum hrf_status open_rows(const char *path, struct open_file *f, struct hrf_error *err)
{
    HRF_TRY(hrf_hdf5_reader_open(path, &f->file, err));
    HRF_TRY(hrf_hdf5_check_inside(f->file, "coords", err));
    if (hrf_hdf5_kind(f->file, "coords") != 'd')
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has no data set 'coords', which CLAM, TRIDENT, AtlasPatch, "
                             "WSInfer and STAMP write",
                             path);
    HRF_TRY(hrf_hdf5_table_size(f->file, "coords", &f->n, &f->n_columns, err));
    if ((f->n_columns != 2 && f->n_columns != 5) || f->n > MAX_PATCHES)
        return hrf_error_set(err, HRF_E_USER,
                             "'coords' in '%s' is %lld x %lld; it must be N x 2 (or N x 5 of "
                             "AtlasPatch)",
                             path, (long long)f->n, (long long)f->n_columns);
    return HRF_OK;
}

/* A patch's side in px of level 0; a file whose side is 0, no number or longer than any slide says
 * nothing that can be true. */
static enum hrf_status set_side(const char *path, double side0, struct hrf_coords *out,
                                struct hrf_error *err)
{
    if (!(side0 >= 0.5 && coords_is_place(side0)))
        return hrf_error_set(err, HRF_E_USER, "'%s': patches of %g level-0 px a side", path, side0);
    out->side0 = llround(side0);
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

/* Sets the form and the patches' side of a file by CLAM or WSInfer, which states the side in px of
 * one level. */
static enum hrf_status side_at_level(const char *path, const struct hrf_slide_info *slide,
                                     const struct open_file *f, struct hrf_coords *out,
                                     struct hrf_error *err)
{
    const double level = number_of(f, "patch_level");
    const double side = number_of(f, "patch_size");
    if (!(level >= 0 && level < slide->n_levels && level == floor(level)))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has patches of level %g, and the slide has levels 0 to %d", path,
                             level, slide->n_levels - 1);
    out->form = isnan(number_of(f, "patch_spacing_um_px")) ? "clam" : "wsinfer";
    const double downsample = slide->level[(int)level].downsample;
    HRF_TRY(set_side(path, side * downsample, out, err));
    /* CLAM states the size of the level, as width and height. */
    double size[2] = { (double)NAN, (double)NAN };
    if (hrf_hdf5_numbers(f->file, "coords", "level_dim", size, 2) != 2)
        size[0] = size[1] = (double)NAN;
    return check_size(path, slide, size[0] * downsample, size[1] * downsample, 2 * downsample, err);
}

/* Finds the form, the side of patches, and the factor from the file's places to level-0 px. */
static enum hrf_status find_form(const char *path, const struct hrf_slide_info *slide, double mpp_x,
                                 double mpp_y, const struct open_file *f, struct hrf_coords *out,
                                 double scale[2], struct hrf_error *err)
{
    const double level0 = number_of(f, "patch_size_level0");
    char unit[16];
    scale[0] = scale[1] = 1;
    if (hrf_hdf5_text(f->file, "/", "unit", unit, sizeof unit) && strcmp(unit, "um") == 0) {
        out->form = "stamp";
        scale[0] = 1 / mpp_x;
        scale[1] = 1 / mpp_y;
        return set_side(path, number_of(f, "tile_size_um") / mpp_x, out, err);
    }
    if (!isnan(number_of(f, "patch_level")))
        return side_at_level(path, slide, f, out, err);
    out->form = f->n_columns == 5 ? "atlaspatch" : isnan(level0) ? "clam" : "trident";
    if (!isnan(level0))
        HRF_TRY(set_side(path, level0, out, err));
    return check_size(path, slide, number_of(f, "level0_width"), number_of(f, "level0_height"), 0,
                      err);
}

static enum hrf_status read_rows(const char *path, const struct open_file *f, const double scale[2],
                                 struct hrf_coords *out, struct hrf_error *err)
{
    HRF_AUTO_FREE double *rows = hrf_try_alloc_array((size_t)(f->n * f->n_columns) + 1,
                                                     sizeof *rows);
    out->patches = hrf_try_alloc_array((size_t)f->n + 1, sizeof *out->patches);
    HRF_CHECK_MEMORY(rows != NULL && out->patches != NULL, err,
                     "no memory for the %lld patches of '%s'", (long long)f->n, path);
    if (f->n > 0)
        HRF_TRY(hrf_hdf5_read_doubles(f->file, "coords", 0, f->n, f->n_columns, rows, err));
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
    struct open_file f = { .file = NULL };
    double scale[2];
    enum hrf_status status = open_rows(path, &f, err);
    if (status == HRF_OK)
        status = find_form(path, slide, mpp_x, mpp_y, &f, out, scale, err);
    if (status == HRF_OK)
        status = read_rows(path, &f, scale, out, err);
    hrf_hdf5_reader_close(f.file);
    return status;
}
