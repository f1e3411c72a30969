/* launch.h - the launcher, the process that represents one job: it starts the worker, watches it
 * and records how it ended.
 *
 * It writes the sentinels start.json, beat.json (every 30 s; HRF_BEAT_MS for tests) and done.json
 * beside the spec; the worker's output goes to `log` there. SIGTERM, SIGINT and SIGUSR1 are passed
 * on to the worker's process group; after SIGTERM or SIGINT the worker has 10 s to end. A fence
 * file "revoked" beside the spec has the same effect as SIGTERM, and done.json says so. A worker
 * whose work is done (its last task has a status, or its ranks have reported their end) but that
 * still exists after 4 minutes (twice HRF_RANK_DEADLINE_MS) is ended in the same way; nothing is
 * lost by that. If the launcher dies, the worker dies; if the worker ends, the processes it left
 * running are ended. The executor starts the launcher in its own session. Single-threaded; blocks
 * its signals.
 */
#ifndef HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H
#define HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H

#include "base/error.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "schema/command/engine_commands.h"

/* Returns the launcher's exit code: the worker's, or 128 + its signal; 127 if the worker could not
 * be started, 75 or 5 if another try may help (error.h), 2 if the spec cannot be used. */
int hrf_launch(const char *spec_path);

/* Finds the engine to start: the program that the environment variable HRF_ENGINE names, otherwise
 * hires-engine in the folder of this program. Heap. */
HRF_CHECKED enum hrf_status hrf_launch_find_engine(char **path, struct hrf_error *err);

/* Sets in the environment of this process, for engines that it starts: threads of a network that
 * wait for one another or for a batch leave their cores early to those that have work. By default
 * GNU's OpenMP lets them spin for a millisecond or more, and on a machine that is shared with
 * others the thread that they wait for is then kept off its core. Between the kernels of a network
 * it is microseconds, for which this is enough: 0.1 ms where a pause takes 140 cycles. What the
 * user has set stays. */
void hrf_launch_wait_quietly(void);

/* A command of hires-engine that hires-flow runs for its answer. */
struct hrf_engine_question {
    enum hrf_engine_command command;
    const char *operands[2];                  /* NULL: none, or no second */
    const struct hrf_request_option *options; /* NULL: none */
    const void *request, *initial; /* what is asked, and what the command takes by default */
    int64_t patience_ms;           /* 0: ten minutes */
};
/* Runs the command and waits for its standard output. If it fails, *err is the engine's own
 * error. */
HRF_CHECKED enum hrf_status hrf_engine_ask(const struct hrf_engine_question *question,
                                           struct hrf_strbuf *answer, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_engine_ask_json(const struct hrf_engine_question *question,
                                                json_t **answer, struct hrf_error *err);

/* Computes the hash of a model for content keys: the SHA-256 of its file, or, if its weights are in
 * other files, the output of `hires-engine model hash`, which reads them. */
HRF_CHECKED enum hrf_status hrf_launch_model_hash(const char *path, char out[HRF_HASH_HEX],
                                                  struct hrf_error *err);

/* Asks the engine whether a model brings its own INT8 scales (pairs of QuantizeLinear and
 * DequantizeLinear), so that it needs no calibration. */
HRF_CHECKED enum hrf_status hrf_launch_model_brings_scales(const char *path, bool *out,
                                                           struct hrf_error *err);

#endif
