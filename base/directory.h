/* directory.h - makes, lists, syncs and removes directories. */
#ifndef HRF_BASE_DIRECTORY_H
#define HRF_BASE_DIRECTORY_H

#include "base/error.h"
#include "base/text.h"

#include <stddef.h>

/* mkdir -p. */
HRF_CHECKED enum hrf_status hrf_path_make_directories(const char *path, struct hrf_error *err);
/* rm -r; a missing path is fine. Does not follow links. */
HRF_CHECKED enum hrf_status hrf_path_remove_tree(const char *path, struct hrf_error *err);
/* fsync of a directory, so that a rename in it survives a power cut. */
HRF_CHECKED enum hrf_status hrf_path_sync_directory(const char *path, struct hrf_error *err);

/* The names in a folder, sorted by their bytes, without those that begin with a dot. */
HRF_CHECKED enum hrf_status hrf_path_list_directory(const char *path, struct hrf_text_list *out,
                                                    struct hrf_error *err);

#endif
