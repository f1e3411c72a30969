/* truth.h - reads the truth of CAMELYON16's slides from its files, without the slides themselves.
 *
 * The folder is taken as it was downloaded: files are recognised by their names wherever they lie
 * below it (to a depth of 8).
 *
 * - reference.csv: name, Tumor|Normal, histology, Macro|Micro|None; it needs no header.
 * - NAME.xml: ASAP's outlines, in a folder or in a *.zip whose name contains "annotation".
 * - NAME_mask.tif, or NAME.tif in a folder whose name contains "mask" or "evaluation": a mask.
 * - NAME.tif elsewhere: a slide; only its size is read, to clip outlines.
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
    HRF_METASTASIS_UNKNOWN, /* also for negative slides */
    HRF_METASTASIS_MICRO,
    HRF_METASTASIS_MACRO
};

struct hrf_truth_slide {
    char *name; /* as hrf_camelyon16_name() */
    enum hrf_truth truth;
    enum hrf_metastasis_size size;
    char *histology;           /* NULL = not known */
    char *xml, *mask, *image;  /* paths; NULL = not there */
    const struct hrf_zip *zip; /* the archive with the outlines if xml is NULL, and its entry */
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

/* Reads all files below `root`; `warnings` (may be NULL) gets a line for each warning. HRF_E_USER:
 * there is no such folder, it has no file on any slide, an archive or reference.csv is malformed,
 * or a slide has two labels. */
HRF_CHECKED enum hrf_status hrf_truth_set_read(const char *root, struct hrf_truth_set **out,
                                               struct hrf_strbuf *warnings, struct hrf_error *err);
void hrf_truth_set_destroy(struct hrf_truth_set *set);
HRF_DEFINE_AUTO(hrf_truth_set)

/* Finds a slide by any form of its name; NULL if it is not known. */
const struct hrf_truth_slide *hrf_truth_set_find(const struct hrf_truth_set *set, const char *name);
bool hrf_truth_has_lesions(const struct hrf_truth_slide *slide);

/* Reads the lesions of a positive slide. If it has outlines and a mask, prefer_xml selects the
 * outlines. *n_outside gets the number of vertices beyond the slide's edges. */
HRF_CHECKED enum hrf_status hrf_truth_lesions(const struct hrf_truth_slide *slide, bool prefer_xml,
                                              struct hrf_lesions **out, int64_t *n_outside,
                                              struct hrf_error *err);

#endif
