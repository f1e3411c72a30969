/* act.c - scancel, what scontrol changes, and the test's own levers (slurm_fake VERB). */
#include "tests/slurm/fake/fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int fake_show(struct fake *fake, const char *what, const char *which);

static bool *no_marks(const struct fake *fake)
{
    return hrf_calloc((size_t)fake->queue->n_tasks + 1, sizeof(bool));
}

static void cancel(struct fake *fake, struct fake_task *t)
{
    if (t->pid > 0) {
        t->ending = FAKE_CANCELLED;
        t->kill_at = fake_now() + fake_number(fake, "KillWait", 1);
        kill(-t->pid, SIGCONT);
        kill(-t->pid, SIGTERM);
    } else
        fake_end(t, FAKE_CANCELLED, 0, 0);
}

/* Unknown and ended jobs are no error, as with the real one. */
int fake_scancel(struct fake *fake, int argc, char **argv)
{
    fake_lock(fake);
    HRF_AUTO_FREE bool *marks = no_marks(fake);
    int signal_number = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--signal=", 9) == 0)
            signal_number = strcmp(argv[i] + 9, "USR1") == 0 ? SIGUSR1 : SIGKILL;
        else if (argv[i][0] != '-')
            fake_select(fake, argv[i], marks);
    }
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        struct fake_task *t = &fake->queue->tasks[i];
        if (!marks[i] || fake_has_ended(t))
            continue;
        if (signal_number != 0 && signal_number != SIGKILL && t->pid > 0)
            kill(t->pid, signal_number);
        else
            cancel(fake, t);
    }
    fake_unlock(fake);
    return 0;
}

/* Waits again, from the start; its processes are not touched. */
static void requeue(struct fake *fake, struct fake_task *t, bool held)
{
    fake_end(t, FAKE_PENDING, 0, 0);
    t->end = 0;
    t->restarts++;
    t->held = held;
    t->not_before = fake_now() + fake_number(fake, "RequeueDelay", 1);
    snprintf(t->reason, sizeof t->reason, "%s", held ? "job requeued in held state" : "BeginTime");
}

static void control(struct fake *fake, const char *verb, struct fake_task *t)
{
    if (strncmp(verb, "requeue", 7) == 0) {
        if (t->pid > 0)
            kill(-t->pid, SIGKILL);
        requeue(fake, t, strcmp(verb, "requeuehold") == 0);
    } else if (strcmp(verb, "hold") == 0) {
        t->held = true;
        if (t->state == FAKE_PENDING)
            snprintf(t->reason, sizeof t->reason, "JobHeldAdmin");
    } else if (strcmp(verb, "release") == 0) {
        t->held = false;
        snprintf(t->reason, sizeof t->reason, "None");
    }
}

/* `update JobId=A ArrayTaskThrottle=N`. */
static int update(struct fake *fake, int argc, char **argv)
{
    int64_t id = 0, throttle = 0;
    for (int i = 2; i < argc; i++) {
        if (strncasecmp(argv[i], "jobid=", 6) == 0)
            id = strtoll(argv[i] + 6, NULL, 10);
        if (strncasecmp(argv[i], "arraytaskthrottle=", 18) == 0)
            throttle = strtoll(argv[i] + 18, NULL, 10);
    }
    for (int64_t i = 0; i < fake->queue->n_arrays; i++)
        if (fake->queue->arrays[i].id == id) {
            fake->queue->arrays[i].throttle = throttle;
            return 0;
        }
    hrf_strbuf_adds(&fake->err, "slurm_update error: Invalid job id specified\n");
    return 1;
}

int fake_scontrol(struct fake *fake, int argc, char **argv)
{
    const char *words[3] = { "", "", "" };
    int n = 0, code = 1;
    for (int i = 1; i < argc && n < 3; i++)
        if (argv[i][0] != '-')
            words[n++] = argv[i];
    if (strcmp(words[0], "show") == 0)
        return fake_show(fake, words[1], words[2]);
    if (strcmp(words[0], "ping") == 0) {
        hrf_strbuf_adds(&fake->out, "Slurmctld(primary) at fake is UP\n");
        return 0;
    }
    fake_lock(fake);
    HRF_AUTO_FREE bool *marks = no_marks(fake);
    if (strcmp(words[0], "update") == 0)
        code = update(fake, argc, argv);
    else if (fake_select(fake, words[1], marks) > 0) {
        code = 0;
        for (int64_t i = 0; i < fake->queue->n_tasks; i++)
            if (marks[i])
                control(fake, words[0], &fake->queue->tasks[i]);
    } else
        hrf_strbuf_adds(&fake->err, "Invalid job id specified\n");
    fake_unlock(fake);
    return code;
}

/* ---- slurm_fake VERB ---- */

static int set_state(struct fake *fake, const char *name, const char *word)
{
    HRF_AUTO_FREE bool *marks = no_marks(fake);
    int state = 0;
    while (state < FAKE_WORD && strcmp(fake_state_words[state], word) != 0)
        state++;
    const int64_t n = fake_select(fake, name, marks);
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        struct fake_task *t = &fake->queue->tasks[i];
        if (!marks[i])
            continue;
        if (state >= FAKE_COMPLETED && state < FAKE_WORD)
            fake_end(t, state, state == FAKE_FAILED, 0);
        t->state = state;
        snprintf(t->word, sizeof t->word, "%s", word);
        if (state == FAKE_RUNNING && t->node[0] == '\0') {
            snprintf(t->node, sizeof t->node, "n%d", t->index % 4 + 1);
            t->start = fake_now();
        }
    }
    return n == 0;
}

/* Its jobs wait again elsewhere, or fail; the processes of the lost node go on unseen. */
static int fail_node(struct fake *fake, const char *node)
{
    int n = 0;
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        struct fake_task *t = &fake->queue->tasks[i];
        if (t->pid <= 0 || (strcmp(node, "all") != 0 && strcmp(t->node, node) != 0))
            continue;
        n++;
        if (fake->queue->arrays[t->array].requeue)
            requeue(fake, t, false);
        else
            fake_end(t, FAKE_NODE_FAIL, 0, 0);
    }
    hrf_strbuf_addf(&fake->out, "%d\n", n);
    return 0;
}

static int preempt(struct fake *fake, const char *name)
{
    HRF_AUTO_FREE bool *marks = no_marks(fake);
    int n = 0;
    fake_select(fake, name, marks);
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        struct fake_task *t = &fake->queue->tasks[i];
        if (!marks[i] || t->pid <= 0)
            continue;
        t->ending = FAKE_PREEMPTED;
        t->kill_at = fake_now() + fake_number(fake, "KillWait", 1);
        kill(-t->pid, SIGTERM);
        n++;
    }
    hrf_strbuf_addf(&fake->out, "%d\n", n);
    return 0;
}

int fake_verbs(struct fake *fake, int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : "", *second = argc > 3 ? argv[3] : "";
    int code = 2;
    fake_lock(fake);
    if (strcmp(verb, "set") == 0)
        code = set_state(fake, first, second);
    else if (strcmp(verb, "fail-node") == 0)
        code = fail_node(fake, first);
    else if (strcmp(verb, "preempt") == 0)
        code = preempt(fake, first);
    else
        hrf_strbuf_adds(&fake->err, "slurm_fake set JOB STATE | fail-node NODE|all | preempt JOB | "
                                    "serve\n");
    fake_unlock(fake);
    return code;
}
