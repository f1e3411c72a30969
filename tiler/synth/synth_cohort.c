/* synth_cohort.c - a cohort in the CAMELYON16 layout: slides, reference.csv, ASAP annotations. */
#include "base/alloc.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "tiler/synth/synth.h"
#include "tiler/synth/tissue_texture.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const double slide_mpp = 0.25;

enum kind { NORMAL, MACRO, MICRO, EMPTY, TRUNCATED };

struct job {
    const char *directory;
    const struct hrf_synth_params *params;
    hrf_synth_progress *progress;
    _Atomic int next, done;
    pthread_mutex_t lock;
    enum hrf_status status;
    struct hrf_error error;
};

static enum kind kind_of(const struct hrf_synth_params *params, int i)
{
    static const enum kind pattern[] = { NORMAL, MACRO, NORMAL, MICRO };
    if (i == params->n_slides - 1)
        return TRUNCATED;
    return i == params->n_slides - 2 ? EMPTY : pattern[i % 4];
}

static struct hrf_blob random_blob(struct hrf_random *random, double x, double y, double r)
{
    return (struct hrf_blob){ .x = x,
                              .y = y,
                              .rx = r * (0.8 + 0.5 * hrf_random_unit(random)),
                              .ry = r * (0.8 + 0.5 * hrf_random_unit(random)),
                              .phase = 6.28 * hrf_random_unit(random),
                              .atypia = 1 };
}

/* Makes a slide hard: its lesions less plain, and one or two benign look-alikes anywhere in its
 * tissue. At difficulty 1 the means of the two distributions of atypia, 0.75 and 0.2, are less than
 * five deviations apart; a small patch of tissue shows few cells, so that a model errs. Lesions are
 * not smaller than a patch of the demo. The rest of the slide is the same at every difficulty. */
static void make_hard(struct hrf_synth_slide *s, const struct hrf_synth_params *params, int i)
{
    static const double lookalike_mean = 0.2, lesion_loss = 0.25, deviation = 0.12;
    static const double min_radius = 260; /* px */
    const double difficulty = params->difficulty;
    struct hrf_random random = hrf_random_init(params->seed * 7368787u + (uint64_t)i * 104729u);
    double min = (double)(s->width < s->height ? s->width : s->height);
    double drawn = 1 - difficulty * (lesion_loss + deviation * hrf_random_normal(&random));
    for (int l = 0; l < s->n_lesions; l++) {
        s->lesions[l].atypia = fmin(fmax(drawn, 0), 1);
        s->lesions[l].rx = fmax(s->lesions[l].rx, min_radius);
        s->lesions[l].ry = fmax(s->lesions[l].ry, min_radius);
    }
    int n = s->n_tissue == 1 ? 0 : 1 + (int)hrf_random_below(&random, 2);
    while (s->n_lookalikes < n) {
        const struct hrf_blob *tissue = &s->tissue[s->n_lookalikes];
        struct hrf_blob blob = random_blob(
            &random, tissue->x + tissue->rx * (hrf_random_unit(&random) - 0.5),
            tissue->y + tissue->ry * (hrf_random_unit(&random) - 0.5),
            min * (0.07 + 0.06 * hrf_random_unit(&random)));
        drawn = lookalike_mean + difficulty * deviation * hrf_random_normal(&random);
        blob.atypia = fmin(fmax(drawn, 0), 1);
        s->lookalikes[s->n_lookalikes++] = blob;
    }
}

static struct hrf_synth_slide plain_slide(const struct hrf_synth_params *params, int i)
{
    struct hrf_random random = hrf_random_init(params->seed * 1000003u + (uint64_t)i * 7919u + 17u);
    double size = (double)params->size;
    enum kind kind = kind_of(params, i);
    struct hrf_synth_slide s = {
        .width = (int64_t)(size * (0.84 + 0.32 * hrf_random_unit(&random))),
        .height = (int64_t)(size * (0.84 + 0.32 * hrf_random_unit(&random))),
        .seed = hrf_random_u64(&random),
    };
    double w = (double)s.width, h = (double)s.height, min = w < h ? w : h;
    if (kind == EMPTY) {
        s.tissue[s.n_tissue++] = random_blob(&random, w * 0.3, h * 0.6, min * 0.06);
        s.faint = 0.6;
        return s;
    }
    s.tissue[s.n_tissue++] = random_blob(&random, w * (0.38 + 0.1 * hrf_random_unit(&random)),
                                         h * (0.4 + 0.1 * hrf_random_unit(&random)), min * 0.28);
    s.tissue[s.n_tissue++] = random_blob(&random, w * 0.74, h * 0.76, min * 0.13);
    if (kind == NORMAL)
        return s;
    double r = min * (kind == MICRO ? 0.06 : 0.14);
    s.lesions[s.n_lesions++] = random_blob(
        &random, s.tissue[0].x + 0.3 * s.tissue[0].rx * hrf_random_unit(&random),
        s.tissue[0].y - 0.3 * s.tissue[0].ry * hrf_random_unit(&random), r);
    return s;
}

static struct hrf_synth_slide make_slide(const struct hrf_synth_params *params, int i)
{
    struct hrf_synth_slide s = plain_slide(params, i);
    if (params->difficulty > 0)
        make_hard(&s, params, i);
    return s;
}

static void add_polygon(struct hrf_strbuf *xml, const struct hrf_blob *blob, int index)
{
    enum { VERTICES = 64 };
    hrf_strbuf_addf(xml,
                    "\t\t<Annotation Name=\"Annotation %d\" Type=\"Polygon\" "
                    "PartOfGroup=\"Tumor\" Color=\"#F4FA58\">\n\t\t\t<Coordinates>\n",
                    index);
    for (int i = 0; i < VERTICES; i++) {
        double angle = 6.283185307179586 * i / VERTICES;
        double rim = hrf_blob_depth(blob, blob->x + 1e-9 * blob->rx * cos(angle),
                                    blob->y + 1e-9 * blob->ry * sin(angle));
        hrf_strbuf_addf(xml, "\t\t\t\t<Coordinate Order=\"%d\" X=\"%.1f\" Y=\"%.1f\" />\n", i,
                        blob->x + rim * blob->rx * cos(angle),
                        blob->y + rim * blob->ry * sin(angle));
    }
    hrf_strbuf_adds(xml, "\t\t\t</Coordinates>\n\t\t</Annotation>\n");
}

static enum hrf_status write_annotation(const char *path, const struct hrf_synth_slide *slide,
                                        struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) xml = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&xml, "<?xml version=\"1.0\"?>\n<ASAP_Annotations>\n\t<Annotations>\n");
    for (int i = 0; i < slide->n_lesions; i++)
        add_polygon(&xml, &slide->lesions[i], i);
    hrf_strbuf_adds(&xml, "\t</Annotations>\n\t<AnnotationGroups>\n\t\t<Group Name=\"Tumor\" "
                          "PartOfGroup=\"None\" Color=\"#64FE2E\">\n\t\t\t<Attributes />\n\t\t"
                          "</Group>\n\t</AnnotationGroups>\n</ASAP_Annotations>\n");
    return hrf_file_write_atomic(path, xml.text, xml.length, err);
}

static enum hrf_status write_slide(const struct job *job, int i, struct hrf_error *err)
{
    struct hrf_synth_slide slide = make_slide(job->params, i);
    HRF_AUTO_FREE char *path = hrf_format("%s/testing/images/test_%03d.tif", job->directory, i + 1);
    HRF_AUTO_FREE char *xml = hrf_format("%s/testing/lesion_annotations/test_%03d.xml",
                                         job->directory, i + 1);
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array((size_t)(slide.width * slide.height), 3);
    HRF_CHECK_MEMORY(rgb != NULL, err, "no memory for a slide of %lld x %lld px",
                     (long long)slide.width, (long long)slide.height);
    HRF_AUTO_FREE char *temporary = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    hrf_synth_draw(&slide, rgb);
    HRF_TRY(hrf_file_temporary(path, &temporary, &fd, err));
    HRF_TRY(hrf_synth_write_pyramid(temporary, rgb, slide.width, slide.height, slide_mpp, err));
    if (kind_of(job->params, i) == TRUNCATED &&
        truncate(temporary, hrf_path_size(temporary) / 3) != 0)
        return hrf_error_set(err, HRF_E_EXTERNAL, "cannot cut '%s' short", temporary);
    HRF_TRY(hrf_file_commit(temporary, path, err));
    return slide.n_lesions > 0 ? write_annotation(xml, &slide, err) : HRF_OK;
}

static void *work(void *context)
{
    struct job *job = context;
    for (;;) {
        int i = atomic_fetch_add(&job->next, 1);
        if (i >= job->params->n_slides)
            return NULL;
        struct hrf_error err = { .status = HRF_OK };
        enum hrf_status status = write_slide(job, i, &err);
        pthread_mutex_lock(&job->lock);
        if (status != HRF_OK && job->status == HRF_OK) {
            job->status = status;
            job->error = err;
        }
        if (job->progress != NULL)
            job->progress(++job->done, job->params->n_slides);
        bool stop = job->status != HRF_OK;
        pthread_mutex_unlock(&job->lock);
        if (stop)
            return NULL;
    }
}

/* A slide needs 3 bytes for each pixel. The limit is for four slides at once. */
static enum hrf_status write_slides(struct job *job, struct hrf_error *err)
{
    enum { MAX_THREADS = 4 };
    pthread_t threads[MAX_THREADS];
    int n = hrf_process_cpu_count(), started = 0;
    n = n < MAX_THREADS ? n : MAX_THREADS;
    pthread_mutex_init(&job->lock, NULL);
    while (started < n && pthread_create(&threads[started], NULL, work, job) == 0)
        started++;
    if (started == 0)
        work(job);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&job->lock);
    if (job->status != HRF_OK && err != NULL)
        *err = job->error;
    return job->status;
}

static enum hrf_status write_reference(const char *directory, const struct hrf_synth_params *params,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) csv = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "testing/reference.csv");
    for (int i = 0; i < params->n_slides; i++) {
        enum kind kind = kind_of(params, i);
        bool tumour = kind == MACRO || kind == MICRO || kind == TRUNCATED;
        hrf_strbuf_addf(&csv, "test_%03d,%s,%s,%s\n", i + 1, tumour ? "Tumor" : "Normal",
                        tumour ? "IDC" : "None",
                        !tumour         ? "None"
                        : kind == MICRO ? "Micro"
                                        : "Macro");
    }
    return hrf_file_write_atomic(path, csv.text, csv.length, err);
}

static void add_drawn(struct hrf_strbuf *csv, int i, const char *kind, const struct hrf_blob *blobs,
                      int n)
{
    for (int b = 0; b < n; b++)
        hrf_strbuf_addf(csv, "test_%03d,%s,%.0f,%.0f,%.0f,%.0f,%.3f\n", i + 1, kind, blobs[b].x,
                        blobs[b].y, blobs[b].rx, blobs[b].ry, blobs[b].atypia);
}

/* Writes drawn.csv, which no model is told: where the lesions and look-alikes lie, and how atypical
 * each is. */
static enum hrf_status write_drawn(const char *directory, const struct hrf_synth_params *params,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) csv = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "testing/drawn.csv");
    hrf_strbuf_adds(&csv, "slide,kind,x,y,rx,ry,atypia\n");
    for (int i = 0; i < params->n_slides; i++) {
        struct hrf_synth_slide s = make_slide(params, i);
        add_drawn(&csv, i, "lesion", s.lesions, s.n_lesions);
        add_drawn(&csv, i, "look-alike", s.lookalikes, s.n_lookalikes);
    }
    return hrf_file_write_atomic(path, csv.text, csv.length, err);
}

enum hrf_status hrf_synth_cohort(const char *directory, const struct hrf_synth_params *params,
                                 hrf_synth_progress *progress, struct hrf_error *err)
{
    static const char *const folders[] = { "testing/images", "testing/lesion_annotations" };
    for (size_t i = 0; i < 2; i++) {
        HRF_AUTO_FREE char *folder = hrf_path_join(directory, folders[i]);
        HRF_TRY(hrf_path_make_directories(folder, err));
    }
    struct job job = { .directory = directory, .params = params, .progress = progress };
    HRF_TRY(write_slides(&job, err));
    HRF_TRY(write_drawn(directory, params, err));
    return write_reference(directory, params,
                           err); /* written last: if it exists, the cohort is complete */
}
