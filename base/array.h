/* array.h - arrays that grow. */
#ifndef HRF_BASE_ARRAY_H
#define HRF_BASE_ARRAY_H

#include "base/alloc.h"

/* Makes room for at least `need` elements in the array `items`, which has room for `capacity`
 * (size_t), by doubling. */
#define HRF_RESERVE(items, capacity, need)                                                         \
    do {                                                                                           \
        void *grown_array = (items);                                                               \
        hrf_array_reserve(&grown_array, &(capacity), need, sizeof *(items));                       \
        (items) = grown_array;                                                                     \
    } while (0)

#endif
