/* mpi.c - the communication back end over MPI: messages, groups, start and end (mpi.h). */
#include "engine/comm/mpi/mpi.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/host.h"
#include "base/module.h"
#include "engine/comm/mpi/heartbeat.h"
#include "engine/comm/mpi/mpi_error.h"
#include "engine/comm/mpi/watchdog.h"
#include "module_builds.h"

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPI promises tags up to MAX_TAG. */
enum { MAX_TAG = 32767, PART_BYTES = 1 << 30, MAX_GROUPS = 8 };

struct sent { /* a message in flight, kept until MPI has sent it */
    MPI_Request request;
    void *bytes;
    struct sent *next;
};

struct expected { /* a message whose receive is posted early */
    MPI_Request request;
    bool has_begun; /* MPI has matched the message */
    int32_t from;
    int64_t tag;
    void *bytes;
    struct expected *next;
};

/* All ranks, or a group of them. */
struct mpi_comm {
    struct hrf_comm base;
    struct world *world;
    int32_t *ranks; /* [n_ranks] in the world; NULL: this is the world */
    struct sent *on_their_way;
    struct expected *expected; /* at most one for each sender and tag */
    MPI_Comm messages;
};

/* State that exists once in a process. */
struct world {
    struct mpi_comm all; /* first member: mpi_create() returns its address */
    struct hrf_mpi_config config;
    struct hrf_mpi_heartbeat *heartbeat;
    struct mpi_comm *groups[MAX_GROUPS];
    atomic_int n_groups; /* the heartbeat adds up their steps */
    char host[64];
};

static struct mpi_comm *mpi_of(struct hrf_comm *comm)
{
    return (struct mpi_comm *)comm;
}

static int32_t in_world(const struct mpi_comm *c, int32_t rank)
{
    return c->ranks != NULL ? c->ranks[rank] : rank;
}

enum hrf_status hrf_mpi_fail(struct hrf_error *err, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return hrf_error_set_foreign(err, HRF_E_EXTERNAL, "mpi", code, "%s: %s", what, text);
}

/* ---- messages ---- */

static void end_group(struct hrf_comm *comm, const char *why)
{
    const struct world *w = mpi_of(comm)->world;
    fprintf(stderr, "rank %d on %s ends all %d ranks: %s\n", w->all.base.rank, w->host,
            w->all.base.n_ranks, why);
    fflush(stderr);
    if (w->config.on_abort != NULL)
        w->config.on_abort(w->config.context, why);
    MPI_Abort(MPI_COMM_WORLD, w->config.abort_code);
}

static void forget_sent(struct mpi_comm *c)
{
    for (struct sent **at = &c->on_their_way; *at != NULL;) {
        struct sent *s = *at;
        int done = 0;
        if (MPI_Test(&s->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        hrf_free(s->bytes);
        hrf_free(s);
    }
}

static enum hrf_status check_message(const struct hrf_comm *comm, int32_t peer, int64_t tag,
                                     size_t n_bytes, struct hrf_error *err)
{
    if (peer < 0 || peer >= comm->n_ranks || tag < 0 || tag > MAX_TAG)
        return hrf_error_set(err, HRF_E_BUG, "a message of %zu bytes, tag %lld, with rank %d of %d",
                             n_bytes, (long long)tag, peer, comm->n_ranks);
    return HRF_OK;
}

static enum hrf_status send_part(struct mpi_comm *c, int32_t to, int64_t tag, const void *bytes,
                                 size_t n_bytes, struct hrf_error *err)
{
    HRF_AUTO_FREE void *copy = hrf_try_alloc(n_bytes > 0 ? n_bytes : 1);
    HRF_CHECK_MEMORY(copy != NULL, err, "no memory for a message of %zu bytes", n_bytes);
    struct sent *s = hrf_calloc(1, sizeof *s);
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    const int code = MPI_Isend(copy, (int)n_bytes, MPI_BYTE, to, (int)tag, c->messages,
                               &s->request);
    if (code != MPI_SUCCESS) {
        hrf_free(s);
        return hrf_mpi_fail(err, code, "cannot send to another rank");
    }
    HRF_MOVE(s->bytes, copy);
    s->next = c->on_their_way;
    c->on_their_way = s;
    return HRF_OK;
}

/* The size of the part of a message that begins at `at`: MPI counts in int, so a long message goes
 * in parts. */
static size_t part_after(const struct mpi_comm *c, size_t at, size_t n_bytes)
{
    const int64_t asked = c->world->config.part_bytes;
    const size_t most = asked > 0 ? (size_t)asked : PART_BYTES;
    return n_bytes - at < most ? n_bytes - at : most;
}

static enum hrf_status mpi_send(struct hrf_comm *comm, int32_t to, int64_t tag, const void *bytes,
                                size_t n_bytes, struct hrf_error *err)
{
    struct mpi_comm *c = mpi_of(comm);
    const double start = hrf_clock_seconds();
    size_t at = 0;
    HRF_TRY(check_message(comm, to, tag, n_bytes, err));
    forget_sent(c);
    do {
        const size_t n = part_after(c, at, n_bytes);
        HRF_TRY(send_part(c, to, tag, (const char *)bytes + at, n, err));
        at += n;
    } while (at < n_bytes);
    hrf_comm_count_sent(comm, n_bytes, hrf_clock_seconds() - start);
    atomic_fetch_add(&comm->steps, 1);
    return HRF_OK;
}

/* Pauses between two polls: not at all at first, then it yields the processor. A message that has
 * begun to arrive advances only through these polls. */
static void rest(int64_t waited_ns, bool has_begun)
{
    if (waited_ns > 50000000 && !has_begun)
        hrf_clock_sleep_ms(1);
    else if (waited_ns > 200000)
        sched_yield();
}

/* Polls once for the message. An expected message is then in its memory; any other is matched as
 * `message`. */
static enum hrf_status look(struct mpi_comm *c, int32_t from, int64_t tag,
                            struct expected *expected, MPI_Message *message, MPI_Status *status,
                            int *there, struct hrf_error *err)
{
    if (expected != NULL)
        TRY_MPI(MPI_Test(&expected->request, there, status), "cannot receive from another rank");
    else
        TRY_MPI(MPI_Improbe(from, (int)tag, c->messages, there, message, status),
                "cannot receive from another rank");
    return HRF_OK;
}

static enum hrf_status check_peer(const struct mpi_comm *c, int32_t peer, int64_t since_ns,
                                  struct hrf_error *err)
{
    const int64_t seen = hrf_mpi_heartbeat_seen_ns(c->world->heartbeat, in_world(c, peer));
    if (hrf_clock_ns() - (seen > since_ns ? seen : since_ns) <= c->base.deadline_ms * 1000000)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_AGAIN,
                         "rank %d hangs or has died: it has shown no progress for %lld s",
                         in_world(c, peer), (long long)c->base.deadline_ms / 1000);
}

static enum hrf_status watch_peer(struct hrf_comm *comm, int32_t peer, int64_t since_ns,
                                  struct hrf_error *err)
{
    atomic_fetch_add(&comm->steps, 1);
    return check_peer(mpi_of(comm), peer, since_ns, err);
}

static enum hrf_status wait_for(struct mpi_comm *c, int32_t from, int64_t tag,
                                struct expected *expected, MPI_Message *message, MPI_Status *status,
                                struct hrf_error *err)
{
    const int64_t start = hrf_clock_ns();
    int64_t step_at = start;
    for (;;) {
        int there = 0;
        HRF_TRY(look(c, from, tag, expected, message, status, &there, err));
        const int64_t now = hrf_clock_ns();
        if (there) {
            c->base.waited += (double)(now - start) * 1e-9;
            return HRF_OK;
        }
        if (now - step_at > 100000000) { /* waiting counts as progress (comm.h) */
            atomic_fetch_add(&c->base.steps, 1);
            forget_sent(c);
            step_at = now;
        }
        if (check_peer(c, from, start, err) != HRF_OK) {
            end_group(&c->base, err != NULL ? err->text : "a rank hangs or has died");
            return HRF_E_AGAIN;
        }
        rest(now - start, expected != NULL && expected->has_begun);
    }
}

static struct expected **find_expected(struct mpi_comm *c, int32_t from, int64_t tag)
{
    struct expected **at = &c->expected;
    while (*at != NULL && ((*at)->from != from || (*at)->tag != tag))
        at = &(*at)->next;
    return at;
}

/* A message in several parts is left to mpi_receive(). */
static enum hrf_status expect(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                              size_t n_bytes, struct hrf_error *err)
{
    struct mpi_comm *c = mpi_of(comm);
    HRF_TRY(check_message(comm, from, tag, n_bytes, err));
    if (part_after(c, 0, n_bytes) < n_bytes)
        return HRF_OK;
    struct expected *e = hrf_calloc(1, sizeof *e);
    *e = (struct expected){ .from = from, .tag = tag, .bytes = bytes };
    const int code = MPI_Irecv(bytes, (int)n_bytes, MPI_BYTE, from, (int)tag, c->messages,
                               &e->request);
    if (code != MPI_SUCCESS) {
        hrf_free(e);
        return hrf_mpi_fail(err, code, "cannot receive from another rank");
    }
    e->next = c->expected;
    c->expected = e;
    return HRF_OK;
}

/* Lets MPI advance its messages, because most implementations do so only inside of calls. */
static enum hrf_status progress(struct hrf_comm *comm, struct hrf_error *err)
{
    struct mpi_comm *c = mpi_of(comm);
    int there = 0;
    if (c->expected != NULL)
        TRY_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->messages, &there, MPI_STATUS_IGNORE),
                "cannot receive from other ranks");
    return HRF_OK;
}

static enum hrf_status receive_part(struct mpi_comm *c, int32_t from, int64_t tag, void *bytes,
                                    size_t n_bytes, struct hrf_error *err)
{
    struct hrf_error why;
    struct expected begun = { .has_begun = true };
    MPI_Message message;
    MPI_Status status;
    int found = 0;
    struct expected **at = find_expected(c, from, tag);
    HRF_AUTO_FREE struct expected *expected = *at;
    if (expected != NULL)
        *at = expected->next;
    if (err == NULL)
        err = &why;
    HRF_TRY(wait_for(c, from, tag, expected, &message, &status, err));
    TRY_MPI(MPI_Get_count(&status, MPI_BYTE, &found), "cannot size a message");
    if (found != (int)n_bytes || (expected != NULL && expected->bytes != bytes))
        return hrf_error_set(
            err, HRF_E_BUG, "rank %d sent %d bytes of tag %lld where rank %d takes %zu",
            in_world(c, from), found, (long long)tag, c->world->all.base.rank, n_bytes);
    if (expected != NULL)
        return HRF_OK;
    /* MPI_Mrecv would wait for ever if the sender stopped in the middle of a long message. */
    TRY_MPI(MPI_Imrecv(bytes, found, MPI_BYTE, &message, &begun.request),
            "cannot receive from another rank");
    return wait_for(c, from, tag, &begun, NULL, &status, err);
}

static enum hrf_status mpi_receive(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                                   size_t n_bytes, struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    size_t at = 0;
    HRF_TRY(check_message(comm, from, tag, n_bytes, err));
    do { /* parts of one message arrive in order */
        const size_t n = part_after(mpi_of(comm), at, n_bytes);
        HRF_TRY(receive_part(mpi_of(comm), from, tag, (char *)bytes + at, n, err));
        at += n;
    } while (at < n_bytes);
    hrf_comm_count_received(comm, hrf_clock_seconds() - start);
    atomic_fetch_add(&comm->steps, 1);
    return HRF_OK;
}

static int32_t waiting(struct hrf_comm *comm, int64_t tag)
{
    MPI_Status status;
    int there = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, (int)tag, mpi_of(comm)->messages, &there, &status) !=
            MPI_SUCCESS ||
        !there)
        return -1;
    return status.MPI_SOURCE;
}

static const struct hrf_comm_ops ops = {
    .name = "mpi",
    .send = mpi_send,
    .receive = mpi_receive,
    .expect = expect,
    .progress = progress,
    .waiting = waiting,
    .watch = watch_peer,
    .abort = end_group,
};

/* ---- begin and end ---- */

static void end_messages(struct mpi_comm *c)
{
    while (c->on_their_way != NULL) {
        struct sent *s = c->on_their_way;
        MPI_Wait(&s->request, MPI_STATUS_IGNORE);
        c->on_their_way = s->next;
        hrf_free(s->bytes);
        hrf_free(s);
    }
    while (c->expected != NULL) { /* left over from a failed run */
        struct expected *e = c->expected;
        MPI_Cancel(&e->request);
        MPI_Request_free(&e->request);
        c->expected = e->next;
        hrf_free(e);
    }
    hrf_free(c->ranks);
}

static void mpi_destroy(struct hrf_comm *comm)
{
    if (comm == NULL)
        return;
    struct world *w = mpi_of(comm)->world;
    struct hrf_mpi_watchdog watchdog;
    hrf_mpi_heartbeat_stop(w->heartbeat);
    hrf_mpi_watchdog_begin(&watchdog, &w->config, w->host, "end");
    for (int i = 0; i < atomic_load(&w->n_groups); i++) {
        end_messages(w->groups[i]);
        hrf_free(w->groups[i]);
    }
    end_messages(&w->all);
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (begun && !ended)
        MPI_Finalize(); /* a failure here can no longer be handled */
    hrf_mpi_watchdog_end(&watchdog);
    hrf_mpi_heartbeat_destroy(w->heartbeat);
    hrf_free(w);
}

/* ---- groups ---- */

static enum hrf_status name_ranks(struct mpi_comm *c, struct hrf_error *err)
{
    int rank = 0, n = 0;
    TRY_MPI(MPI_Comm_set_errhandler(c->messages, MPI_ERRORS_RETURN), "cannot set up a group");
    TRY_MPI(MPI_Comm_size(c->messages, &n), "cannot count the ranks of a group");
    TRY_MPI(MPI_Comm_rank(c->messages, &rank), "cannot number the ranks of a group");
    c->base.rank = rank;
    c->base.n_ranks = n;
    c->ranks = hrf_calloc((size_t)n, sizeof *c->ranks);
    const int me = c->world->all.base.rank;
    TRY_MPI(MPI_Allgather(&me, 1, MPI_INT, c->ranks, 1, MPI_INT, c->messages),
            "cannot name the ranks of a group");
    return HRF_OK;
}

/* *out NULL: this rank is in no group. */
static enum hrf_status split(struct world *w, int32_t number, struct mpi_comm **out,
                             struct hrf_error *err)
{
    MPI_Comm messages;
    *out = NULL;
    TRY_MPI(MPI_Comm_split(w->all.messages, number >= 0 ? number : MPI_UNDEFINED, w->all.base.rank,
                           &messages),
            "cannot make a group of ranks");
    hrf_crash_point("mpi.group.split");
    if (messages == MPI_COMM_NULL)
        return HRF_OK;
    struct mpi_comm *c = hrf_calloc(1, sizeof *c);
    c->base.ops = &ops;
    c->base.deadline_ms = w->all.base.deadline_ms;
    c->world = w;
    c->messages = messages;
    *out = c;
    return name_ranks(c, err);
}

static enum hrf_status group(struct hrf_comm *comm, int32_t number, struct hrf_comm **out,
                             struct hrf_error *err)
{
    struct world *w = mpi_of(comm)->world;
    const int n_groups = atomic_load(&w->n_groups);
    struct hrf_mpi_watchdog watchdog;
    struct mpi_comm *c;
    if (n_groups == MAX_GROUPS)
        return hrf_error_set(err, HRF_E_BUG, "more than %d groups of ranks", MAX_GROUPS);
    hrf_mpi_watchdog_begin(&watchdog, &w->config, w->host, "join its group");
    const enum hrf_status status = split(w, number, &c, err);
    hrf_mpi_watchdog_end(&watchdog);
    *out = NULL;
    if (c == NULL)
        return status;
    w->groups[n_groups] = c;
    atomic_store(&w->n_groups, n_groups + 1);
    *out = status == HRF_OK ? &c->base : NULL;
    return status;
}

static enum hrf_status check_number(int32_t n_ranks, int32_t wanted, struct hrf_error *err)
{
    if (wanted == 0 || n_ranks == wanted)
        return HRF_OK;
    if (n_ranks == 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "this rank is alone where there should be %d: MPI was not told of the "
                             "others; start it by `srun --mpi=pmix` of a Slurm that has PMIx "
                             "(`srun --mpi=list`) or by the mpirun of the same MPI",
                             wanted);
    return hrf_error_set(
        err, HRF_E_USER,
        "%d ranks were started and %d were asked for: start %d (mpirun -n %d, srun "
        "-n %d), or ask for a layout whose data x rows x columns x stages is %d",
        n_ranks, wanted, wanted, wanted, wanted, n_ranks);
}

/* The sum of the steps of the rank and its groups. */
static long long steps_of(void *context)
{
    struct world *w = context;
    long long steps = atomic_load(&w->all.base.steps);
    for (int i = atomic_load(&w->n_groups) - 1; i >= 0; i--)
        steps += atomic_load(&w->groups[i]->base.steps);
    return steps;
}

/* Makes the calls of the start that wait for every rank. */
static enum hrf_status start_mpi(struct world *w, int *level, struct hrf_error *err)
{
    TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level), "cannot start MPI");
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &w->all.messages), "cannot start MPI");
    HRF_TRY(hrf_mpi_heartbeat_create(steps_of, w, &w->heartbeat, err));
    TRY_MPI(MPI_Barrier(w->all.messages), "cannot start MPI");
    return HRF_OK;
}

static enum hrf_status begin(struct world *w, struct hrf_error *err)
{
    int level = 0, rank = 0, n_ranks = 0;
    struct hrf_mpi_watchdog watchdog;
    hrf_mpi_watchdog_begin(&watchdog, &w->config, w->host, "begin");
    const enum hrf_status status = start_mpi(w, &level, err);
    hrf_mpi_watchdog_end(&watchdog);
    HRF_TRY(status);
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks), "cannot count the ranks");
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "cannot number the ranks");
    w->all.base.rank = rank;
    w->all.base.n_ranks = n_ranks;
    HRF_TRY(check_number(n_ranks, w->config.n_ranks, err));
    if (level < MPI_THREAD_MULTIPLE)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "this MPI does not let threads call it (MPI_THREAD_MULTIPLE)");
    TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "cannot set up MPI");
    TRY_MPI(MPI_Comm_set_errhandler(w->all.messages, MPI_ERRORS_RETURN), "cannot set up MPI");
    return hrf_mpi_heartbeat_start(w->heartbeat, err);
}

static enum hrf_status mpi_create(const struct hrf_mpi_config *config, struct hrf_comm **out,
                                  struct hrf_error *err)
{
    struct world *w = hrf_calloc(1, sizeof *w);
    w->all.world = w;
    w->all.base.ops = &ops;
    w->all.base.deadline_ms = config->deadline_ms;
    w->config = *config;
    hrf_process_host_name(w->host, sizeof w->host);
    enum hrf_status status = begin(w, err);
    if (status != HRF_OK) {
        mpi_destroy(&w->all.base);
        return status;
    }
    *out = &w->all.base;
    return HRF_OK;
}

static void version(char *out, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    snprintf(out, size, "%.*s", (int)strcspn(text, "\n,"), text);
}

static const struct hrf_mpi_module operations = {
    .create = mpi_create,
    .destroy = mpi_destroy,
    .group = group,
    .waiting = waiting,
    .version = version,
};

const struct hrf_module hrf_module = { .build = HRF_BUILD_MPI, .operations = &operations };
