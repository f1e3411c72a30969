/* What trainings have in common: figures, splits by patient, checkpoint files. */
#include "base/file.h"
#include "base/path.h"
#include "schema/record/sentinel.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"
#include "training/cohort/checkpoint_file.h"
#include "training/cohort/scored.h"
#include "training/cohort/training_files.h"
#include "training/cohort/training_set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
        const float truth[2] = { slides[i].label == 0, slides[i].label == 1 };
        hrf_scored_add(&scored, slides[i].scores, truth, 2);
        f = hrf_scored_figures_of(&scored, &classes, "slides", "testing");
        assert_int_equal(isnan(f.auc), i < 2); /* until there is a slide of each class */
    }
    assert_float_equal(f.auc, 0.75, 1e-12); /* 0.6 of a normal slide is above 0.5 */
    assert_float_equal(f.balanced_accuracy, 0.5, 1e-12);
    hrf_scored_release(&scored);
}

static void labels_and_numbers_are_read_as_they_were_written(void **state)
{
    (void)state;
    char *names[] = { (char[]){ "er" }, (char[]){ "pr" }, (char[]){ "her2 +" } };
    const struct hrf_text_list classes = { names, 3 };
    static const struct {
        enum hrf_label_kind kind;
        const char *text;
        float truth[3];
        const char *again;
    } cases[] = { { HRF_LABEL_CLASS, "pr", { 0, 1, 0 }, "pr" },
                  { HRF_LABEL_SEVERAL, "", { 0, 0, 0 }, "" },
                  { HRF_LABEL_SEVERAL, "her2 + ; er", { 1, 0, 1 }, "er;her2 +" },
                  { HRF_LABEL_NUMBERS, "0.25;-3;1e3", { 0.25F, -3, 1000 }, "0.25;-3;1000" } };
    float truth[3];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
        assert_int_equal(hrf_label_parse(cases[i].kind, cases[i].text, &classes, truth, NULL),
                         HRF_OK);
        assert_memory_equal(truth, cases[i].truth, sizeof truth);
        hrf_label_print(cases[i].kind, truth, &classes, &text);
        assert_string_equal(text.text, cases[i].again);
    }
    static const struct {
        enum hrf_label_kind kind;
        const char *text, *why;
    } wrong[] = { { HRF_LABEL_CLASS, "er;pr", "label 'er;pr' is none of 'classes'" },
                  { HRF_LABEL_SEVERAL, "er;her2", "label 'her2' is none of 'classes'" },
                  { HRF_LABEL_NUMBERS, "1;2", "'1;2' is not 3 numbers" },
                  { HRF_LABEL_NUMBERS, "1;nan;2", "'nan' is no number of 'classes'" },
                  { HRF_LABEL_NUMBERS, "1;2;3;4", "'4' is no number of 'classes'" } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct hrf_error err;
        assert_int_equal(hrf_label_parse(wrong[i].kind, wrong[i].text, &classes, truth, &err),
                         HRF_E_USER);
        assert_string_equal(err.text, wrong[i].why);
    }
}

static void figures_of_labels_are_the_mean_of_theirs(void **state)
{
    (void)state;
    static const float scores[4][2] = {
        { 0.9F, 0.1F }, { 0.6F, 0.2F }, { 0.4F, 0.7F }, { 0.7F, 0.8F }
    };
    static const float truths[4][2] = { { 1, 0 }, { 0, 0 }, { 0, 1 }, { 1, 1 } };
    char *names[] = { (char[]){ "er" }, (char[]){ "pr" } };
    const struct hrf_text_list classes = two_classes(names);
    HRF_AUTO_RELEASE(hrf_scored) scored = { .kind = HRF_LABEL_SEVERAL };
    hrf_scored_add(&scored, scores[0], truths[0], 2);
    struct hrf_scored_figures f = hrf_scored_figures_of(&scored, &classes, "pictures", "testing");
    assert_true(isnan(f.auc));
    assert_string_equal(f.why, "each of the 1 pictures for testing has the label 'er'");
    for (size_t i = 1; i < 4; i++)
        hrf_scored_add(&scored, scores[i], truths[i], 2);
    f = hrf_scored_figures_of_one(&scored, &classes, 0, "pictures", "testing");
    assert_float_equal(f.auc, 1, 1e-12);
    assert_float_equal(f.balanced_accuracy, 0.75, 1e-12); /* 0.6 is called, and is not */
    f = hrf_scored_figures_of(&scored, &classes, "pictures", "testing");
    assert_float_equal(f.auc, 1, 1e-12);
    assert_float_equal(f.balanced_accuracy, 0.875, 1e-12);
}

static void figures_of_numbers_are_in_their_unit(void **state)
{
    (void)state;
    static const float scores[3] = { 10, 30, 20 }, truths[3] = { 10, 20, 30 };
    char *names[] = { (char[]){ "ki67" } };
    const struct hrf_text_list classes = { names, 1 };
    HRF_AUTO_RELEASE(hrf_scored) scored = { .kind = HRF_LABEL_NUMBERS };
    for (size_t i = 0; i < 3; i++)
        hrf_scored_add(&scored, &scores[i], &truths[i], 1);
    const struct hrf_scored_figures f = hrf_scored_figures_of(&scored, &classes, "pictures",
                                                              "testing");
    assert_float_equal(f.mean_absolute_error, 20.0 / 3, 1e-9);
    assert_float_equal(f.r2, 0, 1e-9);
    assert_float_equal(f.spearman, 0.5, 1e-9);
    assert_true(isnan(f.auc));
}

static void figures_of_pixels_are_of_all_pictures_together(void **state)
{
    (void)state;
    /* right of each class, called so, loss */
    static const float scores[2][5] = { { 6, 2, 7, 3, 0.1F }, { 9, 0, 10, 0, 0.2F } };
    static const float truths[2][2] = { { 7, 3 }, { 9, 1 } };
    char *names[] = { (char[]){ "around" }, (char[]){ "gland" } };
    const struct hrf_text_list classes = two_classes(names);
    HRF_AUTO_RELEASE(hrf_scored) scored = { .kind = HRF_LABEL_PIXELS };
    for (size_t i = 0; i < 2; i++)
        hrf_scored_add(&scored, scores[i], truths[i], 2);
    struct hrf_scored_figures f = hrf_scored_figures_of_one(&scored, &classes, 1, "pictures",
                                                            "testing");
    assert_float_equal(f.dice, 4.0 / 7, 1e-6);
    assert_float_equal(f.balanced_accuracy, 0.5, 1e-6);
    f = hrf_scored_figures_of(&scored, &classes, "pictures", "testing");
    assert_float_equal(f.dice, (4.0 / 7 + 30.0 / 33) / 2, 1e-6);
    assert_float_equal(f.balanced_accuracy, (0.5 + 15.0 / 16) / 2, 1e-6);
}

static void items_of_several_labels_are_grouped_by_the_rarest(void **state)
{
    (void)state;
    struct hrf_training_item items[4] = { { .label = 9 } };
    float truths[] = { 1, 0, 1, 1, 0, 0, 1, 0 };
    struct hrf_training_set set = {
        .kind = HRF_LABEL_SEVERAL, .items = items, .n_items = 4, .truths = truths, .n_classes = 2
    };
    static const int64_t groups[4] = { 0, 1, 2, 0 }; /* 2: of none */
    hrf_training_set_group(&set);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(items[i].label, groups[i]);
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
    assert_int_equal(hrf_checkpoint_file_write(path, NULL, "TESTTEST", key, parts, 2, NULL),
                     HRF_OK);
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

static void an_attempt_that_was_revoked_writes_no_checkpoint(void **state)
{
    (void)state;
    char key[HRF_HASH_HEX], number = 'a';
    const struct hrf_checkpoint_part part = { &number, 1 };
    HRF_AUTO_FREE char *path = hrf_format("%s/revoked.bin", directory);
    HRF_AUTO_FREE char *attempt = hrf_format("%s/train-0001.a1", directory);
    assert_int_equal(hrf_hash_buffer("one", 3, key, NULL), HRF_OK);
    assert_int_equal(hrf_path_make_directories(attempt, NULL), HRF_OK);
    assert_int_equal(hrf_checkpoint_file_write(path, attempt, "TESTTEST", key, &part, 1, NULL),
                     HRF_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(hrf_fence_set(attempt, NULL), HRF_OK);
    assert_int_equal(hrf_checkpoint_file_write(path, attempt, "TESTTEST", key, &part, 1, NULL),
                     HRF_E_AGAIN);
    assert_false(hrf_path_exists(path));
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
        cmocka_unit_test(labels_and_numbers_are_read_as_they_were_written),
        cmocka_unit_test(figures_of_labels_are_the_mean_of_theirs),
        cmocka_unit_test(figures_of_numbers_are_in_their_unit),
        cmocka_unit_test(figures_of_pixels_are_of_all_pictures_together),
        cmocka_unit_test(items_of_several_labels_are_grouped_by_the_rarest),
        cmocka_unit_test(patients_stay_together_in_every_fold),
        cmocka_unit_test(a_patient_in_two_parts_is_found),
        cmocka_unit_test(an_attempt_that_was_revoked_writes_no_checkpoint),
        cmocka_unit_test(what_killed_writers_left_is_removed),
        cmocka_unit_test(a_checkpoint_that_is_damaged_or_of_another_training_does_not_count),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
