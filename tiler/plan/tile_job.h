/* tile_job.h - the worker of a tile job: a main function for hires-flow, and its parts for the
 * worker in which a network finds tissue (engine/tile_worker). */
#ifndef HRF_TILER_PLAN_TILE_JOB_H
#define HRF_TILER_PLAN_TILE_JOB_H

#include "schema/record/job.h"
#include "tiler/tissue/tissue_network.h"

/* Reads the spec, tiles the slide of every task and commits each result as soon as it is done. The
 * record is the encoded tile plan; the outcome is done, no tissue, or failed with a reason. A slide
 * that cannot be used fails only its own task. Records are written to the directory of the spec.
 *
 * Returns the exit code: 0 if every task has a status, else that of a worker by the error's status
 * (error.h). The reason is printed on stderr. */
int hrf_tile_job_main(const char *spec_path);

/* The three steps of hrf_tile_job_main(). HRF_E_USER: this is not the spec of a tile job. */
HRF_CHECKED enum hrf_status hrf_tile_job_read(const char *spec_path, struct hrf_job_spec **out,
                                              struct hrf_error *err);
/* `network` is as in tile.h; NULL: there is none. */
HRF_CHECKED enum hrf_status hrf_tile_job_do(const struct hrf_job_spec *spec, const char *spec_path,
                                            const struct hrf_tissue_network *network,
                                            struct hrf_error *err);
/* The status by which a tile job ends: what fails outside of its tasks is a file of the run, and
 * may work later. */
static inline enum hrf_status hrf_tile_job_end(enum hrf_status status)
{
    return status == HRF_E_EXTERNAL ? HRF_E_AGAIN : status;
}

#endif
