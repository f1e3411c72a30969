/* plan_set.h - cuDNN's plans of convolutions, built on another machine for a device that it was
 * told of.
 *
 * A set is a folder: set.json says for which device (cuDNN's own form of its properties) and which
 * cuDNN, and a file a convolution holds the plans of its candidates, best first, as cuDNN writes
 * them: compiled for that device, still to be timed on it. Reading one takes milliseconds where
 * building it takes seconds.
 *
 * cuDNN takes a plan back only where its version and what decides about kernels are the same:
 * compute capability, multiprocessors, shared memory, registers, thread limits and the driver's
 * version. Name, clocks and memory may differ: an H100 with 132 multiprocessors takes an H200's.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_PLAN_SET_H
#define HRF_ENGINE_BACKEND_CUDA_PLAN_SET_H

#include "base/strbuf.h"
#include "engine/backend/cuda/cudnn_candidates.h"
#include "engine/backend/cuda/cudnn_conv.h"

struct hrf_plan_set; /* immutable once open: any thread may read it */

/* *out NULL: the set in `folder` cannot be read or is not for `properties`, and `lines` gets the
 * reason. */
HRF_CHECKED enum hrf_status hrf_plan_set_open(const char *folder,
                                              const struct hrf_cudnn_device *properties,
                                              struct hrf_plan_set **out, struct hrf_strbuf *lines,
                                              struct hrf_error *err);
/* The first set among the sub-folders of `directory` that fits; *out NULL: none does, and `lines`
 * gets the reasons. A `directory` that is not there is no error. */
HRF_CHECKED enum hrf_status hrf_plan_set_find(const char *directory,
                                              const struct hrf_cudnn_device *properties,
                                              struct hrf_plan_set **out, struct hrf_strbuf *lines,
                                              struct hrf_error *err);
void hrf_plan_set_destroy(struct hrf_plan_set *set);
HRF_DEFINE_AUTO(hrf_plan_set)

/* False: the set does not have `conv`, or what it has is of no use (a line says why). Else `conv`
 * gets its channels widened as the plans have them; no candidates: cuDNN has no engine for it.
 * `cudnn` NULL: the plans are only taken back, not run (cudnn_plan.h). */
bool hrf_plan_set_get(const struct hrf_plan_set *set, cudnnHandle_t cudnn,
                      const struct hrf_cudnn_device *properties, struct hrf_cudnn_conv *conv,
                      struct hrf_candidates *out, struct hrf_strbuf *lines);

/* ---- making one: needs no device ---- */

/* Makes the folder and its set.json. `properties_json`: of the device, with deviceName in it. */
HRF_CHECKED enum hrf_status hrf_plan_set_begin(const char *folder, const char *properties_json,
                                               struct hrf_error *err);
/* Builds and writes the candidates of `conv`, unless its file is there already. Several threads or
 * processes may, each with its own `properties`. `n_plans` gets their number, 0: cuDNN has no
 * engine for it. An engine that cannot be built fails: here the driver may be none. */
HRF_CHECKED enum hrf_status hrf_plan_set_add(const char *folder,
                                             const struct hrf_cudnn_device *properties,
                                             int64_t most_workspace,
                                             const struct hrf_cudnn_conv *conv, int32_t *n_plans,
                                             struct hrf_error *err);

#endif
