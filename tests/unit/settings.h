/* settings.h - settings for tests: all defaults, to change what a test is about. */
#ifndef HRF_TESTS_UNIT_SETTINGS_H
#define HRF_TESTS_UNIT_SETTINGS_H

#include "schema/workflow/workflow.h"
#include "tests/unit/unit.h"

#include <string.h>

/* The caller's to destroy. */
static inline struct hrf_workflow *default_settings(void)
{
    struct hrf_workflow *settings = NULL;
    assert_int_equal(hrf_workflow_create(&settings, NULL), HRF_OK);
    return settings;
}

/* Sets a text or a path. */
static inline void set_text(char **member, const char *text)
{
    hrf_free(*member);
    *member = hrf_strdup(text);
}

#endif
