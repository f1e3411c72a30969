/* checkpoint_file.c - parts of bytes into a file with its hash, and back. */
#include "training/cohort/checkpoint_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "schema/record/sentinel.h"

#include <string.h>

enum { MAGIC = 8, HEAD = MAGIC + HRF_HASH_HEX };

enum hrf_status hrf_training_check_attempt(const char *attempt, struct hrf_error *err)
{
    return attempt == NULL || !hrf_fence_is_set(attempt)
               ? HRF_OK
               : hrf_error_set(err, HRF_E_AGAIN, "another attempt goes on with this training");
}

enum hrf_status hrf_checkpoint_file_write(const char *path, const char *attempt,
                                          const char magic[8], const char key[HRF_HASH_HEX],
                                          const struct hrf_checkpoint_part *parts, size_t n_parts,
                                          struct hrf_error *err)
{
    size_t n = HEAD;
    HRF_TRY(hrf_training_check_attempt(attempt, err));
    for (size_t i = 0; i < n_parts; i++)
        n += parts[i].n_bytes;
    HRF_AUTO_FREE char *bytes = hrf_try_alloc(n + HRF_HASH_HEX);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for '%s'", path);
    memcpy(bytes, magic, MAGIC);
    memcpy(bytes + MAGIC, key, HRF_HASH_HEX);
    size_t at = HEAD;
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].n_bytes > 0)
            memcpy(bytes + at, parts[i].bytes, parts[i].n_bytes);
        at += parts[i].n_bytes;
    }
    HRF_TRY(hrf_hash_buffer(bytes, n, bytes + n, err));
    return hrf_file_write_atomic(path, bytes, n + HRF_HASH_HEX, err);
}

bool hrf_checkpoint_file_read(const char *path, const char magic[8], const char key[HRF_HASH_HEX],
                              size_t limit, char **out, size_t *n_bytes)
{
    char sum[HRF_HASH_HEX];
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    if (hrf_file_read(path, HEAD + limit + HRF_HASH_HEX, &bytes, &n, NULL) != HRF_OK ||
        n < HEAD + HRF_HASH_HEX || memcmp(bytes, magic, MAGIC) != 0 ||
        memcmp(bytes + MAGIC, key, HRF_HASH_HEX) != 0 ||
        hrf_hash_buffer(bytes, n - HRF_HASH_HEX, sum, NULL) != HRF_OK ||
        memcmp(sum, bytes + n - HRF_HASH_HEX, sizeof sum) != 0)
        return false;
    *n_bytes = n - HEAD - HRF_HASH_HEX;
    memmove(bytes, bytes + HEAD, *n_bytes);
    HRF_MOVE(*out, bytes);
    return true;
}
