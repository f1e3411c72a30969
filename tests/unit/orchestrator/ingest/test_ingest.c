/* From a dataset on disk to rows, every layout by value; files are empty, for no slide is opened.
 */
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "orchestrator/ingest/ingest.h"
#include "tiler/slide/content.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *name, const char *text)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    HRF_AUTO_FREE char *parent = hrf_path_directory(path);
    if (hrf_path_make_directories(parent, &err) != HRF_OK ||
        hrf_file_write_atomic(path, text, strlen(text), &err) != HRF_OK)
        fail_msg("%s", err.text);
}

/* One line a slide: name state truth "label" xml mpp. `dataset` is the YAML of that key, with %s
 * for the folder. */
struct cohort {
    enum hrf_status status;
    char text[4096];
    struct hrf_strbuf warnings;
    struct hrf_error err;
};

static void describe(const struct hrf_slide_rows *rows, char *text, size_t size)
{
    static const char *const truths[] = { "?", "-", "+" }; /* from HRF_TRUTH_UNKNOWN, -1, on */
    size_t at = 0;
    for (size_t i = 0; i < rows->n_items + rows->n_sample && at + 400 < size; i++) {
        const struct hrf_slide_row *r = &rows->items[i];
        assert_int_equal(r->id, i + 1);
        assert_int_equal(r->calibrates, i >= rows->n_items);
        at += (size_t)snprintf(text + at, size - at, "%s", r->calibrates ? "sample: " : "");
        const char *xml = r->annotation != NULL ? strrchr(r->annotation, '/') + 1 : "";
        at += (size_t)snprintf(
            text + at, size - at, "%s %s%s%s%s%s%s%s", r->name,
            truths[r->truth - HRF_TRUTH_UNKNOWN], r->label_text != NULL ? " " : "",
            r->label_text != NULL ? r->label_text : "", xml[0] != '\0' ? " " : "", xml,
            r->state == HRF_SLIDE_FAILED     ? " FAILED"
            : r->state == HRF_SLIDE_EXCLUDED ? " EXCLUDED"
                                             : "",
            r->mpp_csv > 0 ? "" : "\n");
        if (r->mpp_csv > 0)
            at += (size_t)snprintf(text + at, size - at, " %g\n", r->mpp_csv);
        assert_int_equal(r->state == HRF_SLIDE_PENDING, r->reason == NULL);
    }
}

static struct hrf_slide_rows known; /* of the last ingest() */

static struct cohort ingest(const char *dataset)
{
    struct cohort c = { .warnings = HRF_STRBUF_INIT };
    struct hrf_slide_rows rows = { .items = NULL };
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    HRF_AUTO(hrf_workflow) w = NULL;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *where = hrf_path_join(directory, "w.yaml");
    put("model.onnx", "");
    const char *model = strstr(dataset, "\nmodel:") == NULL ? "model: {file: model.onnx}\n" : "";
    hrf_strbuf_addf(&text, "version: 1\n%sdataset: %s\n", model, dataset);
    if (hrf_workflow_parse(text.text, text.length, where, NULL, 0, &w, &findings, &c.err) != HRF_OK)
        fail_msg("%s", findings.text.text);
    hrf_findings_release(&findings);
    hrf_strbuf_release(&text);
    c.status = hrf_ingest(w, &known, &rows, &c.warnings, &c.err);
    if (c.status == HRF_OK)
        describe(&rows, c.text, sizeof c.text);
    hrf_slide_rows_release(&known);
    known = rows;
    return c;
}

static void gives(const char *dataset, const char *rows, const char *warning)
{
    struct cohort c = ingest(dataset);
    if (c.status != HRF_OK)
        fail_msg("%s", c.err.text);
    assert_string_equal(c.text, rows);
    if (warning == NULL)
        assert_string_equal(c.warnings.text, "");
    else if (strstr(c.warnings.text, warning) == NULL)
        fail_msg("warned '%s'", c.warnings.text);
    hrf_strbuf_release(&c.warnings);
}

static void refused(const char *dataset, const char *said)
{
    struct cohort c = ingest(dataset);
    assert_int_equal(c.status, HRF_E_USER);
    if (strstr(c.err.text, said) == NULL)
        fail_msg("'%s' was said, not '%s'", c.err.text, said);
    hrf_strbuf_release(&c.warnings);
}

static void globs_in_order_each_file_once(void **state)
{
    (void)state;
    put("g/b.svs", "");
    put("g/a.svs", "");
    put("g/a.tif", "");
    put("g/\xf0\x9f\x94\xac \"x\".tif", "");
    put("g/folder.tif/x", "");
    gives("{layout: files, files: [g/*.svs]}", "a ?\nb ?\n", NULL);
    gives("{layout: files, files: ['g/*.tif', 'g/*.svs', g/b.svs], exclude: [A]}",
          "a.tif ? EXCLUDED\n\xf0\x9f\x94\xac \"x\" ?\na.svs ? EXCLUDED\nb ?\n",
          "dataset.exclude names 'A', the stem of 2 slides: all are excluded");
    gives("{layout: files, files: [g/b.svs], exclude: [c]}", "b ?\n",
          "dataset.exclude names 'c', which is none of its slides");
    refused("{layout: files, files: [g/*.ndpi]}", "*.ndpi' matches no file");
    refused("{layout: files, files: [nowhere/*.ndpi]}", "nowhere/*.ndpi' matches no file");
    refused("{layout: files, files: [g/b.svs/*.ndpi]}", "*.ndpi' matches no file");
    refused("{layout: files, files: [g/folder.tif]}", "folder.tif' contains no slide");
}

static void a_folder_gives_its_slides_and_folders_in_it_if_asked_for(void **state)
{
    (void)state;
    put("h/b.svs", "");
    put("h/a.TIFF", "");
    put("h/.hidden.svs", "");
    put("h/notes.txt", "");
    put("h/sub/c.ndpi", "");
    put("h/sub/deep/d.scn", "");
    put("h/m.mrxs", "");
    put("h/m/Data0.dat", "");
    gives("{layout: files, files: [h]}", "a ?\nb ?\nm ?\n",
          "dataset.files: passed over: 1 file that is no slide (1 .txt) and 1 folder (recursive: "
          "true searches folders)");
    gives("{layout: files, files: [h], recursive: true}", "a ?\nb ?\nm ?\nc ?\nd ?\n",
          "dataset.files: passed over: 1 file that is no slide (1 .txt)");
    put("h/sub/run/run.db", "");
    put("h/sub/run/results/int8/masks/a.tif", "");
    gives("{layout: files, files: [h], recursive: true}", "a ?\nb ?\nm ?\nc ?\nd ?\n",
          "dataset.files: passed over: 1 file that is no slide (1 .txt) and the results of 1 run");
    put("k/sub/c.ndpi", "");
    refused("{layout: files, files: [k]}", "contains no slide, only folders; set recursive");
}

static const char no_outlines[] = "<ASAP_Annotations><Annotations/></ASAP_Annotations>";

static void a_csv_gives_labels_resolutions_and_annotations(void **state)
{
    (void)state;
    put("c/a.svs", "");
    put("c/sub/b, c.svs", "");
    put("c/a.xml", no_outlines);
    put("c/s.csv", "\xef\xbb\xbfSlide,label,mpp,annotation\r\n"
                   "a.svs,Tumor,0.25,a.xml\r\n"
                   "\r\n"
                   "\"sub/b, c.svs\",0,,\r\n"
                   "gone.svs,,,\r\n"
                   "a.svs/../sub,1\r\n");
    gives("{layout: csv, csv: c/s.csv}",
          "a + Tumor a.xml 0.25\nb, c - 0\ngone ? FAILED\nsub + 1 FAILED\n", NULL);
    put("c/order.csv", "mpp,label,slide\n0.5,NORMAL,a.svs\n");
    gives("{layout: csv, csv: c/order.csv}", "a - NORMAL 0.5\n", NULL);
}

static void names_differ_by_their_folders(void **state)
{
    (void)state;
    put("n/c1/slide.svs", "");
    put("n/c2/slide.svs", "");
    put("n/c2/slide.tif", "");
    put("n/c2/other.tif", "");
    put("n/x/c1/slide.svs", "");
    put("n/y/c1/deep.svs", "");
    put("n/y/slide.svs.tif", "");
    gives("{layout: files, files: ['n/c1/*', 'n/c2/*', 'n/x/c1/*', 'n/y/c1/*', 'n/y/*.tif']}",
          "n/c1/slide ?\nother ?\nc2/slide.svs ?\nslide.tif ?\nx/c1/slide ?\ndeep ?\n"
          "y/slide.svs ?\n",
          NULL);
    /* The order of the dataset changes no name. */
    gives("{layout: files, files: ['n/x/c1/*', 'n/c1/*'], exclude: [x/c1/slide]}",
          "x/c1/slide ? EXCLUDED\nn/c1/slide ?\n", NULL);
    gives("{layout: files, files: ['n/x/c1/*', 'n/c1/*'], exclude: [slide]}",
          "x/c1/slide ? EXCLUDED\nn/c1/slide ? EXCLUDED\n", "names 'slide', the stem of 2 slides");
}

static void a_name_that_fits_no_file_is_told(void **state)
{
    (void)state;
    char name[200], file[220];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(file, sizeof file, "l/%s.svs", name);
    put(file, "");
    struct cohort c = ingest("{layout: files, files: ['l/*.svs']}");
    assert_int_equal(c.status, HRF_OK);
    assert_non_null(strstr(c.warnings.text, "is too long for the names of files"));
    hrf_strbuf_release(&c.warnings);
}

/* ---- what a slide is named by ---- */

static void content_of(const char *name, char out[HRF_HASH_HEX])
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    struct hrf_error err = { .text = "" };
    if (hrf_slide_content(path, HRF_CONTENT_SPREAD, out, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

/* A DICOM file in explicit VR: a sequence without a length that names another series first. */
static void put_dicom(const char *name, const char *series, const char *pixels)
{
    unsigned char file[512] = { 0 };
    size_t n = 132;
    memcpy(file + 128, "DICM", 4);
    static const unsigned char nested[] = "\x08\0\x15\x11SQ\0\0\xff\xff\xff\xff"
                                          "\xfe\xff\0\xe0\xff\xff\xff\xff"
                                          "\x20\0\x0e\0UI\x02\0"
                                          "9\0"
                                          "\xfe\xff\x0d\xe0\0\0\0\0\xfe\xff\xdd\xe0\0\0\0\0"
                                          "\x20\0\x0e\0UI\x02\0";
    memcpy(file + n, nested, sizeof nested - 1);
    n += sizeof nested - 1;
    memcpy(file + n, series, 2);
    n += 2;
    memcpy(file + n, pixels, strlen(pixels));
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    HRF_AUTO_FREE char *folder = hrf_path_directory(path);
    assert_int_equal(hrf_path_make_directories(folder, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, file, n + strlen(pixels), NULL), HRF_OK);
}

/* Puts a file with `text` anew, and expects another identity of the slide, or the same. */
static void changes(const char *slide, const char *file, const char *text, bool is_other)
{
    char before[HRF_HASH_HEX], after[HRF_HASH_HEX];
    content_of(slide, before);
    put(file, text);
    content_of(slide, after);
    if ((strcmp(before, after) != 0) != is_other)
        fail_msg("'%s' %s by '%s'", slide, is_other ? "is not changed" : "is changed", file);
}

static void a_slide_is_named_by_the_content_of_all_its_files(void **state)
{
    (void)state;
    char one[HRF_HASH_HEX], other[HRF_HASH_HEX];
    put("i/a.png", "dark pixels");
    put("j/b.png", "dark pixels");
    content_of("i/a.png", one);
    content_of("j/b.png", other);
    assert_string_equal(one, other); /* neither its path nor its times */
    changes("i/a.png", "i/a.png", "dark pixels", false);
    changes("i/a.png", "i/a.png", "pale pixels", true);
    changes("i/a.png", "i/c.png", "beside", false);
    put("i/m.MRXS", "index");
    put("i/m/Data0000.dat", "pixels");
    changes("i/m.MRXS", "i/m/Data0000.dat", "other pixels", true);
    changes("i/m.MRXS", "i/m/Data0001.dat", "more", true);
    put("i/v.vms", "[Virtual Microscope Specimen]\r\nNoLayers=1\r\nImageFile=v.jpg\r\n");
    put("i/v.jpg", "pixels");
    changes("i/v.vms", "i/v.jpg", "pixelS", true);
    changes("i/v.vms", "i/w.jpg", "beside", false);
    put_dicom("i/d/1.dcm", "1", "level 0");
    put_dicom("i/d/2.dcm", "1", "level 1");
    put_dicom("i/d/3.dcm", "2", "of another slide");
    content_of("i/d/1.dcm", one);
    put_dicom("i/d/3.dcm", "2", "changed");
    content_of("i/d/1.dcm", other);
    assert_string_equal(one, other);
    put_dicom("i/d/2.dcm", "1", "changed");
    content_of("i/d/1.dcm", other);
    assert_string_not_equal(one, other);
}

/* Writes a file of 3 MiB, one byte of which is `value`. */
static void put_large(const char *name, size_t at, char value)
{
    enum { N = 3 << 20 };
    HRF_AUTO_FREE char *bytes = hrf_calloc(N, 1), *path = hrf_path_join(directory, name);
    HRF_AUTO_FREE char *folder = hrf_path_directory(path);
    bytes[at] = value;
    assert_int_equal(hrf_path_make_directories(folder, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, bytes, N, NULL), HRF_OK);
}

static void slides_that_cannot_be_told_apart_are_refused(void **state)
{
    (void)state;
    put_large("blocks/a.svs", 40000, 1); /* between the first block and the second */
    put_large("blocks/b.svs", 40000, 2);
    refused("{layout: files, files: ['blocks/*.svs']}", "put one of them into 'exclude'");
    gives("{layout: files, files: ['blocks/*.svs'], exclude: [b]}", "a ?\nb ? EXCLUDED\n", NULL);
    put_large("blocks/b.svs", (3 << 20) - 1, 2);
    gives("{layout: files, files: ['blocks/*.svs']}", "a ?\nb ?\n", NULL);
    put_large("blocks/b.svs", 40000, 1);
    gives("{layout: files, files: ['blocks/*.svs']}", "a ?\n", "are one slide (the same content)");
}

static void a_slide_is_looked_at_again_if_its_times_say_so(void **state)
{
    (void)state;
    put("t/a.png", "pixels");
    gives("{layout: files, files: ['t/a.png']}", "a ?\n", NULL);
    char true_content[HRF_HASH_HEX];
    memcpy(true_content, known.items[0].content, sizeof true_content);
    assert_int_equal(strlen(true_content), HRF_HASH_HEX - 1);
    memset(known.items[0].content, 'f', HRF_HASH_HEX - 1);
    gives("{layout: files, files: ['t/a.png']}", "a ?\n", NULL);
    assert_int_equal(known.items[0].content[0], 'f'); /* taken over */
    put("t/a.png", "pixels");
    gives("{layout: files, files: ['t/a.png']}", "a ?\n", NULL);
    assert_string_equal(known.items[0].content, true_content);
}

static void a_slide_without_content_has_failed(void **state)
{
    (void)state;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "f/pipe.svs");
    put("f/a.svs", "a");
    assert_int_equal(mkfifo(path, 0600), 0);
    gives("{layout: files, files: ['f/*.svs']}", "a ?\npipe ? FAILED\n", NULL);
    assert_non_null(strstr(known.items[1].reason, "pipe.svs"));
}

/* In the folder d of the test, and what it is there: links of either kind, a copy. */
static void link_to(const char *from, const char *to, bool is_symbolic)
{
    HRF_AUTO_FREE char *source = hrf_path_join(directory, from);
    HRF_AUTO_FREE char *target = hrf_path_join(directory, to);
    assert_int_equal(is_symbolic ? symlink(source, target) : link(source, target), 0);
}

static void a_slide_that_is_there_twice_is_one(void **state)
{
    (void)state;
    put("d/a.svs", "pixels of a");
    put("d/b.svs", "pixels of b"); /* as many bytes */
    put("d/copy.svs", "pixels of a");
    put("d/one.mrxs", "beside");
    put("d/one/Data0000.dat", "pixels of one");
    put("d/two.mrxs", "beside");
    put("d/two/Data0000.dat", "pixels of two");
    put("d/twin.mrxs", "beside");
    put("d/twin/Data0000.dat", "pixels of two");
    link_to("d/a.svs", "d/link.svs", true);
    link_to("d/a.svs", "d/hard.svs", false);
    static const char *const others[] = { "../d/a.svs", "link.svs", "hard.svs", "copy.svs" };
    static const char *const said[] = { "d/a.svs' is there twice: it is taken once",
                                        "link.svs' are one slide (the same file)",
                                        "hard.svs' are one slide (the same file)",
                                        "copy.svs' are one slide (the same content)" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "slide,label,mpp\na.svs,,\nb.svs,0,\n%s,Tumor,0.5\n",
                 others[i]);
        put("d/s.csv", text);
        gives("{layout: csv, csv: d/s.csv}", "a + Tumor 0.5\nb - 0\n", said[i]);
        snprintf(text, sizeof text, "slide,label,mpp\na.svs,normal,\n%s,Tumor,0.5\n", others[i]);
        put("d/s.csv", text);
        refused("{layout: csv, csv: d/s.csv}", "with two labels, normal and Tumor");
        snprintf(text, sizeof text, "slide,label,mpp\na.svs,,0.25\n%s,Tumor,0.5\n", others[i]);
        put("d/s.csv", text);
        refused("{layout: csv, csv: d/s.csv}", "with two resolutions, 0.25 and 0.5 um/px");
    }
    put("d/s.csv", "slide,label\na.svs,normal\ncopy.svs,tumor\n");
    gives("{layout: csv, csv: d/s.csv, exclude: [copy]}", "a - normal\ncopy + tumor EXCLUDED\n",
          NULL);
    /* Without labels, by globs; MIRAX has its pixels beside the file. */
    gives("{layout: files, files: ['d/*.svs', 'd/*.mrxs']}", "a ?\nb ?\none ?\ntwin ?\n",
          "copy.svs' are one slide (the same content): it is taken once");
    gives("{layout: files, files: ['d/*.mrxs']}", "one ?\ntwin ?\n",
          "two.mrxs' are one slide (the same content): it is taken once");
}

/* The words are the user's: positive is the class that model.positive names. */
static void labels_of_a_csv_may_be_the_models_classes(void **state)
{
    (void)state;
    const char *model =
        "{layout: csv, csv: k/s.csv}\nmodel: {file: model.onnx, classes: [benign, in "
        "situ, invasive], positive: invasive}";
    put("k/a.svs", "a");
    put("k/b.svs", "b");
    put("k/c.svs", "c");
    put("k/s.csv", "slide,label\na.svs,In situ\nb.svs,invasive\nc.svs,benign\n");
    gives(model, "a - In situ\nb + invasive\nc - benign\n", NULL);
    put("k/s.csv", "slide,label\na.svs,atypia\n");
    refused(model, "s.csv:2: label 'atypia' is not known; use benign, in situ, invasive, 1, 0 or");
    put("k/s.csv", "slide,label\na.svs,benign\na.svs,in situ\n");
    refused(model, "with two labels, benign and in situ");
}

static void wrong_lines_of_a_csv_are_named_by_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "", "there is no column 'slide'" },
        { "a.svs,tumor\n", "column 'a.svs' is not known" },
        { "slide;label\na.svs;1\n",
          "column 'slide;label' is not known: columns are separated by ','" },
        { "slide,label,slide\n", "column 'slide' is there twice" },
        { "slide\na.svs\n", "there is no column 'label'" },
        { "slide,label\na.svs,maybe\n", "s.csv:2: label 'maybe' is not known" },
        { "slide,label\n,1\n", "s.csv:2: the slide is empty" },
        { "slide,label,mpp\na.svs,1,fast\n", "s.csv:2: mpp 'fast' is not a number" },
        { "slide,label,mpp\na.svs,1,1e308\n", "mpp '1e308' cannot be right; 0.05 to 10 um/px" },
        { "slide,label,mpp\na.svs,1,nan\n", "mpp 'nan' cannot be right" },
        { "slide,label,annotation\na.svs,1,no.xml\n",
          "s.csv:2: the annotation cannot be used: cannot open '" },
        { "slide,label,annotation\na.svs,1,no.png\n",
          "s.csv:2: the annotation cannot be used: cannot open" },
        { "slide,label,annotation\na.svs,1,s.csv\n", "s.csv:2: the annotation cannot be used: /" },
        { "slide,label,mpp\na.svs,1,-1\n", "mpp '-1' cannot be right" },
        { "slide,label,mpp\na.svs,1,inf\n", "mpp 'inf' cannot be right" },
        { "slide,label\na.svs,1\n\n\na.svs,0\n",
          "c/a.svs' is there twice, with two labels, 1 and 0" },
        { "slide,label\na.svs,1,0.25\n", "s.csv:2: 3 fields, the header has 2" },
        { "slide,label\n\"a.svs,1\n", "s.csv:2: a quote is opened and never closed" },
        { "slide,label\n", "dataset has no slides" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("c/s.csv", cases[i].text);
        refused("{layout: csv, csv: c/s.csv}", cases[i].said);
    }
    put("c/s.csv", "slide,label\na,x\nb,x\nc,x\nd,x\ne,x\nf,x\n");
    struct cohort c = ingest("{layout: csv, csv: c/s.csv}");
    assert_non_null(strstr(c.err.text, "s.csv:2: label 'x'"));
    assert_non_null(strstr(c.err.text, "s.csv:5: label 'x'"));
    assert_null(strstr(c.err.text, "s.csv:6:"));
    assert_non_null(strstr(c.err.text, "(and 2 more)"));
    hrf_strbuf_release(&c.warnings);
    put("c/s.csv", "slide,label\n");
}

static void camelyon16_as_released(void **state)
{
    (void)state;
    put("new/training/normal/normal_001.tif", "");
    put("new/training/tumor/tumor_002.tif", "");
    put("new/training/tumor/tumor_002_mask.tif", "");
    put("new/training/lesion_annotations/tumor_002.xml", "");
    put("new/testing/images/test_001.tif", "");
    put("new/testing/images/test_002.tif", "");
    put("new/testing/images/test_003.tif", "");
    put("new/testing/images/notes.txt", "");
    put("new/testing/lesion_annotations/Test_001.xml", "");
    put("new/testing/reference.csv",
        "test_001,Tumor,IDC,Macro\ntest_002,Normal,None,None\ntest_114,Normal,None,None\n");
    gives("{layout: camelyon16, root: new}",
          "test_001 + Tumor,Macro Test_001.xml\ntest_002 - Normal\ntest_003 ?\n"
          "test_114 - Normal FAILED\n",
          "test_003 is not in reference.csv: it has no label");
    gives("{layout: camelyon16, root: new, split: training}",
          "normal_001 -\ntumor_002 + tumor_002.xml\n", NULL);
    gives("{layout: camelyon16, root: new, split: all, exclude: [Test_114, test_003]}",
          "normal_001 -\ntumor_002 + tumor_002.xml\ntest_001 + Tumor,Macro Test_001.xml\n"
          "test_002 - Normal\ntest_003 ? EXCLUDED\ntest_114 - Normal EXCLUDED\n",
          "test_003");
}

static void camelyon16_by_its_old_names_and_flat_on_a_mirror(void **state)
{
    (void)state;
    put("old/Testing/Images/Test_001.tif", "");
    put("old/Testing/Images/Test_001_Mask.tif", "");
    put("old/Testing/Reference.csv", "Test_001.tif,Tumor,IDC,Micro\n");
    gives("{layout: camelyon16, root: old}", "Test_001 + Tumor,Micro Test_001_Mask.tif\n", NULL);
    refused("{layout: camelyon16, root: old, split: training}", "old' has no training/");
    put("flat/images/normal_001.tif", "");
    put("flat/images/tumor_001.tif", "");
    put("flat/images/test_001.tif", "");
    put("flat/annotations/tumor_001.xml", "");
    put("flat/masks/tumor_001_mask.tif", ""); /* outlines go first */
    put("flat/reference.csv", "test_001,Normal,None,None\n");
    gives("{layout: camelyon16, root: flat, split: training}",
          "normal_001 -\ntumor_001 + tumor_001.xml\n", "normal_001 is not in reference.csv");
    gives("{layout: camelyon16, root: flat}", "test_001 - Normal\n", "");
}

/* The second takes minutes where every line is compared with every slide. */
static void camelyon16_with_slides_that_only_the_reference_names(void **state)
{
    enum { MANY = 50000 };
    (void)state;
    put("some/testing/images/test_001.tif", "");
    put("some/testing/reference.csv",
        "gone.tif,Tumor,IDC,Macro\nTest_001,Normal\nGone,Tumor,IDC,Micro\nlost,Normal\n");
    gives("{layout: camelyon16, root: some}",
          "test_001 - Normal\ngone + Tumor,Micro FAILED\nlost - Normal FAILED\n", NULL);
    struct hrf_strbuf lines = HRF_STRBUF_INIT;
    for (int i = 0; i < MANY; i++)
        hrf_strbuf_addf(&lines, "no_%d,Tumor\n", i);
    put("many/testing/images/test_001.tif", "");
    put("many/testing/reference.csv", lines.text);
    hrf_strbuf_release(&lines);
    struct cohort c = ingest("{layout: camelyon16, root: many}");
    assert_int_equal(c.status, HRF_OK);
    hrf_strbuf_release(&c.warnings);
}

static void camelyon16_that_is_something_else_is_refused(void **state)
{
    (void)state;
    put("bad/testing/images/test_001.tif", "");
    put("bad/testing/reference.csv", "slide,label\n");
    refused("{layout: camelyon16, root: bad}", "reference.csv:1: 'label' is neither Tumor nor");
    put("none/x", "");
    refused("{layout: camelyon16, root: none}", "none' has no testing/images/");
    refused("{layout: camelyon16, root: nowhere}", "nowhere' is not a folder");
    put("nolabels/testing/images/test_001.tif", "");
    gives("{layout: camelyon16, root: nolabels}", "test_001 ?\n", "has no reference.csv");
}

#define INT8 "\nprecision: [fp32, int8]"
static void slides_of_the_calibration_stand_behind_the_cohort_and_are_not_evaluated(void **state)
{
    (void)state;
    put("s/b.svs", "");
    put("s/c.svs", "");
    put("own/a.svs", "");
    put("own/b.svs", "");
    put("own/own.csv", "slide,label,mpp\na.svs,tumor,0.25\n../s/c.svs,normal,\ngone.svs,,\n");
    put("release/training/normal/normal_001.tif", "");
    /* Labels are not looked at; a name is unique over both; what is in both is left out. */
    gives("{layout: files, files: ['s/*.svs']}" INT8
          "\ncalibrate: {slides: {layout: csv, csv: own/own.csv}}",
          "b ?\nc ? EXCLUDED\nsample: a ? 0.25\nsample: calibrate.slides/c ?\nsample: gone ? "
          "FAILED\n",
          "calibrate.slides: not in the sample: the file '");
    gives("{layout: files, files: ['s/*.svs'], exclude: [b]}" INT8
          "\ncalibrate: {slides: {layout: files, files: ['own/*.svs'], exclude: [a]}}",
          "b ? EXCLUDED\nc ?\nsample: calibrate.slides/b ?\n", NULL);
    gives("{layout: files, files: ['s/b.svs']}" INT8
          "\ncalibrate: {slides: {layout: camelyon16, root: release}}",
          "b ?\nsample: normal_001 ?\n", NULL);
    /* Without int8 nothing is sampled, and the same slides are evaluated. */
    gives("{layout: files, files: ['s/*.svs']}"
          "\ncalibrate: {slides: {layout: files, files: ['s/c.svs']}}",
          "b ?\nc ? EXCLUDED\n", NULL);
    /* So is a copy. */
    put("t/copied.svs", "the same");
    put("t/other.svs", "that one");
    put("own/copy.tif", "the same");
    gives("{layout: files, files: ['t/*.svs']}" INT8
          "\ncalibrate: {slides: {layout: files, files: ['own/copy.tif']}}",
          "copied ? EXCLUDED\nother ?\nsample: copy ?\n", NULL);
    refused("{layout: files, files: ['s/*.svs']}" INT8
            "\ncalibrate: {slides: {layout: files, files: ['own/*.svs'], exclude: [a, B]}}",
            "calibrate.slides: every slide is excluded");
    refused("{layout: files, files: ['s/*.svs']}" INT8
            "\ncalibrate: {slides: {layout: files, files: ['nowhere/*.svs']}}",
            "calibrate.slides.files: '");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_in_order_each_file_once),
        cmocka_unit_test(a_folder_gives_its_slides_and_folders_in_it_if_asked_for),
        cmocka_unit_test(a_csv_gives_labels_resolutions_and_annotations),
        cmocka_unit_test(names_differ_by_their_folders),
        cmocka_unit_test(a_name_that_fits_no_file_is_told),
        cmocka_unit_test(a_slide_that_is_there_twice_is_one),
        cmocka_unit_test(a_slide_is_named_by_the_content_of_all_its_files),
        cmocka_unit_test(slides_that_cannot_be_told_apart_are_refused),
        cmocka_unit_test(a_slide_is_looked_at_again_if_its_times_say_so),
        cmocka_unit_test(a_slide_without_content_has_failed),
        cmocka_unit_test(labels_of_a_csv_may_be_the_models_classes),
        cmocka_unit_test(wrong_lines_of_a_csv_are_named_by_number),
        cmocka_unit_test(camelyon16_as_released),
        cmocka_unit_test(camelyon16_by_its_old_names_and_flat_on_a_mirror),
        cmocka_unit_test(camelyon16_with_slides_that_only_the_reference_names),
        cmocka_unit_test(camelyon16_that_is_something_else_is_refused),
        cmocka_unit_test(slides_of_the_calibration_stand_behind_the_cohort_and_are_not_evaluated),
    };
    const int n_failed = cmocka_run_group_tests(tests, make_directory, remove_directory);
    hrf_slide_rows_release(&known);
    return n_failed;
}
