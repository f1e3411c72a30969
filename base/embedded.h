/* embedded.h - files of another language (HTML, CSS, JS, SQL) that are built into the program.
 *
 * hrf_embed() of cmake/embed.cmake makes the tables; a module declares the one that it reads:
 * extern const struct hrf_embedded hrf_report_files[].
 */
#ifndef HRF_BASE_EMBEDDED_H
#define HRF_BASE_EMBEDDED_H

#include <stddef.h>
#include <string.h>

struct hrf_embedded {
    const char *name; /* "page.css"; NULL ends the table */
    const char *text; /* as it is in the file; a NUL follows */
    size_t n_bytes;   /* without the NUL */
};

/* Returns the file of that name, or NULL if there is none. */
static inline const struct hrf_embedded *hrf_embedded_find(const struct hrf_embedded *files,
                                                           const char *name)
{
    while (files->name != NULL && strcmp(files->name, name) != 0)
        files++;
    return files->name != NULL ? files : NULL;
}

#endif
