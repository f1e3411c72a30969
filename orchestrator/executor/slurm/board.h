/* board.h - one squeue for all drivers of a user on a machine: who has asked puts the answer on a
 * board, where the others read it instead of asking.
 *
 * The board is a file in the user's cache folder, by host, namespaces and SLURM_CONF, so that only
 * drivers that would ask the same controller share one. Times on it are of the monotonic clock of
 * one boot. Who asks holds a lock on it, which ends with its holder. Where no board can be kept
 * (a full or read-only home), each driver asks for itself.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_BOARD_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_BOARD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_slurm_board; /* opaque */

struct hrf_slurm_news {
    int64_t asked_ms, took_ms; /* monotonic: when squeue was started, and how long it took */
    bool well;                 /* false: `text` says why there is no answer */
    char *text;                /* heap, the reader's */
    size_t n_bytes;
};

/* `folder` NULL: the user's cache. Without a board *out is one that nobody shares, and `err` says
 * why; HRF_E_NOMEM is the only failure. */
HRF_CHECKED enum hrf_status hrf_slurm_board_open(const char *folder, struct hrf_slurm_board **out,
                                                 struct hrf_error *err);
void hrf_slurm_board_close(struct hrf_slurm_board *board);             /* NULL is fine */
const char *hrf_slurm_board_path(const struct hrf_slurm_board *board); /* NULL: there is none */
/* What was asked after `since_ms`; false: there is none. */
bool hrf_slurm_board_read(const struct hrf_slurm_board *board, int64_t since_ms,
                          struct hrf_slurm_news *out);
/* True: the caller may ask, and puts the answer up or gives the turn back. False: another is
 * asking. One that asks for longer than `patience_ms` is not waited for. */
bool hrf_slurm_board_take_turn(struct hrf_slurm_board *board, int64_t now_ms, int64_t patience_ms);
/* Ends the turn. What cannot be written is not put up: the others ask then. */
void hrf_slurm_board_put(struct hrf_slurm_board *board, const struct hrf_slurm_news *news);
void hrf_slurm_board_give_back(struct hrf_slurm_board *board);

#endif
