/* parse.c - reads the output of squeue and sbatch. The output of scontrol and sacct is read in
 * scontrol.c. */
#include "orchestrator/executor/slurm/parse.h"

#include "base/alloc.h"
#include "base/array.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- squeue ---- */

enum { N_FIELDS = 5, FIELD_ID = 0, FIELD_STATE, FIELD_REASON, FIELD_NODES, FIELD_NAME };
enum { MAX_INDEX = 4000001 }; /* MAX_SLURM_ARRAY_SIZE of Slurm's own source */

void hrf_slurm_table_release(struct hrf_slurm_table *table)
{
    hrf_free(table->text);
    hrf_free(table->entries);
    *table = (struct hrf_slurm_table){ .text = NULL };
}

/* Reads the number at *at and moves *at behind it. Returns false if there is none or it is too
 * large. */
static bool take_number(const char **at, int64_t *out)
{
    int64_t value = 0;
    const char *p = *at;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (value > INT64_MAX / 10 - 10)
            return false;
        value = value * 10 + (*p - '0');
    }
    *at = p;
    *out = value;
    return true;
}

/* The submission's number in the name of a job of this run; 0 for any other name. */
static int64_t submission_of(const char *name, const char *run_id)
{
    const size_t prefix = strlen(HRF_SLURM_NAME_PREFIX), id = strlen(run_id);
    int64_t number;
    if (strncmp(name, HRF_SLURM_NAME_PREFIX, prefix) != 0 ||
        strncmp(name + prefix, run_id, id) != 0 || name[prefix + id] != '-')
        return 0;
    const char *at = name + prefix + id + 1;
    return take_number(&at, &number) && *at == '\0' ? number : 0;
}

struct builder {
    struct hrf_slurm_table *table;
    size_t capacity;
    struct hrf_slurm_entry line; /* the values that all entries of the current line share */
};

static void add_entry(struct builder *b, int64_t array_index)
{
    HRF_RESERVE(b->table->entries, b->capacity, b->table->n_entries + 1);
    b->line.array_index = array_index;
    b->table->entries[b->table->n_entries++] = b->line;
}

/* Adds an entry for each index of a list such as "3,5-9,10-20:2%4]"; the number after '%' (how many
 * run at once) is ignored. Returns false if the text is not such a list. */
static bool add_places(struct builder *b, const char *at)
{
    for (;;) {
        int64_t first, last, step = 1;
        if (!take_number(&at, &first))
            return false;
        last = first;
        if (*at == '-' && (at++, !take_number(&at, &last)))
            return false;
        if (*at == ':' && (at++, !take_number(&at, &step)))
            return false;
        if (last >= MAX_INDEX || step < 1)
            return false;
        for (int64_t i = first; i <= last; i += step)
            add_entry(b, i);
        if (*at != ',')
            return *at == ']' || *at == '%';
        at++;
    }
}

/* Adds the entries of "12", "12_7" or "12_[3-9%2]". Returns false for anything else. */
static bool add_id(struct builder *b, const char *at)
{
    int64_t array_index = 0;
    if (!take_number(&at, &b->line.id))
        return false;
    if (*at == '_' && at[1] == '[')
        return add_places(b, at + 2);
    if (*at == '_' && (at++, !take_number(&at, &array_index)))
        return false;
    if (*at != '\0' || array_index >= MAX_INDEX)
        return false;
    add_entry(b, array_index);
    return true;
}

/* Returns true for a line in our format; entries are added only for jobs of this run. */
static bool read_line(struct builder *b, char *line, const char *run_id)
{
    char *fields[N_FIELDS];
    for (int i = 0; i < N_FIELDS; i++) {
        fields[i] = line;
        if (i == N_FIELDS - 1)
            break;
        line = strchr(line, '|');
        if (line == NULL)
            return false;
        *line++ = '\0';
    }
    b->line = (struct hrf_slurm_entry){ .submission = submission_of(fields[FIELD_NAME], run_id),
                                        .state = fields[FIELD_STATE],
                                        .reason = fields[FIELD_REASON],
                                        .nodes = fields[FIELD_NODES] };
    if (b->line.submission == 0)
        return true;
    if (!hrf_slurm_state(b->line.state, &b->line.observed, &b->line.cause)) {
        b->line.observed = HRF_JOB_RUNNING; /* it exists, and is not known to have ended */
        b->table->unknown = b->line.state;
    }
    return add_id(b, fields[FIELD_ID]);
}

static int compare_entries(const void *a, const void *b)
{
    const struct hrf_slurm_entry *x = a, *y = b;
    if (x->submission != y->submission)
        return x->submission < y->submission ? -1 : 1;
    if (x->array_index != y->array_index)
        return x->array_index < y->array_index ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

enum hrf_status hrf_slurm_table_parse(char *text, size_t n_bytes, const char *run_id,
                                      struct hrf_slurm_table *out, struct hrf_error *err)
{
    struct hrf_slurm_table table = { .text = text };
    struct builder b = { .table = &table };
    bool is_cut = n_bytes > 0 && text[n_bytes - 1] != '\n';
    if (strlen(text) != n_bytes) {
        hrf_slurm_table_release(&table);
        return hrf_error_set(err, HRF_E_AGAIN, "squeue printed a NUL byte");
    }
    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end == NULL)
            break;
        *end = '\0';
        const bool is_ours = read_line(&b, line, run_id);
        is_cut |= !is_ours && end[1] == '\0' && strstr(line, HRF_SLURM_NAME_PREFIX) != NULL;
        line = end + 1;
    }
    if (is_cut) {
        hrf_slurm_table_release(&table);
        return hrf_error_set(err, HRF_E_AGAIN, "the output of squeue is cut off");
    }
    if (table.n_entries > 0)
        qsort(table.entries, table.n_entries, sizeof table.entries[0], compare_entries);
    *out = table;
    return HRF_OK;
}

const struct hrf_slurm_entry *hrf_slurm_table_find(const struct hrf_slurm_table *table,
                                                   int64_t submission, int64_t array_index)
{
    const struct hrf_slurm_entry key = { .submission = submission, .array_index = array_index };
    size_t low = 0, high = table->n_entries;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_entries(&table->entries[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct hrf_slurm_entry *e = &table->entries[low];
    return low < table->n_entries && e->submission == submission && e->array_index == array_index
               ? e
               : NULL;
}

const struct hrf_slurm_entry *hrf_slurm_table_duplicate(const struct hrf_slurm_table *table,
                                                        const struct hrf_slurm_entry *entry)
{
    const struct hrf_slurm_entry *end = table->entries + table->n_entries;
    for (const struct hrf_slurm_entry *e = entry + 1; e < end; e++) {
        if (e->submission != entry->submission || e->array_index != entry->array_index)
            return NULL;
        if (e->id != entry->id)
            return e;
    }
    return NULL;
}

/* ---- sbatch ---- */

void hrf_slurm_error_line(const char *errors, char *out, size_t size)
{
    const char *line = errors;
    for (const char *at = errors; *at != '\0';) { /* finds the last line that is an error */
        if (strstr(at, "error: ") != NULL && strstr(at, "error: ") < at + strcspn(at, "\n"))
            line = strstr(at, "error: ") + 7;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
}

/* Finds a line "123" or "123;cluster". The site may print banners before and after it. */
static bool find_id(const char *output, int64_t *id, char cluster[64])
{
    for (const char *line = output; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        const char *at = line;
        int64_t found;
        if (take_number(&at, &found) && found > 0 && (*at == ';' || at == line + n)) {
            const size_t length = *at == ';' ? (size_t)(line + n - at - 1) : 0;
            snprintf(cluster, 64, "%.*s", (int)length, at + (length > 0));
            *id = found;
            return true;
        }
        line += n + (line[n] == '\n');
    }
    return false;
}

static bool has_any(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strstr(text, *words) != NULL)
            return true;
    return false;
}

enum hrf_slurm_answer hrf_slurm_sbatch_answer(bool exited_well, const char *output,
                                              const char *errors, int64_t *id, char cluster[64])
{
    /* Source: slurm_errno.c, and sbatch.c for "temporarily unable" and "sleeping and retrying". */
    static const char *const full[] = { "temporarily unable to accept job",
                                        "Resource temporarily unavailable",
                                        "job submit limit",
                                        "QOSMaxSubmitJobPerUserLimit",
                                        "AssocMaxSubmitJobLimit",
                                        "AssocGrpSubmitJobsLimit",
                                        "MaxSubmitJob",
                                        "too many pending jobs",
                                        "Unable to contact slurm controller",
                                        "rate limit",
                                        "back off",
                                        NULL };
    static const char *const refused[] = { "Invalid",
                                           "invalid",
                                           "not available",
                                           "Requested node configuration",
                                           "not permitted",
                                           "unrecognized option",
                                           "denied",
                                           "exceeds",
                                           "Unable to open file",
                                           "more processors",
                                           "required node",
                                           "Access/permission",
                                           "This does not look like a batch script",
                                           "Unspecified partition",
                                           "not supported",
                                           "Too many",
                                           NULL };
    if (exited_well && find_id(output, id, cluster))
        return HRF_SLURM_TAKEN;
    if (exited_well) /* success without a job ID */
        return HRF_SLURM_UNSURE;
    if (strstr(errors, "Socket timed out") != NULL || strstr(errors, "Zero Bytes") != NULL)
        return HRF_SLURM_UNSURE; /* the request was sent, and no answer came */
    if (has_any(errors, full))
        return HRF_SLURM_FULL;
    return has_any(errors, refused) ? HRF_SLURM_REFUSED : HRF_SLURM_UNSURE;
}

/* ---- sinfo ---- */

bool hrf_slurm_node_is_silent(const char *text, char *state, size_t size)
{
    static const char *const down[] = { "down", "fail", "failing", "unknown", "powered_down" };
    const size_t n = strcspn(text, " \n");
    if (n == 0 || n >= size)
        return false;
    snprintf(state, size, "%.*s", (int)n, text);
    if (state[n - 1] == '*')
        return true;
    return hrf_text_is_among(state, down, sizeof down / sizeof down[0]);
}

/* ---- what stands in logs ---- */

bool hrf_slurm_says_out_of_memory(const char *text)
{
    /* slurmstepd/mgr.c, jobacct_gather, mm/oom_kill.c */
    static const char *const marks[] = { "oom-kill",
                                         "oom_kill",
                                         "Out Of Memory",
                                         "Exceeded job memory limit",
                                         "Exceeded step memory limit",
                                         "memory limit",
                                         "Out of memory: Kill" };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (strstr(text, marks[i]) != NULL)
            return true;
    return false;
}
