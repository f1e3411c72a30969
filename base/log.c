/* log.c - log lines with level, subsystem and rank (log.h). */
#include "base/log.h"

#include "base/message.h"
#include "base/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum hrf_log_level max_level = HRF_LOG_INFO;
static char subsystems[256]; /* ",engine,store," or empty = all */
static char identity_text[128];
static hrf_log_hook *hook_function;
static void *hook_context;

static const char *const level_names[] = { "error", "warning", "info", "debug" };

static void read_environment(void)
{
    const char *value = getenv("HRF_LOG");
    if (value == NULL)
        return;
    size_t n = strcspn(value, ":");
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++)
        if (strlen(level_names[i]) == n && strncmp(value, level_names[i], n) == 0)
            max_level = (enum hrf_log_level)i;
    if (value[n] == ':')
        snprintf(subsystems, sizeof subsystems, ",%s,", value + n + 1);
}

static bool log_enabled(enum hrf_log_level level, const char *subsystem)
{
    pthread_once(&once, read_environment);
    if (level > max_level)
        return false;
    if (level < HRF_LOG_DEBUG || subsystems[0] == '\0')
        return true;
    char word[64];
    snprintf(word, sizeof word, ",%s,", subsystem);
    return strstr(subsystems, word) != NULL;
}

void hrf_log_set_identity(const char *identity)
{
    pthread_mutex_lock(&lock);
    snprintf(identity_text, sizeof identity_text, "%s", identity != NULL ? identity : "");
    pthread_mutex_unlock(&lock);
}

void hrf_log_set_hook(hrf_log_hook *hook, void *context)
{
    pthread_mutex_lock(&lock);
    hook_function = hook;
    hook_context = context;
    pthread_mutex_unlock(&lock);
}

void hrf_log(enum hrf_log_level level, const char *subsystem, const char *format, ...)
{
    if (!log_enabled(level, subsystem))
        return;
    char line[4096];
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    int n = snprintf(line, sizeof line, "%02d:%02d:%02d %s %s%s%s: ", local.tm_hour, local.tm_min,
                     local.tm_sec, level_names[level], subsystem, identity_text[0] ? " " : "",
                     identity_text);
    size_t used = n > 0 ? (size_t)n : 0;
    va_list args;
    va_start(args, format);
    char raw[sizeof line]; /* may hold names from outside */
    hrf_message_vprint(raw, sizeof raw, format, args);
    va_end(args);
    hrf_text_escape(raw, line + used, sizeof line - used - 1);
    used += strlen(line + used);
    pthread_mutex_lock(&lock);
    if (hook_function != NULL) {
        hook_function(hook_context, line);
    } else {
        line[used++] = '\n';
        ssize_t ignored = write(STDERR_FILENO, line, used);
        (void)ignored; /* nowhere to report it */
    }
    pthread_mutex_unlock(&lock);
}
