/* Profiles: every node gets a cost, in every precision, alone and in company; files keep them. */
#include "engine/run/profile.h"

#include "base/directory.h"
#include "base/file.h"
#include "engine/model/model.h"
#include "engine/run/cost_file.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static struct hrf_graph *network(int64_t size)
{
    struct hrf_graph *graph = NULL;
    const struct hrf_shape shape = { 4, { 1, 3, size, size } };
    assert_int_equal(hrf_model_make("resnet18", 10, size, 1, &graph, NULL), HRF_OK);
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, NULL), HRF_OK);
    return graph;
}

static void profile(int64_t size, enum hrf_precision precision, int32_t at_once,
                    struct hrf_cost_table *table)
{
    HRF_AUTO(hrf_graph) graph = network(size);
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = precision,
                                               .n_threads = 1 };
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_profile_run(graph, &config, 1, at_once, table, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

static const struct hrf_cost_entry *find(const struct hrf_cost_table *table, const char *word)
{
    for (int32_t i = 0; i < table->n_entries; i++)
        if (strstr(table->entries[i].key, word) != NULL)
            return &table->entries[i];
    fail_msg("no entry of '%s'", word);
    return NULL;
}

static void every_kind_of_node_is_measured(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .entries = NULL };
    profile(64, HRF_FP32, 2, &table);
    const struct hrf_cost_entry *stem = find(&table, "Conv float32>float32 c3>64 k7x7 s2x2");
    assert_true(stem->work == 32 * 32);
    for (int32_t i = 0; i < table.n_entries; i++)
        assert_true(table.entries[i].seconds > 0);
    find(&table, "MaxPool");
    find(&table, "GlobalAveragePool");
    find(&table, "Gemm");
    const int32_t n = table.n_entries;
    profile(96, HRF_FP32, 1, &table);
    assert_true(table.n_entries > n + n / 2); /* other sizes of the same kinds */
    hrf_cost_table_release(&table);
}

static void int8_is_profiled_without_a_calibration_in_the_types_that_one_would_give(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .entries = NULL };
    profile(64, HRF_INT8, 1, &table);
    find(&table, "Conv uint8>uint8 c64>64 k3x3 s1x1 d1x1 g1 relu"); /* after a ReLU */
    find(&table, "Conv int8>uint8 c3>64 k7x7");                     /* the image itself */
    assert_int_equal(find(&table, "c64>64 k3x3")->rate, HRF_RATE_INT8);
    hrf_cost_table_release(&table);
}

static void a_cost_file_keeps_a_table(void **state)
{
    (void)state;
    char folder[] = "/tmp/hrf_costs.XXXXXX";
    struct hrf_cost_table table = { .entries = NULL }, back = { .entries = NULL };
    struct hrf_error err = { .status = HRF_OK };
    assert_non_null(mkdtemp(folder));
    HRF_AUTO_FREE char *path = NULL;
    assert_int_equal(hrf_cost_file_path(folder, "cpu", 1, 2, &path, NULL), HRF_OK);
    assert_non_null(strstr(path, ".cpu.t1.r2.json"));
    assert_int_equal(hrf_cost_file_read(path, &back, &err), HRF_OK); /* not there yet */
    assert_int_equal(back.n_entries, 0);
    profile(64, HRF_FP32, 1, &table);
    assert_int_equal(hrf_cost_file_write(path, &table, &err), HRF_OK);
    assert_int_equal(hrf_cost_file_read(path, &back, &err), HRF_OK);
    assert_int_equal(back.n_entries, table.n_entries);
    assert_true(back.rates.operations[HRF_RATE_FP32] > 0 && back.rates.bytes > 0);
    assert_int_equal(hrf_file_write_atomic(path, "{\"version\":2}", 13, &err), HRF_OK);
    assert_int_equal(hrf_cost_file_read(path, &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "version 2 of measured costs"));
    hrf_cost_table_release(&table);
    hrf_cost_table_release(&back);
    assert_int_equal(hrf_path_remove_tree(folder, NULL), HRF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_node_is_measured),
        cmocka_unit_test(int8_is_profiled_without_a_calibration_in_the_types_that_one_would_give),
        cmocka_unit_test(a_cost_file_keeps_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
