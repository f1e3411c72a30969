/* show.c - squeue, sacct, sinfo, and what scontrol shows. */
#include "tests/slurm/fake/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *state_word(const struct fake_task *t)
{
    return t->state == FAKE_WORD ? t->word : fake_state_words[t->state];
}

static void add_time(struct hrf_strbuf *out, double at)
{
    struct tm tm;
    char text[32] = "Unknown";
    const time_t seconds = (time_t)at;
    if (at > 0 && localtime_r(&seconds, &tm) != NULL)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    hrf_strbuf_adds(out, text);
}

/* "0-3,7" of the pending tasks from `from` of the same array, as one record; *next: the first
 * task after the array's. */
static char *pending_list(const struct fake *fake, int64_t from, int64_t *next)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    const struct fake_queue *q = fake->queue;
    const int array = q->tasks[from].array;
    int64_t i = from;
    for (; i < q->n_tasks && q->tasks[i].array == array; i++) {
        if (q->tasks[i].state != FAKE_PENDING)
            continue;
        int64_t last = i;
        while (last + 1 < q->n_tasks && q->tasks[last + 1].array == array &&
               q->tasks[last + 1].state == FAKE_PENDING &&
               q->tasks[last + 1].index == q->tasks[last].index + 1)
            last++;
        hrf_strbuf_addf(&out, out.length > 0 ? ",%d" : "%d", q->tasks[i].index);
        if (last > i)
            hrf_strbuf_addf(&out, last == i + 1 ? ",%d" : "-%d", q->tasks[last].index);
        i = last;
    }
    *next = i;
    if (q->arrays[array].throttle > 0)
        hrf_strbuf_addf(&out, "%%%lld", (long long)q->arrays[array].throttle);
    return hrf_strbuf_detach(&out);
}

/* squeue cuts such a list to 64 bytes unless SLURM_BITSTR_LEN says otherwise; 0 = never. */
static void add_list(struct hrf_strbuf *out, const char *list)
{
    const char *text = getenv("SLURM_BITSTR_LEN");
    const size_t most = text != NULL ? strtoul(text, NULL, 10) : 64;
    if (most == 0 || strlen(list) <= most)
        hrf_strbuf_adds(out, list);
    else
        hrf_strbuf_addf(out, "%.*s...", (int)most, list);
}

struct row {
    const struct fake_array *a;
    const struct fake_task *t;
    const char *list; /* a record of many pending tasks; NULL = one task */
};

static void add_field(struct hrf_strbuf *out, char letter, const struct row *row)
{
    const struct fake_array *a = row->a;
    const struct fake_task *t = row->t;
    switch (letter) {
    case 'i':
        hrf_strbuf_addf(out, "%lld", (long long)a->id);
        if (row->list != NULL) {
            hrf_strbuf_adds(out, "_[");
            add_list(out, row->list);
            hrf_strbuf_addc(out, ']');
        } else if (a->is_array)
            hrf_strbuf_addf(out, "_%d", t->index);
        return;
    case 'A':
        hrf_strbuf_addf(out, "%lld", (long long)t->id);
        return;
    case 'F':
        hrf_strbuf_addf(out, "%lld", (long long)a->id);
        return;
    case 'K':
        if (row->list != NULL)
            add_list(out, row->list);
        else if (a->is_array)
            hrf_strbuf_addf(out, "%d", t->index);
        else
            hrf_strbuf_adds(out, "N/A");
        return;
    case 'T':
        hrf_strbuf_adds(out, state_word(t));
        return;
    case 't':
        hrf_strbuf_adds(out, fake_state_letters[t->state]);
        return;
    case 'r':
        hrf_strbuf_adds(out, t->reason);
        return;
    case 'R':
        hrf_strbuf_addf(out, t->state == FAKE_PENDING ? "(%s)" : "%s",
                        t->state == FAKE_PENDING ? t->reason : t->node);
        return;
    case 'N':
        hrf_strbuf_adds(out, t->node);
        return;
    case 'j':
        hrf_strbuf_adds(out, a->name);
        return;
    case 'k':
        hrf_strbuf_adds(out, a->comment);
        return;
    case 'P':
        hrf_strbuf_adds(out, a->partition);
        return;
    case 'V':
        add_time(out, a->submitted);
        return;
    case 'S':
        add_time(out, t->start);
        return;
    case 'u':
        hrf_strbuf_adds(out, "root");
        return;
    case 'D':
        hrf_strbuf_adds(out, "1");
        return;
    default:
        return;
    }
}

static void add_row(struct hrf_strbuf *out, const char *format, const struct row *row)
{
    for (const char *at = format; *at != '\0'; at++) {
        if (*at == '%' && at[1] != '\0')
            add_field(out, *++at, row);
        else
            hrf_strbuf_addc(out, *at);
    }
    hrf_strbuf_addc(out, '\n');
}

struct query {
    const char *format, *ids, *name;
    const char *states; /* "all", letters with commas between them, or NULL: what has not ended */
    bool each, no_head;
};

static void read_query(int argc, char **argv, struct query *q)
{
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "-r") == 0)
            q->each = true;
        else if (strcmp(argv[i], "-h") == 0)
            q->no_head = true;
        else if (strcmp(argv[i], "-t") == 0)
            q->states = next;
        else if (strcmp(argv[i], "-o") == 0)
            q->format = next;
        else if (strcmp(argv[i], "-j") == 0)
            q->ids = next;
        else if (strcmp(argv[i], "-n") == 0)
            q->name = next;
        else if (strncmp(argv[i], "--name=", 7) == 0)
            q->name = argv[i] + 7;
    }
}

/* One unknown ID is an error, several are silently left out, as with the real one. */
static int mark_ids(struct fake *fake, const char *ids, bool *marks)
{
    HRF_AUTO_FREE char *text = hrf_strdup(ids);
    int64_t n = 0;
    for (char *at = text, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        n += fake_select(fake, at, marks);
    }
    if (n > 0 || strchr(ids, ',') != NULL)
        return 0;
    hrf_strbuf_adds(&fake->err, "slurm_load_jobs error: Invalid job id specified\n");
    return 1;
}

static bool has_state(const struct query *q, const struct fake_task *t)
{
    if (q->states == NULL)
        return !fake_has_ended(t);
    const char *letters = fake_state_letters[t->state];
    const size_t n = strlen(letters);
    bool has = strcmp(q->states, "all") == 0;
    for (const char *at = q->states; at != NULL && !has; at = strchr(at, ',')) {
        at += *at == ',';
        has = strncmp(at, letters, n) == 0 && (at[n] == '\0' || at[n] == ',');
    }
    return has;
}

static void list_rows(struct fake *fake, const struct query *q, const bool *marks)
{
    const struct fake_queue *queue = fake->queue;
    for (int64_t i = 0; i < queue->n_tasks; i++) {
        const struct fake_task *t = &queue->tasks[i];
        const struct fake_array *a = &queue->arrays[t->array];
        struct row row = { a, t, NULL };
        if (t->purged || (marks != NULL && !marks[i]) ||
            (q->name != NULL && strcmp(q->name, a->name) != 0) || !has_state(q, t))
            continue;
        if (t->state != FAKE_PENDING || !a->is_array || q->each || t->restarts > 0) {
            add_row(&fake->out, q->format, &row);
            continue;
        }
        /* The array's pending tasks are one record, printed where the first one stands. */
        bool is_first = true;
        for (int64_t k = i - 1; k >= 0 && queue->tasks[k].array == t->array && is_first; k--)
            is_first = queue->tasks[k].state != FAKE_PENDING;
        if (!is_first)
            continue;
        int64_t next;
        HRF_AUTO_FREE char *list = pending_list(fake, i, &next);
        row.list = list;
        add_row(&fake->out, q->format, &row);
    }
}

int fake_squeue(struct fake *fake, int argc, char **argv)
{
    struct query q = { .format = "%i %P %j %u %t %D %R" };
    read_query(argc, argv, &q);
    fake_lock(fake);
    fake_purge(fake);
    HRF_AUTO_FREE bool *marks = q.ids != NULL
                                    ? hrf_calloc((size_t)fake->queue->n_tasks + 1, sizeof *marks)
                                    : NULL;
    const int code = marks != NULL ? mark_ids(fake, q.ids, marks) : 0;
    if (code == 0)
        list_rows(fake, &q, marks);
    fake_unlock(fake);
    return code;
}

static void show_job(struct fake *fake, const struct fake_array *a, const struct fake_task *t)
{
    struct hrf_strbuf *out = &fake->out;
    hrf_strbuf_addf(out, "JobId=%lld ", (long long)t->id);
    if (a->is_array)
        hrf_strbuf_addf(out, "ArrayJobId=%lld ArrayTaskId=%d ", (long long)a->id, t->index);
    hrf_strbuf_addf(out,
                    "JobName=%s UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 "
                    "Account=(null) QOS=(null) JobState=%s Reason=%s Dependency=(null) Requeue=%d "
                    "Restarts=%d BatchFlag=1 Reboot=0 ExitCode=%d:%d RunTime=00:00:00 ",
                    a->name, state_word(t), t->reason, a->requeue, t->restarts, t->exit_code,
                    t->exit_signal);
    hrf_strbuf_addf(out, "TimeLimit=%02lld:%02lld:00 SubmitTime=", (long long)(a->minutes / 60),
                    (long long)(a->minutes % 60));
    add_time(out, a->submitted);
    hrf_strbuf_adds(out, " StartTime=");
    add_time(out, t->start);
    hrf_strbuf_addf(out, " Partition=%s NodeList=%s BatchHost=%s NumNodes=1 NumCPUs=1 Comment=%s ",
                    a->partition, t->node[0] != '\0' ? t->node : "(null)", t->node, a->comment);
    hrf_strbuf_addf(out, "WorkDir=%s StdOut=%s Power=\n", a->directory, a->output);
}

static int show_jobs(struct fake *fake, const char *id)
{
    HRF_AUTO_FREE bool *marks = hrf_calloc((size_t)fake->queue->n_tasks + 1, sizeof *marks);
    fake_lock(fake);
    fake_purge(fake);
    const int64_t n = fake_select(fake, id, marks);
    for (int64_t i = 0; i < fake->queue->n_tasks; i++)
        if (marks[i])
            show_job(fake, &fake->queue->arrays[fake->queue->tasks[i].array],
                     &fake->queue->tasks[i]);
    fake_unlock(fake);
    if (n == 0)
        hrf_strbuf_adds(&fake->err, "slurm_load_jobs error: Invalid job id specified\n");
    return n == 0;
}

static int show_config(struct fake *fake)
{
    static const char *const defaults[][2] = {
        { "AccountingStorageType", "accounting_storage/none" },
        { "JobCompType", "jobcomp/none" },
        { "JobRequeue", "1" },
        { "KillWait", "30 sec" },
        { "MaxArraySize", "1001" },
        { "MaxJobCount", "10000" },
        { "MessageTimeout", "10 sec" },
        { "MinJobAge", "300 sec" },
        { "MpiDefault", "none" },
        { "PreemptMode", "OFF" },
        { "SchedulerParameters", "(null)" },
        { "SLURM_VERSION", "22.05.8" },
        { "TmpFS", "/tmp" },
    };
    char value[64];
    hrf_strbuf_adds(&fake->out, "Configuration data as of 2026-01-31T12:00:00\n");
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        fake_config(fake, defaults[i][0], defaults[i][1], value);
        if (strcmp(defaults[i][0], "AccountingStorageType") == 0 &&
            fake_yes(fake, "Accounting", false))
            snprintf(value, sizeof value, "accounting_storage/slurmdbd");
        hrf_strbuf_addf(&fake->out, "%-23s = %s\n", defaults[i][0], value);
    }
    hrf_strbuf_addf(&fake->out, "%-23s = %s\n%-23s = %s\n", "ClusterName", "fake",
                    "StateSaveLocation", fake->directory);
    hrf_strbuf_adds(&fake->out, "\nSlurmctld(primary) at fake is UP\n");
    return 0;
}

static int show_partitions(struct fake *fake)
{
    char list[64];
    fake_config(fake, "Partitions", "main,low,high", list);
    int place = 0;
    for (char *at = list, *next; at != NULL; at = next, place++) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        const int nodes = (int)fake_number(fake, "Nodes", 4);
        hrf_strbuf_addf(&fake->out,
                        "PartitionName=%s AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL "
                        "AllocNodes=ALL Default=%s QoS=N/A DefaultTime=NONE DisableRootJobs=NO "
                        "GraceTime=0 MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 "
                        "Nodes=n[1-%d] PriorityTier=1 State=UP TotalCPUs=%d TotalNodes=%d "
                        "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n",
                        at, place == 0 ? "YES" : "NO", nodes, 4 * nodes, nodes);
    }
    return 0;
}

static int show_nodes(struct fake *fake)
{
    char list[64];
    fake_config(fake, "Partitions", "main,low,high", list);
    for (int i = 1; i <= (int)fake_number(fake, "Nodes", 4); i++)
        hrf_strbuf_addf(&fake->out,
                        "NodeName=n%d Arch=x86_64 CPUAlloc=0 CPUTot=%d Gres=(null) RealMemory=%d "
                        "State=IDLE Partitions=%s \n",
                        i, (int)fake_number(fake, "NodeCpus", 4),
                        (int)fake_number(fake, "NodeMemory", 16000), list);
    return 0;
}

/* `scontrol show config|partition|node|job ID`; NULL words are "". */
int fake_show(struct fake *fake, const char *what, const char *which);
int fake_show(struct fake *fake, const char *what, const char *which)
{
    if (strncmp(what, "config", 6) == 0)
        return show_config(fake);
    if (strncmp(what, "part", 4) == 0)
        return show_partitions(fake);
    if (strncmp(what, "node", 4) == 0)
        return show_nodes(fake);
    if (strncmp(what, "job", 3) == 0)
        return show_jobs(fake, which);
    hrf_strbuf_addf(&fake->err, "invalid entity:%s for keyword:show \n", what);
    return 1;
}

int fake_sacct(struct fake *fake, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (!fake_yes(fake, "Accounting", false)) {
        hrf_strbuf_adds(&fake->err, "Slurm accounting storage is disabled\n");
        return 1;
    }
    fake_lock(fake);
    for (int64_t i = 0; i < fake->queue->n_tasks; i++) {
        const struct fake_task *t = &fake->queue->tasks[i];
        hrf_strbuf_addf(&fake->out, "%s|%s|%d:%d|%s\n", fake->queue->arrays[t->array].name,
                        t->state == FAKE_CANCELLED ? "CANCELLED by 0" : state_word(t), t->exit_code,
                        t->exit_signal, t->node[0] != '\0' ? t->node : "None assigned");
    }
    fake_unlock(fake);
    return 0;
}

int fake_sinfo(struct fake *fake, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    hrf_strbuf_adds(&fake->out, "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n");
    hrf_strbuf_addf(&fake->out, "main*        up 1-00:00:00      %d   idle n[1-%d]\n",
                    (int)fake_number(fake, "Nodes", 4), (int)fake_number(fake, "Nodes", 4));
    return 0;
}
