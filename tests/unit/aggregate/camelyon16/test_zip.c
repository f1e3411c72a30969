/* ZIP archives: what is read, and what is refused in a sentence. Archives are the fuzzer's corpus.
 */
#include "aggregate/camelyon16/zip.h"

#include "tests/unit/unit.h"

#include <string.h>

#define CORPUS "tests/fuzz/corpus/submission/"

static void files_are_read_stored_and_deflated(void **state)
{
    (void)state;
    static const char *const archives[] = { CORPUS "stored.zip", CORPUS "deflated.zip" };
    for (size_t i = 0; i < 2; i++) {
        HRF_AUTO(hrf_zip) zip = NULL;
        HRF_AUTO_FREE char *text = NULL;
        size_t n = 0;
        assert_int_equal(hrf_zip_read(archives[i], &zip, NULL), HRF_OK);
        assert_int_equal(zip->n_items, 1); /* the folder is none */
        assert_string_equal(zip->items[0].name, "lesion_annotations/test_001.xml");
        assert_int_equal(hrf_zip_extract(zip, &zip->items[0], 1000, &text, &n, NULL), HRF_OK);
        assert_int_equal(n, 4 * strlen("<ASAP_Annotations/>"));
        assert_memory_equal(text, "<ASAP_Annotations/><ASAP", 24);
        struct hrf_error err;
        char *none = NULL;
        assert_int_equal(hrf_zip_extract(zip, &zip->items[0], 10, &none, &n, &err), HRF_E_USER);
        assert_non_null(strstr(err.text, "larger than 10 bytes"));
    }
}

static void wrong_archives_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text;
        enum hrf_status status;
    } cases[] = {
        { CORPUS "cut.zip", "cut short or damaged", HRF_E_USER },
        { CORPUS "directory_outside.zip", "cut short or damaged", HRF_E_USER },
        { CORPUS "encrypted.zip", "the archive is encrypted", HRF_E_UNSUPPORTED },
        { CORPUS "checksum_wrong.zip", "is damaged in the archive", HRF_E_USER },
        { CORPUS "size_huge.zip", "is larger than", HRF_E_USER },
        { CORPUS "scores.csv", "not a ZIP archive", HRF_E_USER },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_zip) zip = NULL;
        HRF_AUTO_FREE char *text = NULL;
        size_t n = 0;
        struct hrf_error err = { .status = HRF_OK };
        enum hrf_status status = hrf_zip_read(cases[i].file, &zip, &err);
        if (status == HRF_OK)
            status = hrf_zip_extract(zip, &zip->items[0], 1 << 20, &text, &n, &err);
        assert_int_equal(status, cases[i].status);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, cases[i].text);
    }
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        HRF_AUTO(hrf_zip) zip = NULL;
        HRF_AUTO_FREE char *text = NULL;
        size_t n_bytes = 0;
        hrf_alloc_fail_after(n);
        enum hrf_status status = hrf_zip_read(CORPUS "deflated.zip", &zip, NULL);
        if (status == HRF_OK)
            status = hrf_zip_extract(zip, &zip->items[0], 1000, &text, &n_bytes, NULL);
        hrf_alloc_fail_after(0);
        if (status == HRF_OK)
            return;
        assert_null(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_stored_and_deflated),
        cmocka_unit_test(wrong_archives_are_refused),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
