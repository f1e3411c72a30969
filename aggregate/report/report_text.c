/* report_text.c - escaping and numbers of an hrf_out. */
#include "aggregate/report/out.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Decodes one UTF-8 character at *s and moves past it; a byte that is none is U+FFFD. */
static uint32_t next_character(const unsigned char **s)
{
    const unsigned char *p = *s;
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : (p[0] & 0xf0) == 0xe0       ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    static const uint32_t lead_mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint32_t c = p[0] & lead_mask[n];
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            n = 0;
            break;
        }
        c = c << 6 | (p[i] & 0x3f);
    }
    if (n == 0 || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        *s = p + 1;
        return 0xfffd;
    }
    *s = p + n;
    return c;
}

static void add_utf8(struct hrf_out *out, uint32_t c)
{
    char b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n; i-- > 0;) {
        b[i] = (char)(i > 0 ? 0x80 | (c & 0x3f) : lead[n] | c);
        c >>= 6;
    }
    hrf_out_add(out, b, n);
}

/* Control characters are shown, not sent: a browser drops or misreads them. */
void hrf_out_html(struct hrf_out *out, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        uint32_t c = next_character(&s);
        switch (c) {
        case '&':
            hrf_out_adds(out, "&amp;");
            break;
        case '<':
            hrf_out_adds(out, "&lt;");
            break;
        case '>':
            hrf_out_adds(out, "&gt;");
            break;
        case '"':
            hrf_out_adds(out, "&quot;");
            break;
        case '\'':
            hrf_out_adds(out, "&#39;");
            break;
        case '\n':
            hrf_out_adds(out, "\\n");
            break;
        default:
            if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
                (c >= 0x2066 && c <= 0x2069)) /* controls, and marks that reorder text */
                hrf_out_addf(out, "\\u%04x", (unsigned)c);
            else
                add_utf8(out, c);
        }
    }
}

void hrf_out_json(struct hrf_out *out, const char *text)
{
    static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    hrf_out_adds(out, "\"");
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        uint32_t c = next_character(&s);
        const char *found = NULL;
        for (const char *p = shorts; *p != '\0' && found == NULL; p += 2)
            if ((uint32_t)*p == c)
                found = p + 1;
        if (found != NULL)
            hrf_out_addf(out, "\\%c", *found);
        else if (c >= 0x10000)
            hrf_out_addf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                         (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
        else if (c < 0x20 || c >= 0x7f)
            hrf_out_addf(out, "\\u%04x", (unsigned)c);
        else
            hrf_out_addf(out, "%c", (int)c);
    }
    hrf_out_adds(out, "\"");
}

void hrf_out_url(struct hrf_out *out, const char *path)
{
    for (const unsigned char *s = (const unsigned char *)path; *s != '\0'; s++) {
        if (*s < 0x80 && (isalnum(*s) || strchr("-._~/", *s) != NULL))
            hrf_out_add(out, s, 1);
        else
            hrf_out_addf(out, "%%%02X", *s);
    }
}

void hrf_out_base64(struct hrf_out *out, const void *bytes, size_t n_bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n_bytes; i += 3) {
        size_t n = n_bytes - i < 3 ? n_bytes - i : 3;
        uint32_t v = (uint32_t)b[i] << 16 | (n > 1 ? (uint32_t)b[i + 1] << 8 : 0) |
                     (n > 2 ? (uint32_t)b[i + 2] : 0);
        char quad[4] = { digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                         n > 2 ? digits[v & 63] : '=' };
        hrf_out_add(out, quad, sizeof quad);
    }
}

/* Adds one to the last digit of "d.ddde-05". */
static void round_up(char *text)
{
    for (char *p = strchr(text, 'e') - 1; p >= text; p--) {
        if (*p == '.')
            continue;
        if (*p != '9') {
            ++*p;
            return;
        }
        *p = '0';
    }
}

/* "d.ddde-05" with the fewest digits that read back; returns the digits after the point. A
 * decimal of up to 15 digits survives the way through a double, so printing 15 shows it with
 * zeros after it. Otherwise 16 may do, and 17 always do. Above a power of two the doubles are
 * twice as far apart as below, so there the next decimal up may read back where the nearest
 * does not. */
static int shortest(double value, char *text, size_t size)
{
    int exponent, digits = 14;
    if (fabs(value) < DBL_MIN) { /* subnormal: fewer bits, so fewer digits may do */
        for (digits = 0; digits < 14; digits++) {
            snprintf(text, size, "%.*e", digits, value);
            if (strtod(text, NULL) == value)
                return digits;
        }
    }
    snprintf(text, size, "%.14e", value);
    if (strtod(text, NULL) == value) {
        char *e = strchr(text, 'e'), *end = e;
        for (; end[-1] == '0' && digits > 0; end--)
            digits--;
        if (digits == 0)
            end--; /* the point */
        memmove(end, e, strlen(e) + 1);
        return digits;
    }
    snprintf(text, size, "%.15e", value);
    if (strtod(text, NULL) == value)
        return 15;
    if (frexp(fabs(value), &exponent) == 0.5) {
        round_up(text);
        if (strtod(text, NULL) == value)
            return 15;
    }
    snprintf(text, size, "%.16e", value);
    return 16;
}

void hrf_number_text(double value, char text[32])
{
    if (!isfinite(value)) {
        snprintf(text, 32, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    char raw[32]; /* 24 are enough: "-1.7976931348623157e+308" */
    int digits = shortest(value, raw, sizeof raw);
    int exponent = (int)strtol(strchr(raw, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) { /* Python's bounds; "1e-05", never "1.0e-05" */
        memcpy(text, raw, sizeof raw);
        return;
    }
    /* No power of two of this range needs the rounding up, so printing again is the same. */
    int decimals = digits - exponent;
    snprintf(text, 32, "%.*f", decimals > 1 ? decimals : 1, value);
}

void hrf_out_number(struct hrf_out *out, double value)
{
    char text[32];
    hrf_number_text(value, text);
    hrf_out_adds(out, text);
}
