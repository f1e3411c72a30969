/* probe.c - `hires-engine ranks`: whether the ranks that were started find each other. */
#include "base/clock.h"
#include "base/host.h"
#include "base/module.h"
#include "base/strbuf.h"
#include "engine/cli/cli.h"
#include "engine/comm/mpi/mpi.h"
#include "module_builds.h"

#include <stdio.h>

enum { TAG_HOST = 1, TAG_PING = 2, N_PINGS = 100, DEADLINE_MS = 20000, HOST_BYTES = 64 };

/* Rank 0 hears from everyone; the others answer it. Half of a round trip, s. */
static enum hrf_status talk(struct hrf_comm *comm, struct hrf_strbuf *hosts, double *latency,
                            struct hrf_error *err)
{
    char host[HOST_BYTES] = "";
    hrf_process_host_name(host, sizeof host);
    *latency = 0;
    if (comm->rank != 0) {
        HRF_TRY(comm->ops->send(comm, 0, TAG_HOST, host, sizeof host, err));
        for (int i = 0; i < N_PINGS && comm->rank == 1; i++) {
            HRF_TRY(comm->ops->receive(comm, 0, TAG_PING, host, 1, err));
            HRF_TRY(comm->ops->send(comm, 0, TAG_PING, host, 1, err));
        }
        return HRF_OK;
    }
    hrf_strbuf_adds(hosts, host);
    for (int32_t r = 1; r < comm->n_ranks; r++) {
        HRF_TRY(comm->ops->receive(comm, r, TAG_HOST, host, sizeof host, err));
        host[sizeof host - 1] = '\0';
        hrf_strbuf_addf(hosts, ", %s", host);
    }
    const double start = hrf_clock_seconds();
    for (int i = 0; i < N_PINGS && comm->n_ranks > 1; i++) {
        HRF_TRY(comm->ops->send(comm, 1, TAG_PING, host, 1, err));
        HRF_TRY(comm->ops->receive(comm, 1, TAG_PING, host, 1, err));
    }
    *latency = (hrf_clock_seconds() - start) / (2 * N_PINGS);
    return HRF_OK;
}

static enum hrf_status probe(int64_t n_ranks, struct hrf_error *err)
{
    const void *operations;
    const struct hrf_mpi_config config = { .deadline_ms = DEADLINE_MS,
                                           .n_ranks = (int32_t)n_ranks,
                                           .abort_code = 1 };
    struct hrf_comm *comm = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) hosts = HRF_STRBUF_INIT;
    double latency;
    char version[128];
    HRF_TRY(hrf_module_load("mpi", HRF_BUILD_MPI, &operations, err));
    const struct hrf_mpi_module *mpi = operations;
    HRF_TRY(mpi->create(&config, &comm, err));
    enum hrf_status status = talk(comm, &hosts, &latency, err);
    mpi->version(version, sizeof version);
    if (status == HRF_OK && comm->rank == 0)
        printf("%d ranks on %s by %s, a message takes %.0f us\n", comm->n_ranks, hosts.text,
               version, latency * 1e6);
    fflush(stdout);
    mpi->destroy(comm);
    return status;
}

int hrf_engine_ranks(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_ranks_request request = { .expect = 0 };
    struct hrf_args args = hrf_args_parse_request(HRF_ENGINE_PROGRAM, command, hrf_ranks_options,
                                                  &request, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    return probe(request.expect, &err) == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
