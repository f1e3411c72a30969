/* stale.c - removes files of earlier reports that the current report does not write. */
#include "aggregate/report/stale.h"

#include "base/alloc.h"
#include "base/path.h"
#include "base/sort.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "NAME.tmp.<12 hex digits>", as hrf_file_temporary() makes them. */
static bool is_temporary(const char *name)
{
    static const char mark[] = ".tmp.";
    enum { DIGITS = 12 };
    const size_t n = strlen(name), tail = sizeof mark - 1 + DIGITS;
    return n > tail && strncmp(name + n - tail, mark, sizeof mark - 1) == 0 &&
           strspn(name + n - DIGITS, "0123456789abcdef") == DIGITS;
}

/* What a report writes under this name is not among what is to stay. */
static bool is_stale(const char *name, const char *suffix, const char *const *keep, size_t n)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    if (length <= tail || strcmp(name + length - tail, suffix) != 0)
        return false;
    HRF_AUTO_FREE char *stem = hrf_strndup(name, length - tail);
    const char *key = stem;
    return n == 0 || bsearch(&key, keep, n, sizeof *keep, hrf_compare_texts) == NULL;
}

/* suffix NULL: only temporary files. */
static enum hrf_status remove_files(const char *folder, const char *suffix, const char *const *keep,
                                    size_t n, struct hrf_error *err)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return hrf_error_set_errno(err, errno, "cannot open the directory '%s'", folder);
    enum hrf_status status = HRF_OK;
    const struct dirent *entry;
    while (status == HRF_OK && (entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name;
        if (!is_temporary(name) && (suffix == NULL || !is_stale(name, suffix, keep, n)))
            continue;
        if (unlinkat(dirfd(directory), name, 0) != 0 && errno != ENOENT && errno != EISDIR)
            status = hrf_error_set_errno(err, errno, "cannot remove '%s/%s'", folder, name);
    }
    closedir(directory);
    return status;
}

enum hrf_status hrf_stale_files_remove(const char *folder, const char *suffix,
                                       const char *const *keep, size_t n, struct hrf_error *err)
{
    return remove_files(folder, suffix, keep, n, err);
}

enum hrf_status hrf_stale_temporaries_remove(const char *folder, struct hrf_error *err)
{
    return remove_files(folder, NULL, NULL, 0, err);
}

/* One folder of results/ that is of no precision of this report. */
static enum hrf_status remove_precision(const char *path, const struct hrf_stale_form *forms,
                                        size_t n_forms, struct hrf_error *err)
{
    bool is_ours = false;
    for (size_t f = 0; f < n_forms; f++) {
        HRF_AUTO_FREE char *folder = hrf_path_join(path, forms[f].folder);
        if (!hrf_path_is_directory(folder))
            continue;
        is_ours = true;
        HRF_TRY(remove_files(folder, forms[f].suffix, NULL, 0, err));
        rmdir(folder); /* it stays where somebody keeps something of his own in it */
    }
    if (is_ours)
        rmdir(path);
    return HRF_OK;
}

enum hrf_status hrf_stale_precisions_remove(const char *results, const struct hrf_stale_form *forms,
                                            size_t n_forms, const char *const *names,
                                            size_t n_names, struct hrf_error *err)
{
    DIR *directory = opendir(results);
    if (directory == NULL)
        return hrf_error_set_errno(err, errno, "cannot open the directory '%s'", results);
    enum hrf_status status = HRF_OK;
    const struct dirent *entry;
    while (status == HRF_OK && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' || hrf_text_is_among(entry->d_name, names, n_names))
            continue;
        HRF_AUTO_FREE char *path = hrf_path_join(results, entry->d_name);
        status = remove_precision(path, forms, n_forms, err);
    }
    closedir(directory);
    return status;
}
