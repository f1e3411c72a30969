/* tables.h - labels and patch scores as files that other programs read.
 *
 * The patch tables have WSInfer's exact forms. CSV: `minx,miny,width,height,prob_<class>...` in
 * level-0 pixels, one row per patch in the order of the tile plan (x outer, y fastest), each
 * probability the shortest decimal of the float widened to double, as pandas writes the column
 * ("3.4273725350864037e-12"), lines ended by \n. GeoJSON: what Python's json.dump makes of
 * WSInfer's features, with the most likely class as QuPath's classification (geojson.h) beside
 * their measurements, coordinates as floats ("350.0"), gzipped; ids have the form of a random
 * UUID but are made from slide and patch by SHA-256, so that they are the same on every run and
 * at every precision. Bytes depend on nothing else.
 */
#ifndef HRF_AGGREGATE_REPORT_TABLES_H
#define HRF_AGGREGATE_REPORT_TABLES_H

#include "aggregate/study/cohort.h"
#include "base/error.h"

/* HRF_E_USER when the scores are not those of the plan or have other classes than the cohort. */
HRF_CHECKED enum hrf_status hrf_report_check_scores(const struct hrf_cohort *cohort,
                                                    const struct hrf_tile_plan *plan,
                                                    const struct hrf_scores *scores,
                                                    struct hrf_error *err);

/* `slide,label,score,precision,truth,state,reason`: every slide, precision by precision, in cohort
 * order. label and score are empty where there is no score, truth where it is not known. RFC 4180
 * quoting, lines ended by \n. */
HRF_CHECKED enum hrf_status hrf_report_labels(const struct hrf_cohort *cohort, const char *path,
                                              struct hrf_error *err);
/* One line per precision: the rows of figures (study/figure_rows.h) that are shown in study.csv, by
 * place. A figure that cannot be computed is an empty field. */
HRF_CHECKED enum hrf_status hrf_report_study(const struct hrf_cohort *cohort, const char *path,
                                             struct hrf_error *err);
/* Every patch whose most likely class differs from the reference's, in (precision, slide,
 * patch) order. Columns: slide, minx and miny (level-0 px), precision, label and score (probability
 * of the positive class) at the reference and at the precision, the largest difference of any
 * class. */
HRF_CHECKED enum hrf_status hrf_report_patch_flips(const struct hrf_cohort *cohort,
                                                   const char *path, struct hrf_error *err);
/* `head`: with attention; its columns then replace the probabilities, one column for each branch.
 * NULL: none. */
HRF_CHECKED enum hrf_status hrf_report_patch_csv(const struct hrf_cohort *cohort,
                                                 const struct hrf_tile_plan *plan,
                                                 const struct hrf_scores *scores,
                                                 const struct hrf_head_scores *head,
                                                 const char *path, struct hrf_error *err);
/* The class activation map of a slide that was scored as one image, in the same form: a row for
 * each cell, row by row, with `activation_<class>` of the predicted class. Outside the slide, where
 * the frame is white, minx and miny may be below 0. */
HRF_CHECKED enum hrf_status hrf_report_class_map(const struct hrf_cohort *cohort,
                                                 const struct hrf_tile_plan *plan,
                                                 const struct hrf_class_map *map, const char *path,
                                                 struct hrf_error *err);
/* slide_name: what the ids are made from, beside the patch. */
HRF_CHECKED enum hrf_status hrf_report_patch_geojson(const struct hrf_cohort *cohort,
                                                     const char *slide_name,
                                                     const struct hrf_tile_plan *plan,
                                                     const struct hrf_scores *scores,
                                                     const struct hrf_head_scores *head,
                                                     const char *path, struct hrf_error *err);

/* The lesions of one slide in the form of CAMELYON16's lesion task: confidence,x,y, no header. */
HRF_CHECKED enum hrf_status hrf_report_lesions(const struct hrf_cohort *cohort,
                                               const struct hrf_tile_plan *plan,
                                               const struct hrf_scores *scores, const char *path,
                                               struct hrf_error *err);

/* patch-quality.csv: patches that are white where a tile does not decode. Without any there is no
 * such file. */
HRF_CHECKED enum hrf_status hrf_report_patch_quality(const struct hrf_cohort *cohort,
                                                     const char *path, struct hrf_error *err);

#endif
