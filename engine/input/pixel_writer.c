/* pixel_writer.c - see pixel_writer.h. */
#include "engine/input/pixel_writer.h"

#include "engine/ir/number.h"
#include "tiler/slide/patch_reader.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Copies bytes past the caches where that is possible: nobody reads a batch before it is full, and
 * the decoder's tiles should stay in the caches. */
static void copy_bytes(const unsigned char *rgb, int64_t n, uint8_t *out)
{
    int64_t i = 0;
#ifdef __SSE2__
    for (; (uintptr_t)out % 16 == 0 && i + 16 <= n; i += 16)
        _mm_stream_si128((void *)(out + i), _mm_loadu_si128((const void *)(rgb + i)));
#endif
    memcpy(out + i, rgb + i, (size_t)(n - i));
}

void hrf_pixel_writer_init(struct hrf_pixel_writer *writer, const struct hrf_feed_form *form,
                           const double mean[3], const double std[3])
{
    const enum hrf_dtype type = form->type;
    hrf_normaliser_init(&writer->normaliser, mean, std);
    writer->form = *form;
    for (int c = 0; c < 3; c++) {
        const float *table = writer->normaliser.table[c];
        if (hrf_dtype_is_half(type))
            hrf_floats_to(type, table, writer->halves[c], 256);
        for (int v = 0; v < 256 && hrf_dtype_is_byte(type); v++)
            writer->bytes[c][v] = (uint8_t)(hrf_quantize(table[v], type, &form->quantization) &
                                            0xff);
    }
}

static void put_row(const struct hrf_pixel_writer *writer, const unsigned char *rgb, int64_t n,
                    size_t number_bytes, void *out)
{
    uint8_t *bytes = out;
    uint16_t *halves = out;
    if (writer->form.raw) {
        copy_bytes(rgb, n, out);
        return;
    }
    switch (number_bytes) {
    case 1:
        for (int64_t i = 0; i < n; i += 3)
            for (int c = 0; c < 3; c++)
                bytes[i + c] = writer->bytes[c][rgb[i + c]];
        break;
    case 2:
        for (int64_t i = 0; i < n; i += 3)
            for (int c = 0; c < 3; c++)
                halves[i + c] = writer->halves[c][rgb[i + c]];
        break;
    default:
        hrf_normalise_part(&writer->normaliser, rgb, n, out);
    }
}

void hrf_pixel_writer_put(const struct hrf_pixel_writer *writer, const unsigned char *rgb,
                          int64_t stride, int64_t n_rows, int64_t n, void *out)
{
    const size_t number_bytes = hrf_feed_form_bytes(&writer->form);
    for (int64_t k = 0; k < n_rows; k++) {
        if (k + HRF_ROWS_AHEAD < n_rows)
            hrf_prefetch_row(rgb + (k + HRF_ROWS_AHEAD) * stride, n);
        put_row(writer, rgb + k * stride, n, number_bytes,
                (uint8_t *)out + (size_t)(k * n) * number_bytes);
    }
}

void hrf_pixel_writer_end(const struct hrf_pixel_writer *writer)
{
    hrf_normalise_end(&writer->normaliser);
#ifdef __SSE2__
    _mm_sfence();
#endif
}
