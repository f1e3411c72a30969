/* What a job asks for against what nodes have, on the output of real controllers. */
#include "orchestrator/executor/slurm/node_fit.h"

#include "base/file.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const char *const versions[] = { "20.11.9", "21.08", "22.05", "24.05", "24.05.8", "25.11" };

static char *nodes_of(const char *version)
{
    char *text = NULL;
    size_t n = 0;
    HRF_AUTO_FREE char *path = hrf_format("%s/tests/golden/slurm-output/%s/scontrol-node.out",
                                          getenv("HRF_SOURCE_DIR"), version);
    return hrf_file_read(path, 1 << 20, &text, &n, NULL) == HRF_OK ? text : NULL;
}

static void nodes_of_all_real_versions_are_counted(void **state)
{
    (void)state;
    const struct hrf_slurm_need need = { .n_cpus = 4, .memory_bytes = 4000LL << 20, .n_gpus = 2 };
    int n_seen = 0;
    for (size_t k = 0; k < sizeof versions / sizeof versions[0]; k++) {
        HRF_AUTO_FREE char *text = nodes_of(versions[k]);
        struct hrf_slurm_offer offer = { .partition = { .name = "low" } };
        if (text == NULL)
            continue;
        hrf_slurm_nodes_parse(text, &need, &offer);
        assert_int_equal(offer.n_nodes, 4);
        assert_int_equal(offer.n_fitting, 4);
        assert_int_equal(offer.max_cpus, 4);
        assert_int_equal(offer.max_gpus, 2);
        assert_int_equal(offer.max_memory_bytes, 4000LL << 20);
        struct hrf_slurm_offer none = { .partition = { .name = "mai" } };
        hrf_slurm_nodes_parse(text, &need, &none);
        assert_int_equal(none.n_nodes, 0);
        n_seen++;
    }
    assert_true(n_seen >= 3);
}

static const char mixed[] =
    "NodeName=a CPUTot=64 CPUEfctv=62 Gres=gpu:a100:4(S:0-1),shard:8 RealMemory=1024 "
    "Partitions=gpu,main\n"
    "NodeName=b CPUTot=2 Gres=(null) RealMemory=262144 Partitions=main\n"
    "NodeName=c CPUTot=8 Gres=gpu RealMemory=2048 Partitions=mainly\n";

static void says(const struct hrf_slurm_need *need, const char *wanted)
{
    struct hrf_slurm_offer offer = { .partition = { .name = "main", .state = "UP" } };
    struct hrf_error err = { .text = "" };
    hrf_slurm_nodes_parse(mixed, need, &offer);
    assert_int_equal(offer.n_nodes, 2);
    assert_int_equal(offer.max_gpus, 4);
    assert_int_equal(hrf_slurm_fit(need, &offer, &err), wanted == NULL ? HRF_OK : HRF_E_USER);
    if (wanted != NULL && strstr(err.text, wanted) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, wanted);
}

static void a_refusal_has_the_numbers_of_both(void **state)
{
    (void)state;
    const int64_t gib = 1LL << 30;
    says(&(struct hrf_slurm_need){ 1, 1, 62, 4, gib, 60 }, NULL);
    says(&(struct hrf_slurm_need){ 1, 1, 2, 0, 256 * gib, 60 }, NULL);
    says(&(struct hrf_slurm_need){ 2, 1, 2, 0, gib, 60 }, NULL);
    says(&(struct hrf_slurm_need){ 1, 4, 64, 0, 512 * gib, 60 },
         "512 GiB and 64 processors of a node asked for 4 ranks, the nodes of main have at most "
         "256 GiB and 62 processors; lower mem_per_node, cpus_per_rank, ranks_per_node");
    says(&(struct hrf_slurm_need){ 1, 1, 1, 8, gib, 60 },
         "8 GPUs of a node asked for 1 rank, the nodes of main have at most 4 GPUs; lower "
         "gpus_per_rank (executor.slurm)");
    says(&(struct hrf_slurm_need){ 1, 1, 60, 0, 200 * gib, 60 }, "and none has all of it");
    says(&(struct hrf_slurm_need){ 2, 1, 60, 0, gib, 60 }, "and too few have all of it");
}

static void unset_keys_are_cut_to_what_there_is(void **state)
{
    (void)state;
    const struct hrf_workflow_executor settings = {
        .slurm = { .nodes = 1, .ranks_per_node = 4, .cpus_per_rank = 1 }
    };
    const struct hrf_submission infer = { .kind = "infer" };
    struct hrf_slurm_offer offer = { .partition = { .max_minutes = 30, .max_mem_bytes = 0 },
                                     .max_memory_bytes = 1LL << 30 };
    struct hrf_slurm_job job = { .settings = &settings, .submission = &infer };
    assert_int_equal(hrf_slurm_need_of(&job).memory_bytes, 8LL << 30);
    assert_int_equal(hrf_slurm_need_of(&job).minutes, 60);
    hrf_slurm_offer_limits(&offer, &job);
    assert_int_equal(hrf_slurm_need_of(&job).memory_bytes, 1LL << 30);
    assert_int_equal(hrf_slurm_need_of(&job).minutes, 30);
    offer.partition.max_mem_bytes = 1LL << 29;
    hrf_slurm_offer_limits(&offer, &job);
    assert_int_equal(hrf_slurm_need_of(&job).memory_bytes, 1LL << 29);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_of_all_real_versions_are_counted),
        cmocka_unit_test(a_refusal_has_the_numbers_of_both),
        cmocka_unit_test(unset_keys_are_cut_to_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
