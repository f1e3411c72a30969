/* nccl.c - a thin layer over NCCL that turns its codes into statuses with text (nccl.h). */
#include "engine/comm/nccl/nccl.h"

#include "base/alloc.h"
#include "base/module.h"
#include "module_builds.h"

#include <nccl.h>
#include <stdbool.h>
#include <string.h>

/* NCCL 2.13 is the first with sends and receives in recorded graphs and with error texts. */
enum { OLDEST = 21300 };

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct hrf_nccl_id), "an id is passed on as bytes");

struct hrf_nccl {
    ncclComm_t comm;
    bool is_aborted;
};

/* NCCL's last error text says what failed; the code alone says little. */
static enum hrf_status nccl_fail(ncclComm_t comm, ncclResult_t code, const char *what,
                                 struct hrf_error *err)
{
    const char *detail = ncclGetLastError(comm);
    const bool has_detail = detail != NULL && *detail != '\0';
    return hrf_error_set_foreign(err, HRF_E_EXTERNAL, "nccl", (int)code, "NCCL, %s: %s%s%s", what,
                                 ncclGetErrorString(code), has_detail ? ": " : "",
                                 has_detail ? detail : "");
}

#define TRY_NCCL(comm, call, what)                                                                 \
    do {                                                                                           \
        const ncclResult_t try_nccl_code_ = (call);                                                \
        if (try_nccl_code_ != ncclSuccess)                                                         \
            return nccl_fail(comm, try_nccl_code_, what, err);                                     \
    } while (0)

/* Before 2.9 the major number was multiplied by 1000 in place of 10000. */
static int plain_version(int code)
{
    return code < 10000 ? code / 1000 * 10000 + code % 1000 : code;
}

static enum hrf_status versions(int *header, int *library, struct hrf_error *err)
{
    int found = 0;
    TRY_NCCL(NULL, ncclGetVersion(&found), "asking for its version");
    *header = plain_version(NCCL_VERSION_CODE);
    *library = plain_version(found);
    if (*library / 10000 != *header / 10000 || *library < OLDEST)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "libnccl.so.2 is NCCL %d.%d.%d and this build, made with %d.%d.%d, "
                             "takes %d.%d or newer of the same major number; put such a one first "
                             "in LD_LIBRARY_PATH, or use --comm ipc or mpi",
                             *library / 10000, *library / 100 % 100, *library % 100,
                             *header / 10000, *header / 100 % 100, *header % 100, OLDEST / 10000,
                             OLDEST / 100 % 100);
    return HRF_OK;
}

static enum hrf_status make_id(struct hrf_nccl_id *out, struct hrf_error *err)
{
    ncclUniqueId id;
    TRY_NCCL(NULL, ncclGetUniqueId(&id), "naming a group of ranks");
    memcpy(out->bytes, &id, sizeof id);
    return HRF_OK;
}

static enum hrf_status nccl_create(const struct hrf_nccl_id *id, int32_t rank, int32_t n_ranks,
                                   struct hrf_nccl **out, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_nccl *nccl = hrf_calloc(1, sizeof *nccl);
    ncclUniqueId name;
    memcpy(&name, id->bytes, sizeof name);
    TRY_NCCL(NULL, ncclCommInitRank(&nccl->comm, n_ranks, name, rank), "joining a group of ranks");
    HRF_MOVE(*out, nccl);
    return HRF_OK;
}

static void nccl_stop(struct hrf_nccl *nccl)
{
    if (!nccl->is_aborted)
        (void)ncclCommAbort(nccl->comm); /* also frees the communicator */
    nccl->is_aborted = true;
}

static void nccl_destroy(struct hrf_nccl *nccl)
{
    if (nccl == NULL)
        return;
    if (!nccl->is_aborted)
        (void)ncclCommDestroy(nccl->comm);
    hrf_free(nccl);
}

static enum hrf_status begin(struct hrf_nccl *nccl, struct hrf_error *err)
{
    TRY_NCCL(nccl->comm, ncclGroupStart(), "beginning an exchange");
    return HRF_OK;
}

static enum hrf_status nccl_send(struct hrf_nccl *nccl, int32_t to, const void *bytes,
                                 size_t n_bytes, void *queue, struct hrf_error *err)
{
    TRY_NCCL(nccl->comm, ncclSend(bytes, n_bytes, ncclInt8, to, nccl->comm, queue),
             "sending to another rank");
    return HRF_OK;
}

static enum hrf_status nccl_receive(struct hrf_nccl *nccl, int32_t from, void *bytes,
                                    size_t n_bytes, void *queue, struct hrf_error *err)
{
    TRY_NCCL(nccl->comm, ncclRecv(bytes, n_bytes, ncclInt8, from, nccl->comm, queue),
             "receiving from another rank");
    return HRF_OK;
}

static enum hrf_status end(struct hrf_nccl *nccl, struct hrf_error *err)
{
    TRY_NCCL(nccl->comm, ncclGroupEnd(), "exchanging with other ranks");
    return HRF_OK;
}

static enum hrf_status nccl_check(struct hrf_nccl *nccl, struct hrf_error *err)
{
    ncclResult_t code = ncclSuccess;
    TRY_NCCL(nccl->comm, ncclCommGetAsyncError(nccl->comm, &code), "looking after an exchange");
    if (code != ncclSuccess && code != ncclInProgress)
        return nccl_fail(nccl->comm, code, "exchanging with other ranks", err);
    return HRF_OK;
}

static const struct hrf_nccl_module operations = {
    .versions = versions,
    .make_id = make_id,
    .create = nccl_create,
    .destroy = nccl_destroy,
    .begin = begin,
    .send = nccl_send,
    .receive = nccl_receive,
    .end = end,
    .check = nccl_check,
    .abort = nccl_stop,
};

extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .build = HRF_BUILD_NCCL, .operations = &operations };
