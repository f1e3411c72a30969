/* tile_job.h - the worker of a tile job: all of it for hires-flow, and its parts for the worker
 * whose tissue a network finds (engine/tile_worker). */
#ifndef HRF_TILER_PLAN_TILE_JOB_H
#define HRF_TILER_PLAN_TILE_JOB_H

#include "schema/record/job.h"
#include "tiler/tissue/tissue_network.h"

/* Reads the spec, tiles the slide of every task and commits each result as soon as it is done. The
 * record is the encoded tile plan; the outcome is done, no tissue, or failed with a reason. A slide
 * that cannot be used fails only its own task. Records are written to the directory of the spec.
 *
 * Returns the exit code: 0 if every task has a status, 75 if the job may be tried again (disk full,
 * no memory, attempt revoked), 1 if the spec cannot be used. The reason is printed on stderr. */
int hrf_tile_job_main(const char *spec_path);

/* The same in three steps. HRF_E_USER: not the spec of a tile job. */
HRF_CHECKED enum hrf_status hrf_tile_job_read(const char *spec_path, struct hrf_job_spec **out,
                                              struct hrf_error *err);
/* network: as in tile.h; NULL: none. */
HRF_CHECKED enum hrf_status hrf_tile_job_do(const struct hrf_job_spec *spec, const char *spec_path,
                                            const struct hrf_tissue_network *network,
                                            struct hrf_error *err);
int hrf_tile_job_exit_code(enum hrf_status status);

#endif
