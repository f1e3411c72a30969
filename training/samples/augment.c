/* augment.c - flips, quarter turns, shifts, colours and stains (augment.h). Compiled without fused
 * products and sums. */
#include "training/samples/augment.h"

#include "engine/input/stain_jitter.h"

#include <math.h>

struct draws {
    bool flips_x, flips_y;
    int64_t turns, shift_x, shift_y;
    double brightness, contrast, saturation; /* factors */
    double a[3], b[3];                       /* of the stains */
};

/* From -most to most. */
static double draw_about(struct hrf_random *random, double most)
{
    return most * (2 * hrf_random_unit(random) - 1);
}

static struct draws draw(const struct hrf_augmentation *a, struct hrf_random *random, int64_t side)
{
    struct draws d;
    const uint64_t bits = hrf_random_u64(random);
    d.flips_x = a->flips && (bits & 1) != 0;
    d.flips_y = a->flips && (bits & 2) != 0;
    d.turns = a->turns ? (int64_t)(bits >> 2 & 3) : 0;
    d.shift_x = (int64_t)floor(draw_about(random, a->shift * (double)side) + 0.5);
    d.shift_y = (int64_t)floor(draw_about(random, a->shift * (double)side) + 0.5);
    d.brightness = 1 + draw_about(random, a->colour);
    d.contrast = 1 + draw_about(random, a->colour);
    d.saturation = 1 + draw_about(random, a->colour);
    for (int s = 0; s < 3; s++) {
        d.a[s] = draw_about(random, a->stain);
        d.b[s] = draw_about(random, a->stain);
    }
    return d;
}

/* ---- places ---- */

/* A position beyond the border is its mirror image: -1 is 1. Shifts are at most half of the side.
 */
static int64_t mirrored(int64_t i, int64_t side)
{
    if (side == 1)
        return 0;
    i = i < 0 ? -i : i;
    return i < side ? i : 2 * side - 2 - i;
}

static void move(const struct draws *d, int64_t side, int64_t n_channels,
                 const unsigned char *pixels, unsigned char *out)
{
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++, out += n_channels) {
            int64_t from_x = x, from_y = y;
            for (int64_t t = 0; t < d->turns; t++) {
                const int64_t kept = from_x;
                from_x = side - 1 - from_y;
                from_y = kept;
            }
            from_x = d->flips_x ? side - 1 - from_x : from_x;
            from_y = d->flips_y ? side - 1 - from_y : from_y;
            const unsigned char *in = pixels + (mirrored(from_y + d->shift_y, side) * side +
                                                mirrored(from_x + d->shift_x, side)) *
                                                   n_channels;
            for (int64_t c = 0; c < n_channels; c++)
                out[c] = in[c];
        }
}

/* ---- colours, as torchvision's adjust_brightness, adjust_contrast and adjust_saturation ---- */

static float within(float v)
{
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

static float gray_of(const float v[3])
{
    return 0.299F * v[0] + 0.587F * v[1] + 0.114F * v[2];
}

static void brighten(const unsigned char *rgb, float factor, float v[3])
{
    for (int c = 0; c < 3; c++)
        v[c] = within((float)rgb[c] * factor);
}

static void change_colours(const struct draws *d, int64_t n_pixels, unsigned char *rgb)
{
    const float brightness = (float)d->brightness, contrast = (float)d->contrast;
    const float saturation = (float)d->saturation;
    double sum = 0;
    float v[3];
    for (int64_t i = 0; i < n_pixels; i++) {
        brighten(rgb + 3 * i, brightness, v);
        sum += (double)gray_of(v);
    }
    const float mean = (float)(sum / (double)n_pixels);
    for (int64_t i = 0; i < n_pixels; i++, rgb += 3) {
        brighten(rgb, brightness, v);
        for (int c = 0; c < 3; c++)
            v[c] = within(mean + contrast * (v[c] - mean));
        const float gray = gray_of(v);
        for (int c = 0; c < 3; c++)
            rgb[c] = (unsigned char)(within(gray + saturation * (v[c] - gray)) + 0.5F);
    }
}

void hrf_augment_mask(const struct hrf_augmentation *augmentation, struct hrf_random random,
                      int64_t side, const unsigned char *mask, unsigned char *out)
{
    const struct draws d = draw(augmentation, &random, side);
    move(&d, side, 1, mask, out);
}

void hrf_augment(const struct hrf_augmentation *augmentation, struct hrf_random random,
                 int64_t side, const unsigned char *rgb, unsigned char *out)
{
    const struct draws d = draw(augmentation, &random, side);
    move(&d, side, 3, rgb, out);
    if (augmentation->colour > 0)
        change_colours(&d, side * side, out);
    if (augmentation->stain > 0) {
        struct hrf_stain_jitter jitter;
        hrf_stain_jitter_init(&jitter, d.a, d.b);
        hrf_stain_jitter_apply(&jitter, out, side * side * 3, out);
    }
}
