/* library_private.h - what the files of this folder share: errors as the interface reports them. */
#ifndef HRF_LIBRARY_LIBRARY_PRIVATE_H
#define HRF_LIBRARY_LIBRARY_PRIVATE_H

#include "base/error.h"
#include "library/hires_flow.h"

/* Keeps the text for hires_flow_last_error() and gives the number of enum hires_flow_error. */
__attribute__((visibility("hidden"))) int hrf_library_end(enum hrf_status status,
                                                          const struct hrf_error *err);

#endif
