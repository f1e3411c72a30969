/* comm_itself.c - run by 4 MPI ranks (comm.sh): long messages come in parts as they were sent, and
 * groups of ranks talk among themselves without hearing each other. Exit code 0: all held.
 *
 * comm_itself stop: rank 1 is stopped in the middle of a message to rank 0, which ends all. */
#include "base/alloc.h"
#include "base/module.h"
#include "engine/comm/mpi/mpi.h"
#include "module_builds.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, PART = 1000, TAG = 3, LONG_MESSAGE = 32 << 20 };

static struct hrf_comm *world; /* ended by the first that finds a fault */

static void must(enum hrf_status status, const struct hrf_error *err, const char *what)
{
    char text[sizeof err->text + 64];
    if (status == HRF_OK)
        return;
    snprintf(text, sizeof text, "%s: %s", what, err->text);
    fprintf(stderr, "%s\n", text);
    if (world != NULL)
        world->ops->abort(world, text);
    _exit(1);
}

static void check(bool holds, const char *what)
{
    static const struct hrf_error no = { .text = "does not hold" };
    must(holds ? HRF_OK : HRF_E_BUG, &no, what);
}

static unsigned char byte_at(int32_t from, int32_t to, size_t n_bytes, size_t i)
{
    return (unsigned char)(i * 31 + i / PART * 7 + n_bytes + (size_t)from * 5 + (size_t)to);
}

/* Every rank sends every other one messages around the edges of a part, and takes what it gets. */
static void exchange(struct hrf_comm *comm)
{
    static const size_t sizes[] = { 0, 1, PART - 1, PART, PART + 1, 2 * PART, 123457 };
    const int32_t n = comm->n_ranks, me = comm->rank;
    const int64_t before = comm->n_messages;
    struct hrf_error err = { .status = HRF_OK };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t size = sizes[s];
        HRF_AUTO_FREE unsigned char *bytes = hrf_alloc(size + 1);
        check(bytes != NULL, "memory");
        for (int32_t k = 1; k < n; k++) {
            const int32_t to = (me + k) % n;
            for (size_t i = 0; i < size; i++)
                bytes[i] = byte_at(me, to, size, i);
            must(comm->ops->send(comm, to, TAG, bytes, size, &err), &err, "send");
        }
        for (int32_t from = 0; from < n; from++) {
            if (from == me)
                continue;
            memset(bytes, 0xee, size + 1);
            must(comm->ops->receive(comm, from, TAG, bytes, size, &err), &err, "receive");
            bool same = bytes[size] == 0xee;
            for (size_t i = 0; i < size; i++)
                same &= bytes[i] == byte_at(from, me, size, i);
            check(same, "what was sent is what came");
        }
    }
    check(comm->n_messages - before == (n - 1) * (int64_t)(sizeof sizes / sizeof sizes[0]),
          "a message in parts counts once");
}

/* Two groups of two; the same tag at once in the world, a group and a second comm of the group. */
static void groups(const struct hrf_mpi_module *mpi)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_comm *comms[3] = { world }, *leaders;
    const int32_t pair = world->rank / 2, other = world->rank ^ 1;
    for (int i = 1; i < 3; i++)
        must(mpi->group(world, pair, &comms[i], &err), &err, "a group");
    must(mpi->group(world, world->rank % 2 == 0 ? 0 : -1, &leaders, &err), &err, "leaders");
    check((leaders == NULL) == (world->rank % 2 == 1), "a rank that is in no group has none");
    check(leaders == NULL || (leaders->n_ranks == 2 && leaders->rank == pair), "leaders in order");
    check(comms[1]->n_ranks == 2 && comms[1]->rank == world->rank % 2, "a pair in order");
    for (int i = 0; i < 3; i++) {
        const int32_t said = world->rank * 10 + i;
        must(comms[i]->ops->send(comms[i], i == 0 ? other : other % 2, TAG, &said, sizeof said,
                                 &err),
             &err, "send in a group");
    }
    for (int i = 2; i >= 0; i--) { /* not in the order in which they were sent */
        int32_t said = -1;
        must(comms[i]->ops->receive(comms[i], i == 0 ? other : other % 2, TAG, &said, sizeof said,
                                    &err),
             &err, "receive in a group");
        check(said == other * 10 + i, "a group hears only its own");
    }
    exchange(comms[1]);
    if (leaders != NULL)
        exchange(leaders);
}

static void stop_in_a_message(void)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE unsigned char *bytes = hrf_calloc(LONG_MESSAGE, 1);
    check(bytes != NULL, "memory");
    if (world->rank == 1) {
        must(world->ops->send(world, 0, TAG, bytes, LONG_MESSAGE, &err), &err, "send");
        raise(SIGSTOP);
    }
    if (world->rank == 0)
        must(world->ops->receive(world, 1, TAG, bytes, LONG_MESSAGE, &err), &err, "receive");
}

int main(int argc, char **argv)
{
    const bool stops = argc > 1 && strcmp(argv[1], "stop") == 0;
    const struct hrf_mpi_config config = { .deadline_ms = stops ? 6000 : 30000,
                                           .n_ranks = stops ? 2 : RANKS,
                                           .abort_code = 3,
                                           .part_bytes = stops ? LONG_MESSAGE : PART };
    struct hrf_error err = { .status = HRF_OK };
    const void *operations = NULL;
    must(hrf_module_load("mpi", HRF_BUILD_MPI, &operations, &err), &err, "the module");
    const struct hrf_mpi_module *mpi = operations;
    must(mpi->create(&config, &world, &err), &err, "the ranks");
    if (stops) {
        stop_in_a_message();
        mpi->destroy(world);
        return 0;
    }
    exchange(world);
    groups(mpi);
    if (world->rank == 0)
        printf("%d ranks: long messages and groups hold\n", RANKS);
    mpi->destroy(world);
    return 0;
}
