/* module.c - loads shared libraries that belong to the program (module.h). */
#include "base/module.h"

#include "base/alloc.h"
#include "base/own_process.h"
#include "base/path.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char *own_directory; /* of hrf_module_look_in() */

bool hrf_module_look_in(const char *directory)
{
    char *copy = hrf_strdup(directory);
    if (copy == NULL)
        return false;
    hrf_free(own_directory);
    own_directory = copy;
    return true;
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
        *out = bin != NULL ? hrf_format("%s/../lib/hires-flow/hrf_%s.so", bin, name) : NULL;
    }
    if (*out == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    return HRF_OK;
}

enum hrf_status hrf_module_load(const char *name, const char *version, const void **operations,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(module_path(name, &path, err));
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "this installation has no %s module ('%s' does not exist)", name,
                             path);
    /* Global: what the module brings along (MPI's own plug-ins) looks for it among the globals. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL) {
        const char *why = dlerror();
        const bool is_missing = strstr(why, "cannot open shared object file") != NULL;
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED, "the %s module cannot be loaded: %s%s", name, why,
            is_missing ? " (LD_LIBRARY_PATH may name the folder that holds it)" : "");
    }
    const struct hrf_module *module = dlsym(handle, "hrf_module");
    if (module == NULL || module->version == NULL || strcmp(module->version, version) != 0) {
        enum hrf_status status = hrf_error_set(
            err, HRF_E_UNSUPPORTED, "'%s' is of version %s, this program of version %s", path,
            module != NULL && module->version != NULL ? module->version : "?", version);
        dlclose(handle);
        return status;
    }
    *operations = module->operations;
    return HRF_OK;
}
