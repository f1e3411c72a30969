/* message.h - names of settings in messages, in the words of whoever reads them.
 *
 * The format of an error or of a log line may hold "{name}", the name of a setting, and
 * "{name=value}", what to write to give it that value (the value may be a conversion: "{name=%d}").
 * The reader of a workflow file sees keys, "name" and "name: value"; a program whose readers know
 * options registers a function that puts those, without quotes around them ("'{name}'").
 */
#ifndef HRF_BASE_MESSAGE_H
#define HRF_BASE_MESSAGE_H

#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes what stands for a name, or for "name=value" (value NULL: the name alone), into `out`;
 * false: it knows no such name. */
typedef bool hrf_message_namer(const char *name, const char *value, char *out, size_t size);
/* Registers the namer; NULL stands for names as keys. Call it at the start of a program: it is not
 * thread-safe. */
void hrf_message_set_namer(hrf_message_namer *namer);
/* Writes what a setting takes and what it is for, "whole number, 1 to 64: ..."; false: it knows no
 * such name. hrf_error_report() adds it to an error that is about a setting. */
typedef bool hrf_message_describer(const char *name, char *out, size_t size);
/* Registers the describer, like the namer; NULL: nothing is described. */
void hrf_message_set_describer(hrf_message_describer *describer);
bool hrf_message_describe(const char *name, char *out, size_t size);
/* Writes what "{name}" becomes, for a name that is known only at run time. */
void hrf_message_name(const char *name, char *out, size_t size);
/* The first name that a format holds; "" if there is none, or it is longer. */
void hrf_message_first_name(const char *format, char *out, size_t size);
/* Writes the format with its names replaced, cut at `size` bytes. */
void hrf_message_expand(const char *format, char *out, size_t size);
/* vsnprintf() of the expanded format. */
void hrf_message_vprint(char *out, size_t size, const char *format, va_list args);
/* The same on the heap. */
char *hrf_message_format(const char *format, ...) HRF_PRINTF(1, 2);

#endif
