/* Data that comes later: what a collective gives out, once every rank has given its part, and copies of that.
 *
 * In the order of the calls; what does not overlap with something that has yet to come happens at once.
 */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 5000000000LL /* ns */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct effect *first, **last = &first;

static int overlap(const struct effect *until, const char *p, size_t size) {
    for (const struct effect *e = first; e != until; e = e->next)
        if (p < e->to + e->size && e->to < p + size) return 1;
    return 0;
}

void effect_add(struct effect given) {
    struct effect *e = malloc(sizeof *e);
    *e = given, e->next = NULL;
    pthread_mutex_lock(&lock);
    *last = e, last = &e->next;
    pthread_mutex_unlock(&lock);
}

int effects_pending(const void *p, size_t size) {
    if (!__atomic_load_n(&first, __ATOMIC_ACQUIRE)) return 0;
    pthread_mutex_lock(&lock);
    int found = overlap(NULL, p, size);
    pthread_mutex_unlock(&lock);
    return found;
}

static int free_to_happen(const struct effect *e) { /* under the lock: no earlier one writes or reads where it writes or reads */
    if (overlap(e, e->to, e->size) || (e->from && overlap(e, e->from, e->size))) return 0;
    for (const struct effect *before = first; before != e; before = before->next)
        if (before->from && !before->owned && e->to < before->from + before->size && before->from < e->to + e->size) return 0;
    return 1;
}

static int copy_now(struct effect *e) {
    if (!free_to_happen(e)) return 0;
    memmove(e->to, e->from, e->size);
    if (e->owned || is_known(e->from, e->size)) note_written(e->to, e->size);
    if (e->owned) free((void *)e->from);
    return 1;
}

void effects_copy(void *to, const void *from, size_t size) {
    if (effects_pending(from, size) || effects_pending(to, size))
        effect_add((struct effect){.happen = copy_now, .to = to, .from = from, .size = size});
    else memmove(to, from, size);
}

/* The same of data that the caller will not keep. The memory may have been another tensor's, whose data has yet to come. */
void effects_write(void *to, const void *data, size_t size) {
    if (!effects_pending(to, size)) {
        memcpy(to, data, size);
        return;
    }
    char *kept = malloc(size);
    memcpy(kept, data, size);
    effect_add((struct effect){.happen = copy_now, .to = to, .from = kept, .size = size, .owned = 1});
}

void effects_settle(void) {
    if (!__atomic_load_n(&first, __ATOMIC_ACQUIRE)) return;
    pthread_mutex_lock(&lock);
    for (struct effect **at = &first, *e; (e = *at);) {
        if (!e->happen(e)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        if (last == &e->next) last = at;
        free(e);
    }
    pthread_mutex_unlock(&lock);
}

/* What is computed on the host needs its input now: another rank's host is about to give it, unless it has died. */
void effects_wait(const void *p, size_t size) {
    int64_t end = effects_pending(p, size) ? now() + PATIENCE : 0;
    while (now() < end && effects_pending(p, size)) {
        effects_settle();
        sim_sleep_until(now() + 20000);
    }
}
