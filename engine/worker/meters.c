/* meters.c - measures energy, device time and memory of a rank (meters.h). */
#include "engine/worker/meters.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

static const double AT_LEAST_S =
    0.5; /* time between two readings, because counters are files and system calls */

static bool is_metered(const struct hrf_meters *m, int32_t rank, const char *address)
{
    for (int32_t i = 0; i < rank; i++) {
        const struct hrf_device_use before = hrf_network_device_use(m->network, i);
        if (before.address != NULL && strcmp(before.address, address) == 0)
            return true;
    }
    return false;
}

static void add_gpu(struct hrf_meters *m, const char *address)
{
    struct hrf_error why = { .text = "" };
    if (m->n_gpus < HRF_METERS_GPUS &&
        hrf_gpu_meter_create(address, NULL, &m->gpus[m->n_gpus], &why) == HRF_OK) {
        m->n_gpus++;
        return;
    }
    m->misses_a_gpu = true;
    hrf_log_info("engine", "energy and memory of the GPU at %s are not measured: %s", address,
                 why.text[0] != '\0' ? why.text : "the process uses too many GPUs");
}

void hrf_meters_attach(struct hrf_meters *m, const struct hrf_network *network, bool is_first)
{
    hrf_meters_release(m);
    m->network = network;
    m->counts_processors = is_first;
    for (int32_t i = 0; i < hrf_network_n_ranks(network); i++) {
        const struct hrf_device_use use = hrf_network_device_use(network, i);
        if (use.address != NULL && use.is_first && !is_metered(m, i, use.address))
            add_gpu(m, use.address);
    }
}

void hrf_meters_release(struct hrf_meters *m)
{
    for (int i = 0; i < m->n_gpus; i++)
        hrf_gpu_meter_destroy(m->gpus[i]);
    *m = (struct hrf_meters){ .network = NULL };
}

static bool has_device(const struct hrf_meters *m)
{
    return hrf_network_device_use(m->network, 0).address != NULL;
}

static struct hrf_device_times device_times(const struct hrf_meters *m)
{
    struct hrf_device_times sum = { 0, 0 };
    for (int32_t i = 0; i < hrf_network_n_ranks(m->network); i++) {
        const struct hrf_device_use use = hrf_network_device_use(m->network, i);
        sum.copy += use.times.copy;
        sum.kernels += use.times.kernels;
    }
    return sum;
}

void hrf_meters_begin(struct hrf_meters *m)
{
    if (m->network == NULL)
        return;
    if (m->counts_processors)
        hrf_energy_start(&m->processors, NULL);
    m->counted_joules = 0;
    for (int i = 0; i < m->n_gpus; i++)
        (void)hrf_gpu_meter_joules(m->gpus[i]);
    m->seen = device_times(m);
    m->read_at = hrf_clock_seconds();
    m->spent = (struct hrf_resource_use){ 0 };
}

static void read_processors(struct hrf_meters *m)
{
    if (!m->counts_processors)
        return;
    hrf_energy_tick(&m->processors);
    m->spent.processor_joules += m->processors.joules - m->counted_joules;
    m->counted_joules = m->processors.joules;
}

static void read_devices(struct hrf_meters *m)
{
    if (!has_device(m)) {
        m->spent.gpu_joules = m->spent.copy = m->spent.kernels = NAN;
        return;
    }
    const struct hrf_device_times now = device_times(m);
    m->spent.copy += now.copy - m->seen.copy;
    m->spent.kernels += now.kernels - m->seen.kernels;
    m->seen = now;
    if (m->misses_a_gpu)
        m->spent.gpu_joules = NAN;
    for (int i = 0; i < m->n_gpus; i++) {
        const int64_t n_bytes = hrf_gpu_meter_process_bytes(m->gpus[i]);
        m->spent.gpu_joules += hrf_gpu_meter_joules(m->gpus[i]);
        if (m->spent.device_bytes < n_bytes)
            m->spent.device_bytes = n_bytes;
    }
}

static void read_all(struct hrf_meters *m)
{
    m->read_at = hrf_clock_seconds();
    read_processors(m);
    read_devices(m);
}

void hrf_meters_tick(struct hrf_meters *m)
{
    if (m->network != NULL && hrf_clock_seconds() - m->read_at >= AT_LEAST_S)
        read_all(m);
}

struct hrf_resource_use hrf_meters_take(struct hrf_meters *m)
{
    const struct hrf_resource_use spent = m->spent;
    m->spent = (struct hrf_resource_use){ 0 };
    return spent;
}

struct hrf_resource_use hrf_meters_take_all(struct hrf_meters *m)
{
    if (m->network != NULL)
        read_all(m);
    return hrf_meters_take(m);
}

const char *hrf_meters_driver(const struct hrf_meters *m)
{
    return m->n_gpus > 0 ? hrf_gpu_meter_driver(m->gpus[0]) : "";
}
