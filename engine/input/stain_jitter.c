/* stain_jitter.c - see stain_jitter.h. */
#include "engine/input/stain_jitter.h"

#include "base/hash.h"
#include "base/random.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* The rows are the densities of haematoxylin, eosin and DAB in R, G and B. */
static const double rgb_of[3][3] = { { 0.65, 0.70, 0.29 },
                                     { 0.07, 0.99, 0.11 },
                                     { 0.27, 0.57, 0.78 } };

/* Densities are cut into cells so narrow that at most one border between two bytes lies in a cell:
 * the closest two, of 254 and 255, are 0.0039 apart. */
enum { CELLS_PER_UNIT = 1024, DENSEST = 7 };
static struct {
    float density[256]; /* the density of each byte */
    float least[257];   /* a byte has a density of at least this */
    uint8_t byte[CELLS_PER_UNIT * DENSEST +
                 1]; /* the byte of the density at the lower end of each cell */
} tables;
static pthread_once_t is_made = PTHREAD_ONCE_INIT;

/* 255 exp(-density), rounded half up: a byte v has the densities from -ln((v + 0.5) / 255) to
 * -ln((v - 0.5) / 255). */
static void make_tables(void)
{
    for (int v = 0; v < 256; v++) {
        tables.density[v] = (float)-log((v > 0 ? v : 1) / 255.0);
        tables.least[v] = v == 255 ? -INFINITY : (float)-log((v + 0.5) / 255.0);
    }
    int v = 255;
    for (int i = 0; i <= CELLS_PER_UNIT * DENSEST; i++) {
        while (v > 0 && (float)i / CELLS_PER_UNIT >= tables.least[v - 1])
            v--;
        tables.byte[i] = (uint8_t)v;
    }
}

static void invert(const double m[3][3], double out[3][3])
{
    double det = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            const int r = (k + 1) % 3, s = (k + 2) % 3, t = (i + 1) % 3, u = (i + 2) % 3;
            out[i][k] = m[r][t] * m[s][u] - m[r][u] * m[s][t];
        }
    for (int k = 0; k < 3; k++)
        det += m[0][k] * out[k][0];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            out[i][k] /= det;
}

void hrf_stain_jitter_init(struct hrf_stain_jitter *jitter, const double a[3], const double b[3])
{
    double stains_of[3][3];
    pthread_once(&is_made, make_tables);
    invert(rgb_of, stains_of);
    for (int to = 0; to < 3; to++) {
        double offset = 0;
        for (int from = 0; from < 3; from++) {
            double sum = 0;
            for (int s = 0; s < 3; s++)
                sum += stains_of[from][s] * (1 + a[s]) * rgb_of[s][to];
            jitter->matrix[from][to] = (float)sum;
        }
        for (int s = 0; s < 3; s++)
            offset += b[s] * rgb_of[s][to];
        jitter->offset[to] = (float)offset;
    }
}

void hrf_stain_jitter_draw(struct hrf_stain_jitter *jitter, double sigma, int64_t seed,
                           const char *slide_name)
{
    struct hrf_random random = hrf_random_init(hrf_hash_fnv(slide_name, strlen(slide_name)) ^
                                               (uint64_t)seed * 0x9e3779b97f4a7c15u);
    double a[3], b[3];
    for (int s = 0; s < 3; s++) {
        a[s] = sigma * (2 * hrf_random_unit(&random) - 1);
        b[s] = sigma * (2 * hrf_random_unit(&random) - 1);
    }
    hrf_stain_jitter_init(jitter, a, b);
}

static unsigned char byte_of(float density)
{
    if (!(density > 0))
        return 255;
    if (density >= DENSEST)
        return 0;
    int v = tables.byte[(int)(density * CELLS_PER_UNIT)];
    v -= v > 0 && density >= tables.least[v - 1];
    return (unsigned char)v;
}

void hrf_stain_jitter_apply(const struct hrf_stain_jitter *jitter, const unsigned char *rgb,
                            int64_t n, unsigned char *out)
{
    const float(*m)[3] = jitter->matrix, *offset = jitter->offset;
    for (int64_t i = 0; i < n; i += 3) {
        const float r = tables.density[rgb[i]], g = tables.density[rgb[i + 1]],
                    b = tables.density[rgb[i + 2]];
        for (int c = 0; c < 3; c++)
            out[i + c] = byte_of(r * m[0][c] + g * m[1][c] + b * m[2][c] + offset[c]);
    }
}
