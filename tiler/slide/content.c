/* content.c - see content.h. */
#include "tiler/slide/content.h"

#include "base/alloc.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file takes 32 reads: 10,000 slides on a network file system of 1 ms a read take 20 s with 16
 * threads. A change of a tenth of the file meets three blocks, wherever it is. A file of up to
 * WHOLE_BYTES is read completely. */
enum { N_BLOCKS = 32, BLOCK_BYTES = 8 << 10, WHOLE_BYTES = 1 << 20 };

/* ---- one file ---- */

static void hash_times(struct hrf_hash *hash, const char *path, const struct stat *st)
{
    hrf_hash_text(hash, path);
    hrf_hash_int(hash, (int64_t)st->st_ino); /* another file of the same times */
    hrf_hash_int(hash, (int64_t)st->st_size);
    hrf_hash_int(hash, (int64_t)st->st_mtim.tv_sec);
    hrf_hash_int(hash, (int64_t)st->st_mtim.tv_nsec);
    hrf_hash_int(hash, (int64_t)st->st_ctim.tv_sec);
    hrf_hash_int(hash, (int64_t)st->st_ctim.tv_nsec);
}

/* Adds n bytes from `at` on, fewer where the file ends. */
static enum hrf_status hash_block(struct hrf_hash *hash, int fd, const char *path, int64_t at,
                                  unsigned char *block, struct hrf_error *err)
{
    size_t n = 0;
    ssize_t got = 1;
    while (n < BLOCK_BYTES && got != 0) {
        got = pread(fd, block + n, BLOCK_BYTES - n, (off_t)(at + (int64_t)n));
        if (got < 0 && errno != EINTR)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
        n += got > 0 ? (size_t)got : 0;
    }
    hrf_hash_field(hash, block, n);
    return HRF_OK;
}

static enum hrf_status hash_file(struct hrf_hash *hash, const char *path,
                                 enum hrf_content_depth depth, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    struct stat st;
    if (depth == HRF_CONTENT_SEEN && stat(path, &st) == 0) {
        hash_times(hash, path, &st);
        return HRF_OK;
    }
    HRF_TRY(hrf_file_open(path, &fd, err));
    if (fstat(fd, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
    HRF_AUTO_FREE unsigned char *block = hrf_alloc(BLOCK_BYTES);
    const int64_t size = st.st_size, all = (size + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const bool is_spread = depth == HRF_CONTENT_SPREAD && size > WHOLE_BYTES;
    if (is_spread) /* no reading ahead */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    hrf_hash_int(hash, size);
    for (int64_t i = 0; i < (is_spread ? N_BLOCKS : all); i++)
        HRF_TRY(hash_block(hash, fd, path,
                           is_spread ? (size - BLOCK_BYTES) / (N_BLOCKS - 1) * i : i * BLOCK_BYTES,
                           block, err));
    if (is_spread)
        HRF_TRY(hash_block(hash, fd, path, size - BLOCK_BYTES, block, err));
    return HRF_OK;
}

/* ---- the files beside the named one ---- */

struct parts {
    struct hrf_hash *hash;
    enum hrf_content_depth depth;
};

static enum hrf_status add_part(const struct parts *parts, const char *folder, const char *name,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, name);
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return HRF_OK; /* OpenSlide says what it misses */
    return hash_file(parts->hash, path, parts->depth, err);
}

/* Adds the parts of a MIRAX slide: all files in the folder of the same name. */
static enum hrf_status add_mirax(const struct parts *parts, const char *path, struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = hrf_strdup(path);
    folder[strlen(folder) - strlen(".mrxs")] = '\0';
    if (!hrf_path_is_directory(folder))
        return HRF_OK;
    HRF_AUTO_RELEASE(hrf_text_list) names = { NULL, 0 };
    HRF_TRY(hrf_path_list_directory(folder, &names, err));
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < names.n_items && status == HRF_OK; i++)
        status = add_part(parts, folder, names.items[i], err);
    return status;
}

/* Adds the parts of a VMS or VMU slide, which is an INI file: some of its values are names of files
 * beside it. */
static enum hrf_status add_hamamatsu(const struct parts *parts, const char *path,
                                     struct hrf_error *err)
{
    enum { LIMIT = 1 << 20 };
    HRF_AUTO_FREE char *text = NULL, *folder = hrf_path_directory(path);
    size_t n;
    HRF_TRY(hrf_file_read(path, LIMIT, &text, &n, err));
    char *left = NULL;
    for (char *line = strtok_r(text, "\r\n", &left); line != NULL;
         line = strtok_r(NULL, "\r\n", &left)) {
        const char *value = strchr(line, '=');
        if (value != NULL && value[1] != '\0' && strchr(value, '/') == NULL)
            HRF_TRY(add_part(parts, folder, value + 1, err));
    }
    return HRF_OK;
}

enum { DICOM_HEAD = 64 << 10, DICOM_UID = 64 };

static uint32_t little(const unsigned char *bytes, int n)
{
    uint32_t value = 0;
    for (int i = n - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* The Series Instance UID (0020,000E) of a DICOM file in explicit VR, the only one that compressed
 * pixels may have. False: the file is no DICOM. *uid is "" where it is not found. Source: DICOM
 * PS3.5, 7.1 and 7.5. */
static bool read_series(const char *path, char uid[DICOM_UID + 1])
{
    static const char long_forms[] = "OB OD OF OL OV OW SQ SV UC UN UR UT UV";
    HRF_AUTO_CLOSE int fd = -1;
    HRF_AUTO_FREE unsigned char *head = hrf_alloc(DICOM_HEAD);
    uid[0] = '\0';
    if (hrf_file_open(path, &fd, NULL) != HRF_OK)
        return false;
    if (pread(fd, head, 132, 0) != 132 || memcmp(head + 128, "DICM", 4) != 0)
        return false;
    const ssize_t got = pread(fd, head, DICOM_HEAD, 0);
    const size_t n = got > 0 ? (size_t)got : 0;
    int depth = 0; /* of sequences without a length */
    for (size_t at = 132; at + 12 <= n;) {
        const uint32_t tag = little(head + at, 2) << 16 | little(head + at + 2, 2);
        if (tag >> 16 == 0xfffe) { /* an item or its end: go in; the end of a sequence */
            depth -= tag == 0xfffee0dd;
            at += 8;
            continue;
        }
        const char vr[3] = { (char)head[at + 4], (char)head[at + 5], '\0' };
        const bool is_long = strlen(vr) == 2 && strstr(long_forms, vr) != NULL;
        const uint32_t size = is_long ? little(head + at + 8, 4) : little(head + at + 6, 2);
        at += is_long ? 12 : 8;
        if (tag == 0x0020000e && depth == 0 && size <= DICOM_UID && at + size <= n) {
            memcpy(uid, head + at, size);
            uid[size] = '\0'; /* padded with a NUL */
            return true;
        }
        if (size == UINT32_MAX)
            depth++;
        else
            at += size;
    }
    return true;
}

/* Adds the parts of a DICOM slide: the files of its series in the folder, or all DICOM files there
 * if it does not tell its series. */
static enum hrf_status add_dicom(const struct parts *parts, const char *path, struct hrf_error *err)
{
    char series[DICOM_UID + 1], other[DICOM_UID + 1];
    if (!read_series(path, series))
        return HRF_OK;
    HRF_AUTO_FREE char *folder = hrf_path_directory(path);
    HRF_AUTO_RELEASE(hrf_text_list) names = { NULL, 0 };
    HRF_TRY(hrf_path_list_directory(folder, &names, err));
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < names.n_items && status == HRF_OK; i++) {
        HRF_AUTO_FREE char *file = hrf_path_join(folder, names.items[i]);
        if (read_series(file, other) && (series[0] == '\0' || strcmp(series, other) == 0))
            status = add_part(parts, folder, names.items[i], err);
    }
    return status;
}

/* The formats whose slides have several files, apart from DICOM, which read_series() recognises by
 * content. */
static const struct {
    const char *extension;
    enum hrf_status (*add)(const struct parts *parts, const char *path, struct hrf_error *err);
} formats[] = { { "mrxs", add_mirax }, { "vms", add_hamamatsu }, { "vmu", add_hamamatsu } };

enum hrf_status hrf_slide_content(const char *path, enum hrf_content_depth depth,
                                  char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_FREE char *extension = hrf_path_extension(path);
    HRF_TRY(hrf_hash_create(&hash, err));
    const struct parts parts = { hash, depth };
    hrf_hash_text(hash, "hires-flow slide 2");
    HRF_TRY(hash_file(hash, path, depth, err));
    size_t i = 0;
    while (i < sizeof formats / sizeof formats[0] && strcmp(extension, formats[i].extension) != 0)
        i++;
    HRF_TRY(i < sizeof formats / sizeof formats[0] ? formats[i].add(&parts, path, err)
                                                   : add_dicom(&parts, path, err));
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status hrf_slide_content_check(const char *path, const char *expected,
                                        struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    if (expected[0] == '\0')
        return HRF_OK;
    HRF_TRY(hrf_slide_content(path, HRF_CONTENT_SPREAD, found, err));
    if (strcmp(found, expected) == 0)
        return HRF_OK;
    HRF_AUTO_FREE char *shown = hrf_text_escaped(path);
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is not the file that the run has listed (its content was %.12s..., "
                         "now %.12s...); run again, and what depends on it is done again",
                         shown, expected, found);
}
