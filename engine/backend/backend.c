#include "engine/backend/backend.h"

#include "base/module.h"
#include "engine/backend/cpu/cpu.h"
#include "engine/backend/ref/ref.h"
#include "module_builds.h"

#include <dlfcn.h>
#include <string.h>

/* A new back end is one line here, or a module's name below. */
static const struct hrf_backend_ops *const table[] = { &hrf_backend_ref, &hrf_backend_cpu };

enum hrf_status hrf_backend_open(const char *name, const struct hrf_backend_ops **out,
                                 struct hrf_error *err)
{
    const void *operations = NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i]->name, name) == 0) {
            *out = table[i];
            return HRF_OK;
        }
    if (strcmp(name, "cuda") != 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "device '%s' is not in this build: use auto, cpu, cuda or ref", name);
    enum hrf_status status = hrf_module_load("cuda", HRF_BUILD_CUDA, &operations, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "device cuda (use device cpu instead)");
    *out = operations;
    return HRF_OK;
}

/* Whether NVIDIA's driver is installed (libcuda.so.1). */
static bool backend_has_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL)
        dlclose(driver);
    return driver != NULL;
}

enum hrf_status hrf_backend_choose(const char *name, const struct hrf_backend_ops **out,
                                   struct hrf_strbuf *notes, struct hrf_error *err)
{
    struct hrf_error why = { .text = "" };
    struct hrf_device_identity identity;
    if (strcmp(name, "auto") != 0)
        return hrf_backend_open(name, out, err);
    if (!backend_has_driver())
        return hrf_backend_open("cpu", out, err);
    enum hrf_status status = hrf_backend_open("cuda", out, &why);
    if (status == HRF_OK)
        status = (*out)->identify(&identity, &why);
    if (status == HRF_OK)
        return HRF_OK;
    if (notes != NULL)
        hrf_strbuf_addf(notes, "device auto is the cpu: %s\n", why.text);
    return hrf_backend_open("cpu", out, err);
}
