/* error.h - how functions fail: a status that says what the caller may do, and a text.
 *
 * Every fallible function returns enum hrf_status and takes `struct hrf_error *err` last;
 * err may be NULL. Outputs are written only on success; err is written only on failure.
 * The text names the thing and the numbers, outermost context first, cause last. It is written for
 * people. Programs go by the status, the id, the setting that the error is about, and the foreign
 * code. An error crosses processes as a record (error_record.h).
 */
#ifndef HRF_BASE_ERROR_H
#define HRF_BASE_ERROR_H

#include <stdbool.h>

/* The compiler extensions that this code base allows itself, named once. */
#define HRF_CHECKED            __attribute__((warn_unused_result))
#define HRF_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* What the caller may do about an error. hrf_status_row() gives the row of a status. */
enum hrf_status {
    HRF_OK = 0,
    HRF_E_USER,        /* the input is wrong: tell the user, do not try again */
    HRF_E_AGAIN,       /* may work later: time-out, interrupted, peer lost */
    HRF_E_NOMEM,       /* memory ran out: a smaller request may work */
    HRF_E_NOSPACE,     /* the disk or quota is full: free some, then try again */
    HRF_E_EXTERNAL,    /* a file, device or library failed: see domain and native */
    HRF_E_UNSUPPORTED, /* understood, but this build or device cannot do it */
    HRF_E_BUG,         /* an invariant of ours is broken */
    HRF_N_STATUSES
};

/* What programs do with a status. */
struct hrf_status_row {
    const char *name;       /* for logs and records */
    int exit_code;          /* of a command that fails with it */
    int worker_exit_code;   /* of a job's worker; the launcher and the run loop judge by it */
    bool ends_job;          /* the fault is not one task's: the job stops, and may be retried */
    bool may_end_otherwise; /* a retry of the same task may succeed */
};
const struct hrf_status_row *hrf_status_row(enum hrf_status status);

/* Exit codes of workers and of the launcher that have a meaning of their own. TRY_AGAIN: a retry
 * may help (EX_TEMPFAIL of sysexits.h). NO_MEMORY: a small allocation failed (alloc.h). */
enum { HRF_EXIT_TRY_AGAIN = 75, HRF_EXIT_NO_MEMORY = 5 };

/* What an error is about. An error has an id of its own if a program acts on it, or if its way out
 * is always the same; hrf_error_row() gives the row of an id. Names of ids are stable, because
 * records hold them and other versions read those. */
enum hrf_error_id {
    HRF_ERROR_OTHER,           /* every error without an id of its own */
    HRF_ERROR_NO_MEMORY,       /* a process ended because a small allocation failed */
    HRF_ERROR_DISK_FULL,       /* the disk is full, or the quota is used up */
    HRF_ERROR_FILE_TOO_LARGE,  /* a file exceeds the process's limit or the file system's */
    HRF_ERROR_FILE_MISSING,    /* there is no such file */
    HRF_ERROR_FILE_FORBIDDEN,  /* the file may not be read or written */
    HRF_ERROR_FILE_STALE,      /* a file server lost the file, which may come back */
    HRF_ERROR_MODULE_MISSING,  /* this build has no such module (module.h) */
    HRF_ERROR_LIBRARY_MISSING, /* the module is there, a library that it needs is not */
    HRF_ERROR_MODULE_VERSION,  /* the module is of another build */
    HRF_ERROR_NO_ENGINE,       /* hires-engine cannot be started */
    HRF_ERROR_NO_ANSWER,       /* a program ended without saying why */
    HRF_N_ERROR_IDS
};
struct hrf_error_row {
    const char *name;
    enum hrf_status status; /* what hrf_error_raise() returns */
    const char *hint;       /* the way out; may hold "{key}" (message.h); NULL: the text says it */
};
const struct hrf_error_row *hrf_error_row(enum hrf_error_id id);
/* Returns the id of that name, or HRF_ERROR_OTHER if this version does not know the name. */
enum hrf_error_id hrf_error_id_find(const char *name);

struct hrf_error {
    enum hrf_status status;
    enum hrf_error_id id;
    const char *domain; /* "errno", "sqlite", "onednn": static string, NULL when none */
    int native;         /* the code in that domain */
    char setting[48];   /* key of the first setting that the text names by "{key}"; "" = none */
    char text[1024];
};

/* All of these return `status` (or err->status), so that failing takes one line. */
enum hrf_status hrf_error_set(struct hrf_error *err, enum hrf_status status, const char *format,
                              ...) HRF_PRINTF(3, 4);
/* Sets an error with an id. Its status is that of the id's row. */
enum hrf_status hrf_error_raise(struct hrf_error *err, enum hrf_error_id id, const char *format,
                                ...) HRF_PRINTF(3, 4);
/* Copies an error that was kept apart, with all its fields. */
enum hrf_status hrf_error_pass(struct hrf_error *err, const struct hrf_error *cause);
/* Adds ": strerror(native)"; status and id follow from the number (ENOSPC -> HRF_E_NOSPACE ...). */
enum hrf_status hrf_error_set_errno(struct hrf_error *err, int native, const char *format, ...)
    HRF_PRINTF(3, 4);
/* A failed call of a library: keeps its name and number. */
enum hrf_status hrf_error_set_foreign(struct hrf_error *err, enum hrf_status status,
                                      const char *domain, int native, const char *format, ...)
    HRF_PRINTF(5, 6);
/* Puts "context: " before the text. Returns `status` unchanged. */
enum hrf_status hrf_error_wrap(struct hrf_error *err, enum hrf_status status, const char *format,
                               ...) HRF_PRINTF(3, 4);

/* Returns from the calling function when `call` fails; the error text is already in place. */
#define HRF_TRY(call)                                                                              \
    do {                                                                                           \
        enum hrf_status hrf_try_status_ = (call);                                                  \
        if (hrf_try_status_ != HRF_OK)                                                             \
            return hrf_try_status_;                                                                \
    } while (0)

/* Returns HRF_E_NOMEM from the calling function unless the allocation succeeded; the text follows
 * `err`: HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path"). */
#define HRF_CHECK_MEMORY(succeeded, err, ...)                                                      \
    do {                                                                                           \
        if (!(succeeded))                                                                          \
            return hrf_error_set(err, HRF_E_NOMEM, __VA_ARGS__);                                   \
    } while (0)

#endif
