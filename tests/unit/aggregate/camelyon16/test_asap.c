/* ASAP's XML: what is read, what is refused and in which words; polygons by value. */
#include "aggregate/camelyon16/asap.h"

#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "tests/unit/real_data.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS "tests/fuzz/corpus/xml/"

static struct hrf_outlines *read_ok(const char *path)
{
    struct hrf_outlines *outlines = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_outlines_read(path, &outlines, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return outlines;
}

static void outlines_are_read_with_their_groups_and_order(void **state)
{
    (void)state;
    struct hrf_outlines *all = read_ok(CORPUS "two_lesions.xml");
    assert_int_equal(all->n_items, 2);
    assert_int_equal(all->n_skipped, 1); /* the dot */
    const struct hrf_outline *lesion = &all->items[0], *hole = &all->items[1];
    assert_string_equal(lesion->group, "_0");
    assert_int_equal(lesion->role, HRF_OUTLINE_LESION);
    assert_int_equal(lesion->n_points, 4);
    assert_true(lesion->low.x == 100.0 && lesion->high.y == 400.5);
    assert_string_equal(hole->name, "hole & more");
    assert_int_equal(hole->role, HRF_OUTLINE_CUTOUT);
    assert_true(hole->points[0].x == 200.0 && hole->points[2].y == 300.0); /* by @Order */
    assert_true(hrf_outlines_in_lesion(all, 150, 150));
    assert_false(hrf_outlines_in_lesion(all, 280, 220)); /* in the hole */
    assert_true(hrf_outlines_in_lesion(all, 220, 280));  /* beside its slope */
    assert_false(hrf_outlines_in_lesion(all, 501, 200));
    hrf_outlines_destroy(all);
}

static void refused(const char *path, const char *text)
{
    struct hrf_outlines *outlines = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_outlines_read(path, &outlines, &err), HRF_E_USER);
    assert_null(outlines);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void hostile_and_foreign_files_are_refused_in_words(void **state)
{
    (void)state;
    refused(CORPUS "entity_bomb.xml", "entity_bomb.xml:3: declares the entity 'a'");
    refused(CORPUS "external_entity.xml", ":2: declares the entity 'secret'");
    refused(CORPUS "too_deep.xml", ":1: nested deeper than 32 elements");
    refused(CORPUS "not_a_number.xml", "X=\"nan\"");
    refused(CORPUS "out_of_range.xml", "X=\"1e300\" Y=\"1\" is not a place in level-0 pixels");
    refused(CORPUS "nested_annotation.xml", "an Annotation inside an Annotation");
    refused(CORPUS "other_format.xml", "the outermost element is 'kml'");
    refused(CORPUS "empty.xml", "not well-formed XML: no element found");
    refused(CORPUS "truncated_not_utf8.xml", "not well-formed XML");
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct hrf_outlines *outlines = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_not_equal(hrf_outlines_read("no/such.xml", &outlines, &err), HRF_OK);
    assert_non_null(strstr(err.text, "no/such.xml"));
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    HRF_AUTO_FREE char *text = NULL;
    size_t n = 0;
    assert_int_equal(hrf_file_read(CORPUS "two_lesions.xml", 1 << 20, &text, &n, NULL), HRF_OK);
    bool done = false;
    for (int64_t nth = 1; !done && nth < 1000; nth++) {
        struct hrf_outlines *outlines = NULL;
        hrf_alloc_fail_after(nth);
        enum hrf_status status = hrf_outlines_parse(text, n, "x", &outlines, NULL);
        hrf_alloc_fail_after(0);
        done = status == HRF_OK;
        hrf_outlines_destroy(outlines);
        if (!done)
            assert_int_equal(status, HRF_E_NOMEM);
    }
    assert_true(done);
}

/* Real polygons (JSON) written as ASAP XML and read back. */
static void add_annotation(const json_t *polygon, struct hrf_strbuf *xml)
{
    hrf_strbuf_adds(xml, "<Annotation Name='a' Type='Polygon' PartOfGroup='Tumor'><Coordinates>");
    size_t i;
    json_t *vertex;
    json_array_foreach(json_object_get(polygon, "vertices"), i, vertex) hrf_strbuf_addf(
        xml, "<Coordinate Order='%zu' X='%.17g' Y='%.17g'/>", i,
        json_number_value(json_array_get(vertex, 0)), json_number_value(json_array_get(vertex, 1)));
    hrf_strbuf_adds(xml, "</Coordinates></Annotation>");
}

static struct hrf_outlines *real_outlines(const char *path)
{
    HRF_AUTO_JSON json = NULL;
    struct hrf_error err;
    if (hrf_json_read_file(path, &json, &err) != HRF_OK)
        fail_msg("%s", err.text);
    struct hrf_strbuf xml = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&xml, "<ASAP_Annotations><Annotations>");
    size_t i;
    json_t *polygon;
    json_array_foreach(json_object_get(json, "positive"), i, polygon) add_annotation(polygon, &xml);
    hrf_strbuf_adds(&xml, "</Annotations></ASAP_Annotations>");
    struct hrf_outlines *outlines = NULL;
    enum hrf_status status = hrf_outlines_parse(xml.text, xml.length, path, &outlines, &err);
    hrf_strbuf_release(&xml);
    if (status != HRF_OK)
        fail_msg("%s", err.text);
    return outlines;
}

/* Files "<prefix>_<x>_<y>.png" of a folder: how many of their centres lie in a lesion. */
static void count_in_lesion(const char *folder, const char *prefix, const struct hrf_outlines *all,
                            int *inside, int *total)
{
    *inside = *total = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        char *end = NULL;
        double x = strtod(entry->d_name + strlen(prefix) + 1, &end);
        double y = strtod(end + 1, NULL);
        *inside += hrf_outlines_in_lesion(all, x + 128.0, y + 128.0);
        ++*total;
    }
    closedir(directory);
}

static void real_tumour_patches_lie_in_the_real_lesions(void **state)
{
    (void)state;
    char polygons[REAL_DATA_PATH], tumor[REAL_DATA_PATH], normal[REAL_DATA_PATH];
    real_data("camelyon16-polygons", polygons);
    real_data("camelyon16-patches/tumor", tumor);
    real_data("camelyon16-patches/normal", normal);
    static const struct {
        const char *file, *slide;
    } cases[] = { { "Tumor_001.json", "tumor_001" }, { "Tumor_064.json", "tumor_064" } };
    for (size_t i = 0; i < 2; i++) {
        HRF_AUTO_FREE char *file = hrf_path_join(polygons, cases[i].file);
        struct hrf_outlines *all = real_outlines(file);
        int inside = 0, total = 0, wrong = 0, n_normal = 0;
        count_in_lesion(tumor, cases[i].slide, all, &inside, &total);
        count_in_lesion(normal, cases[i].slide, all, &wrong, &n_normal);
        print_message("%s: %zu outlines, %d of %d tumour patches and %d of %d normal ones inside\n",
                      cases[i].slide, all->n_items, inside, total, wrong, n_normal);
        hrf_outlines_destroy(all);
        assert_true(total > 0 && inside == total);
        assert_int_equal(wrong, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outlines_are_read_with_their_groups_and_order),
        cmocka_unit_test(hostile_and_foreign_files_are_refused_in_words),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(every_failed_allocation_is_a_status),
        cmocka_unit_test(real_tumour_patches_lie_in_the_real_lesions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
