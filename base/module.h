/* module.h - parts of a program that are loaded when they are asked for.
 *
 * CUDA and MPI live in shared objects of their own, so that the programs start on machines
 * without them. A module is `hrf_<name>.so`; it lies in $HRF_MODULE_DIR, else in
 * ../lib/hires-flow/ as seen from the running program. It exports one object, `hrf_module`, and
 * carries its own copy of what it uses of us: only what `operations` points to is shared.
 * A library, whose program is somebody else's, says where its modules are by hrf_module_look_in().
 */
#ifndef HRF_BASE_MODULE_H
#define HRF_BASE_MODULE_H

#include "base/error.h"

#include <stdbool.h>

struct hrf_module {
    const char *version;    /* of hires-flow: module and program must come from one build */
    const void *operations; /* what it is, by name, both sides know */
};

/* Before the first hrf_module_load(), by one thread: modules lie in `directory`, unless
 * $HRF_MODULE_DIR names another. False: no memory. */
bool hrf_module_look_in(const char *directory);

/* Loads the module once; it stays. HRF_E_UNSUPPORTED with the reason, in words for the user, when
 * it is not installed, a library that it needs is missing, or it is of another version. */
HRF_CHECKED enum hrf_status hrf_module_load(const char *name, const char *version,
                                            const void **operations, struct hrf_error *err);

#endif
