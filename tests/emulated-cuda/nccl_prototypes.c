/* Compiled against the emulated NCCL and, where it is installed, against NVIDIA's: what one is
 * called with the other takes, and codes that are told apart have the same numbers. */
#include <nccl.h>

#define IS(function, ...)                                                                          \
    _Static_assert(_Generic(&(function), __VA_ARGS__ : 1, default : 0), #function)

IS(ncclGetVersion, ncclResult_t (*)(int *));
IS(ncclGetUniqueId, ncclResult_t (*)(ncclUniqueId *));
IS(ncclCommInitRank, ncclResult_t (*)(ncclComm_t *, int, ncclUniqueId, int));
IS(ncclCommDestroy, ncclResult_t (*)(ncclComm_t));
IS(ncclCommAbort, ncclResult_t (*)(ncclComm_t));
IS(ncclCommGetAsyncError, ncclResult_t (*)(ncclComm_t, ncclResult_t *));
IS(ncclGetErrorString, const char *(*)(ncclResult_t));
IS(ncclGetLastError, const char *(*)(ncclComm_t));
IS(ncclGroupStart, ncclResult_t (*)(void));
IS(ncclGroupEnd, ncclResult_t (*)(void));
IS(ncclSend, ncclResult_t (*)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
IS(ncclRecv, ncclResult_t (*)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));

_Static_assert(sizeof(ncclUniqueId) == 128, "an id");
_Static_assert(ncclSuccess == 0 && ncclSystemError == 2 && ncclInvalidUsage == 5 &&
                   ncclRemoteError == 6 && ncclInProgress == 7 && ncclInt8 == 0,
               "numbers");
