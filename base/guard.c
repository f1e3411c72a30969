/* guard.c - see guard.h. A question is its length and its bytes; an answer is a struct head and its
 * bytes, over a socket pair. A child without an answer has died. */
#define _GNU_SOURCE /* close_range, SOCK_CLOEXEC */
#include "base/guard.h"

#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUT_OF_TIME = SIGVTALRM }; /* nobody else sends it, and by default it ends a process, too */

/* What libraries end a process by. GLib's fatal errors are a trap. */
static const struct fault {
    int signal;
    const char *name;
} faults[] = {
    { SIGSEGV, "a segmentation fault" },
    { SIGBUS, "a bus error" },
    { SIGFPE, "an arithmetic fault" },
    { SIGILL, "an illegal instruction" },
    { SIGABRT, "an abort" },
    { SIGTRAP, "an abort" },
    { OUT_OF_TIME, "work without an end" },
};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FIRST_FAULT = 4 }; /* the others are the sanitizer's, whose report is better */
#else
enum { FIRST_FAULT = 0 };
#endif
enum { N_FAULTS = sizeof faults / sizeof faults[0] };

static const char *fault_name(int number)
{
    for (int i = 0; i < N_FAULTS; i++)
        if (faults[i].signal == number)
            return faults[i].name;
    return "a signal";
}

static const char advice[] = "it is damaged, or made to do that; copy or make it again";

/* ---- naming the file ---- */

static _Thread_local const char *noted;
static const char *the_program, *the_command;
static bool ends_by_code;

const char *hrf_guard_note(const char *path)
{
    const char *before = noted;
    noted = path;
    return before;
}

/* Only what a signal handler may do. */
static void guard_put(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void put_path(const char *path)
{
    for (; *path != '\0'; path++) {
        const char shown[2] = { (unsigned char)*path < ' ' || *path == 127 ? '?' : *path, '\0' };
        guard_put(shown);
    }
}

static void report(int number)
{
    if (noted != NULL) {
        guard_put(the_program);
        guard_put(" ");
        guard_put(the_command);
        guard_put(": '");
        put_path(noted);
        guard_put("' ends the program that reads it by ");
        guard_put(fault_name(number));
        guard_put(": ");
        guard_put(advice);
        guard_put("\n");
        if (ends_by_code)
            _exit(1);
    }
    raise(number); /* the handler is gone: it ends the process when this function returns */
}

static char no_timer; /* of what is no timer */

timer_t hrf_guard_limit_begin(int64_t seconds)
{
    timer_t timer = &no_timer;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = OUT_OF_TIME };
    const struct itimerspec limit = { .it_value = { .tv_sec = seconds } };
    event._sigev_un._tid = gettid(); /* the C library has no public name for it */
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0)
        return &no_timer;
    timer_settime(timer, 0, &limit, NULL);
    return timer;
}

void hrf_guard_limit_end(const timer_t *timer)
{
    if (*timer != (timer_t)&no_timer)
        timer_delete(*timer);
}

void hrf_guard_begin(const char *program, const char *command, bool ends)
{
    enum { STACK_BYTES = 64 << 10 };
    static char other_stack[STACK_BYTES]; /* for a library that has used up the thread's */
    const stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
    the_program = program;
    the_command = command;
    ends_by_code = ends;
    sigaltstack(&stack, NULL); /* without it the handler uses the thread's */
    for (int i = FIRST_FAULT; i < N_FAULTS; i++) {
        struct sigaction action = { .sa_handler = report,
                                    .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK) };
        sigaction(faults[i].signal, &action, NULL);
    }
}

/* ---- the child ---- */

struct hrf_guard {
    hrf_guard_work *work;
    void *context;
    pid_t pid; /* 0: it has died, or was never started */
    int fd;
};

struct head {
    enum hrf_status status;
    size_t n_bytes;
    struct hrf_error err; /* its domain is text of this program, at the same place in both */
};

static bool send_all(int fd, const void *bytes, size_t n_bytes)
{
    for (const char *at = bytes; n_bytes > 0;) {
        const ssize_t n = send(fd, at, n_bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, void *bytes, size_t n_bytes)
{
    for (char *at = bytes; n_bytes > 0;) {
        const ssize_t n = recv(fd, at, n_bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

/* Never returns. exit() would write once more what the parent has in its buffers. */
static void serve(const struct hrf_guard *guard, int fd)
{
    const struct rlimit no_core = { 0, 0 };
    setrlimit(RLIMIT_CORE, &no_core);
    for (int i = FIRST_FAULT; i < N_FAULTS; i++)
        signal(faults[i].signal, SIG_DFL); /* the parent says it */
    if (fd > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0U, 0);
    for (;;) {
        size_t n_bytes = 0;
        struct hrf_strbuf answer = HRF_STRBUF_INIT;
        struct head head = { .err = { .status = HRF_OK } };
        if (!receive_all(fd, &n_bytes, sizeof n_bytes))
            _exit(0);
        HRF_AUTO_FREE char *question = hrf_alloc(n_bytes + 1);
        if (!receive_all(fd, question, n_bytes))
            _exit(1);
        head.status = guard->work(guard->context, question, &answer, &head.err);
        head.n_bytes = head.status == HRF_OK ? answer.length : 0;
        if (!send_all(fd, &head, sizeof head) || !send_all(fd, answer.text, head.n_bytes))
            _exit(0);
        hrf_strbuf_release(&answer);
    }
}

static enum hrf_status start(struct hrf_guard *guard, struct hrf_error *err)
{
    int pair[2];
    if (guard->pid > 0)
        return HRF_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return hrf_error_set_errno(err, errno, "cannot make a socket");
    const pid_t pid = fork();
    if (pid == 0)
        serve(guard, pair[1]);
    const int native = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return hrf_error_set_errno(err, native, "cannot start a process");
    }
    guard->pid = pid;
    guard->fd = pair[0];
    return HRF_OK;
}

static struct hrf_process_result end(struct hrf_guard *guard)
{
    int status = 0;
    close(guard->fd);
    while (waitpid(guard->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    guard->pid = 0;
    return hrf_process_decode(status);
}

enum hrf_status hrf_guard_create(hrf_guard_work *work, void *context, struct hrf_guard **out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_guard) guard = hrf_calloc(1, sizeof *guard);
    guard->work = work;
    guard->context = context;
    HRF_TRY(start(guard, err));
    HRF_MOVE(*out, guard);
    return HRF_OK;
}

void hrf_guard_destroy(struct hrf_guard *guard)
{
    if (guard != NULL && guard->pid > 0) {
        kill(guard->pid, SIGKILL);
        end(guard);
    }
    hrf_free(guard);
}

static bool ask(const struct hrf_guard *guard, const void *question, size_t n_bytes)
{
    return send_all(guard->fd, &n_bytes, sizeof n_bytes) && send_all(guard->fd, question, n_bytes);
}

/* The death of a child as an error. */
static enum hrf_status mourn(struct hrf_guard *guard, const char *path, struct hrf_error *err)
{
    const struct hrf_process_result result = end(guard);
    HRF_AUTO_FREE char *name = hrf_text_escaped(path);
    if (!result.exited && result.signal == SIGKILL)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "'%s': the process that read it was killed, probably for lack of "
                             "memory",
                             name);
    if (result.exited)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' ends the process that reads it with exit code %d: %s", name,
                             result.exit_code, advice);
    return hrf_error_set(err, HRF_E_USER, "'%s' ends the process that reads it by %s (%d): %s",
                         name, fault_name(result.signal), result.signal, advice);
}

static enum hrf_status take_answer(struct hrf_guard *guard, const char *path,
                                   struct hrf_strbuf *answer, struct hrf_error *err)
{
    struct head head;
    if (!receive_all(guard->fd, &head, sizeof head))
        return mourn(guard, path, err);
    if (head.status != HRF_OK) {
        if (err != NULL)
            *err = head.err;
        return head.status;
    }
    char block[1 << 14];
    for (size_t n; head.n_bytes > 0; head.n_bytes -= n) {
        n = head.n_bytes < sizeof block ? head.n_bytes : sizeof block;
        if (!receive_all(guard->fd, block, n))
            return mourn(guard, path, err);
        hrf_strbuf_add(answer, block, n);
    }
    return HRF_OK;
}

enum hrf_status hrf_guard_ask(struct hrf_guard *guard, const char *path, const void *question,
                              size_t n_bytes, struct hrf_strbuf *answer, struct hrf_error *err)
{
    HRF_TRY(start(guard, err));
    if (!ask(guard, question, n_bytes))
        return mourn(guard, path, err);
    return take_answer(guard, path, answer, err);
}

/* ---- many files ---- */

struct batch_child {
    struct hrf_guard *guard;
    size_t index;
    bool is_busy;
};

/* Gives an idle child the next item; a child that cannot be started again stays idle. */
static void hand_out(const struct hrf_guard_batch *batch, struct batch_child *m, size_t *next,
                     struct hrf_error *err)
{
    if (m->is_busy || *next >= batch->n_items || start(m->guard, err) != HRF_OK)
        return;
    m->index = (*next)++;
    m->is_busy = true;
    (void)ask(m->guard, &m->index, sizeof m->index); /* that it is dead is seen by its answer */
}

static void take_one(const struct hrf_guard_batch *batch, struct batch_child *m)
{
    HRF_AUTO_RELEASE(hrf_strbuf) answer = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    const char *path = batch->path(batch->context, m->index);
    const enum hrf_status status = take_answer(m->guard, path, &answer, &err);
    batch->take(batch->context, m->index, status, &answer, &err);
    m->is_busy = false;
}

static enum hrf_status ask_all(const struct hrf_guard_batch *batch, struct batch_child *members,
                               struct pollfd *fds, int n, struct hrf_error *err)
{
    for (size_t next = 0;;) {
        int n_busy = 0;
        for (int i = 0; i < n; i++) {
            hand_out(batch, &members[i], &next, err);
            fds[i] = (struct pollfd){ .fd = members[i].is_busy ? members[i].guard->fd : -1,
                                      .events = POLLIN };
            n_busy += members[i].is_busy;
        }
        if (n_busy == 0)
            return next >= batch->n_items ? HRF_OK : err->status;
        poll(fds, (nfds_t)n, -1);
        for (int i = 0; i < n; i++)
            if (fds[i].fd >= 0 && fds[i].revents != 0)
                take_one(batch, &members[i]);
    }
}

enum hrf_status hrf_guard_ask_all(const struct hrf_guard_batch *batch, struct hrf_error *err)
{
    const int wanted = (size_t)batch->n_children < batch->n_items ? batch->n_children
                                                                  : (int)batch->n_items;
    HRF_AUTO_FREE struct batch_child *members = hrf_calloc((size_t)wanted + 1, sizeof *members);
    HRF_AUTO_FREE struct pollfd *fds = hrf_calloc((size_t)wanted + 1, sizeof *fds);
    struct hrf_error why = { .status = HRF_OK };
    int n = 0;
    while (n < wanted &&
           hrf_guard_create(batch->work, batch->context, &members[n].guard, &why) == HRF_OK)
        n++;
    enum hrf_status status = ask_all(batch, members, fds, n, &why);
    for (int i = 0; i < n; i++)
        hrf_guard_destroy(members[i].guard);
    if (status != HRF_OK && err != NULL)
        *err = why;
    return status;
}
