/* scontrol.c - reads the output of scontrol and sacct. Values may contain spaces, so keys are found
 * by their names, at the beginning of a word. */
#include "orchestrator/executor/slurm/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value after "KEY=" or, in `show config`, "KEY   = ", up to the end of the line. */
static bool find_setting(const char *text, const char *key, char *out, size_t size)
{
    const size_t n = strlen(key);
    for (const char *line = text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        const char *at = line + n;
        if (strncmp(line, key, n) == 0 && (at += strspn(at, " "), *at == '=')) {
            at++;
            at += strspn(at, " ");
            snprintf(out, size, "%.*s", (int)(line + length - at), at);
            for (size_t k = strlen(out); k > 0 && out[k - 1] == ' '; k--)
                out[k - 1] = '\0';
            return true;
        }
        line += length + (line[length] == '\n');
    }
    out[0] = '\0';
    return false;
}

static int64_t number_setting(const char *text, const char *key)
{
    char value[64];
    return find_setting(text, key, value, sizeof value) ? strtoll(value, NULL, 10) : 0;
}

/* Settings that identify one controller and are the same in each of its answers. */
static void read_site(const char *text, char *out, size_t size)
{
    static const char *const keys[] = { "ClusterName", "SlurmctldHost[0]", "ControlMachine",
                                        "SlurmctldPort", "StateSaveLocation" };
    size_t n = 0;
    char value[128];
    out[0] = '\0';
    if (!find_setting(text, keys[0], value, sizeof value))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && n < size; i++) {
        find_setting(text, keys[i], value, sizeof value);
        n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? "|" : "", value);
    }
}

void hrf_slurm_config_parse(const char *text, struct hrf_slurm_limits *out)
{
    char value[1024];
    *out = (struct hrf_slurm_limits){ .max_array_size = number_setting(text, "MaxArraySize"),
                                      .max_job_count = number_setting(text, "MaxJobCount"),
                                      .min_job_age_s = number_setting(text, "MinJobAge"),
                                      .kill_wait_s = number_setting(text, "KillWait") };
    find_setting(text, "SLURM_VERSION", out->version, sizeof out->version);
    read_site(text, out->site, sizeof out->site);
    find_setting(text, "TmpFS", out->tmp_fs, sizeof out->tmp_fs);
    find_setting(text, "MpiDefault", out->mpi_default, sizeof out->mpi_default);
    find_setting(text, "PreemptMode", out->preempt_mode, sizeof out->preempt_mode);
    find_setting(text, "JobCompType", out->completions, sizeof out->completions);
    out->has_completions = strstr(out->completions, "filetxt") != NULL;
    out->can_requeue = number_setting(text, "JobRequeue") != 0;
    out->has_accounting = find_setting(text, "AccountingStorageType", value, sizeof value) &&
                          strstr(value, "none") == NULL && value[0] != '(';
    const char *tasks = find_setting(text, "SchedulerParameters", value, sizeof value)
                            ? strstr(value, "max_array_tasks=")
                            : NULL;
    if (tasks != NULL)
        out->max_array_tasks = strtoll(tasks + strlen("max_array_tasks="), NULL, 10);
}

int64_t hrf_slurm_max_array(const struct hrf_slurm_limits *limits)
{
    enum { DEFAULT_ARRAY = 1000 };
    int64_t max = limits->max_array_size > 0 ? limits->max_array_size : DEFAULT_ARRAY;
    if (limits->max_array_tasks > 0 && limits->max_array_tasks < max)
        max = limits->max_array_tasks;
    /* At most half of the jobs that the controller holds, so that other users and a second array
     * have room. */
    if (limits->max_job_count > 0 && limits->max_job_count / 2 < max)
        max = limits->max_job_count / 2;
    return max > 0 ? max : 1;
}

bool hrf_slurm_find_word(const char *line, const char *key, char *out, size_t size)
{
    const size_t n = strlen(key), end = strcspn(line, "\n");
    out[0] = '\0';
    for (const char *at = line; at < line + end; at++) {
        if ((at != line && at[-1] != ' ') || strncmp(at, key, n) != 0 || at[n] != '=')
            continue;
        at += n + 1;
        const size_t length = strcspn(at, " \n");
        snprintf(out, size, "%.*s", (int)length, at);
        return true;
    }
    return false;
}

/* Minutes of "D-HH:MM:SS" or "HH:MM:SS"; 0 for UNLIMITED and for anything else. */
static int64_t minutes(const char *text)
{
    int64_t days = 0, parts[3] = { 0, 0, 0 };
    const char *dash = strchr(text, '-');
    if (dash != NULL) {
        days = strtoll(text, NULL, 10);
        text = dash + 1;
    }
    for (int i = 0; i < 3; i++) {
        char *end;
        parts[i] = strtoll(text, &end, 10);
        if (end == text || *end != ':')
            break;
        text = end + 1;
    }
    return days * 1440 + parts[0] * 60 + parts[1];
}

bool hrf_slurm_partition_parse(const char *text, const char *name, struct hrf_slurm_partition *out)
{
    char word[64];
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        const char *here = line;
        line += strcspn(line, "\n");
        struct hrf_slurm_partition p = { .n_nodes = 0 };
        if (!hrf_slurm_find_word(here, "PartitionName", p.name, sizeof p.name))
            continue;
        const bool is_default = hrf_slurm_find_word(here, "Default", word, sizeof word) &&
                                strcmp(word, "YES") == 0;
        if (name != NULL ? strcmp(name, p.name) != 0 : !is_default)
            continue;
        hrf_slurm_find_word(here, "State", p.state, sizeof p.state);
        if (hrf_slurm_find_word(here, "MaxTime", word, sizeof word))
            p.max_minutes = minutes(word);
        if (hrf_slurm_find_word(here, "MaxMemPerNode", word, sizeof word))
            p.max_mem_bytes = strtoll(word, NULL, 10) << 20; /* MB; UNLIMITED reads as 0 */
        if (hrf_slurm_find_word(here, "TotalNodes", word, sizeof word))
            p.n_nodes = strtoll(word, NULL, 10);
        if (hrf_slurm_find_word(here, "GraceTime", word, sizeof word))
            p.grace_s = strtoll(word, NULL, 10);
        if (hrf_slurm_find_word(here, "TotalCPUs", word, sizeof word))
            p.n_cpus = strtoll(word, NULL, 10);
        *out = p;
        return true;
    }
    return false;
}

bool hrf_slurm_job_parse(const char *line, struct hrf_slurm_end *out)
{
    struct hrf_slurm_end e = { .exit_code = 0 };
    char word[64];
    if (!hrf_slurm_find_word(line, "JobName", e.name, sizeof e.name) ||
        !hrf_slurm_find_word(line, "JobState", e.state, sizeof e.state))
        return false;
    hrf_slurm_find_word(line, "Reason", e.reason, sizeof e.reason);
    hrf_slurm_find_word(line, "NodeList", e.nodes, sizeof e.nodes);
    if (hrf_slurm_find_word(line, "ExitCode", word, sizeof word))
        e.exit_code = strtoll(word, NULL, 10); /* "7:0": exit code and signal */
    *out = e;
    return true;
}

bool hrf_slurm_sacct_parse(const char *text, const char *name, struct hrf_slurm_end *out)
{
    bool found = false;
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        char fields[4][96] = { "" };
        const char *at = line;
        int n = 0;
        line += strcspn(line, "\n");
        for (; n < 4 && at <= line; n++) {
            const size_t length = strcspn(at, "|\n");
            snprintf(fields[n], sizeof fields[n], "%.*s", (int)length, at);
            at += length + 1;
        }
        if (n < 4 || strcmp(fields[0], name) != 0)
            continue;
        *out = (struct hrf_slurm_end){ .exit_code = strtoll(fields[2], NULL, 10) };
        snprintf(out->name, sizeof out->name, "%s", fields[0]);
        snprintf(out->state, sizeof out->state, "%.*s", (int)sizeof out->state - 1, fields[1]);
        snprintf(out->nodes, sizeof out->nodes, "%.*s", (int)sizeof out->nodes - 1, fields[3]);
        found = true;
    }
    return found;
}
