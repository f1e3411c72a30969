/* alloc.c - heap allocation, and the counter by which tests make the n-th one fail (alloc.h). */
#define _DEFAULT_SOURCE /* madvise */
#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t n_calls;
static _Atomic int64_t first_failure; /* 0 = never */

static bool may_allocate(void)
{
    int64_t call = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed) + 1;
    int64_t limit = atomic_load_explicit(&first_failure, memory_order_relaxed);
    return limit == 0 || call < limit;
}

void hrf_alloc_fail_after(int64_t n)
{
    atomic_store(&n_calls, 0);
    atomic_store(&first_failure, n);
}

int64_t hrf_alloc_count(void)
{
    return atomic_load(&n_calls);
}

void hrf_out_of_memory(size_t n_bytes)
{
    /* No stdio, which may allocate. */
    char line[96];
    const int n = snprintf(line, sizeof line, "out of memory: no %zu bytes more\n", n_bytes);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(HRF_EXIT_NO_MEMORY); /* nobody reads it */
    _exit(HRF_EXIT_NO_MEMORY);
}

static void *or_end(void *memory, size_t n_bytes)
{
    if (memory == NULL)
        hrf_out_of_memory(n_bytes);
    return memory;
}

/* The product, SIZE_MAX where it does not fit: no allocation of that size succeeds. */
static size_t array_bytes(size_t count, size_t size)
{
    return size != 0 && count > SIZE_MAX / size ? SIZE_MAX : count * size;
}

static void *alloc_take(size_t n_bytes)
{
    return n_bytes <= PTRDIFF_MAX ? malloc(n_bytes > 0 ? n_bytes : 1) : NULL; /* ci-allow */
}

static void *take_again(void *old, size_t n_bytes)
{
    return n_bytes <= PTRDIFF_MAX ? realloc(old, n_bytes > 0 ? n_bytes : 1) : NULL; /* ci-allow */
}

void *hrf_alloc(size_t n_bytes)
{
    return or_end(alloc_take(n_bytes), n_bytes);
}

void *hrf_calloc(size_t count, size_t size)
{
    return or_end(calloc(count > 0 ? count : 1, size > 0 ? size : 1), /* ci-allow */
                  array_bytes(count, size));
}

void *hrf_alloc_array(size_t count, size_t size)
{
    return hrf_alloc(array_bytes(count, size));
}

void *hrf_realloc_array(void *old, size_t count, size_t size)
{
    const size_t n_bytes = array_bytes(count, size);
    return or_end(take_again(old, n_bytes), n_bytes);
}

void *hrf_try_alloc(size_t n_bytes)
{
    return may_allocate() ? alloc_take(n_bytes) : NULL;
}

void *hrf_try_calloc(size_t count, size_t size)
{
    if (!may_allocate())
        return NULL;
    return calloc(count > 0 ? count : 1, size > 0 ? size : 1); /* ci-allow */
}

void *hrf_try_alloc_array(size_t count, size_t size)
{
    return hrf_try_alloc(array_bytes(count, size));
}

void *hrf_try_realloc_array(void *old, size_t count, size_t size)
{
    const size_t n_bytes = array_bytes(count, size);
    return may_allocate() ? take_again(old, n_bytes) : NULL;
}

enum { LARGE_PAGE = 2 << 20 };

/* Large blocks ask for large pages, as far as those fit in whole: a network goes through hundreds
 * of MB in each run, which fewer entries of the processor's page table then cover (measured: 1 % of
 * ResNet-101's time). Only a wish: the kernel may have none. */
void *hrf_alloc_aligned(size_t n_bytes, size_t alignment)
{
    void *memory = NULL;
    const bool is_large = n_bytes >= 2 * (size_t)LARGE_PAGE;
    if (is_large && alignment < LARGE_PAGE)
        alignment = LARGE_PAGE;
    if (!may_allocate() || posix_memalign(&memory, alignment, n_bytes > 0 ? n_bytes : 1) != 0)
        return NULL;
    if (is_large)
        (void)madvise(memory, n_bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    return memory;
}

char *hrf_strndup(const char *text, size_t n_bytes)
{
    if (text == NULL)
        return NULL;
    char *copy = hrf_alloc(n_bytes + 1);
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    return copy;
}

char *hrf_strdup(const char *text)
{
    return text != NULL ? hrf_strndup(text, strlen(text)) : NULL;
}

char *hrf_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(n >= 0); /* only wide characters can fail to convert */
    char *text = hrf_alloc((size_t)n + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

void hrf_free(void *memory)
{
    free(memory); /* ci-allow */
}

void hrf_array_reserve(void **items, size_t *capacity, size_t need, size_t size)
{
    assert(size > 0 && (*items != NULL || *capacity == 0));
    if (need <= *capacity)
        return;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < need)
        grown = grown > SIZE_MAX / 2 ? need : grown * 2;
    *items = hrf_realloc_array(*items, grown, size);
    *capacity = grown;
}

void hrf_close_cleanup(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
