/* openslide_library.c - see openslide_library.h. */
#include "tiler/slide/openslide_library.h"

#include "base/module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hrf_openslide library = { .version = "missing", .file = "" };

static bool use(const char *file)
{
    struct hrf_openslide found = { .file = file };
    const char *(*version)(void) = NULL;
    void *module = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (module == NULL) {
        const char *why = dlerror();
        snprintf(library.trouble, sizeof library.trouble, "%s", why != NULL ? why : "not loaded");
        return false;
    }
    const bool is_whole =
        hrf_module_symbol(module, "openslide_open", &found.open) &&
        hrf_module_symbol(module, "openslide_close", &found.close) &&
        hrf_module_symbol(module, "openslide_get_error", &found.error) &&
        hrf_module_symbol(module, "openslide_get_property_value", &found.property) &&
        hrf_module_symbol(module, "openslide_get_level_count", &found.level_count) &&
        hrf_module_symbol(module, "openslide_get_level0_dimensions", &found.level0_dimensions) &&
        hrf_module_symbol(module, "openslide_get_level_dimensions", &found.level_dimensions) &&
        hrf_module_symbol(module, "openslide_get_level_downsample", &found.level_downsample) &&
        hrf_module_symbol(module, "openslide_read_region", &found.read_region) &&
        hrf_module_symbol(module, "openslide_get_version", &version);
    if (!is_whole) {
        snprintf(library.trouble, sizeof library.trouble, "'%s' is not OpenSlide", file);
        dlclose(module);
        return false;
    }
    found.version = version();
    found.is_3 = strncmp(found.version, "3.", 2) == 0;
    library = found; /* the module stays loaded */
    return true;
}

static void look(void)
{
    static const char *const usual[] = { "libopenslide.so.1", "libopenslide.so.0" };
    const char *named = getenv("HRF_OPENSLIDE");
    if (named != NULL && named[0] != '\0')
        use(named);
    else
        for (size_t i = 0; i < sizeof usual / sizeof usual[0] && !use(usual[i]);)
            i++;
}

const struct hrf_openslide *hrf_openslide(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    return &library;
}
