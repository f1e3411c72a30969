/* error.c - fills in error texts and wraps them with context (error.h). */
#include "base/error.h"

#include "base/file.h"
#include "base/message.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct hrf_status_row statuses[HRF_N_STATUSES] = {
    [HRF_OK] = { "ok", 0, 0, false, false },
    [HRF_E_USER] = { "user", 2, 1, false, false },
    [HRF_E_AGAIN] = { "again", 1, HRF_EXIT_TRY_AGAIN, true, true },
    [HRF_E_NOMEM] = { "nomem", 1, HRF_EXIT_NO_MEMORY, false, true },
    [HRF_E_NOSPACE] = { "no-space", 1, HRF_EXIT_TRY_AGAIN, true, true },
    [HRF_E_EXTERNAL] = { "external", 1, 1, false, true },
    [HRF_E_UNSUPPORTED] = { "unsupported", 2, 1, false, false },
    [HRF_E_BUG] = { "bug", 1, 1, true, true },
};

const struct hrf_status_row *hrf_status_row(enum hrf_status status)
{
    assert(status < HRF_N_STATUSES);
    return &statuses[status];
}

static const struct hrf_error_row ids[HRF_N_ERROR_IDS] = {
    [HRF_ERROR_OTHER] = { "other", HRF_E_EXTERNAL, NULL },
    [HRF_ERROR_NO_MEMORY] = { "no-memory", HRF_E_NOMEM,
                              "give it more memory ({executor.slurm.mem_per_node}, ulimit -v), or "
                              "let it need less ({engine.batch}, {engine.memory})" },
    [HRF_ERROR_DISK_FULL] = { "disk-full", HRF_E_NOSPACE, NULL },
    [HRF_ERROR_FILE_TOO_LARGE] = { "file-too-large", HRF_E_NOSPACE, NULL },
    [HRF_ERROR_FILE_MISSING] = { "file-missing", HRF_E_EXTERNAL, NULL },
    [HRF_ERROR_FILE_FORBIDDEN] = { "file-forbidden", HRF_E_EXTERNAL, NULL },
    [HRF_ERROR_FILE_STALE] = { "file-stale", HRF_E_AGAIN, NULL },
    [HRF_ERROR_MODULE_MISSING] = { "module-missing", HRF_E_UNSUPPORTED,
                                   "build hires-flow where what the module needs is installed "
                                   "(tools/install-deps)" },
    [HRF_ERROR_LIBRARY_MISSING] = { "library-missing", HRF_E_UNSUPPORTED,
                                    "install the library, or name its folder in LD_LIBRARY_PATH" },
    [HRF_ERROR_MODULE_VERSION] = { "module-version", HRF_E_UNSUPPORTED,
                                   "build or install programs and modules together; delete the "
                                   "file if this build makes no such module" },
    [HRF_ERROR_NO_ENGINE] = { "no-engine", HRF_E_EXTERNAL, "put hires-engine next to hires-flow" },
    [HRF_ERROR_NO_ANSWER] = { "no-answer", HRF_E_EXTERNAL, NULL },
};

const struct hrf_error_row *hrf_error_row(enum hrf_error_id id)
{
    assert(id < HRF_N_ERROR_IDS);
    return &ids[id];
}

enum hrf_error_id hrf_error_id_find(const char *name)
{
    for (int i = 0; i < HRF_N_ERROR_IDS; i++)
        if (strcmp(ids[i].name, name) == 0)
            return (enum hrf_error_id)i;
    return HRF_ERROR_OTHER;
}

/* What follows from an error number; any other is HRF_E_EXTERNAL and OTHER. */
static const struct {
    int native;
    enum hrf_status status;
    enum hrf_error_id id;
} errnos[] = {
    { ENOMEM, HRF_E_NOMEM, HRF_ERROR_OTHER },
    { EFBIG, HRF_E_NOSPACE, HRF_ERROR_FILE_TOO_LARGE },
    { ENOSPC, HRF_E_NOSPACE, HRF_ERROR_DISK_FULL },
    { EDQUOT, HRF_E_NOSPACE, HRF_ERROR_DISK_FULL },
    { EINTR, HRF_E_AGAIN, HRF_ERROR_OTHER },
    { EAGAIN, HRF_E_AGAIN, HRF_ERROR_OTHER },
    { ETIMEDOUT, HRF_E_AGAIN, HRF_ERROR_OTHER },
    { ESTALE, HRF_E_AGAIN, HRF_ERROR_FILE_STALE },
    { ENOENT, HRF_E_EXTERNAL, HRF_ERROR_FILE_MISSING },
    { ENOTDIR, HRF_E_EXTERNAL, HRF_ERROR_FILE_MISSING },
    { EACCES, HRF_E_EXTERNAL, HRF_ERROR_FILE_FORBIDDEN },
    { EPERM, HRF_E_EXTERNAL, HRF_ERROR_FILE_FORBIDDEN },
};

static enum hrf_status find_errno(int native, enum hrf_error_id *id)
{
    for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++)
        if (errnos[i].native == native) {
            *id = errnos[i].id;
            return errnos[i].status;
        }
    *id = HRF_ERROR_OTHER;
    return HRF_E_EXTERNAL;
}

/* A text may hold names from outside, and goes to terminals, logs and reports. */
static void error_print(struct hrf_error *err, const char *format, va_list args)
{
    char raw[sizeof err->text];
    hrf_message_vprint(raw, sizeof raw, format, args);
    hrf_text_escape(raw, err->text, sizeof err->text);
}

static void error_fill(struct hrf_error *err, enum hrf_status status, enum hrf_error_id id,
                       const char *domain, int native, const char *format, va_list args)
{
    err->status = status;
    err->id = id;
    err->domain = domain;
    err->native = native;
    hrf_message_first_name(format, err->setting, sizeof err->setting);
    error_print(err, format, args);
}

enum hrf_status hrf_error_set(struct hrf_error *err, enum hrf_status status, const char *format,
                              ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        error_fill(err, status, HRF_ERROR_OTHER, NULL, 0, format, args);
        va_end(args);
    }
    return status;
}

enum hrf_status hrf_error_raise(struct hrf_error *err, enum hrf_error_id id, const char *format,
                                ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        error_fill(err, ids[id].status, id, NULL, 0, format, args);
        va_end(args);
    }
    return ids[id].status;
}

enum hrf_status hrf_error_pass(struct hrf_error *err, const struct hrf_error *cause)
{
    if (err != NULL)
        *err = *cause;
    return cause->status;
}

enum hrf_status hrf_error_set_errno(struct hrf_error *err, int native, const char *format, ...)
{
    enum hrf_error_id id;
    const enum hrf_status status = find_errno(native, &id);
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        error_fill(err, status, id, "errno", native, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        char reason[128];
        if (strerror_r(native, reason, sizeof reason) != 0)
            snprintf(reason, sizeof reason, "error %d", native);
        used += (size_t)snprintf(err->text + used, sizeof err->text - used, ": %s", reason);
        if (native == EFBIG && hrf_file_size_limit() < INT64_MAX && used < sizeof err->text)
            snprintf(err->text + used, sizeof err->text - used,
                     " (the limit of a file, ulimit -f, is %lld bytes)",
                     (long long)hrf_file_size_limit());
    }
    return status;
}

enum hrf_status hrf_error_set_foreign(struct hrf_error *err, enum hrf_status status,
                                      const char *domain, int native, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        error_fill(err, status, HRF_ERROR_OTHER, domain, native, format, args);
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
        if (err->setting[0] == '\0')
            hrf_message_first_name(format, err->setting, sizeof err->setting);
        va_list args;
        va_start(args, format);
        error_print(err, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", cause);
    }
    return status;
}
