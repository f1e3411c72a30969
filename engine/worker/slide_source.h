/* slide_source.h - a slide as one image: what feeds the network, and the class map that it leaves.
 */
#ifndef HRF_ENGINE_WORKER_SLIDE_SOURCE_H
#define HRF_ENGINE_WORKER_SLIDE_SOURCE_H

#include "engine/input/rows.h"
#include "engine/run/network.h"
#include "schema/record/scores.h"

#include <pthread.h>

/* A source (hrf_source) of one patch of a tile plan. Ranks ask for their parts at once; each reads
 * the rows that it needs and no more. */
struct hrf_slide_source {
    struct hrf_rows_config rows; /* slide, plan, patch, mean and std; readers of each rank */
    struct hrf_feed_times times; /* of all ranks together; under the lock */
    pthread_mutex_t lock;
};
void hrf_slide_source_init(struct hrf_slide_source *source, const struct hrf_rows_config *rows);
void hrf_slide_source_release(struct hrf_slide_source *source);
hrf_source hrf_slide_source_read; /* context: struct hrf_slide_source */

/* Output 1 of a network with a class map, of the class that the one image was given to. Without
 * such an output there is no map. */
void hrf_keep_class_map(const struct hrf_network *network, struct hrf_scores *scores);

#endif
