/* fuzz_feature_table.c - any bytes as a table of slide features: refused, or finite numbers. */
#include "aggregate/forest/feature_table.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HRF_AUTO(hrf_feature_table) table = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_feature_table_parse((const char *)data, size, "fuzz.csv",
                                                           &table, &err);
    if (status != HRF_OK && err.text[0] == '\0')
        __builtin_trap(); /* a finding */
    for (size_t i = 0; table != NULL && i < table->n_rows; i++)
        for (size_t k = 0; k < HRF_MAP_FEATURES; k++)
            if (!isfinite(table->rows[i].values[k]))
                __builtin_trap(); /* a finding */
    return 0;
}
