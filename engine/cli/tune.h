/* tune.h - what `tune-comm` puts into its table. */
#ifndef HRF_ENGINE_CLI_TUNE_H
#define HRF_ENGINE_CLI_TUNE_H

#include "engine/cli/comm.h"
#include "engine/plan/machine.h"

/* In place of what stood there for the same carrier, placement and kind of memory. */
HRF_CHECKED enum hrf_status hrf_tune_keep_link(struct hrf_machine *machine,
                                               const struct hrf_link *link, struct hrf_error *err);
/* Between the GPUs of all pairs of ranks, by every carrier (`asked` NULL or "auto") or one of them,
 * which then has to be possible. Prints what each pair takes unless `is_quiet`; the slowest pair of
 * a placement is kept, of those with a GPU each where there are such. */
HRF_CHECKED enum hrf_status hrf_tune_gpus(const struct hrf_joined *joined, const char *asked,
                                          int64_t largest_bytes, bool is_quiet,
                                          struct hrf_machine *machine, struct hrf_error *err);

#endif
