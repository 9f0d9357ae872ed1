/* What the ranks of a communicator give to small operations: a sparse file beside the state, that each of them maps.
 *
 * A place is used again when everybody has taken what was in it.
 */
#define _GNU_SOURCE
#include "simcuda.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 64, LETTERS = 8, RANKS = 64 };

struct box { uint64_t number, size; char data[SMALL]; };

struct mailbox {
    int ranks;
    size_t bytes;
    struct shared {
        uint64_t taken[RANKS];              /* operations that a rank is done with */
        uint64_t read[RANKS][RANKS];        /* letters from one rank that the other has */
        struct box boxes[];                 /* PLACES x ranks, then LETTERS x ranks x ranks */
    } *shared;
};

struct mailbox *mailbox_open(uint64_t id, int ranks) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%016" PRIx64, getenv("SIMGPU_STATE"), id);
    size_t boxes = (size_t)PLACES * ranks + (size_t)LETTERS * ranks * ranks;
    size_t bytes = sizeof(struct shared) + boxes * sizeof(struct box);
    int fd = ranks <= RANKS ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) return NULL;
    void *p = ftruncate(fd, bytes) ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return NULL;
    struct mailbox *m = malloc(sizeof *m);
    *m = (struct mailbox){ranks, bytes, p};
    return m;
}

void mailbox_close(struct mailbox *m) {
    munmap(m->shared, m->bytes);
    free(m);
}

static void fill(struct box *b, uint64_t number, const void *data, size_t size) { /* no data: nothing that is known */
    if (data) memcpy(b->data, data, size);
    b->size = data ? size : 0;
    __atomic_store_n(&b->number, number, __ATOMIC_RELEASE);
}

static struct box *box_of(const struct mailbox *m, uint64_t number, int rank) {
    return &m->shared->boxes[number % PLACES * m->ranks + rank];
}

int mailbox_room(const struct mailbox *m, uint64_t number) {
    for (int i = 0; i < m->ranks; i++)
        if (__atomic_load_n(&m->shared->taken[i], __ATOMIC_ACQUIRE) + PLACES < number) return 0;
    return 1;
}

void mailbox_give(struct mailbox *m, uint64_t number, int rank, const void *data, size_t size) {
    fill(box_of(m, number, rank), number, data, size);
}

int mailbox_full(const struct mailbox *m, uint64_t number) {
    for (int i = 0; i < m->ranks; i++)
        if (__atomic_load_n(&box_of(m, number, i)->number, __ATOMIC_ACQUIRE) != number) return 0;
    return 1;
}

const void *mailbox_of(const struct mailbox *m, uint64_t number, int rank, size_t *size) {
    struct box *b = box_of(m, number, rank);
    return *size = b->size, b->data;
}

void mailbox_took(struct mailbox *m, uint64_t number, int rank) {
    __atomic_store_n(&m->shared->taken[rank], number, __ATOMIC_RELEASE);
}

static struct box *letter(const struct mailbox *m, int from, int to, uint64_t number) {
    size_t pair = (size_t)from * m->ranks + to;
    return &m->shared->boxes[(size_t)PLACES * m->ranks + pair * LETTERS + number % LETTERS];
}

int letter_room(const struct mailbox *m, int from, int to, uint64_t number) {
    return __atomic_load_n(&m->shared->read[from][to], __ATOMIC_ACQUIRE) + LETTERS >= number;
}

void letter_send(struct mailbox *m, int from, int to, uint64_t number, const void *data, size_t size) {
    fill(letter(m, from, to, number), number, data, size);
}

const void *letter_of(struct mailbox *m, int from, int to, uint64_t number, size_t *size) { /* NULL: it has not come */
    struct box *b = letter(m, from, to, number);
    if (__atomic_load_n(&b->number, __ATOMIC_ACQUIRE) != number) return NULL;
    return *size = b->size, b->data;
}

void letter_took(struct mailbox *m, int from, int to, uint64_t number) {
    __atomic_store_n(&m->shared->read[from][to], number, __ATOMIC_RELEASE);
}
