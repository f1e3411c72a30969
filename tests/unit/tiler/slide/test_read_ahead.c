/* Tiles are read ahead in few large reads, in bounded memory, whatever order they are taken in. */
#include "tiler/slide/read_ahead.h"

#include "base/file.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_TILES = 3000, MOST_BYTES = 40000 };

static char path[128];
static uint64_t offsets[N_TILES];
static uint32_t lengths[N_TILES];
static unsigned char *file;
static size_t n_file;

/* Tiles of any length, one behind the other. */
static int make_file(void **state)
{
    (void)state;
    unsigned seed = 7;
    pyramid_folder(test_folder);
    pyramid_path(test_folder, "tiles", path);
    for (int i = 0; i < N_TILES; i++) {
        seed = seed * 1664525u + 1013904223u;
        offsets[i] = n_file;
        lengths[i] = 1000 + (seed >> 8) % (MOST_BYTES - 1000);
        n_file += lengths[i];
    }
    file = hrf_alloc(n_file);
    assert_non_null(file);
    for (size_t i = 0; i < n_file; i++)
        file[i] = (unsigned char)(i * 2654435761u >> 13);
    return hrf_file_write_atomic(path, file, n_file, NULL) != HRF_OK;
}

static struct hrf_read_ahead *start(int fd, const int *order, int n)
{
    struct hrf_read_ahead *ahead = NULL;
    assert_int_equal(hrf_read_ahead_create(fd, N_TILES, &ahead, NULL), HRF_OK);
    for (int i = 0; i < n; i++)
        hrf_read_ahead_add(ahead, order[i], offsets[order[i]], lengths[order[i]]);
    assert_int_equal(hrf_read_ahead_start(ahead, NULL), HRF_OK);
    return ahead;
}

static bool take(struct hrf_read_ahead *ahead, int tile)
{
    const unsigned char *data = hrf_read_ahead_take(ahead, tile);
    if (data == NULL)
        return false;
    assert_memory_equal(data, file + offsets[tile], lengths[tile]);
    hrf_read_ahead_put(ahead, tile);
    return true;
}

static void neighbours_are_read_in_large_pieces(void **state)
{
    (void)state;
    int order[N_TILES];
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < N_TILES; i++)
        order[i] = i;
    HRF_AUTO(hrf_read_ahead) ahead = start(fd, order, N_TILES);
    for (int i = 0; i < N_TILES; i++)
        assert_true(take(ahead, i));
    assert_false(take(ahead, 5)); /* once */
    const struct hrf_read_counts counts = hrf_read_ahead_counts(ahead);
    assert_int_equal(counts.n_taken, N_TILES);
    assert_int_equal(counts.n_bytes, n_file);
    assert_true(counts.n_bytes / counts.n_reads > 1 << 20);
    assert_true(counts.peak_bytes <= HRF_READ_AHEAD_BYTES);
}

/* Every third tile of a third of the file, from the end: the gaps are larger than a tile. */
static void what_lies_apart_is_not_read_in_between(void **state)
{
    (void)state;
    int order[N_TILES], n = 0;
    int64_t n_bytes = 0;
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = N_TILES - 1; i >= 0; i -= 20) {
        order[n++] = i;
        n_bytes += lengths[i];
    }
    HRF_AUTO(hrf_read_ahead) ahead = start(fd, order, n);
    for (int i = 0; i < n; i++)
        assert_true(take(ahead, order[i]));
    const struct hrf_read_counts counts = hrf_read_ahead_counts(ahead);
    assert_int_equal(counts.n_bytes, n_bytes);
    assert_int_equal(counts.n_reads, n);
}

/* Half of the tiles are never asked for: the memory stays bounded, and nobody waits for ever. */
static void tiles_that_are_skipped_do_not_hold_up_the_others(void **state)
{
    (void)state;
    int order[N_TILES];
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < N_TILES; i++)
        order[i] = i;
    for (int step = 2; step <= 1500; step *= 5) {
        HRF_AUTO(hrf_read_ahead) ahead = start(fd, order, N_TILES);
        for (int i = step - 1; i < N_TILES; i += step)
            (void)take(ahead, i); /* or its caller reads it */
        assert_true(hrf_read_ahead_counts(ahead).peak_bytes <= HRF_READ_AHEAD_BYTES);
    }
}

struct taker {
    struct hrf_read_ahead *ahead;
    int first, n_taken;
};

static void *take_some(void *context)
{
    struct taker *t = context;
    for (int i = t->first; i < N_TILES; i += 4) {
        const unsigned char *data = hrf_read_ahead_take(t->ahead, i);
        if (data == NULL)
            continue;
        t->n_taken += memcmp(data, file + offsets[i], lengths[i]) == 0;
        hrf_read_ahead_put(t->ahead, i);
    }
    return NULL;
}

static void four_threads_get_every_tile(void **state)
{
    (void)state;
    int order[N_TILES];
    struct taker takers[4];
    pthread_t threads[4];
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < N_TILES; i++)
        order[i] = i;
    HRF_AUTO(hrf_read_ahead) ahead = start(fd, order, N_TILES);
    for (int i = 0; i < 4; i++) {
        takers[i] = (struct taker){ .ahead = ahead, .first = i };
        assert_int_equal(pthread_create(&threads[i], NULL, take_some, &takers[i]), 0);
    }
    int n = 0;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        n += takers[i].n_taken;
    }
    assert_int_equal(n, hrf_read_ahead_counts(ahead).n_taken);
    assert_true(n > N_TILES / 2); /* one thread may be far behind the others */
}

static void a_file_that_ends_early_is_told(void **state)
{
    (void)state;
    const int order[] = { 0, 1, N_TILES - 1 };
    char cut[128];
    pyramid_path(test_folder, "cut", cut);
    assert_int_equal(hrf_file_write_atomic(cut, file, offsets[1] + 10, NULL), HRF_OK);
    HRF_AUTO_CLOSE int fd = open(cut, O_RDONLY | O_CLOEXEC);
    HRF_AUTO(hrf_read_ahead) ahead = start(fd, order, 3);
    assert_false(take(ahead, N_TILES - 1));
    assert_false(take(ahead, 1));
    assert_false(take(ahead, 2)); /* not listed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_read_in_large_pieces),
        cmocka_unit_test(what_lies_apart_is_not_read_in_between),
        cmocka_unit_test(tiles_that_are_skipped_do_not_hold_up_the_others),
        cmocka_unit_test(four_threads_get_every_tile),
        cmocka_unit_test(a_file_that_ends_early_is_told),
    };
    return cmocka_run_group_tests(tests, make_file, remove_test_folder);
}
