/* A module that a test loads, of no build of hires-flow: its operations are one number. */
#include "base/module.h"

static const int answer = 42;
extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .build = "a test", .operations = &answer };
