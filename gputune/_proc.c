/* Files of /proc that stay open, read and taken apart without an interpreter between them: what the recorder does for
 * every process of the tree on every beat.
 *
 * Optional: `gputune/host/counters.py` does the same in Python where this is not there, and `tests/host/test_counters.py` holds
 * the two together. Limited API of CPython 3.10, gputune's own least.
 */

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, WHOLE = 65536 };
/* Fields of /proc/PID/stat, counted from the state; the same as in procfs.py. */
enum { PPID = 1, UTIME = 11, STIME = 12, CUTIME = 13, CSTIME = 14, THREADS = 17, STARTED = 19, FIELDS = 20 };

/* Read from the start into `text`, which holds `size`; the length, or -1 where it cannot be read (any more). */
static Py_ssize_t
read_whole(int fd, char *text, size_t size)
{
    Py_ssize_t length;
    do
        length = pread(fd, text, size - 1, 0);
    while (length < 0 && errno == EINTR);
    text[length < 0 ? 0 : length] = 0;
    return length;
}

/* Return the number at `*at` and leave `*at` behind it. Anything else counts as the end of a number. */
static int64_t
number(const char **at)
{
    int64_t value = 0;
    int negative = 0;
    while (**at == ' ')
        ++*at;
    if (**at == '-') {
        negative = 1;
        ++*at;
    }
    while (**at >= '0' && **at <= '9')
        value = value * 10 + (*(*at)++ - '0');
    return negative ? -value : value;
}

/* Return (state, parent, own ticks, ticks of children it waited for, threads, started), or NULL with no error set. */
static PyObject *
taken_apart(const char *text)
{
    const char *at = strrchr(text, ')'); /* the name before it may hold spaces and brackets */
    int64_t fields[FIELDS] = {0};
    char state;
    int i;
    if (at == NULL || at[1] != ' ' || at[2] == 0)
        return NULL;
    state = at[2];
    at += 3;
    for (i = 1; i < FIELDS; i++) {
        if (*at != ' ')
            return NULL;
        fields[i] = number(&at);
    }
    return Py_BuildValue("(y#LLLLL)", &state, (Py_ssize_t)1, (long long)fields[PPID],
                         (long long)(fields[UTIME] + fields[STIME]), (long long)(fields[CUTIME] + fields[CSTIME]),
                         (long long)fields[THREADS], (long long)fields[STARTED]);
}

static PyObject *
none(void)
{
    Py_RETURN_NONE;
}

static PyObject *
stat_of(int fd)
{
    char text[PAGE];
    PyObject *found;
    if (read_whole(fd, text, sizeof text) <= 0)
        return none();
    found = taken_apart(text);
    return found != NULL || PyErr_Occurred() ? found : none();
}

/* Return the number behind `name` in rows of `name: number`, -1 where there is none. */
static int64_t
row(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return -1;
    at += strlen(name);
    return number(&at);
}

static PyObject *
io_of(int fd)
{
    char text[PAGE];
    int64_t asked, read, written;
    if (read_whole(fd, text, sizeof text) <= 0)
        return none();
    asked = row(text, "rchar:");
    read = row(text, "\nread_bytes:");
    written = row(text, "\nwrite_bytes:");
    if (asked < 0 || read < 0 || written < 0)
        return none();
    return Py_BuildValue("(LLL)", (long long)read, (long long)written, (long long)asked);
}

/* Call `one` for each descriptor of a sequence; -1 is none. */
static PyObject *
each(PyObject *descriptors, PyObject *(*one)(int))
{
    Py_ssize_t count = PySequence_Size(descriptors), i;
    PyObject *found;
    if (count < 0 || (found = PyList_New(count)) == NULL)
        return NULL;
    for (i = 0; i < count; i++) {
        PyObject *descriptor = PySequence_GetItem(descriptors, i);
        long fd = descriptor == NULL ? -1 : PyLong_AsLong(descriptor);
        PyObject *result;
        Py_XDECREF(descriptor);
        if (PyErr_Occurred() || (result = fd < 0 ? none() : one((int)fd)) == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SetItem(found, i, result);
    }
    return found;
}

static PyObject *
stats(PyObject *self, PyObject *descriptors)
{
    (void)self;
    return each(descriptors, stat_of);
}

static PyObject *
moved(PyObject *self, PyObject *descriptors)
{
    (void)self;
    return each(descriptors, io_of);
}

/* Set `clocks[cpu]` from `user nice system idle iowait irq softirq steal …`; -1 with an error set. */
static int
clock_of(PyObject *clocks, const char *at)
{
    int64_t cpu = number(&at), user = number(&at), nice = number(&at), system = number(&at);
    int64_t waiting, irq, softirq, steal;
    PyObject *key, *value;
    int failed;
    (void)number(&at); /* idle */
    waiting = number(&at), irq = number(&at), softirq = number(&at), steal = number(&at);
    key = PyLong_FromLongLong(cpu);
    value = Py_BuildValue("(LLL)", (long long)(user + nice + system + irq + softirq), (long long)waiting,
                          (long long)steal);
    failed = key == NULL || value == NULL || PyDict_SetItem(clocks, key, value) < 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static PyObject *
cpu_clocks(PyObject *self, PyObject *descriptor)
{
    static char text[WHOLE]; /* the GIL is held throughout */
    long fd = PyLong_AsLong(descriptor);
    PyObject *found;
    const char *at = text;
    (void)self;
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    if (read_whole((int)fd, text, sizeof text) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if ((found = PyDict_New()) == NULL)
        return NULL;
    while (at != NULL && strncmp(at, "cpu", 3) == 0) {
        if (at[3] != ' ' && clock_of(found, at + 3) < 0) {
            Py_DECREF(found);
            return NULL;
        }
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    return found;
}

static PyMethodDef functions[] = {
    {"stats", stats, METH_O, "See counters.py."},
    {"moved", moved, METH_O, "See counters.py."},
    {"cpu_clocks", cpu_clocks, METH_O, "See counters.py."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_proc", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit__proc(void)
{
    return PyModule_Create(&definition);
}
