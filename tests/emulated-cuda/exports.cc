/* exports.cc - what the emulated GPU's module shows to the emulated NCCL's and to tests: all else is
 * hidden. */
#include "cuda_runtime_api.h"

extern const struct hrf_emulated_gpu hrf_emulated_gpu_here;
extern "C" const struct hrf_emulated_gpu *const hrf_emulated_gpu_pointer;
const struct hrf_emulated_gpu *const hrf_emulated_gpu_pointer = &hrf_emulated_gpu_here;

struct hrf_emulated_counts hrf_emulated_counted_here(void);
extern "C" struct hrf_emulated_counts hrf_emulated_counted(void)
{
    return hrf_emulated_counted_here();
}
