/* must.h - ends a test with the error of a call that must not fail. */
#ifndef HRF_TESTS_UNIT_MUST_H
#define HRF_TESTS_UNIT_MUST_H

#include "base/error.h"
#include "tests/unit/unit.h"

static inline void must(enum hrf_status status, const struct hrf_error *err)
{
    if (status != HRF_OK)
        fail_msg("%s", err->text);
}

/* The same for an expression that names its error `err`. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        struct hrf_error must_err_ = { .status = HRF_OK };                                         \
        struct hrf_error *err = &must_err_;                                                        \
        if ((call) != HRF_OK)                                                                      \
            fail_msg("%s", must_err_.text);                                                        \
    } while (0)

#endif
