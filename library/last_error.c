/* last_error.c - versions, why the last call of a thread failed, and where the modules are. */
#define _GNU_SOURCE /* dladdr */
#include "base/alloc.h"
#include "base/module.h"
#include "base/path.h"
#include "library/library_private.h"

#include <dlfcn.h>
#include <stdio.h>

static _Thread_local char last_error[sizeof((struct hrf_error *)0)->text];

int hires_flow_api(void)
{
    return HIRES_FLOW_API;
}

const char *hires_flow_version(void)
{
    return HRF_VERSION;
}

const char *hires_flow_last_error(void)
{
    return last_error;
}

int hrf_library_end(enum hrf_status status, const struct hrf_error *err)
{
    static const enum hires_flow_error numbers[] = {
        [HRF_OK] = HIRES_FLOW_OK,
        [HRF_E_USER] = HIRES_FLOW_WRONG,
        [HRF_E_AGAIN] = HIRES_FLOW_AGAIN,
        [HRF_E_NOMEM] = HIRES_FLOW_NO_MEMORY,
        [HRF_E_NOSPACE] = HIRES_FLOW_NO_SPACE,
        [HRF_E_EXTERNAL] = HIRES_FLOW_FAILED,
        [HRF_E_UNSUPPORTED] = HIRES_FLOW_UNSUPPORTED,
        [HRF_E_BUG] = HIRES_FLOW_BUG,
    };
    if (status != HRF_OK)
        snprintf(last_error, sizeof last_error, "%s", err->text);
    return (int)numbers[status];
}

/* Modules (CUDA) are installed in hires-flow/ beside the library, wherever the program is. */
__attribute__((constructor)) static void find_modules(void)
{
    static const char place[] = "";
    Dl_info self;
    if (dladdr(place, &self) == 0 || self.dli_fname == NULL)
        return;
    HRF_AUTO_FREE char *folder = hrf_path_directory(self.dli_fname);
    HRF_AUTO_FREE char *modules = hrf_path_join(folder, "hires-flow");
    hrf_module_look_in(modules);
}
