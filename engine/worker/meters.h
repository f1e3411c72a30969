/* meters.h - what a worker uses of its machine while it scores: energy, time and memory of devices.
 *
 * Every rank has meters and reads them now and then; what they say is handed on towards rank 0 with
 * the results (engine/run/resource_use.h). Each network has its own figures: it is charged for the
 * energy that the machine uses while it runs, and all networks of a task alike for what is used
 * while none runs. For this folder only.
 */
#ifndef HRF_ENGINE_WORKER_METERS_H
#define HRF_ENGINE_WORKER_METERS_H

#include "engine/meters/energy.h"
#include "engine/meters/gpu_meter.h"
#include "engine/run/network.h"
#include "engine/run/resource_use.h"

enum { HRF_METERS_GPUS = 16 }; /* that one process computes on */

struct hrf_meters {
    const struct hrf_network *networks[HRF_MOST_PARTS]; /* borrowed; NULL: not attached */
    bool is_charged[HRF_MOST_PARTS];                    /* takes part in the present task */
    int n_charged;
    int running; /* the network that runs; -1: none */
    struct hrf_energy_meter processors;
    bool counts_processors; /* of this machine, for all ranks on it */
    double counted_joules;  /* of `processors` so far */
    struct hrf_gpu_meter *gpus[HRF_METERS_GPUS];
    int n_gpus;
    bool misses_a_gpu; /* one has no meter */
    struct hrf_device_times seen[HRF_MOST_PARTS];
    double read_at;                                /* s */
    struct hrf_resource_use spent[HRF_MOST_PARTS]; /* and not handed on yet */
};

/* Network i is made and will run from now on; its devices that no other process speaks for get a
 * meter each. `is_first`: of the job's processes on this machine. */
void hrf_meters_attach(struct hrf_meters *meters, int i, const struct hrf_network *network,
                       bool is_first);
/* Forgets all networks. */
void hrf_meters_release(struct hrf_meters *meters);
/* A task begins that networks[n] will score: what was used before is nobody's. */
void hrf_meters_begin(struct hrf_meters *meters, const int *networks, int n);
/* From now on network i runs; -1: none does. */
void hrf_meters_run(struct hrf_meters *meters, int i);
/* Reads them, unless that was less than half a second ago. */
void hrf_meters_tick(struct hrf_meters *meters);
/* What network i used and is not handed on yet, as of the last reading; it is handed on by this. */
struct hrf_resource_use hrf_meters_take(struct hrf_meters *meters, int i);
/* The same as of now. */
struct hrf_resource_use hrf_meters_take_all(struct hrf_meters *meters, int i);
/* NVIDIA's driver, "580.82.07"; "" where it does not say or there is no GPU. */
const char *hrf_meters_driver(const struct hrf_meters *meters);

#endif
