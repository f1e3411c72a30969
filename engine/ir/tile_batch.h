/* tile_batch.h - a batch of images as the compressed tiles of a slide that they are cut out of.
 *
 * A device that decodes JPEG is fed with it in the place of pixels. All of it lies in one block of
 * memory that the device reads. Each tile is there once, however many images are on it; what no cut
 * covers of an image is white.
 */
#ifndef HRF_ENGINE_IR_TILE_BATCH_H
#define HRF_ENGINE_IR_TILE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A rectangle of a tile that goes into an image, px. Kernels read it. */
struct hrf_tile_cut {
    int32_t tile, tile_x, tile_y;
    int32_t image, x, y;
    int32_t width, height;
};

struct hrf_tile_batch {
    int32_t tile_width, tile_height; /* px, of every tile */
    int32_t side, n_rows;            /* px, of every image */
    bool is_rgb; /* the JPEGs' channels are R, G and B, which a decoder takes for Y, Cb and Cr */
    int32_t n_images, n_tiles, n_cuts;
    int32_t most_tiles, most_cuts; /* of any batch of the slide */
    /* [n_tiles]: JPEGs with all their tables. */
    const unsigned char **streams;
    size_t *lengths;
    int32_t (*positions)[2]; /* column and row of the tile in the level */
    struct hrf_tile_cut *cuts;
    /* The first image as the processor decodes it, [n_rows][side][3], for comparison. */
    unsigned char *witness;
};

#endif
