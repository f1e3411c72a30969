/* precision.c - the rows of precisions (precision.h). */
#include "schema/settings/precision.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define ROWS                                                                                       \
    /*       value     name   needs_tf32 needs_scales */                                           \
    ROW(HRF_FP32, "fp32", false, false)                                                            \
    ROW(HRF_TF32, "tf32", true, false)                                                             \
    ROW(HRF_FP16, "fp16", false, false)                                                            \
    ROW(HRF_BF16, "bf16", false, false)                                                            \
    ROW(HRF_INT8, "int8", false, true)

#define ROW(value, name, needs_tf32, needs_scales) [value] = { name, needs_tf32, needs_scales },
static const struct hrf_precision_row rows[HRF_N_PRECISIONS] = { ROWS };
#undef ROW

#define ROW(value, name, needs_tf32, needs_scales) [value] = name,
const char *const hrf_precision_names[HRF_N_PRECISIONS + 1] = { ROWS NULL };
#undef ROW

const struct hrf_precision_row *hrf_precision_row(enum hrf_precision precision)
{
    assert(precision < HRF_N_PRECISIONS);
    return &rows[precision];
}

const char *hrf_precision_name(enum hrf_precision precision)
{
    return hrf_precision_row(precision)->name;
}

enum hrf_precision hrf_precision_find(const char *name)
{
    int p = 0;
    while (p < HRF_N_PRECISIONS && strcmp(rows[p].name, name) != 0)
        p++;
    return (enum hrf_precision)p;
}
