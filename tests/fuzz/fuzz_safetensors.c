/* fuzz_safetensors.c - headers of any bytes are read or refused, never more; what is read lies in
 * the file. */
#include "engine/encoder/safetensors.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { DATA = 24 }; /* bytes that the corpus' headers speak of */
    struct hrf_safetensors *file = NULL;
    struct hrf_error err;
    if (hrf_safetensors_parse((const char *)data, size, DATA, "fuzz.safetensors", &file, &err) !=
        HRF_OK)
        return 0;
    for (size_t i = 0; i < file->n_items; i++)
        if (file->items[i].begin < 0 || file->items[i].end > DATA ||
            hrf_safetensors_find(file, file->items[i].name) == NULL)
            abort(); /* ci-allow: what a fuzzer waits for */
    hrf_safetensors_destroy(file);
    return 0;
}
