/* sbatch.c - what is submitted, as Slurm's controller takes it. */
#include "tests/slurm/fake/fake.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/host.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

struct request {
    struct fake_array array;
    const char *list; /* of --array; NULL = none */
    const char *script;
    bool parsable, test_only;
};

static int refuse(struct fake *fake, const char *why)
{
    hrf_strbuf_addf(&fake->err, "sbatch: error: Batch job submission failed: %s\n", why);
    return 1;
}

static bool option(const char *word, const char *name, const char **value)
{
    const size_t n = strlen(name);
    if (strncmp(word, name, n) != 0 || (word[n] != '=' && word[n] != '\0'))
        return false;
    *value = word[n] == '=' ? word + n + 1 : "";
    return true;
}

/* "90", "1:30:00" (h:m:s), "1-00" (days): minutes. */
static int64_t minutes(const char *text)
{
    char *end;
    int64_t days = 0, part[3] = { 0, 0, 0 };
    const char *dash = strchr(text, '-');
    int n = 0;
    if (dash != NULL)
        days = strtoll(text, NULL, 10);
    for (const char *at = dash != NULL ? dash + 1 : text; n < 3; at = end + 1) {
        part[n++] = strtoll(at, &end, 10);
        if (*end != ':')
            break;
    }
    if (dash != NULL || n == 3)
        return days * 1440 + part[0] * 60 + part[1] + (part[2] > 0);
    return n == 2 ? part[0] + (part[1] > 0) : part[0];
}

static void read_words(int argc, char **argv, struct request *r)
{
    const char *v;
    struct fake_array *a = &r->array;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            r->script = argv[i];
            break;
        }
        if (option(argv[i], "--parsable", &v))
            r->parsable = true;
        else if (option(argv[i], "--test-only", &v))
            r->test_only = true;
        else if (option(argv[i], "--requeue", &v))
            a->requeue = true;
        else if (option(argv[i], "--no-requeue", &v))
            a->requeue = false;
        else if (option(argv[i], "--array", &v))
            r->list = v;
        else if (option(argv[i], "--job-name", &v))
            snprintf(a->name, sizeof a->name, "%s", v);
        else if (option(argv[i], "--comment", &v))
            snprintf(a->comment, sizeof a->comment, "%s", v);
        else if (option(argv[i], "--partition", &v))
            snprintf(a->partition, sizeof a->partition, "%s", v);
        else if (option(argv[i], "--chdir", &v))
            snprintf(a->directory, sizeof a->directory, "%s", v);
        else if (option(argv[i], "--output", &v))
            snprintf(a->output, sizeof a->output, "%s", v);
        else if (option(argv[i], "--time", &v))
            a->minutes = minutes(v);
        else if (option(argv[i], "--signal", &v) && strrchr(v, '@') != NULL)
            a->signal_lead_s = strtoll(strrchr(v, '@') + 1, NULL, 10);
    }
}

/* The script as it is now and the environment, for when the job starts. */
static bool keep(const struct fake *fake, int64_t id, const char *script)
{
    HRF_AUTO_FREE char *to = hrf_format("%s/scripts/%lld.sh", fake->directory, (long long)id);
    HRF_AUTO_FREE char *env = hrf_format("%s/scripts/%lld.env", fake->directory, (long long)id);
    HRF_AUTO_FREE char *folder = hrf_path_join(fake->directory, "scripts");
    HRF_AUTO_FREE char *text = NULL;
    struct hrf_strbuf words = HRF_STRBUF_INIT;
    size_t n;
    bool ok = to != NULL && env != NULL && folder != NULL &&
              hrf_path_make_directories(folder, NULL) == HRF_OK &&
              hrf_file_read(script, 4 << 20, &text, &n, NULL) == HRF_OK &&
              hrf_file_write_atomic(to, text, n, NULL) == HRF_OK && chmod(to, 0700) == 0;
    for (char **at = environ; *at != NULL; at++)
        hrf_strbuf_add(&words, *at, strlen(*at) + 1);
    ok = ok && hrf_file_write_atomic(env, words.text, words.length, NULL) == HRF_OK;
    hrf_strbuf_release(&words);
    return ok;
}

/* Indices of "--array=LIST%THROTTLE", up to the site's limit: their number, -1 for a bad one. */
static int64_t count_indices(const struct fake *fake, const char *list)
{
    const int64_t limit = (int64_t)fake_number(fake, "MaxArraySize", 1001);
    int64_t n = 0;
    for (const char *at = list; *at != '\0' && *at != '%'; at++)
        if ((*at < '0' || *at > '9') && strchr(",-:", *at) == NULL)
            return -1;
    for (const char *at = list; *at != '\0' && *at != '%';) {
        char *end;
        if (strtoll(at, &end, 10) >= limit || end == at)
            return -1;
        at = end + (*end != '\0' && *end != '%');
    }
    for (int64_t i = 0; i < limit; i++)
        n += fake_list_has(list, i);
    return n;
}

static int64_t count_open(const struct fake *fake)
{
    int64_t n = 0;
    for (int64_t i = 0; i < fake->queue->n_tasks; i++)
        n += !fake->queue->tasks[i].purged && !fake_has_ended(&fake->queue->tasks[i]);
    return n;
}

static void add(struct fake *fake, struct request *r, int64_t n)
{
    struct fake_queue *q = fake->queue;
    r->array.n_tasks = n;
    r->array.submitted = fake_now();
    q->arrays[q->n_arrays] = r->array;
    for (int64_t i = 0, left = n; left > 0; i++) {
        if (r->list != NULL && !fake_list_has(r->list, i))
            continue;
        struct fake_task *t = &q->tasks[q->n_tasks++];
        *t = (struct fake_task){ .array = (int32_t)q->n_arrays,
                                 .index = r->list != NULL ? (int32_t)i : -1,
                                 .state = FAKE_PENDING,
                                 .id = r->array.id };
        snprintf(t->reason, sizeof t->reason, "None");
        left--;
    }
    q->n_arrays++;
    q->next_id++;
}

/* One server for a folder; the first submission starts it. */
static void start_server(struct fake *fake)
{
    HRF_AUTO_FREE char *self = NULL, *log = hrf_path_join(fake->directory, "serve.log");
    pid_t pid;
    if (!fake_yes(fake, "Run", true) ||
        (fake->queue->server > 0 && hrf_process_start_time((pid_t)fake->queue->server) != 0) ||
        hrf_process_self(&self, NULL) != HRF_OK)
        return;
    const char *const argv[] = { self, "serve", NULL };
    if (hrf_process_start(argv, log, true, &pid, NULL) == HRF_OK)
        fake->queue->server = pid;
}

static int answer(struct fake *fake, struct request *r, int64_t n)
{
    struct fake_queue *q = fake->queue;
    r->array.id = q->next_id;
    if (fake->forget) {
        hrf_strbuf_addf(&fake->out, "%lld\n", (long long)r->array.id);
        return 0;
    }
    if (!keep(fake, r->array.id, r->script))
        return refuse(fake, "I/O error writing script/environment to file");
    add(fake, r, n);
    start_server(fake);
    hrf_strbuf_addf(&fake->out, r->parsable ? "%lld\n" : "Submitted batch job %lld\n",
                    (long long)r->array.id);
    return 0;
}

static bool has_partition(const struct fake *fake, const char *name)
{
    char list[64];
    HRF_AUTO_FREE char *wanted = hrf_format(",%s,", name);
    fake_config(fake, "Partitions", "main,low,high", list);
    HRF_AUTO_FREE char *all = hrf_format(",%s,", list);
    return wanted != NULL && all != NULL && strstr(all, wanted) != NULL;
}

static int64_t find_throttle(const char *list)
{
    const char *percent = list != NULL ? strchr(list, '%') : NULL;
    return percent != NULL ? strtoll(percent + 1, NULL, 10) : 0;
}

static int submit(struct fake *fake, struct request *r)
{
    const struct fake_queue *q = fake->queue;
    const int64_t n = r->list != NULL ? count_indices(fake, r->list) : 1;
    if (!has_partition(fake, r->array.partition)) {
        hrf_strbuf_addf(&fake->err, "sbatch: error: invalid partition specified: %s\n",
                        r->array.partition);
        return refuse(fake, "Invalid partition name specified");
    }
    if (n <= 0)
        return refuse(fake, "Invalid job array specification");
    const int64_t count = count_open(fake) + n, user = (int64_t)fake_number(fake, "UserLimit", 0);
    if (user > 0 && count > user) {
        hrf_strbuf_adds(&fake->err, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n");
        return refuse(fake, "Job violates accounting/QOS policy (job submit limit, user's size "
                            "and/or time limits)");
    }
    if (count > (int64_t)fake_number(fake, "MaxJobCount", 10000) ||
        q->n_tasks + n > FAKE_MAX_TASKS || q->n_arrays == FAKE_MAX_ARRAYS) {
        hrf_strbuf_adds(&fake->err, "sbatch: error: Slurm temporarily unable to accept job, "
                                    "sleeping and retrying\n");
        return refuse(fake, "Resource temporarily unavailable");
    }
    if (r->test_only) {
        hrf_strbuf_addf(&fake->err,
                        "sbatch: Job %lld to start at 2026-01-31T12:00:00 using 1 processors on "
                        "nodes n1 in partition %s\n",
                        (long long)q->next_id, r->array.partition);
        return 0;
    }
    r->array.is_array = r->list != NULL;
    r->array.throttle = find_throttle(r->list);
    return answer(fake, r, n);
}

int fake_sbatch(struct fake *fake, int argc, char **argv)
{
    struct request r = { .array = { .minutes = 60, .requeue = true } };
    snprintf(r.array.partition, sizeof r.array.partition, "main");
    snprintf(r.array.output, sizeof r.array.output, "slurm-%%j.out");
    if (getcwd(r.array.directory, sizeof r.array.directory) == NULL)
        return refuse(fake, "no working directory");
    read_words(argc, argv, &r);
    if (r.script == NULL || !hrf_path_exists(r.script)) {
        hrf_strbuf_addf(&fake->err, "sbatch: error: Unable to open file %s\n",
                        r.script != NULL ? r.script : "(stdin)");
        return 1;
    }
    if (r.array.name[0] == '\0')
        snprintf(r.array.name, sizeof r.array.name, "%s", hrf_path_name(r.script));
    fake_lock(fake);
    fake_purge(fake);
    const int code = submit(fake, &r);
    fake_unlock(fake);
    return code;
}
