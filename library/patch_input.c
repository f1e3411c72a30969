/* patch_input.c - see patch_input.h. */
#include "library/patch_input.h"

#include "engine/input/image_resize.h"
#include "engine/input/normalise.h"

struct hrf_patch_input {
    int64_t patch, side;
    struct hrf_image_resizer *resizer; /* NULL: patches go in as they are */
    float table[3][256];
    float *image; /* that is being filled */
};

void hrf_patch_input_destroy(struct hrf_patch_input *input)
{
    if (input == NULL)
        return;
    hrf_image_resizer_destroy(input->resizer);
    hrf_free(input);
}

void hrf_patch_input_create(int64_t patch, const struct hrf_preparation *preparation,
                            const double mean[3], const double std[3], struct hrf_patch_input **out)
{
    HRF_AUTO(hrf_patch_input) input = hrf_calloc(1, sizeof *input);
    input->patch = patch;
    input->side = preparation->size > 0 ? preparation->size : patch;
    if (preparation->size > 0)
        hrf_image_resizer_create(patch, preparation, &input->resizer);
    hrf_normalise_table(mean, std, input->table);
    HRF_MOVE(*out, input);
}

int64_t hrf_patch_input_side(const struct hrf_patch_input *input)
{
    return input->side;
}

static void put_rows(void *context, int64_t first, int64_t n, const unsigned char *rgb,
                     int64_t stride)
{
    const struct hrf_patch_input *input = context;
    for (int64_t row = first; row < first + n; row++, rgb += stride)
        for (int64_t c = 0; c < 3; c++) {
            float *out = input->image + (c * input->side + row) * input->side;
            for (int64_t x = 0; x < input->side; x++)
                out[x] = input->table[c][rgb[3 * x + c]];
        }
}

void hrf_patch_input_fill(struct hrf_patch_input *input, const unsigned char *rgb, float *image)
{
    const int64_t stride = input->patch * 3;
    int64_t first, n;
    input->image = image;
    if (input->resizer == NULL) {
        put_rows(input, 0, input->patch, rgb, stride);
        return;
    }
    hrf_image_resizer_needs(input->resizer, 0, input->side, &first, &n);
    hrf_image_resizer_begin(input->resizer, 0, input->side, put_rows, input);
    for (int64_t row = first; row < first + n; row++)
        hrf_image_resizer_put(input->resizer, rgb + row * stride);
}
