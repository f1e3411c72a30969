/* cut_short.c - finds out whether a TIFF is longer than its file: a copy that was interrupted. */
#include "base/file.h"
#include "tiler/slide/slide_private.h"

#include <stdio.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

enum { MAX_DIRECTORIES = 256 };

struct chain {
    int fd;
    bool is_little, is_big;
    uint64_t end; /* bytes of the file */
};

static bool read_number(const struct chain *chain, uint64_t offset, int n_bytes, uint64_t *out)
{
    unsigned char bytes[8];
    uint64_t value = 0;
    if (offset > chain->end || chain->end - offset < (uint64_t)n_bytes ||
        pread(chain->fd, bytes, (size_t)n_bytes, (off_t)offset) != n_bytes)
        return false;
    for (int i = 0; i < n_bytes; i++)
        value = value << 8 | bytes[chain->is_little ? n_bytes - 1 - i : i];
    *out = value;
    return true;
}

/* Follows the directories from one to the next. False: the file is no TIFF. *lost gets the offset
 * of a directory that cannot be read, because the file ends before it; 0 if there is none. */
static bool follow(struct chain *chain, uint64_t *lost)
{
    uint64_t order = 0, version = 0, offset = 0, n = 0;
    *lost = 0;
    if (!read_number(chain, 0, 2, &order) || (order != 0x4949 && order != 0x4d4d))
        return false;
    chain->is_little = order == 0x4949;
    if (!read_number(chain, 2, 2, &version) || (version != 42 && version != 43))
        return false;
    chain->is_big = version == 43;
    const int word = chain->is_big ? 8 : 4, entry = chain->is_big ? 20 : 12;
    if (!read_number(chain, chain->is_big ? 8 : 4, word, &offset))
        return false;
    for (int i = 0; i < MAX_DIRECTORIES && offset != 0; i++) {
        const int count = chain->is_big ? 8 : 2;
        const uint64_t at = offset;
        *lost = at;
        if (!read_number(chain, at, count, &n) || n > UINT16_MAX ||
            !read_number(chain, at + (uint64_t)count + n * (uint64_t)entry, word, &offset))
            return true;
        *lost = 0;
    }
    return true;
}

static int64_t count_beyond(int fd, uint64_t end)
{
    int64_t n = 0;
    const int own = dup(fd);
    TIFF *tiff = own >= 0 ? TIFFFdOpen(own, "slide", "rm") : NULL;
    if (tiff == NULL) {
        if (own >= 0)
            close(own);
        return 0;
    }
    do {
        const uint32_t n_pieces = TIFFIsTiled(tiff) ? TIFFNumberOfTiles(tiff)
                                                    : TIFFNumberOfStrips(tiff);
        for (uint32_t i = 0; i < n_pieces; i++) {
            const uint64_t length = TIFFGetStrileByteCount(tiff, i);
            n += length > 0 && (length > end || TIFFGetStrileOffset(tiff, i) > end - length);
        }
    } while (TIFFReadDirectory(tiff));
    TIFFClose(tiff);
    return n;
}

bool hrf_slide_is_cut_short(const char *path, char *text, size_t n_text)
{
    HRF_AUTO_CLOSE int fd = -1;
    struct stat st;
    uint64_t lost = 0;
    if (hrf_file_open(path, &fd, NULL) != HRF_OK || fstat(fd, &st) != 0)
        return false;
    struct chain chain = { .fd = fd, .end = (uint64_t)st.st_size };
    if (!follow(&chain, &lost))
        return false;
    if (lost > 0) {
        snprintf(text, n_text, "is cut short: it should go on at byte %llu, and has %llu",
                 (unsigned long long)lost, (unsigned long long)chain.end);
        return true;
    }
    hrf_tiff_take_messages();
    const int64_t n = count_beyond(fd, chain.end);
    snprintf(text, n_text, "is cut short: %lld of its tiles lie beyond its end at byte %llu",
             (long long)n, (unsigned long long)chain.end);
    return n > 0;
}
