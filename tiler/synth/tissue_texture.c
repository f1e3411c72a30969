/* tissue_texture.c - stroma, lymphoid tissue, fat and tumour as ground colours under a tileable
 * noise, with nuclei drawn over them on a jittered grid. Sizes are those of the real thing at
 * 0.25 um/px: lymphocytes about 7 um, tumour nuclei 12 to 16 um. */
#include "tiler/synth/tissue_texture.h"

#include "base/alloc.h"
#include "base/random.h"

#include <math.h>

enum { NOISE = 512, NOISE_MASK = NOISE - 1, CELL = 32 /* px between nuclei, lymphoid */ };

struct palette {
    double glass[3], stroma[3], lymphoid[3], tumour[3], nucleus[3], tumour_nucleus[3];
};

struct canvas {
    const struct hrf_synth_slide *slide;
    unsigned char *rgb;
    float *noise; /* [NOISE][NOISE], 0..1, tileable, smooth */
    struct palette palette;
};

double hrf_blob_depth(const struct hrf_blob *blob, double x, double y)
{
    double u = (x - blob->x) / blob->rx, v = (y - blob->y) / blob->ry;
    double angle = atan2(v, u);
    double rim = 1 + 0.12 * sin(3 * angle + blob->phase) + 0.07 * sin(7 * angle - blob->phase) +
                 0.04 * sin(13 * angle + 2 * blob->phase);
    return rim - sqrt(u * u + v * v);
}

/* Value noise: random values, blurred by wrapping box filters, stretched to 0..1. */
static void make_noise(float *noise, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    static const int radii[] = { 2, 5 };
    float low = 1e9f, high = -1e9f;
    for (int i = 0; i < NOISE * NOISE; i++)
        noise[i] = (float)hrf_random_unit(&random);
    for (int pass = 0; pass < 4; pass++) {
        int radius = radii[pass / 2], stride = pass % 2 == 0 ? 1 : NOISE;
        int across = pass % 2 == 0 ? NOISE : 1;
        float line[NOISE];
        for (int l = 0; l < NOISE; l++) {
            float *first = noise + l * across;
            for (int i = 0; i < NOISE; i++) {
                float sum = 0;
                for (int k = -radius; k <= radius; k++)
                    sum += first[((i + k) & NOISE_MASK) * stride];
                line[i] = sum;
            }
            for (int i = 0; i < NOISE; i++)
                first[i * stride] = line[i];
        }
    }
    for (int i = 0; i < NOISE * NOISE; i++) {
        low = noise[i] < low ? noise[i] : low;
        high = noise[i] > high ? noise[i] : high;
    }
    for (int i = 0; i < NOISE * NOISE; i++)
        noise[i] = (noise[i] - low) / (high - low);
}

static double noise_at(const struct canvas *c, double x, double y)
{
    int64_t u = (int64_t)floor(x), v = (int64_t)floor(y);
    double fx = x - floor(x), fy = y - floor(y);
    const float *row = c->noise + (v & NOISE_MASK) * NOISE;
    const float *next = c->noise + ((v + 1) & NOISE_MASK) * NOISE;
    double top = (double)row[u & NOISE_MASK] * (1 - fx) + (double)row[(u + 1) & NOISE_MASK] * fx;
    double bottom = (double)next[u & NOISE_MASK] * (1 - fx) +
                    (double)next[(u + 1) & NOISE_MASK] * fx;
    return top * (1 - fy) + bottom * fy;
}

static double deepest(const struct hrf_blob *blobs, int n, double x, double y,
                      const struct hrf_blob **which)
{
    double depth = -1e9;
    for (int i = 0; i < n; i++) {
        double own = hrf_blob_depth(&blobs[i], x, y);
        if (own > depth && which != NULL)
            *which = &blobs[i];
        depth = fmax(depth, own);
    }
    return depth;
}

/* Returns the lesion at (x, y), else the look-alike there, else NULL. `rough` shifts their rims. */
static const struct hrf_blob *atypical_at(const struct hrf_synth_slide *s, double x, double y,
                                          double rough)
{
    const struct hrf_blob *blob = NULL;
    if (deepest(s->lesions, s->n_lesions, x, y, &blob) + rough > 0)
        return blob;
    return deepest(s->lookalikes, s->n_lookalikes, x, y, &blob) + rough > 0 ? blob : NULL;
}

/* No two fields of a lesion are alike: its atypia varies by a tenth or so from place to place. That
 * of a plain tumour (1) does not. */
static double atypia_at(const struct canvas *c, const struct hrf_blob *blob, double x, double y)
{
    double varied = blob->atypia + 0.3 * (noise_at(c, x / 40 + 311, y / 40 + 17) - 0.5);
    return blob->atypia >= 1 ? 1 : fmin(fmax(varied, 0), 1);
}

/* What is drawn at a point. Noise makes the rim of tissue rough. */
struct ground {
    bool is_tissue, is_atypical; /* is_atypical: in a lesion or a look-alike */
    double atypia;               /* there: 0 lymphoid .. 1 tumour; nothing else tells them apart */
    double lymphoid;             /* 0 stroma .. 1 lymphoid */
    bool is_fat;
};

static struct ground ground_at(const struct canvas *c, double x, double y)
{
    const struct hrf_synth_slide *s = c->slide;
    double rough = (noise_at(c, x / 60, y / 60) - 0.5) * 0.12 +
                   (noise_at(c, x / 14 + 99, y / 14) - 0.5) * 0.03;
    struct ground g = { .is_tissue = deepest(s->tissue, s->n_tissue, x, y, NULL) + rough > 0 };
    if (!g.is_tissue)
        return g;
    const struct hrf_blob *blob = atypical_at(s, x, y, rough);
    g.is_atypical = blob != NULL;
    g.atypia = blob != NULL ? atypia_at(c, blob, x, y) : 0;
    double zone = noise_at(c, x / 130 + 7, y / 130 + 31);
    g.lymphoid = zone > 0.62 ? 1 : zone < 0.42 ? 0 : (zone - 0.42) / 0.2;
    double fat = noise_at(c, x / 26 + 200, y / 26 + 50);
    g.is_fat = !g.is_atypical && zone < 0.36 && fat > 0.6;
    return g;
}

/* Computes the ground on a coarse lattice; each pixel takes its nearest lattice point (16 px are 4
 * um). */
enum { LATTICE = 8 };

/* Returns exactly `high` for a share of 1. */
static double between(double low, double high, double share)
{
    return share * high + (1 - share) * low;
}

static void paint_ground(const struct canvas *c, int64_t y0, int64_t y1, struct ground *line)
{
    const struct hrf_synth_slide *s = c->slide;
    const struct palette *p = &c->palette;
    for (int64_t y = y0; y < y1; y++) {
        if (y % LATTICE == 0 || y == y0)
            for (int64_t i = 0; i * LATTICE < s->width; i++)
                line[i] = ground_at(c, (double)(i * LATTICE), (double)(y / LATTICE * LATTICE));
        unsigned char *out = c->rgb + y * s->width * 3;
        const float *grain = c->noise + (y * 7 & NOISE_MASK) * NOISE;
        for (int64_t x = 0; x < s->width; x++) {
            const struct ground *g = &line[x / LATTICE];
            double n = (double)grain[(x * 7) & NOISE_MASK] - 0.5;
            double fibre =
                (double)c->noise[((x / 3 + y / 2) & NOISE_MASK) + ((y / 9) & NOISE_MASK) * NOISE] -
                0.5;
            for (int k = 0; k < 3; k++) {
                double v = p->glass[k] + 4 * n;
                if (g->is_tissue && !g->is_fat) {
                    double tissue = p->stroma[k] + (p->lymphoid[k] - p->stroma[k]) * g->lymphoid;
                    if (g->is_atypical)
                        tissue = between(p->lymphoid[k], p->tumour[k], g->atypia);
                    tissue += (k == 1 ? 60 : 30) * fibre + 14 * n;
                    v = tissue + (p->glass[k] - tissue) * s->faint;
                }
                out[3 * x + k] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
        }
    }
}

/* A nucleus: an ellipse, darker at its rim as far as it is `vesicular` (0..1), blended over the
 * ground. */
static void draw_nucleus(const struct canvas *c, double cx, double cy, double rx, double ry,
                         double angle, const double colour[3], double vesicular)
{
    const struct hrf_synth_slide *s = c->slide;
    double reach = fmax(rx, ry) + 1, co = cos(angle), si = sin(angle);
    int64_t x0 = (int64_t)fmax(cx - reach, 0), x1 = (int64_t)fmin(cx + reach, (double)s->width - 1);
    int64_t y0 = (int64_t)fmax(cy - reach, 0),
            y1 = (int64_t)fmin(cy + reach, (double)s->height - 1);
    for (int64_t y = y0; y <= y1; y++) {
        for (int64_t x = x0; x <= x1; x++) {
            double dx = (double)x - cx, dy = (double)y - cy;
            double u = (dx * co + dy * si) / rx, v = (dy * co - dx * si) / ry;
            double r2 = u * u + v * v;
            if (r2 >= 1)
                continue;
            double n = (double)c->noise[((x * 5) & NOISE_MASK) + ((y * 5) & NOISE_MASK) * NOISE];
            double strength = between(0.85 - 0.1 * r2, 0.45 + 0.4 * r2, vesicular);
            strength *= (1 - s->faint) * (0.75 + 0.5 * n) * fmin((1 - r2) * 6, 1);
            unsigned char *p = c->rgb + (y * s->width + x) * 3;
            for (int k = 0; k < 3; k++)
                p[k] = (unsigned char)(p[k] + (colour[k] - p[k]) * fmin(strength, 0.95));
        }
    }
}

/* A cell of a lesion or a look-alike. Larger cells lie further apart. */
static void draw_atypical_cell(const struct canvas *c, double x, double y, double angle,
                               double dice, double atypia, struct hrf_random *random)
{
    const struct palette *p = &c->palette;
    double density = between(0.98, 0.42, atypia), colour[3];
    if (dice > density)
        return;
    double rx = between(12, 24, atypia) + between(1.5, 4.5, atypia) * hrf_random_normal(random);
    double ratio = between(0.92, 0.6 + 0.4 * dice, atypia);
    rx = rx < between(8, 14, atypia) ? between(8, 14, atypia) : rx > 36 ? 36 : rx;
    for (int k = 0; k < 3; k++)
        colour[k] = between(p->nucleus[k], p->tumour_nucleus[k], atypia);
    draw_nucleus(c, x, y, rx, rx * ratio, angle, colour, atypia);
    if (atypia > 0.3)
        draw_nucleus(c, x + rx * 0.2, y, 4 * atypia, 4 * atypia, 0, p->nucleus, 0); /* nucleolus */
}

static void draw_cell(const struct canvas *c, int64_t gx, int64_t gy)
{
    uint64_t seed = c->slide->seed ^ (uint64_t)gx * 0x9e3779b97f4a7c15u ^
                    (uint64_t)gy * 0xc2b2ae3d27d4eb4fu;
    struct hrf_random random = hrf_random_init(seed);
    double x = ((double)gx + hrf_random_unit(&random)) * CELL;
    double y = ((double)gy + hrf_random_unit(&random)) * CELL;
    double angle = hrf_random_unit(&random) * 3.14159, dice = hrf_random_unit(&random);
    struct ground g = ground_at(c, x, y);
    if (!g.is_tissue || g.is_fat)
        return;
    if (g.is_atypical) {
        draw_atypical_cell(c, x, y, angle, dice, g.atypia, &random);
        return;
    }
    if (dice > 0.12 + 0.86 * g.lymphoid)
        return;
    bool spindle = g.lymphoid < 0.3; /* fibroblasts are long and thin */
    double r = 12 + 1.5 * hrf_random_normal(&random);
    draw_nucleus(c, x, y, spindle ? 17 : r, spindle ? 5 : r * 0.92, spindle ? 0.4 * angle : angle,
                 c->palette.nucleus, 0);
}

static struct palette make_palette(struct hrf_random *random)
{
    struct palette p = { .glass = { 243, 240, 243 },
                         .stroma = { 226, 165, 197 },
                         .lymphoid = { 196, 150, 192 },
                         .tumour = { 208, 150, 188 },
                         .nucleus = { 76, 46, 118 },
                         .tumour_nucleus = { 112, 70, 148 } };
    double stain = 14 * hrf_random_normal(random) * 0.5, hue = 10 * hrf_random_normal(random) * 0.5;
    double *colours[] = { p.stroma, p.lymphoid, p.tumour, p.nucleus, p.tumour_nucleus };
    for (int i = 0; i < 5; i++) {
        colours[i][0] += stain - hue;
        colours[i][1] += stain;
        colours[i][2] += stain + hue;
    }
    return p;
}

void hrf_synth_draw(const struct hrf_synth_slide *slide, unsigned char *rgb)
{
    struct hrf_random random = hrf_random_init(slide->seed);
    struct canvas c = { .slide = slide, .rgb = rgb };
    HRF_AUTO_FREE float *noise = hrf_alloc_array((size_t)NOISE * NOISE, sizeof *noise);
    HRF_AUTO_FREE struct ground *line = hrf_alloc_array((size_t)(slide->width / LATTICE + 2),
                                                        sizeof *line);
    make_noise(noise, hrf_random_u64(&random));
    c.noise = noise;
    c.palette = make_palette(&random);
    paint_ground(&c, 0, slide->height, line);
    for (int64_t gy = 0; gy * CELL < slide->height; gy++)
        for (int64_t gx = 0; gx * CELL < slide->width; gx++)
            draw_cell(&c, gx, gy);
}
