/* fuzz_calibration.c - calibrations and observations of any text are read or refused, never more.
 *
 * A checksum would turn every mutation of a calibration away at the door, so each text that is
 * JSON is also tried with its checksum put right. What is read can be written, and read again.
 */
#include "base/hash.h"
#include "base/json.h"
#include "calibrate/fit/fit.h"
#include "calibrate/observe/observations.h"
#include "schema/record/calibration.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_calibration(const char *text, size_t size)
{
    HRF_AUTO(hrf_calibration) c = NULL;
    HRF_AUTO(hrf_calibration) back = NULL;
    HRF_AUTO_FREE char *again = NULL;
    struct hrf_error err;
    if (hrf_calibration_decode(text, size, "fuzz", &c, &err) != HRF_OK ||
        hrf_calibration_encode(c, &again, &err) != HRF_OK)
        return;
    if (hrf_calibration_decode(again, strlen(again), "again", &back, &err) != HRF_OK ||
        back->n_tensors != c->n_tensors || back->n_keep != c->n_keep)
        __builtin_trap(); /* a finding */
}

static void try_resealed(const char *text, size_t size)
{
    HRF_AUTO_JSON root = NULL;
    struct hrf_error err;
    char sum[HRF_HASH_HEX];
    if (hrf_json_parse(text, size, "fuzz", &root, &err) != HRF_OK || !json_is_object(root))
        return;
    json_object_del(root, "sha256");
    HRF_AUTO_FREE char *body = hrf_json_text(root);
    if (body == NULL || hrf_hash_buffer(body, strlen(body), sum, &err) != HRF_OK)
        return;
    hrf_json_put_text(root, "sha256", sum);
    HRF_AUTO_FREE char *sealed = hrf_json_text(root);
    if (sealed != NULL)
        try_calibration(sealed, strlen(sealed));
}

/* Whatever was observed, a range is fitted or refused. */
static void try_observations(const char *text, size_t size)
{
    struct hrf_observations seen = { .items = NULL };
    HRF_AUTO(hrf_calibration) c = NULL;
    HRF_AUTO_FREE char *warnings = NULL;
    struct hrf_error err;
    if (hrf_observations_decode(text, size, "fuzz", &seen, &err) != HRF_OK)
        return;
    warnings = hrf_fit_warnings(&seen);
    if (hrf_fit_all(&seen, HRF_FIT_AUTO, &c, &err) == HRF_OK)
        hrf_fit_keep_noisy(c, HRF_FIT_MIN_SQNR_DB);
    hrf_observations_release(&seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_calibration((const char *)data, size);
    try_resealed((const char *)data, size);
    try_observations((const char *)data, size);
    return 0;
}
