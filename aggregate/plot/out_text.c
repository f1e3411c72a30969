/* out_text.c - escaping and numbers of an hrf_out. */
#include "aggregate/plot/out.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Decodes the character at *s and moves past it; a byte that is not UTF-8 is U+FFFD. */
static uint32_t next_character(const char **s)
{
    uint32_t c = 0xfffd;
    const size_t n = hrf_text_decode(*s, &c);
    *s += n > 0 ? n : 1;
    return c;
}

/* Control characters are shown, not sent: a browser drops or misreads them. */
void hrf_out_html(struct hrf_out *out, const char *text)
{
    for (const char *s = text; *s != '\0';) {
        const char *from = s;
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
            else if (c == 0xfffd)
                hrf_out_adds(out, "\ufffd");
            else
                hrf_out_add(out, from, (size_t)(s - from));
        }
    }
}

/* Adds one conversion, "%...s" or a number's, and takes its value from `args`. */
static void add_conversion(struct hrf_out *out, const char *conversion, size_t n, va_list *args)
{
    char one[16];
    assert(n < sizeof one);
    memcpy(one, conversion, n);
    one[n] = '\0';
    if (one[n - 1] == 's')
        hrf_out_html(out, va_arg(*args, const char *));
    else if (strchr("fg", one[n - 1]) != NULL)
        hrf_out_addf(out, one, va_arg(*args, double));
    else if (strstr(one, "ll") != NULL)
        hrf_out_addf(out, one, va_arg(*args, long long));
    else if (strchr(one, 'z') != NULL)
        hrf_out_addf(out, one, va_arg(*args, size_t));
    else if (one[n - 1] == 'd')
        hrf_out_addf(out, one, va_arg(*args, int));
    else
        hrf_out_adds(out, "%"); /* "%%" */
}

void hrf_out_markup(struct hrf_out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    while (*format != '\0') {
        const size_t n_plain = strcspn(format, "%");
        hrf_out_add(out, format, n_plain);
        format += n_plain;
        if (*format != '%')
            break;
        const size_t n = 1 + strcspn(format + 1, "sdufg%") + 1;
        add_conversion(out, format, n, &args);
        format += n;
    }
    va_end(args);
}

void hrf_out_json(struct hrf_out *out, const char *text)
{
    static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    hrf_out_adds(out, "\"");
    for (const char *s = text; *s != '\0';) {
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
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n_bytes; i += 3) {
        char digits[4];
        hrf_text_base64(b + i, n_bytes - i < 3 ? n_bytes - i : 3, digits);
        hrf_out_add(out, digits, sizeof digits);
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
