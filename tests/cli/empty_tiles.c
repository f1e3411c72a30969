/* empty_tiles.c - takes tiles of a BigTIFF away: empty_tiles SLIDE LEVEL [TILE].
 *
 * The byte count of the tile, or of every tile, of directory LEVEL becomes 0, as after an
 * interrupted conversion. The data stays where it is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TILE_BYTE_COUNTS = 325, SHORT = 3, LONG = 4 };

static uint64_t get(FILE *file, uint64_t at, int n_bytes)
{
    uint64_t value = 0;
    fseek(file, (long)at, SEEK_SET);
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)(unsigned char)getc(file) << 8 * i;
    return value;
}

static void clear(FILE *file, uint64_t at, int n_bytes)
{
    fseek(file, (long)at, SEEK_SET);
    for (int i = 0; i < n_bytes; i++)
        putc(0, file);
}

int main(int argc, char **argv)
{
    FILE *file = argc >= 3 ? fopen(argv[1], "r+b") : NULL;
    if (file == NULL || get(file, 0, 4) != 0x002b4949) {
        fprintf(stderr, "empty_tiles: usage: SLIDE LEVEL [TILE], of a little-endian BigTIFF\n");
        return 1;
    }
    uint64_t directory = get(file, 8, 8), n_cleared = 0;
    for (long level = strtol(argv[2], NULL, 10); level > 0; level--)
        directory = get(file, directory + 8 + get(file, directory, 8) * 20, 8);
    for (uint64_t i = 0; i < get(file, directory, 8); i++) {
        const uint64_t entry = directory + 8 + i * 20, n = get(file, entry + 4, 8);
        const uint64_t type = get(file, entry + 2, 2);
        const int width = type == SHORT ? 2 : type == LONG ? 4 : 8;
        if (get(file, entry, 2) != TILE_BYTE_COUNTS)
            continue;
        const uint64_t values = n * (uint64_t)width <= 8 ? entry + 12 : get(file, entry + 12, 8);
        for (uint64_t tile = 0; tile < n; tile++) {
            if (argc > 3 && tile != strtoull(argv[3], NULL, 10))
                continue;
            clear(file, values + tile * (uint64_t)width, width);
            n_cleared++;
        }
    }
    fprintf(stderr, "empty_tiles: %" PRIu64 " tiles\n", n_cleared);
    return fclose(file) == 0 && n_cleared > 0 ? 0 : 1;
}
