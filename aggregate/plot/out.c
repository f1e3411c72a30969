/* out.c - an output file with buffering, optional gzip, escaping, and an atomic rename at the end.
 * */
#include "aggregate/plot/out.h"

#include "base/csv.h"
#include "base/file.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER_BYTES = 1 << 16, GZIP_WINDOW = 15 + 16 };

struct hrf_out {
    char *path, *temporary;
    int fd;
    bool gzip, committed;
    struct hrf_error error; /* the first; status HRF_OK = none */
    z_stream z;
    size_t n_bytes; /* in buffer */
    unsigned char buffer[BUFFER_BYTES];
    unsigned char packed[BUFFER_BYTES];
};

static voidpf zlib_alloc(voidpf opaque, uInt count, uInt size)
{
    (void)opaque;
    return hrf_calloc(count, size);
}

static void zlib_free(voidpf opaque, voidpf memory)
{
    (void)opaque;
    hrf_free(memory);
}

static enum hrf_status start(struct hrf_out *out, const char *path, enum hrf_out_form form,
                             struct hrf_error *err)
{
    out->path = hrf_strdup(path);
    HRF_TRY(hrf_file_temporary(path, &out->temporary, &out->fd, err));
    if (form == HRF_OUT_PLAIN)
        return HRF_OK;
    out->z.zalloc = zlib_alloc;
    out->z.zfree = zlib_free;
    int code = deflateInit2(&out->z, 6, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY);
    if (code != Z_OK)
        return hrf_error_set_foreign(err, HRF_E_NOMEM, "zlib", code, "cannot compress '%s'", path);
    out->gzip = true;
    return HRF_OK;
}

enum hrf_status hrf_out_create(const char *path, enum hrf_out_form form, struct hrf_out **result,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = hrf_calloc(1, sizeof *out);
    out->fd = -1;
    HRF_TRY(start(out, path, form, err));
    HRF_MOVE(*result, out);
    return HRF_OK;
}

void hrf_out_destroy(struct hrf_out *out)
{
    if (out == NULL)
        return;
    if (out->gzip)
        deflateEnd(&out->z);
    if (out->fd >= 0) {
        close(out->fd);
        if (!out->committed)
            unlink(out->temporary);
    }
    hrf_free(out->path);
    hrf_free(out->temporary);
    hrf_free(out);
}

static void write_bytes(struct hrf_out *out, const void *bytes, size_t n_bytes)
{
    if (out->error.status == HRF_OK && n_bytes > 0 &&
        hrf_file_write_all(out->fd, bytes, n_bytes, out->path, &out->error) == HRF_OK)
        out->error.status = HRF_OK;
}

/* Compresses what is in the buffer. Z_FINISH also ends the stream. */
static void squeeze(struct hrf_out *out, int flush)
{
    int code = Z_OK;
    out->z.next_in = out->buffer;
    out->z.avail_in = (uInt)out->n_bytes;
    do {
        out->z.next_out = out->packed;
        out->z.avail_out = BUFFER_BYTES;
        code = deflate(&out->z, flush);
        write_bytes(out, out->packed, BUFFER_BYTES - out->z.avail_out);
    } while (out->error.status == HRF_OK &&
             (flush == Z_FINISH ? code == Z_OK : out->z.avail_in > 0));
}

static void flush_buffer(struct hrf_out *out, bool last)
{
    if (out->gzip)
        squeeze(out, last ? Z_FINISH : Z_NO_FLUSH);
    else
        write_bytes(out, out->buffer, out->n_bytes);
    out->n_bytes = 0;
}

void hrf_out_fail(struct hrf_out *out, const struct hrf_error *why)
{
    if (out->error.status == HRF_OK)
        out->error = *why;
}

void hrf_out_add(struct hrf_out *out, const void *bytes, size_t n_bytes)
{
    const unsigned char *at = bytes;
    while (n_bytes > 0 && out->error.status == HRF_OK) {
        size_t room = BUFFER_BYTES - out->n_bytes, n = n_bytes < room ? n_bytes : room;
        memcpy(out->buffer + out->n_bytes, at, n);
        out->n_bytes += n;
        at += n;
        n_bytes -= n;
        if (out->n_bytes == BUFFER_BYTES)
            flush_buffer(out, false);
    }
}

void hrf_out_adds(struct hrf_out *out, const char *text)
{
    hrf_out_add(out, text, strlen(text));
}

void hrf_out_addf(struct hrf_out *out, const char *format, ...)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&text, format, args);
    va_end(args);
    if (out->error.status == HRF_OK)
        hrf_out_add(out, text.text, text.length);
}

void hrf_out_csv(struct hrf_out *out, const char *text)
{
    HRF_AUTO_RELEASE(hrf_strbuf) cell = HRF_STRBUF_INIT;
    hrf_csv_add_cell(&cell, text);
    if (out->error.status == HRF_OK)
        hrf_out_add(out, cell.text, cell.length);
}

enum hrf_status hrf_out_commit(struct hrf_out *out, struct hrf_error *err)
{
    if (out->error.status == HRF_OK)
        flush_buffer(out, true);
    if (out->error.status == HRF_OK) {
        out->committed = true; /* from here on, hrf_file_commit removes it when it fails */
        return hrf_file_commit(out->temporary, out->path, err);
    }
    if (err != NULL)
        *err = out->error;
    return out->error.status;
}
