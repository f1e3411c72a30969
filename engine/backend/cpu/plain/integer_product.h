/* integer_product.h - matrix products of small integers, exact in 32 bits, for processors without
 * VNNI: 8-bit convolutions and fully connected layers, and tokens rounded to 8 bits.
 *
 * sums[rows][columns] = a[rows][depth] * w[depth][columns], for each group of columns. An element
 * of `a` is a byte minus its zero point, which needs 9 bits and is stored in 16; a weight has 8
 * bits. AVX2 multiplies 16 pairs of such elements at once and adds neighbouring products in 32 bits
 * (vpmaddwd). Its instruction for bytes adds them in 16 bits and saturates.
 *
 * Columns of each group are cut into panels of HRF_INTEGER_PANEL, padded with zeros, and packed
 * once: [groups][panels][pairs of the depth][HRF_INTEGER_PANEL][2]. Rows are cut into blocks that
 * stay in the L2 cache. Sums are exact, so results do not depend on how the work is cut.
 *
 * It knows nothing of tensors: the caller loads the rows of a block and takes their sums.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_INTEGER_PRODUCT_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_INTEGER_PRODUCT_H

#include "engine/backend/compute.h"

enum {
    HRF_INTEGER_PANEL = 16, /* columns: two registers of sums */
    HRF_INTEGER_ROWS = 6,   /* multiplied together; their sums fill 12 of the 16 registers */
};

/* Rows of a block, for one group of columns. */
struct hrf_integer_rows {
    int64_t first, n, group;
    int16_t *numbers; /* [n][stride] */
    int64_t stride;
    float *scales; /* [n], for the caller alone */
};

struct hrf_integer_product {
    int64_t n_rows, depth, n_groups, n_columns; /* n_columns: of each group */
    const int8_t *packed;
    /* Writes the elements of the rows, `depth` of each. */
    void (*load)(const void *context, const struct hrf_integer_rows *rows);
    /* Takes the sums of at most HRF_INTEGER_ROWS rows and of n columns from `column` of their group
     * on: sums[rows->n][HRF_INTEGER_PANEL]. */
    void (*finish)(const void *context, const struct hrf_integer_rows *rows, int64_t column,
                   int64_t n, const int32_t *sums);
    /* Called after the last sums of the rows in columns [column, end) of their group. NULL:
     * nothing. */
    void (*end)(const void *context, const struct hrf_integer_rows *rows, int64_t column,
                int64_t end);
    /* The following are set by hrf_integer_product_plan(). */
    int64_t n_threads, block, n_blocks, n_slices; /* blocks of rows, slices of all panels */
};

/* The size of `packed` in bytes. It must be zeros before the first column is packed. */
size_t hrf_integer_packed_bytes(const struct hrf_integer_product *product);
/* Packs one column. `w`: [depth]. */
void hrf_integer_pack_column(const struct hrf_integer_product *product, int64_t group,
                             int64_t column, const int8_t *w, int8_t *packed);
/* Divides the work among n_threads threads; returns the size of the workspace in bytes. */
size_t hrf_integer_product_plan(struct hrf_integer_product *product, int64_t n_threads);
void hrf_integer_product_run(const struct hrf_integer_product *product, const void *context,
                             void *workspace);

/* How the sums of a panel become 8-bit outputs, as struct hrf_requantize says. */
struct hrf_integer_finish {
    const struct hrf_requantize *requantize;
    enum hrf_dtype type, residual_type; /* type: S8, U8 or F32 */
    int32_t zero_point;
    const float *bias, *multiplier; /* [HRF_INTEGER_PANEL] */
    const uint8_t *residual;        /* the first row; NULL: none */
    char *y;                        /* likewise; may be the residual */
    int64_t stride;                 /* elements from one row to the next, of both */
    int64_t n_rows, n_columns;
};

/* For each instruction set NAME: hrf_integer_sums_NAME() sums n_rows rows, 1 to HRF_INTEGER_ROWS,
 * with one panel, whose columns from n_columns on are zeros. hrf_integer_widen_NAME() widens n
 * bytes and subtracts their zero point. hrf_integer_finish_NAME() does what struct
 * hrf_integer_finish says. */
#define HRF_INTEGER_DECLARE(name)                                                                  \
    void hrf_integer_sums_##name(const int16_t *a, int64_t stride, int64_t n_rows,                 \
                                 const int8_t *panel, int64_t n_columns, int64_t n_pairs,          \
                                 int32_t *sums);                                                   \
    void hrf_integer_widen_##name(enum hrf_dtype type, int32_t zero_point, const uint8_t *x,       \
                                  int64_t n, int16_t *to);                                         \
    void hrf_integer_finish_##name(const struct hrf_integer_finish *finish, const int32_t *sums);
HRF_INTEGER_DECLARE(plain)
HRF_INTEGER_DECLARE(avx2)

/* The functions of this build. The back end requires AVX2. */
#ifdef HRF_BUILD_AVX2
#define HRF_INTEGER_LOOPS(function) function##_avx2
#define HRF_INTEGER_LOOPS_NAME      ":avx2"
#else
#define HRF_INTEGER_LOOPS(function) function##_plain
#define HRF_INTEGER_LOOPS_NAME      ""
#endif

#endif
