/* lower.h - lowering: turns a float32 graph into one that computes in fewer bits.
 *
 * Runs after the other passes, so that the values of the graph are the tensors that really exist in
 * memory (fusion boundaries). Convolutions and matrix products are lowered; for S8 their weights
 * are symmetric with one scale for each output channel. A matrix product whose input is computed in
 * float32 rounds each row (token) of it by a scale of its own and gives float32, if `rounds_rows`
 * says so; its input is smoothed first (`strength` below). So does a convolution of windows of one
 * pixel with each pixel of what a transformer's layers gave (hrf_lower_find_tokens). Operators
 * without weights compute in the type of their inputs. A node that has no lowered form, or is
 * listed in `keep`, stays in float32 between QUANTIZE, DEQUANTIZE or CAST nodes, and `notes` says
 * so. The outputs of the graph are float32.
 *
 * In a step of training (n_variables > 0) whatever no product reads again stays in float32: the
 * loss, the gradients to weights and what they are summed up from; and so does what is computed
 * from weights alone. Sums over axes are float32 always, and so are the statistics of norms. An
 * operator of two values follows the larger one, so that a number for each row or channel beside it
 * keeps its type. A result that a single operator on elements reads is not rounded on its way
 * there.
 */
#ifndef HRF_ENGINE_PASSES_LOWER_H
#define HRF_ENGINE_PASSES_LOWER_H

#include "base/strbuf.h"
#include "engine/ir/graph.h"
#include "schema/settings/precision.h"

/* The range of a value, measured over a calibration sample or chosen. */
struct hrf_range {
    const char *value; /* its name */
    float low, high;   /* numbers outside are clipped */
    /* Mean of each channel, used to correct the bias for the shift of the mean that rounding the
     * weights causes; NULL: no correction. Source: Nagel et al., "Data-free quantization", ICCV
     * 2019, 4.2. */
    const float *means;
    int64_t n_means;
    /* Largest magnitude of each channel, [n_means], and how much of their differences smoothing
     * gives to the weights of the products that read the value, from 0 to 1; NULL, or 0: no
     * smoothing. Only for products that round their rows. */
    const float *peaks;
    float strength;
};

/* True for a model that was quantised elsewhere (QUANTIZE and DEQUANTIZE on computed values).
 * Lowering to S8 then uses the scales of the model and ignores `ranges`; values without scales in
 * the model stay in float32. */
bool hrf_lower_brings_scales(const struct hrf_graph *graph);

struct hrf_lowering {
    enum hrf_dtype type; /* F16, B16, or S8 for 8-bit integers */
    const struct hrf_range
        *ranges; /* S8: one for every lowered value, unless hrf_lower_brings_scales() */
    int32_t n_ranges;
    /* Names of nodes and values that stay in float32. No node then reads or computes such a value
     * in the lower type; a lowered product may still compute it, with a float32 result. */
    const char *const *keep;
    const char *const *keep_reasons; /* [n_keep], for the notes; NULL: "asked for" */
    /* S8: products that read the value keep[i] compute in bfloat16 rather than float32 if
     * keep_precisions[i] is HRF_BF16; NULL: none does. Their results are float32. */
    const enum hrf_precision *keep_precisions;
    int32_t n_keep;
    bool signed_only; /* S8: never U8, not even for values that are never negative */
    bool rounds_rows; /* S8: products round their rows (graph.h); else each value has one scale */
    /* F16, B16: the graph's last inputs, which are weights that change between runs
     * (hrf_graph_open_constants()). Products read them rounded to the type: as many further inputs,
     * in the same order, behind them. */
    int32_t n_variables;
    /* F16, B16: the graph itself, if it is destroyed next: weights are freed one after the other as
     * their rounded copies are made, so that both are never there at once. NULL: they stay. */
    struct hrf_graph *spent;
};

/* *out is a new graph. `notes` (may be NULL) gets a line, with the reason, for every node that
 * stays in float32 although its operator can be lowered. HRF_E_USER names a value without a range
 * or with a range that is not finite, or a name in `keep` that no node and no value has. */
HRF_CHECKED enum hrf_status hrf_pass_lower(const struct hrf_graph *graph,
                                           const struct hrf_lowering *how, struct hrf_graph **out,
                                           struct hrf_strbuf *notes, struct hrf_error *err);

/* Runs after lowering. If the only reader of the only graph input is its QUANTIZE or CAST to a
 * narrow type, the output of that node becomes the input of the graph. Otherwise nothing changes.
 */
HRF_CHECKED enum hrf_status hrf_pass_narrow_input(struct hrf_graph *graph, struct hrf_error *err);

/* Runs after lowering to S8, for back ends with a token_type. Values that only products which round
 * their rows, attention and SwiGLU read, and that these or a norm compute (moves in between count
 * as nothing), are stored in `type` (F16, B16) rather than float32. Sums of residuals stay in
 * float32. */
void hrf_pass_narrow_tokens(struct hrf_graph *graph, enum hrf_dtype type);

/* HRF_E_USER for a name that no node and no value of the fused graph has; the message suggests the
 * nearest name. hrf_pass_lower() checks the same; call this one before ranges are measured. */
HRF_CHECKED enum hrf_status hrf_lower_check_keep(const struct hrf_graph *graph,
                                                 const char *const *keep, int32_t n_keep,
                                                 struct hrf_error *err);

/* of_tokens[v], for every value of the fused graph: it has a row for each token or pixel, and that
 * row comes from a LAYER_NORM or RMS_NORM over such rows, or from attention, through nothing but
 * products of rows, functions, operators of two values, and moves. */
void hrf_lower_find_tokens(const struct hrf_graph *graph, bool *of_tokens);
/* True for a product with constant weights that can round the rows of its input. */
bool hrf_lower_can_round_rows(const struct hrf_graph *graph, const bool *of_tokens,
                              const struct hrf_node *node);

/* Smoothing's divisors of n channels with these peaks, met by weights of these magnitudes: powers
 * of two; 1 where the peak is 0, and for a strength of 0. */
void hrf_lower_smooth(const float *peaks, const float *weights, int64_t n, float strength,
                      float *factors);

/* The divisors that smoothing gives the channels of a value whose rows products round, by its range
 * and by their weights; heap. *factors stays as it is if there is nothing to smooth. */
HRF_CHECKED enum hrf_status hrf_lower_find_smoothing(const struct hrf_graph *graph, int32_t value,
                                                     const struct hrf_range *range, float **factors,
                                                     struct hrf_error *err);
/* The type and scale for a range: S8, or U8 if low >= 0 and !signed_only. Symmetric, so that 0.0 is
 * exact. */
void hrf_lower_quantization(float low, float high, bool signed_only, enum hrf_dtype *type,
                            struct hrf_quantization *out);

#endif
