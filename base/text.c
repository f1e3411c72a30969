/* text.c - UTF-8, base 64, and text from outside made harmless (text.h). */
#include "base/text.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strbuf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

size_t hrf_text_decode(const char *text, uint32_t *point)
{
    static const uint32_t lead_mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    static const uint32_t min[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* below: overlong */
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = s[0] < 0x80             ? 1
                     : (s[0] & 0xe0) == 0xc0 ? 2
                     : (s[0] & 0xf0) == 0xe0 ? 3
                     : (s[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    uint32_t c = s[0] & lead_mask[n];
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (n == 0 || c < min[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *point = c;
    return n;
}

/* Marks that reorder text: U+202A to U+202E and U+2066 to U+2069. */
static bool is_direction(uint32_t c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t hrf_text_escape_first(const char *text, char out[HRF_TEXT_ESCAPED_SIZE], bool *is_plain)
{
    uint32_t c = 0;
    const size_t n = hrf_text_decode(text, &c);
    const bool is_control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    *is_plain = n > 0 && !is_control && !is_direction(c);
    if (*is_plain)
        snprintf(out, HRF_TEXT_ESCAPED_SIZE, "%.*s", (int)n, text);
    else if (n > 0 && !is_control)
        snprintf(out, HRF_TEXT_ESCAPED_SIZE, "\\u%04x", (unsigned)(c & 0xffff));
    else if (text[0] == '\n' || text[0] == '\t')
        snprintf(out, HRF_TEXT_ESCAPED_SIZE, "\\%c", text[0] == '\n' ? 'n' : 't');
    else
        snprintf(out, HRF_TEXT_ESCAPED_SIZE, "\\x%02x", (unsigned)(unsigned char)text[0]);
    return *is_plain || (n > 0 && !is_control) ? n : 1;
}

void hrf_text_escape(const char *text, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    while (*text != '\0') {
        char shown[HRF_TEXT_ESCAPED_SIZE];
        bool is_plain;
        text += hrf_text_escape_first(text, shown, &is_plain);
        const size_t n = strlen(shown);
        if (used + n >= size)
            return;
        memcpy(out + used, shown, n + 1);
        used += n;
    }
}

char *hrf_text_escaped(const char *text)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    while (*text != '\0') {
        char shown[HRF_TEXT_ESCAPED_SIZE];
        bool is_plain;
        text += hrf_text_escape_first(text, shown, &is_plain);
        hrf_strbuf_adds(&out, shown);
    }
    return hrf_strbuf_detach(&out);
}

/* MAX_FILE_NAME: what may be left of the 255 bytes that file systems take when an ending and a
 * temporary name's addition have had theirs. A longer name keeps its beginning, before a dash and
 * HASH_DIGITS of its SHA-256. */
enum { MAX_FILE_NAME = 180, HASH_DIGITS = 16, BEGINNING = MAX_FILE_NAME - 1 - HASH_DIGITS };

/* *cut: how many bytes whole characters have within BEGINNING. */
static void escape(const char *text, struct hrf_strbuf *out, size_t *cut)
{
    for (const char *s = text; *s != '\0';) {
        char shown[HRF_TEXT_ESCAPED_SIZE];
        bool is_plain;
        const unsigned char c = (unsigned char)*s;
        const size_t n = hrf_text_escape_first(s, shown, &is_plain);
        if (c < 0x80)
            is_plain = isalnum(c) || c == '_' || c == '-' || (c == '.' && s != text);
        if (out->length <= BEGINNING)
            *cut = out->length;
        for (size_t i = 0; i < n; i++)
            hrf_strbuf_addf(out, is_plain ? "%c" : "%%%02X", (unsigned char)s[i]);
        s += n;
    }
}

static char *file_name(const char *text, bool *is_cut)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    char hash[HRF_HASH_HEX];
    size_t cut = 0;
    escape(text, &out, &cut);
    *is_cut = out.length > MAX_FILE_NAME;
    if (!*is_cut)
        return hrf_strbuf_detach(&out);
    if (hrf_hash_buffer(text, strlen(text), hash, NULL) != HRF_OK)
        return NULL;
    return hrf_format("%.*s-%.*s", (int)cut, out.text, HASH_DIGITS, hash);
}

char *hrf_text_file_name(const char *text)
{
    bool is_cut;
    return file_name(text, &is_cut);
}

char *hrf_text_cut_file_name(const char *text)
{
    bool is_cut;
    HRF_AUTO_FREE char *name = file_name(text, &is_cut);
    char *result = is_cut ? name : NULL;
    name = is_cut ? NULL : name;
    return result;
}

void hrf_text_base64(const unsigned char *bytes, size_t n, char out[4])
{
    const uint32_t bits = (uint32_t)bytes[0] << 16 | (n > 1 ? (uint32_t)bytes[1] << 8 : 0) |
                          (n > 2 ? bytes[2] : 0);
    for (size_t i = 0; i < 4; i++)
        out[i] = i <= n ? hrf_base64_digits[bits >> (18 - 6 * i) & 63] : '=';
}

const char hrf_base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool hrf_text_is_among(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0)
            return true;
    return false;
}

void hrf_text_list_add(struct hrf_text_list *list, const char *text)
{
    list->items = hrf_realloc_array(list->items, list->n_items + 1, sizeof *list->items);
    list->items[list->n_items++] = hrf_strdup(text);
}

void hrf_text_list_release(struct hrf_text_list *list)
{
    for (size_t i = 0; i < list->n_items; i++)
        hrf_free(list->items[i]);
    hrf_free(list->items);
    *list = (struct hrf_text_list){ NULL, 0 };
}
