/* page_files.h - the viewer's page, script and style: the files of page/, built into the program.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_PAGE_FILES_H
#define HRF_ORCHESTRATOR_VIEW_PAGE_FILES_H

#include <stddef.h>

struct hrf_page_file {
    const char *name; /* in the address; "": the page itself */
    const char *type;
    const unsigned char *bytes;
    size_t n_bytes;
};
extern const struct hrf_page_file hrf_page_files[];
extern const size_t hrf_n_page_files;

#endif
