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
    json_t *root = json_object(), *runs = json_object(), *notes = json_array();
    hrf_json_put_text(runs, "A", directories[0]);
    hrf_json_put_text(runs, "B", directories[1]);
    for (size_t i = 0; i < pair->n_notes; i++) {
        json_t *note = json_object();
        hrf_json_put_text(note, "slide", pair->notes[i].slide);
        hrf_json_put_text(note, "text", pair->notes[i].text);
        hrf_json_add(notes, note);
    }
    hrf_json_put_int(root, "version", 1);
    hrf_json_put_text(root, "name", pair->cohort->name);
    hrf_json_put(root, "runs", runs);
    hrf_json_put_int(root, "slides", (int64_t)pair->cohort->n_slides);
    hrf_json_put_int(root, "patches", pair->n_patches);
    hrf_json_put_int(root, "patches_only_in_a", pair->n_only[0]);
    hrf_json_put_int(root, "patches_only_in_b", pair->n_only[1]);
    hrf_json_put(root, "notes", notes);
    hrf_json_put(root, "precisions", hrf_report_precisions_json(pair->cohort));
    return root;
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
    hrf_clock_iso8601(hrf_clock_wall_ms(), now);
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(hrf_json_write_file(json, root, err));
    HRF_TRY(hrf_report_study(pair->cohort, study, err));
    HRF_TRY(hrf_report_patch_flips(pair->cohort, flips, err));
    return hrf_report_pair_page(pair, directories, now, page, err);
}
