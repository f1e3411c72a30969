/* A module that a test loads: its operations are one number. */
#include "base/module.h"

static const int answer = 42;
extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .version = HRF_VERSION, .operations = &answer };
