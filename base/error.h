/* error.h - how functions fail: a status that says what the caller may do, and a text.
 *
 * Every fallible function returns enum hrf_status and takes `struct hrf_error *err` last;
 * err may be NULL. Outputs are written only on success; err is written only on failure.
 * The text names the thing and the numbers, outermost context first, cause last.
 */
#ifndef HRF_BASE_ERROR_H
#define HRF_BASE_ERROR_H

/* The compiler extensions that this code base allows itself, named once. */
#define HRF_CHECKED            __attribute__((warn_unused_result))
#define HRF_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* What the caller may do about it. */
enum hrf_status {
    HRF_OK = 0,
    HRF_E_USER,        /* the input is wrong: tell the user, do not try again */
    HRF_E_AGAIN,       /* may work later: time-out, interrupted, peer lost */
    HRF_E_NOMEM,       /* memory ran out: a smaller request may work */
    HRF_E_NOSPACE,     /* the disk or quota is full: free some, then try again */
    HRF_E_EXTERNAL,    /* a file, device or library failed: see domain and native */
    HRF_E_UNSUPPORTED, /* understood, but this build or device cannot do it */
    HRF_E_BUG          /* an invariant of ours is broken */
};

struct hrf_error {
    enum hrf_status status;
    const char *domain; /* "errno", "sqlite", "onednn": static string, NULL when none */
    int native;         /* the code in that domain */
    char text[1024];
};

/* All three return `status` (or err->status), so that failing is one line. */
enum hrf_status hrf_error_set(struct hrf_error *err, enum hrf_status status, const char *format,
                              ...) HRF_PRINTF(3, 4);
/* Adds ": strerror(native)"; the status follows from the number (ENOSPC -> HRF_E_NOSPACE ...). */
enum hrf_status hrf_error_set_errno(struct hrf_error *err, int native, const char *format, ...)
    HRF_PRINTF(3, 4);
/* A failed call of a library: keeps its name and number. */
enum hrf_status hrf_error_set_foreign(struct hrf_error *err, enum hrf_status status,
                                      const char *domain, int native, const char *format, ...)
    HRF_PRINTF(5, 6);
/* Puts "context: " before the text. Returns `status` unchanged. */
enum hrf_status hrf_error_wrap(struct hrf_error *err, enum hrf_status status, const char *format,
                               ...) HRF_PRINTF(3, 4);

/* "user", "again", ... : a stable word for logs and records. */
const char *hrf_status_name(enum hrf_status status);

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
