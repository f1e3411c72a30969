/* methods.c - writes methods.md: sentences from the cohort, works numbered as they are cited. */
#include "aggregate/report/methods.h"

#include "aggregate/plot/out.h"
#include "base/path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum work {
    OPENSLIDE,
    OTSU,
    WSINFER,
    CLAM,
    NCRF,
    ONNX,
    QUANTISATION,
    NEWCOMBE,
    DELONG,
    OBUCHOWSKI,
    CALIBRATION,
    CAMELYON,
    YOUDEN,
    STAIN_JITTER,
    WINNERS,
    N_WORKS
};

static const char *const works[N_WORKS] = {
    [OPENSLIDE] = "Goode A, Gilbert B, Harkes J, Jukic D, Satyanarayanan M. OpenSlide: a "
                  "vendor-neutral software foundation for digital pathology. Journal of Pathology "
                  "Informatics 4:27, 2013.",
    [OTSU] = "Otsu N. A threshold selection method from gray-level histograms. IEEE Transactions "
             "on Systems, Man, and Cybernetics 9(1):62-66, 1979.",
    [WSINFER] = "Kaczmarzyk JR, O'Callaghan A, Inglis F, et al. Open and reusable deep learning "
                "for pathology with WSInfer and QuPath. npj Precision Oncology 8:9, 2024.",
    [CLAM] = "Lu MY, Williamson DFK, Chen TY, Chen RJ, Barbieri M, Mahmood F. Data-efficient and "
             "weakly supervised computational pathology on whole-slide images. Nature Biomedical "
             "Engineering 5:555-570, 2021.",
    [NCRF] = "Li Y, Ping W. Cancer metastasis detection with neural conditional random field. "
             "MIDL, 2018.",
    [ONNX] = "ONNX: Open Neural Network Exchange. https://onnx.ai.",
    [QUANTISATION] = "Jacob B, Kligys S, Chen B, et al. Quantization and training of neural "
                     "networks for efficient integer-arithmetic-only inference. CVPR, 2018.",
    [NEWCOMBE] = "Newcombe RG. Confidence intervals for an effect size measure based on the "
                 "Mann-Whitney statistic. Part 2: asymptotic methods and evaluation. Statistics in "
                 "Medicine 25(4):559-573, 2006.",
    [DELONG] = "DeLong ER, DeLong DM, Clarke-Pearson DL. Comparing the areas under two or more "
               "correlated receiver operating characteristic curves: a nonparametric approach. "
               "Biometrics 44(3):837-845, 1988.",
    [OBUCHOWSKI] = "Obuchowski NA. Nonparametric analysis of clustered ROC curve data. Biometrics "
                   "53(2):567-578, 1997.",
    [CALIBRATION] = "Naeini MP, Cooper GF, Hauskrecht M. Obtaining well calibrated probabilities "
                    "using Bayesian binning. AAAI, 2015.",
    [CAMELYON] = "Ehteshami Bejnordi B, Veta M, van Diest PJ, et al. Diagnostic assessment of deep "
                 "learning algorithms for detection of lymph node metastases in women with breast "
                 "cancer. JAMA 318(22):2199-2210, 2017.",
    [YOUDEN] = "Youden WJ. Index for rating diagnostic tests. Cancer 3(1):32-35, 1950.",
    [STAIN_JITTER] = "Tellez D, Balkenhol M, Otte-Höller I, et al. Whole-slide mitosis detection "
                     "in H&E breast histology using PHH3 as a reference to train distilled "
                     "stain-invariant convolutional networks. IEEE Transactions on Medical Imaging "
                     "37(9):2126-2136, 2018.",
    [WINNERS] = "Wang D, Khosla A, Gargeya R, Irshad H, Beck AH. Deep learning for identifying "
                "metastatic breast cancer. arXiv:1606.05718, 2016."
};

struct methods {
    struct hrf_out *out;
    const struct hrf_cohort *cohort;
    int order[N_WORKS]; /* works in the order of their first citation */
    int n;
};

static void cite(struct methods *m, enum work work)
{
    int at = 0;
    while (at < m->n && m->order[at] != (int)work)
        at++;
    if (at == m->n)
        m->order[m->n++] = (int)work;
    hrf_out_addf(m->out, " [%d]", at + 1);
}

/* A name as code: nothing in it is markup, and it stays on its line. */
static void name(struct methods *m, const char *text)
{
    hrf_out_adds(m->out, "`");
    for (const char *c = text; *c != '\0'; c++) {
        const char shown = *c == '`' ? '\'' : (unsigned char)*c < 0x20 ? ' ' : *c;
        hrf_out_add(m->out, &shown, 1);
    }
    hrf_out_adds(m->out, "`");
}

/* A line of the provenance; "" if it is not there. */
static const char *fact(const struct methods *m, const char *wanted)
{
    for (size_t i = 0; i < m->cohort->n_provenance; i++)
        if (strcmp(m->cohort->provenance[i].name, wanted) == 0)
            return m->cohort->provenance[i].text;
    return "";
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- slides and patches ---- */

static void slides(struct methods *m)
{
    const struct hrf_cohort_counts *c = &m->cohort->counts;
    hrf_out_addf(m->out, "%zu whole-slide image%s %s processed with hires-flow %s and read with %s",
                 c->total - c->excluded, c->total - c->excluded == 1 ? "" : "s",
                 c->total - c->excluded == 1 ? "was" : "were", fact(m, "hires-flow"),
                 fact(m, "slide reader")[0] != '\0' ? fact(m, "slide reader") : "OpenSlide");
    cite(m, OPENSLIDE);
    hrf_out_adds(m->out, ". ");
    if (c->excluded > 0) {
        hrf_out_addf(m->out, "%zu more %s excluded before: ", c->excluded,
                     c->excluded == 1 ? "was" : "were");
        name(m, fact(m, "excluded slides"));
        hrf_out_adds(m->out, ". ");
    }
    const struct {
        size_t n;
        const char *text;
    } lost[] = { { c->failed, "could not be read or scored" },
                 { c->no_tissue, "had no tissue" },
                 { c->pending, "are not done" } };
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
        if (lost[i].n > 0)
            hrf_out_addf(m->out, "%zu of them %s. ", lost[i].n, lost[i].text);
}

static void tissue(struct methods *m)
{
    static const struct {
        const char *method, *text;
        enum work work;
    } methods[] = { { "otsu",
                      "by a threshold of the saturation half-way between that of glass and Otsu's",
                      OTSU },
                    { "wsinfer", "as WSInfer does", WSINFER },
                    { "clam", "as CLAM does", CLAM },
                    { "ncrf", "as NCRF does", NCRF } };
    const char *used = fact(m, "tissue method");
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(used, methods[i].method) == 0) {
            hrf_out_addf(m->out, "Tissue was separated from background %s", methods[i].text);
            cite(m, methods[i].work);
            hrf_out_adds(m->out, ". ");
        }
    if (fact(m, "tissue model")[0] != '\0') {
        hrf_out_adds(m->out, "Tissue was separated from background by a network: ");
        name(m, fact(m, "tissue model"));
        hrf_out_adds(m->out, ". ");
    }
}

static void patches(struct methods *m)
{
    const struct hrf_cohort *c = m->cohort;
    HRF_AUTO_FREE int64_t *counts = hrf_alloc_array(c->n_slides + 1, sizeof *counts);
    size_t n = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < c->n_slides; i++)
        if (c->slides[i].n_patches > 0) {
            counts[n++] = c->slides[i].n_patches;
            sum += c->slides[i].n_patches;
        }
    qsort(counts, n, sizeof *counts, by_value);
    hrf_out_adds(m->out, "Patches: ");
    name(m, fact(m, "patches"));
    if (fact(m, "tissue rule")[0] != '\0') {
        hrf_out_adds(m->out, "; tissue: ");
        name(m, fact(m, "tissue rule"));
    }
    if (n > 0)
        hrf_out_addf(m->out, "; in all %lld patches (median %g, range %lld to %lld of a slide)",
                     (long long)sum, (double)(counts[(n - 1) / 2] + counts[n / 2]) / 2.0,
                     (long long)counts[0], (long long)counts[n - 1]);
    hrf_out_adds(m->out, ". ");
}

/* ---- network ---- */

static void network(struct methods *m)
{
    const struct hrf_cohort *c = m->cohort;
    hrf_out_adds(m->out, "Pixels were scaled to 0 to 1 and normalised by the mean ");
    name(m, fact(m, "mean"));
    hrf_out_adds(m->out, " and the standard deviation ");
    name(m, fact(m, "standard deviation"));
    hrf_out_adds(m->out, " of red, green and blue. The network ");
    name(m, hrf_path_name(fact(m, "model")));
    hrf_out_addf(m->out, " (ONNX, SHA-256 %.16s", fact(m, "model SHA-256"));
    cite(m, ONNX);
    hrf_out_adds(m->out, ") was evaluated at ");
    for (size_t i = 0; i < hrf_cohort_n_timed(c); i++)
        hrf_out_addf(m->out, "%s%s",
                     i == 0                           ? ""
                     : i + 1 == hrf_cohort_n_timed(c) ? " and "
                                                      : ", ",
                     c->precisions[i].name);
    const struct hrf_cohort_precision *p = &c->precisions[0];
    for (size_t i = 0; i < p->jobs.n_hardware; i++) {
        hrf_out_adds(m->out, i == 0 ? " on " : ", ");
        name(m, p->jobs.hardware[i].model);
        if (p->jobs.hardware[i].libraries[0] != '\0')
            hrf_out_addf(m->out, " (%s)", p->jobs.hardware[i].libraries);
    }
    hrf_out_adds(m->out, ". ");
    if (c->stain_jitter > 0) {
        hrf_out_addf(m->out,
                     "To compare the effect of precision with that of staining, the patches were "
                     "also evaluated at %s after the stains of each slide had been jittered in HED "
                     "space with sigma %g",
                     p->name, c->stain_jitter);
        cite(m, STAIN_JITTER);
        hrf_out_adds(m->out, ". ");
    }
}

static void calibration(struct methods *m)
{
    const struct hrf_calibration_facts *f = &m->cohort->calibration;
    if (f->key == NULL)
        return;
    hrf_out_addf(m->out,
                 "INT8 inference used static post-training quantisation with symmetric scales, of "
                 "weights for each channel");
    cite(m, QUANTISATION);
    hrf_out_addf(m->out, ", fitted by %s on %lld patches of %s. ",
                 f->method != NULL ? f->method : "an unnamed method", (long long)f->samples,
                 f->of_other_slides ? "slides that were not evaluated"
                 : f->of_training   ? "the cohort's training slides"
                                    : "the same slides");
}

/* ---- statistics ---- */

static void threshold(struct methods *m)
{
    const struct hrf_tuning *t = &m->cohort->tuning;
    if (hrf_cohort_has_many_classes(m->cohort) && !m->cohort->is_multilabel) {
        hrf_out_adds(m->out, "Slides were given the class with the highest score. ");
        return;
    }
    hrf_out_addf(m->out, "Slides were called positive from a score of %.4g on",
                 m->cohort->threshold);
    if (t->is_asked_for && t->reason == NULL) {
        hrf_out_addf(m->out, ", chosen on %zu other slides ", t->n_slides);
        if (t->specificity > 0.0) {
            hrf_out_addf(m->out, "for a specificity of %g", t->specificity);
        } else {
            hrf_out_adds(m->out, "by Youden's index");
            cite(m, YOUDEN);
        }
    }
    hrf_out_adds(m->out, ". ");
}

static void statistics(struct methods *m)
{
    const struct hrf_cohort *c = m->cohort;
    const struct hrf_cohort_precision *p = &c->precisions[0];
    bool is_paired = false;
    if (!isnan(p->slides.auc.value)) {
        hrf_out_addf(
            m->out,
            "On %zu labelled slides we report the area under the ROC curve%s with 95 %% "
            "intervals by Newcombe's method 5",
            p->slides.n_labelled,
            hrf_cohort_has_many_classes(c) ? " of each class against all others, their mean," : "");
        cite(m, NEWCOMBE);
        hrf_out_adds(m->out, ", average precision and the expected calibration error");
        cite(m, CALIBRATION);
        hrf_out_adds(m->out, ". ");
    }
    for (size_t i = 1; i < c->n_precisions; i++)
        is_paired |= !isnan(c->precisions[i].slides.auc_difference.value);
    if (is_paired) {
        hrf_out_addf(m->out, "Areas were compared with that of %s by DeLong's paired test",
                     p->name);
        cite(m, DELONG);
        hrf_out_adds(m->out, ". ");
    }
    if (!isnan(p->patches.auc.value)) {
        hrf_out_adds(m->out, "Patches were judged by the outlines of lesions, with intervals that "
                             "take the patches of a slide as a cluster");
        cite(m, OBUCHOWSKI);
        hrf_out_adds(m->out, ". ");
    }
    if (!isnan(p->lesions.score.value)) {
        hrf_out_adds(m->out, "Lesions were judged by the free-response ROC curve of CAMELYON16");
        cite(m, CAMELYON);
        hrf_out_adds(m->out, ". ");
    }
}

static void scoring(struct methods *m)
{
    const struct hrf_cohort *c = m->cohort;
    if (c->is_embedding && fact(m, "slide head")[0] == '\0')
        return;
    if (fact(m, "slide head")[0] != '\0') {
        hrf_out_adds(m->out, "The embeddings of a slide's patches were scored by the slide head ");
        name(m, hrf_path_name(fact(m, "slide head")));
        hrf_out_adds(m->out, ". ");
    } else if (c->has_forest) {
        hrf_out_adds(m->out, "The heat map of each slide was described by 30 features");
        cite(m, WINNERS);
        hrf_out_addf(m->out,
                     ", of which random forests, each trained on other slides than it "
                     "scored (%s), made the slide scores. ",
                     fact(m, "slide forest"));
    } else {
        hrf_out_addf(m->out, "Patch scores were combined to slide scores by %s. ",
                     hrf_slide_rule_name(c->rule.kind));
    }
    if (!c->is_regression)
        threshold(m);
    statistics(m);
}

/* ---- the file ---- */

static void versions(struct methods *m)
{
    hrf_out_adds(m->out, "\n\n## Versions and settings\n\n");
    for (size_t i = 0; i < m->cohort->n_provenance; i++) {
        hrf_out_addf(m->out, "- %s: ", m->cohort->provenance[i].name);
        name(m, m->cohort->provenance[i].text != NULL ? m->cohort->provenance[i].text : "");
        hrf_out_adds(m->out, "\n");
    }
}

static void references(struct methods *m)
{
    hrf_out_adds(m->out, "\n\n## References\n\n");
    for (int i = 0; i < m->n; i++)
        hrf_out_addf(m->out, "%d. %s\n", i + 1, works[m->order[i]]);
}

enum hrf_status hrf_report_methods(const struct hrf_cohort *cohort, const char *path,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    struct methods m = { .out = out, .cohort = cohort };
    hrf_out_adds(out,
                 "# Methods\n\nA paragraph to start from: what the slides are, where the model "
                 "comes from and who looked at the results has to be added.\n\n");
    slides(&m);
    tissue(&m);
    patches(&m);
    network(&m);
    calibration(&m);
    scoring(&m);
    references(&m);
    versions(&m);
    return hrf_out_commit(out, err);
}
