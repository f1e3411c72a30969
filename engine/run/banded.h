/* banded.h - a network over images larger than the device's memory, in bands of rows (bands.h).
 *
 * The head's bands run one after the other in one arena, the tail once; the same kernels and the
 * same numbers as without bands, INT8 bit for bit. Bands of the same shape share a session. A band
 * of one constant colour (the glass around the tissue) is computed once.
 */
#ifndef HRF_ENGINE_RUN_BANDED_H
#define HRF_ENGINE_RUN_BANDED_H

#include "engine/plan/bands.h"
#include "engine/run/rank.h"

struct hrf_banded; /* opaque; used by one thread at a time */

struct hrf_banded_wishes {
    int32_t n_bands; /* > 0: just so many; 0: as many as the limit asks for */
    enum hrf_bands_rows rows;
};
/* `graph` with its input shapes; one input. Keeps to config->memory_limit_bytes, weights and
 * workspace included (0: none), and chooses by config->cutting's costs (NULL: rough ones). */
HRF_CHECKED enum hrf_status hrf_banded_create(const struct hrf_graph *graph,
                                              const struct hrf_session_config *config,
                                              const struct hrf_banded_wishes *wishes,
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
    int32_t n_sessions; /* band shapes that differ */
    int64_t n_constant; /* bands that were not computed again, so far */
    double operations;  /* of one run, without bands */
    struct hrf_device_use device;
    const char *notes;
};
struct hrf_banded_facts hrf_banded_facts(const struct hrf_banded *banded);
/* hrf_bands_text(), and ", 5 not computed again (one colour)" of the runs since n_constant was
 * n_before. */
enum { HRF_BANDED_TEXT = 160 };
void hrf_banded_text(const struct hrf_banded *banded, int64_t n_before, char out[HRF_BANDED_TEXT]);

#endif
