/* Communicators of the simulated cards: who belongs together. What they do is items on streams (engine.c). */
#include "sim.h"
#include <string.h>

static struct comm *find(struct state *s, uint64_t id) {
    for (int i = 0; i < COMMS; i++)
        if (s->comms[i].id == id) return &s->comms[i];
    return NULL;
}

/* Join the communicator `id`, which all its `ranks` do; its number in the table, or negative. */
int sim_comm_join(uint64_t id, int ranks) {
    if (!sim_lock(0)) return SIM_BAD;
    struct state *s = sim_state();
    struct comm *c = find(s, id);
    if (!c && (c = find(s, 0))) {
        memset(c, 0, sizeof *c);
        c->id = id, c->ranks = ranks;
    }
    if (c) c->joined++;
    sim_unlock(0);
    return c ? (int)(c - s->comms) : SIM_BAD;
}

int sim_comm_ready(int comm) {
    struct comm *c = &sim_state()->comms[comm];
    return __atomic_load_n(&c->joined, __ATOMIC_ACQUIRE) >= c->ranks;
}

void sim_comm_abort(int comm, int rank) { /* the rank goes on; those that wait for it do not */
    if (!sim_lock(0)) return;
    sim_state()->comms[comm].aborted |= 1ull << rank;
    sim_settle(sim_state());
    sim_unlock(0);
}

void sim_comm_leave(int comm) { /* the last one takes it out of the table */
    if (!sim_lock(0)) return;
    struct comm *c = &sim_state()->comms[comm];
    if (++c->left >= c->ranks) c->id = 0;
    sim_unlock(0);
}
