/* line_cache.h - the line cache: bands (row tiles) that run one after the other keep rows for later
 * bands. It does in time what a halo exchange does between ranks.
 *
 * Each band is fed the next rows of the image and computes as many rows of every value as these
 * allow. The front of a value is the number of its rows that are computed by the end of a band. So
 * no row is computed twice. Rows that a later band reads are kept: the last rows of a window's
 * input, or all rows by which one branch lags behind another. After the node that computes a value,
 * an exchange puts the kept rows before the new ones and then keeps those that are read later.
 * Readers that need fewer rows use a part of that tensor; readers that lag behind get their kept
 * rows in a tensor of their own. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_LINE_CACHE_H
#define HRF_ENGINE_PLAN_LINE_CACHE_H

#include "engine/plan/partition.h"

/* ---- for partition.c ---- */

/* Computes p->fronts from the fronts of the graph's inputs. */
void hrf_fronts_find(struct hrf_partition *p, const int64_t *of_inputs);
/* The rows of a value that a band computes. */
struct hrf_box hrf_fronts_box(const struct hrf_partition *p, int32_t value, int32_t band);
/* Adds the exchanges of a value that is kept, and its part of the line cache. */
void hrf_line_cache_feed(struct hrf_partition *p, int32_t value);
void hrf_partition_add_exchange(struct hrf_partition *p, int32_t value, const struct hrf_box *need,
                                int32_t *index);
/* Simulates all bands and checks that every row that is read was computed by the same band or is
 * kept, that only computed rows are kept, and that rows of different values do not overlap.
 * HRF_E_BUG names the value, the band and the row. */
HRF_CHECKED enum hrf_status hrf_line_cache_check(const struct hrf_partition *p,
                                                 struct hrf_error *err);

/* ---- an exchange in a band ---- */

/* True if the output of the exchange's source contains all needed rows. */
bool hrf_line_cache_reads_source(const struct hrf_partition *p, const struct hrf_exchange *x,
                                 int32_t band);
/* What an exchange moves between a tensor and the line cache, as rows of the image; each box may be
 * empty. `loaded`: kept rows that are needed now. `stays`: kept rows that stay, in front of
 * `added`, the rows that this band adds. first_row: the first row that the cache holds of the
 * value, before [0] and after [1] the exchange. */
struct hrf_line_cache_moves {
    struct hrf_box loaded, stays, added;
    int64_t first_row[2];
    int64_t room; /* capacity of the cache for this value, in rows of one image */
};
/* For an exchange with cache_entry >= 0. */
struct hrf_line_cache_moves hrf_line_cache_moves(const struct hrf_partition *p, int32_t exchange,
                                                 int32_t band);
/* True if the exchange reads or writes kept rows in this band. */
bool hrf_line_cache_is_used(const struct hrf_partition *p, int32_t exchange, int32_t band);
/* True if two bands move the same numbers of kept rows between the same offsets. */
bool hrf_line_cache_are_alike(const struct hrf_partition *p, int32_t a, int32_t b);

/* ---- the input rows that a band depends on ---- */

/* reach[v], for all values: the rows of v that the band's results, and the rows kept when it
 * begins, depend on. */
void hrf_line_cache_reach(const struct hrf_partition *p, int32_t band, struct hrf_box *reach);
/* True if two reaches `a` and `b` have the same size and padding everywhere, so that equal pixels
 * in both give equal results in both. */
bool hrf_line_cache_reach_alike(const struct hrf_partition *p, const struct hrf_box *a,
                                const struct hrf_box *b);

#endif
