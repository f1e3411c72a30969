/* meters.c - measures energy, device time and memory of a rank (meters.h). */
#include "engine/worker/meters.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

static const double AT_LEAST_S =
    0.5; /* time between two readings, because counters are files and system calls */

/* True if rank `rank` of network i is not the first that computes on the device. */
static bool is_metered(const struct hrf_meters *m, int i, int32_t rank, const char *address)
{
    for (int k = 0; k <= i; k++) {
        const int32_t n = m->networks[k] == NULL ? 0
                          : k == i               ? rank
                                                 : hrf_network_n_ranks(m->networks[k]);
        for (int32_t r = 0; r < n; r++) {
            const struct hrf_device_use before = hrf_network_device_use(m->networks[k], r);
            if (before.address != NULL && strcmp(before.address, address) == 0)
                return true;
        }
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

void hrf_meters_attach(struct hrf_meters *m, int i, const struct hrf_network *network,
                       bool is_first)
{
    m->networks[i] = network;
    m->counts_processors = is_first;
    for (int32_t r = 0; r < hrf_network_n_ranks(network); r++) {
        const struct hrf_device_use use = hrf_network_device_use(network, r);
        if (use.address != NULL && use.is_first && !is_metered(m, i, r, use.address))
            add_gpu(m, use.address);
    }
}

void hrf_meters_release(struct hrf_meters *m)
{
    for (int i = 0; i < m->n_gpus; i++)
        hrf_gpu_meter_destroy(m->gpus[i]);
    *m = (struct hrf_meters){ .running = -1 };
}

static struct hrf_device_times device_times(const struct hrf_network *network)
{
    struct hrf_device_times sum = { 0, 0 };
    for (int32_t i = 0; i < hrf_network_n_ranks(network); i++) {
        const struct hrf_device_use use = hrf_network_device_use(network, i);
        sum.copy += use.times.copy;
        sum.kernels += use.times.kernels;
    }
    return sum;
}

void hrf_meters_begin(struct hrf_meters *m, const int *networks, int n)
{
    m->n_charged = 0;
    m->running = -1;
    memset(m->is_charged, 0, sizeof m->is_charged);
    memset(m->spent, 0, sizeof m->spent);
    for (int k = 0; k < n; k++) {
        const int i = networks[k];
        if (m->networks[i] == NULL)
            continue;
        m->is_charged[i] = true;
        m->n_charged++;
        m->seen[i] = device_times(m->networks[i]);
    }
    if (m->n_charged == 0)
        return;
    if (m->counts_processors)
        hrf_energy_start(&m->processors, NULL);
    m->counted_joules = 0;
    for (int i = 0; i < m->n_gpus; i++)
        (void)hrf_gpu_meter_joules(m->gpus[i]);
    m->read_at = hrf_clock_seconds();
}

static double read_processors(struct hrf_meters *m)
{
    if (!m->counts_processors)
        return 0;
    hrf_energy_tick(&m->processors);
    const double joules = m->processors.joules - m->counted_joules;
    m->counted_joules = m->processors.joules;
    return joules;
}

static double read_gpus(struct hrf_meters *m, int64_t *max_bytes)
{
    double joules = m->misses_a_gpu ? (double)NAN : 0.0;
    *max_bytes = 0;
    for (int i = 0; i < m->n_gpus; i++) {
        const int64_t n_bytes = hrf_gpu_meter_process_bytes(m->gpus[i]);
        joules += hrf_gpu_meter_joules(m->gpus[i]);
        *max_bytes = *max_bytes < n_bytes ? n_bytes : *max_bytes;
    }
    return joules;
}

/* Adds to what network i has used its share of the energy and its device's times. */
static void charge(struct hrf_meters *m, int i, double share, double processor_joules,
                   double gpu_joules, int64_t device_bytes)
{
    struct hrf_resource_use *spent = &m->spent[i];
    spent->processor_joules += share * processor_joules;
    if (hrf_network_device_use(m->networks[i], 0).address == NULL) {
        spent->gpu_joules = spent->copy = spent->kernels = NAN;
        return;
    }
    const struct hrf_device_times now = device_times(m->networks[i]);
    spent->copy += now.copy - m->seen[i].copy;
    spent->kernels += now.kernels - m->seen[i].kernels;
    m->seen[i] = now;
    spent->gpu_joules += share * gpu_joules;
    if (spent->device_bytes < device_bytes)
        spent->device_bytes = device_bytes;
}

static void read_all(struct hrf_meters *m)
{
    int64_t device_bytes;
    m->read_at = hrf_clock_seconds();
    const double processor_joules = read_processors(m), gpu_joules = read_gpus(m, &device_bytes);
    for (int i = 0; i < HRF_MOST_PARTS; i++) {
        const double share = m->running < 0 ? 1.0 / m->n_charged : m->running == i ? 1.0 : 0.0;
        if (m->is_charged[i])
            charge(m, i, share, processor_joules, gpu_joules, device_bytes);
    }
}

void hrf_meters_run(struct hrf_meters *m, int i)
{
    if (m->n_charged > 1 && m->running != i)
        read_all(m);
    m->running = m->n_charged > 1 ? i : -1;
}

void hrf_meters_tick(struct hrf_meters *m)
{
    if (m->n_charged > 0 && hrf_clock_seconds() - m->read_at >= AT_LEAST_S)
        read_all(m);
}

struct hrf_resource_use hrf_meters_take(struct hrf_meters *m, int i)
{
    const struct hrf_resource_use spent = m->spent[i];
    m->spent[i] = (struct hrf_resource_use){ 0 };
    return spent;
}

struct hrf_resource_use hrf_meters_take_all(struct hrf_meters *m, int i)
{
    if (m->n_charged > 0)
        read_all(m);
    return hrf_meters_take(m, i);
}

const char *hrf_meters_driver(const struct hrf_meters *m)
{
    return m->n_gpus > 0 ? hrf_gpu_meter_driver(m->gpus[0]) : "";
}
