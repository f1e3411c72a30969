/* Pictures: drawn by class, changed by chance, read ahead in order. */
#include "base/file.h"
#include "image/png_write.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"
#include "training/samples/augment.h"
#include "training/samples/draw.h"
#include "training/samples/sample_feed.h"
#include "training/samples/sampler.h"

#include <math.h>
#include <string.h>

enum { SIDE = 8, BYTES = SIDE * SIDE * 3 };

/* ---- the sampler ---- */

enum { N = 30, DRAWN = 40 }; /* 20 of class 0, 6 of class 1, none of class 2, 4 of class 3 */

static void make_set(struct hrf_training_set *set, enum hrf_training_part parts[N])
{
    set->items = hrf_calloc(N, sizeof *set->items);
    set->n_items = N;
    for (int i = 0; i < N; i++) {
        set->items[i].label = i < 20 ? 0 : i < 26 ? 1 : 3;
        parts[i] = i % 10 == 9 ? HRF_PART_VALIDATION : HRF_PART_TRAINING;
    }
}

static void classes_come_equally_often_and_all_pictures_before_one_comes_again(void **state)
{
    (void)state;
    HRF_AUTO_RELEASE(hrf_training_set) set = { .n_items = 0 };
    enum hrf_training_part parts[N];
    int64_t order[DRAWN];
    int n_of[N] = { 0 }, n_class[4] = { 0 };
    make_set(&set, parts);
    hrf_sampler_draw(&set, parts, 4, HRF_SAMPLING_BALANCED, 1, 1, DRAWN, order);
    for (int i = 0; i < DRAWN; i++) {
        assert_int_equal(parts[order[i]], HRF_PART_TRAINING);
        n_of[order[i]]++;
        n_class[set.items[order[i]].label]++;
    }
    assert_true(n_class[0] >= 13 && n_class[1] >= 13 && n_class[2] == 0 && n_class[3] >= 13);
    for (int i = 0; i < N; i++)
        if (parts[i] == HRF_PART_TRAINING && set.items[i].label == 1)
            assert_in_range(n_of[i], n_class[1] / 6, n_class[1] / 6 + 1);
}

static void labels_and_pictures_without_any_come_equally_often(void **state)
{
    (void)state;
    HRF_AUTO_RELEASE(hrf_training_set) set = { .kind = HRF_LABEL_SEVERAL, .n_classes = 2 };
    enum hrf_training_part parts[N];
    int64_t order[DRAWN];
    int n_of[3] = { 0 };
    make_set(&set, parts); /* 20, 6 and 4 pictures */
    set.truths = hrf_calloc(N * 2, sizeof *set.truths);
    for (int i = 0; i < N; i++) { /* the first 20 have the first label, two of these both */
        set.truths[2 * i] = i < 20;
        set.truths[2 * i + 1] = i < 2 || (i >= 20 && i < 26);
    }
    hrf_training_set_group(&set);
    hrf_sampler_draw(&set, parts, 2, HRF_SAMPLING_BALANCED, 1, 1, 39, order);
    for (int i = 0; i < 39; i++) {
        n_of[0] += set.truths[2 * order[i]] > 0.5F;
        n_of[1] += set.truths[2 * order[i] + 1] > 0.5F;
        n_of[2] += order[i] >= 26;
    }
    assert_int_equal(n_of[2], 13);
    assert_true(n_of[0] >= 13 && n_of[0] <= 18 && n_of[1] >= 13 && n_of[1] <= 18);
}

static void an_order_is_of_its_seed_and_epoch_alone(void **state)
{
    (void)state;
    HRF_AUTO_RELEASE(hrf_training_set) set = { .n_items = 0 };
    enum hrf_training_part parts[N];
    int64_t order[DRAWN], other[DRAWN];
    bool is_there[N] = { false };
    make_set(&set, parts);
    hrf_sampler_draw(&set, parts, 4, HRF_SAMPLING_ALL, 1, 2, 27, order);
    for (int i = 0; i < 27; i++) {
        assert_false(is_there[order[i]]);
        is_there[order[i]] = true;
    }
    hrf_sampler_draw(&set, parts, 4, HRF_SAMPLING_ALL, 1, 2, 20, other);
    assert_memory_equal(order, other, 20 * sizeof *order); /* shorter: the beginning of the same */
    hrf_sampler_draw(&set, parts, 4, HRF_SAMPLING_ALL, 1, 3, 27, other);
    assert_memory_not_equal(order, other, 27 * sizeof *order);
    hrf_sampler_draw(&set, parts, 4, HRF_SAMPLING_ALL, 2, 2, 27, other);
    assert_memory_not_equal(order, other, 27 * sizeof *order);
}

/* ---- augmentation ---- */

static void fill(unsigned char *rgb, int seed)
{
    struct hrf_random random = hrf_random_init((uint64_t)seed);
    for (int i = 0; i < BYTES; i++)
        rgb[i] = (unsigned char)hrf_random_below(&random, 256);
}

static void nothing_asked_for_changes_nothing(void **state)
{
    (void)state;
    const struct hrf_augmentation none = { .flips = false };
    unsigned char rgb[BYTES], out[BYTES];
    fill(rgb, 1);
    for (int i = 0; i < 20; i++) {
        hrf_augment(&none, hrf_draw(1, HRF_DRAW_PICTURE, 1, i), SIDE, rgb, out);
        assert_memory_equal(rgb, out, BYTES);
    }
}

static bool is_symmetry(const unsigned char *rgb, const unsigned char *out, int k)
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            int u = (k & 4) != 0 ? y : x, v = (k & 4) != 0 ? x : y;
            u = (k & 1) != 0 ? SIDE - 1 - u : u;
            v = (k & 2) != 0 ? SIDE - 1 - v : v;
            if (memcmp(out + (y * SIDE + x) * 3, rgb + (v * SIDE + u) * 3, 3) != 0)
                return false;
        }
    return true;
}

static void flips_and_turns_give_the_eight_symmetries(void **state)
{
    (void)state;
    const struct hrf_augmentation both = { .flips = true, .turns = true };
    unsigned char rgb[BYTES], out[BYTES];
    int n[8] = { 0 };
    fill(rgb, 2);
    for (int i = 0; i < 800; i++) {
        hrf_augment(&both, hrf_draw(1, HRF_DRAW_PICTURE, 1, i), SIDE, rgb, out);
        int n_found = 0;
        for (int k = 0; k < 8; k++)
            if (is_symmetry(rgb, out, k)) {
                n[k]++;
                n_found++;
            }
        assert_int_equal(n_found, 1);
    }
    for (int k = 0; k < 8; k++)
        assert_in_range(n[k], 60, 140);
}

static void a_shift_is_mirrored_at_the_border(void **state)
{
    (void)state;
    const struct hrf_augmentation shift = { .shift = 0.5 };
    unsigned char rgb[BYTES], out[BYTES];
    bool has_moved = false;
    for (int i = 0; i < BYTES; i++)
        rgb[i] = (unsigned char)(i / 3 % SIDE * 10); /* the column */
    for (int i = 0; i < 50; i++) {
        hrf_augment(&shift, hrf_draw(1, HRF_DRAW_PICTURE, 1, i), SIDE, rgb, out);
        for (int x = 1; x < SIDE; x++) /* neighbours stay neighbours */
            assert_int_equal(abs(out[x * 3] - out[x * 3 - 3]), 10);
        has_moved = has_moved || memcmp(rgb, out, BYTES) != 0;
    }
    assert_true(has_moved);
}

static void a_mask_is_changed_as_its_picture(void **state)
{
    (void)state;
    const struct hrf_augmentation places = { .flips = true, .turns = true, .shift = 0.3 };
    struct hrf_augmentation all = places;
    unsigned char rgb[BYTES], mask[SIDE * SIDE], out[BYTES], of_mask[SIDE * SIDE];
    all.colour = all.stain = 0.2; /* they draw no less, and do not reach the mask */
    fill(rgb, 4);
    for (int i = 0; i < SIDE * SIDE; i++)
        mask[i] = rgb[3 * i];
    for (int i = 0; i < 50; i++) {
        const struct hrf_random random = hrf_draw(1, HRF_DRAW_PICTURE, 1, i);
        hrf_augment(&places, random, SIDE, rgb, out);
        hrf_augment_mask(&all, random, SIDE, mask, of_mask);
        for (int p = 0; p < SIDE * SIDE; p++)
            assert_int_equal(of_mask[p], out[3 * p]);
    }
}

static void a_picture_is_of_its_seed_epoch_and_place_alone(void **state)
{
    (void)state;
    const struct hrf_augmentation all = {
        .flips = true, .turns = true, .shift = 0.2, .colour = 0.3, .stain = 0.2
    };
    unsigned char rgb[BYTES], out[BYTES], again[BYTES];
    fill(rgb, 3);
    hrf_augment(&all, hrf_draw(1, HRF_DRAW_PICTURE, 1, 5), SIDE, rgb, out);
    hrf_augment(&all, hrf_draw(1, HRF_DRAW_PICTURE, 1, 5), SIDE, rgb, again);
    assert_memory_equal(out, again, BYTES);
    static const int64_t others[][3] = { { 2, 1, 5 }, { 1, 2, 5 }, { 1, 1, 6 } };
    for (size_t i = 0; i < 3; i++) {
        hrf_augment(&all, hrf_draw(others[i][0], HRF_DRAW_PICTURE, others[i][1], others[i][2]),
                    SIDE, rgb, again);
        assert_memory_not_equal(out, again, BYTES);
    }
}

/* ---- samples that are left out ---- */

static void what_is_left_out_takes_its_truth_with_it(void **state)
{
    (void)state;
    HRF_AUTO(hrf_sample_list) list = hrf_calloc(1, sizeof *list);
    const bool is_kept[] = { false, true, true, false };
    list->items = hrf_calloc(4, sizeof *list->items);
    list->set = (struct hrf_training_set){ .items = hrf_calloc(4, sizeof *list->set.items),
                                           .truths = hrf_calloc(8, sizeof *list->set.truths),
                                           .n_items = 4,
                                           .n_classes = 2 };
    for (int i = 0; i < 4; i++) {
        list->items[i].name = hrf_format("slide %d", i);
        list->set.items[i].line = 10 + i;
        list->set.truths[2 * i + 1] = (float)i;
    }
    hrf_sample_list_keep(list, is_kept);
    assert_int_equal(list->set.n_items, 2);
    for (int i = 0; i < 2; i++) {
        HRF_AUTO_FREE char *name = hrf_format("slide %d", i + 1);
        assert_string_equal(list->items[i].name, name);
        assert_int_equal(list->set.items[i].line, 11 + i);
        assert_float_equal(list->set.truths[2 * i + 1], i + 1, 0);
    }
}

/* ---- reading ahead ---- */

enum { PICTURES = 7 };

static void make_list(struct hrf_sample_list *list, struct hrf_sample items[PICTURES])
{
    *list = (struct hrf_sample_list){ .set.n_items = PICTURES, .items = items, .side = SIDE };
    for (int i = 0; i < PICTURES; i++) {
        unsigned char rgb[BYTES], *png = NULL;
        size_t n = 0;
        items[i] = (struct hrf_sample){ .path = hrf_format("%s/%d.png", directory, i) };
        memset(rgb, 10 * i + 5, sizeof rgb);
        assert_int_equal(hrf_png_write(rgb, SIDE, SIDE, 3, HRF_PNG_FLAT, &png, &n, NULL), HRF_OK);
        assert_int_equal(hrf_file_write_atomic(items[i].path, png, n, NULL), HRF_OK);
        hrf_free(png);
    }
}

static void boxes_of_images_are_parts_of_them(void **state)
{
    (void)state;
    static const int64_t order[] = { 2, 4, 1 };
    const struct hrf_augmentation colour = { .flips = true, .colour = 0.5 };
    const struct hrf_sample_form form = { .mean = { 0.5, 0.4, 0.3 },
                                          .std = { 0.1, 0.2, 0.3 },
                                          .side = SIDE };
    const struct hrf_box box = { { 2, 3 }, { 7, 5 } };
    struct hrf_sample items[PICTURES];
    struct hrf_sample_list list;
    float images[2 * BYTES], part[5 * 2 * 3];
    HRF_AUTO(hrf_sample_feed) whole = NULL;
    HRF_AUTO(hrf_sample_feed) parts = NULL;
    make_list(&list, items);
    const struct hrf_sample_feed_config c = {
        .list = &list, .form = &form, .order = order, .n = 3, .batch = 2, .augmentation = &colour
    };
    assert_true(hrf_sample_feed_memory(&c) >= 2 * BYTES);
    assert_int_equal(hrf_sample_feed_create(&c, &whole, NULL), HRF_OK);
    assert_int_equal(hrf_sample_feed_create(&c, &parts, NULL), HRF_OK);
    for (int batch = 0; batch < 2; batch++) {
        assert_int_equal(hrf_sample_feed_next(whole, images, NULL, NULL), HRF_OK);
        assert_int_equal(hrf_sample_feed_hold(parts, NULL), HRF_OK);
        for (int i = 0; i < 2; i++) {
            hrf_sample_feed_put(parts, i, &box, part);
            for (int y = 0; y < 5; y++)
                for (int k = 0; k < 2 * 3; k++)
                    assert_float_equal(part[y * 2 * 3 + k],
                                       images[i * BYTES + ((y + 2) * SIDE + 3) * 3 + k], 0);
        }
        hrf_sample_feed_give_back(parts);
    }
    hrf_sample_feed_destroy(whole); /* before the paths that they read */
    hrf_sample_feed_destroy(parts);
    whole = parts = NULL;
    for (int i = 0; i < PICTURES; i++)
        hrf_free(items[i].path);
}

static void batches_come_in_order_from_any_place_on_any_number_of_threads(void **state)
{
    (void)state;
    static const int64_t order[] = { 6, 0, 1, 1, 5, 2, 3, 4, 0, 6, 2 };
    const struct hrf_sample_form form = { .mean = { 0 }, .std = { 1, 1, 1 }, .side = SIDE };
    struct hrf_sample items[PICTURES];
    struct hrf_sample_list list;
    make_list(&list, items);
    struct hrf_sample_feed_config c = {
        .list = &list, .form = &form, .order = order, .n = 11, .batch = 2
    };
    float images[2 * BYTES];
    for (c.n_threads = 1; c.n_threads <= 3; c.n_threads++)
        for (c.first = 0; c.first < c.n; c.first += 3) {
            HRF_AUTO(hrf_sample_feed) feed = NULL;
            assert_int_equal(hrf_sample_feed_create(&c, &feed, NULL), HRF_OK);
            for (int64_t i = c.first; i < c.n; i += 2) {
                assert_int_equal(hrf_sample_feed_next(feed, images, NULL, NULL), HRF_OK);
                const float first = (float)(10 * order[i] + 5) / 255;
                assert_float_equal(images[BYTES - 1], first, 1e-6);
                const float next = i + 1 < c.n ? (float)(10 * order[i + 1] + 5) / 255 : 0;
                assert_float_equal(images[BYTES], next, 1e-6);
            }
        }
    /* What cannot be read is told with its batch, and a feed may end before it is empty. */
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_sample_feed *feed = NULL;
    assert_int_equal(hrf_file_write_atomic(items[5].path, "text", 4, NULL), HRF_OK);
    c.first = 0;
    assert_int_equal(hrf_sample_feed_create(&c, &feed, NULL), HRF_OK);
    assert_int_equal(hrf_sample_feed_next(feed, images, NULL, &err), HRF_OK);
    assert_int_equal(hrf_sample_feed_next(feed, images, NULL, &err), HRF_OK);
    assert_int_equal(hrf_sample_feed_next(feed, images, NULL, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "5.png' cannot be read: it is no PNG or JPEG"));
    hrf_sample_feed_destroy(feed); /* it reads ahead, from these paths */
    for (int i = 0; i < PICTURES; i++)
        hrf_free(items[i].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_come_equally_often_and_all_pictures_before_one_comes_again),
        cmocka_unit_test(labels_and_pictures_without_any_come_equally_often),
        cmocka_unit_test(an_order_is_of_its_seed_and_epoch_alone),
        cmocka_unit_test(nothing_asked_for_changes_nothing),
        cmocka_unit_test(flips_and_turns_give_the_eight_symmetries),
        cmocka_unit_test(a_shift_is_mirrored_at_the_border),
        cmocka_unit_test(a_mask_is_changed_as_its_picture),
        cmocka_unit_test(a_picture_is_of_its_seed_epoch_and_place_alone),
        cmocka_unit_test(what_is_left_out_takes_its_truth_with_it),
        cmocka_unit_test(boxes_of_images_are_parts_of_them),
        cmocka_unit_test(batches_come_in_order_from_any_place_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
