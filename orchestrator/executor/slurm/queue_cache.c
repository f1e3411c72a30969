/* queue_cache.c - the file with squeue's last answer, and the lock file of the driver that asks.
 * Both are read as untrusted text, since any process of the user may have written them. */
#include "orchestrator/executor/slurm/queue_cache.h"

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

/* First line of the answer's file: ANSWER_MARK, boot ID, when squeue was asked and how long it took
 * (ms), whether it succeeded (0 or 1), and the number of bytes that follow. The lock file has one
 * line: LOCK_MARK, host, boot ID, PID namespace, PID, the process's start time, time of locking. */
#define ANSWER_MARK "hires-flow squeue 2 "
#define LOCK_MARK   "hires-flow turn 1 "
enum { LIMIT_BYTES = 256 << 20, HEAD_BYTES = 160, LOCK_BYTES = 400 };

struct hrf_queue_cache {
    char *path, *lock_path;
    struct hrf_owner self;
    char last_remote_head[HEAD_BYTES]; /* first line of another machine's last answer; "" = none */
    char lock_text[LOCK_BYTES];        /* content of our lock file; "" while we do not hold it */
    char refused_holder[LOCK_BYTES];   /* content of the lock file that refused us; "" = none */
    int64_t refused_since_ms;          /* when it first did; 0 = it does not */
};

/* ---- location ---- */

static enum hrf_status name_cache(const char *site, char out[64], struct hrf_error *err)
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
    const char *runtime = getenv("XDG_RUNTIME_DIR"); /* private to the user on this machine */
    if (runtime != NULL && runtime[0] == '/')
        return hrf_path_join(runtime, "hires-flow");
    return hrf_format("/tmp/hires-flow-%ld", (long)getuid());
}

static void set_place(struct hrf_queue_cache *cache, const char *folder, const char *name)
{
    cache->path = hrf_path_join(folder, name);
    cache->lock_path = hrf_format("%s.turn", cache->path);
}

/* With HRF_OK, `err` is empty, or says why the directory of this machine is used. */
static enum hrf_status find_place(struct hrf_queue_cache *cache, const char *shared,
                                  const char *own, const char *site, struct hrf_error *err)
{
    char name[64];
    struct hrf_error other = { .status = HRF_OK };
    HRF_AUTO_FREE char *preferred = shared != NULL ? hrf_strdup(shared) : hrf_cache_directory(NULL);
    HRF_AUTO_FREE char *fallback = own != NULL ? hrf_strdup(own) : own_folder();
    HRF_TRY(name_cache(site, name, err));
    if (check_folder(preferred, err) == HRF_OK) {
        set_place(cache, preferred, name);
        return HRF_OK;
    }
    HRF_TRY(check_folder(fallback, &other));
    set_place(cache, fallback, name);
    return HRF_OK;
}

static bool read_text(const char *path, char *out, size_t size)
{
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? pread(fd, out, size - 1, 0) : -1;
    out[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

struct hrf_queue_cache *hrf_queue_cache_open(const char *shared, const char *own, const char *site,
                                             struct hrf_error *err)
{
    struct hrf_queue_cache *cache = hrf_calloc(1, sizeof *cache);
    cache->self = hrf_owner_self();
    if (cache->self.boot[0] == '\0' || find_place(cache, shared, own, site, err) != HRF_OK) {
        hrf_queue_cache_close(cache);
        return NULL;
    }
    /* What is there now is old. */
    read_text(cache->path, cache->last_remote_head, sizeof cache->last_remote_head);
    cache->last_remote_head[strcspn(cache->last_remote_head, "\n")] = '\0';
    return cache;
}

void hrf_queue_cache_close(struct hrf_queue_cache *cache)
{
    if (cache == NULL)
        return;
    hrf_queue_cache_unlock(cache);
    hrf_free(cache->path);
    hrf_free(cache->lock_path);
    hrf_free(cache);
}

const char *hrf_queue_cache_path(const struct hrf_queue_cache *cache)
{
    return cache != NULL ? cache->path : NULL;
}

/* ---- reading ---- */

/* Reads the number after the blank at *at and moves *at behind it; -1 if there is none. */
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

/* Parses the first line of the answer's file. *begin is the offset of the text that follows.
 * Returns false if the line is not valid. */
static bool read_head(const struct hrf_queue_cache *cache, const char *text,
                      struct hrf_queue_answer *out, size_t *begin)
{
    const size_t mark = strlen(ANSWER_MARK);
    if (strncmp(text, ANSWER_MARK, mark) != 0)
        return false;
    const char *boot = text + mark, *at = boot + strcspn(boot, " \n");
    const size_t n = (size_t)(at - boot);
    if (n == 0)
        return false;
    out->is_from_other_host = n != strlen(cache->self.boot) ||
                              strncmp(boot, cache->self.boot, n) != 0;
    const int64_t asked_ms = take_number(&at);
    out->asked_ms = out->is_from_other_host ? 0 : asked_ms;
    out->took_ms = take_number(&at);
    const int64_t succeeded = take_number(&at), n_bytes = take_number(&at);
    if (asked_ms < 0 || out->took_ms < 0 || succeeded < 0 || n_bytes < 0 || *at != '\n')
        return false;
    out->succeeded = succeeded != 0;
    out->n_bytes = (size_t)n_bytes;
    *begin = (size_t)(at + 1 - text);
    return true;
}

static bool is_new(const struct hrf_queue_cache *cache, const struct hrf_queue_answer *answer,
                   const char *head, size_t begin, int64_t since_ms)
{
    if (!answer->is_from_other_host)
        return answer->asked_ms > since_ms;
    return strlen(cache->last_remote_head) != begin - 1 ||
           strncmp(cache->last_remote_head, head, begin - 1) != 0;
}

bool hrf_queue_cache_read(struct hrf_queue_cache *cache, int64_t since_ms,
                          struct hrf_queue_answer *out)
{
    char head[HEAD_BYTES];
    struct hrf_queue_answer answer = { .text = NULL };
    size_t at, n_bytes = 0;
    HRF_AUTO_FREE char *text = NULL;
    if (cache == NULL || !read_text(cache->path, head, sizeof head) ||
        !read_head(cache, head, &answer, &at) || !is_new(cache, &answer, head, at, since_ms))
        return false;
    /* The file may have been replaced since; the head that counts is the one read together with the
     * text. */
    if (hrf_file_read(cache->path, LIMIT_BYTES, &text, &n_bytes, NULL) != HRF_OK ||
        !read_head(cache, text, &answer, &at) || answer.n_bytes != n_bytes - at ||
        !is_new(cache, &answer, text, at, since_ms))
        return false;
    answer.text = hrf_strndup(text + at, answer.n_bytes);
    if (answer.is_from_other_host)
        snprintf(cache->last_remote_head, sizeof cache->last_remote_head, "%.*s", (int)at - 1,
                 text);
    *out = answer;
    return true;
}

/* ---- the lock ---- */

/* Copies the word at *at and moves *at behind the blank after it. Returns false if there is no word
 * or it is too long. */
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
    const char *at = text + strlen(LOCK_MARK);
    *out = (struct hrf_owner){ .beat_ms = INT64_MAX / 2 }; /* never stale: no clocks are compared */
    if (strncmp(text, LOCK_MARK, strlen(LOCK_MARK)) != 0 ||
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

/* True if the lock can be taken over: its holder is dead, or has refused us for `patience_ms`. */
static bool is_abandoned(struct hrf_queue_cache *cache, int64_t now_ms, int64_t patience_ms)
{
    char text[LOCK_BYTES];
    struct hrf_owner holder;
    if (!read_text(cache->lock_path, text, sizeof text))
        return true; /* unlocked in the meantime */
    if (read_holder(text, &holder) && hrf_owner_life(&holder, &cache->self) == HRF_OWNER_DEAD)
        return true;
    if (cache->refused_since_ms == 0 || strcmp(text, cache->refused_holder) != 0) {
        snprintf(cache->refused_holder, sizeof cache->refused_holder, "%s", text);
        cache->refused_since_ms = now_ms;
        return false;
    }
    return now_ms - cache->refused_since_ms >= patience_ms;
}

/* HRF_E_AGAIN: another driver holds the lock. HRF_E_EXTERNAL: the lock file cannot be written. */
static enum hrf_status make_lock(struct hrf_queue_cache *cache, int64_t now_ms)
{
    const struct hrf_owner *me = &cache->self;
    HRF_AUTO_CLOSE int fd = open(cache->lock_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? HRF_E_AGAIN : HRF_E_EXTERNAL;
    const int n = snprintf(cache->lock_text, sizeof cache->lock_text,
                           LOCK_MARK "%s %s %s %lld %llu %lld\n", me->host, me->boot, me->pid_space,
                           (long long)me->pid, (unsigned long long)me->start_time,
                           (long long)now_ms);
    if (hrf_file_write_all(fd, cache->lock_text, (size_t)n, cache->lock_path, NULL) == HRF_OK)
        return HRF_OK;
    unlink(cache->lock_path);
    cache->lock_text[0] = '\0';
    return HRF_E_EXTERNAL;
}

bool hrf_queue_cache_lock(struct hrf_queue_cache *cache, int64_t now_ms, int64_t patience_ms)
{
    if (cache == NULL)
        return true;
    enum hrf_status made = make_lock(cache, now_ms);
    if (made == HRF_E_AGAIN && is_abandoned(cache, now_ms, patience_ms)) {
        unlink(cache->lock_path);
        made = make_lock(cache, now_ms);
    }
    if (made != HRF_E_AGAIN)
        cache->refused_since_ms = 0;
    return made != HRF_E_AGAIN; /* HRF_E_EXTERNAL: this driver asks without a lock */
}

static bool holds_lock(const struct hrf_queue_cache *cache)
{
    char text[LOCK_BYTES];
    return cache->lock_text[0] != '\0' && read_text(cache->lock_path, text, sizeof text) &&
           strcmp(text, cache->lock_text) == 0;
}

/* Not synced to disk: after a power cut the answer has another boot ID, or is asked for again. */
static void write_answer(const struct hrf_queue_cache *cache, const struct hrf_queue_answer *answer)
{
    char head[HEAD_BYTES];
    const int n = snprintf(head, sizeof head, ANSWER_MARK "%s %lld %lld %d %zu\n", cache->self.boot,
                           (long long)answer->asked_ms, (long long)answer->took_ms,
                           (int)answer->succeeded, answer->n_bytes);
    HRF_AUTO_FREE char *fresh = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    if (hrf_file_temporary(cache->path, &fresh, &fd, NULL) != HRF_OK)
        return;
    if (hrf_file_write_all(fd, head, (size_t)n, fresh, NULL) == HRF_OK &&
        hrf_file_write_all(fd, answer->text, answer->n_bytes, fresh, NULL) == HRF_OK &&
        rename(fresh, cache->path) == 0)
        return;
    unlink(fresh);
}

void hrf_queue_cache_put(struct hrf_queue_cache *cache, const struct hrf_queue_answer *answer)
{
    if (cache != NULL && holds_lock(cache))
        write_answer(cache, answer);
    hrf_queue_cache_unlock(cache);
}

void hrf_queue_cache_unlock(struct hrf_queue_cache *cache)
{
    if (cache == NULL)
        return;
    if (holds_lock(cache))
        unlink(cache->lock_path);
    cache->lock_text[0] = '\0';
}
