/* head.h - what `head train` and `head score` share. */
#ifndef HRF_ENGINE_CLI_HEAD_H
#define HRF_ENGINE_CLI_HEAD_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_head_request {
    const char *program, *out, *attention, *set, *seed;
    int64_t jobs, threads, fold; /* fold -1: all */
    bool json, keys, seen, mixed;
    const char *const *files; /* after the verb */
    int n_files;
};
HRF_CHECKED enum hrf_status hrf_head_train(const struct hrf_head_request *request,
                                           struct hrf_error *err);

#endif
