/* Scalars for writing. Everything that is not a plain word is quoted: the rules for bare texts
 * in YAML are not worth knowing, and a reader of YAML 1.1 must not turn `no` into false. */
#include "schema/yaml/tree_private.h"

#include "base/strbuf.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

enum hrf_status hrf_yaml_binary_decode(const char *text, char **out, struct hrf_error *err)
{
    struct hrf_strbuf bytes = HRF_STRBUF_INIT;
    uint32_t bits = 0;
    int n_bits = 0;
    for (; *text != '\0' && *text != '='; text++) {
        if (isspace((unsigned char)*text))
            continue;
        const char *digit = strchr(base64_digits, *text);
        if (digit == NULL)
            break;
        bits = (bits << 6 | (uint32_t)(digit - base64_digits)) & 0xffffff;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        hrf_strbuf_addc(&bytes, (char)(bits >> n_bits & 0xff));
    }
    text += strspn(text, "= \t\n");
    bool good = *text == '\0' && memchr(bytes.text, '\0', bytes.length) == NULL;
    char *result = good ? hrf_strbuf_detach(&bytes) : NULL;
    hrf_strbuf_release(&bytes);
    if (good && result == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a !!binary text");
    *out = result;
    return HRF_OK;
}

static void add_base64(struct hrf_strbuf *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        bits |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= left > 2 ? bytes[i + 2] : 0;
        hrf_strbuf_addc(out, base64_digits[bits >> 18]);
        hrf_strbuf_addc(out, base64_digits[bits >> 12 & 63]);
        hrf_strbuf_addc(out, left > 1 ? base64_digits[bits >> 6 & 63] : '=');
        hrf_strbuf_addc(out, left > 2 ? base64_digits[bits & 63] : '=');
    }
}

/* The code point at *s, which moves on; -1 when the bytes are not UTF-8 (RFC 3629). */
static int32_t next_code_point(const unsigned char **s)
{
    const unsigned char *c = *s;
    int n = c[0] < 0x80 ? 1 : c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : (c[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (n == 4 && (c[0] < 0xf0 || c[0] > 0xf4))
        return -1;
    int32_t point = n == 1 ? c[0] : c[0] & (0x7f >> n);
    for (int i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return -1;
        point = point << 6 | (c[i] & 0x3f);
    }
    bool overlong = (n == 3 && point < 0x800) || (n == 4 && point < 0x10000);
    if (overlong || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return -1;
    *s += n;
    return point;
}

/* Code points that a YAML stream may hold as they are, and that people can read. */
static bool is_readable(int32_t point)
{
    return point >= 0xa0 && point != 0xfeff && point != 0x2028 && point != 0x2029 &&
           (point & 0xfffe) != 0xfffe;
}

static bool add_quoted(struct hrf_strbuf *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    hrf_strbuf_addc(out, '"');
    while (*s != '\0') {
        const unsigned char *start = s;
        int32_t point = next_code_point(&s);
        if (point < 0)
            return false;
        if (point == '"' || point == '\\')
            hrf_strbuf_addf(out, "\\%c", (char)point);
        else if (point == '\n')
            hrf_strbuf_adds(out, "\\n");
        else if ((point >= 0x20 && point < 0x7f) || is_readable(point))
            hrf_strbuf_add(out, start, (size_t)(s - start));
        else
            hrf_strbuf_addf(out, point < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)point);
    }
    hrf_strbuf_addc(out, '"');
    return true;
}

/* A letter, then letters, digits, '_', '-' or '/': never a number in any YAML. */
static bool is_plain_word(const char *text)
{
    static const char *const taken[] = { "null", "true", "false", "yes", "no", "on",
                                         "off",  "y",    "n",     "nan", "inf" };
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        size_t j = 0;
        while (text[j] != '\0' && tolower((unsigned char)text[j]) == taken[i][j])
            j++;
        if (text[j] == '\0' && taken[i][j] == '\0')
            return false;
    }
    if (!isalpha((unsigned char)text[0]))
        return false;
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && *text != '_' && *text != '-' && *text != '/')
            return false;
    return true;
}

char *hrf_yaml_quote(const char *text)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    if (is_plain_word(text)) {
        hrf_strbuf_adds(&out, text);
    } else if (!add_quoted(&out, text)) {
        hrf_strbuf_clear(&out);
        hrf_strbuf_adds(&out, "!!binary \"");
        add_base64(&out, (const unsigned char *)text, strlen(text));
        hrf_strbuf_addc(&out, '"');
    }
    return hrf_strbuf_detach(&out);
}
