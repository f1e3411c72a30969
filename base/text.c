#include "base/text.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strbuf.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at `s` that is not ASCII, or 0. */
static size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
               : (s[0] & 0xf0) == 0xe0        ? 3
               : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                              : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) ||
        (s[0] == 0xc2 && s[1] < 0xa0)) /* overlong, surrogate, out of range, C1 controls */
        return 0;
    return n;
}

/* Marks that reorder text: U+202A to U+202E and U+2066 to U+2069. */
static bool is_direction(uint32_t c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t hrf_text_step(const char *text, char out[HRF_TEXT_STEP], bool *is_plain)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = s[0] >= 0x80 ? utf8_length(s) : s[0] >= 0x20 && s[0] < 0x7f ? 1 : 0;
    const uint32_t c = n == 3 ? (s[0] & 15U) << 12 | (s[1] & 63U) << 6 | (s[2] & 63U) : 0;
    *is_plain = n > 0 && !is_direction(c);
    if (*is_plain)
        snprintf(out, HRF_TEXT_STEP, "%.*s", (int)n, text);
    else if (n > 0)
        snprintf(out, HRF_TEXT_STEP, "\\u%04x", (unsigned)(c & 0xffff));
    else if (s[0] == '\n' || s[0] == '\t')
        snprintf(out, HRF_TEXT_STEP, "\\%c", s[0] == '\n' ? 'n' : 't');
    else
        snprintf(out, HRF_TEXT_STEP, "\\x%02x", (unsigned)s[0]);
    return n > 0 ? n : 1;
}

void hrf_text_show(const char *text, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    while (*text != '\0') {
        char shown[HRF_TEXT_STEP];
        bool is_plain;
        text += hrf_text_step(text, shown, &is_plain);
        const size_t n = strlen(shown);
        if (used + n >= size)
            return;
        memcpy(out + used, shown, n + 1);
        used += n;
    }
}

char *hrf_text_printable(const char *text)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    while (*text != '\0') {
        char shown[HRF_TEXT_STEP];
        bool is_plain;
        text += hrf_text_step(text, shown, &is_plain);
        hrf_strbuf_adds(&out, shown);
    }
    return hrf_strbuf_detach(&out);
}

/* FILE_NAME_MOST: what may be left of the 255 bytes that file systems take when an ending and a
 * temporary name's addition have had theirs. A longer name keeps its beginning, before a dash and
 * HASH_DIGITS of its SHA-256. */
enum { FILE_NAME_MOST = 180, HASH_DIGITS = 16, BEGINNING = FILE_NAME_MOST - 1 - HASH_DIGITS };

/* *cut: how many bytes whole characters have within BEGINNING. */
static void escape(const char *text, struct hrf_strbuf *out, size_t *cut)
{
    for (const char *s = text; *s != '\0';) {
        char shown[HRF_TEXT_STEP];
        bool is_plain;
        const unsigned char c = (unsigned char)*s;
        const size_t n = hrf_text_step(s, shown, &is_plain);
        if (c < 0x80)
            is_plain = isalnum(c) || c == '_' || c == '-' || (c == '.' && s != text);
        if (out->length <= BEGINNING)
            *cut = out->length;
        for (size_t i = 0; i < n; i++)
            hrf_strbuf_addf(out, is_plain ? "%c" : "%%%02X", (unsigned char)s[i]);
        s += n;
    }
}

static char *file_name(const char *text, bool *is_shortened)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    char hash[HRF_HASH_HEX];
    size_t cut = 0;
    escape(text, &out, &cut);
    *is_shortened = out.length > FILE_NAME_MOST;
    if (!*is_shortened)
        return hrf_strbuf_detach(&out);
    if (out.failed || hrf_hash_buffer(text, strlen(text), hash, NULL) != HRF_OK)
        return NULL;
    return hrf_format("%.*s-%.*s", (int)cut, out.text, HASH_DIGITS, hash);
}

char *hrf_text_file_name(const char *text)
{
    bool is_shortened;
    return file_name(text, &is_shortened);
}

char *hrf_text_shortened(const char *text)
{
    bool is_shortened;
    HRF_AUTO_FREE char *name = file_name(text, &is_shortened);
    char *result = is_shortened ? name : NULL;
    name = is_shortened ? NULL : name;
    return result;
}
