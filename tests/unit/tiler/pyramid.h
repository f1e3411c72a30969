/* pyramid.h - tiled TIFF pyramids made by tests: every pixel from a function, some tiles left out.
 *
 * Not for the product: it has a writer of its own for whole cohorts. Files are what OpenSlide 3.4
 * calls generic-tiff.
 */
#ifndef HRF_TESTS_UNIT_TILER_PYRAMID_H
#define HRF_TESTS_UNIT_TILER_PYRAMID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PYRAMID_MAX_LEVELS = 12 };

struct pyramid {
    int n_levels;
    struct {
        uint32_t width, height;
    } level[PYRAMID_MAX_LEVELS];
    uint32_t tile;                      /* side; 0 = 64 */
    bool big;                           /* BigTIFF */
    bool jpeg;                          /* else deflate, which keeps every bit */
    bool rgb;                           /* JPEG of R, G and B */
    bool alpha;                         /* RGBA with unassociated alpha */
    const char *description, *software; /* tags of level 0; NULL = none */
    double x_resolution, y_resolution;  /* 0 = no tags */
    uint16_t resolution_unit;           /* RESUNIT_...; 0 = no tag */
    /* rgba of a pixel; NULL = noise by pyramid_noise */
    void (*pixel)(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4]);
    /* whether a tile is left out (offset 0, length 0); NULL = none is */
    bool (*is_sparse)(const void *context, int level, uint32_t column, uint32_t row);
    const void *context;
};

/* Levels that halve (rounding down) until the longest side is `smallest` or less. */
void pyramid_halve(struct pyramid *pyramid, uint32_t width, uint32_t height, uint32_t smallest);
/* Ends the test program when the file cannot be written. */
void pyramid_write(const struct pyramid *pyramid, const char *path);
/* A value in 0..255 that looks random, by position. */
unsigned char pyramid_noise(int level, uint32_t x, uint32_t y, int channel);

/* A new folder for a test's files; pyramid_path joins into `out`. remove_folder takes it away. */
void pyramid_folder(char out[64]);
void pyramid_path(const char *folder, const char *name, char out[128]);
void pyramid_remove_folder(const char *folder);
/* The same as set-up and tear-down of a cmocka group. */
extern char test_folder[64];
int make_test_folder(void **state);
int remove_test_folder(void **state);

#endif
