/* banded.h - runs a network on images that are larger than the device's memory, in bands (row
 * tiles, bands.h).
 *
 * The bands of the head run one after the other in one arena; the tail runs once. Kernels and
 * results are the same as without bands, in INT8 bit for bit. Bands of the same kind share a
 * session. A band of one constant colour (the glass around the tissue) is computed only once.
 */
#ifndef HRF_ENGINE_RUN_BANDED_H
#define HRF_ENGINE_RUN_BANDED_H

#include "engine/plan/bands.h"
#include "engine/run/rank.h"

struct hrf_banded; /* opaque; used by one thread at a time */

struct hrf_banded_options {
    int32_t n_bands; /* > 0: exactly so many; 0: as many as the memory limit requires */
    enum hrf_bands_rows rows;
};
/* `graph` has one input, whose shape is set. Activations, weights and workspace together stay
 * within config->memory_limit_bytes (0: no limit). The choice uses the costs of config->cutting
 * (NULL: rough estimates). */
HRF_CHECKED enum hrf_status hrf_banded_create(const struct hrf_graph *graph,
                                              const struct hrf_session_config *config,
                                              const struct hrf_banded_options *options,
                                              struct hrf_banded **out, struct hrf_error *err);
void hrf_banded_destroy(struct hrf_banded *banded);
HRF_DEFINE_AUTO(hrf_banded)
HRF_CHECKED enum hrf_status hrf_banded_run(struct hrf_banded *banded, hrf_source *source,
                                           void *context, struct hrf_error *err);
const float *hrf_banded_output(const struct hrf_banded *banded, int32_t i);
const struct hrf_shape *hrf_banded_output_shape(const struct hrf_banded *banded, int32_t i);

struct hrf_banded_facts {
    struct hrf_bands_plan plan;
    struct hrf_session_memory memory;
    int64_t n_constant; /* bands so far whose results were reused */
    double operations;  /* of one run without bands */
    struct hrf_device_use device;
    const char *notes;
};
struct hrf_banded_facts hrf_banded_facts(const struct hrf_banded *banded);
/* hrf_bands_text(), followed by a text like ", 5 not computed again (one colour)" that counts the
 * bands since n_constant was n_before. */
enum { HRF_BANDED_TEXT = 160 };
void hrf_banded_text(const struct hrf_banded *banded, int64_t n_before, char out[HRF_BANDED_TEXT]);

#endif
