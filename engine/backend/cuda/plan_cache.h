/* plan_cache.h - which cuDNN plan runs a convolution: known, as kept on disk, made beforehand, or
 * tuned now.
 *
 * A plan's key is the convolution, the library's version, the device and its driver: another one of
 * any of these tunes anew. An entry that cannot be read or used is replaced, with a line of notes.
 * Processes may share the directory: entries are written whole, and the last one stands. Called by
 * one thread at a time; uses several inside.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_PLAN_CACHE_H
#define HRF_ENGINE_BACKEND_CUDA_PLAN_CACHE_H

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/cudnn_arithmetic.h"
#include "engine/backend/cuda/cudnn_plan.h"

struct hrf_plan_cache;

/* `directory` may be NULL: nothing is kept. All pointers stay borrowed; the caller owns the result.
 */
struct hrf_plan_cache *hrf_plan_cache_create(const char *directory,
                                             const struct hrf_cuda_device *device,
                                             cudnnHandle_t cudnn,
                                             const struct hrf_cudnn_device *properties);
void hrf_plan_cache_destroy(struct hrf_plan_cache *cache);
HRF_DEFINE_AUTO(hrf_plan_cache)

/* Before anything is asked for: what is not kept yet is taken from the set of plans in `directory`
 * (plan_set.h) that fits this device, and timed, instead of built. The notes say why none fits. */
HRF_CHECKED enum hrf_status hrf_plan_cache_use_sets(struct hrf_plan_cache *cache,
                                                    const char *directory, struct hrf_error *err);

/* How to run `conv`; the plan belongs to the cache. */
struct hrf_planned_conv {
    struct hrf_cudnn_conv conv;        /* as asked, its channels widened where that was needed */
    const struct hrf_cudnn_plan *plan; /* NULL: cuDNN has no engine for it */
    enum hrf_arithmetic arithmetic;    /* of the plan */
    /* What a run took when it was tuned, and what a pass that makes the second output of the first
     * takes; < 0: unknown. */
    double ms, pass_ms;
};
HRF_CHECKED enum hrf_status hrf_plan_cache_get(struct hrf_plan_cache *cache,
                                               const struct hrf_cudnn_conv *conv,
                                               struct hrf_planned_conv *out, struct hrf_error *err);
/* Reads or builds what `convs` need and is not known yet, several at a time: building one takes
 * seconds of a core. What fails here is left to hrf_plan_cache_get(), which says why. */
HRF_CHECKED enum hrf_status hrf_plan_cache_prepare(struct hrf_plan_cache *cache,
                                                   const struct hrf_cudnn_conv *convs, int32_t n,
                                                   int32_t n_threads, struct hrf_error *err);
/* What the ranks of a network share (plan_ranks.h): */
enum { HRF_PLAN_CACHE_DEVICE_ROOM = 256 };
/* The GPU, its driver and cuDNN: plans are for those that are equal. */
void hrf_plan_cache_device(const struct hrf_plan_cache *cache,
                           char text[HRF_PLAN_CACHE_DEVICE_ROOM]);
/* The entry of `conv`, made if it is not known, as it is kept on disk. */
HRF_CHECKED enum hrf_status hrf_plan_cache_export(struct hrf_plan_cache *cache,
                                                  const struct hrf_cudnn_conv *conv, json_t **out,
                                                  struct hrf_error *err);
/* Takes an entry that another cache exported, unless `conv` is known. `where` is for errors. */
HRF_CHECKED enum hrf_status hrf_plan_cache_import(struct hrf_plan_cache *cache,
                                                  const struct hrf_cudnn_conv *conv,
                                                  const json_t *entry, const char *where,
                                                  struct hrf_error *err);
/* Called after each convolution that is read, built or timed, by any thread. NULL: no more. */
void hrf_plan_cache_show_progress(struct hrf_plan_cache *cache, void (*progress)(void *context),
                                  void *context);
/* Adds to the notes: whole lines, or "". */
void hrf_plan_cache_note(struct hrf_plan_cache *cache, const char *lines);
/* How many engines were left out because their results were wrong. */
int32_t hrf_plan_cache_n_wrong(const struct hrf_plan_cache *cache);
/* A few lines on what was read, tuned and replaced since the last call; "" when nothing. */
void hrf_plan_cache_notes(struct hrf_plan_cache *cache, struct hrf_strbuf *notes);

#endif
