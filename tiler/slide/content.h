/* content.h - identifies a slide by the content of its files, for every reader and format.
 *
 * Everything that is reused (tile plans, scores, scales) or compared (two runs) refers to this
 * identity. A slide of several files is identified by all of them: MIRAX by the .mrxs and its
 * folder, Hamamatsu VMS and VMU by the files that the named one lists, DICOM by the files of its
 * series in the same folder. Names and paths of files are not part of it.
 */
#ifndef HRF_TILER_SLIDE_CONTENT_H
#define HRF_TILER_SLIDE_CONTENT_H

#include "base/error.h"
#include "base/hash.h"

enum hrf_content_depth {
    HRF_CONTENT_SEEN,   /* names, sizes and times: says when the content must be read again */
    HRF_CONTENT_SPREAD, /* sizes, and 32 blocks of 8 KiB spread over each file; all bytes up to 1
                           MiB */
    HRF_CONTENT_WHOLE   /* all bytes */
};

/* HRF_CONTENT_SPREAD is a slide's identity. HRF_E_USER: a file is missing, or may not be read. */
HRF_CHECKED enum hrf_status hrf_slide_content(const char *path, enum hrf_content_depth depth,
                                              char out[HRF_HASH_HEX], struct hrf_error *err);
/* HRF_E_USER: the slide does not have the identity `expected` any more; "" is not compared. */
HRF_CHECKED enum hrf_status hrf_slide_content_check(const char *path, const char *expected,
                                                    struct hrf_error *err);

#endif
