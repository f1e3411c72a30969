/* check_outputs.h - what a network that is measured should give, by the CPU in float32.
 *
 * Images are made up from their numbers, each unlike the others, so that one in the place of
 * another is seen. The CPU's outputs and the INT8 ranges that it observed are a file of a few kB,
 * made where there is time and carried to the device (tools/reference/outputs).
 */
#ifndef HRF_ENGINE_CHECK_CHECK_OUTPUTS_H
#define HRF_ENGINE_CHECK_CHECK_OUTPUTS_H

#include "base/alloc.h"
#include "engine/check/check_rows.h"
#include "engine/run/made_ranges.h"
#include "schema/settings/precision.h"

/* What the emulated GPU gives for the first images, of networks with random weights, which tell
 * images apart by so little that rounding to 8 or 16 bits hides it: on any device of this
 * precision. */
enum { HRF_EMULATED_IMAGES = 8, HRF_EMULATED_PRECISIONS = 2 };
struct hrf_emulated {
    enum hrf_precision precision;
    float *outputs; /* [HRF_EMULATED_IMAGES][n_each]; NULL: not known */
};

struct hrf_expected {
    struct hrf_made_ranges made; /* observed where the CPU has seen the value, else invented */
    float *outputs;              /* [n_images][n_each]; NULL: not known */
    int64_t n_images, n_each;    /* n_each: the first outputs of an image */
    struct hrf_emulated emulated[HRF_EMULATED_PRECISIONS];
    bool tells_little; /* whether these are needed */
};

/* RGB bytes of `batch` images of `size` px. */
void hrf_check_pixels(int64_t batch, int64_t size, uint8_t *out);
extern const struct hrf_pixel_form hrf_check_pixel_form;

/* From the network's file in `folder` (NULL: none), or, `by_cpu`, computed now, or only invented
 * ranges. Release it in any case. */
HRF_CHECKED enum hrf_status hrf_expected_init(const struct hrf_graph *graph,
                                              const struct hrf_check_network *network,
                                              const char *folder, bool by_cpu,
                                              struct hrf_expected *out, struct hrf_error *err);
void hrf_expected_release(struct hrf_expected *expected);
HRF_CHECKED enum hrf_status hrf_expected_write(const struct hrf_expected *expected,
                                               const struct hrf_check_network *network,
                                               const char *folder, struct hrf_error *err);

/* How far outputs[n_images][n_all] are from what was expected: by emulation where that is known. */
struct hrf_likeness {
    bool by_emulation, is_rough; /* rough: it is not known, and would have to be */
    double difference;           /* the largest, over the largest output */
    double cosine;               /* of what tells the images apart; NaN: of too few images */
};
struct hrf_likeness hrf_expected_compare(const struct hrf_expected *expected,
                                         enum hrf_precision precision, const float *outputs,
                                         int64_t n_all);
/* Whether it is one of those networks and precisions. */
bool hrf_expected_wants_emulation(const struct hrf_check_network *network);
/* Adds check->device's outputs, the emulated GPU's, to the network's file in check->outputs, where
 * it has none yet: images one at a time. */
HRF_CHECKED enum hrf_status hrf_expected_emulate(const struct hrf_check *check,
                                                 const struct hrf_check_network *network,
                                                 struct hrf_error *err);
/* Whether a precision may be that far away. */
bool hrf_likeness_is_good(const struct hrf_likeness *likeness, enum hrf_precision precision);

#endif
