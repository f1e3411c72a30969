/* fuzz_submission.c - any bytes as an archive of annotations, and as the csv files of both tasks.
 */
#include "aggregate/camelyon16/detections.h"
#include "aggregate/camelyon16/slide_scores.h"
#include "aggregate/camelyon16/zip.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        __builtin_trap(); /* a finding */
}

static void read_archive(const uint8_t *data, size_t size)
{
    HRF_AUTO(hrf_zip) zip = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_zip_parse(data, size, "fuzz.zip", &zip, &err);
    require((status == HRF_OK) == (zip != NULL));
    require(status == HRF_OK || err.text[0] != '\0');
    for (size_t i = 0; zip != NULL && i < zip->n_items; i++) {
        HRF_AUTO_FREE char *text = NULL;
        size_t n = 0;
        if (hrf_zip_extract(zip, &zip->items[i], 1 << 20, &text, &n, &err) == HRF_OK)
            require(n <= 1 << 20 && text[n] == '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HRF_AUTO(hrf_slide_scores) scores = NULL;
    HRF_AUTO_FREE struct hrf_detection *detections = NULL;
    const char *text = (const char *)data;
    size_t n = 0;
    struct hrf_error err = { .status = HRF_OK };
    read_archive(data, size);
    if (hrf_detections_parse(text, size, "fuzz.csv", &detections, &n, &err) == HRF_OK)
        for (size_t i = 0; i < n; i++)
            require(isfinite(detections[i].confidence));
    if (hrf_slide_scores_parse(text, size, "fuzz.csv", NULL, NULL, &scores, &err) == HRF_OK)
        for (size_t i = 0; i < scores->n_items; i++)
            require(isfinite(scores->items[i].score) &&
                    (i == 0 || strcmp(scores->items[i - 1].name, scores->items[i].name) < 0));
    return 0;
}
