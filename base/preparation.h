/* preparation.h - how an image is brought to the size that a network takes, as torchvision's Resize
 * and CenterCrop do it: the one list of names of the workflow file, the model's metadata and the
 * engine. */
#ifndef HRF_BASE_PREPARATION_H
#define HRF_BASE_PREPARATION_H

#include <stdint.h>

/* Pillow's filters. */
enum hrf_interpolation {
    HRF_INTERPOLATION_AUTO, /* what the model asks for */
    HRF_NEAREST,
    HRF_BOX,
    HRF_BILINEAR,
    HRF_BICUBIC,
    HRF_LANCZOS,
    HRF_N_INTERPOLATIONS /* also: not an interpolation */
};
/* By enum hrf_interpolation, with a NULL at the end. */
extern const char *const hrf_interpolation_names[HRF_N_INTERPOLATIONS + 1];
/* HRF_N_INTERPOLATIONS where the name is none. */
enum hrf_interpolation hrf_interpolation_find(const char *name);

/* A square image is resized to `resize` px a side, and the middle `size` px of it are kept. size 0:
 * it goes into the network as it is. */
struct hrf_preparation {
    int64_t size, resize; /* px; size <= resize */
    enum hrf_interpolation interpolation;
};

#endif
