/* embedding_rows.c - pwrite of rows, a sum of each, and the hash of all (embedding_rows.h). */
#include "engine/worker/embedding_rows.h"

#include "base/directory.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20 };

struct hrf_embedding_rows {
    char *path;
    int fd;
    int64_t n, width;
    uint64_t *sums;
    float *row; /* room for one */
    bool stays;
    struct hrf_error err; /* the first of put() */
};

void hrf_embedding_rows_destroy(struct hrf_embedding_rows *rows)
{
    if (rows == NULL)
        return;
    if (rows->fd >= 0)
        close(rows->fd);
    if (rows->fd >= 0 && !rows->stays)
        unlink(rows->path);
    hrf_free(rows->path);
    hrf_free(rows->sums);
    hrf_free(rows->row);
    hrf_free(rows);
}

static size_t row_bytes(const struct hrf_embedding_rows *rows)
{
    return (size_t)rows->width * sizeof(float);
}

/* A file system that cannot reserve space gets a file with a hole: a full disk is then told by
 * put(). */
static enum hrf_status reserve(const struct hrf_embedding_rows *rows, struct hrf_error *err)
{
    const off_t all = (off_t)rows->n * (off_t)row_bytes(rows);
    const int native = all > 0 ? posix_fallocate(rows->fd, 0, all) : 0;
    if (native == ENOSPC || native == EDQUOT || native == EFBIG)
        return hrf_error_set_errno(err, native, "no room for the %lld bytes of '%s'",
                                   (long long)all, rows->path);
    if (native != 0 && ftruncate(rows->fd, all) != 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", rows->path);
    return HRF_OK;
}

enum hrf_status hrf_embedding_rows_create(const char *path, int64_t n, int64_t width,
                                          struct hrf_embedding_rows **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_embedding_rows) rows = hrf_calloc(1, sizeof *rows);
    rows->fd = -1;
    rows->n = n;
    rows->width = width;
    rows->err.status = HRF_OK;
    rows->path = hrf_strdup(path);
    rows->sums = hrf_calloc((size_t)n + 1, sizeof *rows->sums);
    rows->row = hrf_try_alloc_array((size_t)width, sizeof *rows->row);
    HRF_CHECK_MEMORY(rows->row != NULL, err, "no memory for the embeddings of %lld patches",
                     (long long)n);
    if (unlink(path) != 0 && errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot replace '%s'", path);
    rows->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (rows->fd < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
    HRF_TRY(reserve(rows, err));
    HRF_MOVE(*out, rows);
    return HRF_OK;
}

void hrf_embedding_rows_put(struct hrf_embedding_rows *rows, int64_t row, const float *values)
{
    const char *at = (const char *)values;
    size_t left = row_bytes(rows);
    off_t offset = (off_t)row * (off_t)left;
    rows->sums[row] = 0;
    while (left > 0 && rows->err.status == HRF_OK) {
        const ssize_t n = pwrite(rows->fd, at, left, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            hrf_error_set_errno(&rows->err, errno, "cannot write '%s'", rows->path);
            return;
        }
        at += n;
        offset += n;
        left -= (size_t)n;
    }
    if (rows->err.status == HRF_OK)
        rows->sums[row] = hrf_embedding_sum(values, rows->width);
}

uint64_t *hrf_embedding_rows_sums(const struct hrf_embedding_rows *rows)
{
    return rows->sums;
}

bool hrf_embedding_rows_take(struct hrf_embedding_rows *rows, int fd, int64_t row, uint64_t sum)
{
    const size_t n_bytes = row_bytes(rows);
    const ssize_t n = pread(fd, rows->row, n_bytes, (off_t)row * (off_t)n_bytes);
    if (n != (ssize_t)n_bytes || hrf_embedding_sum(rows->row, rows->width) != sum)
        return false;
    hrf_embedding_rows_put(rows, row, rows->row);
    return true;
}

static enum hrf_status give_error(const struct hrf_embedding_rows *rows, struct hrf_error *err)
{
    if (rows->err.status != HRF_OK && err != NULL)
        *err = rows->err;
    return rows->err.status;
}

enum hrf_status hrf_embedding_rows_sync(struct hrf_embedding_rows *rows, struct hrf_error *err)
{
    HRF_TRY(give_error(rows, err));
    if (fsync(rows->fd) != 0)
        return hrf_error_set_errno(err, errno, "cannot sync '%s'", rows->path);
    HRF_AUTO_FREE char *directory = hrf_path_directory(rows->path);
    HRF_TRY(hrf_path_sync_directory(directory, err));
    rows->stays = true;
    return HRF_OK;
}

/* Of rows [first, first + n). True: all numbers are finite. */
static bool are_finite(const struct hrf_embedding_rows *rows, const float *values, int64_t first,
                       int64_t n, struct hrf_embedding_flaw *flaw)
{
    for (int64_t i = 0; i < n * rows->width; i++) {
        if (isfinite(values[i]))
            continue;
        *flaw = (struct hrf_embedding_flaw){ first + i / rows->width, i % rows->width, values[i] };
        return false;
    }
    return true;
}

static enum hrf_status read_block(const struct hrf_embedding_rows *rows, int64_t first, int64_t n,
                                  float *values, struct hrf_error *err)
{
    char *at = (char *)values;
    size_t left = (size_t)n * row_bytes(rows);
    off_t offset = (off_t)first * (off_t)row_bytes(rows);
    while (left > 0) {
        const ssize_t got = pread(rows->fd, at, left, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return hrf_error_set_errno(err, got < 0 ? errno : EIO, "cannot read '%s'", rows->path);
        at += got;
        offset += got;
        left -= (size_t)got;
    }
    return HRF_OK;
}

enum hrf_status hrf_embedding_rows_finish(struct hrf_embedding_rows *rows,
                                          struct hrf_embedding_flaw *flaw,
                                          char sha256[HRF_HASH_HEX], struct hrf_error *err)
{
    const int64_t fit = BLOCK_BYTES / (int64_t)row_bytes(rows), block = fit > 0 ? fit : 1;
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_FREE float *values = hrf_try_alloc_array((size_t)(block * rows->width),
                                                      sizeof *values);
    HRF_CHECK_MEMORY(values != NULL, err, "no memory for a block of embeddings");
    HRF_TRY(give_error(rows, err));
    HRF_TRY(hrf_hash_create(&hash, err));
    *flaw = (struct hrf_embedding_flaw){ .row = -1 };
    rows->stays = false; /* until it is known to be whole */
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->sums[i] == 0)
            return hrf_error_set(err, HRF_E_BUG, "the embedding of patch %lld of a task is missing",
                                 (long long)i);
    for (int64_t first = 0; first < rows->n; first += block) {
        const int64_t n = rows->n - first < block ? rows->n - first : block;
        HRF_TRY(read_block(rows, first, n, values, err));
        if (!are_finite(rows, values, first, n, flaw))
            return HRF_OK;
        hrf_hash_bytes(hash, values, (size_t)n * row_bytes(rows));
    }
    hrf_hash_hex(hash, sha256);
    return hrf_embedding_rows_sync(rows, err);
}
