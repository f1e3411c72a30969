/* preparation.c - the names of interpolations (preparation.h). */
#include "image/preparation.h"

#include <string.h>

const char *const hrf_interpolation_names[HRF_N_INTERPOLATIONS + 1] = {
    "auto", "nearest", "box", "bilinear", "bicubic", "lanczos", NULL
};

enum hrf_interpolation hrf_interpolation_find(const char *name)
{
    int i = 0;
    while (i < HRF_N_INTERPOLATIONS && strcmp(hrf_interpolation_names[i], name) != 0)
        i++;
    return (enum hrf_interpolation)i;
}
