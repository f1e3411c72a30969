/* precision.c - the names of precisions (precision.h). */
#include "base/precision.h"

#include <string.h>

const char *const hrf_precision_names[HRF_N_PRECISIONS + 1] = { "fp32", "tf32", "fp16",
                                                                "bf16", "int8", NULL };

enum hrf_precision hrf_precision_find(const char *name)
{
    int p = 0;
    while (p < HRF_N_PRECISIONS && strcmp(hrf_precision_names[p], name) != 0)
        p++;
    return (enum hrf_precision)p;
}
