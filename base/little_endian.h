/* little_endian.h - integers as files have them, the lowest byte first, at any address. */
#ifndef HRF_BASE_LITTLE_ENDIAN_H
#define HRF_BASE_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint32_t hrf_get_u32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static inline void hrf_put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

#endif
