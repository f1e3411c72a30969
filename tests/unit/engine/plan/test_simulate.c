/* Programs of ranks played on machines whose times can be worked out by hand. */
#include "engine/plan/simulate.h"

#include "tests/unit/unit.h"

#include <math.h>

static struct hrf_machine machine_of(int32_t ranks_per_node, double latency, double bandwidth)
{
    struct hrf_machine m = { .name = "m", .ranks_per_node = ranks_per_node, .ports_per_node = 1 };
    m.links[m.n_links++] = hrf_link_simple("nccl", HRF_PLACEMENT_NODE, latency, bandwidth);
    return m;
}

enum { MOST_RANKS = 4 };
struct scene {
    struct hrf_sim_program programs[MOST_RANKS];
};

static void add(struct scene *scene, int32_t rank, struct hrf_sim_step step)
{
    hrf_sim_add(&scene->programs[rank], &step);
}

static struct hrf_sim_step compute(double seconds)
{
    return (struct hrf_sim_step){ .kind = HRF_SIM_COMPUTE, .seconds = seconds };
}

static struct hrf_sim_step sending(int32_t to, int64_t tag, int64_t n_bytes)
{
    return (
        struct hrf_sim_step){ .kind = HRF_SIM_SEND, .peer = to, .tag = tag, .n_bytes = n_bytes };
}

static struct hrf_sim_step receiving(int32_t from, int64_t tag)
{
    return (struct hrf_sim_step){
        .kind = HRF_SIM_RECEIVE, .peer = from, .tag = tag, .n_bytes = HRF_SIM_ANY_SIZE
    };
}

static void release(struct scene *scene)
{
    for (int r = 0; r < MOST_RANKS; r++)
        hrf_free(scene->programs[r].steps);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void a_rank_waits_for_what_arrives_late_and_not_for_what_is_there(void **state)
{
    (void)state;
    struct scene scene = { 0 };
    struct hrf_machine m = machine_of(8, 0.25, 1000);
    HRF_AUTO(hrf_simulation) s = NULL;
    add(&scene, 0, compute(1));
    add(&scene, 0, sending(1, 7, 500)); /* there at 1 + 0.25 + 0.5 */
    add(&scene, 0, receiving(1, 7));    /* sent at 0.5, there at 0.75 */
    add(&scene, 1, compute(0.5));
    add(&scene, 1, sending(0, 7, 0));
    add(&scene, 1, receiving(0, 7));
    add(&scene, 1, compute(1));
    assert_int_equal(hrf_simulate(scene.programs, 2, &m, &s, NULL), HRF_OK);
    assert_true(near(s->ranks[0].end, 1) && near(s->ranks[0].seconds[HRF_SIM_WAIT], 0));
    assert_true(near(s->ranks[1].end, 2.75) && near(s->ranks[1].seconds[HRF_SIM_WAIT], 1.25));
    assert_true(near(s->seconds, 2.75));
    assert_int_equal(s->ranks[0].sent_bytes, 500);
    assert_int_equal(s->ranks[1].n_spans, 3); /* compute, wait, compute */
    assert_int_equal(s->ranks[1].spans[1].kind, HRF_SIM_WAIT);
    assert_int_equal(s->ranks[1].spans[1].peer, 0);
    release(&scene);
}

static void a_pipeline_of_even_stages_takes_as_many_slots_as_the_books_say(void **state)
{
    (void)state;
    enum { STAGES = 4, MICROBATCHES = 6 };
    struct scene scene = { 0 };
    struct hrf_machine m = machine_of(8, 0, 1e9);
    HRF_AUTO(hrf_simulation) s = NULL;
    for (int stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < MICROBATCHES; i++) {
            if (stage > 0)
                add(&scene, stage, receiving(stage - 1, i));
            add(&scene, stage, compute(1));
            if (stage + 1 < STAGES)
                add(&scene, stage, sending(stage + 1, i, 0));
        }
    assert_int_equal(hrf_simulate(scene.programs, STAGES, &m, &s, NULL), HRF_OK);
    assert_true(near(s->seconds, MICROBATCHES + STAGES - 1));
    assert_true(near(s->ranks[3].seconds[HRF_SIM_WAIT], STAGES - 1));
    release(&scene);
}

static void messages_of_one_sender_queue_at_its_port(void **state)
{
    (void)state;
    struct scene scene = { 0 };
    struct hrf_machine m = machine_of(8, 0.125, 1000);
    HRF_AUTO(hrf_simulation) s = NULL;
    add(&scene, 0, sending(1, 0, 1000));
    add(&scene, 0, sending(2, 0, 1000));
    add(&scene, 1, receiving(0, 0));
    add(&scene, 2, receiving(0, 0));
    assert_int_equal(hrf_simulate(scene.programs, 3, &m, &s, NULL), HRF_OK);
    assert_true(near(s->ranks[1].end, 1.125));
    assert_true(near(s->ranks[2].end, 2.125)); /* the bytes queue; the latency does not */
    assert_true(near(s->ranks[0].end, 0));     /* nor does the sender */
    release(&scene);
}

static void ranks_of_a_node_share_its_way_to_other_nodes(void **state)
{
    (void)state;
    struct scene scene = { 0 };
    struct hrf_machine m = machine_of(2, 0, 1e9);
    m.links[m.n_links++] = hrf_link_simple("mpi", HRF_PLACEMENT_NETWORK, 0, 1000);
    for (int32_t r = 0; r < 2; r++) {
        add(&scene, r, sending(r + 2, 0, 1000));
        add(&scene, r + 2, receiving(r, 0));
    }
    for (int32_t ports = 1; ports <= 2; ports++) {
        HRF_AUTO(hrf_simulation) s = NULL;
        m.ports_per_node = ports;
        assert_int_equal(hrf_simulate(scene.programs, 4, &m, &s, NULL), HRF_OK);
        assert_true(near(s->seconds, ports == 1 ? 2 : 1));
    }
    release(&scene);
}

static void a_message_takes_the_link_that_is_fastest_for_its_size(void **state)
{
    (void)state;
    struct hrf_machine m = machine_of(8, 1e-5, 1e11); /* far and broad */
    m.links[m.n_links++] = hrf_link_simple("mpi", HRF_PLACEMENT_NODE, 1e-6, 1e9);
    assert_string_equal(hrf_machine_link(&m, HRF_PLACEMENT_NODE, 100)->comm, "mpi");
    assert_string_equal(hrf_machine_link(&m, HRF_PLACEMENT_NODE, 1e6)->comm, "nccl");
    assert_string_equal(hrf_machine_link(&m, HRF_PLACEMENT_PROCESS, 1e6)->comm, "nccl");
    assert_null(hrf_machine_link(&m, HRF_PLACEMENT_NETWORK, 1));
    /* Links between GPUs are for what lies on GPUs, and the others are not. */
    const char *const transports[] = { "mpi", NULL, "ipc" };
    assert_int_equal(hrf_machine_transport(&m, HRF_PLACEMENT_NODE, 100, transports, 3), -1);
    const int32_t n_hosts = m.n_links;
    m.links[m.n_links++] = hrf_link_simple("ipc", HRF_PLACEMENT_NODE, 1e-9, 1e8);
    m.links[m.n_links++] = hrf_link_simple("mpi", HRF_PLACEMENT_NODE, 1e-6, 1e15);
    m.links[n_hosts].is_gpus = m.links[n_hosts + 1].is_gpus = true;
    assert_string_equal(hrf_machine_link(&m, HRF_PLACEMENT_NODE, 100)->comm, "mpi");
    assert_int_equal(hrf_machine_transport(&m, HRF_PLACEMENT_NODE, 1, transports, 3), 2);
    assert_int_equal(hrf_machine_transport(&m, HRF_PLACEMENT_NODE, 1e6, transports, 3), 0);
    assert_int_equal(hrf_machine_transport(&m, HRF_PLACEMENT_PROCESS, 1, transports, 3), 2);
    assert_int_equal(hrf_machine_transport(&m, HRF_PLACEMENT_NODE, 1, transports, 1), 0);
    assert_int_equal(hrf_machine_transport(&m, HRF_PLACEMENT_NETWORK, 1, transports, 3), -1);
    m.has_gpus = true;
    assert_string_equal(hrf_machine_link(&m, HRF_PLACEMENT_NODE, 1)->comm, "ipc");
}

static void a_measured_link_is_read_between_its_points_and_beyond(void **state)
{
    (void)state;
    struct hrf_link link = { .n_points = 3,
                             .points = { { 100, 1, 2, 3 }, { 200, 2, 4, 6 }, { 400, 2, 8, 5 } } };
    assert_true(near(hrf_link_at(&link, 10).transit, 2)); /* no less than the smallest message */
    assert_true(near(hrf_link_at(&link, 150).send, 1.5));
    assert_true(near(hrf_link_at(&link, 600).transit, 12));
    assert_true(near(hrf_link_at(&link, 600).receive, 4));
    assert_true(near(hrf_link_at(&link, 4000).receive, 0)); /* never below nothing */
}

/* Every rank sends every other one messages of many tags, and takes the last first: rank r computes
 * for r seconds before it sends, and sends 1 byte a second. */
static void messages_are_taken_by_their_tags_in_any_order(void **state)
{
    (void)state;
    enum { RANKS = 40, TAGS = 9 };
    struct hrf_sim_program programs[RANKS] = { { .n_steps = 0 } };
    const struct hrf_machine m = machine_of(RANKS, 0, 1);
    HRF_AUTO(hrf_simulation) s = NULL;
    for (int32_t r = 0; r < RANKS; r++) {
        const struct hrf_sim_step before = compute(r);
        hrf_sim_add(&programs[r], &before);
        for (int32_t i = 0; i < TAGS * RANKS; i++) {
            const struct hrf_sim_step send = sending(i % RANKS, i / RANKS, 1 + i / RANKS);
            if (i % RANKS != r)
                hrf_sim_add(&programs[r], &send);
        }
        for (int32_t i = TAGS * RANKS - 1; i >= 0; i--) {
            struct hrf_sim_step take = receiving(i % RANKS, i / RANKS);
            take.n_bytes = 1 + i / RANKS; /* another message would be of another size */
            if (i % RANKS != r)
                hrf_sim_add(&programs[r], &take);
        }
    }
    assert_int_equal(hrf_simulate(programs, RANKS, &m, &s, NULL), HRF_OK);
    const double port = (RANKS - 1) * TAGS * (TAGS + 1) / 2.0; /* s: what a rank sends */
    assert_true(near(s->seconds, RANKS - 1 + port));
    for (int32_t r = 0; r < RANKS; r++) {
        assert_int_equal(s->ranks[r].sent_bytes, (int64_t)port);
        hrf_free(programs[r].steps);
    }
}

static void ranks_that_wait_for_ever_are_named(void **state)
{
    (void)state;
    struct scene scene = { 0 };
    struct hrf_machine m = machine_of(8, 0, 1e9);
    HRF_AUTO(hrf_simulation) s = NULL;
    struct hrf_error err = { .status = HRF_OK };
    add(&scene, 0, receiving(1, 5));
    add(&scene, 0, sending(1, 5, 1));
    add(&scene, 1, receiving(0, 5));
    add(&scene, 1, sending(0, 5, 1));
    assert_int_equal(hrf_simulate(scene.programs, 2, &m, &s, &err), HRF_E_BUG);
    assert_string_equal(err.text, "rank 0 waits at step 0 for a message of rank 1 (tag 5) that "
                                  "nobody sends");
    assert_null(s);
    release(&scene);
}

static void a_message_that_nobody_takes_is_named(void **state)
{
    (void)state;
    struct scene scene = { 0 };
    struct hrf_machine m = machine_of(1, 0, 1e9);
    HRF_AUTO(hrf_simulation) s = NULL;
    struct hrf_error err = { .status = HRF_OK };
    add(&scene, 0, sending(1, 5, 1));
    assert_int_equal(hrf_simulate(scene.programs, 2, &m, &s, &err), HRF_E_USER);
    assert_string_equal(err.text,
                        "machine 'm' has no link between ranks 0 and 1 (placement 'network'): "
                        "give it one in the machine file, or measure (tune-comm)");
    m.ranks_per_node = 2;
    assert_int_equal(hrf_simulate(scene.programs, 2, &m, &s, &err), HRF_E_BUG);
    assert_string_equal(err.text, "rank 1 never takes a message of rank 0 (tag 5)");
    release(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_waits_for_what_arrives_late_and_not_for_what_is_there),
        cmocka_unit_test(a_pipeline_of_even_stages_takes_as_many_slots_as_the_books_say),
        cmocka_unit_test(messages_of_one_sender_queue_at_its_port),
        cmocka_unit_test(ranks_of_a_node_share_its_way_to_other_nodes),
        cmocka_unit_test(a_message_takes_the_link_that_is_fastest_for_its_size),
        cmocka_unit_test(a_measured_link_is_read_between_its_points_and_beyond),
        cmocka_unit_test(messages_are_taken_by_their_tags_in_any_order),
        cmocka_unit_test(ranks_that_wait_for_ever_are_named),
        cmocka_unit_test(a_message_that_nobody_takes_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
