/* module.h - parts of a program that are loaded when they are asked for.
 *
 * CUDA and MPI live in shared objects of their own, so that the programs start on machines
 * without them. A module is `hrf_<name>.so`; it lies in $HRF_MODULE_DIR, else in
 * ../lib/hires-flow/ relative to the running program. It exports one object, `hrf_module`, and
 * contains its own copy of the libraries of hires-flow that it uses: only what `operations` points
 * to is shared. What is shared has one layout in one build only, so a module says which build it is
 * of, and its loader compares that with its own before it uses `operations`. A library that runs in
 * somebody else's program says where its modules are by hrf_module_look_in().
 */
#ifndef HRF_BASE_MODULE_H
#define HRF_BASE_MODULE_H

#include "base/error.h"

#include <stdbool.h>

struct hrf_module {
    const char *build;      /* HRF_BUILD_<NAME> (module_builds.h), e.g. "0.2.0+c28fabbe442d" */
    const void *operations; /* a table whose type follows from the module's name */
};

/* Before the first hrf_module_load(), by one thread: modules lie in `directory`, unless
 * $HRF_MODULE_DIR names another. */
void hrf_module_look_in(const char *directory);

/* Loads the module at the first call and keeps it loaded. `build`: HRF_BUILD_<NAME> of the caller.
 * HRF_E_UNSUPPORTED, with a reason for the user: it is not installed, a library that it needs is
 * missing, or it is of another build. */
HRF_CHECKED enum hrf_status hrf_module_load(const char *name, const char *build,
                                            const void **operations, struct hrf_error *err);

/* Puts a symbol of a library that dlopen() gave into the function pointer *out, which POSIX has no
 * other way to do. False: the library has none of that name. */
bool hrf_module_symbol(void *library, const char *name, void *out);

#endif
