/* simulate.c - plays the programs of ranks by events in the order of time (simulate.h). */
#include "engine/plan/simulate.h"

#include "base/array.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const kind_names[] = { "compute", "copy", "send", "receive", "wait" };
_Static_assert(sizeof kind_names / sizeof kind_names[0] == HRF_SIM_N_KINDS,
               "a name for every kind");

const char *hrf_sim_kind_name(enum hrf_sim_kind kind)
{
    return kind_names[kind];
}

void hrf_sim_add(struct hrf_sim_program *program, const struct hrf_sim_step *step)
{
    HRF_RESERVE(program->steps, program->capacity, (size_t)program->n_steps + 1);
    program->steps[program->n_steps++] = *step;
}

struct message {
    int64_t tag, n_bytes;
    double arrival, receive; /* s: the time at which it arrives, and how long receiving it takes */
};

/* The messages from one rank to another that have not been taken: [first, n), in the order in which
 * they were sent, in which they are nearly always taken. */
struct mailbox {
    int64_t key; /* 0: no mailbox; else 1 + the pair of ranks, see find_box() */
    struct message *messages;
    size_t first, n, capacity;
};

struct player {
    double now;
    int32_t at; /* its next step */
    bool is_blocked;
};

struct game {
    const struct hrf_sim_program *programs;
    const struct hrf_machine *machine;
    struct hrf_simulation *simulation;
    struct player *players;
    struct mailbox *boxes; /* [n_places], a power of two: a hash table of pairs of ranks */
    size_t n_places, n_boxes;
    int32_t *ready; /* [n_ready] ranks that can act: a heap, whose first is the earliest */
    int32_t n_ready;
    double *rank_ports, *node_ports; /* the time at which each is free */
    int32_t n_ranks;
};

/* ---- mailboxes ---- */

static struct mailbox *place_of(struct mailbox *boxes, size_t n_places, int64_t key)
{
    size_t i = (size_t)((uint64_t)key * 0x9e3779b97f4a7c15u >> 32) & (n_places - 1);
    while (boxes[i].key != 0 && boxes[i].key != key)
        i = (i + 1) & (n_places - 1);
    return &boxes[i];
}

static void grow(struct game *g)
{
    const size_t n_places = g->n_places > 0 ? 2 * g->n_places : 64;
    struct mailbox *boxes = hrf_calloc(n_places, sizeof *boxes);
    for (size_t i = 0; i < g->n_places; i++)
        if (g->boxes[i].key != 0)
            *place_of(boxes, n_places, g->boxes[i].key) = g->boxes[i];
    hrf_free(g->boxes);
    g->boxes = boxes;
    g->n_places = n_places;
}

static struct mailbox *find_box(struct game *g, int32_t from, int32_t to)
{
    const int64_t key = 1 + (int64_t)to * g->n_ranks + from;
    if (2 * g->n_boxes >= g->n_places)
        grow(g);
    struct mailbox *box = place_of(g->boxes, g->n_places, key);
    g->n_boxes += box->key == 0;
    box->key = key;
    return box;
}

/* ---- ranks that can act ---- */

/* Of ranks whose next actions are at the same time the first one acts. */
static bool is_before(const struct game *g, int32_t a, int32_t b)
{
    const double x = g->players[a].now, y = g->players[b].now;
    return x < y || (!(y < x) && a < b);
}

static void add_ready(struct game *g, int32_t rank)
{
    int32_t i = g->n_ready++;
    for (; i > 0 && is_before(g, rank, g->ready[(i - 1) / 2]); i = (i - 1) / 2)
        g->ready[i] = g->ready[(i - 1) / 2];
    g->ready[i] = rank;
}

/* Takes the rank whose next action is the earliest. */
static int32_t take_ready(struct game *g)
{
    const int32_t rank = g->ready[0], last = g->ready[--g->n_ready];
    int32_t i = 0;
    for (int32_t child; (child = 2 * i + 1) < g->n_ready; i = child) {
        if (child + 1 < g->n_ready && is_before(g, g->ready[child + 1], g->ready[child]))
            child++;
        if (is_before(g, last, g->ready[child]))
            break;
        g->ready[i] = g->ready[child];
    }
    g->ready[i] = last;
    return rank;
}

/* ---- steps ---- */

static void spend(struct game *g, int32_t rank, const struct hrf_sim_step *step,
                  enum hrf_sim_kind kind, double until)
{
    struct hrf_sim_rank *r = &g->simulation->ranks[rank];
    struct player *player = &g->players[rank];
    assert(rank >= 0 && rank < g->n_ranks);
    const struct hrf_sim_span span = {
        .kind = kind, .label = step->label, .peer = step->peer, .start = player->now, .end = until
    };
    if (!(until > player->now))
        return;
    HRF_RESERVE(r->spans, r->capacity, (size_t)r->n_spans + 1);
    r->spans[r->n_spans++] = span;
    r->seconds[kind] += until - player->now;
    player->now = until;
}

/* The first port to become free, of those that the message can take. */
static double *find_port(struct game *g, int32_t from, enum hrf_placement placement)
{
    const int32_t n = g->machine->ports_per_node;
    if (placement != HRF_PLACEMENT_NETWORK)
        return &g->rank_ports[from];
    double *ports = &g->node_ports[(size_t)(from / g->machine->ranks_per_node) * (size_t)n];
    double *first = ports;
    for (int32_t i = 1; i < n; i++)
        first = ports[i] < *first ? &ports[i] : first;
    return first;
}

static enum hrf_status play_send(struct game *g, int32_t rank, const struct hrf_sim_step *step,
                                 struct hrf_error *err)
{
    const enum hrf_placement placement = hrf_machine_placement(g->machine, rank, step->peer);
    const double n_bytes = (double)step->n_bytes;
    const struct hrf_link *link = hrf_machine_link(g->machine, placement, n_bytes);
    struct mailbox *box = find_box(g, rank, step->peer);
    if (link == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "machine '%s' has no link between ranks %d and %d (placement '%s'): "
                             "give it one in the machine file, or measure (tune-comm)",
                             g->machine->name, rank, step->peer, hrf_placement_name(placement));
    const struct hrf_link_point cost = hrf_link_at(link, n_bytes);
    const double latency = fmin(hrf_link_at(link, 0).transit, cost.transit);
    spend(g, rank, step, HRF_SIM_SEND, g->players[rank].now + cost.send);
    double *port = find_port(g, rank, placement);
    const double start = fmax(*port, g->players[rank].now);
    *port = start + cost.transit - latency;
    const struct message message = { .tag = step->tag,
                                     .n_bytes = step->n_bytes,
                                     .arrival = *port + latency,
                                     .receive = cost.receive };
    HRF_RESERVE(box->messages, box->capacity, box->n + 1);
    box->messages[box->n++] = message;
    g->simulation->ranks[rank].sent_bytes += step->n_bytes;
    g->simulation->ranks[rank].n_sent++;
    struct player *peer = &g->players[step->peer];
    const struct hrf_sim_step *awaited = &g->programs[step->peer].steps[peer->at];
    if (peer->is_blocked && awaited->peer == rank && awaited->tag == step->tag) {
        peer->is_blocked = false;
        add_ready(g, step->peer);
    }
    return HRF_OK;
}

/* Takes a message; false if it has not been sent yet. */
static bool take(struct mailbox *box, int64_t tag, struct message *out)
{
    for (size_t i = box->first; i < box->n; i++) {
        if (box->messages[i].tag != tag)
            continue;
        *out = box->messages[i];
        memmove(box->messages + box->first + 1, box->messages + box->first,
                (i - box->first) * sizeof box->messages[0]);
        box->first++;
        if (box->first == box->n)
            box->first = box->n = 0;
        return true;
    }
    return false;
}

static enum hrf_status play_receive(struct game *g, int32_t rank, const struct hrf_sim_step *step,
                                    struct hrf_error *err)
{
    struct message message;
    if (!take(find_box(g, step->peer, rank), step->tag, &message)) {
        g->players[rank].is_blocked = true;
        return HRF_OK;
    }
    if (step->n_bytes != HRF_SIM_ANY_SIZE && step->n_bytes != message.n_bytes)
        return hrf_error_set(
            err, HRF_E_BUG, "rank %d takes %lld bytes where rank %d sends %lld (tag %lld)", rank,
            (long long)step->n_bytes, step->peer, (long long)message.n_bytes, (long long)step->tag);
    spend(g, rank, step, HRF_SIM_WAIT, message.arrival);
    spend(g, rank, step, HRF_SIM_RECEIVE, g->players[rank].now + message.receive);
    return HRF_OK;
}

static enum hrf_status play_step(struct game *g, int32_t rank, struct hrf_error *err)
{
    struct player *player = &g->players[rank];
    const struct hrf_sim_step *step = &g->programs[rank].steps[player->at];
    if (step->kind == HRF_SIM_SEND)
        HRF_TRY(play_send(g, rank, step, err));
    else if (step->kind == HRF_SIM_RECEIVE)
        HRF_TRY(play_receive(g, rank, step, err));
    else
        spend(g, rank, step, step->kind, player->now + step->seconds);
    player->at += !player->is_blocked;
    return HRF_OK;
}

static enum hrf_status check_end(const struct game *g, struct hrf_error *err)
{
    for (int32_t r = 0; r < g->n_ranks; r++) {
        const struct player *p = &g->players[r];
        if (p->at < g->programs[r].n_steps)
            return hrf_error_set(err, HRF_E_BUG,
                                 "rank %d waits at step %d for a message of rank %d (tag %lld) "
                                 "that nobody sends",
                                 r, p->at, g->programs[r].steps[p->at].peer,
                                 (long long)g->programs[r].steps[p->at].tag);
    }
    const struct mailbox *left = NULL;
    for (size_t i = 0; i < g->n_places; i++)
        if (g->boxes[i].n > 0 && (left == NULL || g->boxes[i].key < left->key))
            left = &g->boxes[i];
    if (left == NULL)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_BUG, "rank %lld never takes a message of rank %lld (tag %lld)",
                         (long long)((left->key - 1) / g->n_ranks),
                         (long long)((left->key - 1) % g->n_ranks),
                         (long long)left->messages[left->first].tag);
}

static enum hrf_status play(struct game *g, struct hrf_error *err)
{
    for (int32_t r = 0; r < g->n_ranks; r++)
        if (g->programs[r].n_steps > 0)
            add_ready(g, r);
    while (g->n_ready > 0) {
        const int32_t rank = take_ready(g);
        HRF_TRY(play_step(g, rank, err));
        if (!g->players[rank].is_blocked && g->players[rank].at < g->programs[rank].n_steps)
            add_ready(g, rank);
    }
    HRF_TRY(check_end(g, err));
    for (int32_t r = 0; r < g->n_ranks; r++) {
        g->simulation->ranks[r].end = g->players[r].now;
        g->simulation->seconds = fmax(g->simulation->seconds, g->players[r].now);
    }
    return HRF_OK;
}

enum hrf_status hrf_simulate(const struct hrf_sim_program *programs, int32_t n_ranks,
                             const struct hrf_machine *machine, struct hrf_simulation **out,
                             struct hrf_error *err)
{
    const size_t n = (size_t)n_ranks;
    const size_t n_nodes = n / (size_t)machine->ranks_per_node + 1;
    HRF_AUTO(hrf_simulation) simulation = hrf_calloc(1, sizeof *simulation);
    HRF_AUTO_FREE struct player *players = hrf_calloc(n, sizeof *players);
    HRF_AUTO_FREE int32_t *ready = hrf_alloc_array(n + 1, sizeof *ready);
    HRF_AUTO_FREE double *ports = hrf_calloc(n, sizeof *ports);
    HRF_AUTO_FREE double *node_ports = hrf_calloc(n_nodes * (size_t)machine->ports_per_node,
                                                  sizeof *node_ports);
    simulation->ranks = hrf_calloc(n, sizeof *simulation->ranks);
    simulation->n_ranks = n_ranks;
    struct game game = { .programs = programs,
                         .machine = machine,
                         .simulation = simulation,
                         .players = players,
                         .ready = ready,
                         .rank_ports = ports,
                         .node_ports = node_ports,
                         .n_ranks = n_ranks };
    const enum hrf_status status = play(&game, err);
    for (size_t i = 0; i < game.n_places; i++)
        hrf_free(game.boxes[i].messages);
    hrf_free(game.boxes);
    if (status != HRF_OK)
        return status;
    HRF_MOVE(*out, simulation);
    return HRF_OK;
}

void hrf_simulation_destroy(struct hrf_simulation *simulation)
{
    if (simulation == NULL)
        return;
    for (int32_t r = 0; simulation->ranks != NULL && r < simulation->n_ranks; r++)
        hrf_free(simulation->ranks[r].spans);
    hrf_free(simulation->ranks);
    hrf_free(simulation);
}
