/* start.c - claims, counts and revokes the starts of an attempt (start.h). */
#include "schema/record/start.h"

#include "base/alloc.h"
#include "base/file_system.h"
#include "base/path.h"
#include "schema/record/sentinel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

char *hrf_start_directory(const char *attempt, int k)
{
    return k == 0 ? hrf_strdup(attempt) : hrf_format("%s/r%d", attempt, k);
}

/* The file or folder that exists if the k-th place is taken; heap. */
static char *mark_of(const char *attempt, int k)
{
    return k == 0 ? hrf_path_join(attempt, "claim") : hrf_start_directory(attempt, k);
}

static bool is_taken(const char *attempt, int k)
{
    HRF_AUTO_FREE char *mark = mark_of(attempt, k);
    return hrf_path_exists(mark);
}

int hrf_start_count(const char *attempt, int from)
{
    int n = from;
    while (n < HRF_MAX_STARTS && is_taken(attempt, n))
        n++;
    return n;
}

enum hrf_status hrf_start_take(const char *attempt, int k, bool *is_ours, struct hrf_error *err)
{
    HRF_AUTO_FREE char *mark = mark_of(attempt, k);
    HRF_AUTO_CLOSE int fd = k == 0 ? open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    const bool made = k == 0 ? fd >= 0 : mkdir(mark, 0777) == 0;
    if (!made && errno != EEXIST)
        return hrf_error_set_errno(err, errno, "cannot make '%s'", mark);
    *is_ours = made;
    return HRF_OK;
}

enum hrf_status hrf_start_revoke(const char *attempt, struct hrf_error *err)
{
    for (int k = 0; k == 0 || (k < HRF_MAX_STARTS && is_taken(attempt, k)); k++) {
        HRF_AUTO_FREE char *directory = hrf_start_directory(attempt, k);
        HRF_TRY(hrf_fence_set(directory, err));
        hrf_file_system_refresh(attempt); /* a later start may have begun on another machine */
    }
    return HRF_OK;
}
