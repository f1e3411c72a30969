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

/* Gives the setting of a workflow or a recipe another value than it has. */
static inline void change_setting(void *record, const struct hrf_setting *setting)
{
    void *place = (char *)record + setting->at;
    struct hrf_text_list *list = place;
    struct hrf_workflow *w = record; /* of precisions, which no recipe has */
    switch (setting->type) {
    case HRF_SETTING_WORD:
        *(int *)place = *(int *)place == 0;
        break;
    case HRF_SETTING_INT:
    case HRF_SETTING_SIZE:
        *(int64_t *)place += 1;
        break;
    case HRF_SETTING_REAL:
        *(double *)place += 0.125;
        break;
    case HRF_SETTING_BOOL:
        *(bool *)place = !*(bool *)place;
        break;
    case HRF_SETTING_TEXT:
    case HRF_SETTING_PATH:
    case HRF_SETTING_DURATION:
        set_text(place, "other");
        break;
    case HRF_SETTING_TEXTS:
    case HRF_SETTING_PATHS:
        hrf_text_list_release(list);
        list->items = hrf_calloc(1, sizeof list->items[0]);
        list->items[list->n_items++] = hrf_strdup("other");
        break;
    case HRF_SETTING_TRIPLE:
        ((double *)place)[2] += 0.125;
        break;
    case HRF_SETTING_PRECISIONS:
        w->precision[w->n_precisions++] = HRF_INT8;
        break;
    }
}

#endif
