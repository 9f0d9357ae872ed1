/* A tick of samples as a row of numbers, where its samples come in an order that is known.
 *
 * Optional: `gputune/recording/rows.py` does the same in Python where this is not there, and `tests/recording/test_rows.py`
 * holds the two together. Limited API of CPython 3.10, gputune's own least.
 */

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { METRIC = 0, TIME = 1, VALUE = 2, INSTANCE = 3, FIELDS = 4 }; /* sample.py */

/* Return 1 if the reading is a sample of this metric and instance, 0 if it is something else, -1 with an error set. */
static int
fits(PyObject *reading, PyObject *metric, PyObject *instance)
{
    PyObject *found;
    if (!PyTuple_Check(reading) || PyTuple_Size(reading) != FIELDS || PyTuple_GetItem(reading, METRIC) != metric)
        return 0;
    found = PyTuple_GetItem(reading, INSTANCE);
    return found == instance ? 1 : PyObject_RichCompareBool(found, instance, Py_EQ);
}

static PyObject *
laid(PyObject *self, PyObject *args)
{
    PyObject *readings, *metrics, *instances, *packed, *found = NULL;
    Py_ssize_t count, i;
    double *values;
    long long first = 0, last = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!O!", &readings, &PyTuple_Type, &metrics, &PyTuple_Type, &instances))
        return NULL;
    count = PyList_Check(readings) ? PyList_Size(readings) : 0;
    if (count == 0 || count != PyTuple_Size(metrics) || count != PyTuple_Size(instances))
        Py_RETURN_NONE;
    if ((packed = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof *values)) == NULL)
        return NULL;
    values = (double *)PyBytes_AsString(packed); /* behind a header of whole words: aligned */
    for (i = 0; i < count; i++) {
        PyObject *reading = PyList_GetItem(readings, i);
        int same = fits(reading, PyTuple_GetItem(metrics, i), PyTuple_GetItem(instances, i));
        if (same <= 0)
            break;
        last = PyLong_AsLongLong(PyTuple_GetItem(reading, TIME));
        first = i ? first : last;
        values[i] = PyFloat_AsDouble(PyTuple_GetItem(reading, VALUE));
        if (PyErr_Occurred())
            break;
    }
    if (i == count)
        found = Py_BuildValue("(LO)", first > last ? first : last, packed);
    Py_DECREF(packed);
    if (found != NULL || (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)))
        return found;
    PyErr_Clear(); /* whatever is odd about it is met again where it is looked at closer */
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"laid", laid, METH_VARARGS, "See rows.py."}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_rows", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit__rows(void)
{
    return PyModule_Create(&definition);
}
