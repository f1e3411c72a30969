/* The XML of Philips slides and of OME-TIFFs, as it stands in a TIFF tag of a file that anyone may
 * have made. */
#include "base/alloc.h"
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = hrf_strndup((const char *)data, size);
    double x = -1, y = -1;
    bool found = hrf_philips_spacing(text, &x, &y);
    if (found != (x > 0 && y > 0 && isfinite(x) && isfinite(y)))
        __builtin_trap();
    x = y = -1;
    found = hrf_ome_spacing(text, &x, &y);
    hrf_free(text);
    if (found != (x > 0 && y > 0))
        __builtin_trap();
    return 0;
}
