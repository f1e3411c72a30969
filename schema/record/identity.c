/* identity.c - which task, slide and tile plan a record belongs to (identity.h). */
#include "schema/record/identity.h"

#include <string.h>

enum hrf_status hrf_slide_fingerprint(const char *path, int64_t n_bytes, int64_t mtime_ns,
                                      char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, "hires-flow slide 1");
    hrf_hash_text(hash, path);
    hrf_hash_int(hash, n_bytes);
    hrf_hash_int(hash, mtime_ns);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* *n_equal counts the parts that were compared and are equal. */
static enum hrf_status compare(const char *found, const char *expected, const char *what,
                               const char *where, int *n_equal, struct hrf_error *err)
{
    if (found[0] == '\0' || expected[0] == '\0')
        return HRF_OK;
    if (strcmp(found, expected) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it is the record of another %s (%.12s..., expected %.12s...)",
                             where, what, found, expected);
    ++*n_equal;
    return HRF_OK;
}

enum hrf_status hrf_record_identity_check(const struct hrf_record_identity *found,
                                          const struct hrf_record_identity *expected,
                                          const char *where, struct hrf_error *err)
{
    int n_equal = 0;
    HRF_TRY(compare(found->task, expected->task, "task", where, &n_equal, err));
    HRF_TRY(compare(found->plan, expected->plan, "tile plan", where, &n_equal, err));
    const int n_named = n_equal;
    HRF_TRY(compare(found->slide, expected->slide, "slide", where, &n_equal, err));
    if (n_named == 0 && (expected->task[0] != '\0' || expected->plan[0] != '\0'))
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it does not say which task it answers (an earlier hires-flow "
                             "wrote it)",
                             where);
    return HRF_OK;
}
