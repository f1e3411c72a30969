/* log.h - log lines on stderr, by level and subsystem.
 *
 * Libraries log at debug only; the executor, the run loop and the CLIs log at the other
 * levels. Lines go to stderr through one write, so lines of several processes do not mix.
 * HRF_LOG=debug or HRF_LOG=debug:engine,store sets level and subsystems. Thread-safe.
 */
#ifndef HRF_BASE_LOG_H
#define HRF_BASE_LOG_H

#include "base/error.h"

#include <stdbool.h>

enum hrf_log_level { HRF_LOG_ERROR, HRF_LOG_WARNING, HRF_LOG_INFO, HRF_LOG_DEBUG };

/* A line is "HH:MM:SS level subsystem: text". A hook replaces stderr (the live progress block). */
void hrf_log(enum hrf_log_level level, const char *subsystem, const char *format, ...)
    HRF_PRINTF(3, 4);
/* Sets what every line says of this process, e.g. "rank 3 node7". The text is copied; NULL means
 * nothing. */
void hrf_log_set_identity(const char *identity);
typedef void hrf_log_hook(void *context, const char *line); /* line without newline */
void hrf_log_set_hook(hrf_log_hook *hook, void *context);   /* NULL = stderr */

#define hrf_log_debug(subsystem, ...)   hrf_log(HRF_LOG_DEBUG, subsystem, __VA_ARGS__)
#define hrf_log_info(subsystem, ...)    hrf_log(HRF_LOG_INFO, subsystem, __VA_ARGS__)
#define hrf_log_warning(subsystem, ...) hrf_log(HRF_LOG_WARNING, subsystem, __VA_ARGS__)
#define hrf_log_error(subsystem, ...)   hrf_log(HRF_LOG_ERROR, subsystem, __VA_ARGS__)

#endif
