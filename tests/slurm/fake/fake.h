/* fake.h - a scripted Slurm: sbatch, squeue, scancel, scontrol, sacct, sinfo and srun as one
 * program.
 *
 * Everything stands in the folder $HRF_FAKE_SLURM:
 *   config   Key=Value lines: what `scontrol show config` tells, and the fake's own keys (below)
 *   faults   one a line: COMMAND CALLS ACTION [ARGUMENT...]; see faults.c
 *   calls    one line a call: COMMAND and its words: what tests count
 *   queue    the jobs, a mapped file: 10,000 elements cost milliseconds
 *   scripts/ what was submitted
 * Jobs run for real, as processes of this machine, under `slurm_fake serve`, which the first sbatch
 * starts and which ends with the folder; Run=no leaves them in their states, for `slurm_fake set`.
 * Own keys: Run (yes), Slots (2), Nodes (4), MinuteSeconds (60: how long a minute of --time takes),
 * KillWait (1 s), RequeueDelay (1 s), UserLimit (0 = none), Accounting (no).
 * Text forms are those of Slurm 22.05, checked against a real one by fake_twin.sh.
 */
#ifndef HRF_TESTS_SLURM_FAKE_FAKE_H
#define HRF_TESTS_SLURM_FAKE_FAKE_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_MAX_TASKS = 400000, FAKE_MAX_ARRAYS = 20000 };

enum fake_state {
    FAKE_PENDING,
    FAKE_RUNNING,
    FAKE_COMPLETED, /* from here on: ended */
    FAKE_FAILED,
    FAKE_CANCELLED,
    FAKE_TIMEOUT,
    FAKE_NODE_FAIL,
    FAKE_PREEMPTED,
    FAKE_OUT_OF_MEMORY,
    FAKE_WORD, /* a word of the test's own, in `word`: counts as running */
    FAKE_N_STATES
};
extern const char *const fake_state_words[FAKE_N_STATES];
extern const char *const fake_state_letters[FAKE_N_STATES];

struct fake_array { /* one sbatch */
    int64_t id;     /* the job ID that sbatch printed */
    int64_t throttle, minutes, signal_lead_s, n_tasks;
    bool is_array, requeue;
    double submitted; /* wall seconds */
    char name[112], partition[32], comment[96], directory[400], output[400];
};
struct fake_task {                                                              /* one element */
    int32_t array, index, state, pid, restarts, exit_code, exit_signal, ending; /* a fake_state */
    int64_t id;                                                                 /* %A */
    double start, end, not_before, kill_at;
    char node[12], reason[32], word[24];
    bool held, purged, signalled;
};
struct fake_queue {
    int64_t next_id, n_arrays, n_tasks, server;
    struct fake_array arrays[FAKE_MAX_ARRAYS];
    struct fake_task tasks[FAKE_MAX_TASKS];
};

struct fake {
    const char *directory, *command;
    struct fake_queue *queue;
    int lock;
    char *config;               /* text, "" when there is none */
    struct hrf_strbuf out, err; /* what is printed at the end */
    int call;                   /* which call of this command, from 1 */
    bool forget;                /* a submission is answered, but not kept */
};

/* state.c */
bool fake_open(struct fake *fake);
void fake_close(struct fake *fake);
void fake_lock(struct fake *fake);
void fake_unlock(struct fake *fake);
/* Value of a key, or `otherwise`; out holds 64 bytes. */
const char *fake_config(const struct fake *fake, const char *key, const char *otherwise,
                        char out[64]);
double fake_number(const struct fake *fake, const char *key, double otherwise);
bool fake_yes(const struct fake *fake, const char *key, bool otherwise);
double fake_now(void); /* wall seconds */
/* Forgets what ended MinJobAge ago. */
void fake_purge(struct fake *fake);
static inline bool fake_has_ended(const struct fake_task *task)
{
    return task->state >= FAKE_COMPLETED && task->state != FAKE_WORD;
}
/* Ends a task as `state`; exit as Slurm prints it. */
void fake_end(struct fake_task *task, int state, int exit_code, int exit_signal);
/* The tasks that `ID`, `ID_INDEX` or `ID_[LIST]` names: sets marks[]; their number. */
int64_t fake_select(const struct fake *fake, const char *name, bool *marks);
/* Whether `index` is in "1,3-5,8-20:2". */
bool fake_list_has(const char *list, int64_t index);

/* faults.c */
enum fake_mood { FAKE_ACT, FAKE_REFUSE };
/* Before the command: waits, refuses, hangs. */
enum fake_mood fake_faults_before(struct fake *fake, int *code);
/* After it: changes what is printed, waits, dies. */
void fake_faults_after(struct fake *fake, int *code);

/* one file each; the exit code */
int fake_sbatch(struct fake *fake, int argc, char **argv);
int fake_squeue(struct fake *fake, int argc, char **argv);
int fake_scontrol(struct fake *fake, int argc, char **argv);
int fake_sacct(struct fake *fake, int argc, char **argv);
int fake_sinfo(struct fake *fake, int argc, char **argv);
int fake_scancel(struct fake *fake, int argc, char **argv);
int fake_verbs(struct fake *fake, int argc, char **argv);
int fake_serve(struct fake *fake);

#endif
