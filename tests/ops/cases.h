/* cases.h - the operator table: how a random case of each operator is made, and how far a back
 * end may be from `ref`. Benchmarks may time the same cases. */
#ifndef HRF_TESTS_OPS_CASES_H
#define HRF_TESTS_OPS_CASES_H

#include "tests/ops/build.h"

struct op_case {
    const char *name;
    enum hrf_op op;
    /* One node (or a few) over random shapes; returns the output. */
    int32_t (*make)(struct build *b);
    int n_cases;
    double tolerance; /* of relative_difference(); 0: the same bits as ref */
    /* True: one thread and two give the same bits. */
    bool same_on_any_threads;
};
extern const struct op_case op_cases[];
extern const int n_op_cases;

#endif
