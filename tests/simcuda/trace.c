/* SIMCUDA_TRACE: one line for each item that finished, as the device did it: kind, card, stream, start, end, name, bytes.
 * And one for each time that the host asked to wait for the device, of kind `sync`, on a stream called `host`; these are
 * counted in the books as well.
 * Times are ns of CLOCK_MONOTONIC. Lines are written when the engine's place for the item is needed again, and at exit. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *out;
static struct line { const char *name; const void *stream; int64_t bytes; } lines[DEVICES][STREAMS][RING];
static int64_t tails[DEVICES][STREAMS], firsts[DEVICES][STREAMS];

void trace_open(const char *path) { /* %p: one file for each process */
    char name[4096], pid[16];
    const char *at = strstr(path, "%p");
    snprintf(pid, sizeof pid, "%d", getpid());
    snprintf(name, sizeof name, "%.*s%s%s", at ? (int)(at - path) : (int)strlen(path), path, at ? pid : "", at ? at + 2 : "");
    out = fopen(name, "a");
}

static void write_line(int number, int slot, int64_t which) {
    static const char *const kinds[] = {"mark", "kernel", "h2d", "d2h", "wait", "arrive", "collective"};
    struct item item;
    if (sim_fetch(number, slot, which, &item) || item.kind == MARK || item.kind == ARRIVE) return;
    struct line *l = &lines[number][slot][which % RING];
    fprintf(out, "%s %d %p %" PRId64 " %" PRId64 " %s %" PRId64 "\n", kinds[item.kind], number, l->stream, item.start,
            item.done, l->name ? l->name : "-", l->bytes);
}

/* Before an item is queued: write what the engine may forget then. */
void trace_room(int number, int slot) {
    uint64_t done = 0;
    if (!out || tails[number][slot] - firsts[number][slot] < RING / 2) return;
    sim_tail(number, slot, &done);
    while (firsts[number][slot] < tails[number][slot] && (uint64_t)firsts[number][slot] < done)
        write_line(number, slot, firsts[number][slot]++);
}

void trace_item(const struct queue *q, int64_t which, const struct item *item, const char *name) {
    if (!out) return;
    int number = card_of(q->device);
    if (!tails[number][q->slot]) firsts[number][q->slot] = which;
    lines[number][q->slot][which % RING] = (struct line){name, q, item->bytes};
    tails[number][q->slot] = which + 1;
}

void trace_sync(const char *name) {
    int64_t at = now();
    sim_waited(card_of(current));
    if (out) fprintf(out, "sync %d host %" PRId64 " %" PRId64 " %s 0\n", card_of(current), at, at, name);
}

void trace_finish(void) {
    if (!out) return;
    for (int number = 0; number < DEVICES; number++)
        for (int slot = 0; slot < STREAMS; slot++)
            for (int64_t which = firsts[number][slot]; which < tails[number][slot]; which++) write_line(number, slot, which);
    fclose(out);
    out = NULL;
}
