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

void *hrf_alloc(size_t n_bytes)
{
    return may_allocate() ? malloc(n_bytes > 0 ? n_bytes : 1) : NULL; /* ci-allow */
}

void *hrf_calloc(size_t count, size_t size)
{
    if (!may_allocate())
        return NULL;
    return calloc(count > 0 ? count : 1, size > 0 ? size : 1); /* ci-allow */
}

void *hrf_alloc_array(size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return hrf_alloc(count * size);
}

void *hrf_realloc_array(void *old, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    size_t n_bytes = count * size;
    return may_allocate() ? realloc(old, n_bytes > 0 ? n_bytes : 1) : NULL; /* ci-allow */
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
    if (copy != NULL) {
        memcpy(copy, text, n_bytes);
        copy[n_bytes] = '\0';
    }
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
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        return NULL;
    char *text = hrf_alloc((size_t)n + 1);
    if (text != NULL) {
        va_start(args, format);
        vsnprintf(text, (size_t)n + 1, format, args);
        va_end(args);
    }
    return text;
}

void hrf_free(void *memory)
{
    free(memory); /* ci-allow */
}

enum hrf_status hrf_array_reserve(void **items, size_t *capacity, size_t need, size_t size,
                                  struct hrf_error *err)
{
    assert(size > 0 && (*items != NULL || *capacity == 0));
    if (need <= *capacity)
        return HRF_OK;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < need)
        grown = grown > SIZE_MAX / 2 ? need : grown * 2;
    void *moved = hrf_realloc_array(*items, grown, size);
    HRF_CHECK_MEMORY(moved != NULL, err, "no memory for %zu elements of %zu bytes", grown, size);
    *items = moved;
    *capacity = grown;
    return HRF_OK;
}

void hrf_close_cleanup(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
