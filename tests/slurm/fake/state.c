#include "tests/slurm/fake/fake.h"

#include "base/file.h"
#include "base/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

const char *const fake_state_words[] = { "PENDING",       "RUNNING", "COMPLETED", "FAILED",
                                         "CANCELLED",     "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                                         "OUT_OF_MEMORY", "UNKNOWN" };
const char *const fake_state_letters[] = {
    "PD", "R", "CD", "F", "CA", "TO", "NF", "PR", "OOM", "?"
};

double fake_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool fake_open(struct fake *fake)
{
    HRF_AUTO_FREE char *path = hrf_path_join(fake->directory, "queue");
    HRF_AUTO_FREE char *config = hrf_path_join(fake->directory, "config");
    size_t n;
    const int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || config == NULL)
        return false;
    /* Sparse: only what is used takes room. */
    if (ftruncate(fd, sizeof *fake->queue) != 0)
        return false;
    void *map = mmap(NULL, sizeof *fake->queue, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return false;
    fake->queue = map;
    fake->lock = fd;
    if (hrf_file_read(config, 1 << 20, &fake->config, &n, NULL) != HRF_OK)
        fake->config = hrf_strdup("");
    return fake->config != NULL;
}

void fake_close(struct fake *fake)
{
    hrf_free(fake->config);
    hrf_strbuf_release(&fake->out);
    hrf_strbuf_release(&fake->err);
}

void fake_lock(struct fake *fake)
{
    while (flock(fake->lock, LOCK_EX) != 0) {
    }
    if (fake->queue->next_id == 0)
        fake->queue->next_id = 1;
}

void fake_unlock(struct fake *fake)
{
    flock(fake->lock, LOCK_UN);
}

const char *fake_config(const struct fake *fake, const char *key, const char *otherwise,
                        char out[64])
{
    const size_t n = strlen(key);
    snprintf(out, 64, "%s", otherwise);
    for (const char *at = fake->config; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        if (length > n && strncmp(at, key, n) == 0 && at[n] == '=')
            snprintf(out, 64, "%.*s", (int)(length - n - 1), at + n + 1);
        at += length + (at[length] == '\n');
    }
    return out;
}

double fake_number(const struct fake *fake, const char *key, double otherwise)
{
    char text[64];
    fake_config(fake, key, "", text);
    return text[0] != '\0' ? strtod(text, NULL) : otherwise;
}

bool fake_yes(const struct fake *fake, const char *key, bool otherwise)
{
    char text[64];
    return strcmp(fake_config(fake, key, otherwise ? "yes" : "no", text), "yes") == 0;
}

void fake_purge(struct fake *fake)
{
    const double age = fake_number(fake, "MinJobAge", 300), now = fake_now();
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        struct fake_task *t = &fake->queue->tasks[i];
        if (!t->purged && fake_has_ended(t) && t->end + age < now)
            t->purged = true;
    }
}

void fake_end(struct fake_task *task, int state, int exit_code, int exit_signal)
{
    static const char *const reasons[] = { [FAKE_FAILED] = "NonZeroExitCode",
                                           [FAKE_TIMEOUT] = "TimeLimit",
                                           [FAKE_NODE_FAIL] = "NodeDown",
                                           [FAKE_PREEMPTED] = "None",
                                           [FAKE_OUT_OF_MEMORY] = "OutOfMemory" };
    const char *reason = state < (int)(sizeof reasons / sizeof *reasons) ? reasons[state] : NULL;
    task->state = state;
    task->exit_code = exit_code;
    task->exit_signal = exit_signal;
    task->end = fake_now();
    task->pid = 0;
    task->kill_at = 0;
    task->ending = 0;
    snprintf(task->reason, sizeof task->reason, "%s", reason != NULL ? reason : "None");
}

bool fake_list_has(const char *list, int64_t index)
{
    for (const char *at = list; *at != '\0';) {
        char *end;
        int64_t from = strtoll(at, &end, 10), to = from, step = 1;
        if (end == at)
            return false;
        if (*end == '-')
            to = strtoll(end + 1, &end, 10);
        if (*end == ':')
            step = strtoll(end + 1, &end, 10);
        if (index >= from && index <= to && step > 0 && (index - from) % step == 0)
            return true;
        if (*end != ',')
            return false;
        at = end + 1;
    }
    return false;
}

int64_t fake_select(const struct fake *fake, const char *name, bool *marks)
{
    char *end;
    const int64_t id = strtoll(name, &end, 10);
    int64_t n = 0;
    const bool all = *end == '\0';
    const char *list = *end == '_' ? end + 1 : end;
    if (end == name || (!all && *end != '_'))
        return 0;
    list += *list == '[';
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        const struct fake_task *t = &fake->queue->tasks[i];
        const struct fake_array *a = &fake->queue->arrays[t->array];
        if (t->purged ||
            !((a->id == id && (all || fake_list_has(list, t->index))) || (all && t->id == id)))
            continue;
        marks[i] = true;
        n++;
    }
    return n;
}
