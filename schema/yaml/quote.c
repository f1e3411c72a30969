/* Scalars for writing. Everything that is not a plain word is quoted: the rules for bare texts
 * in YAML are not worth knowing, and a reader of YAML 1.1 must not turn `no` into false. */
#include "schema/yaml/tree_private.h"

#include "base/strbuf.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>

char *hrf_yaml_binary_decode(const char *text)
{
    HRF_AUTO_RELEASE(hrf_strbuf) bytes = HRF_STRBUF_INIT;
    uint32_t bits = 0;
    int n_bits = 0;
    for (; *text != '\0' && *text != '='; text++) {
        if (isspace((unsigned char)*text))
            continue;
        const char *digit = strchr(hrf_base64_digits, *text);
        if (digit == NULL)
            break;
        bits = (bits << 6 | (uint32_t)(digit - hrf_base64_digits)) & 0xffffff;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        hrf_strbuf_addc(&bytes, (char)(bits >> n_bits & 0xff));
    }
    text += strspn(text, "= \t\n");
    bool good = *text == '\0' && memchr(bytes.text, '\0', bytes.length) == NULL;
    char *result = good ? hrf_strbuf_detach(&bytes) : NULL;
    return result;
}

/* Code points that a YAML stream may hold as they are, and that people can read. */
static bool is_readable(uint32_t point)
{
    return point >= 0xa0 && point != 0xfeff && point != 0x2028 && point != 0x2029 &&
           (point & 0xfffe) != 0xfffe;
}

static bool add_quoted(struct hrf_strbuf *out, const char *text)
{
    uint32_t point = 0;
    hrf_strbuf_addc(out, '"');
    for (size_t n; *text != '\0'; text += n) {
        n = hrf_text_decode(text, &point);
        if (n == 0)
            return false;
        if (point == '"' || point == '\\')
            hrf_strbuf_addf(out, "\\%c", (char)point);
        else if (point == '\n')
            hrf_strbuf_adds(out, "\\n");
        else if ((point >= 0x20 && point < 0x7f) || is_readable(point))
            hrf_strbuf_add(out, text, n);
        else
            hrf_strbuf_addf(out, point < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)point);
    }
    hrf_strbuf_addc(out, '"');
    return true;
}

/* A letter, then letters, digits, '_', '-' or '/'. No YAML version reads such a word as a number.
 */
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
        for (size_t i = 0, n = strlen(text); i < n; i += 3) {
            char digits[4];
            hrf_text_base64((const unsigned char *)text + i, n - i < 3 ? n - i : 3, digits);
            hrf_strbuf_add(&out, digits, sizeof digits);
        }
        hrf_strbuf_addc(&out, '"');
    }
    return hrf_strbuf_detach(&out);
}

void hrf_yaml_add_quoted(struct hrf_strbuf *out, const char *text)
{
    HRF_AUTO_FREE char *quoted = hrf_yaml_quote(text);
    hrf_strbuf_adds(out, quoted);
}
