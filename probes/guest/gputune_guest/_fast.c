/* What the guest does once a batch, without an interpreter's frames: the state that its hooks share, the numbered
 * writing of records, the wrappers around `__next__` and backward and what comes after an optimizer's step.
 *
 * Optional: `here.py`, `loader.py` and `step.py` do the same in Python, record for record, where this is not there
 * (docs/guest.md). Everything rare is left to them and called from here. In the caches that a training step has used for
 * itself, a hook costs what it touches; so all of its state lies in one object.
 *
 * Limited API of CPython 3.8: one file serves every CPython with a GIL from 3.8 on, because the training's own Python
 * loads it. The GIL is what orders the records: nothing between taking a number and having written it gives it up.
 *
 * The laws: an error of ours is handed to `failed` and forgotten, an error of theirs passes unchanged; only what is no
 * Exception (KeyboardInterrupt) passes from wherever it strikes, as it would through Python code of ours.
 */

#define _GNU_SOURCE /* RTLD_DEFAULT */
#define Py_LIMITED_API 0x03080000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <pthread.h>
#include <pythread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define INTERFACE 7 /* here.py asks for this number: an older build beside newer Python is not used */

#ifndef METH_FASTCALL /* the same since 3.7; the limited API has named it since 3.10 */
#define METH_FASTCALL 0x0080
#endif
#ifndef PyBUF_WRITE
#define PyBUF_WRITE 0x200
#endif
#ifndef MAP_POPULATE
#define MAP_POPULATE 0
#endif

enum { BATCH = 1, FETCHED = 2, STEP = 4, BACKWARD = 7, PICK = 14, DELAY = 21 }; /* words.py */
enum { END = 1, FAILED = 2, APART = 8, STANDS = 1, SLOWS = 2 }; /* words.py */
enum { LOOK = 500000 };                     /* ns between two looks at what lies ready */
enum { MARK_AT = 64, RECORD = 64 };         /* docs/ring.md */
enum { LATE = 8, NESTED = 3 };
enum { HAVE_VECTORCALL = 1 << 11 }; /* Py_TPFLAGS_HAVE_VECTORCALL, a name of the limited API since 3.12 */
static const int64_t ODD = 1000000000; /* ns that a moment may last too long: the process was stopped. To end at less would
                                         * pick rounds in which the machine is busy, and these are longer in any case */
static const int64_t SOON = 200000000; /* ns; here.py says the same */
static const int64_t NOTED = 100000; /* ns; picks.py says the same */

/* What is rare lies apart, so that what is not fills fewer lines of the cache. */
#define COLD __attribute__((cold, noinline))

typedef int64_t ns;

typedef struct {
    uint32_t kind;
    ns t0, t1, a;
} Late;

/* What is known of an iterator or an optimizer of theirs; loader.py and step.py add to it. */
typedef struct {
    PyObject_HEAD
    long long number, count, batch_size, surely;
    char several, sized;
    PyObject *sample;
} Known;

typedef struct {
    PyObject_HEAD
    char *map; /* NULL: no ring */
    uint32_t seq, base, mask, late_count;
    Known *of_iterator, *of_optimizer; /* what is known of the last ones, and those themselves, never looked into: */
    void *iterator, *optimizer;
    char waiting, look, timing;
    long long left, spent;
    long long passes;
    unsigned long trainer;
    PyObject *phase, *last, *burst;
    Late late[LATE];
    PyObject *buffer, *writer;
    char *made; /* mapped, and not begun */
    PyObject *lies;                     /* what batches lie in once they are made, or None: see `stand` */
    long long slots, wanted, patience;
    long long slowed, slow, slow_of, block; /* rounds that are held up, for how many ns, of whom, and which: see `slow` */
    char trouble;
    long long plain; /* batches that a worker makes, of the next ones, that nobody looks at closer: see `quick` */
    ns made_to;      /* when the last of these was made */
    int schedstat;   /* descriptor of the worker's own, or -1 */
    char within;     /* one of them is being made: what a dataset of its loader's fetches meanwhile is no batch by itself */
} Here;

/* Ask for memory that is about to be touched, all at once: one after the other it would be waited for as often. */
#define FETCH(place) __builtin_prefetch((place), 1)

static PyTypeObject *known_type, *here_type;
static PyObject *method_type;                     /* types.MethodType, which the limited API does not name */
static PyObject *task_info, *outstanding, *shape, *collated, *took, *samples; /* names of attributes */
static PyObject *cut;                             /* takes our frames out of an exception's traceback: wrapping.py */

static ns
clock_now(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (ns)t.tv_sec * 1000000000 + t.tv_nsec;
}

static ns
now(void)
{
    return clock_now(CLOCK_MONOTONIC);
}

static void
assign(PyObject **place, PyObject *value)
{
    PyObject *old = *place;
    Py_IncRef(value);
    *place = value;
    Py_DecRef(old);
}

static void
release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release_memory(self);
    Py_DecRef((PyObject *)type);
}

/* Call a function of the guest's own with arguments that end in NULL; 0, or -1 with an exception set. */
#define TELL(...) told(PyObject_CallFunctionObjArgs(__VA_ARGS__, NULL))

static int
told(PyObject *result)
{
    if (result == NULL)
        return -1;
    Py_DecRef(result);
    return 0;
}

/* ---- Known */

static PyMemberDef known_members[] = {
    {"number", T_LONGLONG, offsetof(Known, number), 0, NULL},
    {"count", T_LONGLONG, offsetof(Known, count), 0, NULL},
    {"batch_size", T_LONGLONG, offsetof(Known, batch_size), 0, NULL},
    {"surely", T_LONGLONG, offsetof(Known, surely), 0, NULL},
    {"several", T_BOOL, offsetof(Known, several), 0, NULL},
    {"sized", T_BOOL, offsetof(Known, sized), 0, NULL},
    {"sample", T_OBJECT, offsetof(Known, sample), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static void
known_dealloc(PyObject *self)
{
    Py_DecRef(((Known *)self)->sample);
    release(self);
}

static PyType_Slot known_slots[] = {
    {Py_tp_doc, "What is known of an iterator or an optimizer: see here.py."},
    {Py_tp_members, known_members},
    {Py_tp_dealloc, known_dealloc},
    {0, NULL}};
static PyType_Spec known_spec = {
    "gputune_guest._fast.Known", sizeof(Known), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, known_slots};

/* ---- Here */

static void
forget(Here *here)
{
    PyObject *one = (PyObject *)here->of_iterator, *other = (PyObject *)here->of_optimizer;
    here->iterator = here->optimizer = NULL;
    here->of_iterator = here->of_optimizer = NULL;
    Py_DecRef(one);
    Py_DecRef(other);
}

static int
here_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Here *here = (Here *)self;
    (void)args, (void)kwargs;
    here->map = here->made = NULL;
    here->seq = here->base = here->mask = here->late_count = 0;
    here->waiting = here->timing = 0;
    here->look = 1;
    here->left = 1;
    here->spent = 0;
    here->passes = 0;
    here->trainer = PyThread_get_thread_ident();
    assign(&here->phase, Py_None);
    assign(&here->last, Py_None);
    assign(&here->burst, Py_None);
    assign(&here->buffer, Py_None);
    assign(&here->writer, Py_None);
    assign(&here->lies, Py_None);
    here->wanted = here->slowed = here->plain = here->made_to = 0;
    here->schedstat = -1;
    here->trouble = here->within = 0;
    forget(here);
    return 0;
}

static void
here_dealloc(PyObject *self)
{
    Here *here = (Here *)self;
    forget(here);
    Py_DecRef(here->phase);
    Py_DecRef(here->last);
    Py_DecRef(here->burst);
    Py_DecRef(here->buffer);
    Py_DecRef(here->writer);
    Py_DecRef(here->lies);
    release(self);
}

/* Map the file. Never unmapped: the view of it may be held by anybody, and it goes with the process. */
static PyObject *
here_map(PyObject *self, PyObject *args)
{
    int fd;
    Py_ssize_t size;
    void *made;
    if (!PyArg_ParseTuple(args, "in", &fd, &size))
        return NULL;
    made = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (made == MAP_FAILED)
        return PyErr_SetFromErrno(PyExc_OSError);
    ((Here *)self)->made = made;
    return PyMemoryView_FromMemory(made, size, PyBUF_WRITE);
}

static PyObject *
here_begin(PyObject *self, PyObject *args)
{
    Here *here = (Here *)self;
    PyObject *view;
    unsigned int base, capacity;
    if (!PyArg_ParseTuple(args, "OII", &view, &base, &capacity))
        return NULL;
    if (here->made == NULL || capacity == 0) {
        PyErr_SetString(PyExc_ValueError, "nothing was mapped");
        return NULL;
    }
    assign(&here->buffer, view);
    here->base = base;
    here->mask = capacity - 1;
    here->seq = 0;
    here->map = here->made;
    Py_RETURN_NONE;
}

static PyObject *
here_close(PyObject *self, PyObject *unused)
{
    Here *here = (Here *)self;
    (void)unused;
    here->map = NULL;
    here->late_count = 0;
    here->slowed = here->wanted = 0; /* nobody is held up for a run that is over */
    assign(&here->buffer, Py_None);
    Py_RETURN_NONE;
}

static PyObject *
here_go_on(PyObject *self, PyObject *at)
{
    unsigned long next = PyLong_AsUnsignedLong(at);
    if (PyErr_Occurred())
        return NULL;
    ((Here *)self)->seq = (uint32_t)next - 1;
    Py_RETURN_NONE;
}

static PyObject *
here_forget(PyObject *self, PyObject *unused)
{
    (void)unused;
    forget((Here *)self);
    Py_RETURN_NONE;
}

/* A record as it lies in the ring: <IHHqqqqqqII of docs/ring.md, which is how these fields lie in memory. */
typedef struct {
    uint32_t seq;
    uint16_t kind, code;
    ns t0, t1, a, b, d, e;
    uint32_t c, again;
} Record;

static char *
slot(Here *here, uint32_t seq)
{
    return here->map + here->base + (size_t)(seq & here->mask) * RECORD;
}

static void
put(Here *here, Record *record)
{
    record->seq = record->again = ++here->seq;
    memcpy(slot(here, record->seq), record, RECORD);
}

static void
mark(Here *here, uint32_t kind, uint32_t code, ns t0)
{
    struct {
        uint32_t kind, code;
        ns t0;
    } open = {kind, code, t0};
    memcpy(here->map + MARK_AT, &open, sizeof open);
}

/* Return the number, which must be one of `low` to `high`. */
static int64_t
number(PyObject *object, int64_t low, int64_t high)
{
    long long value = PyLong_AsLongLong(object);
    if ((value < low || value > high) && !PyErr_Occurred())
        PyErr_SetString(PyExc_OverflowError, "a field of a record does not hold it");
    return value;
}

static PyObject *
here_put(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Here *here = (Here *)self;
    Record record;
    if (here->map == NULL) {
        PyErr_SetNone(PyExc_StopIteration); /* what a counter says that is used up: no ring */
        return NULL;
    }
    if (count != 9) {
        PyErr_SetString(PyExc_TypeError, "a record has nine fields");
        return NULL;
    }
    record.kind = (uint16_t)number(args[0], 0, UINT16_MAX);
    record.code = (uint16_t)number(args[1], 0, UINT16_MAX);
    record.t0 = number(args[2], INT64_MIN, INT64_MAX);
    record.t1 = number(args[3], INT64_MIN, INT64_MAX);
    record.a = number(args[4], INT64_MIN, INT64_MAX);
    record.b = number(args[5], INT64_MIN, INT64_MAX);
    record.d = number(args[6], INT64_MIN, INT64_MAX);
    record.e = number(args[7], INT64_MIN, INT64_MAX);
    record.c = (uint32_t)number(args[8], 0, UINT32_MAX);
    if (PyErr_Occurred())
        return NULL;
    put(here, &record);
    Py_RETURN_NONE;
}

static PyObject *
here_mark(PyObject *self, PyObject *args)
{
    Here *here = (Here *)self;
    unsigned int kind, code;
    long long t0;
    if (!PyArg_ParseTuple(args, "IIL", &kind, &code, &t0))
        return NULL;
    if (here->map != NULL)
        mark(here, kind, code, t0);
    Py_RETURN_NONE;
}

/* Write the records that waited; where there is a burst to end or a ring to make first, by way of Python. */
static int
flush(Here *here)
{
    Late late[LATE];
    uint32_t count = here->late_count, i;
    here->late_count = 0;
    if (here->map != NULL && here->burst == Py_None) {
        for (i = 0; i < count; i++) {
            Record record = {.kind = (uint16_t)here->late[i].kind,
                             .t0 = here->late[i].t0,
                             .t1 = here->late[i].t1,
                             .a = here->late[i].a};
            put(here, &record);
        }
        return 0;
    }
    memcpy(late, here->late, sizeof late);
    for (i = 0; i < count; i++)
        if (told(PyObject_CallFunction(
                here->writer, "IiLLL", late[i].kind, 0, (long long)late[i].t0, (long long)late[i].t1,
                (long long)late[i].a)) < 0)
            return -1;
    return 0;
}

static int
later(Here *here, uint32_t kind, ns t0, ns t1, ns a)
{
    Late *one = &here->late[here->late_count++];
    one->kind = kind;
    one->t0 = t0;
    one->t1 = t1;
    one->a = a;
    if (here->late_count == LATE || t1 - here->late[0].t1 > SOON)
        return flush(here);
    return 0;
}

static PyObject *
here_later(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    ns fields[4];
    Py_ssize_t i;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "kind, t0, t1, a");
        return NULL;
    }
    for (i = 0; i < 4; i++)
        fields[i] = number(args[i], INT64_MIN, INT64_MAX);
    if (PyErr_Occurred() || later((Here *)self, (uint32_t)fields[0], fields[1], fields[2], fields[3]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
here_flush(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (flush((Here *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMemberDef here_members[] = {
    {"waiting", T_BOOL, offsetof(Here, waiting), 0, NULL},
    {"look", T_BOOL, offsetof(Here, look), 0, NULL},
    {"timing", T_BOOL, offsetof(Here, timing), 0, NULL},
    {"left", T_LONGLONG, offsetof(Here, left), 0, NULL},
    {"spent", T_LONGLONG, offsetof(Here, spent), 0, NULL},
    {"passes", T_LONGLONG, offsetof(Here, passes), 0, NULL},
    {"trainer", T_ULONG, offsetof(Here, trainer), 0, NULL},
    {"phase", T_OBJECT, offsetof(Here, phase), 0, NULL},
    {"last", T_OBJECT, offsetof(Here, last), 0, NULL},
    {"burst", T_OBJECT, offsetof(Here, burst), 0, NULL},
    {"buffer", T_OBJECT, offsetof(Here, buffer), READONLY, NULL},
    {"writer", T_OBJECT, offsetof(Here, writer), 0, NULL},
    {"lies", T_OBJECT, offsetof(Here, lies), 0, NULL},
    {"slots", T_LONGLONG, offsetof(Here, slots), 0, NULL},
    {"wanted", T_LONGLONG, offsetof(Here, wanted), 0, NULL},
    {"patience", T_LONGLONG, offsetof(Here, patience), 0, NULL},
    {"slowed", T_LONGLONG, offsetof(Here, slowed), 0, NULL},
    {"slow", T_LONGLONG, offsetof(Here, slow), 0, NULL},
    {"slow_of", T_LONGLONG, offsetof(Here, slow_of), 0, NULL},
    {"block", T_LONGLONG, offsetof(Here, block), 0, NULL},
    {"trouble", T_BOOL, offsetof(Here, trouble), 0, NULL},
    {"plain", T_LONGLONG, offsetof(Here, plain), 0, NULL},
    {"made_to", T_LONGLONG, offsetof(Here, made_to), 0, NULL},
    {"schedstat", T_INT, offsetof(Here, schedstat), 0, NULL},
    {"within", T_BOOL, offsetof(Here, within), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef here_methods[] = {
    {"map", here_map, METH_VARARGS, "Map a file of a descriptor and a size; return a view of it."},
    {"begin", here_begin, METH_VARARGS, "Write into what was mapped: view, offset of the ring, its capacity."},
    {"close", here_close, METH_NOARGS, "Write no more."},
    {"go_on", here_go_on, METH_O, "Say the number of the next record."},
    {"forget", here_forget, METH_NOARGS, "Forget the last iterator and the last optimizer."},
    {"put", (PyCFunction)(void (*)(void))here_put, METH_FASTCALL, "Write a record, all nine fields."},
    {"mark", here_mark, METH_VARARGS, "Say what is about to be done: kind, code, t0."},
    {"later", (PyCFunction)(void (*)(void))here_later, METH_FASTCALL, "Write a record soon: kind, t0, t1, a."},
    {"flush", here_flush, METH_NOARGS, "Write the records that waited."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot here_slots[] = {
    {Py_tp_doc, "What the hooks share: see here.py."},
    {Py_tp_init, here_init},
    {Py_tp_members, here_members},
    {Py_tp_methods, here_methods},
    {Py_tp_dealloc, here_dealloc},
    {0, NULL}};
static PyType_Spec here_spec = {"gputune_guest._fast.Here", sizeof(Here), 0, Py_TPFLAGS_DEFAULT, here_slots};

/* ---- what the two hooks have in common */

static void
fetch(Here *here, Known *known)
{
    FETCH(here);
    FETCH((char *)here + 64);
    FETCH((char *)here + 128);
    FETCH(known);
    FETCH((char *)known + 48);
}

/* Return a new reference to what is known of `theirs`, from the dict of id to Known or else from `make`. */
COLD static Known *
find(PyObject *all, PyObject *theirs, PyObject *make)
{
    PyObject *key = PyLong_FromVoidPtr(theirs), *found;
    if (key == NULL)
        return NULL;
    found = PyDict_GetItemWithError(all, key);
    Py_IncRef(found);
    Py_DecRef(key);
    if (found == NULL && !PyErr_Occurred())
        found = PyObject_CallFunctionObjArgs(make, theirs, NULL);
    if (found != NULL && !PyObject_TypeCheck(found, known_type)) {
        Py_DecRef(found);
        PyErr_SetString(PyExc_TypeError, "nothing is known of it");
        return NULL;
    }
    return (Known *)found;
}

/* Take the exception that is set, made whole: the value has its traceback, as Python code sees it. */
static void
caught(PyObject **type, PyObject **value, PyObject **trace)
{
    PyErr_Fetch(type, value, trace);
    PyErr_NormalizeException(type, value, trace);
    if (*trace != NULL)
        PyException_SetTraceback(*value, *trace);
}

/* Hand an error of ours to `failed`. -1, with the exception set again and no frame of ours in it, if it is none. */
COLD static int
swallow(PyObject *failed)
{
    PyObject *type, *value, *trace;
    int ours = PyErr_ExceptionMatches(PyExc_Exception);
    caught(&type, &value, &trace);
    if (!ours) {
        if (cut != NULL && TELL(cut, value) < 0)
            PyErr_Clear();
        Py_DecRef(trace);
        PyErr_Restore(type, value, PyException_GetTraceback(value));
        return -1;
    }
    if (TELL(failed, value) < 0)
        PyErr_Clear(); /* `failed` raises nothing; if it does, there is nobody left to tell */
    Py_DecRef(type);
    Py_DecRef(value);
    Py_DecRef(trace);
    return 0;
}

/* Hold the training up for a moment, without the GIL: see slowing.py. A signal ends it for good, and its handler runs at
 * once, in no frame of ours: -1 if that raises. Where it lasts too long the rounds behind it are left alone. */
COLD static int
slow(Here *here, long long of)
{
    struct timespec pause = {here->slow / 1000000000, here->slow % 1000000000};
    Record record = {.kind = DELAY, .code = SLOWS, .a = of, .b = here->block};
    PyThreadState *state;
    int interrupted;
    here->slowed--;
    record.t0 = now();
    state = PyEval_SaveThread();
    interrupted = nanosleep(&pause, NULL);
    PyEval_RestoreThread(state);
    record.t1 = now();
    if (interrupted || record.t1 - record.t0 > 2 * here->slow + ODD)
        here->slowed = 0;
    if (here->map != NULL)
        put(here, &record);
    here->trouble |= interrupted != 0;
    return interrupted ? PyErr_CheckSignals() : 0;
}

/* ---- Wrapper: what Next and Passing have in common, functions in the place of others */

typedef PyObject *(*Vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Part of the limited API since 3.12, a function since 3.11; NULL before. */
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *) __attribute__((weak));

static const size_t OFFSET = (size_t)1 << (8 * sizeof(size_t) - 1); /* PY_VECTORCALL_ARGUMENTS_OFFSET */

typedef struct {
    PyObject_HEAD
    Vectorcall call;
    Here *here;
    PyObject *original;
    PyObject *dict; /* attributes, as functools.wraps sets them */
} Wrapper;

static PyObject *
wrapper_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyDict_GetItemWithError(((Wrapper *)self)->dict, name);
    if (found == NULL && !PyErr_Occurred())
        return PyObject_GenericGetAttr(self, name);
    Py_IncRef(found);
    return found;
}

static int
wrapper_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    PyObject *dict = ((Wrapper *)self)->dict;
    return value == NULL ? PyDict_DelItem(dict, name) : PyDict_SetItem(dict, name, value);
}

static PyObject *
wrapper_dict(PyObject *self, void *unused)
{
    PyObject *dict = ((Wrapper *)self)->dict;
    (void)unused;
    Py_IncRef(dict);
    return dict;
}

/* As a function does: read on an instance, it is bound to that. A call of `next()` does not come this way. */
static PyObject *
wrapper_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    if (instance == NULL || instance == Py_None) {
        Py_IncRef(self);
        return self;
    }
    return PyObject_CallFunctionObjArgs(method_type, self, instance, NULL);
}

/* Call `function(args, kwargs)` with what a vectorcall has. */
COLD static PyObject *
gathered(
    PyObject *(*function)(PyObject *, PyObject *, PyObject *), PyObject *self, PyObject *const *args, size_t flagged,
    PyObject *names)
{
    size_t count = flagged & ~OFFSET, i;
    PyObject *all = PyTuple_New((Py_ssize_t)count), *named = NULL, *result;
    for (i = 0; all != NULL && i < count; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(all, (Py_ssize_t)i, args[i]);
    }
    if (names != NULL && (named = PyDict_New()) != NULL)
        for (i = 0; i < (size_t)PyTuple_Size(names); i++)
            PyDict_SetItem(named, PyTuple_GetItem(names, (Py_ssize_t)i), args[count + i]);
    result = PyErr_Occurred() ? NULL : function(self, all, named);
    Py_XDECREF(all);
    Py_XDECREF(named);
    return result;
}

/* By its name, as a function is pickled and copied. */
static PyObject *
wrapper_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef wrapper_methods[] = {
    {"__reduce__", wrapper_reduce, METH_NOARGS, "Be found by name again."}, {NULL, NULL, 0, NULL}};

/* Python 3.9 finds the offset by this name, and an older one shows a number that nobody asks for. */
static PyMemberDef wrapper_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, call), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
static PyGetSetDef wrapper_getset[] = {{"__dict__", wrapper_dict, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

/* ---- Next: what stands in the place of `__next__` */

typedef struct {
    Wrapper head;
    PyObject *before, *after, *step_over;
    PyObject *known, *make, *end_burst, *on_batch, *sampled, *failed;
} Next;

static PyObject *next_vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);

static PyObject *
next_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *here, *original, *known, *make, *end_burst, *on_batch, *step_over, *sampled, *failed, *before, *after;
    Next *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(
            args, "OO!O!OOOOOOOO", &original, here_type, &here, &PyDict_Type, &known, &make, &end_burst, &on_batch,
            &step_over, &sampled, &failed, &before, &after))
        return NULL;
    self = (Next *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->head.call = next_vectorcall;
    assign((PyObject **)&self->head.here, here);
    assign(&self->head.original, original);
    assign(&self->known, known);
    assign(&self->make, make);
    assign(&self->end_burst, end_burst);
    assign(&self->on_batch, on_batch);
    assign(&self->step_over, step_over);
    assign(&self->sampled, sampled);
    assign(&self->failed, failed);
    if (before != Py_None)
        assign(&self->before, before);
    if (after != Py_None)
        assign(&self->after, after);
    self->head.dict = PyDict_New();
    if (self->head.dict == NULL) {
        Py_DecRef((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
next_dealloc(PyObject *object)
{
    Next *self = (Next *)object;
    PyObject *held[] = {
        (PyObject *)self->head.here, self->head.original, self->head.dict, self->known,  self->make,   self->end_burst,
        self->on_batch,              self->step_over,     self->sampled,   self->failed, self->before, self->after};
    size_t i;
    for (i = 0; i < sizeof held / sizeof *held; i++)
        Py_DecRef(held[i]);
    release(object);
}

/* Return how many samples a batch holds: the first dimension if torch's own collate function made it. -1: an error. */
COLD static long long
samples_in(PyObject *data, Known *mine)
{
    PyObject *first = data, *size, *key;
    long long held = 0;
    int depth;
    if (!mine->sized)
        return mine->batch_size;
    for (depth = 0; depth < NESTED; depth++) {
        PyObject *inner = NULL;
        Py_ssize_t at = 0;
        if (Py_TYPE(first) == &PyList_Type && PyList_Size(first) > 0)
            inner = PyList_GetItem(first, 0);
        else if (Py_TYPE(first) == &PyTuple_Type && PyTuple_Size(first) > 0)
            inner = PyTuple_GetItem(first, 0);
        else if (Py_TYPE(first) == &PyDict_Type && PyDict_Next(first, &at, &key, &inner) == 0)
            inner = NULL;
        if (inner == NULL)
            break;
        first = inner; /* borrowed from what their batch holds */
    }
    size = PyObject_GetAttr(first, shape);
    if (size == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return mine->batch_size;
    }
    if (PySequence_Check(size) && PySequence_Size(size) > 0) {
        PyObject *dimension = PySequence_GetItem(size, 0);
        held = dimension == NULL ? -1 : PyLong_AsLongLong(dimension);
        Py_DecRef(dimension);
    }
    Py_DecRef(size);
    if (PyErr_Occurred())
        return -1;
    return held > 0 && (!mine->batch_size || held <= mine->batch_size) ? held : mine->batch_size;
}

/* Return how many batches are ready: those in the buffer that are not outstanding. -1 unknown, -2 an error. */
static long long
ready_for(PyObject *theirs)
{
    PyObject *tasks = PyObject_GetAttr(theirs, task_info), *open;
    long long ready;
    if (tasks == NULL)
        return -2;
    ready = PyObject_Size(tasks);
    Py_DecRef(tasks);
    if (ready < 0)
        return -2;
    open = PyObject_GetAttr(theirs, outstanding);
    if (open == NULL)
        return -2;
    ready -= PyLong_AsLongLong(open);
    Py_DecRef(open);
    return PyErr_Occurred() ? -2 : ready < -1 ? -1 : ready;
}

/* One call: what is known before theirs, and after it. */
typedef struct {
    Known *mine;
    ns came, asked, t0, t1, back, cpu;
    long long ready;
    int apart; /* on another thread than the training's, which goes on meanwhile */
} Call;

/* Do what is done of every batch before theirs; 0 without a ring, -1 with an exception set. */
static int
enter(Next *self, PyObject *theirs, Call *call)
{
    Here *here = self->head.here;
    if (here->iterator == theirs) {
        call->mine = here->of_iterator;
        Py_INCREF(call->mine);
    } else {
        call->mine = find(self->known, theirs, self->make);
        if (call->mine == NULL)
            return -1;
        assign((PyObject **)&here->of_iterator, (PyObject *)call->mine);
        here->iterator = theirs;
    }
    if (call->mine->sample != NULL && call->mine->sample != Py_None && TELL(self->step_over, call->mine) < 0)
        return -1;
    call->came = --here->left > 0 ? 0 : now();
    if (self->before != NULL && TELL(self->before, call->mine) < 0)
        return -1;
    call->ready = -1;
    if (call->mine->several && (call->ready = ready_for(theirs)) == -2)
        return -1;
    if (here->burst != Py_None && TELL(self->end_burst) < 0)
        return -1;
    if (here->map == NULL)
        return 0;
    if (call->came) {
        call->asked = now();
        call->cpu = clock_now(CLOCK_THREAD_CPUTIME_ID);
    }
    call->t0 = now();
    call->apart = PyThread_get_thread_ident() != here->trainer;
    if (!call->apart) {
        mark(here, BATCH, 0, call->t0);
        here->waiting = 1;
    }
    return 1;
}

/* Do what is done of every batch after theirs; -1 with an exception set. */
static int
leave(Next *self, Call *call, PyObject *data, int code)
{
    Here *here = self->head.here;
    Known *mine = call->mine;
    Record record = {.kind = BATCH,
                     .code = (uint16_t)(code | (call->apart ? APART : 0)),
                     .t0 = call->t0,
                     .t1 = call->t1,
                     .a = mine->number};
    if (here->phase != Py_None) {
        if (told(PyObject_CallFunction(
                self->on_batch, "OLLi", mine, (long long)call->t0, (long long)call->t1, code)) < 0)
            return -1;
    } else if (here->last != (PyObject *)mine) { /* evaluation.on_other */
        assign(&here->last, (PyObject *)mine);
        here->look = 1;
    }
    record.b = mine->count++;
    record.d = call->ready;
    if (!code) {
        long long held = record.b < mine->surely ? mine->batch_size : samples_in(data, mine);
        if (held < 0)
            return -1;
        record.c = (uint32_t)held;
    }
    if (here->map != NULL)
        put(here, &record);
    if (here->late_count && flush(here) < 0)
        return -1;
    if (self->after != NULL && !code &&
        told(PyObject_CallFunction(self->after, "OL", mine, (long long)call->t1)) < 0)
        return -1;
    if (!call->came)
        return 0;
    return told(PyObject_CallFunction(
        self->sampled, "OiLLLLLLL", mine, code, (long long)call->came, (long long)call->asked, (long long)call->t0,
        (long long)call->t1, (long long)call->back, (long long)now(), (long long)call->cpu));
}

/* Return how many batches lie ready, -1 with an exception set. No Python code runs for it: a deque has a length, and the
 * lock of a queue of multiprocessing, which is C as well, says how many of its slots are free. */
static long long
lying(PyObject *lies, long long slots)
{
    PyObject *left;
    long long count;
    if (!slots)
        return PyObject_Size(lies);
    left = PyObject_CallMethod(lies, "_get_value", NULL);
    if (left == NULL)
        return -1;
    count = PyLong_AsLongLong(left);
    Py_DecRef(left);
    return PyErr_Occurred() ? -1 : slots - count;
}

/* Stand still, without the GIL, until as many batches lie ready as are wanted, or for as long as patience lasts: see
 * filling.py. No Python code runs meanwhile: what the handler of a signal raises comes up in the caller, as if the
 * signal had come once next() was over; and a signal ends it. Called without an exception set, and leaves none. */
COLD static void
stand(Here *here, Known *mine)
{
    struct timespec pause = {0, LOOK};
    Record record = {.kind = DELAY, .code = STANDS, .a = mine->number};
    PyObject *lies = here->lies; /* ours from here on, whoever else comes by */
    long long wanted = here->wanted, slots = here->slots;
    int interrupted;
    Py_INCREF(lies);
    here->wanted = 0;
    assign(&here->lies, Py_None);
    record.t0 = record.t1 = now();
    record.b = record.d = lying(lies, slots);
    while (record.d >= 0 && record.d < wanted && record.t1 - record.t0 < here->patience) {
        PyThreadState *state = PyEval_SaveThread();
        interrupted = nanosleep(&pause, NULL);
        PyEval_RestoreThread(state);
        record.t1 = now();
        record.d = lying(lies, slots);
        if (interrupted)
            break;
    }
    Py_DecRef(lies);
    if (record.d < 0)
        PyErr_Clear();
    else if (here->map != NULL)
        put(here, &record);
}

static PyObject *
next_once(Next *self, PyObject *theirs)
{
    Here *here = self->head.here;
    Call call = {0};
    PyObject *data, *type = NULL, *value = NULL, *trace = NULL, *args[] = {NULL, theirs};
    int code = 0, ours;
    fetch(here, here->of_iterator);
    if (here->slowed && here->iterator == theirs && here->of_iterator->number == here->slow_of &&
        here->phase == Py_None && PyThread_get_thread_ident() == here->trainer && slow(here, here->slow_of) < 0)
        return NULL;
    if (here->map != NULL) {
        FETCH(here->map + MARK_AT);
        FETCH(slot(here, here->seq + 1));
        FETCH(slot(here, here->seq + 2));
    }
    ours = enter(self, theirs, &call);
    if (ours < 0 && swallow(self->failed) < 0) {
        Py_DecRef((PyObject *)call.mine);
        return NULL;
    }
    if (ours <= 0) {
        Py_DecRef((PyObject *)call.mine);
        return PyObject_CallFunctionObjArgs(self->head.original, theirs, NULL);
    }
    data = PyObject_Vectorcall != NULL ? PyObject_Vectorcall(self->head.original, args + 1, 1 | OFFSET, NULL)
                                       : PyObject_CallFunctionObjArgs(self->head.original, theirs, NULL);
    fetch(here, call.mine); /* theirs may have waited, and others used the caches */
    call.t1 = now();
    if (!call.apart)
        here->waiting = 0;
    if (data == NULL) {
        code = PyErr_ExceptionMatches(PyExc_StopIteration) ? END : FAILED;
        PyErr_Fetch(&type, &value, &trace);
        here->slowed = 0;
        here->trouble |= code == FAILED;
    }
    if (call.came) {
        call.cpu = clock_now(CLOCK_THREAD_CPUTIME_ID) - call.cpu;
        call.back = now();
    }
    ours = leave(self, &call, data, code);
    if (here->wanted && ours == 0 && data != NULL && !call.apart) /* only the thread that asked for it */
        stand(here, call.mine);
    Py_DECREF(call.mine);
    if (ours < 0 && swallow(self->failed) < 0) {
        Py_DecRef(data);
        Py_DecRef(type);
        Py_DecRef(value);
        Py_DecRef(trace);
        return NULL;
    }
    if (data == NULL)
        PyErr_Restore(type, value, trace);
    return data;
}

static PyObject *
next_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) != 1 || (kwargs != NULL && PyDict_Size(kwargs) > 0))
        return PyObject_Call(((Wrapper *)self)->original, args, kwargs); /* wrong, and theirs to say how */
    return next_once((Next *)self, PyTuple_GetItem(args, 0));
}

/* The same without a tuple of arguments, where Python asks for it. */
static PyObject *
next_vectorcall(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    if ((flagged & ~OFFSET) == 1 && names == NULL)
        return next_once((Next *)self, args[0]);
    return gathered(next_call, self, args, flagged, names);
}

/* what stands in the place of a function has of it */
#define WRAPPER_SLOTS \
    {Py_tp_getattro, wrapper_getattro}, \
    {Py_tp_setattro, wrapper_setattro}, \
    {Py_tp_members, wrapper_members}, \
    {Py_tp_getset, wrapper_getset}, \
    {Py_tp_methods, wrapper_methods}

static PyType_Slot next_slots[] = {
    {Py_tp_doc, "Stands in the place of a function: see loader.py."},
    {Py_tp_new, next_new},
    {Py_tp_dealloc, next_dealloc},
    WRAPPER_SLOTS,
    {Py_tp_descr_get, wrapper_get},
    {Py_tp_call, next_call},
    {0, NULL}};
/* The name tells torch.compile, among others, that this is a function in C that is bound like one in Python: a C object
 * of any other name is called without the instance by torch 2.13 where a frame that it traces says `it.__next__()`. */
static PyType_Spec next_spec = {
    "gputune_guest._fast.cython_function_or_method", sizeof(Next), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR, next_slots};

/* ---- Passing: what stands in the place of `torch.autograd.backward` and, without `seen`, of `_next_index` */

typedef struct Passing {
    Wrapper head;
    PyObject *seen, *failed;
    int (*after)(struct Passing *, ns, ns); /* what comes after theirs; -1 with an exception set */
} Passing;

static PyObject *passing_vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
static int pass(Passing *, ns, ns), pick(Passing *, ns, ns);

static PyObject *
passing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *here, *original, *seen, *failed;
    Passing *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO!OO", &original, here_type, &here, &seen, &failed))
        return NULL;
    self = (Passing *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->head.call = passing_vectorcall;
    self->after = seen == Py_None ? pick : pass;
    assign((PyObject **)&self->head.here, here);
    assign(&self->head.original, original);
    assign(&self->seen, seen);
    assign(&self->failed, failed);
    self->head.dict = PyDict_New();
    if (self->head.dict == NULL) {
        Py_DecRef((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
passing_dealloc(PyObject *object)
{
    Passing *self = (Passing *)object;
    Py_DecRef((PyObject *)self->head.here);
    Py_DecRef(self->head.original);
    Py_DecRef(self->head.dict);
    Py_DecRef(self->seen);
    Py_DecRef(self->failed);
    release(object);
}

static int
pass(Passing *self, ns t0, ns t1)
{
    Here *here = self->head.here;
    here->passes++;
    if (later(here, BACKWARD, t0, t1, 0) < 0)
        return -1;
    if (here->look && TELL(self->seen) < 0)
        return -1;
    if (here->timing)
        here->spent += now() - t1;
    return 0;
}

static int
pick(Passing *self, ns t0, ns t1)
{
    if (t1 - t0 < NOTED)
        return 0;
    return told(PyObject_CallFunction(
        self->head.here->writer, "IiLL", PICK, 0, (long long)t0, (long long)t1)); /* rare */
}

/* Do what comes after theirs, and return its result. */
static PyObject *
passed(Passing *self, ns t0, PyObject *result)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    ns t1;
    FETCH(self->head.here);
    FETCH((char *)self->head.here + 64);
    FETCH((char *)self->head.here + 128);
    t1 = now();
    if (result == NULL)
        PyErr_Fetch(&type, &value, &trace);
    if (self->after(self, t0, t1) < 0 && swallow(self->failed) < 0) {
        Py_DecRef(result);
        Py_DecRef(type);
        Py_DecRef(value);
        Py_DecRef(trace);
        return NULL;
    }
    if (result == NULL)
        PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *
passing_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    ns t0 = now();
    return passed((Passing *)self, t0, PyObject_Call(((Wrapper *)self)->original, args, kwargs));
}

static PyObject *
passing_vectorcall(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    ns t0;
    if (PyObject_Vectorcall == NULL)
        return gathered(passing_call, self, args, flagged, names);
    t0 = now();
    return passed((Passing *)self, t0, PyObject_Vectorcall(((Wrapper *)self)->original, args, flagged, names));
}

static PyType_Slot passing_slots[] = {
    {Py_tp_doc, "Stands in the place of a function: see step.py and picks.py."},
    {Py_tp_new, passing_new},
    {Py_tp_dealloc, passing_dealloc},
    WRAPPER_SLOTS,
    {Py_tp_descr_get, wrapper_get},
    {Py_tp_call, passing_call},
    {0, NULL}};
static PyType_Spec passing_spec = {
    "gputune_guest._fast.Passing", sizeof(Passing), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR, passing_slots};

/* ---- Around: what stands in the place of any other function, with no frame of its own: see wrapping.py */

typedef struct {
    Wrapper head;
    PyObject *before, *after, *failed;
} Around;

static PyObject *around_vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);

static PyObject *
around_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *original, *before, *after, *failed;
    Around *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOOO", &original, &before, &after, &failed))
        return NULL;
    self = (Around *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->head.call = around_vectorcall;
    assign(&self->head.original, original);
    assign(&self->before, before);
    assign(&self->after, after);
    assign(&self->failed, failed);
    self->head.dict = PyDict_New();
    if (self->head.dict == NULL) {
        Py_DecRef((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
around_dealloc(PyObject *object)
{
    Around *self = (Around *)object;
    Py_DecRef(self->head.original);
    Py_DecRef(self->head.dict);
    Py_DecRef(self->before);
    Py_DecRef(self->after);
    Py_DecRef(self->failed);
    release(object);
}

/* Do what comes before theirs; return what it returns, None where it fails, NULL for what is none of our errors. */
static PyObject *
begun_by(Around *self, PyObject *args, PyObject *kwargs)
{
    PyObject *all = NULL, *begun;
    if (kwargs == NULL && (kwargs = all = PyDict_New()) == NULL)
        return NULL;
    begun = PyObject_CallFunctionObjArgs(self->before, args, kwargs, NULL);
    Py_DecRef(all);
    if (begun == NULL && swallow(self->failed) == 0) {
        Py_IncRef(Py_None);
        begun = Py_None;
    }
    return begun;
}

/* Do what comes after theirs, and return its result. */
static PyObject *
concluded(Around *self, PyObject *begun, PyObject *result)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    int done;
    if (begun == Py_None) {
        Py_DecRef(begun);
        return result;
    }
    if (result == NULL)
        caught(&type, &value, &trace);
    done = TELL(self->after, begun, result == NULL ? Py_None : result, value == NULL ? Py_None : value);
    Py_DecRef(begun);
    if (done < 0 && swallow(self->failed) < 0) {
        Py_DecRef(result);
        Py_DecRef(type);
        Py_DecRef(value);
        Py_DecRef(trace);
        return NULL;
    }
    if (result == NULL)
        PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *
around_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Around *self = (Around *)object;
    PyObject *begun = begun_by(self, args, kwargs);
    return begun == NULL ? NULL : concluded(self, begun, PyObject_Call(self->head.original, args, kwargs));
}

static PyObject *
around_vectorcall(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    return gathered(around_call, self, args, flagged, names);
}

static PyType_Slot around_slots[] = {
    {Py_tp_doc, "Stands in the place of a function: see wrapping.py."},
    {Py_tp_new, around_new},
    {Py_tp_dealloc, around_dealloc},
    WRAPPER_SLOTS,
    {Py_tp_descr_get, wrapper_get},
    {Py_tp_call, around_call},
    {0, NULL}};
static PyType_Spec around_spec = {/* named as the type of Next is, and for the same reason */
    "gputune_guest._fast.cython_function_or_method", sizeof(Around), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR, around_slots};

/* The same in the place of what does not bind to an instance, as most of what is written in C. */
static PyType_Slot loose_slots[] = {
    {Py_tp_doc, "Stands in the place of a function in C: see wrapping.py."},
    {Py_tp_new, around_new},
    {Py_tp_dealloc, around_dealloc},
    WRAPPER_SLOTS,
    {Py_tp_call, around_call},
    {0, NULL}};
static PyType_Spec loose_spec = {"gputune_guest._fast.Loose", sizeof(Around), 0, Py_TPFLAGS_DEFAULT, loose_slots};

/* ---- Making: an Around in the place of a fetcher's `fetch`, which writes what most batches of a worker are by itself */

typedef struct {
    Around around;
    Here *here;
} Making;

static PyObject *making_vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);

static PyObject *
making_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *here = PyTuple_GetItem(args, 0), *rest = PyTuple_GetSlice(args, 1, PyTuple_Size(args)), *self;
    if (here == NULL || rest == NULL || !PyObject_TypeCheck(here, here_type)) {
        Py_DecRef(rest);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "here, original, before, after, failed");
        return NULL;
    }
    self = around_new(type, rest, kwargs);
    Py_DecRef(rest);
    if (self != NULL) {
        ((Wrapper *)self)->call = making_vectorcall;
        assign((PyObject **)&((Making *)self)->here, here);
    }
    return self;
}

static void
making_dealloc(PyObject *object)
{
    Py_DecRef((PyObject *)((Making *)object)->here);
    around_dealloc(object);
}

/* Return ns that the worker was runnable without a CPU so far: field 2 of its schedstat, -1 where that is not to be had. */
static ns
queued(Here *here)
{
    char text[65], *end;
    ssize_t size = here->schedstat < 0 ? -1 : pread(here->schedstat, text, sizeof text - 1, 0);
    if (size <= 0)
        return -1;
    text[size] = 0;
    end = strchr(text, ' ');
    return end == NULL ? -1 : (ns)strtoll(end, NULL, 10);
}

/* Return a number that an object has under a name; 0 where it has none, or -1 with an error set. */
static long long
held_by(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    long long value = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_DecRef(found);
    return value;
}

typedef struct {
    ns t0, used, wait;
} Made;

/* Write a batch that was made as any other: fetch.py does the same in `_write`. */
static int
making(Here *here, Made *made, PyObject *fetcher)
{
    Record record = {.kind = FETCHED, .t0 = made->t0, .t1 = now()};
    PyObject *collate;
    ns waited;
    record.a = clock_now(CLOCK_PROCESS_CPUTIME_ID) - made->used;
    waited = made->wait < 0 ? -1 : queued(here);
    record.b = waited < 0 ? -1 : waited - made->wait;
    here->made_to = record.t1;
    collate = PyObject_GetAttr(fetcher, collated);
    if (collate != NULL) {
        record.d = held_by(collate, took);
        record.c = (uint32_t)held_by(collate, samples);
        Py_DecRef(collate);
    } else if (PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    if (PyErr_Occurred())
        return -1;
    if (here->map != NULL && here->burst == Py_None) {
        put(here, &record);
        return 0;
    }
    return told(PyObject_CallFunction(
        here->writer, "iiLLLLLLI", FETCHED, 0, (long long)record.t0, (long long)record.t1, (long long)record.a,
        (long long)record.b, (long long)record.d, 0LL, record.c));
}

static void
begin_making(Here *here, Made *made)
{
    here->plain--;
    here->within = 1;
    made->wait = queued(here);
    made->used = clock_now(CLOCK_PROCESS_CPUTIME_ID);
    made->t0 = now();
}

/* Do what comes after theirs, and return its result: of a batch that failed nothing is told. */
static PyObject *
quick(Making *self, Made *made, PyObject *fetcher, PyObject *result)
{
    self->here->within = 0;
    if (result != NULL && making(self->here, made, fetcher) < 0 && swallow(self->around.failed) < 0) {
        Py_DecRef(result);
        return NULL;
    }
    return result;
}

static PyObject *
making_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Making *self = (Making *)object;
    Made made;
    if (self->here->plain <= 0 || self->here->within || PyTuple_Size(args) < 1)
        return around_call(object, args, kwargs);
    begin_making(self->here, &made);
    return quick(self, &made, PyTuple_GetItem(args, 0), PyObject_Call(self->around.head.original, args, kwargs));
}

static PyObject *
making_vectorcall(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names)
{
    Making *self = (Making *)object;
    Made made;
    if (PyObject_Vectorcall == NULL || self->here->plain <= 0 || self->here->within || (flagged & ~OFFSET) < 1)
        return gathered(making_call, object, args, flagged, names);
    begin_making(self->here, &made);
    return quick(self, &made, args[0], PyObject_Vectorcall(self->around.head.original, args, flagged, names));
}

static PyType_Slot making_slots[] = {
    {Py_tp_doc, "Stands in the place of a fetcher's `fetch`: see fetch.py."},
    {Py_tp_new, making_new},
    {Py_tp_dealloc, making_dealloc},
    WRAPPER_SLOTS,
    {Py_tp_descr_get, wrapper_get},
    {Py_tp_call, making_call},
    {0, NULL}};
static PyType_Spec making_spec = {/* named as the type of Next is, and for the same reason */
    "gputune_guest._fast.cython_function_or_method", sizeof(Making), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR, making_slots};

/* Call what a mode of torch's is handed: `__torch_function__(mode, func, types, args, kwargs)`. */
static PyObject *
through(PyObject *module, PyObject *all)
{
    PyObject *mode, *function, *types, *args = NULL, *kwargs = NULL, *none, *result;
    (void)module;
    if (!PyArg_ParseTuple(all, "OOO|OO", &mode, &function, &types, &args, &kwargs))
        return NULL;
    none = args == NULL ? PyTuple_New(0) : PySequence_Tuple(args);
    if (none == NULL)
        return NULL;
    result = PyObject_Call(function, none, kwargs == Py_None ? NULL : kwargs);
    Py_DecRef(none);
    return result;
}

static PyObject *
learn(PyObject *module, PyObject *function)
{
    (void)module;
    assign(&cut, function);
    Py_RETURN_NONE;
}

/* ---- rests of the thread that looks: see looking.py

Whoever holds the interpreter gives it away at a call that waits, or after the switch interval: a thread that merely asks
for it finds the others in such calls. So the main thread is asked to let go of it where it is, as the interpreter itself
does after that interval: by a pending call, which does nothing else. */

static pthread_mutex_t rests = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned;
static int ended, waiting, asked; /* the rest is over for good; it asks for the interpreter; the main thread will let go */
static int64_t stood;              /* ns that the main thread did so */

#define LET_GO 50000000 /* ns at the most, where CPUs are short; the interpreter's own way of it has no end */

static void
later_than(struct timespec *until, int64_t more)
{
    clock_gettime(CLOCK_MONOTONIC, until);
    more += until->tv_nsec;
    until->tv_sec += more / 1000000000;
    until->tv_nsec = more % 1000000000;
}

static int
let_go(void *nothing)
{
    PyThreadState *mine;
    struct timespec until;
    (void)nothing;
    pthread_mutex_lock(&rests);
    asked = 0;
    if (waiting) {
        ns t0 = now();
        later_than(&until, LET_GO);
        pthread_mutex_unlock(&rests);
        mine = PyEval_SaveThread();
        pthread_mutex_lock(&rests);
        while (waiting && pthread_cond_timedwait(&turned, &rests, &until) == 0)
            ;
        pthread_mutex_unlock(&rests);
        stood += now() - t0;
        PyEval_RestoreThread(mine);
        return 0;
    }
    pthread_mutex_unlock(&rests);
    return 0;
}

static PyObject *
rest_begin(PyObject *module, PyObject *nothing)
{
    pthread_condattr_t clock;
    (void)module, (void)nothing;
    pthread_mutex_init(&rests, NULL); /* as after a fork: nobody rests */
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&turned, &clock);
    pthread_condattr_destroy(&clock);
    ended = waiting = asked = 0;
    Py_RETURN_NONE;
}

static PyObject *
rest(PyObject *module, PyObject *seconds)
{
    PyThreadState *mine;
    struct timespec until;
    double s = PyFloat_AsDouble(seconds);
    int over, ask;
    (void)module;
    if (s == -1.0 && PyErr_Occurred())
        return NULL;
    later_than(&until, (int64_t)(s * 1e9));
    mine = PyEval_SaveThread();
    pthread_mutex_lock(&rests);
    while (!ended && pthread_cond_timedwait(&turned, &rests, &until) == 0)
        ;
    over = ended;
    waiting = !over;
    ask = waiting && !asked;
    asked |= ask;
    pthread_mutex_unlock(&rests);
    if (ask && Py_AddPendingCall(let_go, NULL) < 0)
        asked = 0; /* there are too many: it comes when it comes */
    PyEval_RestoreThread(mine);
    pthread_mutex_lock(&rests);
    waiting = 0;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&rests);
    return PyBool_FromLong(over);
}

/* Return a text in which something stands for what would end it. Takes over the reference; NULL stays NULL. */
static PyObject *
without(PyObject *text, const char *what, const char *instead)
{
    PyObject *found = text != NULL ? PyObject_CallMethod(text, "replace", "ss", what, instead) : NULL;
    Py_XDECREF(text);
    return found;
}

/* Return a frame as py-spy writes it, and step to the one that called it. */
static PyObject *
described(PyObject **frame)
{
    PyObject *code = PyObject_GetAttrString(*frame, "f_code"), *line = PyObject_GetAttrString(*frame, "f_lineno");
    PyObject *name = code != NULL ? PyObject_GetAttrString(code, "co_name") : NULL;
    PyObject *file = code != NULL ? PyObject_GetAttrString(code, "co_filename") : NULL;
    PyObject *caller = PyObject_GetAttrString(*frame, "f_back"), *text = NULL;
    if (name != NULL && file != NULL && line != NULL && caller != NULL)
        text = without(without(PyUnicode_FromFormat("%S (%S:%S)", name, file, line), ";", ","), "\n", " ");
    Py_XDECREF(code), Py_XDECREF(line), Py_XDECREF(name), Py_XDECREF(file), Py_DECREF(*frame);
    *frame = caller;
    return text;
}

/* The frames of a thread from the outermost on, as one string; None where there are `most` or more. Nobody else takes the
interpreter meanwhile, as they would between two lines of Python: a frame that we held while its function returns would
leave us what it alone refers to. */
static PyObject *
stack_of(PyObject *frames, PyObject *thread, Py_ssize_t most)
{
    PyObject *all, *frame, *between, *joined = NULL, *found = PyList_New(0);
    if (found == NULL || (all = PyObject_CallObject(frames, NULL)) == NULL) {
        Py_XDECREF(found);
        return NULL;
    }
    frame = PyObject_GetItem(all, thread);
    Py_DECREF(all);
    if (frame == NULL && PyErr_ExceptionMatches(PyExc_KeyError)) { /* it runs no Python: the interpreter is about to end */
        PyErr_Clear();
        Py_DECREF(found);
        Py_RETURN_NONE;
    }
    while (frame != NULL && frame != Py_None && PyList_Size(found) < most) {
        PyObject *text = described(&frame);
        if (text == NULL || PyList_Append(found, text) < 0) {
            Py_XDECREF(text);
            Py_XDECREF(frame);
            frame = NULL;
            break;
        }
        Py_DECREF(text);
    }
    if (frame != NULL && PyList_Size(found) >= most) {
        joined = Py_None;
        Py_INCREF(joined);
    } else if (frame != NULL && PyList_Reverse(found) == 0 && (between = PyUnicode_FromString(";")) != NULL) {
        joined = PyUnicode_Join(between, found);
        Py_DECREF(between);
    }
    Py_XDECREF(frame);
    Py_DECREF(found);
    return joined;
}

static int
done(PyObject *result)
{
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* look((frames, thread, most, collecting, collect_not, collect)): the collector (gc.isenabled, disable and enable) is off for
as long as we hold the interpreter anyhow, so that nobody can see it: no finalizer of theirs runs on our thread. */
static PyObject *
look(PyObject *module, PyObject *args)
{
    PyObject *frames, *thread, *collecting, *off, *on, *found;
    Py_ssize_t most;
    int collects;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnOOO", &frames, &thread, &most, &collecting, &off, &on) ||
        (found = PyObject_CallObject(collecting, NULL)) == NULL)
        return NULL;
    collects = PyObject_IsTrue(found);
    Py_DECREF(found);
    if (collects < 0 || (collects && done(PyObject_CallObject(off, NULL)) < 0))
        return NULL;
    found = stack_of(frames, thread, most);
    if (collects) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (done(PyObject_CallObject(on, NULL)) < 0)
            PyErr_Clear();
        PyErr_Restore(type, value, trace);
    }
    return found;
}

static PyObject *
rest_stood(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyLong_FromLongLong(stood);
}

static PyObject *
rest_end(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    pthread_mutex_lock(&rests);
    ended = 1;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&rests);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"rest_begin", rest_begin, METH_NOARGS, "Make ready for a thread that rests."},
    {"rest", rest, METH_O, "Rest for so many seconds; return whether it is over for good."},
    {"look", look, METH_O, "Return the frames of a thread, in words, the outermost first."},
    {"rest_stood", rest_stood, METH_NOARGS, "Return ns that the main thread was held up by it, all in all."},
    {"rest_end", rest_end, METH_NOARGS, "Have whoever rests return at once."},
    {"through", through, METH_VARARGS, "Call a function as a mode of torch's is asked to."},
    {"cut", learn, METH_O, "Learn what takes our frames out of an exception."},
    {NULL, NULL, 0, NULL}};

/* ---- Stepped: its `after` is the hook after an optimizer's step */

typedef struct {
    PyObject_HEAD
    Here *here;
    PyObject *known, *make, *look, *failed;
} Stepped;

static PyObject *
stepped_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *here, *known, *make, *look, *failed;
    Stepped *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!OOO", here_type, &here, &PyDict_Type, &known, &make, &look, &failed))
        return NULL;
    self = (Stepped *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    assign((PyObject **)&self->here, here);
    assign(&self->known, known);
    assign(&self->make, make);
    assign(&self->look, look);
    assign(&self->failed, failed);
    return (PyObject *)self;
}

static void
stepped_dealloc(PyObject *object)
{
    Stepped *self = (Stepped *)object;
    Py_DecRef((PyObject *)self->here);
    Py_DecRef(self->known);
    Py_DecRef(self->make);
    Py_DecRef(self->look);
    Py_DecRef(self->failed);
    release(object);
}

static int
step(Stepped *self, PyObject *optimizer, ns t1)
{
    Here *here = self->here;
    Known *mine;
    if (here->optimizer != optimizer) {
        mine = find(self->known, optimizer, self->make);
        if (mine == NULL)
            return -1;
        assign((PyObject **)&here->of_optimizer, (PyObject *)mine);
        Py_DecRef((PyObject *)mine);
        here->optimizer = optimizer;
    }
    mine = here->of_optimizer;
    mine->count++;
    if (later(here, STEP, t1, t1, mine->number) < 0)
        return -1;
    if (here->look && here->of_optimizer == mine) {
        int done;
        Py_IncRef((PyObject *)mine);
        done = told(PyObject_CallFunction(self->look, "OL", mine, (long long)t1));
        Py_DecRef((PyObject *)mine);
        if (done < 0)
            return -1;
    }
    if (here->timing)
        here->spent += now() - t1;
    return 0;
}

static PyObject *
stepped_after(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Here *here = ((Stepped *)self)->here;
    ns t1;
    fetch(here, here->of_optimizer);
    t1 = now();
    if (here->slowed && !here->slow_of && count > 0 && here->optimizer == args[0] && here->of_optimizer->number == 1 &&
        PyThread_get_thread_ident() == here->trainer && slow(here, 0) < 0)
        return NULL;
    if (count > 0 && step((Stepped *)self, args[0], t1) < 0 && swallow(((Stepped *)self)->failed) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef stepped_methods[] = {
    {"after", (PyCFunction)(void (*)(void))stepped_after, METH_FASTCALL, "Take notice of an optimizer's step."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot stepped_slots[] = {
    {Py_tp_doc, "The hook after an optimizer's step: see step.py."},
    {Py_tp_new, stepped_new},
    {Py_tp_dealloc, stepped_dealloc},
    {Py_tp_methods, stepped_methods},
    {0, NULL}};
static PyType_Spec stepped_spec = {
    "gputune_guest._fast.Stepped", sizeof(Stepped), 0, Py_TPFLAGS_DEFAULT, stepped_slots};

/* ---- the module */

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_fast", "What the guest does once a batch, in C.", -1, functions, NULL, NULL, NULL, NULL};

static PyTypeObject *
add(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type != NULL && PyModule_AddObject(module, name, type) == 0)
        Py_IncRef(type); /* the module has taken one, and the pointers of this file hold one */
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC
PyInit__fast(void)
{
    PyObject *module = PyModule_Create(&module_def), *types = PyImport_ImportModule("types");
    if (module == NULL || types == NULL)
        return NULL;
    method_type = PyObject_GetAttrString(types, "MethodType");
    Py_DecRef(types);
    task_info = PyUnicode_InternFromString("_task_info");
    outstanding = PyUnicode_InternFromString("_tasks_outstanding");
    shape = PyUnicode_InternFromString("shape");
    collated = PyUnicode_InternFromString("_gputune_collate");
    took = PyUnicode_InternFromString("ns");
    samples = PyUnicode_InternFromString("count");
    known_type = add(module, "Known", &known_spec);
    here_type = add(module, "Here", &here_spec);
    if (strncmp(Py_GetVersion(), "3.8.", 4) != 0) /* where a type made like this cannot have one */
        next_spec.flags |= HAVE_VECTORCALL, passing_spec.flags |= HAVE_VECTORCALL, around_spec.flags |= HAVE_VECTORCALL, loose_spec.flags |= HAVE_VECTORCALL, making_spec.flags |= HAVE_VECTORCALL;
    if (add(module, "Next", &next_spec) == NULL || add(module, "Passing", &passing_spec) == NULL ||
        add(module, "Around", &around_spec) == NULL || add(module, "Loose", &loose_spec) == NULL || add(module, "Making", &making_spec) == NULL || add(module, "Stepped", &stepped_spec) == NULL ||
        PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 || PyErr_Occurred())
        return NULL;
    return module;
}
