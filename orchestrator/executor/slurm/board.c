#include "orchestrator/executor/slurm/board.h"

#include "base/cache.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/private_directory.h"
#include "base/strbuf.h"
#include "schema/store/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A board is this, the boot, when it was asked, how long it took, whether well, the bytes; then
 * they follow. A turn is that, and its process. */
#define MARK      "hires-flow squeue 2 "
#define TURN_MARK "hires-flow turn 1 "
enum { LIMIT_BYTES = 256 << 20, HEAD_BYTES = 160, TURN_BYTES = 400 };

struct hrf_slurm_board {
    char *path, *turn;
    struct hrf_owner me;
    char seen[HEAD_BYTES];   /* the head of the last answer of another machine */
    char mine[TURN_BYTES];   /* what stands in `turn` while it is ours; "" */
    char holder[TURN_BYTES]; /* what stood there when it was refused; "" */
    int64_t refused_since_ms;
};

/* ---- its place ---- */

static enum hrf_status name_board(const char *site, char out[64], struct hrf_error *err)
{
    char hex[HRF_HASH_HEX];
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, site);
    hrf_hash_text(hash, getenv("SLURM_CLUSTERS"));
    hrf_hash_int(hash, (int64_t)getuid());
    hrf_hash_hex(hash, hex);
    snprintf(out, 64, "squeue.%.16s", hex);
    return HRF_OK;
}

static enum hrf_status check_folder(const char *folder, struct hrf_error *err)
{
    HRF_TRY(hrf_private_directory_open(folder, err));
    if (access(folder, W_OK) != 0)
        return hrf_error_set_errno(err, errno, "cannot write into '%s'", folder);
    return HRF_OK;
}

static char *own_folder(void)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR"); /* the user's, of one machine */
    if (runtime != NULL && runtime[0] == '/')
        return hrf_path_join(runtime, "hires-flow");
    return hrf_format("/tmp/hires-flow-%ld", (long)getuid());
}

static enum hrf_status set_place(struct hrf_slurm_board *board, const char *folder,
                                 const char *name, struct hrf_error *err)
{
    board->path = hrf_path_join(folder, name);
    board->turn = board->path != NULL ? hrf_format("%s.turn", board->path) : NULL;
    return board->turn != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
}

/* HRF_OK: `err` is empty, or says why it is this machine's own. */
static enum hrf_status find_place(struct hrf_slurm_board *board, const char *shared,
                                  const char *own, const char *site, struct hrf_error *err)
{
    char name[64];
    struct hrf_error other = { .status = HRF_OK };
    HRF_AUTO_FREE char *cache = shared != NULL ? hrf_strdup(shared) : hrf_cache_directory(NULL);
    HRF_AUTO_FREE char *here = own != NULL ? hrf_strdup(own) : own_folder();
    if (cache == NULL || here == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    HRF_TRY(name_board(site, name, err));
    if (check_folder(cache, err) == HRF_OK)
        return set_place(board, cache, name, err);
    HRF_TRY(check_folder(here, &other));
    return set_place(board, here, name, &other);
}

static bool read_text(const char *path, char *out, size_t size)
{
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? pread(fd, out, size - 1, 0) : -1;
    out[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

enum hrf_status hrf_slurm_board_open(const char *shared, const char *own, const char *site,
                                     struct hrf_slurm_board **out, struct hrf_error *err)
{
    struct hrf_slurm_board *board = hrf_calloc(1, sizeof *board);
    if (board == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the board of squeue's answers");
    board->me = hrf_owner_self();
    *out = NULL;
    if (board->me.boot[0] == '\0' || find_place(board, shared, own, site, err) != HRF_OK) {
        hrf_slurm_board_close(board);
        return HRF_OK;
    }
    read_text(board->path, board->seen, sizeof board->seen); /* of before */
    board->seen[strcspn(board->seen, "\n")] = '\0';
    *out = board;
    return HRF_OK;
}

void hrf_slurm_board_close(struct hrf_slurm_board *board)
{
    if (board == NULL)
        return;
    hrf_slurm_board_give_back(board);
    hrf_free(board->path);
    hrf_free(board->turn);
    hrf_free(board);
}

const char *hrf_slurm_board_path(const struct hrf_slurm_board *board)
{
    return board != NULL ? board->path : NULL;
}

/* ---- reading ---- */

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

/* The first line of a board, and where its text begins; false: it is none. */
static bool read_head(const struct hrf_slurm_board *board, const char *text,
                      struct hrf_slurm_news *out, size_t *begin)
{
    const size_t mark = strlen(MARK);
    if (strncmp(text, MARK, mark) != 0)
        return false;
    const char *boot = text + mark, *at = boot + strcspn(boot, " \n");
    const size_t n = (size_t)(at - boot);
    if (n == 0)
        return false;
    out->is_foreign = n != strlen(board->me.boot) || strncmp(boot, board->me.boot, n) != 0;
    const int64_t asked_ms = take_number(&at);
    out->asked_ms = out->is_foreign ? 0 : asked_ms;
    out->took_ms = take_number(&at);
    const int64_t well = take_number(&at), n_bytes = take_number(&at);
    if (asked_ms < 0 || out->took_ms < 0 || well < 0 || n_bytes < 0 || *at != '\n')
        return false;
    out->well = well != 0;
    out->n_bytes = (size_t)n_bytes;
    *begin = (size_t)(at + 1 - text);
    return true;
}

static bool is_new(const struct hrf_slurm_board *board, const struct hrf_slurm_news *news,
                   const char *head, size_t begin, int64_t since_ms)
{
    if (!news->is_foreign)
        return news->asked_ms > since_ms;
    return strlen(board->seen) != begin - 1 || strncmp(board->seen, head, begin - 1) != 0;
}

bool hrf_slurm_board_read(struct hrf_slurm_board *board, int64_t since_ms,
                          struct hrf_slurm_news *out)
{
    char head[HEAD_BYTES];
    struct hrf_slurm_news news = { .text = NULL };
    size_t at, n_bytes = 0;
    HRF_AUTO_FREE char *text = NULL;
    if (board == NULL || !read_text(board->path, head, sizeof head) ||
        !read_head(board, head, &news, &at) || !is_new(board, &news, head, at, since_ms))
        return false;
    /* Another may stand there by now: what counts is what is read here. */
    if (hrf_file_read(board->path, LIMIT_BYTES, &text, &n_bytes, NULL) != HRF_OK ||
        !read_head(board, text, &news, &at) || news.n_bytes != n_bytes - at ||
        !is_new(board, &news, text, at, since_ms) ||
        (news.text = hrf_strndup(text + at, news.n_bytes)) == NULL)
        return false;
    if (news.is_foreign)
        snprintf(board->seen, sizeof board->seen, "%.*s", (int)at - 1, text);
    *out = news;
    return true;
}

/* ---- the turn ---- */

/* The word at *at, which moves behind the blank after it; false: there is none, or it is too long.
 */
static bool take_word(const char **at, char *out, size_t size)
{
    const size_t n = strcspn(*at, " \n");
    if (n == 0 || n >= size || (*at)[n] != ' ')
        return false;
    snprintf(out, size, "%.*s", (int)n, *at);
    *at += n + 1;
    return true;
}

static bool read_holder(const char *text, struct hrf_owner *out)
{
    char *end;
    const char *at = text + strlen(TURN_MARK);
    *out = (struct hrf_owner){ .beat_ms = INT64_MAX / 2 }; /* no clock judges it */
    if (strncmp(text, TURN_MARK, strlen(TURN_MARK)) != 0 ||
        !take_word(&at, out->host, sizeof out->host) ||
        !take_word(&at, out->boot, sizeof out->boot) ||
        !take_word(&at, out->pid_space, sizeof out->pid_space))
        return false;
    out->pid = strtoll(at, &end, 10);
    if (*end != ' ')
        return false;
    out->start_time = strtoull(end + 1, &end, 10);
    return *end == ' ';
}

/* Whether who has the turn has lost it: dead, or the same one for too long. */
static bool is_over(struct hrf_slurm_board *board, int64_t now_ms, int64_t patience_ms)
{
    char text[TURN_BYTES];
    struct hrf_owner holder;
    if (!read_text(board->turn, text, sizeof text))
        return true; /* given back in this moment */
    if (read_holder(text, &holder) && hrf_owner_life(&holder, &board->me) == HRF_OWNER_DEAD)
        return true;
    if (board->refused_since_ms == 0 || strcmp(text, board->holder) != 0) {
        snprintf(board->holder, sizeof board->holder, "%s", text);
        board->refused_since_ms = now_ms;
        return false;
    }
    return now_ms - board->refused_since_ms >= patience_ms;
}

/* HRF_E_AGAIN: another has it; HRF_E_EXTERNAL: a turn cannot be taken here. */
static enum hrf_status make_turn(struct hrf_slurm_board *board, int64_t now_ms)
{
    const struct hrf_owner *me = &board->me;
    HRF_AUTO_CLOSE int fd = open(board->turn, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? HRF_E_AGAIN : HRF_E_EXTERNAL;
    const int n = snprintf(board->mine, sizeof board->mine, TURN_MARK "%s %s %s %lld %llu %lld\n",
                           me->host, me->boot, me->pid_space, (long long)me->pid,
                           (unsigned long long)me->start_time, (long long)now_ms);
    if (hrf_file_write_all(fd, board->mine, (size_t)n, board->turn, NULL) == HRF_OK)
        return HRF_OK;
    unlink(board->turn);
    board->mine[0] = '\0';
    return HRF_E_EXTERNAL;
}

bool hrf_slurm_board_take_turn(struct hrf_slurm_board *board, int64_t now_ms, int64_t patience_ms)
{
    if (board == NULL)
        return true;
    enum hrf_status made = make_turn(board, now_ms);
    if (made == HRF_E_AGAIN && is_over(board, now_ms, patience_ms)) {
        unlink(board->turn);
        made = make_turn(board, now_ms);
    }
    if (made != HRF_E_AGAIN)
        board->refused_since_ms = 0;
    return made != HRF_E_AGAIN; /* EXTERNAL: it asks for itself */
}

static bool is_mine(const struct hrf_slurm_board *board)
{
    char text[TURN_BYTES];
    return board->mine[0] != '\0' && read_text(board->turn, text, sizeof text) &&
           strcmp(text, board->mine) == 0;
}

/* No fsync: after a power cut it is of another boot, or asked for anew. */
static void write_board(const struct hrf_slurm_board *board, const struct hrf_slurm_news *news)
{
    char head[HEAD_BYTES];
    const int n = snprintf(head, sizeof head, MARK "%s %lld %lld %d %zu\n", board->me.boot,
                           (long long)news->asked_ms, (long long)news->took_ms, (int)news->well,
                           news->n_bytes);
    HRF_AUTO_FREE char *fresh = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    if (hrf_file_temporary(board->path, &fresh, &fd, NULL) != HRF_OK)
        return;
    if (hrf_file_write_all(fd, head, (size_t)n, fresh, NULL) == HRF_OK &&
        hrf_file_write_all(fd, news->text, news->n_bytes, fresh, NULL) == HRF_OK &&
        rename(fresh, board->path) == 0)
        return;
    unlink(fresh);
}

void hrf_slurm_board_put(struct hrf_slurm_board *board, const struct hrf_slurm_news *news)
{
    if (board != NULL && is_mine(board))
        write_board(board, news);
    hrf_slurm_board_give_back(board);
}

void hrf_slurm_board_give_back(struct hrf_slurm_board *board)
{
    if (board == NULL)
        return;
    if (is_mine(board))
        unlink(board->turn);
    board->mine[0] = '\0';
}
