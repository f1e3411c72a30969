/* jpeg_stream.c - see jpeg_stream.h. Markers are those of ITU-T T.81, table B.1. */
#include "tiler/slide/jpeg_stream.h"

#include "base/alloc.h"

#include <string.h>

enum marker {
    BASELINE = 0xc0,
    HUFFMAN_TABLES = 0xc4,
    RESTART_0 = 0xd0,
    RESTART_7 = 0xd7,
    BEGIN = 0xd8,
    END = 0xd9,
    SCAN = 0xda,
    QUANTIZATION = 0xdb,
    RESTART_INTERVAL = 0xdd,
    APPLICATION_0 = 0xe0,
    APPLICATION_15 = 0xef,
    COMMENT = 0xfe
};

struct stream {
    const unsigned char *at, *end;
    unsigned char *out;
    unsigned char channels[3]; /* as the frame numbers them */
};

static void jpeg_stream_put(struct stream *s, const unsigned char *from, size_t n)
{
    memcpy(s->out, from, n);
    s->out += n;
}

/* Steps over the next marker; its segment follows, of n bytes with the two of its length. False:
 * there is none. */
static bool next_segment(struct stream *s, unsigned char *marker, size_t *n)
{
    while (s->end - s->at >= 2 && s->at[0] == 0xff && s->at[1] == 0xff) /* fill bytes */
        s->at++;
    if (s->end - s->at < 2 || s->at[0] != 0xff)
        return false;
    *marker = s->at[1];
    s->at += 2;
    *n = 0;
    if (*marker == END)
        return true;
    if (s->end - s->at < 2)
        return false;
    *n = (size_t)s->at[0] << 8 | s->at[1];
    return *n >= 2 && *n <= (size_t)(s->end - s->at);
}

/* True if the frame has three channels of 8 bits and the size of the tiles. */
static bool is_plain_frame(const struct hrf_jpeg_form *form, const unsigned char *body, size_t n)
{
    if (n != 17 || body[2] != 8 || body[7] != 3)
        return false;
    const int64_t height = body[3] << 8 | body[4], width = body[5] << 8 | body[6];
    const bool is_one_size = body[9] == 0x11 && body[12] == 0x11 && body[15] == 0x11;
    return height == form->height && width == form->width && (form->is_ycc || is_one_size);
}

/* Numbers the channels of the frame, or of the scan, that was just copied. */
static bool number_channels(struct stream *s, size_t n, unsigned char marker)
{
    unsigned char *body = s->out - n;
    if (marker == SCAN && (s->channels[0] == s->channels[1] || s->channels[0] == s->channels[2] ||
                           s->channels[1] == s->channels[2]))
        return false;
    for (unsigned char c = 0; c < 3; c++) {
        unsigned char *at = marker == BASELINE ? body + 8 + 3 * c : body + 3 + 2 * c;
        if (marker == BASELINE)
            s->channels[c] = *at;
        else if (*at != s->channels[c])
            return false;
        *at = c + 1;
    }
    return true;
}

/* Copies the segments that a decoder needs, up to the end marker or the scan's header; *last gets
 * which of the two it was. */
static bool copy_segments(const struct hrf_jpeg_form *form, struct stream *s, bool *has_frame,
                          unsigned char *last)
{
    static const unsigned char begin[] = { 0xff, BEGIN };
    size_t n;
    if (s->end - s->at < 2 || memcmp(s->at, begin, sizeof begin) != 0)
        return false;
    s->at += sizeof begin;
    for (; next_segment(s, last, &n); s->at += n) {
        const bool is_told = *last == COMMENT ||
                             (*last >= APPLICATION_0 && *last <= APPLICATION_15);
        if (*last == END)
            return true;
        if (is_told)
            continue;
        if (*last == BASELINE ? *has_frame || !is_plain_frame(form, s->at, n)
                              : *last != HUFFMAN_TABLES && *last != QUANTIZATION &&
                                    *last != RESTART_INTERVAL && *last != SCAN)
            return false;
        *has_frame |= *last == BASELINE;
        jpeg_stream_put(s, s->at - 2, n + 2);
        if (*last == BASELINE)
            (void)number_channels(s, n, BASELINE);
        if (*last == SCAN) {
            const bool is_whole = *has_frame && n == 12 && s->at[2] == 3 &&
                                  number_channels(s, n, SCAN);
            s->at += n;
            return is_whole;
        }
    }
    return false;
}

/* Copies the scan's bytes and its end marker; what lies behind it is left out. */
static bool copy_scan(struct stream *s)
{
    const unsigned char *begin = s->at;
    while (s->at < s->end) {
        const unsigned char *mark = memchr(s->at, 0xff, (size_t)(s->end - s->at));
        if (mark == NULL || s->end - mark < 2)
            return false;
        if (mark[1] == END) {
            jpeg_stream_put(s, begin, (size_t)(mark + 2 - begin));
            return mark > begin;
        }
        if (mark[1] != 0 && (mark[1] < RESTART_0 || mark[1] > RESTART_7))
            return false;
        s->at = mark + 2;
    }
    return false;
}

/* Writes a begin marker and the tables of the TIFF, if it has any. */
static bool copy_tables(const struct hrf_jpeg_form *form, struct stream *s)
{
    static const unsigned char begin[] = { 0xff, BEGIN };
    bool has_frame = false;
    unsigned char last = 0;
    jpeg_stream_put(s, begin, sizeof begin);
    if (form->tables == NULL)
        return true;
    s->at = form->tables;
    s->end = s->at + form->n_tables;
    return copy_segments(form, s, &has_frame, &last) && last == END && !has_frame;
}

size_t hrf_jpeg_stream_max(const struct hrf_jpeg_form *form, size_t n_bytes)
{
    return 2 + (form->tables != NULL ? form->n_tables : 0) + n_bytes;
}

size_t hrf_jpeg_stream_make(const struct hrf_jpeg_form *form, const void *data, size_t n_bytes,
                            unsigned char *out)
{
    struct stream s = { .out = out };
    bool has_frame = false;
    unsigned char last = 0;
    if (!copy_tables(form, &s))
        return 0;
    s.at = data;
    s.end = s.at + n_bytes;
    if (!copy_segments(form, &s, &has_frame, &last) || last != SCAN || !copy_scan(&s))
        return 0;
    return (size_t)(s.out - out);
}

bool hrf_jpeg_form_is_plain(const struct hrf_jpeg_form *form)
{
    HRF_AUTO_FREE unsigned char *scratch = hrf_try_alloc(hrf_jpeg_stream_max(form, 0));
    struct stream s = { .out = scratch };
    return scratch != NULL && copy_tables(form, &s);
}
