/* crash.c - crash points: ends the process where a test asks for it (crash.h). */
#include "base/crash.h"

#include "base/error.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *list_path;
static char wanted[128];
static _Atomic long passes_left;
static int harm = SIGKILL;

static void read_environment(void)
{
    list_path = getenv("HRF_CRASH_LIST");
    const char *at = getenv("HRF_CRASH_AT");
    if (at == NULL)
        return;
    size_t n = strcspn(at, ":");
    snprintf(wanted, sizeof wanted, "%.*s", (int)n, at);
    const char *name = getenv("HRF_CRASH_SIGNAL");
    if (name != NULL)
        harm = strcmp(name, "STOP") == 0     ? SIGSTOP
               : strcmp(name, "SEGV") == 0   ? SIGSEGV
               : strcmp(name, "MEMORY") == 0 ? 0
                                             : SIGKILL;
    long count = at[n] == ':' ? strtol(at + n + 1, NULL, 10) : 1;
    atomic_store(&passes_left, count > 0 ? count : 1);
}

static void append_name(const char *name)
{
    char line[160];
    int n = snprintf(line, sizeof line, "%s\n", name);
    int fd = open(list_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, line, (size_t)n);
    (void)ignored; /* the test sees a missing name */
    close(fd);
}

void hrf_crash_point(const char *name)
{
    pthread_once(&once, read_environment);
    if (list_path != NULL)
        append_name(name);
    if (wanted[0] != '\0' && strcmp(wanted, name) == 0 && atomic_fetch_sub(&passes_left, 1) == 1) {
        if (harm == 0)
            _exit(HRF_EXIT_NO_MEMORY);
        kill(getpid(), harm);
    }
}
