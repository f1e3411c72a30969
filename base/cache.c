/* cache.c - finds the cache directory that a user's runs share (cache.h). */
#include "base/cache.h"

#include "base/alloc.h"
#include "base/path.h"
#include "base/private_directory.h"

#include <stdlib.h>
#include <unistd.h>

char *hrf_cache_directory(const char *cache)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL)
        return hrf_strdup(cache);
    if (xdg != NULL && xdg[0] == '/')
        return hrf_format("%s/hires-flow", xdg);
    if (home != NULL && home[0] == '/')
        return hrf_format("%s/.cache/hires-flow", home);
    return hrf_format("/tmp/hires-flow-%lu", (unsigned long)geteuid()); /* not another user's */
}

enum hrf_status hrf_cache_folder(const char *cache, const char *folder, char **out,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *top = hrf_cache_directory(cache);
    HRF_AUTO_FREE char *path = folder != NULL ? hrf_path_join(top, folder) : hrf_strdup(top);
    HRF_TRY(hrf_private_directory_check(top, err));
    HRF_TRY(hrf_private_directory_check(path, err));
    HRF_MOVE(*out, path);
    return HRF_OK;
}
