/* module.c - loads shared libraries that belong to the program (module.h). */
#include "base/module.h"

#include "base/alloc.h"
#include "base/own_process.h"
#include "base/path.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char *own_directory; /* of hrf_module_look_in() */

void hrf_module_look_in(const char *directory)
{
    hrf_free(own_directory);
    own_directory = hrf_strdup(directory);
}

static enum hrf_status module_path(const char *name, char **out, struct hrf_error *err)
{
    const char *named = getenv("HRF_MODULE_DIR");
    const char *directory = named != NULL ? named : own_directory;
    if (directory != NULL) {
        *out = hrf_format("%s/hrf_%s.so", directory, name);
    } else {
        HRF_AUTO_FREE char *program = NULL;
        HRF_TRY(hrf_process_self(&program, err));
        HRF_AUTO_FREE char *bin = hrf_path_directory(program);
        *out = hrf_format("%s/../lib/hires-flow/hrf_%s.so", bin, name);
    }
    return HRF_OK;
}

enum hrf_status hrf_module_load(const char *name, const char *build, const void **operations,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(module_path(name, &path, err));
    if (!hrf_path_exists(path))
        return hrf_error_raise(err, HRF_ERROR_MODULE_MISSING,
                               "this installation has no %s module ('%s' does not exist)", name,
                               path);
    /* Global: what the module brings along (MPI's own plug-ins) looks for it among the globals. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL) {
        return hrf_error_raise(err, HRF_ERROR_LIBRARY_MISSING, "the %s module cannot be loaded: %s",
                               name, dlerror());
    }
    const struct hrf_module *module = dlsym(handle, "hrf_module");
    if (module == NULL || module->build == NULL || strcmp(module->build, build) != 0) {
        enum hrf_status status = hrf_error_raise(
            err, HRF_ERROR_MODULE_VERSION, "'%s' is of build %s, and this program needs build %s",
            path, module != NULL && module->build != NULL ? module->build : "?", build);
        dlclose(handle);
        return status;
    }
    *operations = module->operations;
    return HRF_OK;
}

bool hrf_module_symbol(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}
