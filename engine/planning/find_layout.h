/* find_layout.h - a layout as it was asked for, found for a network on this machine.
 *
 * "auto": the layout of as many ranks as there are threads that takes a batch soonest, predicted by
 * what is known of this machine. Stages of any layout are cut, and halos chosen, by the same costs.
 * Where the ranks are processes, the first one finds the layout and tells the others what it knew:
 * machines that were measured apart would cut the network apart.
 */
#ifndef HRF_ENGINE_PLANNING_FIND_LAYOUT_H
#define HRF_ENGINE_PLANNING_FIND_LAYOUT_H

#include "engine/comm/comm.h"
#include "engine/planning/known_machine.h"
#include "engine/run/rank.h"

struct hrf_found_layout {
    struct hrf_layout_plan plan;
    struct hrf_known known;
    struct hrf_cutting cutting; /* for hrf_session_config; points into this object */
    bool is_chosen;             /* it was "auto" */
    double predicted_seconds;   /* of a batch, when chosen */
    int32_t per_node;           /* ranks on rank 0's machine, on rank 0; 0: they are threads */
};

/* True for "auto"; false for NULL. */
bool hrf_layout_is_auto(const char *text);
/* `text` NULL: one rank. `graph` with the shapes of the whole batch. `comm` NULL: ranks are
 * threads; else every rank of it calls this, and "auto" is for as many as it has. Sets
 * config->cutting where there are stages, or halos or bands whose costs were measured; *out stays
 * where it is until it is released. */
HRF_CHECKED enum hrf_status hrf_layout_find(const char *text, const struct hrf_graph *graph,
                                            struct hrf_session_config *config,
                                            struct hrf_comm *comm, struct hrf_found_layout *out,
                                            struct hrf_error *err);
void hrf_found_layout_release(struct hrf_found_layout *found);

#endif
