/* depthwise_lanes.h - a register of floats of a block's channels, of the width that the file which
 * includes it is compiled for. */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_DEPTHWISE_LANES_H
#define HRF_ENGINE_BACKEND_CPU_CONV_DEPTHWISE_LANES_H

#include "engine/backend/cpu/conv/depthwise.h"

enum { LANES = HRF_DEPTHWISE_LANES };

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 lanes;
enum { WIDTH = 16 };
#define LOAD(p)           _mm512_load_ps(p)
#define STORE(p, x)       _mm512_store_ps(p, x)
#define MULTIPLY(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ZERO              _mm512_setzero_ps()
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256 lanes;
enum { WIDTH = 8 };
#define LOAD(p)           _mm256_load_ps(p)
#define STORE(p, x)       _mm256_store_ps(p, x)
#define MULTIPLY(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ZERO              _mm256_setzero_ps()
#else
#include <math.h>
typedef float lanes;
enum { WIDTH = 1 };
#define LOAD(p)           (*(p))
#define STORE(p, x)       (*(p) = (x))
#define MULTIPLY(a, b, c) fmaf(a, b, c)
#define ZERO              0.0f
#endif

#endif
