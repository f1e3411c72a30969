/* guard.h - survives libraries that die of a damaged or crafted file.
 *
 * HDF5's library, OpenSlide with GLib, and libtiff read files that anybody may have made, and some
 * of these files make them read outside of memory, call abort() or loop for ever. Then the process
 * ends, or never ends; no code of ours in the same process can prevent that. Two things can be
 * done:
 *
 * - The file is named. A thread notes which file it parses. When a process dies of a fault in that
 *   thread, it says so in one sentence: on a terminal, or in a job's log, whose last line becomes
 *   the reason of the failed task.
 * - A program that must go on (the viewer, the driver, a survey of 10,000 slides) has such files
 *   parsed in a child process, the guard. The child answers one question after the other, so a file
 *   costs two messages; a new child is started only after a fault.
 *
 * A child is a fork of the caller, without exec: it has the caller's memory as it was, but none of
 * its threads and, but for the standard ones, none of its files. It ends when its parent does.
 */
#ifndef HRF_BASE_GUARD_H
#define HRF_BASE_GUARD_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* ---- naming the file ---- */

/* Notes that this thread parses `path` (borrowed) until the next note. Returns the path of the note
 * before, or NULL. */
const char *hrf_guard_note(const char *path);
static inline void hrf_guard_note_cleanup(const char **before)
{
    hrf_guard_note(*before);
}
/* Notes `path` until the end of the block. */
#define HRF_GUARD_NOTE(path)                                                                       \
    __attribute__((cleanup(hrf_guard_note_cleanup)))                                               \
    const char *hrf_guard_before_ = hrf_guard_note(path);                                          \
    (void)hrf_guard_before_

/* Notes `path` until the end of the block, and ends the process as a fault does if the thread uses
 * more than `seconds` of processor time within the block: damaged files make libraries loop for
 * ever, too. */
#define HRF_GUARD_LIMIT(path, seconds)                                                             \
    HRF_GUARD_NOTE(path);                                                                          \
    __attribute__((cleanup(hrf_guard_limit_end)))                                                  \
    timer_t hrf_guard_timer_ = hrf_guard_limit_begin(seconds);                                     \
    (void)hrf_guard_timer_
timer_t hrf_guard_limit_begin(int64_t seconds);
void hrf_guard_limit_end(const timer_t *timer);

/* From now on, if this process dies of a fault in a noted file, it prints which file that was:
 * "PROGRAM COMMAND: 'FILE' ...". If `ends`, it then exits with code 1, as after any file that
 * cannot be read; otherwise it dies of the signal, which tells a job's launcher that the worker
 * crashed. The texts are borrowed. */
void hrf_guard_begin(const char *program, const char *command, bool ends);

/* ---- living on ---- */

/* Answers one question in the child. The bytes that it appends to `answer`, or its error, are
 * passed to the parent. */
typedef enum hrf_status hrf_guard_work(void *context, const void *question,
                                       struct hrf_strbuf *answer, struct hrf_error *err);
struct hrf_guard; /* a child; one thread at a time */

HRF_CHECKED enum hrf_status hrf_guard_create(hrf_guard_work *work, void *context,
                                             struct hrf_guard **out, struct hrf_error *err);
void hrf_guard_destroy(struct hrf_guard *guard); /* kills the child, whatever it does */
HRF_DEFINE_AUTO(hrf_guard)

/* Asks the child and waits for the answer. HRF_E_USER: the child died while it parsed `path`. */
HRF_CHECKED enum hrf_status hrf_guard_ask(struct hrf_guard *guard, const char *path,
                                          const void *question, size_t n_bytes,
                                          struct hrf_strbuf *answer, struct hrf_error *err);

/* The same for many files side by side: `work` is asked about each index from 0 (a size_t) in one
 * of `n_children` children, `take` gets the answers in the caller's thread, in any order. */
struct hrf_guard_batch {
    size_t n_items;
    int n_children;
    hrf_guard_work *work;
    const char *(*path)(void *context, size_t index);
    void (*take)(void *context, size_t index, enum hrf_status status,
                 const struct hrf_strbuf *answer, const struct hrf_error *err);
    void *context;
};
/* Fails only if no child can be started. */
HRF_CHECKED enum hrf_status hrf_guard_ask_all(const struct hrf_guard_batch *batch,
                                              struct hrf_error *err);

#endif
