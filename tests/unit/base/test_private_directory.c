/* Directories whose content is believed: own, not writable by others, or refused with a sentence.
 */
#include "base/alloc.h"
#include "base/cache.h"
#include "base/path.h"
#include "base/private_directory.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void what_is_not_there_is_made_for_its_owner_alone(void **state)
{
    (void)state;
    const mode_t before = umask(0);
    HRF_AUTO_FREE char *upper = hrf_path_join(directory, "a");
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "a/b/c");
    assert_int_equal(hrf_private_directory_check(path, NULL), HRF_OK);
    assert_false(hrf_path_exists(upper)); /* a look makes nothing */
    assert_int_equal(hrf_private_directory_open(path, NULL), HRF_OK);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(mode_of(upper), 0700);
    assert_int_equal(hrf_private_directory_open(path, NULL), HRF_OK);
    umask(before);
}

static void what_others_can_write_into_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = { 0777, 01777, 0770, 0702 };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "cache");
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(hrf_private_directory_open(path, NULL), HRF_OK);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct hrf_error err = { .status = HRF_OK };
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(hrf_private_directory_open(path, &err), HRF_E_USER);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, "can be written by others"));
        assert_non_null(strstr(err.text, "chmod -R go-w"));
    }
}

static void what_belongs_to_another_is_refused(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "cache"),
                       *link = hrf_path_join(directory, "ln");
    const char *foreign = "/"; /* root's */
    assert_int_equal(mkdir(path, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        foreign = path;
    }
    assert_int_equal(hrf_private_directory_open(foreign, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "belongs to user"));
    assert_non_null(strstr(err.text, "XDG_CACHE_HOME"));
    assert_int_equal(symlink(foreign, link), 0);
    assert_int_equal(hrf_private_directory_check(link, NULL), HRF_E_USER);
}

static void a_link_is_followed_when_its_maker_is_trusted(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "cache"),
                       *link = hrf_path_join(directory, "ln");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(hrf_private_directory_open(link, NULL), HRF_OK);
    if (geteuid() != 0)
        return; /* nobody else can make one here */
    assert_int_equal(lchown(link, 12345, 12345), 0);
    assert_int_equal(hrf_private_directory_open(link, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "is a link that user 12345 made"));
}

static void the_cache_is_checked_with_its_folders(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    char *path = NULL;
    HRF_AUTO_FREE char *costs = hrf_path_join(directory, "costs");
    assert_int_equal(hrf_cache_folder(directory, "costs", &path, NULL), HRF_OK);
    assert_string_equal(path, costs);
    hrf_free(path);
    assert_int_equal(mkdir(costs, 0700), 0);
    assert_int_equal(chmod(costs, 0777), 0);
    assert_int_equal(hrf_cache_folder(directory, "costs", &path, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, costs));
    assert_int_equal(hrf_cache_folder(directory, NULL, &path, NULL), HRF_OK);
    assert_string_equal(path, directory);
    hrf_free(path);
    assert_int_equal(chmod(costs, 0700), 0);
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(hrf_cache_folder(directory, "costs", &path, NULL), HRF_E_USER);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_there_is_made_for_its_owner_alone),
        TEST(what_others_can_write_into_is_refused),
        TEST(what_belongs_to_another_is_refused),
        TEST(a_link_is_followed_when_its_maker_is_trusted),
        TEST(the_cache_is_checked_with_its_folders),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
