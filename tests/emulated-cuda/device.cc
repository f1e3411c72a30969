/* device.cc - see cuda_runtime_api.h: the machine.
 *
 * HRF_EMULATED_CUDA chooses it: "no-driver", "old-driver", "stub-driver", "no-device",
 * "old-device", "no-peer" (two devices that do not reach each other), "two-kinds" (two devices with
 * different names), "no-ipc", "devices=N", "memory=BYTES" or "full" (nothing can be allocated from
 * now on); without it there is one device of 4 GiB. flags.cc has more.
 */
#include "runtime_private.hh"

#include <cstdio>
#include <cstdlib>

namespace emulated
{

std::recursive_mutex lock;

void die(const char *what)
{
    fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}

std::string machine()
{
    const char *text = getenv("HRF_EMULATED_CUDA");
    return text != nullptr ? text : "";
}

size_t memory_of_device()
{
    const std::string text = machine();
    return text.rfind("memory=", 0) == 0 ? strtoull(text.c_str() + 7, nullptr, 10)
                                         : size_t(4) << 30;
}

namespace
{

thread_local int current; /* device */

int n_devices()
{
    const std::string text = machine();
    return text == "no-peer" || text == "two-kinds" ? 2
           : text.rfind("devices=", 0) == 0         ? atoi(text.c_str() + 8)
                                                    : 1;
}

} // namespace

int current_device()
{
    return current;
}

} // namespace emulated

using namespace emulated;

extern "C" {

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return "invalid argument";
    }
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = machine() == "no-driver"    ? 0
               : machine() == "old-driver" ? 12020
               : machine() == "new-driver" ? 13010
                                           : 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    if (machine() == "no-driver" || machine() == "old-driver")
        return cudaErrorInsufficientDriver;
    if (machine() == "stub-driver")
        return cudaErrorStubLibrary;
    if (machine() == "no-device")
        return cudaErrorNoDevice;
    *count = n_devices();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "%s",
             machine() == "two-kinds" && device == 1 ? "Other emulated GPU" : "Emulated GPU");
    properties->totalGlobalMem = memory_of_device();
    properties->major = machine() == "old-device" ? 7 : 9;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= n_devices())
        return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *address, int size, int device)
{
    snprintf(address, size_t(size), "0000:%02x:00.0", device + 0x3b);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *address)
{
    unsigned bus = 0;
    if (sscanf(address, "0000:%x:00.0", &bus) != 1 || int(bus) - 0x3b >= n_devices())
        return cudaErrorInvalidDevice;
    *device = int(bus) - 0x3b;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = machine() != "no-peer";
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    ALONE;
    static std::set<std::pair<int, int>> enabled;
    if (peer == current || peer >= n_devices())
        return cudaErrorInvalidDevice;
    return enabled.insert({ current, peer }).second ? cudaSuccess
                                                    : cudaErrorPeerAccessAlreadyEnabled;
}

} // extern "C"
