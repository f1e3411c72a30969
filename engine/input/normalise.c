#include "engine/input/normalise.h"

void hrf_normalise_table(const double mean[3], const double std[3], float table[3][256])
{
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table[c][v] = (float)((v / 255.0 - mean[c]) / std[c]);
}

struct hrf_pixel_form hrf_normalise_form(const double mean[3], const double std[3])
{
    struct hrf_pixel_form form;
    for (int c = 0; c < 3; c++) {
        form.scale[c] = (float)(1 / (255 * std[c]));
        form.shift[c] = (float)(-mean[c] / std[c]);
    }
    return form;
}
