/* lower.h - a float32 graph as one that computes in fewer bits.
 *
 * Run on the graph that the other passes have made: its values are the fusion boundaries, the
 * places where a tensor really exists. Convolutions and matrix products go low, with S8 weights
 * (symmetric, one scale for each output channel); operators without weights follow their inputs;
 * what has no low form, or is asked to, stays in float32 behind QUANTIZE, DEQUANTIZE or CAST, and
 * is told of. Results of the graph are float32.
 */
#ifndef HRF_ENGINE_PASSES_LOWER_H
#define HRF_ENGINE_PASSES_LOWER_H

#include "base/strbuf.h"
#include "engine/ir/graph.h"

/* What a value was seen to hold, over a calibration sample or by decree. */
struct hrf_range {
    const char *value; /* its name */
    float low, high;   /* what lies outside is clipped */
    /* Mean of each channel, to correct what rounding the weights does to the mean of the results;
     * NULL: not corrected. Source: Nagel et al., "Data-free quantization", ICCV 2019, 4.2. */
    const float *means;
    int64_t n_means;
};

/* True for a model that was quantised elsewhere (QUANTIZE and DEQUANTIZE on computed values). For
 * S8 it is lowered with the scales that it brings; `ranges` are not looked at, and what it says
 * nothing of stays in float32. */
bool hrf_lower_brings_scales(const struct hrf_graph *graph);

struct hrf_lowering {
    enum hrf_dtype type;            /* F16, B16, or S8 for 8-bit integers */
    const struct hrf_range *ranges; /* S8: one for every value that goes low; see above */
    int32_t n_ranges;
    /* What stays in float32: a node by its name, or a value by its own, which no node then reads or
     * makes low (a product may still make it: its result is float32). */
    const char *const *keep;
    const char *const *keep_reasons; /* [n_keep], for the notes; NULL: "asked for" */
    int32_t n_keep;
    bool signed_only; /* S8: no U8 even where nothing is negative */
};

/* *out is a new graph. `notes` (may be NULL) gets a line for every node that stays in float32
 * although its kind goes low, and why. HRF_E_USER names a value without a range, one whose range is
 * not finite, or a name in `keep` that is neither a node's nor a value's. */
HRF_CHECKED enum hrf_status hrf_pass_lower(const struct hrf_graph *graph,
                                           const struct hrf_lowering *how, struct hrf_graph **out,
                                           struct hrf_strbuf *notes, struct hrf_error *err);

/* After lowering: where the graph's only input is read by nothing but its QUANTIZE or CAST to a
 * narrow type, that becomes the input. Otherwise nothing changes. */
HRF_CHECKED enum hrf_status hrf_pass_narrow_input(struct hrf_graph *graph, struct hrf_error *err);

/* HRF_E_USER for a name that is neither a node's nor a value's of the fused graph, with the nearest
 * one: hrf_pass_lower()'s own check, for before there are ranges. */
HRF_CHECKED enum hrf_status hrf_lower_check_keep(const struct hrf_graph *graph,
                                                 const char *const *keep, int32_t n_keep,
                                                 struct hrf_error *err);

/* S8 (or U8, where low >= 0 and !signed_only) by a range: symmetric, 0.0 exact. */
void hrf_lower_quantization(float low, float high, bool signed_only, enum hrf_dtype *type,
                            struct hrf_quantization *out);

#endif
