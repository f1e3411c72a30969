/* cudnn.h - the emulated cuDNN: the part of the backend API that we use, run by plain loops
 * (cudnn.cc). Names and meanings are NVIDIA's; numbers are not.
 */
#ifndef HRF_TESTS_EMULATED_CUDNN_H
#define HRF_TESTS_EMULATED_CUDNN_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDNN_VERSION 91900

typedef enum {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_ALLOC_FAILED = 4003,
    CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;

typedef enum {
    CUDNN_DATA_BFLOAT16,
    CUDNN_DATA_FLOAT,
    CUDNN_DATA_HALF,
    CUDNN_DATA_INT32,
    CUDNN_DATA_INT8
} cudnnDataType_t;

typedef enum { CUDNN_CROSS_CORRELATION } cudnnConvolutionMode_t;

typedef enum {
    CUDNN_POINTWISE_ADD,
    CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
    CUDNN_POINTWISE_GELU_FWD,
    CUDNN_POINTWISE_IDENTITY,
    CUDNN_POINTWISE_MUL,
    CUDNN_POINTWISE_RELU_FWD,
    CUDNN_POINTWISE_SUB,
    CUDNN_POINTWISE_SWISH_FWD
} cudnnPointwiseMode_t;

typedef enum {
    CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
    CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
    CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
    CUDNN_BACKEND_ENGINE_DESCRIPTOR,
    CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
    CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
    CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
    CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
    CUDNN_BACKEND_TENSOR_DESCRIPTOR,
    CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
} cudnnBackendDescriptorType_t;

typedef enum {
    CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
    CUDNN_ATTR_CONVOLUTION_CONV_MODE,
    CUDNN_ATTR_CONVOLUTION_DILATIONS,
    CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
    CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
    CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
    CUDNN_ATTR_DEVICEPROP_HANDLE,
    CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
    CUDNN_ATTR_ENGINECFG_ENGINE,
    CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
    CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
    CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
    CUDNN_ATTR_ENGINEHEUR_MODE,
    CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
    CUDNN_ATTR_ENGINEHEUR_RESULTS,
    CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
    CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
    CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
    CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
    CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
    CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
    CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
    CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
    CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
    CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
    CUDNN_ATTR_OPERATIONGRAPH_OPS,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC,
    CUDNN_ATTR_POINTWISE_MATH_PREC,
    CUDNN_ATTR_POINTWISE_MODE,
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP,
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
    CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
    CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
    CUDNN_ATTR_TENSOR_DATA_TYPE,
    CUDNN_ATTR_TENSOR_DIMENSIONS,
    CUDNN_ATTR_TENSOR_IS_BY_VALUE,
    CUDNN_ATTR_TENSOR_IS_VIRTUAL,
    CUDNN_ATTR_TENSOR_STRIDES,
    CUDNN_ATTR_TENSOR_UNIQUE_ID,
    CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
    CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
    CUDNN_ATTR_VARIANT_PACK_WORKSPACE
} cudnnBackendAttributeName_t;

typedef enum {
    CUDNN_TYPE_BACKEND_DESCRIPTOR,
    CUDNN_TYPE_BOOLEAN,
    CUDNN_TYPE_CHAR,
    CUDNN_TYPE_CONVOLUTION_MODE,
    CUDNN_TYPE_DATA_TYPE,
    CUDNN_TYPE_DOUBLE,
    CUDNN_TYPE_FLOAT,
    CUDNN_TYPE_HANDLE,
    CUDNN_TYPE_HEUR_MODE,
    CUDNN_TYPE_INT64,
    CUDNN_TYPE_KNOB_TYPE,
    CUDNN_TYPE_NUMERICAL_NOTE,
    CUDNN_TYPE_POINTWISE_MODE,
    CUDNN_TYPE_VOID_PTR
} cudnnBackendAttributeType_t;

typedef enum {
    CUDNN_HEUR_MODE_A,
    CUDNN_HEUR_MODE_B,
    CUDNN_HEUR_MODE_FALLBACK
} cudnnBackendHeurMode_t;

typedef enum {
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
    CUDNN_NUMERICAL_NOTE_FFT,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
    CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
    CUDNN_NUMERICAL_NOTE_WINOGRAD
} cudnnBackendNumericalNote_t;

typedef struct emulated_cudnn *cudnnHandle_t;
typedef struct emulated_descriptor *cudnnBackendDescriptor_t;

size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(cudnnStatus_t status);
void cudnnGetLastErrorString(char *text, size_t size);
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values);
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack);

/* Ours: the plans that were built in this process, not taken back. */
long hrf_emulated_plans_built(void);
/* Ours: the most plans that were being built at one time. */
long hrf_emulated_plans_at_once(void);

#ifdef __cplusplus
}
#endif
#endif
