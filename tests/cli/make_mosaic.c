/* make_mosaic.c - slides laid out of patches: make_mosaic PATCHES COHORT N [COLUMNS ROWS].
 *
 * COLUMNS and ROWS (9 and 7) are patches of tissue of a slide; 124 124 makes 1 Gpx for bench_feed.
 * COHORT gets the CAMELYON16 layout: N slides of normal tissue on white, every other one with a
 * lesion of tumour patches in a place of its own. PATCHES holds normal/ and tumor/, 256 px PNGs, or
 * is the word synthetic: as many of made-up tissue.
 */
#include "base/alloc.h"
#include "base/directory.h"
#include "tests/unit/tiler/synthetic_patches.h"
#include "tiler/synth/synth.h"

#include <glob.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATCH = 256, LESION = 3, MARGIN = 2 * PATCH };
static int64_t n_columns = 9, n_rows = 7;
static const double mpp = 0.243;

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "make_mosaic: %s: %s\n", what, why);
    return 1;
}

/* Every patch of a folder, one after another, RGB. */
static unsigned char *read_patches(const char *folder, const char *kind, size_t *n)
{
    if (strcmp(folder, "synthetic") == 0)
        return synthetic_patches((int64_t)(*n = 29), PATCH, strcmp(kind, "tumor") == 0);
    HRF_AUTO_FREE char *pattern = hrf_format("%s/%s/*.png", folder, kind);
    glob_t found;
    if (pattern == NULL || glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    const size_t bytes = (size_t)PATCH * PATCH * 3;
    unsigned char *pixels = hrf_calloc(found.gl_pathc, bytes);
    *n = found.gl_pathc;
    for (size_t i = 0; pixels != NULL && i < *n; i++) {
        png_image image = { .version = PNG_IMAGE_VERSION };
        const png_color white = { 255, 255, 255 };
        if (png_image_begin_read_from_file(&image, found.gl_pathv[i]) == 0 ||
            image.width != PATCH || image.height != PATCH) {
            hrf_free(pixels);
            pixels = NULL;
            break;
        }
        image.format = PNG_FORMAT_RGB;
        (void)png_image_finish_read(&image, &white, pixels + i * bytes, 0, NULL);
    }
    globfree(&found);
    return pixels;
}

static void place(unsigned char *slide, int64_t width, int64_t column, int64_t row,
                  const unsigned char *patch)
{
    for (int64_t y = 0; y < PATCH; y++)
        memcpy(slide + ((MARGIN + row * PATCH + y) * width + MARGIN + column * PATCH) * 3,
               patch + y * PATCH * 3, (size_t)PATCH * 3);
}

struct patches {
    unsigned char *pixels;
    size_t n;
};

static bool in_lesion(int slide, int64_t column, int64_t row)
{
    const int64_t c = 1 + slide % 4, r = 1 + slide % 3;
    return slide % 2 == 1 && column >= c && column < c + LESION && row >= r && row < r + LESION;
}

static int write_slide(const char *folder, int slide, const struct patches *normal,
                       const struct patches *tumour)
{
    const int64_t width = n_columns * PATCH + 2 * MARGIN, height = n_rows * PATCH + 2 * MARGIN;
    const size_t bytes = (size_t)PATCH * PATCH * 3;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc((size_t)(width * height * 3));
    HRF_AUTO_FREE char *path = hrf_format("%s/testing/images/test_%03d.tif", folder, slide + 1);
    struct hrf_error err = { .status = HRF_OK };
    if (rgb == NULL || path == NULL)
        return fail(folder, "no memory");
    memset(rgb, 255, (size_t)(width * height * 3));
    size_t next = (size_t)slide * 11;
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t column = 0; column < n_columns; column++, next++) {
            const struct patches *from = in_lesion(slide, column, row) ? tumour : normal;
            place(rgb, width, column, row, from->pixels + next % from->n * bytes);
        }
    if (hrf_synth_write_pyramid(path, rgb, width, height, mpp, &err) != HRF_OK)
        return fail(path, err.text);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6)
        return fail("usage", "make_mosaic PATCHES COHORT N [COLUMNS ROWS]");
    if (argc == 6) {
        n_columns = strtol(argv[4], NULL, 10);
        n_rows = strtol(argv[5], NULL, 10);
    }
    if (n_columns < 1 || n_columns > 250 || n_rows < 1 || n_rows > 250)
        return fail("usage", "COLUMNS and ROWS are 1 to 250");
    struct patches normal = { NULL, 0 }, tumour = { NULL, 0 };
    normal.pixels = read_patches(argv[1], "normal", &normal.n);
    tumour.pixels = read_patches(argv[1], "tumor", &tumour.n);
    HRF_AUTO_FREE char *images = hrf_format("%s/testing/images", argv[2]);
    HRF_AUTO_FREE char *labels = hrf_format("%s/testing/reference.csv", argv[2]);
    const int n = (int)strtol(argv[3], NULL, 10);
    int code = normal.pixels == NULL || tumour.pixels == NULL || images == NULL || labels == NULL ||
                       hrf_path_make_directories(images, NULL) != HRF_OK
                   ? fail(argv[1], "no patches, or nowhere to write")
                   : 0;
    FILE *csv = code == 0 ? fopen(labels, "w") : NULL;
    for (int i = 0; i < n && code == 0; i++) {
        code = write_slide(argv[2], i, &normal, &tumour);
        if (csv != NULL)
            fprintf(csv, "test_%03d,%s,IDC,None\n", i + 1, i % 2 == 1 ? "Tumor" : "Normal");
    }
    if (csv != NULL)
        fclose(csv);
    hrf_free(normal.pixels);
    hrf_free(tumour.pixels);
    return code;
}
