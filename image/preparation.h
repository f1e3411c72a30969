/* preparation.h - how an image is resized and cropped for a network, as by torchvision's Resize and
 * CenterCrop, and the names of interpolations for the workflow file, the model's metadata and the
 * engine. */
#ifndef HRF_IMAGE_PREPARATION_H
#define HRF_IMAGE_PREPARATION_H

#include <stdint.h>

/* Mean and standard deviation of R, G and B scaled to 0..1; the default of a model. */
#define HRF_IMAGENET_MEAN 0.485, 0.456, 0.406
#define HRF_IMAGENET_STD  0.229, 0.224, 0.225

/* Pillow's filters. */
enum hrf_interpolation {
    HRF_INTERPOLATION_AUTO, /* what the model asks for */
    HRF_NEAREST,
    HRF_BOX,
    HRF_BILINEAR,
    HRF_BICUBIC,
    HRF_LANCZOS,
    HRF_N_INTERPOLATIONS /* hrf_interpolation_find() returns it for another name */
};
/* Indexed by enum hrf_interpolation; NULL ends the table. */
extern const char *const hrf_interpolation_names[HRF_N_INTERPOLATIONS + 1];
/* Returns HRF_N_INTERPOLATIONS if no interpolation has that name. */
enum hrf_interpolation hrf_interpolation_find(const char *name);

/* A square image is resized to `resize` px a side and cropped to the middle `size` px. With a size
 * of 0 it goes into the network unchanged. */
struct hrf_preparation {
    int64_t size, resize; /* px; size <= resize */
    enum hrf_interpolation interpolation;
};

#endif
