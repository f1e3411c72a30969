/* fuzz_npy.c - array files of any bytes are read or refused, never more. */
#include "engine/input/npy.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hrf_shape shape;
    float *values = NULL;
    struct hrf_error err;
    if (hrf_npy_parse(data, size, "fuzz.npy", &shape, &values, &err) == HRF_OK)
        hrf_free(values);
    return 0;
}
