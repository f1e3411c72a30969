/* text.h - bytes from outside (names, reasons) as text that does nothing where it is shown.
 *
 * A terminal obeys control characters, and marks of direction reorder what is read. Both, and bytes
 * that are not UTF-8, are shown as \n, \t, \xNN or \uNNNN instead; all other characters stay. The
 * result holds nothing that would be changed again.
 */
#ifndef HRF_BASE_TEXT_H
#define HRF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HRF_TEXT_STEP = 8 }; /* the longest form of one character, with its NUL */

/* The code point at the beginning of `text` and its length in bytes; 0: the bytes are not UTF-8
 * (RFC 3629). A NUL is a character of one byte. */
size_t hrf_text_decode(const char *text, uint32_t *point);
/* The four digits of base 64 that stand for the n = 1 to 3 bytes (RFC 4648). */
void hrf_text_base64(const unsigned char *bytes, size_t n, char out[4]);
extern const char hrf_base64_digits[];

/* The first character of `text` ("" is none) as it is shown, in `out`. Returns its bytes in `text`;
 * *is_plain: it stands in `out` unchanged. */
size_t hrf_text_step(const char *text, char out[HRF_TEXT_STEP], bool *is_plain);
/* All of `text`, cut at a whole character where it does not fit. `out` is not `text`. */
void hrf_text_show(const char *text, char *out, size_t size);
/* Any byte string as printable text for messages: heap. NULL when memory ran out. */
char *hrf_text_printable(const char *text);
/* A slide name as a file name: every byte outside [A-Za-z0-9._-] and valid UTF-8
 * above 0x7f (but for marks of direction) becomes %XX, a leading '.' too. What would be longer than
 * 180 bytes, which leaves room for an ending, is cut and told apart by a part of its SHA-256. The
 * mapping is one to one. */
char *hrf_text_file_name(const char *text);
/* The same of a text that is too long, NULL of one that is not. */
char *hrf_text_shortened(const char *text);

#endif
