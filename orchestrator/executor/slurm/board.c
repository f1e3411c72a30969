#include "orchestrator/executor/slurm/board.h"

#include "base/hash.h"
#include "base/path.h"
#include "base/process.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* A board is this, the boot, when it was asked, how long it took, whether well, the bytes; then
 * they follow. */
#define MARK "hires-flow squeue 1 "
enum { LIMIT_BYTES = 256 << 20, HEAD_BYTES = 160 };

struct hrf_slurm_board {
    char *path, *fresh, *lock; /* NULL: there is none */
    char boot[40];
    int turn;                 /* the lock's descriptor while it is ours; -1 */
    int64_t refused_since_ms; /* 0 = the turn was not refused last */
};

/* Of whoever would ask the same controller: host, namespaces, configuration. */
static enum hrf_status name_board(char out[200], struct hrf_error *err)
{
    static const char *const spaces[] = { "/proc/self/ns/mnt", "/proc/self/ns/net" };
    static const char *const variables[] = { "SLURM_CONF", "SLURM_CLUSTERS" };
    char host[128], hex[HRF_HASH_HEX];
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        char space[64];
        const ssize_t n = readlink(spaces[i], space, sizeof space - 1);
        space[n > 0 ? n : 0] = '\0';
        hrf_hash_text(hash, space);
    }
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        hrf_hash_text(hash, getenv(variables[i]));
    hrf_hash_int(hash, (int64_t)getuid());
    hrf_hash_hex(hash, hex);
    hrf_process_host_name(host, sizeof host);
    snprintf(out, 200, "squeue.%s.%.12s", host, hex);
    return HRF_OK;
}

static enum hrf_status find_place(struct hrf_slurm_board *board, const char *folder,
                                  struct hrf_error *err)
{
    char name[200];
    HRF_AUTO_FREE char *cache = folder != NULL ? hrf_strdup(folder) : hrf_cache_directory(NULL);
    if (cache == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    HRF_TRY(name_board(name, err));
    HRF_TRY(hrf_path_make_directories(cache, err));
    if (access(cache, W_OK) != 0)
        return hrf_error_set_errno(err, errno, "cannot write into '%s'", cache);
    board->path = hrf_path_join(cache, name);
    board->fresh = board->path != NULL ? hrf_format("%s.new", board->path) : NULL;
    board->lock = board->path != NULL ? hrf_format("%s.lock", board->path) : NULL;
    return board->lock != NULL && board->fresh != NULL
               ? HRF_OK
               : hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
}

static void forget_place(struct hrf_slurm_board *board)
{
    hrf_free(board->path);
    hrf_free(board->fresh);
    hrf_free(board->lock);
    board->path = board->fresh = board->lock = NULL;
}

enum hrf_status hrf_slurm_board_open(const char *folder, struct hrf_slurm_board **out,
                                     struct hrf_error *err)
{
    struct hrf_slurm_board *board = hrf_calloc(1, sizeof *board);
    if (board == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the board of squeue's answers");
    board->turn = -1;
    hrf_process_boot_id(board->boot);
    if (find_place(board, folder, err) != HRF_OK)
        forget_place(board);
    *out = board;
    return HRF_OK;
}

void hrf_slurm_board_close(struct hrf_slurm_board *board)
{
    if (board == NULL)
        return;
    hrf_slurm_board_give_back(board);
    forget_place(board);
    hrf_free(board);
}

const char *hrf_slurm_board_path(const struct hrf_slurm_board *board)
{
    return board->path;
}

/* The number behind the blank at *at, which moves behind it; -1 when there is none. */
static int64_t take_number(const char **at)
{
    char *end;
    if (**at != ' ')
        return -1;
    const long long value = strtoll(*at + 1, &end, 10);
    const bool good = end != *at + 1 && value >= 0;
    *at = end;
    return good ? value : -1;
}

/* The first line of a board, and where its text begins; false: it is not one of this boot. */
static bool read_head(const struct hrf_slurm_board *board, const char *text,
                      struct hrf_slurm_news *out, size_t *begin)
{
    const size_t mark = strlen(MARK), boot = strlen(board->boot);
    if (strncmp(text, MARK, mark) != 0 || boot == 0 || strncmp(text + mark, board->boot, boot) != 0)
        return false;
    const char *at = text + mark + boot;
    out->asked_ms = take_number(&at);
    out->took_ms = take_number(&at);
    const int64_t well = take_number(&at), n_bytes = take_number(&at);
    if (out->asked_ms < 0 || out->took_ms < 0 || well < 0 || n_bytes < 0 || *at != '\n')
        return false;
    out->well = well != 0;
    out->n_bytes = (size_t)n_bytes;
    *begin = (size_t)(at + 1 - text);
    return true;
}

bool hrf_slurm_board_read(const struct hrf_slurm_board *board, int64_t since_ms,
                          struct hrf_slurm_news *out)
{
    char head[HEAD_BYTES];
    struct hrf_slurm_news news = { .text = NULL };
    size_t at, n_bytes = 0;
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO_CLOSE int fd = board->path != NULL ? open(board->path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t n = fd >= 0 ? pread(fd, head, sizeof head - 1, 0) : 0;
    head[n > 0 ? n : 0] = '\0';
    if (!read_head(board, head, &news, &at) || news.asked_ms <= since_ms)
        return false;
    /* Another may stand there by now: what counts is what is read here. */
    if (hrf_file_read(board->path, LIMIT_BYTES, &text, &n_bytes, NULL) != HRF_OK ||
        !read_head(board, text, &news, &at) || news.n_bytes != n_bytes - at ||
        (news.text = hrf_strndup(text + at, news.n_bytes)) == NULL)
        return false;
    *out = news;
    return true;
}

bool hrf_slurm_board_take_turn(struct hrf_slurm_board *board, int64_t now_ms, int64_t patience_ms)
{
    if (board->lock == NULL)
        return true;
    const int fd = open(board->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return true;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        board->turn = fd;
        board->refused_since_ms = 0;
        return true;
    }
    const bool is_held = errno == EWOULDBLOCK;
    close(fd);
    if (is_held && board->refused_since_ms == 0)
        board->refused_since_ms = now_ms;
    return !is_held || now_ms - board->refused_since_ms >= patience_ms;
}

/* Only the lock's holder writes, so one temporary name does. No fsync: after a power cut it is of
 * another boot. */
static void write_board(const struct hrf_slurm_board *board, const struct hrf_slurm_news *news)
{
    char head[HEAD_BYTES];
    const int n = snprintf(head, sizeof head, MARK "%s %lld %lld %d %zu\n", board->boot,
                           (long long)news->asked_ms, (long long)news->took_ms, (int)news->well,
                           news->n_bytes);
    HRF_AUTO_CLOSE int fd = open(board->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && hrf_file_write_all(fd, head, (size_t)n, board->fresh, NULL) == HRF_OK &&
        hrf_file_write_all(fd, news->text, news->n_bytes, board->fresh, NULL) == HRF_OK &&
        rename(board->fresh, board->path) == 0)
        return;
    unlink(board->fresh);
}

void hrf_slurm_board_put(struct hrf_slurm_board *board, const struct hrf_slurm_news *news)
{
    if (board->turn >= 0)
        write_board(board, news);
    hrf_slurm_board_give_back(board);
}

void hrf_slurm_board_give_back(struct hrf_slurm_board *board)
{
    if (board->turn >= 0)
        close(board->turn);
    board->turn = -1;
}
