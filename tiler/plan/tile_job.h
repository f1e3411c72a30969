/* tile_job.h - the worker of a tile job. */
#ifndef HRF_TILER_PLAN_TILE_JOB_H
#define HRF_TILER_PLAN_TILE_JOB_H

/* Reads the spec, tiles the slide of every task and commits each result as soon as it is done. The
 * record is the encoded tile plan; the outcome is done, no tissue, or failed with a reason. A slide
 * that cannot be used fails only its own task. Records are written to the directory of the spec.
 *
 * Returns the exit code: 0 if every task has a status, 75 if the job may be tried again (disk full,
 * no memory, attempt revoked), 1 if the spec cannot be used. The reason is printed on stderr. */
int hrf_tile_job_main(const char *spec_path);

#endif
