/* coords.c - finds and reads the patches of a slide that another program chose. */
#include "base/csv.h"
#include "base/path.h"
#include "tiler/coords/coords_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void hrf_coords_destroy(struct hrf_coords *coords)
{
    if (coords == NULL)
        return;
    hrf_free(coords->patches);
    hrf_free(coords);
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

bool hrf_coords_is_geojson(const char *path)
{
    return ends_in(path, ".geojson") || ends_in(path, ".json");
}

enum hrf_status hrf_coords_find(const char *file_or_folder, const char *slide_path, char **out,
                                struct hrf_error *err)
{
    static const char *const folders[] = { "", "patches/" };
    static const char *const endings[] = { ".h5", "_patches.h5", ".csv", ".geojson" };
    const char *slash = strrchr(slide_path, '/');
    const char *name = slash != NULL ? slash + 1 : slide_path, *dot = strrchr(name, '.');
    const int n = (int)(dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name));
    if (!hrf_path_is_directory(file_or_folder)) {
        *out = hrf_strdup(file_or_folder);
        return hrf_path_exists(file_or_folder)
                   ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "{tiler.coords}: '%s' does not exist",
                                   file_or_folder);
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
            HRF_AUTO_FREE char *path = hrf_format("%s/%s%.*s%s", file_or_folder, folders[i], n,
                                                  name, endings[k]);
            if (!hrf_path_exists(path))
                continue;
            HRF_MOVE(*out, path);
            return HRF_OK;
        }
    return hrf_error_set(
        err, HRF_E_USER,
        "{tiler.coords}: '%s' has no file of the slide '%.*s' (looked for %.*s.h5, "
        "%.*s_patches.h5, .csv and .geojson, there and in 'patches')",
        file_or_folder, n, name, n, name, n, name);
}

/* WSInfer's table: minx,miny,width,height, and columns that do not matter here. */
static enum hrf_status read_csv(const char *path, struct hrf_coords *out, struct hrf_error *err)
{
    static const char *const columns[] = { "minx", "miny", "width", "height" };
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(path, &csv, err));
    for (size_t k = 0; k < 4; k++)
        if (csv->n_rows == 0 || csv->rows[0].n_fields < 4 ||
            strcmp(csv->rows[0].fields[k], columns[k]) != 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: the first line must begin with minx,miny,width,height", path);
    out->form = "csv";
    out->patches = hrf_alloc_array(csv->n_rows, sizeof *out->patches);
    for (size_t i = 1; i < csv->n_rows; i++) {
        const struct hrf_csv_row *row = &csv->rows[i];
        double values[4] = { 0 };
        for (size_t k = 0; k < 4; k++) {
            char *end = NULL;
            if (row->n_fields >= 4)
                values[k] = strtod(row->fields[k], &end);
            if (end == NULL || end == row->fields[k] || *end != '\0' || !coords_is_place(values[k]))
                return hrf_error_set(err, HRF_E_USER, "%s:%d: %s is not a number of px", path,
                                     row->line, columns[k]);
        }
        if (llround(values[2]) < 1 || values[2] != values[3])
            return hrf_error_set(err, HRF_E_USER,
                                 "%s:%d: a patch is %g x %g px; patches are squares of at least 1",
                                 path, row->line, values[2], values[3]);
        if (i > 1 && llround(values[2]) != out->side0)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s:%d: a patch is %g px wide, and those before it %lld", path,
                                 row->line, values[2], (long long)out->side0);
        out->side0 = llround(values[2]);
        out->patches[i - 1] = (struct hrf_patch){ .x = (int32_t)lround(values[0]),
                                                  .y = (int32_t)lround(values[1]) };
    }
    out->n_patches = (int64_t)csv->n_rows - 1;
    return HRF_OK;
}

/* A patch may reach over the right and lower edges, as CLAM's do at the end of a contour; it has to
 * begin on the slide. */
static enum hrf_status check_places(const char *path, const struct hrf_slide_info *slide,
                                    const struct hrf_coords *c, struct hrf_error *err)
{
    for (int64_t i = 0; i < c->n_patches; i++) {
        const struct hrf_patch *p = &c->patches[i];
        if (p->x < 0 || p->y < 0 || p->x >= slide->width || p->y >= slide->height)
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s': patch %lld is at %d, %d, outside the slide of %lld x %lld "
                                 "px: places are level-0 px, or the file is another slide's",
                                 path, (long long)i, (int)p->x, (int)p->y, (long long)slide->width,
                                 (long long)slide->height);
    }
    return HRF_OK;
}

enum hrf_status hrf_coords_read(const char *path, const struct hrf_slide_info *slide, double mpp_x,
                                double mpp_y, struct hrf_coords **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_coords) coords = hrf_calloc(1, sizeof *coords);
    HRF_TRY(ends_in(path, ".csv") ? read_csv(path, coords, err)
                                  : coords_read_hdf5(path, slide, mpp_x, mpp_y, coords, err));
    HRF_TRY(check_places(path, slide, coords, err));
    HRF_MOVE(*out, coords);
    return HRF_OK;
}
