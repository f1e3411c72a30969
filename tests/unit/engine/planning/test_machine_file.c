/* Machine files: those of the project, what is written reads back, what is wrong is named. */
#include "engine/planning/machine_file.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static enum hrf_status parse(const char *text, struct hrf_machine *out, struct hrf_error *err)
{
    return hrf_machine_parse(text, strlen(text), "m.yaml", out, err);
}

static void the_projects_machines_are_read(void **state)
{
    (void)state;
    struct hrf_machine m;
    assert_int_equal(hrf_machine_read("machines/a100-8.yaml", &m, NULL), HRF_OK);
    assert_int_equal(hrf_machine_read("machines/h200-8.yaml", &m, NULL), HRF_OK);
    assert_string_equal(m.device, "H200");
    assert_int_equal(m.ranks_per_node, 8);
    assert_true(m.memory_bytes == (int64_t)139 << 30);
    assert_true(fabs(m.rates.operations[HRF_RATE_INT8] - 785e12) < 1);
    assert_true(fabs(m.copy_rate - 1920e9) < 1);
    assert_int_equal(m.n_links, 2);
    assert_int_equal(m.links[1].placement, HRF_PLACEMENT_NETWORK);
    /* 12 us and 1 MB at 100 GB/s */
    assert_true(fabs(hrf_link_at(&m.links[0], 1e6).transit - 22e-6) < 1e-12);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    struct hrf_machine m, back;
    assert_int_equal(
        parse("{version: 1, name: n, device: {name: d, memory_gib: 2, gb_per_s: 3, overhead_us: 4, "
              "tops: {bf16: 5}}, ranks_per_node: 6, ports_per_node: 2, nodes: 7, one_process: "
              "true, links: [{comm: loop, placement: process, points: [[0, 1, 2, 3], [64, 4, 5, "
              "6]]}, {comm: ipc, placement: node, gpus: true, points: [[0, 0, 2, 0]]}]}",
              &m, NULL),
        HRF_OK);
    HRF_AUTO_JSON json = hrf_machine_json(&m);
    HRF_AUTO_FREE char *text = hrf_json_text(json);
    assert_int_equal(parse(text, &back, NULL), HRF_OK);
    HRF_AUTO_JSON again = hrf_machine_json(&back);
    assert_true(json_equal(json, again));
    assert_int_equal(back.n_nodes, 7);
    assert_true(back.is_one_process);
    assert_true(fabs(back.links[0].points[1].receive - 6e-6) < 1e-12);
    assert_false(back.links[0].is_gpus);
    assert_true(back.links[1].is_gpus);
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "name: n\n", "m.yaml:1:1: there is no 'version'; it must be 1" },
        { "version: 2\n", "m.yaml:1:10: 'version' is not right; it must be a number from 1 to 1" },
        { "version: 1\nrank_per_node: 4\n",
          "m.yaml:2:1: 'rank_per_node' is not a key of 'machine'; did you mean 'ranks_per_node'?" },
        { "version: 1\ndevice: {tops: {fp8: 1}}\n",
          "m.yaml:2:17: 'fp8' is not a key of 'tops'; did you mean" },
        { "version: 1\nnodes: many\n",
          "m.yaml:2:8: 'nodes' is not right; it must be a number from 1 to 1e+06" },
        { "version: 1\nversion: 1\n", "m.yaml:2:1: 'version' is given twice in 'machine'" },
        { "version: 1\nlinks: [{placement: moon}]\n",
          "m.yaml:2:9: a link has no known placement; it must be process, node or network" },
        { "version: 1\nlinks: [{placement: node}]\n",
          "m.yaml:2:9: a link's speed is given twice or not at all" },
        { "version: 1\nlinks: [{placement: node, points: [[9, 1, 1, 1], [9, 1, 1, 1]]}]\n",
          "m.yaml:2:50: the points of a link are not in order" },
        { "version: 1\nlinks: [{placement: node, points: [[9, 1, 1]]}]\n",
          "m.yaml:2:36: a point of a link is not four numbers" },
        { "[1]", "m.yaml:1:1: 'machine' is not a map" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_machine m;
        struct hrf_error err = { .status = HRF_OK };
        assert_int_equal(parse(cases[i][0], &m, &err), HRF_E_USER);
        if (strstr(err.text, cases[i][1]) != err.text)
            fail_msg("case %zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_projects_machines_are_read),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
