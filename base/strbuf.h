/* strbuf.h - a growing byte string, always NUL-terminated.
 *
 * `text` is never NULL after init. Not thread-safe.
 */
#ifndef HRF_BASE_STRBUF_H
#define HRF_BASE_STRBUF_H

#include "base/alloc.h"

#include <stdarg.h>
#include <stddef.h>

struct hrf_strbuf {
    char *text;
    size_t length; /* bytes without the NUL */
    size_t capacity;
};

extern char hrf_strbuf_empty[1];
#define HRF_STRBUF_INIT                                                                            \
    {                                                                                              \
        .text = hrf_strbuf_empty                                                                   \
    }

void hrf_strbuf_release(struct hrf_strbuf *buf); /* frees; buf is empty and usable again */
void hrf_strbuf_clear(struct hrf_strbuf *buf);   /* length 0, keeps the memory */
void hrf_strbuf_add(struct hrf_strbuf *buf, const void *bytes, size_t n_bytes);
void hrf_strbuf_adds(struct hrf_strbuf *buf, const char *text);
void hrf_strbuf_addc(struct hrf_strbuf *buf, char c);
void hrf_strbuf_addf(struct hrf_strbuf *buf, const char *format, ...) HRF_PRINTF(2, 3);
void hrf_strbuf_vaddf(struct hrf_strbuf *buf, const char *format, va_list args);
/* Appends one word of a command line as a shell reads it, in single quotes if it needs them. */
void hrf_strbuf_add_word(struct hrf_strbuf *buf, const char *word);
/* The text as a heap string owned by the caller (hrf_free). */
char *hrf_strbuf_detach(struct hrf_strbuf *buf);

#endif
