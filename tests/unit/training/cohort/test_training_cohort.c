/* What trainings have in common: figures, splits by patient, checkpoint files. */
#include "base/file.h"
#include "base/path.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"
#include "training/cohort/checkpoint_file.h"
#include "training/cohort/scored.h"
#include "training/cohort/training_files.h"
#include "training/cohort/training_set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct hrf_text_list two_classes(char *names[2])
{
    return (struct hrf_text_list){ names, 2 };
}

static void figures_are_of_the_items_that_were_added(void **state)
{
    (void)state;
    static const struct {
        float scores[2];
        int32_t label;
    } slides[] = {
        { { 0.9F, 0.1F }, 0 }, { { 0.4F, 0.6F }, 0 }, { { 0.5F, 0.5F }, 1 }, { { 0.2F, 0.8F }, 1 }
    };
    char *names[] = { (char[]){ "normal" }, (char[]){ "tumor" } };
    const struct hrf_text_list classes = two_classes(names);
    struct hrf_scored scored = { .n = 0 };
    struct hrf_scored_figures f = hrf_scored_figures_of(&scored, &classes, "slides", "testing");
    assert_true(isnan(f.auc) && isnan(f.balanced_accuracy));
    assert_string_equal(f.why, "no slides for testing");
    for (size_t i = 0; i < 4; i++) {
        hrf_scored_add(&scored, slides[i].scores, 2, slides[i].label);
        f = hrf_scored_figures_of(&scored, &classes, "slides", "testing");
        assert_int_equal(isnan(f.auc), i < 2); /* until there is a slide of each class */
    }
    assert_float_equal(f.auc, 0.75, 1e-12); /* 0.6 of a normal slide is above 0.5 */
    assert_float_equal(f.balanced_accuracy, 0.5, 1e-12);
    hrf_scored_release(&scored);
}

/* 12 patients with two items each; the class is the patient's. */
static struct hrf_training_set twelve_patients(char names[24][16], char patients[24][16])
{
    struct hrf_training_set set = { .items = hrf_calloc(24, sizeof *set.items),
                                    .n_items = 24,
                                    .is_by_folds = true,
                                    .n_folds = 3,
                                    .split_seed = 1,
                                    .validation = 0.25,
                                    .nouns = "slides",
                                    .labels = "labels.csv" };
    for (int i = 0; i < 24; i++) {
        snprintf(names[i], 16, "s%d", i);
        snprintf(patients[i], 16, "p%d", i % 12);
        set.items[i] = (struct hrf_training_item){
            .name = names[i], .patient = patients[i], .label = i % 12 < 6, .line = i + 2
        };
    }
    return set;
}

static void patients_stay_together_in_every_fold(void **state)
{
    (void)state;
    char names[24][16], patients[24][16];
    HRF_AUTO_RELEASE(hrf_training_set) set = twelve_patients(names, patients);
    enum hrf_training_part parts[24];
    int n_tested[24] = { 0 };
    assert_int_equal(hrf_training_set_deal_folds(&set, NULL), HRF_OK);
    for (int64_t fold = 0; fold < 3; fold++) {
        int n_validation = 0;
        assert_int_equal(hrf_training_set_split(&set, fold, parts, NULL), HRF_OK);
        for (int i = 0; i < 24; i++) {
            assert_int_equal(parts[i], parts[(i + 12) % 24]);
            n_tested[i] += parts[i] == HRF_PART_TESTING;
            n_validation += parts[i] == HRF_PART_VALIDATION;
        }
        assert_int_equal(n_validation, 4); /* a patient of each class */
    }
    for (int i = 0; i < 24; i++)
        assert_int_equal(n_tested[i], 1);
    struct hrf_error err;
    set.n_folds = 13;
    assert_int_equal(hrf_training_set_deal_folds(&set, &err), HRF_E_USER);
    assert_string_equal(err.text, "12 patients cannot be split into 13 folds: set split.folds");
}

static void count_conflict(void *context, const struct hrf_training_item *here,
                           const struct hrf_training_item *before)
{
    assert_string_equal(here->patient, before->patient);
    assert_int_not_equal(here->part, before->part);
    ++*(int *)context;
}

static void a_patient_in_two_parts_is_found(void **state)
{
    (void)state;
    char names[24][16], patients[24][16];
    int n = 0;
    HRF_AUTO_RELEASE(hrf_training_set) set = twelve_patients(names, patients);
    set.is_by_folds = false;
    hrf_training_set_find_conflicts(&set, count_conflict, &n);
    assert_int_equal(n, 0);
    set.items[3].part = HRF_PART_TESTING;
    set.items[20].part = HRF_PART_VALIDATION;
    hrf_training_set_find_conflicts(&set, count_conflict, &n);
    assert_int_equal(n, 2);
}

static void a_checkpoint_that_is_damaged_or_of_another_training_does_not_count(void **state)
{
    (void)state;
    char key[HRF_HASH_HEX], other[HRF_HASH_HEX], numbers[4] = "abc", rest[2] = "d";
    const struct hrf_checkpoint_part parts[] = { { numbers, 4 }, { rest, 2 } };
    HRF_AUTO_FREE char *path = hrf_format("%s/checkpoint.bin", directory);
    HRF_AUTO_FREE char *back = NULL, *bytes = NULL;
    size_t n = 0, n_file = 0;
    assert_int_equal(hrf_hash_buffer("one", 3, key, NULL), HRF_OK);
    assert_int_equal(hrf_hash_buffer("two", 3, other, NULL), HRF_OK);
    assert_false(hrf_checkpoint_file_read(path, "TESTTEST", key, 6, &back, &n));
    assert_int_equal(hrf_checkpoint_file_write(path, "TESTTEST", key, parts, 2, NULL), HRF_OK);
    assert_true(hrf_checkpoint_file_read(path, "TESTTEST", key, 6, &back, &n));
    assert_int_equal(n, 6);
    assert_memory_equal(back, "abc\0d", 6);
    assert_false(hrf_checkpoint_file_read(path, "TESTTEST", other, 6, &back, &n));
    assert_false(hrf_checkpoint_file_read(path, "OTHERONE", key, 6, &back, &n));
    assert_false(hrf_checkpoint_file_read(path, "TESTTEST", key, 5, &back, &n));
    assert_int_equal(hrf_file_read(path, 4096, &bytes, &n_file, NULL), HRF_OK);
    for (size_t i = 0; i < n_file; i++) {
        bytes[i] ^= 1;
        assert_int_equal(hrf_file_write_atomic(path, bytes, n_file, NULL), HRF_OK);
        bytes[i] ^= 1;
        assert_false(hrf_checkpoint_file_read(path, "TESTTEST", key, 6, &back, &n));
    }
}

static void what_killed_writers_left_is_removed(void **state)
{
    (void)state;
    static const char *const names[] = { "checkpoint.bin", "checkpoint.bin.tmp.0123456789ab",
                                         "model.onnx", "a.tmp.xyz" };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(hrf_file_write_atomic(file(names[i]), "x", 1, NULL), HRF_OK);
    hrf_training_remove_leftovers(directory);
    assert_true(hrf_path_exists(file(names[0])) && !hrf_path_exists(file(names[1])));
    hrf_training_remove_checkpoint(directory);
    assert_false(hrf_path_exists(file(names[0])));
    assert_true(hrf_path_exists(file(names[2])) && hrf_path_exists(file(names[3])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_of_the_items_that_were_added),
        cmocka_unit_test(patients_stay_together_in_every_fold),
        cmocka_unit_test(a_patient_in_two_parts_is_found),
        cmocka_unit_test(what_killed_writers_left_is_removed),
        cmocka_unit_test(a_checkpoint_that_is_damaged_or_of_another_training_does_not_count),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
