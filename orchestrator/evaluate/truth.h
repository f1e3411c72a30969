/* truth.h - what the files of CAMELYON16 say of its slides, without the slides themselves.
 *
 * The folder is taken as it was downloaded: files are recognised by their names wherever they lie
 * below it (to a depth of 8).
 *
 *   reference.csv            name, Tumor|Normal, histology, Macro|Micro|None; no header needed
 *   NAME.xml                 ASAP outlines, in folders or in a *.zip that has "annotation" in its
 * name NAME_mask.tif, or NAME.tif in a folder named after masks or evaluation: a mask pyramid
 *   NAME.tif elsewhere       a slide: only its size is read, and only to cut off what lies outside
 *
 * A slide's label comes from reference.csv, else from its name or folder (tumor, normal). If there
 * is no reference.csv, a test slide with outlines or a mask is positive, and others are unknown.
 */
#ifndef HRF_ORCHESTRATOR_EVALUATE_TRUTH_H
#define HRF_ORCHESTRATOR_EVALUATE_TRUTH_H

#include "aggregate/camelyon16/lesion_mask.h"
#include "aggregate/camelyon16/zip.h"
#include "base/strbuf.h"
#include "schema/store/store.h"

enum hrf_metastasis_size {
    HRF_METASTASIS_UNKNOWN, /* of negative slides too */
    HRF_METASTASIS_MICRO,
    HRF_METASTASIS_MACRO
};

struct hrf_truth_slide {
    char *name; /* as hrf_camelyon16_name() */
    enum hrf_truth truth;
    enum hrf_metastasis_size size;
    char *histology;           /* NULL = not known */
    char *xml, *mask, *image;  /* paths; NULL = not there */
    const struct hrf_zip *zip; /* holds the outlines, if xml is NULL: */
    const struct hrf_zip_entry *entry;
    int line; /* of reference.csv; 0 = not in it */
};

struct hrf_truth_set {
    struct hrf_truth_slide *slides; /* sorted by name */
    size_t n_slides, capacity;
    struct hrf_zip **zips;
    size_t n_zips;
    char *reference; /* path of reference.csv; NULL = none */
};

/* `warnings` (may be NULL) gets a line for each. HRF_E_USER: no folder, nothing in it that says
 * anything of a slide, an archive or a reference.csv that is wrong, a slide with two labels. */
HRF_CHECKED enum hrf_status hrf_truth_set_read(const char *root, struct hrf_truth_set **out,
                                               struct hrf_strbuf *warnings, struct hrf_error *err);
void hrf_truth_set_destroy(struct hrf_truth_set *set);
HRF_DEFINE_AUTO(hrf_truth_set)

/* By any of the names of a slide; NULL: not known. */
const struct hrf_truth_slide *hrf_truth_set_find(const struct hrf_truth_set *set, const char *name);
bool hrf_truth_has_lesions(const struct hrf_truth_slide *slide);

/* The lesions of a positive slide. prefer_xml: from outlines where both are there, else from the
 * mask. *n_outside: vertices beyond the slide's edges. */
HRF_CHECKED enum hrf_status hrf_truth_lesions(const struct hrf_truth_slide *slide, bool prefer_xml,
                                              struct hrf_lesions **out, int64_t *n_outside,
                                              struct hrf_error *err);

#endif
