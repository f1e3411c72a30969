/* text.h - bytes from outside (names, reasons) as text that is safe to show.
 *
 * A terminal obeys control characters, and direction marks reorder what is read. Both, and bytes
 * that are not UTF-8, are escaped as \n, \t, \xNN or \uNNNN; all other characters stay. Escaping
 * twice changes nothing more.
 */
#ifndef HRF_BASE_TEXT_H
#define HRF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HRF_TEXT_ESCAPED_SIZE = 8 }; /* bytes of an escaped character, its NUL included */

/* Decodes the code point at the beginning of `text` and returns its length in bytes, or 0 if the
 * bytes are not UTF-8 (RFC 3629). A NUL is a character of one byte. */
size_t hrf_text_decode(const char *text, uint32_t *point);
/* Writes the four base64 digits (RFC 4648) that stand for n = 1 to 3 bytes. */
void hrf_text_base64(const unsigned char *bytes, size_t n, char out[4]);
extern const char hrf_base64_digits[];

/* Writes the first character of `text`, which is not empty, escaped to `out`, and returns its
 * length in `text`, in bytes. *is_plain is true if the character needed no escape. */
size_t hrf_text_escape_first(const char *text, char out[HRF_TEXT_ESCAPED_SIZE], bool *is_plain);
/* Writes `text` escaped to `out`, cut at a whole character if it does not fit. `out` and `text`
 * must not overlap. */
void hrf_text_escape(const char *text, char *out, size_t size);
/* Returns `text` escaped (heap). */
char *hrf_text_escaped(const char *text);
/* Returns a slide's name as a file name (heap): every byte outside [A-Za-z0-9._-] and valid UTF-8
 * above 0x7f (but for direction marks) becomes %XX, and so does a leading '.'. A name of more than
 * 180 bytes, which leaves room for an extension, is cut and ends in a part of its SHA-256. The
 * mapping is one to one. */
char *hrf_text_file_name(const char *text);
/* Returns the file name (heap) of a text whose file name was cut, or NULL if it was not cut. */
char *hrf_text_cut_file_name(const char *text);

/* True if `text` is one of the n words. */
bool hrf_text_is_among(const char *text, const char *const *words, size_t n);

struct hrf_text_list {
    char **items; /* heap strings */
    size_t n_items;
};
void hrf_text_list_add(struct hrf_text_list *list, const char *text); /* a copy of it */
void hrf_text_list_release(struct hrf_text_list *list);               /* and empties it */

#endif
