/* attributes.h - the attributes of all operators. Names and meanings are those of ONNX unless noted
 * otherwise.
 */
#ifndef HRF_ENGINE_IR_ATTRIBUTES_H
#define HRF_ENGINE_IR_ATTRIBUTES_H

#include "engine/ir/shape.h"

#include <stdbool.h>
#include <stdint.h>

/* From SIGMOID on: only in floats, fused after lowering (hrf_pass_fuse_epilogue()). The formulas
 * are those of the operators of these names; SWISH has an alpha of 1. */
enum hrf_activation {
    HRF_ACT_NONE,
    HRF_ACT_RELU,
    HRF_ACT_CLIP,
    HRF_ACT_LEAKY_RELU,
    HRF_ACT_SIGMOID,
    HRF_ACT_HARD_SIGMOID, /* alpha, beta */
    HRF_ACT_SWISH,
    HRF_ACT_HARD_SWISH,
    HRF_ACT_GELU,
    HRF_ACT_GELU_TANH
};

/* How the pads of a window are derived from the input size. Source: ONNX Conv, attribute
 * auto_pad. */
enum hrf_auto_pad { HRF_PAD_EXPLICIT, HRF_PAD_SAME_UPPER, HRF_PAD_SAME_LOWER, HRF_PAD_VALID };

/* The values that PAD puts around its input. Source: ONNX Pad, attribute mode. */
enum hrf_pad_mode { HRF_PAD_CONSTANT, HRF_PAD_EDGE, HRF_PAD_REFLECT, HRF_PAD_WRAP };

/* A window that slides over rows and columns: convolution and pooling. Pads are in px and may
 * differ on all four sides. */
struct hrf_window {
    /* In CONV a kernel of 0 means the size of the weights; shape inference sets it. */
    int64_t kernel[HRF_MAX_SPATIAL], stride[HRF_MAX_SPATIAL], dilation[HRF_MAX_SPATIAL];
    int64_t pad_begin[HRF_MAX_SPATIAL], pad_end[HRF_MAX_SPATIAL]; /* [0] rows, [1] columns */
    enum hrf_auto_pad auto_pad; /* unless EXPLICIT, shape inference computes the pads */
    bool ceil_mode;             /* pooling */
    bool count_include_pad;     /* average pooling */
};

/* RESIZE: the input position of an output pixel and the weights of the input pixels around it.
 * Names and meanings are those of ONNX Resize. */
enum hrf_resize_mode { HRF_RESIZE_NEAREST, HRF_RESIZE_LINEAR, HRF_RESIZE_CUBIC };
enum hrf_resize_coordinates {
    HRF_RESIZE_HALF_PIXEL,
    HRF_RESIZE_PYTORCH_HALF_PIXEL,
    HRF_RESIZE_ALIGN_CORNERS,
    HRF_RESIZE_ASYMMETRIC
};
enum hrf_resize_rounding {
    HRF_RESIZE_PREFER_FLOOR,
    HRF_RESIZE_PREFER_CEIL,
    HRF_RESIZE_FLOOR,
    HRF_RESIZE_CEIL
};
/* How a RESIZE treats sizes that would change the aspect ratio. */
enum hrf_resize_policy { HRF_RESIZE_STRETCH, HRF_RESIZE_NOT_LARGER, HRF_RESIZE_NOT_SMALLER };
/* One axis of a RESIZE that computes only a part of the output. */
struct hrf_resize_part {
    int64_t n_in, n_out;         /* sizes of the whole axis; n_in 0: not a part */
    int64_t first_in, first_out; /* begin of the part in the whole input and output */
};
struct hrf_resize {
    enum hrf_resize_mode mode;
    enum hrf_resize_coordinates coordinates;
    enum hrf_resize_rounding rounding; /* NEAREST */
    float cubic_a;
    bool exclude_outside; /* CUBIC */
    enum hrf_resize_policy policy;
    bool antialias;   /* changes nothing unless the output is smaller, which is refused */
    float scales[4];  /* for N, C, H, W; scales[0] == 0: `sizes` counts */
    int64_t sizes[4]; /* 0 for N and C: unchanged */
    struct hrf_resize_part part[2]; /* rows, columns */
};

/* A prologue: what a CONV applies to each input element of channel c as it reads it:
 *   x' = act(x * factor[c] + shift[c])
 * The padding around the image stays zero. */
struct hrf_prologue {
    enum hrf_activation activation;
    float low, high; /* CLIP */
    float slope;     /* LEAKY_RELU */
};

/* Rows [lo[0], hi[0]) and columns [lo[1], hi[1]) of an image. A value of rank 3, [N][T][C], counts
 * as T rows of one column; a value of another rank than 3 and 4 as one pixel with as many channels
 * as it has elements. */
struct hrf_box {
    int64_t lo[2], hi[2];
};

/* The 8-bit form of a value that exists only inside an operator. */
struct hrf_inner_form {
    enum hrf_dtype dtype;
    float scale; /* > 0; 0: the value is not rounded */
    int32_t zero_point;
};

/* The attributes of a node. A member means the same in each operator that has it; attributes of a
 * single operator or family are in a struct of their own. The rows of the operator table (op.h)
 * list the members that an operator has, and all code that reads, writes, compares or hashes
 * attributes walks these rows. */
struct hrf_attributes {
    struct hrf_window window; /* CONV, CONV_TRANSPOSE, MAX_POOL, AVERAGE_POOL */
    int64_t group;            /* CONV, CONV_TRANSPOSE */
    /* Fused by the passes: y = act(conv(x) + bias + residual). */
    enum hrf_activation activation;
    /* Numbers of a function: of the operator itself if it is one, else of `activation`. */
    float activation_min, activation_max; /* CLIP */
    float alpha, beta; /* LEAKY_RELU's slope (alpha); HARD_SIGMOID's and SELU's both ... */
    float epsilon;     /* normalisations */
    /* CONCAT, SOFTMAX, FLATTEN, GATHER ...; never negative after shape inference */
    int64_t axis;
    /* TRANSPOSE's permutation, the axes of SQUEEZE, UNSQUEEZE, REDUCE_..., SLICE, PAD. After
     * shape inference none is negative, and TRANSPOSE, REDUCE_MEAN and PAD name every axis. */
    int64_t axes[HRF_MAX_RANK];
    int32_t n_axes;
    bool keep_dims;    /* REDUCE_..., TOP_K */
    enum hrf_dtype to; /* type of the output of CAST, CONSTANT_OF_SHAPE, EYE_LIKE and QUANTIZE */
    /* RESHAPE, FLATTEN, SQUEEZE, UNSQUEEZE, set by passes: the elements of a side of rank 4 count
     * in the order N, H, W, C instead of N, C, H, W. GATHER: in that order, the output is made of
     * rows of `row_size` elements, each a copy of the input's row of that index. */
    bool channels_last;
    int64_t row_size;
    /* LAYER_NORM and RMS_NORM of rank 4, set by passes: over axis 1 alone, that is, the channels of
     * each pixel; their scale and bias are [C]. */
    bool of_each_pixel;
    bool is_second;   /* BATCH_NORM, set by a pass: see hrf_graph_second_of() */
    bool allow_zero;  /* RESHAPE */
    int64_t n_groups; /* GROUP_NORM; 0: each channel is a group */
    int64_t n_pixels; /* POOL_FINISH divides by */
    /* SOFTMAX and LOG_SOFTMAX before opset 13 work on all axes from `axis` on. Shape inference
     * refuses a model in which that differs from working on `axis` alone. */
    bool legacy_axis;
    struct hrf_prologue prologue; /* CONV with HRF_CONV_FACTORS */
    /* CONV_TRANSPOSE: `padding` adds rows and columns at the end. `size` is the wanted size, from
     * which shape inference computes the pads; 0: the pads are given. */
    struct {
        int64_t padding[HRF_MAX_SPATIAL], size[HRF_MAX_SPATIAL];
    } output;
    struct {
        float alpha, beta; /* factors of the product and of the bias */
        bool transpose_a, transpose_b;
    } gemm;
    struct {
        float alpha, beta, bias; /* `bias` is k in the formula */
        int64_t size;            /* channels that a window sees */
    } lrn;
    /* DEPTH_TO_SPACE and SPACE_TO_DEPTH. */
    struct {
        int64_t size;
        bool column_row_depth; /* DEPTH_TO_SPACE: ONNX mode CRD; false: DCR */
        /* DEPTH_TO_SPACE leaves out so many rows and columns of its output at the beginning; 0
         * except in the graph of one rank. */
        int64_t skip[HRF_MAX_SPATIAL];
    } block;
    struct hrf_resize resize;
    /* SLICE, along axes[i]; inference clamps: element j of axis i is starts[i] + j * steps[i]. */
    struct {
        int64_t starts[HRF_MAX_RANK], ends[HRF_MAX_RANK], steps[HRF_MAX_RANK];
        /* For a Split: part `part` of n_parts equal parts (the last may be shorter) along axes[0],
         * from which shape inference computes starts and ends. 0: starts and ends are given. */
        int64_t part, n_parts;
    } slice;
    struct {
        /* n_axes begins, then n_axes ends; a negative one cuts off */
        int64_t sizes[2 * HRF_MAX_RANK];
        enum hrf_pad_mode mode;
        float value;
    } pad;
    /* SHAPE: of the axes from `start` to before `end`; negative ones count from the last. */
    struct {
        int64_t start, end;
    } range;
    struct {
        int64_t integer; /* CONSTANT_OF_SHAPE's value; EYE_LIKE's diagonal */
        float real;      /* CONSTANT_OF_SHAPE's value of float32 */
    } fill;
    struct {
        bool exclusive, reverse;
    } cum_sum;
    bool upper;       /* TRILU */
    bool truncated;   /* MOD: the result has the sign of the dividend */
    int64_t greatest; /* TOP_K, TOP_K_MASK: how many; TOP_K, 0: all, in falling order */
    int64_t function; /* FUNCTION_GRADIENT: an enum hrf_op, whose alpha, beta and bounds are here */
    int64_t length;   /* GATHER_GRADIENT: of the axis that indices point into */
    struct {
        float scale;      /* 0: 1 / sqrt(channels of a head) */
        bool causal;      /* a token sees those up to its own position */
        bool transpose_k; /* k is [..][d][S]; set by passes */
        /* The first axis of a mask of rank 4 is a part of that of the scores, and repeats along it:
         * the windows of each image. Set by passes. */
        bool mask_repeats;
        /* Its products may be of 16-bit integers, with scales by row and column
         * (engine/backend/cpu/avx512/fixed_attention_avx512.c). Set by lowering to 8 bits. */
        bool fixed_point;
        /* BYTE_ATTENTION, and a TOKEN_ATTENTION that may become one: how the model rounds
         * scale * q k' and its softmax. Set by passes. */
        struct hrf_inner_form scores, weights;
        /* TOKEN_, BYTE_ATTENTION, ATTENTION_PART: the heads of q, k and v lie in the channels. */
        int64_t heads, head_size;    /* channels of a head */
        int64_t first[3], stride[3]; /* head h of input i begins at channel first + h * stride */
    } attention;
    struct {
        int64_t heads;
        bool exponential; /* the softmax kernel, not the generalised ReLU */
        float epsilon;    /* added to every feature */
    } performer;
};

/* True if the attribute `axes` names the axis. */
static inline bool hrf_attributes_name_axis(const struct hrf_attributes *attributes, int32_t axis)
{
    for (int32_t i = 0; i < attributes->n_axes; i++)
        if (attributes->axes[i] == axis)
            return true;
    return false;
}

#endif
