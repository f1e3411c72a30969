/* alloc.h - all heap memory goes through here.
 *
 * Two families. hrf_alloc() and its relatives are for small things: names, lists, structs. They
 * never return NULL; when memory runs out, the process ends at once with one line on stderr and the
 * exit code HRF_EXIT_NO_MEMORY. A run survives SIGKILL at any moment, so it survives this, too.
 * hrf_try_alloc() and its relatives, and hrf_alloc_aligned(), are for what the input sizes: arenas,
 * images, weights, sections of a file. They return NULL, and the caller says what did not fit.
 * Tests make the n-th call of the second family fail.
 *
 * Thread-safe. Memory is released with hrf_free(), aligned memory too. Sizes are bytes; the array
 * forms check the product for overflow, which counts as memory that ran out.
 */
#ifndef HRF_BASE_ALLOC_H
#define HRF_BASE_ALLOC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *hrf_alloc(size_t n_bytes);
void *hrf_calloc(size_t count, size_t size); /* zeroed */
void *hrf_alloc_array(size_t count, size_t size);
void *hrf_realloc_array(void *old, size_t count, size_t size);
char *hrf_strdup(const char *text); /* NULL in, NULL out */
char *hrf_strndup(const char *text, size_t n_bytes);
char *hrf_format(const char *format, ...) HRF_PRINTF(1, 2);

void *hrf_try_alloc(size_t n_bytes);
void *hrf_try_calloc(size_t count, size_t size);
void *hrf_try_alloc_array(size_t count, size_t size);
void *hrf_try_realloc_array(void *old, size_t count, size_t size); /* old stays valid on failure */
void *hrf_alloc_aligned(size_t n_bytes, size_t alignment);         /* alignment: a power of two */

void hrf_free(void *memory); /* NULL is fine */

/* Grows *items (elements of `size` bytes) to hold at least `need`; doubles. */
void hrf_array_reserve(void **items, size_t *capacity, size_t need, size_t size);
/* Ends the process as above; for libraries that allocate by themselves. */
_Noreturn void hrf_out_of_memory(size_t n_bytes);

/* The n-th hrf_try_ or aligned allocation from now (1 = the next) and all after it fail; 0 = never.
 * For tests. */
void hrf_alloc_fail_after(int64_t n_calls);
int64_t hrf_alloc_count(void); /* calls since hrf_alloc_fail_after() */

/* Locals that own something. `HRF_AUTO(hrf_plan) plan = NULL;` destroys it on every return;
 * ownership leaves with HRF_MOVE(*out, plan). */
#define HRF_AUTO(type) __attribute__((cleanup(type##_cleanup))) struct type *
#define HRF_DEFINE_AUTO(type)                                                                      \
    static inline void type##_cleanup(struct type **object)                                        \
    {                                                                                              \
        type##_destroy(*object);                                                                   \
    }
/* For structs in the caller's storage that have init/release. */
#define HRF_AUTO_RELEASE(type) __attribute__((cleanup(type##_release))) struct type
#define HRF_AUTO_FREE          __attribute__((cleanup(hrf_free_cleanup)))
#define HRF_AUTO_CLOSE         __attribute__((cleanup(hrf_close_cleanup)))

static inline void hrf_free_cleanup(void *object)
{
    hrf_free(*(void **)object);
}
void hrf_close_cleanup(int *fd); /* closes when >= 0 */

/* Passes what a local owns to a new owner: `to` gets the pointer, `from` becomes NULL. */
#define HRF_MOVE(to, from)                                                                         \
    do {                                                                                           \
        (to) = (from);                                                                             \
        (from) = NULL;                                                                             \
    } while (0)

#endif
