/* slide_folder.h - lists the slides in a folder by their extensions. */
#ifndef HRF_ORCHESTRATOR_INGEST_SLIDE_FOLDER_H
#define HRF_ORCHESTRATOR_INGEST_SLIDE_FOLDER_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/* Files and folders that are not slides, counted. */
struct hrf_skipped_files {
    struct {
        char ending[16]; /* "txt"; "" = none */
        int64_t n;
    } kinds[8]; /* files by their ending; the last kind counts all further ones */
    int n_kinds;
    int64_t n_files, n_folders;
    int64_t n_runs; /* folders that are the directory of a run */
};
/* Appends "12 files that are no slides (10 .txt, 2 .xml) and 3 folders", or nothing if there are
 * none. */
void hrf_skipped_files_text(const struct hrf_skipped_files *passed, struct hrf_strbuf *out);

/* Calls `take` with the path of every slide in the folder, in the order of their names. If
 * is_recursive, folders in it are listed, too, up to 64 deep, except those that belong to a slide
 * (MIRAX) or are the directory of a run. Names that begin with a dot are ignored, and links to
 * folders are not followed. */
HRF_CHECKED enum hrf_status hrf_slide_folder_list(
    const char *folder, bool is_recursive,
    enum hrf_status (*take)(void *context, const char *path, struct hrf_error *err), void *context,
    struct hrf_skipped_files *passed, struct hrf_error *err);

#endif
