/* inline.h - functions that are always part of their caller, so that the compiler knows constant
 * arguments: one text for what would be a copy for each of them. */
#ifndef HRF_BASE_INLINE_H
#define HRF_BASE_INLINE_H

#include <stdint.h>

#define HRF_ALWAYS_INLINE static inline __attribute__((always_inline))

#endif
