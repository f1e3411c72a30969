/* zip.c - the central directory of a ZIP archive, and the files that it names. */
#include "aggregate/camelyon16/zip.h"

#include "base/file.h"
#include "base/little_endian.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#define ARCHIVE_LIMIT ((size_t)2 << 30)
enum {
    END_BYTES = 22,
    DIRECTORY_BYTES = 46,
    LOCAL_BYTES = 30,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56
};

static uint16_t get16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint64_t get64(const unsigned char *at)
{
    return hrf_get_u32(at) | (uint64_t)hrf_get_u32(at + 4) << 32;
}

void hrf_zip_destroy(struct hrf_zip *zip)
{
    if (zip == NULL)
        return;
    for (size_t i = 0; i < zip->n_items; i++)
        hrf_free(zip->items[i].name);
    hrf_free(zip->items);
    hrf_free(zip->where);
    hrf_free(zip->bytes);
    hrf_free(zip);
}

static enum hrf_status damaged(const struct hrf_zip *zip, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "%s: not a ZIP archive, cut short or damaged",
                         zip->where);
}

/* True if [offset, offset + n) lies in the archive. */
static bool is_inside(const struct hrf_zip *zip, uint64_t offset, uint64_t n)
{
    return offset <= zip->n_bytes && n <= zip->n_bytes - offset;
}

struct directory {
    uint64_t offset, n_bytes, n_items;
};

/* The end record stands last, but for a comment of up to 64 KiB. */
static enum hrf_status find_directory(const struct hrf_zip *zip, struct directory *out,
                                      struct hrf_error *err)
{
    const unsigned char *bytes = zip->bytes;
    for (size_t back = END_BYTES; back <= zip->n_bytes && back <= END_BYTES + 65535; back++) {
        const size_t at = zip->n_bytes - back;
        const unsigned char *end = bytes + at;
        if (hrf_get_u32(end) != 0x06054b50 || get16(end + 20) != back - END_BYTES)
            continue;
        *out = (struct directory){ hrf_get_u32(end + 16), hrf_get_u32(end + 12), get16(end + 10) };
        if (get16(end + 4) != get16(end + 6) || get16(end + 8) != out->n_items)
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "%s: an archive in several parts",
                                 zip->where);
        if (at >= LOCATOR_BYTES && hrf_get_u32(end - LOCATOR_BYTES) == 0x07064b50) {
            const uint64_t at64 = get64(end - LOCATOR_BYTES + 8);
            if (!is_inside(zip, at64, END64_BYTES) || hrf_get_u32(bytes + at64) != 0x06064b50)
                return damaged(zip, err);
            *out = (struct directory){ get64(bytes + at64 + 48), get64(bytes + at64 + 40),
                                       get64(bytes + at64 + 32) };
        }
        return HRF_OK;
    }
    return damaged(zip, err);
}

/* The ZIP64 field holds those of the three numbers that do not fit, in this order. */
static void take_extra(const unsigned char *extra, size_t n, struct hrf_zip_entry *entry)
{
    for (size_t at = 0; at + 4 <= n; at += 4u + get16(extra + at + 2)) {
        const size_t n_field = get16(extra + at + 2);
        if (get16(extra + at) != 1 || at + 4 + n_field > n)
            continue;
        uint64_t *const numbers[] = { &entry->n_bytes, &entry->n_packed, &entry->offset };
        size_t from = at + 4;
        for (size_t i = 0; i < 3; i++)
            if (*numbers[i] == UINT32_MAX && from + 8 <= at + 4 + n_field) {
                *numbers[i] = get64(extra + from);
                from += 8;
            }
        return;
    }
}

/* One entry of the directory at *at, which moves on. */
static enum hrf_status take_entry(struct hrf_zip *zip, uint64_t *at, struct hrf_error *err)
{
    if (!is_inside(zip, *at, DIRECTORY_BYTES) || hrf_get_u32(zip->bytes + *at) != 0x02014b50)
        return damaged(zip, err);
    const unsigned char *head = zip->bytes + *at;
    const size_t n_name = get16(head + 28), n_extra = get16(head + 30),
                 n_comment = get16(head + 32);
    if (!is_inside(zip, *at, DIRECTORY_BYTES + n_name + n_extra + n_comment))
        return damaged(zip, err);
    struct hrf_zip_entry entry = { .method = get16(head + 10),
                                   .crc = hrf_get_u32(head + 16),
                                   .n_packed = hrf_get_u32(head + 20),
                                   .n_bytes = hrf_get_u32(head + 24),
                                   .offset = hrf_get_u32(head + 42) };
    const char *name = (const char *)head + DIRECTORY_BYTES;
    take_extra(head + DIRECTORY_BYTES + n_name, n_extra, &entry);
    *at += DIRECTORY_BYTES + n_name + n_extra + n_comment;
    if (n_name == 0 || name[n_name - 1] == '/')
        return HRF_OK; /* a folder */
    if (get16(head + 8) & 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "%s: the archive is encrypted", zip->where);
    entry.name = hrf_strndup(name, n_name);
    zip->items[zip->n_items++] = entry;
    return HRF_OK;
}

static enum hrf_status take_directory(struct hrf_zip *zip, struct hrf_error *err)
{
    struct directory directory = { .offset = 0 };
    HRF_TRY(find_directory(zip, &directory, err));
    if (!is_inside(zip, directory.offset, directory.n_bytes) ||
        directory.n_items > directory.n_bytes / DIRECTORY_BYTES)
        return damaged(zip, err);
    zip->items = hrf_calloc((size_t)directory.n_items + 1, sizeof *zip->items);
    uint64_t at = directory.offset;
    for (uint64_t i = 0; i < directory.n_items; i++)
        HRF_TRY(take_entry(zip, &at, err));
    return HRF_OK;
}

/* Takes over `bytes`. */
static enum hrf_status make(unsigned char *bytes, size_t n_bytes, const char *where,
                            struct hrf_zip **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_zip) zip = hrf_calloc(1, sizeof *zip);
    zip->bytes = bytes;
    zip->n_bytes = n_bytes;
    zip->where = hrf_strdup(where);
    HRF_TRY(take_directory(zip, err));
    HRF_MOVE(*out, zip);
    return HRF_OK;
}

enum hrf_status hrf_zip_parse(const void *bytes, size_t n_bytes, const char *where,
                              struct hrf_zip **out, struct hrf_error *err)
{
    unsigned char *copy = hrf_try_alloc(n_bytes + 1);
    if (copy == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %s", where);
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    return make(copy, n_bytes, where, out, err);
}

enum hrf_status hrf_zip_read(const char *path, struct hrf_zip **out, struct hrf_error *err)
{
    char *bytes = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, ARCHIVE_LIMIT, &bytes, &n_bytes, err));
    return make((unsigned char *)bytes, n_bytes, path, out, err);
}

static void *zlib_alloc(void *context, unsigned int count, unsigned int size)
{
    (void)context;
    return hrf_alloc_array(count, size);
}

static void zlib_free(void *context, void *memory)
{
    (void)context;
    hrf_free(memory);
}

/* True if the packed bytes are exactly n_out bytes. */
static bool inflate_all(const unsigned char *packed, size_t n_packed, unsigned char *out,
                        size_t n_out)
{
    unsigned char *in = hrf_try_alloc(n_packed + 1); /* zlib's input is not const */
    z_stream z = { .zalloc = zlib_alloc, .zfree = zlib_free };
    if (in == NULL || n_packed > UINT_MAX || n_out > UINT_MAX ||
        inflateInit2(&z, -MAX_WBITS) != Z_OK) {
        hrf_free(in);
        return false;
    }
    memcpy(in, packed, n_packed);
    z.next_in = in;
    z.avail_in = (uInt)n_packed;
    z.next_out = out;
    z.avail_out = (uInt)n_out;
    const bool is_whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    hrf_free(in);
    return is_whole;
}

enum hrf_status hrf_zip_extract(const struct hrf_zip *zip, const struct hrf_zip_entry *entry,
                                size_t limit, char **out, size_t *n_bytes, struct hrf_error *err)
{
    if (!is_inside(zip, entry->offset, LOCAL_BYTES))
        return damaged(zip, err);
    const unsigned char *local = zip->bytes + entry->offset;
    if (hrf_get_u32(local) != 0x04034b50)
        return damaged(zip, err);
    const uint64_t at = entry->offset + LOCAL_BYTES + get16(local + 26) + get16(local + 28);
    if (!is_inside(zip, at, entry->n_packed))
        return damaged(zip, err);
    if (entry->n_bytes > limit || entry->n_bytes > UINT_MAX)
        return hrf_error_set(err, HRF_E_USER, "%s: '%.200s' is larger than %zu bytes", zip->where,
                             entry->name, limit);
    if (entry->method != 0 && entry->method != Z_DEFLATED)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "%s: '%.200s' is packed by method %d; pack it again by 'zip'",
                             zip->where, entry->name, entry->method);
    const size_t n = (size_t)entry->n_bytes;
    HRF_AUTO_FREE char *text = hrf_alloc(n + 1);
    bool is_whole = entry->method == 0 && entry->n_packed == entry->n_bytes;
    if (is_whole)
        memcpy(text, zip->bytes + at, n);
    else if (entry->method != 0)
        is_whole = inflate_all(zip->bytes + at, (size_t)entry->n_packed, (unsigned char *)text, n);
    if (!is_whole || crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)n) != entry->crc)
        return hrf_error_set(err, HRF_E_USER, "%s: '%.200s' is damaged in the archive", zip->where,
                             entry->name);
    text[n] = '\0';
    *out = text;
    *n_bytes = n;
    text = NULL;
    return HRF_OK;
}
