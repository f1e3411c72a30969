/* parse.h - parsers for the output of Slurm's commands. Pure functions; covered by a fuzzer.
 *
 * They read only formats that are the same in Slurm 21.08 to 26.05: `squeue -h -o` with
 * HRF_SLURM_SQUEUE_FORMAT, `sbatch --parsable`, `scontrol show` with -o, `sacct -X -n -P -o`.
 * An unknown word never counts as the end of a job and never as a success.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_PARSE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_PARSE_H

#include "base/error.h"
#include "orchestrator/executor/executor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name is the last field, because names of other jobs may contain a '|'. */
#define HRF_SLURM_SQUEUE_FORMAT "%i|%T|%r|%N|%j"
#define HRF_SLURM_SACCT_FORMAT  "JobName,State,ExitCode,NodeList"
/* A job's name is this prefix, the run's id, '-' and the submission's number. */
#define HRF_SLURM_NAME_PREFIX "hf-"

/* The meaning of a job state. Returns false for an unknown state; *observed is then
 * HRF_JOB_UNKNOWN.
 */
bool hrf_slurm_state(const char *word, enum hrf_job_observation *observed, enum hrf_cause *cause);

/* Why a job waits, as text for users that follows "waiting "; NULL for an unknown reason. *never is
 * set to true if the job will not run unless somebody changes something. */
const char *hrf_slurm_reason(const char *word, bool *never);

/* ---- squeue ---- */

struct hrf_slurm_entry {
    int64_t submission, array_index; /* from the job's name, and its array index */
    int64_t id;                      /* job ID of the array */
    enum hrf_job_observation observed;
    enum hrf_cause cause;
    const char *state, *reason, *nodes; /* borrowed from the table's text */
};
struct hrf_slurm_table {
    char *text;
    struct hrf_slurm_entry *entries; /* sorted by submission, array index, id */
    size_t n_entries;
    const char *unknown; /* an unknown job state, borrowed from the text; NULL = none */
};
/* Takes over `text` (heap), on failure as well. Lines of other runs and lines that are not about
 * jobs (banners of the site) are skipped. HRF_E_AGAIN: the output is cut off, so that a job it does
 * not show may exist. */
HRF_CHECKED enum hrf_status hrf_slurm_table_parse(char *text, size_t n_bytes, const char *run_id,
                                                  struct hrf_slurm_table *out,
                                                  struct hrf_error *err);
void hrf_slurm_table_release(struct hrf_slurm_table *table);
/* The entry of that job; the one with the lowest ID if there are several, NULL if there is none. */
const struct hrf_slurm_entry *hrf_slurm_table_find(const struct hrf_slurm_table *table,
                                                   int64_t submission, int64_t array_index);
/* The next entry of the same submission and array index with another ID, which means that the job
 * was submitted twice; NULL if there is none. */
const struct hrf_slurm_entry *hrf_slurm_table_duplicate(const struct hrf_slurm_table *table,
                                                        const struct hrf_slurm_entry *entry);

/* ---- sbatch ---- */

enum hrf_slurm_answer {
    HRF_SLURM_TAKEN,
    HRF_SLURM_REFUSED, /* the same submission would be refused again */
    HRF_SLURM_FULL,    /* no room now: try later, or with fewer jobs */
    HRF_SLURM_UNSURE   /* the jobs may have been submitted */
};
/* With HRF_SLURM_TAKEN, *id and `cluster` are filled in. */
enum hrf_slurm_answer hrf_slurm_sbatch_answer(bool exited_well, const char *output,
                                              const char *errors, int64_t *id, char cluster[64]);
/* The last line of `errors` that contains "error: ", without what stands before the message; the
 * first line if there is none. For messages to users. */
void hrf_slurm_error_line(const char *errors, char *out, size_t size);

/* Reads the first line of `sinfo -h -o %T` about one node. True if it does not respond (the
 * controller adds a '*') or is down; `state` is then its state. */
bool hrf_slurm_node_is_silent(const char *text, char *state, size_t size);

/* True if the end of a log holds a message of slurmstepd or the kernel about too little memory. */
bool hrf_slurm_says_out_of_memory(const char *text);

/* ---- scontrol, sacct ---- */

struct hrf_slurm_limits {
    char version[32];
    int64_t max_array_size;  /* array indices are below this; 0 = not known */
    int64_t max_array_tasks; /* 0 = not known */
    int64_t max_job_count, min_job_age_s, kill_wait_s;
    bool has_accounting, can_requeue;
    bool has_completions; /* the site keeps a log of ended jobs that `sacct -c` reads:
                             jobcomp/filetxt */
    char site[512]; /* cluster, controller, port and state directory: identifies one controller; ""
                       if it did not answer */
    char tmp_fs[256], mpi_default[64], preempt_mode[64], completions[32] /* JobCompType */;
};
/* Reads the output of `scontrol show config`. */
void hrf_slurm_config_parse(const char *text, struct hrf_slurm_limits *out);

/* Largest number of elements in one array: the site's limits on arrays, and at most half of the
 * jobs that its controller holds; 1000 if the limits are not known. */
int64_t hrf_slurm_max_array(const struct hrf_slurm_limits *limits);

/* The value of "KEY=" in one line of `scontrol show ... -o`, up to the next space. False: it is not
 * there; `out` is then "". */
bool hrf_slurm_find_word(const char *line, const char *key, char *out, size_t size);

struct hrf_slurm_partition {
    char name[64], state[16];
    int64_t max_minutes;   /* 0 = no limit */
    int64_t max_mem_bytes; /* per node; 0 = no limit */
    int64_t n_nodes, n_cpus;
    int64_t grace_s; /* between the signal that a job is preempted and its end */
};
/* Reads one partition from the output of `scontrol show partition -o`; `name` NULL means the
 * default partition. Returns false if it is not there. */
bool hrf_slurm_partition_parse(const char *text, const char *name, struct hrf_slurm_partition *out);

struct hrf_slurm_end {
    char name[96], state[32], reason[64], nodes[64];
    int64_t exit_code;
};
/* Reads one line of `scontrol show job -o`. Returns false if it is not about a job. */
bool hrf_slurm_job_parse(const char *line, struct hrf_slurm_end *out);
/* Reads the last line about a job of that name from `sacct -n -P -o` HRF_SLURM_SACCT_FORMAT, with
 * -X or -c. Returns false if there is none. */
bool hrf_slurm_sacct_parse(const char *text, const char *name, struct hrf_slurm_end *out);

#endif
