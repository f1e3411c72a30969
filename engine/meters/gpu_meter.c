/* gpu_meter.c - energy and memory of a GPU by NVIDIA's management library, loaded if it exists
 * (gpu_meter.h). */
#include "engine/meters/gpu_meter.h"

#include "base/module.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NVML's interface as its nvml.h has it (API version 12), which toolkits do not all install. */
enum { NVML_OK = 0, VERSION_BYTES = 80, MOST_PROCESSES = 64 };
#define BYTES_UNKNOWN (~0ULL)
struct nvml_process {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
};
struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int status);
    int (*driver_version)(char *out, unsigned int size);
    int (*device_at)(const char *address, void **device);
    int (*energy)(void *device, unsigned long long *millijoules);
    int (*processes)(void *device, unsigned int *n, struct nvml_process *out);
};

struct hrf_gpu_meter {
    struct nvml nvml;
    void *library, *device;
    bool is_open;
    char driver[VERSION_BYTES];
    unsigned long long last_mj;
    bool has_energy;
};

static enum hrf_status gpu_meter_load(struct hrf_gpu_meter *meter, const char *name,
                                      struct hrf_error *err)
{
    struct nvml *n = &meter->nvml;
    meter->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (meter->library == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "NVML cannot be loaded: %s", dlerror());
    if (!hrf_module_symbol(meter->library, "nvmlInit_v2", &n->init) ||
        !hrf_module_symbol(meter->library, "nvmlShutdown", &n->shutdown) ||
        !hrf_module_symbol(meter->library, "nvmlErrorString", &n->error_text) ||
        !hrf_module_symbol(meter->library, "nvmlSystemGetDriverVersion", &n->driver_version) ||
        !hrf_module_symbol(meter->library, "nvmlDeviceGetHandleByPciBusId_v2", &n->device_at) ||
        !hrf_module_symbol(meter->library, "nvmlDeviceGetTotalEnergyConsumption", &n->energy))
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "'%s' is no NVML of today: %s", name,
                             dlerror());
    /* Drivers before 510 have no such call. */
    (void)hrf_module_symbol(meter->library, "nvmlDeviceGetComputeRunningProcesses_v3",
                            &n->processes);
    return HRF_OK;
}

static enum hrf_status nvml_error(const struct hrf_gpu_meter *meter, int status, const char *what,
                                  struct hrf_error *err)
{
    return hrf_error_set_foreign(err, HRF_E_UNSUPPORTED, "nvml", status, "NVML, %s: %s", what,
                                 meter->nvml.error_text(status));
}

static enum hrf_status open_device(struct hrf_gpu_meter *meter, const char *address,
                                   struct hrf_error *err)
{
    const struct nvml *n = &meter->nvml;
    int status = n->init();
    if (status != NVML_OK)
        return nvml_error(meter, status, "starting it", err);
    meter->is_open = true;
    status = n->device_at(address, &meter->device);
    if (status != NVML_OK)
        return nvml_error(meter, status, address, err);
    if (n->driver_version(meter->driver, sizeof meter->driver) != NVML_OK)
        meter->driver[0] = '\0';
    meter->has_energy = n->energy(meter->device, &meter->last_mj) == NVML_OK;
    return HRF_OK;
}

enum hrf_status hrf_gpu_meter_create(const char *address, const char *library,
                                     struct hrf_gpu_meter **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_gpu_meter) meter = hrf_calloc(1, sizeof *meter);
    if (library == NULL)
        library = getenv("HRF_NVML");
    HRF_TRY(gpu_meter_load(meter, library != NULL ? library : "libnvidia-ml.so.1", err));
    HRF_TRY(open_device(meter, address, err));
    HRF_MOVE(*out, meter);
    return HRF_OK;
}

void hrf_gpu_meter_destroy(struct hrf_gpu_meter *meter)
{
    if (meter == NULL)
        return;
    if (meter->is_open)
        (void)meter->nvml.shutdown();
    if (meter->library != NULL)
        dlclose(meter->library);
    hrf_free(meter);
}

const char *hrf_gpu_meter_driver(const struct hrf_gpu_meter *meter)
{
    return meter->driver;
}

double hrf_gpu_meter_joules(struct hrf_gpu_meter *meter)
{
    unsigned long long now = 0;
    if (!meter->has_energy || meter->nvml.energy(meter->device, &now) != NVML_OK ||
        now < meter->last_mj) { /* since the driver was loaded anew */
        meter->has_energy = false;
        return NAN;
    }
    const double joules = (double)(now - meter->last_mj) / 1e3;
    meter->last_mj = now;
    return joules;
}

int64_t hrf_gpu_meter_process_bytes(struct hrf_gpu_meter *meter)
{
    struct nvml_process all[MOST_PROCESSES];
    unsigned int n = MOST_PROCESSES;
    const unsigned int own = (unsigned int)getpid();
    if (meter->nvml.processes == NULL || meter->nvml.processes(meter->device, &n, all) != NVML_OK)
        return 0;
    const struct nvml_process *found = n == 1 ? &all[0] : NULL;
    for (unsigned int i = 0; i < n; i++)
        if (all[i].pid == own)
            found = &all[i];
    return found == NULL || found->used_bytes == BYTES_UNKNOWN || found->used_bytes > INT64_MAX
               ? 0
               : (int64_t)found->used_bytes;
}
