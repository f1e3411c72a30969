/* tile_job.h - the worker of a tile job. */
#ifndef HRF_TILER_PLAN_TILE_JOB_H
#define HRF_TILER_PLAN_TILE_JOB_H

/* Reads the spec, tiles every task of it and commits each the moment it is done: the record is
 * the encoded tile plan, the outcome done, no tissue, or failed with the reason. A slide that
 * cannot be used fails its own task only. Records go into the folder of the spec.
 *
 * Returns the exit code: 0 every task has a status; 75 the job may be tried again (disk full, no
 * memory, this attempt was revoked); 1 the spec cannot be used. Says why on stderr. */
int hrf_tile_job_main(const char *spec_path);

#endif
