/* compare.c - writes the comparison of two runs as JSON, CSV and HTML. */
#include "aggregate/report/compare.h"

#include "aggregate/report/page.h"
#include "aggregate/report/report_json.h"
#include "aggregate/report/tables.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/path.h"

json_t *hrf_report_pair_json(const struct hrf_run_pair *pair, const char *const directories[2])
{
    json_t *notes = json_array();
    for (size_t i = 0; i < pair->n_notes; i++)
        json_array_append_new(notes,
                              json_pack("{soso}", "slide", hrf_json_string(pair->notes[i].slide),
                                        "text", hrf_json_string(pair->notes[i].text)));
    return json_pack("{siso s{soso} sIsIsIsI soso}", "version", 1, "name",
                     hrf_json_string(pair->cohort->name), "runs", "A",
                     hrf_json_string(directories[0]), "B", hrf_json_string(directories[1]),
                     "slides", (json_int_t)pair->cohort->n_slides, "patches",
                     (json_int_t)pair->n_patches, "patches_only_in_a", (json_int_t)pair->n_only[0],
                     "patches_only_in_b", (json_int_t)pair->n_only[1], "notes", notes, "precisions",
                     hrf_report_precisions_json(pair->cohort));
}

enum hrf_status hrf_report_pair_write(const struct hrf_run_pair *pair,
                                      const char *const directories[2], const char *directory,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char *json = hrf_path_join(directory, "compare.json");
    HRF_AUTO_FREE char *study = hrf_path_join(directory, "study.csv");
    HRF_AUTO_FREE char *flips = hrf_path_join(directory, "patch-flips.csv");
    HRF_AUTO_FREE char *page = hrf_path_join(directory, "index.html");
    HRF_AUTO_JSON root = hrf_report_pair_json(pair, directories);
    char now[24];
    HRF_CHECK_MEMORY(json != NULL && study != NULL && flips != NULL && page != NULL && root != NULL,
                     err, "no memory to write the comparison");
    hrf_clock_iso8601(hrf_clock_wall_ms(), now);
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(hrf_json_write_file(json, root, err));
    HRF_TRY(hrf_report_study(pair->cohort, study, err));
    HRF_TRY(hrf_report_patch_flips(pair->cohort, flips, err));
    return hrf_report_pair_page(pair, directories, now, page, err);
}
