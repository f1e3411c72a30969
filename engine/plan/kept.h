/* kept.h - bands that run one after the other and leave each other rows: the twin of an exchange.
 *
 * Every band is fed the next rows of the image and makes of every value as many rows as these
 * allow; a value's front says how many of its rows there are by the end of a band. So no row is
 * made twice. What a later band reads of rows that an earlier one made is kept: the last rows of a
 * window's input, or all rows by which one branch is behind another one. The exchange after the
 * value's node puts kept rows before the new ones, then keeps those that are read later; readers of
 * fewer rows look into that tensor, and readers that are behind it get kept rows in one of their
 * own. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_KEPT_H
#define HRF_ENGINE_PLAN_KEPT_H

#include "engine/plan/partition.h"

/* ---- for partition.c ---- */

/* p->fronts out of those of the graph's inputs. HRF_E_UNSUPPORTED when a band would have to compute
 * rows of padding alone. */
HRF_CHECKED enum hrf_status hrf_fronts_find(struct hrf_partition *p, const int64_t *of_inputs,
                                            struct hrf_error *err);
/* The rows that a band makes of a value. */
struct hrf_box hrf_fronts_box(const struct hrf_partition *p, int32_t value, int32_t band);
/* The exchanges of a value that is kept, and its place in the kept memory. */
HRF_CHECKED enum hrf_status hrf_kept_feed(struct hrf_partition *p, int32_t value,
                                          struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_partition_add_exchange(struct hrf_partition *p, int32_t value,
                                                       const struct hrf_box *need, int32_t *index,
                                                       struct hrf_error *err);
/* Plays all bands: every row that is read was made by this band or is kept, what is kept was made,
 * and no value's rows run over another's. HRF_E_BUG with the value, the band and the row. */
HRF_CHECKED enum hrf_status hrf_kept_check(const struct hrf_partition *p, struct hrf_error *err);

/* ---- an exchange in a band ---- */

/* Whether the exchange reads what its source gave: all that is needed is there. */
bool hrf_kept_reads_source(const struct hrf_partition *p, const struct hrf_exchange *x,
                           int32_t band);
/* Rows of the image: of those that are needed, what comes from the kept ones; of the kept ones,
 * what stays, in front of what the band adds. Each may be empty. `before`, `after`: where rows
 * stand in the value's place (place_lo[0] and place_lo[1] are its first rows before and after). */
struct hrf_kept_moves {
    struct hrf_box loaded, stays, added;
    int64_t place_lo[2];
    int64_t room; /* rows of one image in the place */
};
/* Of an exchange with kept >= 0. */
struct hrf_kept_moves hrf_kept_moves(const struct hrf_partition *p, int32_t exchange, int32_t band);
/* Whether the exchange has anything to do with kept rows in this band. */
bool hrf_kept_is_used(const struct hrf_partition *p, int32_t exchange, int32_t band);
/* Whether kept rows are handled alike in two bands: as many of them at the same places. */
bool hrf_kept_are_alike(const struct hrf_partition *p, int32_t a, int32_t b);

/* ---- what a band comes from ---- */

/* reach[v], of all values: rows of v that the band's rows, and the rows that are kept when it
 * begins, come from. */
void hrf_kept_reach(const struct hrf_partition *p, int32_t band, struct hrf_box *reach);
/* Whether the same numbers of the image in both reaches make the same numbers of everything. */
bool hrf_kept_reach_alike(const struct hrf_partition *p, const struct hrf_box *a,
                          const struct hrf_box *b);

#endif
