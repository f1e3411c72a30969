/* parse.h - what Slurm's commands print, as values. Pure; fuzzed.
 *
 * Only forms that have stayed the same from Slurm 21.08 to 26.05 are read: `squeue -h -o` with
 * HRF_SLURM_SQUEUE_FORMAT, `sbatch --parsable`, `scontrol show` with -o, `sacct -X -n -P -o`.
 * Words that are not known are never an end and never a success.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_PARSE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_PARSE_H

#include "base/error.h"
#include "orchestrator/executor/executor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name last: other people's may hold a '|'. */
#define HRF_SLURM_SQUEUE_FORMAT "%i|%T|%r|%N|%j"
#define HRF_SLURM_SACCT_FORMAT  "JobName,State,ExitCode,NodeList"
/* A job's name is this, the run's id, '-' and the submission's number. */
#define HRF_SLURM_NAME_PREFIX "hf-"

/* What a state word means; false for a word that is not known (*sight is then unknown). */
bool hrf_slurm_state(const char *word, enum hrf_job_sight *sight, enum hrf_cause *cause);

/* Why a job waits, for people: a sentence that goes after "waits: "; NULL for a word not known.
 * *never: it will not run unless something is changed. */
const char *hrf_slurm_reason(const char *word, bool *never);

/* ---- squeue ---- */

struct hrf_slurm_entry {
    int64_t submission, place; /* by the job's name and array index */
    int64_t id;                /* of the array */
    enum hrf_job_sight sight;
    enum hrf_cause cause;
    const char *state, *reason, *nodes; /* inside the table's text */
};
struct hrf_slurm_table {
    char *text;
    struct hrf_slurm_entry *entries; /* by submission, place, id */
    size_t n_entries;
    const char *unknown; /* a state word that is not known; NULL = none. Inside the text. */
};
/* Takes over `text` (heap) also on failure. Lines of other runs and lines that are no job's
 * (banners) are left out. HRF_E_AGAIN: the output is cut off, so absence in it says nothing. */
HRF_CHECKED enum hrf_status hrf_slurm_table_parse(char *text, size_t n_bytes, const char *run_id,
                                                  struct hrf_slurm_table *out,
                                                  struct hrf_error *err);
void hrf_slurm_table_release(struct hrf_slurm_table *table);
/* The entry of the lowest id, NULL when there is none. */
const struct hrf_slurm_entry *hrf_slurm_table_find(const struct hrf_slurm_table *table,
                                                   int64_t submission, int64_t place);
/* The next entry of the same submission and place with another id: submitted twice. NULL. */
const struct hrf_slurm_entry *hrf_slurm_table_twin(const struct hrf_slurm_table *table,
                                                   const struct hrf_slurm_entry *entry);

/* ---- sbatch ---- */

enum hrf_slurm_answer {
    HRF_SLURM_TAKEN,
    HRF_SLURM_REFUSED, /* the same again would be refused again */
    HRF_SLURM_FULL,    /* later, or fewer */
    HRF_SLURM_UNSURE
};
/* *id and `cluster` (64 bytes) are filled when taken. */
enum hrf_slurm_answer hrf_slurm_sbatch_answer(bool exited_well, const char *output,
                                              const char *errors, int64_t *id, char cluster[64]);
/* The first line of `errors` without the program's name: what to tell people. */
void hrf_slurm_error_line(const char *errors, char *out, size_t size);

/* ---- scontrol, sacct ---- */

struct hrf_slurm_limits {
    char version[32];
    int64_t max_array_size;  /* an index is below this; 0 = not told */
    int64_t max_array_tasks; /* 0 = not told */
    int64_t max_job_count, min_job_age_s, message_timeout_s, kill_wait_s;
    bool has_accounting, can_requeue;
    bool has_completions; /* a log of ended jobs that `sacct -c` reads: jobcomp/filetxt */
    char site[512]; /* cluster, controllers, port, state: the same text for the same controller; ""
                       when it does not tell */
    char tmp_fs[256], mpi_default[64], preempt_mode[64], completions[32] /* JobCompType */;
};
/* Of `scontrol show config`. */
void hrf_slurm_config_parse(const char *text, struct hrf_slurm_limits *out);

/* Elements of one array: what the site takes at most, half of its jobs; 1000 when it does not
 * tell. */
int64_t hrf_slurm_most(const struct hrf_slurm_limits *limits);

struct hrf_slurm_partition {
    char name[64], state[16];
    int64_t max_minutes;   /* 0 = no limit */
    int64_t max_mem_bytes; /* of a node's; 0 = no limit */
    int64_t n_nodes, n_cpus;
    int64_t grace_s; /* between the word that it is preempted and its end */
};
/* Of `scontrol show partition -o`; `name` NULL: the default one. False: it is not there. */
bool hrf_slurm_partition_parse(const char *text, const char *name, struct hrf_slurm_partition *out);

struct hrf_slurm_end {
    char name[96], state[32], reason[64], nodes[64];
    int64_t exit_code, exit_signal, restarts;
};
/* Of one line of `scontrol show job -o`. */
bool hrf_slurm_job_parse(const char *line, struct hrf_slurm_end *out);
/* Of `sacct -n -P -o` HRF_SLURM_SACCT_FORMAT, with -X or -c: the last line of that name. */
bool hrf_slurm_sacct_parse(const char *text, const char *name, struct hrf_slurm_end *out);

#endif
