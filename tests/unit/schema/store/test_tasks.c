/* The plan, results by key, attempts, events and the lease. */
#include "base/clock.h"
#include "base/host.h"
#include "schema/store/store_private.h"
#include "tests/unit/schema/store/store_fixture.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hrf_task_rows tasks_of(struct hrf_store *store)
{
    struct hrf_task_rows rows = { NULL, 0 };
    assert_int_equal(hrf_store_get_tasks(store, &rows, NULL), HRF_OK);
    return rows;
}

static void plan(struct hrf_store *store, const struct hrf_task_row *rows, size_t n)
{
    assert_int_equal(hrf_store_plan_tasks(store, 1, HRF_TASK_INFER, rows, n, NULL), HRF_OK);
}

static bool finish(struct hrf_store *store, const struct hrf_task_row *task, const char *record)
{
    bool is_new = false;
    struct hrf_bytes bytes = fixture_record(task, record);
    assert_int_equal(
        hrf_store_finish_task(store, task->id, task->key, bytes.data, bytes.n_bytes, &is_new, NULL),
        HRF_OK);
    hrf_bytes_release(&bytes);
    return is_new;
}

/* Against a search through all rows. */
static void rows_of_a_slide_are_found_among_all(void **state)
{
    (void)state;
    struct hrf_task_row items[60] = { { .id = 0 } };
    size_t n_rows = 0;
    for (int kind = 0; kind < 3; kind++) /* slides 0, 3, 6 ... have one row, 1, 4 ... two */
        for (int64_t slide = 0; slide < 20; slide++)
            for (int64_t k = 0; k < slide % 3 + (slide % 3 < 2) && n_rows < 60; k++)
                items[n_rows++] = (struct hrf_task_row){ .kind = (enum hrf_task_kind)kind,
                                                         .slide_id = slide };
    for (int kind = 0; kind < 4; kind++)
        for (int64_t slide = -1; slide < 22; slide++) {
            size_t first = 99, n = 0, at = n_rows;
            for (size_t i = n_rows; i-- > 0;)
                if ((int)items[i].kind == kind && items[i].slide_id == slide) {
                    n++;
                    at = i;
                }
            const struct hrf_task_rows all = { items, n_rows };
            assert_int_equal(hrf_task_rows_of(&all, (enum hrf_task_kind)kind, slide, &first), n);
            assert_true(n == 0 || first == at);
        }
}

static void a_plan_made_again_keeps_what_is_known(void **state)
{
    (void)state;
    struct hrf_task_row wanted[2] = { fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 10, 'a'),
                                      fixture_task(HRF_TASK_INFER, 1, "fp32", 10, 5, 'b') };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    plan(store, wanted, 2);
    HRF_AUTO_RELEASE(hrf_task_rows) first = tasks_of(store);
    assert_int_equal(first.n_items, 2);
    assert_true(first.items[0].state == HRF_TASK_PENDING && !first.items[0].cached &&
                first.items[0].n_patches == 10 && first.items[1].first_patch == 10);
    assert_string_equal(first.items[0].precision, "fp32");
    assert_true(finish(store, &first.items[0], "result"));
    assert_int_equal(
        hrf_store_set_task(store, first.items[1].id, HRF_TASK_BROKEN, 3, "bad\nslide", NULL),
        HRF_OK);
    plan(store, wanted, 2);
    HRF_AUTO_RELEASE(hrf_task_rows) again = tasks_of(store);
    assert_int_equal(again.n_items, 2);
    assert_true(again.items[0].state == HRF_TASK_FINISHED && again.items[0].cached &&
                again.items[0].id == first.items[0].id);
    assert_true(again.items[1].state == HRF_TASK_BROKEN && again.items[1].n_attempts == 3);
    assert_string_equal(again.items[1].reason, "bad\nslide");
}

static void a_changed_key_begins_anew_and_an_old_one_is_found_again(void **state)
{
    (void)state;
    struct hrf_task_row old = fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 10, 'a');
    struct hrf_task_row new = fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 12, 'b');
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    plan(store, &old, 1);
    HRF_AUTO_RELEASE(hrf_task_rows) first = tasks_of(store);
    assert_true(finish(store, &first.items[0], "result"));
    plan(store, &new, 1);
    HRF_AUTO_RELEASE(hrf_task_rows) changed = tasks_of(store);
    assert_int_equal(changed.n_items, 1);
    assert_true(changed.items[0].state == HRF_TASK_PENDING && !changed.items[0].cached &&
                changed.items[0].n_patches == 12 && changed.items[0].n_attempts == 0);
    plan(store, &old, 1);
    HRF_AUTO_RELEASE(hrf_task_rows) back = tasks_of(store);
    assert_int_equal(back.n_items, 1);
    assert_true(back.items[0].state == HRF_TASK_FINISHED && back.items[0].cached);
    plan(store, NULL, 0);
    HRF_AUTO_RELEASE(hrf_task_rows) none = tasks_of(store);
    assert_int_equal(none.n_items, 0);
}

static void a_second_result_of_a_key_changes_nothing(void **state)
{
    (void)state;
    struct hrf_task_row task = fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 10, 'a');
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    struct hrf_bytes record = { NULL, 0 };
    struct hrf_error err;
    struct hrf_record_identity expected = { .task = "" };
    memcpy(expected.task, task.key, sizeof expected.task);
    assert_int_equal(hrf_store_get_record(store, HRF_TASK_INFER, &expected, &record, &err),
                     HRF_E_AGAIN);
    assert_string_equal(err.text, "the store has no result for the key aaaaaaaaaaaa...");
    plan(store, &task, 1);
    HRF_AUTO_RELEASE(hrf_task_rows) rows = tasks_of(store);
    assert_true(finish(store, &rows.items[0], "first"));
    assert_false(finish(store, &rows.items[0], "second"));
    assert_int_equal(hrf_store_get_record(store, HRF_TASK_INFER, &expected, &record, NULL), HRF_OK);
    struct hrf_bytes first = fixture_record(&task, "first");
    assert_int_equal(record.n_bytes, first.n_bytes);
    assert_memory_equal(record.data, first.data, first.n_bytes);
    hrf_bytes_release(&first);
    hrf_bytes_release(&record);
}

/* Two results change places, as by a hand in the file. */
static void a_result_of_another_task_is_forgotten_and_told(void **state)
{
    (void)state;
    struct hrf_task_row wanted[2] = { fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 10, 'a'),
                                      fixture_task(HRF_TASK_INFER, 1, "fp32", 10, 5, 'b') };
    char name[] = "slide", path[] = "/s.tif";
    const struct hrf_slide_row slide = { .id = 1, .name = name, .path = path };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_RELEASE(hrf_event_rows) events = { NULL, 0 };
    struct hrf_scores *scores = NULL;
    struct hrf_error err = { .text = "" };
    plan(store, wanted, 2);
    HRF_AUTO_RELEASE(hrf_task_rows) first = tasks_of(store);
    for (int i = 0; i < 2; i++)
        assert_true(finish(store, &first.items[i], "result"));
    assert_null(hrf_store_take_dropped(store));
    assert_int_equal(
        hrf_store_exec(store,
                       "UPDATE record SET bytes=(SELECT bytes FROM record WHERE key LIKE 'b%') "
                       "WHERE key LIKE 'a%'",
                       NULL),
        HRF_OK);
    assert_int_equal(hrf_store_get_scores(store, 1, "fp32", &scores, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "it is the record of another task (bbbbbbbbbbbb..., expected "
                                     "aaaaaaaaaaaa...); 'hires-flow run' does the task again"));
    assert_int_equal(hrf_store_put_slide(store, &slide, NULL), HRF_OK);
    plan(store, wanted, 1);
    HRF_AUTO_RELEASE(hrf_task_rows) again = tasks_of(store);
    assert_true(again.n_items == 1 && again.items[0].state == HRF_TASK_PENDING);
    HRF_AUTO_FREE char *dropped = hrf_store_take_dropped(store);
    assert_non_null(dropped);
    assert_non_null(strstr(dropped, "slide: the infer task is done again: record aaaaaaaaaaaa"));
    assert_null(hrf_store_take_dropped(store));
    assert_int_equal(hrf_store_get_events(store, "slide", &events, NULL), HRF_OK);
    assert_int_equal(events.n_items, 1);
}

static void attempts_and_events_come_back_in_order(void **state)
{
    (void)state;
    char job[] = "tile-0001", where[] = "jobs/tile-0001.a1", why[] = "killed";
    int64_t ids[] = { 1, 2, 3 };
    struct hrf_attempt_row one = { .job_id = job,
                                   .attempt = 1,
                                   .directory = where,
                                   .kind = HRF_TASK_TILE,
                                   .state = HRF_ATTEMPT_INTENT,
                                   .submitted_ms = 1700000000000,
                                   .task_ids = ids,
                                   .n_task_ids = 3 };
    struct hrf_attempt_row two = one;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_RELEASE(hrf_attempt_rows) open = { NULL, 0 }, all = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_event_rows) events = { NULL, 0 }, some = { NULL, 0 };
    two.attempt = 2;
    assert_int_equal(hrf_store_put_attempt(store, &one, NULL), HRF_OK);
    assert_int_equal(hrf_store_put_attempt(store, &two, NULL), HRF_OK);
    assert_true(one.id > 0 && two.id > one.id);
    one.state = HRF_ATTEMPT_ENDED;
    one.pid = 77;
    one.start_time = 1ULL << 62;
    one.reason = why;
    one.usage = (struct hrf_job_usage){ .host = "node7",
                                        .started_ms = 1700000001000,
                                        .finished_ms = 1700000009000,
                                        .cpu_ms = 12000,
                                        .peak_bytes = INT64_C(1) << 40,
                                        .wait_ms = 300,
                                        .compute_ms = 7000 };
    assert_int_equal(hrf_store_put_attempt(store, &one, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_attempts(store, true, &open, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_attempts(store, false, &all, NULL), HRF_OK);
    assert_true(open.n_items == 1 && open.items[0].attempt == 2 && all.n_items == 2);
    assert_true(all.items[0].pid == 77 && all.items[0].start_time == 1ULL << 62 &&
                all.items[0].submitted_ms == 1700000000000);
    assert_int_equal(all.items[0].n_task_ids, 3);
    assert_memory_equal(all.items[0].task_ids, ids, sizeof ids);
    assert_string_equal(all.items[0].reason, "killed");
    assert_string_equal(all.items[0].usage.host, "node7");
    assert_true(all.items[0].usage.started_ms == 1700000001000 &&
                all.items[0].usage.finished_ms == 1700000009000);
    assert_true(all.items[0].usage.cpu_ms == 12000 && all.items[0].usage.wait_ms == 300 &&
                all.items[0].usage.compute_ms == 7000);
    assert_true(all.items[0].usage.peak_bytes == INT64_C(1) << 40);
    assert_true(all.items[1].usage.host[0] == '\0' && all.items[1].usage.cpu_ms == 0);
    assert_null(all.items[1].reason);
    assert_int_equal(hrf_store_add_event(store, "a", "first", NULL), HRF_OK);
    assert_int_equal(hrf_store_add_event(store, "b\n", "second", NULL), HRF_OK);
    assert_int_equal(hrf_store_add_event(store, "a", "third", NULL), HRF_OK);
    assert_int_equal(hrf_store_get_events(store, NULL, &events, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_events(store, "a", &some, NULL), HRF_OK);
    assert_true(events.n_items == 3 && some.n_items == 2);
    assert_string_equal(events.items[1].subject, "b\n");
    assert_string_equal(some.items[1].text, "third");
    assert_true(events.items[0].at_ms > 1700000000000);
}

static void hold_the_lease(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    if (hrf_store_take_lease(store, NULL) != HRF_OK)
        _exit(1);
}

static void a_living_owner_is_named_and_a_dead_one_is_followed(void **state)
{
    (void)state;
    pid_t owner = fixture_spawn(hold_the_lease);
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_FREE char *expected = NULL;
    char host[128];
    int64_t pid = 0;
    struct hrf_error err = { .status = HRF_OK };
    hrf_process_host_name(host, sizeof host);
    expected = hrf_format("driven by process %lld on %s (last sign", (long long)owner, host);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_E_AGAIN);
    assert_non_null(strstr(err.text, expected));
    assert_int_equal(hrf_store_lease_owner(store, &pid, NULL), HRF_OK);
    assert_int_equal(pid, owner);
    fixture_kill(owner);
    assert_int_equal(hrf_store_lease_owner(store, &pid, NULL), HRF_OK);
    assert_int_equal(pid, 0);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_OK);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_OK); /* ours already */
    assert_int_equal(hrf_store_lease_owner(store, &pid, NULL), HRF_OK);
    assert_int_equal(pid, getpid());
    assert_int_equal(hrf_store_release_lease(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_lease_owner(store, &pid, NULL), HRF_OK);
    assert_int_equal(pid, 0);
}

/* An owner of another host with our own process number, whose last beat is `age_ms` old. */
static void other_host(struct hrf_store *store, int64_t age_ms)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "INSERT OR REPLACE INTO lease(id, host, boot, pid, start_time, beat_ms, pid_space) "
             "VALUES(1, 'elsewhere', 'b', %ld, %llu, %lld, 'pid:[1]')",
             (long)getpid(), (unsigned long long)hrf_process_start_time(getpid()),
             (long long)(hrf_clock_wall_ms() - age_ms));
    assert_int_equal(hrf_store_exec(store, sql, NULL), HRF_OK);
}

/* Until it is killed, so that some of its beats come while it is watched. */
static void beat_elsewhere(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    while (hrf_store_exec(store, "UPDATE lease SET beat_ms = beat_ms + 1", NULL) == HRF_OK)
        hrf_clock_sleep_ms(20);
    _exit(1);
}

static void an_owner_of_another_host_is_watched_before_it_is_followed(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    struct hrf_error err = { .status = HRF_OK };
    int64_t pid = -1;
    other_host(store, 0);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_E_AGAIN);
    assert_non_null(strstr(err.text, " on elsewhere (last sign of life "));
    assert_int_equal(hrf_store_lease_owner(store, &pid, NULL), HRF_OK);
    assert_int_equal(pid, 0); /* not a process of this host */
    setenv("HRF_LEASE_WATCH_MS", "60000", 1);
    other_host(store, 100000); /* its clock may be wrong: it does beat */
    pid_t child = fork();
    if (child == 0)
        beat_elsewhere();
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_E_AGAIN);
    fixture_kill(child);
    setenv("HRF_LEASE_WATCH_MS", "1", 1);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_OK);
    unsetenv("HRF_LEASE_WATCH_MS");
}

static void a_writer_that_was_taken_over_writes_no_more(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_FREE char *value = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_store_take_lease(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_begin(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_beat_lease(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_commit(store, NULL), HRF_OK);
    other_host(store, 0);
    assert_int_equal(hrf_store_beat_lease(store, &err), HRF_E_AGAIN);
    assert_int_equal(hrf_store_begin(store, &err), HRF_E_AGAIN);
    assert_non_null(strstr(err.text, "another process drives this run by now, on elsewhere"));
    assert_int_equal(hrf_store_release_lease(store, NULL), HRF_OK); /* not ours: it stays */
    HRF_AUTO(hrf_store) second = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_take_lease(second, &err), HRF_E_AGAIN);
}

static void tick_and_die(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    if (hrf_store_begin(store, NULL) != HRF_OK ||
        hrf_store_set_fact(store, "tick", "2", NULL) != HRF_OK ||
        hrf_store_add_event(store, "run", "two", NULL) != HRF_OK ||
        hrf_store_commit(store, NULL) != HRF_OK)
        _exit(1);
}

/* How many traces of the tick stand: 0 or 2. In a child: crash points read their environment once
 * a process, and the children of one that passed a point inherit what it read. */
static int count_traces(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
        char *tick = NULL;
        struct hrf_event_rows events = { NULL, 0 };
        if (hrf_store_get_fact(store, "tick", &tick, NULL) != HRF_OK ||
            hrf_store_get_events(store, NULL, &events, NULL) != HRF_OK)
            _exit(99);
        _exit((tick != NULL) + (int)events.n_items);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_tick_is_whole_or_not_at_all_when_the_process_dies(void **state)
{
    (void)state;
    /* the first commit makes the tables, the second the tick's */
    static const struct {
        const char *point;
        int n_traces;
    } cases[] = { { "store.create.before", 0 },   { "store.commit.before", 0 },
                  { "store.commit.after", 0 },    { "store.create.after", 0 },
                  { "store.commit.before:2", 0 }, { "store.commit.after:2", 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(fixture_remove(NULL), 0);
        assert_int_equal(fixture_make(NULL), 0);
        setenv("HRF_CRASH_AT", cases[i].point, 1);
        pid_t pid = fixture_spawn(tick_and_die);
        unsetenv("HRF_CRASH_AT");
        int status = 0;
        kill(pid, SIGTERM); /* one that passed the point alive would wait for ever */
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(count_traces(), cases[i].n_traces);
    }
}

static void a_store_that_was_deleted_takes_nothing_more(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_take_lease(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_check_place(store, NULL), HRF_OK);
    HRF_AUTO_FREE char *moved = hrf_format("%s.away", fixture_file("run.db"));
    assert_int_equal(rename(fixture_file("run.db"), moved), 0);
    assert_int_equal(hrf_store_begin(store, &err), HRF_E_EXTERNAL);
    assert_non_null(strstr(err.text, "was deleted or moved while the run went on"));
    HRF_AUTO(hrf_store) other = fixture_open(HRF_STORE_WRITE); /* another file of that name */
    assert_int_equal(hrf_store_check_place(store, NULL), HRF_E_EXTERNAL);
    assert_int_equal(hrf_store_check_place(other, NULL), HRF_OK);
}

/* "-": none. */
static void stands(struct hrf_store *store, const char *precision, enum hrf_slide_state wanted,
                   const char *wanted_reason)
{
    enum hrf_slide_state state;
    HRF_AUTO_FREE char *reason = NULL;
    assert_int_equal(hrf_store_slide_outcome(store, 1, precision, &state, &reason, NULL), HRF_OK);
    assert_int_equal(state, wanted);
    assert_string_equal(reason != NULL ? reason : "-", wanted_reason);
}

static void set_all(struct hrf_store *store, const struct hrf_task_rows *tasks,
                    const enum hrf_task_state states[4], const char *const reasons[4])
{
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            hrf_store_set_task(store, tasks->items[i].id, states[i], 1, reasons[i], NULL), HRF_OK);
}

/* In the order of the store: bf16, fp16, fp16's second shard, fp32. */
static void a_slide_stands_where_its_tasks_leave_it(void **state)
{
    (void)state;
    const enum hrf_task_state OPEN = HRF_TASK_PENDING, DONE = HRF_TASK_FINISHED,
                              BAD = HRF_TASK_BROKEN;
    struct hrf_task_row wanted[4] = { fixture_task(HRF_TASK_INFER, 1, "bf16", 0, 15, 'a'),
                                      fixture_task(HRF_TASK_INFER, 1, "fp16", 0, 10, 'b'),
                                      fixture_task(HRF_TASK_INFER, 1, "fp16", 10, 5, 'c'),
                                      fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 15, 'd') };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    stands(store, NULL, HRF_SLIDE_DONE, "-"); /* nothing is left to do */
    stands(store, "fp32", HRF_SLIDE_PENDING, "-");
    plan(store, wanted, 4);
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = tasks_of(store);
    const char *const none[4] = { NULL };
    set_all(store, &tasks, (enum hrf_task_state[4]){ DONE, DONE, OPEN, DONE }, none);
    stands(store, NULL, HRF_SLIDE_PENDING, "-");
    stands(store, "fp16", HRF_SLIDE_PENDING, "-");
    stands(store, "fp32", HRF_SLIDE_DONE, "-");
    set_all(store, &tasks, (enum hrf_task_state[4]){ DONE, BAD, BAD, DONE },
            (const char *const[4]){ NULL, "NaN", "inf", NULL });
    stands(store, NULL, HRF_SLIDE_FAILED, "fp16: NaN");
    stands(store, "fp16", HRF_SLIDE_FAILED, "NaN");
    stands(store, "bf16", HRF_SLIDE_DONE, "-");
    set_all(store, &tasks, (enum hrf_task_state[4]){ BAD, BAD, DONE, DONE },
            (const char *const[4]){ "NaN", "NaN", NULL, NULL });
    stands(store, NULL, HRF_SLIDE_FAILED, "bf16, fp16: NaN");
    set_all(store, &tasks, (enum hrf_task_state[4]){ BAD, DONE, BAD, BAD },
            (const char *const[4]){ "cut", "cut", "cut", "cut" });
    stands(store, NULL, HRF_SLIDE_FAILED, "cut"); /* it is of no one precision */
    set_all(store, &tasks, (enum hrf_task_state[4]){ BAD, BAD, DONE, BAD },
            (const char *const[4]){ "cut", "NaN", NULL, NULL });
    stands(store, NULL, HRF_SLIDE_FAILED, "bf16: cut; fp16: NaN; fp32: no reason given");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_slide_are_found_among_all),
        /* first: see count_traces() */
        TEST(a_tick_is_whole_or_not_at_all_when_the_process_dies),
        TEST(a_plan_made_again_keeps_what_is_known),
        TEST(a_changed_key_begins_anew_and_an_old_one_is_found_again),
        TEST(a_second_result_of_a_key_changes_nothing),
        TEST(a_result_of_another_task_is_forgotten_and_told),
        TEST(attempts_and_events_come_back_in_order),
        TEST(a_living_owner_is_named_and_a_dead_one_is_followed),
        TEST(an_owner_of_another_host_is_watched_before_it_is_followed),
        TEST(a_store_that_was_deleted_takes_nothing_more),
        TEST(a_slide_stands_where_its_tasks_leave_it),
        TEST(a_writer_that_was_taken_over_writes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
