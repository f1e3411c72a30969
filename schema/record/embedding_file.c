/* embedding_file.c - whether a file of embeddings is the one that a record names. */
#include "schema/record/embedding_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum hrf_status hrf_embedding_file_check(const char *path, const struct hrf_scores *scores,
                                         bool is_read, struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    struct stat st;
    const int64_t wanted = scores->n_patches * scores->n_classes * (int64_t)sizeof(float);
    if (stat(path, &st) != 0 && errno == ENOENT)
        return hrf_error_set(err, HRF_E_AGAIN, "the file of embeddings '%s' is missing", path);
    if (stat(path, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat '%s'", path);
    if ((int64_t)st.st_size != wanted)
        return hrf_error_set(err, (int64_t)st.st_size < wanted ? HRF_E_AGAIN : HRF_E_USER,
                             "the file of embeddings '%s' has %lld bytes, and %lld patches of %d "
                             "numbers are %lld",
                             path, (long long)st.st_size, (long long)scores->n_patches,
                             scores->n_classes, (long long)wanted);
    if (!is_read)
        return HRF_OK;
    HRF_TRY(hrf_hash_file(path, found, err));
    if (strcmp(found, scores->embeddings.sha256) == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "the file of embeddings '%s' has other bytes than its record names "
                         "(SHA-256 %.12s..., expected %.12s...)",
                         path, found, scores->embeddings.sha256);
}

char *hrf_part_rows_path(const char *part)
{
    return part != NULL ? hrf_format("%s.rows", part) : NULL;
}
