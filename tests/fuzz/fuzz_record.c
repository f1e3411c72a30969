/* fuzz_record.c - records of any bytes are read or refused, never more.
 *
 * A checksum would turn every mutation away at the door, so each input is also tried as the body
 * of a container whose checksum was put right.
 */
#include "base/alloc.h"
#include "base/hash.h"
#include "schema/record/scores.h"
#include "schema/record/tile_plan.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_both(const void *data, size_t size)
{
    struct hrf_tile_plan *plan = NULL;
    struct hrf_scores *scores = NULL;
    struct hrf_bytes again = { NULL, 0 };
    struct hrf_error err;
    if (hrf_tile_plan_decode(data, size, NULL, "fuzz", &plan, &err) == HRF_OK) {
        if (hrf_tile_plan_encode(plan, &again, &err) == HRF_OK)
            hrf_bytes_release(&again);
        hrf_tile_plan_destroy(plan);
    }
    if (hrf_scores_decode(data, size, NULL, "fuzz", &scores, &err) == HRF_OK) {
        if (hrf_scores_encode(scores, &again, &err) == HRF_OK)
            hrf_bytes_release(&again);
        enum { SIDE = 64 };
        unsigned char labels[SIDE * SIDE];
        for (int64_t i = 0; i < scores->labels.n && scores->labels.side <= SIDE; i++)
            if (hrf_label_maps_get(&scores->labels, i, scores->n_classes, labels, &err) != HRF_OK)
                break;
        hrf_scores_destroy(scores);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CHECKSUM = HRF_HASH_HEX - 1 };
    char sha256[HRF_HASH_HEX];
    try_both(data, size);
    if (size < CHECKSUM || hrf_hash_buffer(data, size - CHECKSUM, sha256, NULL) != HRF_OK)
        return 0;
    uint8_t *resealed = hrf_alloc(size);
    if (resealed == NULL)
        return 0;
    memcpy(resealed, data, size - CHECKSUM);
    memcpy(resealed + size - CHECKSUM, sha256, CHECKSUM);
    try_both(resealed, size);
    hrf_free(resealed);
    return 0;
}
