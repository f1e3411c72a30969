/* strbuf.c - a text that grows (strbuf.h). */
#include "base/strbuf.h"

#include "base/array.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

char hrf_strbuf_empty[1];

void hrf_strbuf_release(struct hrf_strbuf *buf)
{
    if (buf->text != hrf_strbuf_empty)
        hrf_free(buf->text);
    *buf = (struct hrf_strbuf)HRF_STRBUF_INIT;
}

void hrf_strbuf_clear(struct hrf_strbuf *buf)
{
    buf->length = 0;
    if (buf->text != hrf_strbuf_empty)
        buf->text[0] = '\0';
}

static void reserve(struct hrf_strbuf *buf, size_t more)
{
    if (more > SIZE_MAX / 2 - buf->length)
        hrf_out_of_memory(more);
    char *text = buf->text == hrf_strbuf_empty ? NULL : buf->text;
    HRF_RESERVE(text, buf->capacity, buf->length + more + 1);
    buf->text = text;
}

void hrf_strbuf_add(struct hrf_strbuf *buf, const void *bytes, size_t n_bytes)
{
    if (n_bytes == 0)
        return;
    reserve(buf, n_bytes);
    memcpy(buf->text + buf->length, bytes, n_bytes);
    buf->length += n_bytes;
    assert(buf->length < buf->capacity);
    buf->text[buf->length] = '\0';
}

void hrf_strbuf_adds(struct hrf_strbuf *buf, const char *text)
{
    hrf_strbuf_add(buf, text, strlen(text));
}

void hrf_strbuf_addc(struct hrf_strbuf *buf, char c)
{
    hrf_strbuf_add(buf, &c, 1);
}

void hrf_strbuf_add_word(struct hrf_strbuf *buf, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=./,:@%+";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        hrf_strbuf_adds(buf, word);
        return;
    }
    hrf_strbuf_addc(buf, '\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            hrf_strbuf_adds(buf, "'\\''");
        else
            hrf_strbuf_addc(buf, *word);
    }
    hrf_strbuf_addc(buf, '\'');
}

void hrf_strbuf_vaddf(struct hrf_strbuf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    assert(n >= 0); /* only wide characters can fail to convert */
    if (n > 0) {
        reserve(buf, (size_t)n);
        vsnprintf(buf->text + buf->length, (size_t)n + 1, format, again);
        buf->length += (size_t)n;
    }
    va_end(again);
}

void hrf_strbuf_addf(struct hrf_strbuf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(buf, format, args);
    va_end(args);
}

char *hrf_strbuf_detach(struct hrf_strbuf *buf)
{
    char *text = buf->text == hrf_strbuf_empty ? hrf_strdup("") : buf->text;
    *buf = (struct hrf_strbuf)HRF_STRBUF_INIT;
    return text;
}
