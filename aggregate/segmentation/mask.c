/* mask.c - see mask.h. */
#include "aggregate/segmentation/mask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void hrf_mask_destroy(struct hrf_mask *mask)
{
    if (mask == NULL)
        return;
    hrf_free(mask->positions);
    hrf_free(mask);
}

static int by_row(const void *a, const void *b)
{
    const struct hrf_mask_position *x = a, *y = b;
    if (x->y != y->y)
        return x->y < y->y ? -1 : 1;
    return (x->patch > y->patch) - (x->patch < y->patch);
}

static int by_patch(const void *a, const void *b)
{
    const struct hrf_mask_position *x = a, *y = b;
    return (x->patch > y->patch) - (x->patch < y->patch);
}

static void choose_levels(struct hrf_mask *mask)
{
    const int64_t min = mask->width < mask->height ? mask->width : mask->height;
    mask->tile = HRF_MASK_TILE;
    while (mask->tile > HRF_MASK_MIN_TILE && mask->tile > min)
        mask->tile /= 2;
    mask->n_levels = 1;
    while (min >> mask->n_levels >= mask->tile)
        mask->n_levels++;
}

enum hrf_status hrf_mask_create(const struct hrf_tile_plan *plan, const struct hrf_label_maps *maps,
                                int32_t n_classes, struct hrf_mask **out, struct hrf_error *err)
{
    if (maps->side < 1 || maps->n != plan->n_patches || plan->patch_size < maps->side ||
        !(plan->mpp_x > 0 && plan->mpp_y > 0 && plan->patch_mpp > 0))
        return hrf_error_set(err, HRF_E_USER,
                             "%lld label maps of %d px for %lld patches of %lld px",
                             (long long)maps->n, maps->side, (long long)plan->n_patches,
                             (long long)plan->patch_size);
    HRF_AUTO(hrf_mask) mask = hrf_calloc(1, sizeof *mask);
    mask->positions = hrf_alloc_array((size_t)maps->n + 1, sizeof *mask->positions);
    mask->maps = maps;
    mask->n_classes = n_classes;
    mask->mpp = plan->patch_mpp * (double)plan->patch_size / maps->side;
    mask->down_x = mask->mpp / plan->mpp_x;
    mask->down_y = mask->mpp / plan->mpp_y;
    mask->width = (int64_t)ceil((double)plan->width / mask->down_x);
    mask->height = (int64_t)ceil((double)plan->height / mask->down_y);
    if (mask->width < 1 || mask->height < 1 || mask->width > INT32_MAX || mask->height > INT32_MAX)
        return hrf_error_set(err, HRF_E_USER, "a mask of %lld x %lld px", (long long)mask->width,
                             (long long)mask->height);
    for (int64_t i = 0; i < maps->n; i++)
        mask->positions[i] = (struct hrf_mask_position){ llround(plan->patches[i].x / mask->down_x),
                                                         llround(plan->patches[i].y / mask->down_y),
                                                         i };
    qsort(mask->positions, (size_t)maps->n, sizeof *mask->positions, by_row);
    choose_levels(mask);
    HRF_MOVE(*out, mask);
    return HRF_OK;
}

struct hrf_mask_size hrf_mask_level_size(const struct hrf_mask *mask, int32_t level)
{
    const int64_t width = mask->width >> level, height = mask->height >> level;
    return (struct hrf_mask_size){ width > 0 ? width : 1, height > 0 ? height : 1 };
}

/* ---- rows ---- */

/* Some rows of a level while maps are drawn on them. */
struct band {
    int32_t level;
    int64_t row, n, width;
    unsigned char *labels; /* [n][width] */
    uint16_t *nearest;     /* likewise: twice the distance to the centre of the patch it is from */
};

/* The pixel of the whole mask that stands for pixel i of a level, along either axis. */
static int64_t sampled(int64_t i, int32_t level)
{
    return level == 0 ? i : (i << level) + ((int64_t)1 << (level - 1));
}

/* The first pixel of a level that stands for a pixel at or after `at`. */
static int64_t first_sampled(int64_t at, int32_t level)
{
    const int64_t step = (int64_t)1 << level, from = at - sampled(0, level);
    return from <= 0 ? 0 : (from + step - 1) / step;
}

/* Twice the distance of pixel i of a map from the map's middle. */
static uint16_t from_middle(int64_t i, int64_t side)
{
    return (uint16_t)llabs(2 * i + 1 - side);
}

static void draw(const struct hrf_mask_position *position, int64_t side, const unsigned char *map,
                 struct band *band)
{
    const int64_t y1 = first_sampled(position->y + side, band->level);
    const int64_t x1 = first_sampled(position->x + side, band->level);
    const int64_t bottom = y1 < band->row + band->n ? y1 : band->row + band->n;
    const int64_t right = x1 < band->width ? x1 : band->width;
    int64_t y = first_sampled(position->y, band->level);
    for (y = y > band->row ? y : band->row; y < bottom; y++) {
        const int64_t v = sampled(y, band->level) - position->y;
        const uint16_t dy = from_middle(v, side);
        unsigned char *labels = band->labels + (y - band->row) * band->width;
        uint16_t *nearest = band->nearest + (y - band->row) * band->width;
        for (int64_t x = first_sampled(position->x, band->level); x < right; x++) {
            const int64_t u = sampled(x, band->level) - position->x;
            const uint16_t dx = from_middle(u, side), d = dx > dy ? dx : dy;
            if (d < nearest[x]) {
                nearest[x] = d;
                labels[x] = map[v * side + u];
            }
        }
    }
}

/* The first position whose map begins at row `y` or below. */
static int64_t find_position(const struct hrf_mask *mask, int64_t y)
{
    int64_t low = 0, high = mask->maps->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (mask->positions[middle].y < y)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Draws the maps at positions [first, last) in the order of the tile plan, so that of equally near
 * patches the first one stays. */
static enum hrf_status draw_positions(const struct hrf_mask *mask, int64_t first, int64_t last,
                                      struct band *band, struct hrf_error *err)
{
    const size_t n = (size_t)(last - first);
    HRF_AUTO_FREE struct hrf_mask_position *positions = hrf_alloc_array(n + 1, sizeof *positions);
    HRF_AUTO_FREE unsigned char *map = hrf_try_alloc((size_t)hrf_label_maps_pixels(mask->maps));
    HRF_CHECK_MEMORY(map != NULL, err, "no memory for a row of %zu label maps", n);
    memcpy(positions, mask->positions + first, n * sizeof *positions);
    qsort(positions, n, sizeof *positions, by_patch);
    for (size_t i = 0; i < n; i++) {
        HRF_TRY(hrf_label_maps_get(mask->maps, positions[i].patch, mask->n_classes, map, err));
        draw(&positions[i], mask->maps->side, map, band);
    }
    return HRF_OK;
}

enum hrf_status hrf_mask_rows(const struct hrf_mask *mask, int32_t level, int64_t row, int64_t n,
                              unsigned char *labels, struct hrf_error *err)
{
    const int64_t width = hrf_mask_level_size(mask, level).width;
    struct band band = {
        .level = level, .row = row, .n = n, .width = width, .labels = labels, .nearest = NULL
    };
    HRF_AUTO_FREE uint16_t *nearest = hrf_try_alloc_array((size_t)(n * width), sizeof *nearest);
    HRF_CHECK_MEMORY(nearest != NULL, err, "no memory for %lld rows of a mask", (long long)n);
    memset(labels, 0, (size_t)(n * width));
    memset(nearest, 0xff, (size_t)(n * width) * sizeof *nearest);
    band.nearest = nearest;
    const int64_t first = find_position(mask, sampled(row, level) - mask->maps->side + 1);
    const int64_t last = find_position(mask, sampled(row + n - 1, level) + 1);
    return draw_positions(mask, first, last, &band, err);
}

enum hrf_status hrf_mask_count(const struct hrf_mask *mask, int64_t *counts, struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *labels = hrf_try_alloc_array((size_t)mask->width, HRF_MASK_TILE);
    HRF_CHECK_MEMORY(labels != NULL, err, "no memory for %d rows of a mask", HRF_MASK_TILE);
    memset(counts, 0, (size_t)(mask->n_classes + 1) * sizeof *counts);
    for (int64_t row = 0; row < mask->height; row += HRF_MASK_TILE) {
        const int64_t left = mask->height - row, n = left < HRF_MASK_TILE ? left : HRF_MASK_TILE;
        HRF_TRY(hrf_mask_rows(mask, 0, row, n, labels, err));
        for (int64_t i = 0; i < n * mask->width; i++)
            counts[labels[i]]++;
    }
    return HRF_OK;
}
