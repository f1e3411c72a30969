/* error.c - fills in error texts and wraps them with context (error.h). */
#include "base/error.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static enum hrf_status status_of_errno(int native)
{
    switch (native) {
    case ENOMEM:
        return HRF_E_NOMEM;
    case EFBIG: /* a limit of the process or the file system; see RLIMIT_FSIZE */
    case ENOSPC:
    case EDQUOT:
        return HRF_E_NOSPACE;
    case EINTR:
    case EAGAIN:
    case ETIMEDOUT:
    case ESTALE:
        return HRF_E_AGAIN;
    default:
        return HRF_E_EXTERNAL;
    }
}

/* A text may hold names from outside, and goes to terminals, logs and reports. */
static void print(struct hrf_error *err, const char *format, va_list args)
{
    char raw[sizeof err->text];
    vsnprintf(raw, sizeof raw, format, args);
    hrf_text_show(raw, err->text, sizeof err->text);
}

static void fill(struct hrf_error *err, enum hrf_status status, const char *domain, int native,
                 const char *format, va_list args)
{
    err->status = status;
    err->domain = domain;
    err->native = native;
    print(err, format, args);
}

enum hrf_status hrf_error_set(struct hrf_error *err, enum hrf_status status, const char *format,
                              ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        fill(err, status, NULL, 0, format, args);
        va_end(args);
    }
    return status;
}

enum hrf_status hrf_error_set_errno(struct hrf_error *err, int native, const char *format, ...)
{
    enum hrf_status status = status_of_errno(native);
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        fill(err, status, "errno", native, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        char reason[128];
        if (strerror_r(native, reason, sizeof reason) != 0)
            snprintf(reason, sizeof reason, "error %d", native);
        snprintf(err->text + used, sizeof err->text - used, ": %s", reason);
    }
    return status;
}

enum hrf_status hrf_error_set_foreign(struct hrf_error *err, enum hrf_status status,
                                      const char *domain, int native, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        fill(err, status, domain, native, format, args);
        va_end(args);
    }
    return status;
}

enum hrf_status hrf_error_wrap(struct hrf_error *err, enum hrf_status status, const char *format,
                               ...)
{
    if (err != NULL) {
        char cause[sizeof err->text];
        memcpy(cause, err->text, sizeof cause);
        va_list args;
        va_start(args, format);
        print(err, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", cause);
    }
    return status;
}

const char *hrf_status_name(enum hrf_status status)
{
    static const char *const names[] = { "ok",       "user",     "again",       "nomem",
                                         "no-space", "external", "unsupported", "bug" };
    return (size_t)status < sizeof names / sizeof names[0] ? names[status] : "unknown";
}
