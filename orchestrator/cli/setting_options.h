/* setting_options.h - command line options made from the rows of settings (schema/settings), with
 * their names, help and defaults.
 */
#ifndef HRF_ORCHESTRATOR_CLI_SETTING_OPTIONS_H
#define HRF_ORCHESTRATOR_CLI_SETTING_OPTIONS_H

#include "base/args.h"
#include "schema/settings/settings.h"

enum { HRF_MAX_OPTIONS = 96 };

struct hrf_setting_options {
    struct hrf_option table[HRF_MAX_OPTIONS + 1]; /* for hrf_args_parse(); NULL-terminated */
    size_t n; /* number of options of settings, which come first in the table */
    const struct hrf_setting *settings[HRF_MAX_OPTIONS]; /* [n] */
    const struct hrf_setting *twins[HRF_MAX_OPTIONS];    /* [n]: the same in the other tiler.mode */
    const char *values[HRF_MAX_OPTIONS];                 /* [n]; NULL: not given; of argv */
    bool flags[HRF_MAX_OPTIONS];                         /* [n] */
    char help[HRF_MAX_OPTIONS][512];                     /* [n] */
};

/* Makes the table: the options of all settings that have one and change results of one of `phases`
 * (HRF_FOR_...; 0: any), then the command's own options `more`, which a NULL name ends. From then
 * on messages name settings by options (hrf_settings_name_by()). The object must not be moved. */
void hrf_setting_options_init(struct hrf_setting_options *options, unsigned phases,
                              const struct hrf_option *more);
/* Appends "key=value" for each option that was given, as --set takes it; paths become absolute. */
HRF_CHECKED enum hrf_status hrf_setting_options_given(const struct hrf_setting_options *options,
                                                      struct hrf_text_list *out,
                                                      struct hrf_error *err);

#endif
