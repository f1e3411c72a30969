#include "engine/onnx/source.h"

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hrf_onnx_source_of_bytes(const void *bytes, size_t n_bytes, struct hrf_onnx_source *out)
{
    static const uint8_t none;
    *out = (struct hrf_onnx_source){ .n_bytes = n_bytes,
                                     .bytes = bytes != NULL ? bytes : &none,
                                     .fd = -1 };
}

enum hrf_status hrf_onnx_source_open(const char *path, size_t limit, struct hrf_onnx_source *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    struct stat info;
    HRF_TRY(hrf_file_open(path, &fd, err));
    if (fstat(fd, &info) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat '%s'", path);
    if (info.st_size <= 0 || (uintmax_t)info.st_size > limit) {
        char *owned = NULL;
        size_t n_bytes;
        HRF_TRY(hrf_file_read(path, limit, &owned, &n_bytes, err)); /* or it says why not */
        hrf_onnx_source_of_bytes(owned, n_bytes, out);
        out->owned = owned;
        return HRF_OK;
    }
    *out = (struct hrf_onnx_source){ .n_bytes = (uint64_t)info.st_size,
                                     .fd = fd,
                                     .changed = info.st_mtim };
    fd = -1;
    return HRF_OK;
}

void hrf_onnx_source_release(struct hrf_onnx_source *source)
{
    if (source->bytes == NULL && source->n_bytes > 0)
        hrf_close_cleanup(&source->fd);
    hrf_free(source->owned);
    *source = (struct hrf_onnx_source){ .fd = -1 };
}

static enum hrf_status read_file(int fd, uint64_t at, void *out, size_t n_bytes,
                                 struct hrf_error *err)
{
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = pread(fd, (char *)out + done, n_bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hrf_error_set_errno(err, errno, "cannot read byte %" PRIu64, at + done);
        if (n == 0)
            return hrf_error_set(err, HRF_E_EXTERNAL, "the file became shorter while it was read");
        done += (size_t)n;
    }
    return HRF_OK;
}

enum hrf_status hrf_onnx_source_see(struct hrf_onnx_source *source, uint64_t at,
                                    const uint8_t **out, size_t *have, struct hrf_error *err)
{
    if (source->bytes != NULL) {
        *out = source->bytes + at;
        *have = (size_t)(source->n_bytes - at);
        return HRF_OK;
    }
    if (at < source->window_at || at >= source->window_at + source->window_bytes) {
        const uint64_t rest = source->n_bytes - at;
        const size_t n = rest < sizeof source->window ? (size_t)rest : sizeof source->window;
        source->window_bytes = 0;
        HRF_TRY(read_file(source->fd, at, source->window, n, err));
        source->window_at = at;
        source->window_bytes = n;
    }
    *out = source->window + (at - source->window_at);
    *have = source->window_bytes - (size_t)(at - source->window_at);
    return HRF_OK;
}

enum hrf_status hrf_onnx_source_read(const struct hrf_onnx_source *source, uint64_t at, void *out,
                                     size_t n_bytes, struct hrf_error *err)
{
    if (at > source->n_bytes || n_bytes > source->n_bytes - at)
        return hrf_error_set(err, HRF_E_USER,
                             "%zu bytes from %" PRIu64 " on are not in the file of %" PRIu64,
                             n_bytes, at, source->n_bytes);
    if (source->bytes == NULL)
        return read_file(source->fd, at, out, n_bytes, err);
    if (n_bytes > 0)
        memcpy(out, source->bytes + at, n_bytes);
    return HRF_OK;
}

enum hrf_status hrf_onnx_source_hash(const struct hrf_onnx_source *source, char out[HRF_HASH_HEX],
                                     struct hrf_error *err)
{
    enum { BLOCK = 1 << 18 };
    if (source->bytes != NULL)
        return hrf_hash_buffer(source->bytes, (size_t)source->n_bytes, out, err);
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_FREE char *block = hrf_try_alloc(BLOCK);
    HRF_CHECK_MEMORY(block != NULL, err, "out of memory for reading a file");
    HRF_TRY(hrf_hash_create(&hash, err));
    for (uint64_t at = 0; at < source->n_bytes;) {
        const uint64_t rest = source->n_bytes - at;
        const size_t n = rest < BLOCK ? (size_t)rest : BLOCK;
        HRF_TRY(read_file(source->fd, at, block, n, err));
        hrf_hash_bytes(hash, block, n);
        at += n;
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status hrf_onnx_source_check(const struct hrf_onnx_source *source, struct hrf_error *err)
{
    struct stat info;
    if (source->bytes != NULL)
        return HRF_OK;
    if (fstat(source->fd, &info) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat the file");
    if ((uint64_t)info.st_size != source->n_bytes ||
        info.st_mtim.tv_sec != source->changed.tv_sec ||
        info.st_mtim.tv_nsec != source->changed.tv_nsec)
        return hrf_error_set(err, HRF_E_EXTERNAL,
                             "somebody wrote to the file while it was read: start again when it is "
                             "complete");
    return HRF_OK;
}
