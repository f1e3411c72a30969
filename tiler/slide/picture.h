/* picture.h - reads PNG and JPEG files as RGB, the header first and the pixels when they are
 * wanted. */
#ifndef HRF_TILER_SLIDE_PICTURE_H
#define HRF_TILER_SLIDE_PICTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct hrf_picture_header {
    int64_t width, height;
    double per_cm_x, per_cm_y; /* px; 0: the file does not say */
};

/* Reads the header, and if `rgb` is not NULL, the pixels into rgb[height][width][3]. `file` must be
 * at its beginning. False: the file cannot be read, and `reason` says why. */
bool hrf_png_read(FILE *file, struct hrf_picture_header *header, unsigned char *rgb,
                  char reason[256]);
bool hrf_jpeg_read(FILE *file, struct hrf_picture_header *header, unsigned char *rgb,
                   char reason[256]);

#endif
