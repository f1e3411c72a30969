/* cuda.h - the part of the driver's interface that the back end uses: memory operations of streams.
 * Names and meanings are NVIDIA's; numbers are not. */
#ifndef HRF_TESTS_EMULATED_CUDA_CUDA_H
#define HRF_TESTS_EMULATED_CUDA_CUDA_H

#include "cuda_runtime_api.h"

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
} CUresult;
typedef struct emulated_stream *CUstream;
typedef unsigned long long CUdeviceptr;
typedef enum CUstreamBatchMemOpType_enum {
    CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
    CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2
} CUstreamBatchMemOpType;
enum { CU_STREAM_WAIT_VALUE_EQ = 1, CU_STREAM_WRITE_VALUE_DEFAULT = 0 };

struct hrf_emulated_memory_operation {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    uint32_t value;
    unsigned flags;
};
typedef union CUstreamBatchMemOpParams_union {
    CUstreamBatchMemOpType operation;
    struct hrf_emulated_memory_operation waitValue, writeValue;
    uint64_t pad[6];
} CUstreamBatchMemOpParams;

#endif
