/* process.c - starts programs from argument lists, with deadlines (process.h). */
#define _GNU_SOURCE /* pipe2 */
#include "base/process.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct pipes {
    int in[2], out[2], error[2], status[2]; /* status: errno of a failed exec */
};

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        pair[i] = -1;
    }
}

static void close_pipes(struct pipes *pipes)
{
    close_pair(pipes->in);
    close_pair(pipes->out);
    close_pair(pipes->error);
    close_pair(pipes->status);
}

static bool open_pipe(int pair[2])
{
    return pipe2(pair, O_CLOEXEC) == 0;
}

static void close_end(int *fd)
{
    close(*fd);
    *fd = -1;
}

static void report_and_exit(int fd)
{
    int native = errno;
    ssize_t ignored = write(fd, &native, sizeof native);
    (void)ignored; /* the parent sees an early end then */
    _exit(127);
}

/* In the child. Signals back to their defaults: the parent may ignore or block some. */
static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    static const int reset[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGCHLD };
    for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++)
        signal(reset[i], SIG_DFL);
}

/* In the child: the kernel kills it when the thread that forked it ends, however that happens. */
static void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before prctl */
        _exit(127);
}

static void exec_child(const char *const argv[], const char *const environment[], int status_fd)
{
    if (environment != NULL)
        environ = (char **)(uintptr_t)environment;
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    report_and_exit(status_fd);
}

/* 0 when the exec worked, else its errno. */
static int exec_errno(int fd)
{
    int native = 0;
    ssize_t n;
    do
        n = read(fd, &native, sizeof native);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof native ? native : 0;
}

struct hrf_process_result hrf_process_decode(int wait_status)
{
    return (struct hrf_process_result){
        .exited = WIFEXITED(wait_status),
        .exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1,
        .signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0,
    };
}

static void collect(int *fd, struct hrf_strbuf *into, size_t limit)
{
    char block[8192];
    ssize_t n = read(*fd, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        close_end(fd);
        return;
    }
    size_t keep = (size_t)n;
    if (into != NULL && into->length < limit)
        hrf_strbuf_add(into, block, keep < limit - into->length ? keep : limit - into->length);
}

static void feed(int *fd, const char **input, size_t *left)
{
    ssize_t n = *left > 0 ? write(*fd, *input, *left) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0) {
        *input += n;
        *left -= (size_t)n;
    }
    if (n < 0 || *left == 0)
        close_end(fd);
}

/* Moves bytes until both outputs are closed and the child has ended. */
static bool pump(struct pipes *pipes, pid_t pid, const char *input, int64_t timeout_ms,
                 size_t limit, struct hrf_strbuf *out, struct hrf_strbuf *error, int *wait_status)
{
    size_t left = input != NULL ? strlen(input) : 0;
    int64_t deadline = hrf_clock_ns() + timeout_ms * 1000000;
    bool timed_out = false, ended = false;
    int64_t killed_at = 0;
    while (!ended || pipes->out[0] >= 0 || pipes->error[0] >= 0) {
        struct pollfd fds[3] = { { .fd = pipes->in[1], .events = POLLOUT },
                                 { .fd = pipes->out[0], .events = POLLIN },
                                 { .fd = pipes->error[0], .events = POLLIN } };
        poll(fds, 3, 20);
        if (fds[0].fd >= 0 && fds[0].revents != 0)
            feed(&pipes->in[1], &input, &left);
        if (fds[1].fd >= 0 && fds[1].revents != 0)
            collect(&pipes->out[0], out, limit);
        if (fds[2].fd >= 0 && fds[2].revents != 0)
            collect(&pipes->error[0], error, limit);
        if (!ended && waitpid(pid, wait_status, WNOHANG) == pid)
            ended = true;
        int64_t now = hrf_clock_ns();
        if (now < deadline)
            continue;
        if (!timed_out) {
            timed_out = !ended; /* ended: only a grandchild still holds the pipe */
            kill(-pid, SIGTERM);
            killed_at = now;
            deadline = now + 2000000000;
            if (ended)
                break;
        } else {
            kill(-pid, SIGKILL);
            if (ended || now > killed_at + 4000000000)
                break;
        }
    }
    if (!ended)
        waitpid(pid, wait_status, 0);
    return timed_out;
}

enum hrf_status hrf_process_run(const char *const argv[], const char *const environment[],
                                const char *input, int64_t timeout_ms, size_t limit,
                                struct hrf_strbuf *standard_output,
                                struct hrf_strbuf *standard_error,
                                struct hrf_process_result *result, struct hrf_error *err)
{
    struct pipes pipes = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    if (!open_pipe(pipes.in) || !open_pipe(pipes.out) || !open_pipe(pipes.error) ||
        !open_pipe(pipes.status)) {
        int native = errno;
        close_pipes(&pipes);
        return hrf_error_set_errno(err, native, "cannot make pipes for %s", argv[0]);
    }
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        end_with_parent(parent);
        setpgid(0, 0);
        reset_signals();
        if (dup2(pipes.in[0], 0) < 0 || dup2(pipes.out[1], 1) < 0 || dup2(pipes.error[1], 2) < 0)
            report_and_exit(pipes.status[1]);
        exec_child(argv, environment, pipes.status[1]);
    }
    if (pid < 0) {
        int native = errno;
        close_pipes(&pipes);
        return hrf_error_set_errno(err, native, "cannot start %s", argv[0]);
    }
    setpgid(pid, pid); /* whichever of the two comes first */
    close_end(&pipes.in[0]);
    close_end(&pipes.out[1]);
    close_end(&pipes.error[1]);
    close_end(&pipes.status[1]);
    int native = exec_errno(pipes.status[0]);
    int wait_status = 0;
    bool timed_out = false;
    fcntl(pipes.in[1], F_SETFL, O_NONBLOCK);
    if (native == 0)
        timed_out = pump(&pipes, pid, input, timeout_ms, limit, standard_output, standard_error,
                         &wait_status);
    else
        waitpid(pid, &wait_status, 0);
    close_pipes(&pipes);
    if (native != 0)
        return hrf_error_set_errno(err, native, "cannot start %s", argv[0]);
    *result = hrf_process_decode(wait_status);
    result->timed_out = timed_out;
    return HRF_OK;
}

static void start_child(const char *const argv[], const char *log_path, bool detached, pid_t parent,
                        int status_fd)
{
    if (detached) {
        setsid();
    } else {
        end_with_parent(parent);
        setpgid(0, 0);
    }
    reset_signals();
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd < 0 || dup2(null_fd, 0) < 0)
        report_and_exit(status_fd);
    if (log_path != NULL) {
        int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
        if (log_fd < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0)
            report_and_exit(status_fd);
        close(log_fd);
    }
    if (null_fd > 0)
        close(null_fd);
    exec_child(argv, NULL, status_fd);
}

enum hrf_status hrf_process_start(const char *const argv[], const char *log_path, bool detached,
                                  pid_t *pid, struct hrf_error *err)
{
    int status[2];
    if (!open_pipe(status))
        return hrf_error_set_errno(err, errno, "cannot make a pipe for %s", argv[0]);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0)
        start_child(argv, log_path, detached, parent, status[1]);
    int native = child < 0 ? errno : 0;
    close(status[1]);
    if (child > 0)
        native = exec_errno(status[0]);
    close(status[0]);
    if (native != 0) {
        if (child > 0)
            waitpid(child, NULL, 0);
        return hrf_error_set_errno(err, native, "cannot start %s", argv[0]);
    }
    *pid = child;
    return HRF_OK;
}
