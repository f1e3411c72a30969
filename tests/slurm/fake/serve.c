/* serve.c - the controller and the nodes: starts jobs, ends them at their limit, sees their ends.
 *
 * A failed node's jobs go on as processes (that is what fencing is for) until the server ends.
 */
#include "tests/slurm/fake/fake.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TICK_MS = 20, MAX_STARTED = 65536, OUTPUT_ERROR = 53, MAX_NODES = 64 };

static pid_t started[MAX_STARTED]; /* leaders of all that may still run */
static size_t n_started;

/* %a %A %j %x of --output. */
static char *output_path(const struct fake_array *a, const struct fake_task *t)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    for (const char *at = a->output; *at != '\0'; at++) {
        if (*at != '%' || at[1] == '\0') {
            hrf_strbuf_addc(&out, *at);
            continue;
        }
        at++;
        if (*at == 'a')
            hrf_strbuf_addf(&out, "%d", t->index);
        else if (*at == 'A')
            hrf_strbuf_addf(&out, "%lld", (long long)a->id);
        else if (*at == 'j')
            hrf_strbuf_addf(&out, "%lld", (long long)t->id);
        else if (*at == 'x')
            hrf_strbuf_adds(&out, a->name);
    }
    char *name = hrf_strbuf_detach(&out);
    char *path = name != NULL ? hrf_path_join(a->directory, name) : NULL;
    hrf_free(name);
    return path;
}

static void set_number(const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

/* In the child: never returns. */
static void become(const char *directory, const struct fake_array *a, const struct fake_task *t,
                   const char *environment, size_t n, int output)
{
    static char *nothing[] = { NULL };
    char script[600];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    environ = nothing;
    for (size_t at = 0; at < n; at += strlen(environment + at) + 1) {
        const char *equals = strchr(environment + at, '=');
        char *name = equals != NULL ? hrf_strndup(environment + at,
                                                  (size_t)(equals - environment - (ptrdiff_t)at))
                                    : NULL;
        if (name != NULL)
            setenv(name, equals + 1, 1);
    }
    set_number("SLURM_JOB_ID", t->id);
    set_number("SLURM_NNODES", 1);
    set_number("SLURM_NTASKS", 1);
    setenv("SLURM_JOB_NAME", a->name, 1);
    setenv("SLURM_JOB_NODELIST", t->node, 1);
    setenv("SLURMD_NODENAME", t->node, 1);
    setenv("SLURM_SUBMIT_DIR", a->directory, 1);
    if (t->restarts > 0)
        set_number("SLURM_RESTART_COUNT", t->restarts);
    if (a->is_array) {
        set_number("SLURM_ARRAY_JOB_ID", a->id);
        set_number("SLURM_ARRAY_TASK_ID", t->index);
    }
    const int input = open("/dev/null", O_RDONLY);
    snprintf(script, sizeof script, "%s/scripts/%lld.sh", directory, (long long)a->id);
    if (chdir(a->directory) != 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(output, 2) < 0)
        _exit(126);
    char *const argv[] = { script, NULL };
    execv(script, argv);
    _exit(127);
}

static void start(struct fake *fake, struct fake_array *a, struct fake_task *t)
{
    HRF_AUTO_FREE char *path = output_path(a, t);
    HRF_AUTO_FREE char *from = hrf_format("%s/scripts/%lld.env", fake->directory, (long long)a->id);
    HRF_AUTO_FREE char *environment = NULL;
    size_t n = 0;
    t->start = fake_now();
    t->signalled = false;
    if (path == NULL || from == NULL ||
        hrf_file_read(from, 16 << 20, &environment, &n, NULL) != HRF_OK) {
        fake_end(t, FAKE_FAILED, 1, 0);
        return;
    }
    HRF_AUTO_CLOSE int output = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (output < 0) {
        fake_end(t, FAKE_FAILED, 0, OUTPUT_ERROR);
        snprintf(t->reason, sizeof t->reason, "JobLaunchFailure");
        return;
    }
    const pid_t pid = fork();
    if (pid == 0)
        become(fake->directory, a, t, environment, n, output);
    if (pid > 0 && n_started < MAX_STARTED)
        started[n_started++] = pid;
    t->pid = pid;
    t->state = FAKE_RUNNING;
    snprintf(t->reason, sizeof t->reason, "None");
}

/* A task of its own ID leaves the array's pending record when it starts; the last one keeps it. */
static void give_id(struct fake_queue *q, struct fake_task *t)
{
    int64_t pending = 0;
    if (!q->arrays[t->array].is_array || t->restarts > 0)
        return;
    for (int64_t i = 0; i < q->n_tasks; i++)
        pending += q->tasks[i].array == t->array && q->tasks[i].state == FAKE_PENDING;
    if (pending > 1)
        t->id = q->next_id++;
}

/* The node with the fewest running tasks. */
static int free_node(const struct fake_queue *q, int nodes)
{
    int load[MAX_NODES] = { 0 }, best = 0;
    for (int64_t i = 0; i < q->n_tasks; i++) {
        const struct fake_task *t = &q->tasks[i];
        const long number = t->node[0] == 'n' ? strtol(t->node + 1, NULL, 10) : 0;
        if ((t->state == FAKE_RUNNING || t->state == FAKE_WORD) && number > 0 && number <= nodes)
            load[number - 1]++;
    }
    for (int i = 1; i < nodes; i++)
        if (load[i] < load[best])
            best = i;
    return best + 1;
}

static void start_some(struct fake *fake)
{
    struct fake_queue *q = fake->queue;
    const int64_t slots = (int64_t)fake_number(fake, "Slots", 2);
    const double wanted = fake_number(fake, "Nodes", 4);
    const int nodes = wanted < MAX_NODES ? (int)wanted : MAX_NODES;
    const double now = fake_now();
    int64_t running = 0;
    static int64_t in_array[FAKE_MAX_ARRAYS];
    for (int64_t i = 0; i < q->n_arrays; i++)
        in_array[i] = 0;
    for (int64_t i = 0; i < q->n_tasks; i++) {
        const bool runs = q->tasks[i].state == FAKE_RUNNING || q->tasks[i].state == FAKE_WORD;
        running += runs;
        in_array[q->tasks[i].array] += runs;
    }
    for (int64_t i = 0; i < q->n_tasks; i++) {
        struct fake_task *t = &q->tasks[i];
        struct fake_array *a = &q->arrays[t->array];
        if (t->state != FAKE_PENDING || t->held || t->not_before > now)
            continue;
        if (running >= slots || (a->throttle > 0 && in_array[t->array] >= a->throttle)) {
            snprintf(t->reason, sizeof t->reason, "%s",
                     running >= slots ? "Resources" : "JobArrayTaskLimit");
            continue;
        }
        snprintf(t->node, sizeof t->node, "n%d", free_node(q, nodes) % 1000);
        give_id(q, t);
        start(fake, a, t);
        running++;
        in_array[t->array]++;
    }
}

/* Limits, warnings before them, and kills that are due. */
static void watch_limits(struct fake *fake)
{
    struct fake_queue *q = fake->queue;
    const double minute = fake_number(fake, "MinuteSeconds", 60), now = fake_now();
    for (int64_t i = 0; i < q->n_tasks; i++) {
        struct fake_task *t = &q->tasks[i];
        const struct fake_array *a = &q->arrays[t->array];
        if (t->pid <= 0)
            continue;
        const double limit = t->start + (double)a->minutes * minute;
        if (!t->signalled && a->signal_lead_s > 0 &&
            now > limit - (double)a->signal_lead_s * minute / 60) {
            kill(t->pid, SIGUSR1);
            t->signalled = true;
        }
        if (t->ending == 0 && now > limit) {
            t->ending = FAKE_TIMEOUT;
            kill(-t->pid, SIGTERM);
            t->kill_at = now + fake_number(fake, "KillWait", 1);
        }
        if (t->kill_at > 0 && now > t->kill_at)
            kill(-t->pid, SIGKILL);
    }
}

static void note_end(struct fake *fake, struct fake_task *t, int wait_status)
{
    const struct hrf_process_result r = hrf_process_decode(wait_status);
    const int ending = t->ending;
    const bool again = ending == FAKE_PREEMPTED && fake->queue->arrays[t->array].requeue;
    if (ending != 0)
        fake_end(t, ending, 0, r.exited ? 0 : r.signal);
    else
        fake_end(t, r.exited && r.exit_code == 0 ? FAKE_COMPLETED : FAKE_FAILED,
                 r.exited ? r.exit_code : 0, r.exited ? 0 : r.signal);
    if (!again)
        return;
    t->state = FAKE_PENDING;
    t->restarts++;
    t->not_before = fake_now() + fake_number(fake, "RequeueDelay", 1);
    snprintf(t->reason, sizeof t->reason, "BeginTime");
}

static void reap(struct fake *fake)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < n_started; i++)
            if (started[i] == pid)
                started[i--] = started[--n_started];
        for (int64_t i = 0; i < fake->queue->n_tasks; i++)
            if (fake->queue->tasks[i].pid == pid)
                note_end(fake, &fake->queue->tasks[i], status);
    }
}

int fake_serve(struct fake *fake)
{
    struct stat at_start, now;
    HRF_AUTO_FREE char *path = hrf_path_join(fake->directory, "queue");
    if (path == NULL || stat(path, &at_start) != 0)
        return 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a launcher leaves behind is ours to see */
    while (stat(path, &now) == 0 && now.st_ino == at_start.st_ino) {
        fake_lock(fake);
        reap(fake);
        watch_limits(fake);
        start_some(fake);
        fake_unlock(fake);
        hrf_clock_sleep_ms(TICK_MS);
    }
    for (size_t i = 0; i < n_started; i++)
        kill(-started[i], SIGKILL);
    return 0;
}
