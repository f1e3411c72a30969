/* Which GPU a rank takes, by what the starters of ranks say. */
#include "base/alloc.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/own_process.h"
#include "engine/backend/cuda/binding.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const (*said)[2]; /* name, value; ended by NULL */

static char *get(const char *name)
{
    for (int i = 0; said[i][0] != NULL; i++)
        if (strcmp(said[i][0], name) == 0)
            return (char *)(uintptr_t)said[i][1];
    return NULL;
}

static struct hrf_binding read_from(const char *const (*environment)[2], int n_visible)
{
    said = environment;
    return hrf_binding_read(get, n_visible);
}

static void expect(const struct hrf_binding *b, int device, int sharers)
{
    if (hrf_binding_device(b) != device || hrf_binding_sharers(b) != sharers)
        fail_msg("rank %d of %d: GPU %d, %d ranks on it", b->rank, b->n_ranks,
                 hrf_binding_device(b), hrf_binding_sharers(b));
}

static void ranks_share_out_the_gpus_that_they_all_see(void **state)
{
    static const char *const nobody[][2] = { { NULL } };
    static const char *const open_mpi[][2] = { { "OMPI_COMM_WORLD_LOCAL_RANK", "5" },
                                               { "OMPI_COMM_WORLD_LOCAL_SIZE", "6" },
                                               { NULL } };
    static const char *const slurm[][2] = { { "SLURM_LOCALID", "1" },
                                            { "SLURM_STEP_TASKS_PER_NODE", "4(x2)" },
                                            { "SLURM_STEP_GPUS", "0,1,2,3" },
                                            { NULL } };
    (void)state;
    struct hrf_binding b = read_from(nobody, 4);
    expect(&b, 0, 1);
    b = read_from(open_mpi, 4); /* ranks 0 and 4, 1 and 5 share; 2 and 3 stand alone */
    expect(&b, 1, 2);
    b.rank = 2;
    expect(&b, 2, 1);
    b = read_from(slurm, 4);
    expect(&b, 1, 1);
}

static void a_rank_whose_starter_shows_it_one_gpu_takes_that(void **state)
{
    static const char *const bound[][2] = { { "SLURM_LOCALID", "3" },
                                            { "SLURM_STEP_TASKS_PER_NODE", "4" },
                                            { "SLURM_STEP_GPUS", "4,5,6,7" },
                                            { NULL } };
    static const char *const crowded[][2] = { { "SLURM_LOCALID", "3" },
                                              { "SLURM_STEP_TASKS_PER_NODE", "4" },
                                              { "SLURM_GPUS_ON_NODE", "1" },
                                              { NULL } };
    static const char *const odd[][2] = { { "SLURM_LOCALID", "" },
                                          { "SLURM_STEP_TASKS_PER_NODE", "many" },
                                          { NULL } };
    (void)state;
    struct hrf_binding b = read_from(bound, 1);
    expect(&b, 0, 1);
    b = read_from(crowded, 1); /* fewer GPUs than ranks */
    expect(&b, 0, 4);
    b = read_from(odd, 2);
    expect(&b, 0, 1);
}

static void processors_near_the_gpu_are_counted(void **state)
{
    (void)state;
    assert_int_equal(hrf_binding_nearness("0-3", "0-15,32-47"), HRF_NEAR_ALL);
    assert_int_equal(hrf_binding_nearness("14-17,33", "0-15,32-47"), HRF_NEAR_SOME);
    assert_int_equal(hrf_binding_nearness("16-31", "0-15,32-47"), HRF_NEAR_NONE);
    assert_int_equal(hrf_binding_nearness("0-3", ""), HRF_NEAR_UNKNOWN);
    assert_int_equal(hrf_binding_nearness("", "0-3"), HRF_NEAR_UNKNOWN);
}

static void the_line_says_it_all(void **state)
{
    const struct hrf_binding b = { .rank = 2, .n_ranks = 4, .n_visible = 2 };
    char line[512];
    (void)state;
    hrf_binding_text(&b, "0000:3b:00.0", "16-19", "0-15", line, sizeof line);
    assert_string_equal(line, "rank 2 of 4 on this node takes GPU 0 of 2 (0000:3b:00.0), as 1 "
                              "other does; none of its processors (16-19) is near it: those are "
                              "0-15");
    hrf_binding_text(&b, "0000:3b:00.0", "0-3", "0-15", line, sizeof line);
    assert_non_null(strstr(line, "; all its processors (0-3) are near it"));
    hrf_binding_text(&b, "0000:3b:00.0", "0-3", "", line, sizeof line);
    assert_string_equal(line, "rank 2 of 4 on this node takes GPU 0 of 2 (0000:3b:00.0), as 1 "
                              "other does");
}

static void a_rank_keeps_near_its_gpu_where_it_takes_nothing_from_others(void **state)
{
    /* Two sockets of 8, four GPUs, four ranks, every rank on every processor. */
    struct hrf_binding b = { .rank = 1, .n_ranks = 4, .n_visible = 4 };
    char list[64] = "";
    (void)state;
    assert_true(hrf_binding_narrow(&b, "0-15", "8-15", 16, list, sizeof list));
    assert_string_equal(list, "8-15");
    assert_true(hrf_binding_narrow(&b, "0-15", "0-2,4,12-13", 16, list, sizeof list));
    assert_string_equal(list, "0-2,4,12-13");
    /* One GPU for all: the far processors are nobody else's. */
    b.n_visible = 1;
    assert_false(hrf_binding_narrow(&b, "0-15", "8-15", 16, list, sizeof list));
    /* Its starter has bound it already: what it has is its own. */
    b.n_visible = 4;
    assert_false(hrf_binding_narrow(&b, "4-11", "8-15", 16, list, sizeof list));
    b.n_promised = 8;
    assert_false(hrf_binding_narrow(&b, "4-11", "8-15", 16, list, sizeof list));
    /* Slurm gave each 4 and left it on 16. */
    b.n_promised = 4;
    assert_true(hrf_binding_narrow(&b, "0-15", "8-15", 32, list, sizeof list));
    /* Nothing near, all near, not known, alone. */
    assert_false(hrf_binding_narrow(&b, "0-15", "16-31", 32, list, sizeof list));
    assert_false(hrf_binding_narrow(&b, "0-15", "0-31", 32, list, sizeof list));
    assert_false(hrf_binding_narrow(&b, "0-15", "", 32, list, sizeof list));
    b.rank = 0;
    b.n_ranks = 1;
    assert_false(hrf_binding_narrow(&b, "0-15", "8-15", 16, list, sizeof list));
}

/* A machine made of files, whose GPU is near the first of this process's processors. */
static void it_is_set_and_looked_at(void **state)
{
    (void)state;
    char root[] = "/tmp/hrf-sysfs-XXXXXX", before[256], first[32], line[1024], now[256];
    const struct hrf_binding b = { .rank = 1, .n_ranks = 2, .n_visible = 2, .n_promised = 1 };
    hrf_process_cpu_list(before, sizeof before);
    if (hrf_process_cpu_count() < 2) {
        print_message("one processor only: there is nothing to narrow\n");
        skip();
    }
    snprintf(first, sizeof first, "%ld", strtol(before, NULL, 10));
    assert_non_null(mkdtemp(root));
    HRF_AUTO_FREE char *folder = hrf_format("%s/bus/pci/devices/0000:3b:00.0", root);
    HRF_AUTO_FREE char *file = hrf_format("%s/local_cpulist", folder);
    assert_int_equal(hrf_path_make_directories(folder, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(file, first, strlen(first), NULL), HRF_OK);
    hrf_binding_apply(&b, "0000:3B:00.0", root, line, sizeof line);
    hrf_process_cpu_list(now, sizeof now);
    assert_string_equal(now, first);
    HRF_AUTO_FREE char *wanted = hrf_format("rank 1 of 2 on this node takes GPU 1 of 2 "
                                            "(0000:3B:00.0); all its processors (%s) are near it, "
                                            "which it now keeps to; it was given %s",
                                            first, before);
    assert_string_equal(line, wanted);
    assert_int_equal(hrf_process_set_cpus(before, NULL), HRF_OK);
    hrf_process_cpu_list(now, sizeof now);
    assert_string_equal(now, before);
    assert_int_equal(hrf_path_remove_tree(root, NULL), HRF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_out_the_gpus_that_they_all_see),
        cmocka_unit_test(a_rank_whose_starter_shows_it_one_gpu_takes_that),
        cmocka_unit_test(processors_near_the_gpu_are_counted),
        cmocka_unit_test(the_line_says_it_all),
        cmocka_unit_test(a_rank_keeps_near_its_gpu_where_it_takes_nothing_from_others),
        cmocka_unit_test(it_is_set_and_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
