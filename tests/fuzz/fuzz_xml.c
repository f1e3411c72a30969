/* fuzz_xml.c - any bytes as an ASAP annotation file: an error or outlines that hold together. */
#include "aggregate/camelyon16/asap.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_xml: %s\n", what);
    abort(); /* ci-allow: how a fuzz entry reports */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hrf_outlines *outlines = NULL;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = hrf_outlines_parse((const char *)data, size, "fuzz.xml", &outlines,
                                                &err);
    require((status == HRF_OK) == (outlines != NULL), "outlines come with success only");
    require(status == HRF_OK || err.text[0] != '\0', "an error has a text");
    for (size_t i = 0; outlines != NULL && i < outlines->n_items; i++) {
        const struct hrf_outline *outline = &outlines->items[i];
        require(outline->n_points >= 3, "an outline has 3 points");
        hrf_outlines_in_lesion(outlines, outline->points[0].x, outline->points[0].y);
    }
    hrf_outlines_destroy(outlines);
    return 0;
}
