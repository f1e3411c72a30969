/* slide_private.h - the slide's insides, for the files of this folder. */
#ifndef HRF_TILER_SLIDE_SLIDE_PRIVATE_H
#define HRF_TILER_SLIDE_SLIDE_PRIVATE_H

#include "tiler/slide/slide.h"

#include <openslide/openslide.h>

struct hrf_slide {
    openslide_t *handle;
    char *shown; /* the path as printable text, for messages */
    struct hrf_slide_info info;
};

#endif
