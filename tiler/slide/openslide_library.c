/* openslide_library.c - see openslide_library.h. */
#define _GNU_SOURCE /* RTLD_DEEPBIND */
#include "tiler/slide/openslide_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hrf_openslide library = {
    .open = openslide_open,
    .close = openslide_close,
    .error = openslide_get_error,
    .property = openslide_get_property_value,
    .level_count = openslide_get_level_count,
    .level0_dimensions = openslide_get_level0_dimensions,
    .level_dimensions = openslide_get_level_dimensions,
    .level_downsample = openslide_get_level_downsample,
    .read_region = openslide_read_region,
};

static bool take(void *module, const char *name, void *function)
{
    void *found = dlsym(module, name);
    memcpy(function, &found, sizeof found); /* ISO C has no cast from object to function pointers */
    return found != NULL;
}

/* Both versions export the same names: with DEEPBIND the loaded one calls its own. Sanitizers do
 * not allow it: their own functions must come first. */
static void *load(const char *file)
{
#ifdef HRF_IS_SANITIZED
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
#else
    return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
#endif
}

static bool use(const char *file)
{
    struct hrf_openslide found = { .file = file };
    const char *(*version)(void) = NULL;
    void *module = load(file);
    if (module == NULL) {
        const char *why = dlerror();
        snprintf(library.trouble, sizeof library.trouble, "%s", why != NULL ? why : "not loaded");
        return false;
    }
    const bool is_whole = take(module, "openslide_open", &found.open) &&
                          take(module, "openslide_close", &found.close) &&
                          take(module, "openslide_get_error", &found.error) &&
                          take(module, "openslide_get_property_value", &found.property) &&
                          take(module, "openslide_get_level_count", &found.level_count) &&
                          take(module, "openslide_get_level0_dimensions",
                               &found.level0_dimensions) &&
                          take(module, "openslide_get_level_dimensions", &found.level_dimensions) &&
                          take(module, "openslide_get_level_downsample", &found.level_downsample) &&
                          take(module, "openslide_read_region", &found.read_region) &&
                          take(module, "openslide_get_version", &version);
    if (!is_whole) {
        snprintf(library.trouble, sizeof library.trouble, "'%s' is not OpenSlide", file);
        dlclose(module);
        return false;
    }
    found.version = version();
    library = found; /* the module stays loaded */
    return true;
}

static void look(void)
{
    const char *named = getenv("HRF_OPENSLIDE");
    library.version = openslide_get_version();
    if (named != NULL && named[0] != '\0')
        use(named);
    else if (!use("libopenslide.so.1"))
        library.trouble[0] = '\0'; /* nobody asked for it */
    library.is_3 = strncmp(library.version, "3.", 2) == 0;
}

const struct hrf_openslide *hrf_openslide(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    return &library;
}
