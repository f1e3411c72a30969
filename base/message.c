/* message.c - puts the names of settings into the formats of messages (message.h). */
#include "base/message.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT_SIZE = 2048, NAME_SIZE = 128 };

static hrf_message_namer *namer;
static hrf_message_describer *describer;

void hrf_message_set_namer(hrf_message_namer *function)
{
    namer = function;
}

void hrf_message_set_describer(hrf_message_describer *function)
{
    describer = function;
}

bool hrf_message_describe(const char *name, char *out, size_t size)
{
    return describer != NULL && describer(name, out, size);
}

void hrf_message_name(const char *name, char *out, size_t size)
{
    if (namer == NULL || !namer(name, NULL, out, size))
        snprintf(out, size, "%s", name);
}

/* The length of "{name}" or "{name=value}" at `at`, with the parts; 0: no name stands there. */
static size_t name_at(const char *at, char name[NAME_SIZE], char value[NAME_SIZE], bool *has_value)
{
    const size_t n = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    const char *end = at + 1 + n;
    *has_value = *end == '=';
    const size_t n_value = *has_value ? strcspn(end + 1, "} ") : 0;
    if (n == 0 || n >= NAME_SIZE || n_value >= NAME_SIZE)
        return 0;
    memcpy(name, at + 1, n);
    name[n] = '\0';
    memcpy(value, end + *has_value, n_value);
    value[n_value] = '\0';
    end += *has_value + n_value;
    return *end == '}' ? (size_t)(end + 1 - at) : 0;
}

void hrf_message_first_name(const char *format, char *out, size_t size)
{
    char name[NAME_SIZE], value[NAME_SIZE];
    bool has_value;
    out[0] = '\0';
    while ((format = strchr(format, '{')) != NULL && name_at(format, name, value, &has_value) == 0)
        format++;
    if (format != NULL && strlen(name) < size)
        snprintf(out, size, "%s", name);
}

void hrf_message_expand(const char *format, char *out, size_t size)
{
    size_t used = 0;
    while (*format != '\0' && used + 1 < size) {
        char name[NAME_SIZE], value[NAME_SIZE];
        bool has_value;
        /* Keys are quoted; what a command line has needs no quotes. */
        const bool in_quotes = namer != NULL && format[0] == '\'' && format[1] == '{';
        size_t n = format[in_quotes] == '{' ? name_at(format + in_quotes, name, value, &has_value)
                                            : 0;
        if (n > 0 && in_quotes)
            n = format[n + 1] == '\'' ? n + 2 : 0;
        if (n == 0) {
            out[used++] = *format++;
            continue;
        }
        if (namer == NULL || !namer(name, has_value ? value : NULL, out + used, size - used))
            snprintf(out + used, size - used, "%s%s%s", name, has_value ? ": " : "", value);
        used += strlen(out + used);
        format += n;
    }
    out[used] = '\0';
}

void hrf_message_vprint(char *out, size_t size, const char *format, va_list args)
{
    char expanded[FORMAT_SIZE];
    hrf_message_expand(format, expanded, sizeof expanded);
    vsnprintf(out, size, expanded, args);
}

char *hrf_message_format(const char *format, ...)
{
    char expanded[FORMAT_SIZE];
    va_list args, again;
    hrf_message_expand(format, expanded, sizeof expanded);
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, expanded, args);
    char *text = hrf_alloc((size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, expanded, again);
    va_end(again);
    va_end(args);
    return text;
}
