/* trouble.c - a library to be preloaded: file systems and clocks as they are on a bad day.
 *
 * Only processes whose name and first word are $HRF_TROUBLE_FOR ("hires-flow run") are touched, and
 * only paths that begin with $HRF_TROUBLE_PATH. Every variable begins with HRF_TROUBLE_:
 *   CLOCK_S=N   the wall clock is N seconds off; with JUMP=K it is right for its first K readings
 *   LATE_MS=N   what is younger than N ms is not there yet, as an NFS client's cache has it; the
 *               file system calls itself NFS
 *   DELAY_MS=N  opening, renaming and syncing take N ms
 *   ERROR=E     ESTALE, EIO: every EVERYth opening fails by it; EDQUOT: every creation does while
 *               the file WHILE is there
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool is_on;
    const char *path, *until;
    long clock_s, jump, late_ms, delay_ms, every;
    int error;
} trouble;
static atomic_long n_opened, n_readings;

/* The function that stands behind ours. */
static void *next_function(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
#define NEXT(name)                                                                                 \
    static __typeof__(&name) behind;                                                               \
    if (behind == NULL) {                                                                          \
        void *found = next_function(#name);                                                        \
        memcpy(&behind, &found, sizeof behind);                                                    \
    }

static long number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* "hires-flow run" of /proc/self/cmdline. */
static bool is_meant(const char *wanted)
{
    char line[4096], name[512];
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 2) : 0;
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = line[n > 0 ? n + 1 : 1] = '\0';
    const char *slash = strrchr(line, '/'), *word = line + strlen(line) + 1;
    const char *base = slash != NULL ? slash + 1 : line;
    snprintf(name, sizeof name, "%.255s %.255s", base, word);
    return strcmp(name, wanted) == 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *wanted = getenv("HRF_TROUBLE_FOR"), *error = getenv("HRF_TROUBLE_ERROR");
    if (wanted == NULL || !is_meant(wanted))
        return;
    trouble.path = getenv("HRF_TROUBLE_PATH");
    trouble.until = getenv("HRF_TROUBLE_WHILE");
    trouble.clock_s = number("HRF_TROUBLE_CLOCK_S");
    trouble.jump = number("HRF_TROUBLE_JUMP");
    trouble.late_ms = number("HRF_TROUBLE_LATE_MS");
    trouble.delay_ms = number("HRF_TROUBLE_DELAY_MS");
    trouble.every = number("HRF_TROUBLE_EVERY");
    if (error != NULL)
        trouble.error = strcmp(error, "ESTALE") == 0   ? ESTALE
                        : strcmp(error, "EDQUOT") == 0 ? EDQUOT
                                                       : EIO;
    trouble.is_on = true;
}

/* ---- the clock ---- */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    NEXT(clock_gettime)
    const int result = behind(clock, out);
    if (trouble.is_on && clock == CLOCK_REALTIME && trouble.clock_s != 0 &&
        atomic_fetch_add(&n_readings, 1) >= trouble.jump)
        out->tv_sec += trouble.clock_s;
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){ now.tv_sec, now.tv_nsec / 1000 };
    return 0;
}

/* ---- files ---- */

static bool is_ours(const char *path)
{
    return trouble.is_on && trouble.path != NULL && path != NULL &&
           strncmp(path, trouble.path, strlen(trouble.path)) == 0;
}

static void take_time(void)
{
    struct timespec wait = { trouble.delay_ms / 1000, trouble.delay_ms % 1000 * 1000000 };
    if (trouble.delay_ms > 0)
        nanosleep(&wait, NULL);
}

/* A file that another process made a moment ago. Folders, and what this program made itself, are
 * seen at once. */
static bool is_late(const char *path)
{
    struct stat info;
    struct timespec now;
    static const char *const own[] = { "spec.json", "job.sh", ".tmp.", "revoked" };
    NEXT(fstatat)
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strstr(path, own[i]) != NULL)
            return false;
    if (trouble.late_ms == 0 || behind(AT_FDCWD, path, &info, 0) != 0 || !S_ISREG(info.st_mode) ||
        strstr(path, "/jobs/") == NULL)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    return (now.tv_sec - info.st_ctim.tv_sec) * 1000 +
               (now.tv_nsec - info.st_ctim.tv_nsec) / 1000000 <
           trouble.late_ms;
}

static bool fails(const char *path, int flags)
{
    if (!is_ours(path))
        return false;
    take_time();
    if (!(flags & O_CREAT) && is_late(path)) {
        errno = ENOENT;
        return true;
    }
    const bool is_on_creation = trouble.error == EDQUOT;
    if (trouble.error == 0 || strstr(path, "run.db") != NULL ||
        (is_on_creation
             ? !(flags & O_CREAT) || trouble.until == NULL || access(trouble.until, F_OK) != 0
             : trouble.every == 0 || atomic_fetch_add(&n_opened, 1) % trouble.every != 0))
        return false;
    errno = trouble.error;
    return true;
}

static int open_mode(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
}

int open(const char *path, int flags, ...)
{
    NEXT(open)
    va_list args;
    va_start(args, flags);
    const int mode = open_mode(flags, args);
    va_end(args);
    return fails(path, flags) ? -1 : behind(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    NEXT(open64)
    va_list args;
    va_start(args, flags);
    const int mode = open_mode(flags, args);
    va_end(args);
    return fails(path, flags) ? -1 : behind(path, flags, mode);
}

int access(const char *path, int mode)
{
    NEXT(access)
    if (is_ours(path) && is_late(path)) {
        errno = ENOENT;
        return -1;
    }
    return behind(path, mode);
}

int rename(const char *from, const char *to)
{
    NEXT(rename)
    if (is_ours(to))
        take_time();
    return behind(from, to);
}

int fsync(int fd)
{
    NEXT(fsync)
    if (trouble.is_on)
        take_time();
    return behind(fd);
}

int statfs(const char *path, struct statfs *out)
{
    NEXT(statfs)
    const int result = behind(path, out);
    if (result == 0 && is_ours(path) && trouble.late_ms > 0)
        out->f_type = 0x6969; /* NFS_SUPER_MAGIC */
    return result;
}
