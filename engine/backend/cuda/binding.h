/* binding.h - which of a node's GPUs a rank takes, and in words whether that is a good place.
 *
 * What the starter of the ranks says comes in as numbers, so that this is arithmetic.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_BINDING_H
#define HRF_ENGINE_BACKEND_CUDA_BINDING_H

#include <stdbool.h>
#include <stddef.h>

struct hrf_binding {
    int rank, n_ranks; /* on this node; 0 of 1 when nobody says */
    int n_visible;     /* GPUs that this process sees, >= 1 */
    int n_node;        /* GPUs of the job on this node; 0: not known */
    int n_promised;    /* processors that Slurm gave each rank; 0: not known */
};

/* SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_GPUS, SLURM_GPUS_ON_NODE,
 * SLURM_CPUS_PER_TASK or what Open MPI says, by `get` (getenv). */
struct hrf_binding hrf_binding_read(char *(*get)(const char *name), int n_visible);
/* The visible GPU that the rank takes. */
int hrf_binding_device(const struct hrf_binding *binding);
/* Whether no rank of the node before this one takes the same one. */
bool hrf_binding_is_first(const struct hrf_binding *binding);
/* How many ranks of the node, this one among them, take the same one. */
int hrf_binding_sharers(const struct hrf_binding *binding);

enum hrf_nearness { HRF_NEAR_UNKNOWN, HRF_NEAR_NONE, HRF_NEAR_SOME, HRF_NEAR_ALL };
/* Of the processors `allowed`, those in `near`: lists as the kernel writes them, "0-7,16-23". */
enum hrf_nearness hrf_binding_nearness(const char *allowed, const char *near);
/* The processors that a rank beside others should keep to: of the ones `allowed`, those `near` its
 * GPU. Only where its starter has left it more than its own share, as the ones far away are then
 * other ranks' near ones, and where the near ones are enough for those that share the GPU. False:
 * it stays where it is. `n_online`: processors of the machine. */
bool hrf_binding_narrow(const struct hrf_binding *binding, const char *allowed, const char *near,
                        int n_online, char *out, size_t size);
/* "rank 2 of 4 on this node takes GPU 0 of 2 (0000:3b:00.0), as 1 other does; all its processors
 * (0-7) are near it". `near` "" or NULL: the machine does not say. */
void hrf_binding_text(const struct hrf_binding *binding, const char *address, const char *allowed,
                      const char *near, char *out, size_t size);
/* Narrows this process where it should be, and looks whether it is; a line for the log on all of
 * it. What it allocates from now on lies near its GPU, too: memory is taken where it is first
 * touched. */
void hrf_binding_apply(const struct hrf_binding *binding, const char *address, const char *sysfs,
                       char *out, size_t size);

#endif
