/* kernel_launch.cuh - how kernels are written down once for the device and for the emulated one. */
#ifndef HRF_ENGINE_BACKEND_CUDA_LAUNCH_CUH
#define HRF_ENGINE_BACKEND_CUDA_LAUNCH_CUH

#include <cuda_runtime_api.h>
#include <stdint.h>

enum { BLOCK_THREADS = 256 }; /* of a BLOCK_KERNEL */

#ifdef HRF_HOST_KERNELS
#define KERNEL         static void
#define DEVICE         static inline
#define FOR_EACH(i, n) for (int64_t i = 0; i < (n); i++)
/* The emulated run time queues it like a device would (tests/emulated-cuda). */
#define LAUNCH(kernel, n, stream, ...) hrf_emulated_launch(stream, kernel, __VA_ARGS__)
/* A warp of one lane. */
#define FOR_EACH_WARP(i, n)                  FOR_EACH(i, n)
#define LANE                                 0
#define LANES                                1
#define LAUNCH_WARPS(kernel, n, stream, ...) LAUNCH(kernel, n, stream, __VA_ARGS__)
DEVICE float warp_sum(float v)
{
    return v;
}
DEVICE float larger_or_nan(float a, float b)
{
    return b > a || b != b ? b : a;
}
DEVICE float warp_most(float v)
{
    return v;
}
/* What that lane has. */
DEVICE float warp_pick(float v, int lane)
{
    (void)lane;
    return v;
}
/* A block whose threads take turns between two barriers: what they keep is an array of all. */
#define BLOCK_KERNEL         KERNEL
#define SHARED               alignas(16)
#define FOR_EACH_BLOCK(i, n) FOR_EACH(i, n)
#define FOR_THREADS(t)       for (int t = 0; t < BLOCK_THREADS; t++)
#define THREADS_HERE         BLOCK_THREADS
#define OWN(t)               (t)
#define BARRIER()            ((void)0)
DEVICE void block_add(uint32_t *to, uint32_t v)
{
    *to += v;
}
DEVICE void block_raise(uint32_t *to, uint32_t v)
{
    *to = v > *to ? v : *to;
}
#define UNROLL(n)
DEVICE void compute_for(uint64_t ns)
{
    (void)ns; /* a host's clock needs none */
}
#define LAUNCH_BLOCKS(kernel, n, stream, ...) LAUNCH(kernel, n, stream, __VA_ARGS__)
#else
#define KERNEL static __global__ void
#define DEVICE static __device__ inline
#define FOR_EACH(i, n)                                                                             \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)
enum { THREADS = 256, MOST_BLOCKS = 1 << 16 };
static inline int blocks(int64_t n)
{
    const int64_t b = (n + THREADS - 1) / THREADS;
    return (int)(b < 1 ? 1 : b < MOST_BLOCKS ? b : MOST_BLOCKS);
}
#define LAUNCH(kernel, n, stream, ...)                                                             \
    (kernel<<<blocks(n), THREADS, 0, stream>>>(__VA_ARGS__), cudaGetLastError())
/* One of n for each warp; its lanes (LANE of LANES) share the work, and all have the sum. */
#define LANES 32
#define LANE  ((int)(threadIdx.x % LANES))
#define FOR_EACH_WARP(i, n)                                                                        \
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES; i < (n);            \
         i += (int64_t)gridDim.x * blockDim.x / LANES)
#define LAUNCH_WARPS(kernel, n, stream, ...) LAUNCH(kernel, (n)*LANES, stream, __VA_ARGS__)
static __device__ inline float warp_sum(float v)
{
    for (int step = LANES / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
DEVICE float larger_or_nan(float a, float b)
{
    return b > a || b != b ? b : a;
}
/* A lane's NaN becomes the result of all. */
static __device__ inline float warp_most(float v)
{
    for (int step = LANES / 2; step > 0; step /= 2)
        v = larger_or_nan(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}
static __device__ inline float warp_pick(float v, int lane)
{
    return __shfl_sync(0xffffffffu, v, lane);
}
/* One of n for each block, whose threads share its memory: what follows FOR_THREADS is done by each
 * of them, and seen by the others behind a BARRIER. A thread's own variables are arrays of
 * THREADS_HERE, at OWN(t). At most 64 registers, so that four blocks are resident. */
#define BLOCK_KERNEL                         static __global__ void __launch_bounds__(BLOCK_THREADS, 4)
#define SHARED                               __shared__ alignas(16)
#define FOR_EACH_BLOCK(i, n)                 for (int64_t i = (int64_t)blockIdx.x; i < (n); i += (int64_t)gridDim.x)
#define FOR_THREADS(t)                       if ([[maybe_unused]] const int t = (int)threadIdx.x; true)
#define THREADS_HERE                         1
#define OWN(t)                               0
#define BARRIER()                            __syncthreads()
/* By threads of a block to its shared memory: sums and maxima of integers are the same in any
 * order. */
DEVICE void block_add(uint32_t *to, uint32_t v)
{
    (void)atomicAdd(to, v);
}
DEVICE void block_raise(uint32_t *to, uint32_t v)
{
    (void)atomicMax(to, v);
}
/* Of the loop that follows: registers are dear. */
#define UNROLL_TEXT(text)                    _Pragma(#text)
#define UNROLL(n)                            UNROLL_TEXT(unroll n)
/* Work without a result. */
DEVICE void compute_for(uint64_t ns)
{
    uint64_t begin, now;
    float v = (float)threadIdx.x;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        for (int i = 0; i < 256; i++)
            v = fmaf(v, 0.999f, 1.0f);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : "f"(v));
    } while (now - begin < ns);
}
#define LAUNCH_BLOCKS(kernel, n, stream, ...)                                                      \
    (kernel<<<(int)((n) < MOST_BLOCKS ? (n) : MOST_BLOCKS), BLOCK_THREADS, 0, stream>>>(           \
         __VA_ARGS__),                                                                             \
     cudaGetLastError())
#endif

#endif
