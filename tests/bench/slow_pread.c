/* slow_pread - a disk that answers late: loaded by LD_PRELOAD, every pread() waits HRF_SLOW_MS
 * milliseconds (20) before it reads, however little it asks for. Says the number of reads and their
 * bytes at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

ssize_t pread(int fd, void *out, size_t n, off_t offset);
ssize_t pread64(int fd, void *out, size_t n, off64_t offset);

static atomic_llong n_reads, n_bytes;

static void wait_for_disk(void)
{
    const char *text = getenv("HRF_SLOW_MS");
    const long ms = text != NULL ? strtol(text, NULL, 10) : 20;
    const struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&wait, NULL);
}

static ssize_t read_late(const char *name, int fd, void *out, size_t n, off64_t offset)
{
    ssize_t (*real)(int, void *, size_t, off64_t);
    *(void **)&real = dlsym(RTLD_NEXT, name);
    wait_for_disk();
    const ssize_t got = real(fd, out, n, offset);
    atomic_fetch_add(&n_reads, 1);
    atomic_fetch_add(&n_bytes, got > 0 ? got : 0);
    return got;
}

ssize_t pread(int fd, void *out, size_t n, off_t offset)
{
    return read_late("pread", fd, out, n, offset);
}

ssize_t pread64(int fd, void *out, size_t n, off64_t offset)
{
    return read_late("pread64", fd, out, n, offset);
}

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "slow_pread: %lld reads, %.1f MB\n", (long long)n_reads,
            (double)n_bytes * 1e-6);
}
