/* level_survey.h - checks while tiling that all levels of a slide show the same picture.
 *
 * Tissue is detected on the overview. If the overview's level is damaged, tissue is missed; if
 * another level is damaged, wrong pixels are scored. Patches are compared with a coarser level when
 * they are read for scoring (tiler/slide/level_check.h); this check finds damage that no patch
 * shows.
 */
#ifndef HRF_TILER_PLAN_LEVEL_SURVEY_H
#define HRF_TILER_PLAN_LEVEL_SURVEY_H

#include "tiler/plan/overview.h"

/* Compares the whole overview with the next coarser level, or, if there is none, with the next
 * finer one if that has at most 2^25 px. Then compares the level that patches are read from with a
 * coarser one at some places of 64 um: 16 of tissue, 16 of glass, and 32 of glass of a single
 * colour, which lost tiles have, too. mask[height][width] of the overview is not 0 where there is
 * tissue. HRF_E_USER: two levels differ, or one of them cannot be read; the text says where. */
HRF_CHECKED enum hrf_status hrf_slide_check_levels(struct hrf_slide *slide,
                                                   const struct hrf_tile_plan *plan,
                                                   const struct hrf_overview *overview,
                                                   const unsigned char *mask,
                                                   struct hrf_error *err);

#endif
