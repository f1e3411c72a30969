/* jp2k_tile.c - see jp2k_tile.h. */
#include "tiler/slide/jp2k_tile.h"

#include <openjpeg.h>
#include <stdio.h>
#include <string.h>

struct source {
    const unsigned char *data;
    size_t n_bytes, at;
};

static OPJ_SIZE_T read_some(void *out, OPJ_SIZE_T n, void *context)
{
    struct source *s = context;
    const size_t left = s->n_bytes - s->at, taken = n < left ? n : left;
    memcpy(out, s->data + s->at, taken);
    s->at += taken;
    return taken > 0 ? taken : (OPJ_SIZE_T)-1;
}

static OPJ_OFF_T skip_some(OPJ_OFF_T n, void *context)
{
    struct source *s = context;
    if (n < 0 || (size_t)n > s->n_bytes - s->at)
        return -1;
    s->at += (size_t)n;
    return n;
}

static OPJ_BOOL seek_to(OPJ_OFF_T at, void *context)
{
    struct source *s = context;
    if (at < 0 || (size_t)at > s->n_bytes)
        return OPJ_FALSE;
    s->at = (size_t)at;
    return OPJ_TRUE;
}

static void take_error(const char *text, void *context)
{
    char *reason = context;
    if (reason[0] == '\0')
        snprintf(reason, 256, "OpenJPEG: %.*s", (int)strcspn(text, "\n"), text);
}

static void say_nothing(const char *text, void *context)
{
    (void)text;
    (void)context;
}

static bool is_good(const opj_image_t *image, const struct hrf_jp2k_form *form, char reason[256])
{
    const int64_t r = form->reduction > 1 ? form->reduction : 1;
    bool good = image->numcomps == 1 || image->numcomps >= 3;
    for (OPJ_UINT32 c = 0; good && c < (image->numcomps == 1 ? 1 : 3); c++) {
        const opj_image_comp_t *comp = &image->comps[c];
        good = comp->w >= 1 && comp->h >= 1 && comp->dx >= 1 && comp->dy >= 1 && comp->prec >= 1 &&
               comp->prec <= 16 && comp->w <= form->width / r && comp->h <= form->height / r;
    }
    if (!good)
        snprintf(reason, 256, "a JPEG 2000 of %u channels, %u x %u px, in a tile of %lld x %lld",
                 image->numcomps, image->x1 - image->x0, image->y1 - image->y0,
                 (long long)form->width, (long long)form->height);
    return good;
}

/* A value of the channel at a pixel of the image, in 8 bits. */
static int value_at(const opj_image_comp_t *comp, const opj_image_comp_t *first, int64_t x,
                    int64_t y)
{
    const int64_t u = x * (int64_t)first->dx / comp->dx, v = y * (int64_t)first->dy / comp->dy;
    const int64_t column = u < comp->w ? u : comp->w - 1, row = v < comp->h ? v : comp->h - 1;
    const int max = (1 << comp->prec) - 1;
    int value = comp->data[row * comp->w + column] + (comp->sgnd ? 1 << (comp->prec - 1) : 0);
    value = value < 0 ? 0 : value > max ? max : value;
    return comp->prec == 8 ? value : (value * 255 + max / 2) / max;
}

static unsigned char clamped(double value)
{
    return (unsigned char)(value <= 0 ? 0 : value >= 255 ? 255 : value + 0.5);
}

/* A codestream whose channels are transformed into three others before they are coded (ISO/IEC
 * 15444-1, annex G) is of RGB: OpenJPEG has transformed them back. */
static bool says_rgb(opj_codec_t *codec)
{
    opj_codestream_info_v2_t *info = opj_get_cstr_info(codec);
    const bool is_transformed = info != NULL && info->m_default_tile_info.mct == 1;
    opj_destroy_cstr_info(&info);
    return is_transformed;
}

static void put_pixels(const opj_image_t *image, const struct hrf_jp2k_form *form, bool is_ycc,
                       unsigned char *rgb)
{
    const opj_image_comp_t *comps = image->comps;
    const int64_t stride = form->width / (form->reduction > 1 ? form->reduction : 1);
    const bool is_gray = image->numcomps == 1;
    for (int64_t y = 0; y < comps[0].h; y++)
        for (int64_t x = 0; x < comps[0].w; x++) {
            unsigned char *out = rgb + (y * stride + x) * 3;
            int v[3];
            for (int c = 0; c < 3; c++)
                v[c] = value_at(&comps[is_gray ? 0 : c], &comps[0], x, y);
            if (is_ycc && !is_gray) { /* ITU-R BT.601, full range */
                out[0] = clamped(v[0] + 1.402 * (v[2] - 128));
                out[1] = clamped(v[0] - 0.344136 * (v[1] - 128) - 0.714136 * (v[2] - 128));
                out[2] = clamped(v[0] + 1.772 * (v[1] - 128));
            } else {
                for (int c = 0; c < 3; c++)
                    out[c] = (unsigned char)v[c];
            }
        }
}

/* Decodes with a codec and a stream that the caller made and frees. */
static bool jp2k_tile_decode(opj_codec_t *codec, opj_stream_t *stream,
                             const struct hrf_jp2k_form *form, unsigned char *rgb,
                             opj_image_t **image, char reason[256])
{
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    for (int32_t r = form->reduction; r > 1; r /= 2)
        parameters.cp_reduce++;
    if (!opj_setup_decoder(codec, &parameters) || !opj_read_header(stream, codec, image))
        return false;
    /* before memory is taken: the size that the file states */
    if ((*image)->x1 - (*image)->x0 > form->width || (*image)->y1 - (*image)->y0 > form->height) {
        snprintf(reason, 256, "a JPEG 2000 of %u x %u px in a tile of %lld x %lld",
                 (*image)->x1 - (*image)->x0, (*image)->y1 - (*image)->y0, (long long)form->width,
                 (long long)form->height);
        return false;
    }
    opj_decoder_set_strict_mode(codec, OPJ_TRUE); /* what is cut short is not replaced by guesses */
    if (!opj_decode(codec, stream, *image) || !opj_end_decompress(codec, stream) ||
        !is_good(*image, form, reason))
        return false;
    put_pixels(*image, form, form->is_ycc && !says_rgb(codec), rgb);
    return true;
}

bool hrf_jp2k_tile_decode(const struct hrf_jp2k_form *form, const void *data, size_t n_bytes,
                          unsigned char *rgb, char reason[256])
{
    static const unsigned char jp2[] = { 0, 0, 0, 12, 'j', 'P', ' ', ' ' };
    struct source source = { .data = data, .n_bytes = n_bytes };
    const bool is_file = n_bytes >= sizeof jp2 && memcmp(data, jp2, sizeof jp2) == 0;
    opj_codec_t *codec = opj_create_decompress(is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    opj_stream_t *stream = opj_stream_default_create(OPJ_TRUE);
    opj_image_t *image = NULL;
    bool is_read = false;
    reason[0] = '\0';
    if (codec != NULL && stream != NULL) {
        opj_set_error_handler(codec, take_error, reason);
        opj_set_warning_handler(codec, say_nothing, NULL);
        opj_set_info_handler(codec, say_nothing, NULL);
        opj_stream_set_user_data(stream, &source, NULL);
        opj_stream_set_user_data_length(stream, n_bytes);
        opj_stream_set_read_function(stream, read_some);
        opj_stream_set_skip_function(stream, skip_some);
        opj_stream_set_seek_function(stream, seek_to);
        is_read = jp2k_tile_decode(codec, stream, form, rgb, &image, reason);
    }
    if (!is_read && reason[0] == '\0')
        snprintf(reason, 256, "OpenJPEG cannot decode it");
    if (image != NULL)
        opj_image_destroy(image);
    if (stream != NULL)
        opj_stream_destroy(stream);
    if (codec != NULL)
        opj_destroy_codec(codec);
    return is_read;
}
