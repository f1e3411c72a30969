/* jpeg_errors.h - errors of libjpeg, which reports them by calling back: this ends in a longjmp to
 * the function that called setjmp() on `failed`. libjpeg prints nothing. */
#ifndef HRF_TILER_SLIDE_JPEG_ERRORS_H
#define HRF_TILER_SLIDE_JPEG_ERRORS_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

struct hrf_jpeg_errors {
    struct jpeg_error_mgr base; /* first: libjpeg passes a pointer to it */
    jmp_buf failed;
    char *reason; /* [256]; NULL: nobody asks */
};

/* What jpeg.err has to be. Damaged data, which libjpeg would replace by guesses, is an error. */
struct jpeg_error_mgr *hrf_jpeg_errors_init(struct hrf_jpeg_errors *errors, char *reason);

#endif
