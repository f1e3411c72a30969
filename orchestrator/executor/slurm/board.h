/* board.h - one squeue for all drivers of a user: who has asked puts the answer on a board, where
 * the others read it instead of asking.
 *
 * The board is a file in the user's cache folder, which login nodes most often share; where that
 * cannot be written, one of this machine. It is named by what the controller says of itself, so
 * that only drivers that would ask the same controller share one. Who asks has the turn: a file
 * that names the process, made by O_EXCL, since locks are no matter of all machines on every shared
 * file system. A turn whose process is dead is taken at once, another machine's when it was not
 * given back for long. Two that ask at a time cost a question, nothing else.
 *
 * Clocks of machines are not compared: of another machine's answer it is only known that it came,
 * so that it shows what is there, and absence in it says nothing.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_BOARD_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_BOARD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_slurm_board; /* opaque; NULL is one that nobody shares */

struct hrf_slurm_news {
    int64_t asked_ms, took_ms; /* when squeue was started, monotonic; and how long it took */
    bool is_foreign;           /* another machine asked: asked_ms is 0, it is not known here */
    bool well;                 /* false: `text` says why there is no answer */
    char *text;                /* heap, the reader's */
    size_t n_bytes;
};

/* `site`: of the controller (hrf_slurm_limits). `shared` NULL: the user's cache; `own` NULL: this
 * machine's folder for the user. Where neither can be written *out is NULL. HRF_OK also then, and
 * `err` says what could not be used; HRF_E_NOMEM is the only failure. */
HRF_CHECKED enum hrf_status hrf_slurm_board_open(const char *shared, const char *own,
                                                 const char *site, struct hrf_slurm_board **out,
                                                 struct hrf_error *err);
void hrf_slurm_board_close(struct hrf_slurm_board *board); /* NULL is fine, here and below */
const char *hrf_slurm_board_path(const struct hrf_slurm_board *board); /* NULL: there is none */
/* An answer that was not read before: of this machine one that was asked for after `since_ms`, of
 * another one that came after this board was opened. False: there is none. */
bool hrf_slurm_board_read(struct hrf_slurm_board *board, int64_t since_ms,
                          struct hrf_slurm_news *out);
/* True: the caller may ask, and puts the answer up or gives the turn back. False: another is
 * asking. A living one that asks for longer than `patience_ms` is not waited for. */
bool hrf_slurm_board_take_turn(struct hrf_slurm_board *board, int64_t now_ms, int64_t patience_ms);
/* Ends the turn. What cannot be written, or was taken over meanwhile, is not put up. */
void hrf_slurm_board_put(struct hrf_slurm_board *board, const struct hrf_slurm_news *news);
void hrf_slurm_board_give_back(struct hrf_slurm_board *board);

#endif
