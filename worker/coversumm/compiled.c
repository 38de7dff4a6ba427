/* The inner loops of a step over int16 vectors; `portable.py` has the same in NumPy, and says what each is.
 *
 * Products of coordinates are integers that float64 holds exactly (docs/algorithm.md, Lemma 1), so sums of them are the same in
 * any order. Of NumPy this knows the buffers alone: arrays are C-contiguous, int16 or float64, as the callers' types say.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

#define LANES 16 /* sums beside each other, so that they do not wait for one another */

FOR_EVERY_PROCESSOR
static double dot(const int16_t *x, const double *y, Py_ssize_t d) {
    double sums[LANES] = {0};
    Py_ssize_t i = 0;
    for (; i + LANES <= d; i += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += (double)x[i + lane] * y[i + lane];
    double sum = 0;
    for (; i < d; i++) sum += (double)x[i] * y[i];
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

FOR_EVERY_PROCESSOR
static double squared_norm(const int16_t *x, Py_ssize_t d) {
    int64_t sum = 0;
    for (Py_ssize_t i = 0; i < d; i++) sum += (int32_t)x[i] * x[i];
    return (double)sum;
}

FOR_EVERY_PROCESSOR
static void shift(double *total, const int16_t *x, Py_ssize_t d, double sign) {
    for (Py_ssize_t i = 0; i < d; i++) total[i] += sign * x[i];
}

/* |y|^2, and |y/n - z|^2 where there is a z. */
FOR_EVERY_PROCESSOR
static void squares(const double *y, const double *z, double n, Py_ssize_t d, double *norm, double *way) {
    double norms[LANES] = {0}, ways[LANES] = {0};
    Py_ssize_t i = 0;
    *norm = *way = 0;
    for (; i + LANES <= d; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            double one = y[i + lane], far = z ? one / n - z[i + lane] : 0;
            norms[lane] += one * one;
            ways[lane] += far * far;
        }
    for (; i < d; i++) {
        double one = y[i], far = z ? one / n - z[i] : 0;
        *norm += one * one;
        *way += far * far;
    }
    for (int lane = 0; lane < LANES; lane++) {
        *norm += norms[lane];
        *way += ways[lane];
    }
}

/* The rows of the `count` lowest keys n*|x|^2 - 2*x.S, ascending; among equal ones the lower row. How many there are. */
static Py_ssize_t lowest(const int16_t *rows, const double *squared_norms, Py_ssize_t r, Py_ssize_t d, double n,
                         const double *total, Py_ssize_t count, Py_ssize_t *found, double *keys) {
    Py_ssize_t held = 0;
    for (Py_ssize_t row = 0; row < r; row++) {
        double key = n * squared_norms[row] - 2.0 * dot(rows + row * d, total, d);
        if (held == count && key >= keys[held - 1]) continue;
        Py_ssize_t low = 0, high = held;
        while (low < high) {
            Py_ssize_t middle = (low + high) / 2;
            if (keys[middle] <= key) low = middle + 1;
            else high = middle;
        }
        if (held < count) held++;
        memmove(keys + low + 1, keys + low, (held - 1 - low) * sizeof *keys);
        memmove(found + low + 1, found + low, (held - 1 - low) * sizeof *found);
        keys[low] = key;
        found[low] = row;
    }
    return held;
}

/* ---- from Python and back */

/* An array's memory, its length in items; false and an exception where it is none. `exporter` None: no memory, length 0. */
static int look(PyObject *exporter, Py_buffer *view, Py_ssize_t itemsize, int flags, const char *name) {
    if (exporter == Py_None) {
        memset(view, 0, sizeof *view);
        return 1;
    }
    if (PyObject_GetBuffer(exporter, view, flags) < 0) return 0;
    if (view->itemsize == itemsize) return 1;
    PyErr_Format(PyExc_TypeError, "%s must have items of %zd bytes, not %zd", name, itemsize, view->itemsize);
    PyBuffer_Release(view);
    return 0;
}

static int check_count(const char *name, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_ValueError, "%s must have %zd items, not %zd", name, wanted, given);
    return 0;
}

#define ITEMS(view, type) ((view).len / (Py_ssize_t)sizeof(type))

PyDoc_STRVAR(products_doc, "products(vectors, anchor, centroid)\n--\n\nSee `worker.coversumm.portable`.");
static PyObject *products(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Py_buffer x, anchor, centroid;
    PyObject *found = NULL;
    if (!check_count("products", nargs, 3)) return NULL;
    if (!look(args[0], &x, sizeof(int16_t), PyBUF_ND, "vectors")) return NULL;
    if (!look(args[1], &anchor, sizeof(double), PyBUF_ND, "anchor")) goto vectors;
    if (!look(args[2], &centroid, sizeof(double), PyBUF_ND, "centroid")) goto anchor;
    Py_ssize_t d = ITEMS(anchor, double);
    if (d == 0 || ITEMS(x, int16_t) % d || (centroid.buf && !check_count("centroid", ITEMS(centroid, double), d))) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "vectors must be (m, D)");
        goto all;
    }
    Py_ssize_t m = ITEMS(x, int16_t) / d;
    found = PyList_New(m);
    for (Py_ssize_t row = 0; found && row < m; row++) {
        const int16_t *one = (const int16_t *)x.buf + row * d;
        PyObject *facts = Py_BuildValue("ddd", squared_norm(one, d), dot(one, anchor.buf, d),
                                        centroid.buf ? dot(one, centroid.buf, d) : 0.0);
        if (!facts) Py_CLEAR(found);
        else PyList_SET_ITEM(found, row, facts);
    }
all:
    PyBuffer_Release(&centroid);
anchor:
    PyBuffer_Release(&anchor);
vectors:
    PyBuffer_Release(&x);
    return found;
}

PyDoc_STRVAR(add_doc, "add(total, vectors, sign)\n--\n\nSee `worker.coversumm.portable`.");
static PyObject *add(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Py_buffer total, x;
    PyObject *done = NULL;
    if (!check_count("add", nargs, 3)) return NULL;
    double sign = PyFloat_AsDouble(args[2]);
    if (sign == -1.0 && PyErr_Occurred()) return NULL;
    if (!look(args[0], &total, sizeof(double), PyBUF_ND | PyBUF_WRITABLE, "total")) return NULL;
    if (!look(args[1], &x, sizeof(int16_t), PyBUF_ND, "vectors")) goto total;
    Py_ssize_t d = ITEMS(total, double), items = ITEMS(x, int16_t);
    if (d == 0 || items % d) {
        PyErr_SetString(PyExc_ValueError, "vectors must be (m, D)");
    } else {
        for (Py_ssize_t at = 0; at < items; at += d) shift(total.buf, (const int16_t *)x.buf + at, d, sign);
        done = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&x);
total:
    PyBuffer_Release(&total);
    return done;
}

PyDoc_STRVAR(drift_doc, "drift(total, n, centroid)\n--\n\nSee `worker.coversumm.portable`.");
static PyObject *drift(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Py_buffer total, centroid;
    PyObject *found = NULL;
    if (!check_count("drift", nargs, 3)) return NULL;
    double n = PyFloat_AsDouble(args[1]), norm, way;
    if (n == -1.0 && PyErr_Occurred()) return NULL;
    if (!look(args[0], &total, sizeof(double), PyBUF_ND, "total")) return NULL;
    if (!look(args[2], &centroid, sizeof(double), PyBUF_ND, "centroid")) goto total;
    Py_ssize_t d = ITEMS(total, double);
    if (!centroid.buf || check_count("centroid", ITEMS(centroid, double), d)) {
        squares(total.buf, centroid.buf, n, d, &norm, &way);
        found = Py_BuildValue("dd", norm, way);
    }
    PyBuffer_Release(&centroid);
total:
    PyBuffer_Release(&total);
    return found;
}

/* Two lists: the rows, and their keys. */
static PyObject *as_lists(const Py_ssize_t *found, const double *keys, Py_ssize_t count) {
    PyObject *rows = PyList_New(count), *values = PyList_New(count), *both = NULL;
    for (Py_ssize_t i = 0; rows && values && i < count; i++) {
        PyObject *row = PyLong_FromSsize_t(found[i]), *key = PyFloat_FromDouble(keys[i]);
        if (!row || !key) {
            Py_XDECREF(row);
            Py_XDECREF(key);
            Py_CLEAR(rows);
            break;
        }
        PyList_SET_ITEM(rows, i, row);
        PyList_SET_ITEM(values, i, key);
    }
    if (rows && values) both = PyTuple_Pack(2, rows, values);
    Py_XDECREF(rows);
    Py_XDECREF(values);
    return both;
}

#define ALONE (1 << 17) /* products; more take longer than to let another thread run */

PyDoc_STRVAR(nearest_doc, "nearest(vectors, squared_norms, n, total, count)\n--\n\nSee `worker.coversumm.portable`.");
static PyObject *nearest(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Py_buffer x, norms, total;
    PyObject *answer = NULL;
    if (!check_count("nearest", nargs, 5)) return NULL;
    double n = PyFloat_AsDouble(args[2]);
    Py_ssize_t count = PyLong_AsSsize_t(args[4]);
    if (PyErr_Occurred()) return NULL;
    if (!look(args[0], &x, sizeof(int16_t), PyBUF_ND, "vectors")) return NULL;
    if (!look(args[1], &norms, sizeof(double), PyBUF_ND, "squared_norms")) goto vectors;
    if (!look(args[3], &total, sizeof(double), PyBUF_ND, "total")) goto norms;
    Py_ssize_t d = ITEMS(total, double), r = ITEMS(norms, double);
    if (!check_count("vectors", ITEMS(x, int16_t), r * d)) goto all;
    if (count > r) count = r;
    Py_ssize_t *found = PyMem_Malloc((count + 1) * sizeof *found);
    double *keys = PyMem_Malloc((count + 1) * sizeof *keys);
    if (!found || !keys) {
        PyErr_NoMemory();
        goto memory;
    }
    Py_ssize_t held = 0;
    if (count > 0) {
        PyThreadState *state = r * d > ALONE ? PyEval_SaveThread() : NULL;
        held = lowest(x.buf, norms.buf, r, d, n, total.buf, count, found, keys);
        if (state) PyEval_RestoreThread(state);
    }
    answer = as_lists(found, keys, held);
memory:
    PyMem_Free(keys);
    PyMem_Free(found);
all:
    PyBuffer_Release(&total);
norms:
    PyBuffer_Release(&norms);
vectors:
    PyBuffer_Release(&x);
    return answer;
}

/* Whether two lists of `count` rows, all below `r`, are the same set; `marks` has room for r. */
static int same_rows(const Py_ssize_t *found, PyObject *known, Py_ssize_t count, Py_ssize_t r, char *marks) {
    if (!PyList_Check(known) || PyList_GET_SIZE(known) != count) return 0;
    memset(marks, 0, r);
    for (Py_ssize_t i = 0; i < count; i++) marks[found[i]] = 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t row = PyLong_AsSsize_t(PyList_GET_ITEM(known, i));
        if (row < 0 || row >= r || !marks[row]) return 0;
    }
    return 1;
}

/* See `worker.coversumm.portable`. The caller has checked the lengths. */
static PyObject *join_checked(int16_t *room, double *norms, Py_ssize_t r, const int16_t *x, Py_ssize_t d, double n,
                              double *total, Py_ssize_t k, double most, PyObject *known) {
    double squared = squared_norm(x, d), squared_total, unused;
    int is_held = squared > most;
    for (Py_ssize_t row = 0; !is_held && row < r; row++)
        is_held = norms[row] == squared && !memcmp(room + row * d, x, d * sizeof *x);
    if (is_held) return Py_NewRef(Py_None);
    Py_ssize_t *found = PyMem_Malloc((k + 2) * sizeof *found);
    double *keys = PyMem_Malloc((k + 2) * sizeof *keys);
    char *marks = PyMem_Malloc(r + 1);
    PyObject *answer = NULL, *ranked = NULL;
    if (!found || !keys || !marks) {
        PyErr_NoMemory();
        goto memory;
    }
    shift(total, x, d, 1.0);
    memcpy(room + r * d, x, d * sizeof *x);
    norms[r] = squared;
    squares(total, NULL, n, d, &squared_total, &unused);
    Py_ssize_t held = lowest(room, norms, r + 1, d, n, total, k + 1, found, keys), count = held < k ? held : k;
    int is_tied = 0;
    for (Py_ssize_t i = 1; i < held; i++) is_tied |= keys[i] == keys[i - 1];
    if (!is_tied && same_rows(found, known, count, r + 1, marks)) ranked = Py_NewRef(Py_None);
    else ranked = as_lists(found, keys, is_tied ? 0 : count);
    if (ranked)
        answer = Py_BuildValue("ddddN", squared, squared_total, keys[count - 1], held > k ? keys[k] : Py_HUGE_VAL, ranked);
memory:
    PyMem_Free(marks);
    PyMem_Free(keys);
    PyMem_Free(found);
    return answer;
}

PyDoc_STRVAR(join_doc, "join(room, squared_norms, r, vector, n, total, k, most, known)\n--\n\nSee `worker.coversumm.portable`.");
static PyObject *join(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Py_buffer room, norms, x, total;
    PyObject *answer = NULL;
    if (!check_count("join", nargs, 9)) return NULL;
    Py_ssize_t r = PyLong_AsSsize_t(args[2]), k = PyLong_AsSsize_t(args[6]);
    double n = PyFloat_AsDouble(args[4]), most = PyFloat_AsDouble(args[7]);
    if (PyErr_Occurred()) return NULL;
    if (!look(args[0], &room, sizeof(int16_t), PyBUF_ND | PyBUF_WRITABLE, "room")) return NULL;
    if (!look(args[1], &norms, sizeof(double), PyBUF_ND | PyBUF_WRITABLE, "squared_norms")) goto room;
    if (!look(args[3], &x, sizeof(int16_t), PyBUF_ND, "vector")) goto norms;
    if (!look(args[5], &total, sizeof(double), PyBUF_ND | PyBUF_WRITABLE, "total")) goto vector;
    Py_ssize_t d = ITEMS(total, double);
    if (d == 0 || r < 0 || k < 1 || ITEMS(norms, double) <= r || ITEMS(room, int16_t) < (r + 1) * d)
        PyErr_SetString(PyExc_ValueError, "there must be room for one more of the r rows (r, D), and k at least 1");
    else if (check_count("vector", ITEMS(x, int16_t), d))
        answer = join_checked(room.buf, norms.buf, r, x.buf, d, n, total.buf, k, most, args[8]);
    PyBuffer_Release(&total);
vector:
    PyBuffer_Release(&x);
norms:
    PyBuffer_Release(&norms);
room:
    PyBuffer_Release(&room);
    return answer;
}

/* A ranking's distances, as `worker.coversumm.ranking` says; None for those that float64 does not decide. */
static PyObject *one_distances(PyObject *keys, double n, double centroid_squared, double d, double unit) {
    Py_ssize_t length = PyList_GET_SIZE(keys);
    PyObject *found = PyList_New(length);
    if (!found || !length) return found;
    double first = fabs(PyFloat_AsDouble(PyList_GET_ITEM(keys, 0)));
    double last = fabs(PyFloat_AsDouble(PyList_GET_ITEM(keys, length - 1)));
    double largest = (first > last ? first : last) / n;
    double margin = 1e3 * unit * ((d + 8) * 0x1p-52 * (largest + centroid_squared)), safe = margin * margin;
    for (Py_ssize_t i = 0; i < length; i++) {
        double squared = PyFloat_AsDouble(PyList_GET_ITEM(keys, i)) / n + centroid_squared;
        double micros = sqrt(squared > 0 ? squared : 0) * unit, nearest_micro = floor(micros + 0.5);
        int unsure = squared <= safe || fabs(micros - nearest_micro) > 0.499 || nearest_micro > 1e11;
        PyObject *one = unsure ? Py_NewRef(Py_None) : PyFloat_FromDouble(nearest_micro / 1e6);
        if (!one) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, i, one);
    }
    if (PyErr_Occurred()) Py_CLEAR(found);
    return found;
}

PyDoc_STRVAR(distances_doc, "distances(centroids, scale)\n--\n\nSee `worker.coversumm.portable`.");
static PyObject *distances(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    if (!check_count("distances", nargs, 2)) return NULL;
    double scale = PyFloat_AsDouble(args[1]);
    if (scale == -1.0 && PyErr_Occurred()) return NULL;
    PyObject *centroids = PySequence_Fast(args[0], "centroids must be a sequence");
    PyObject *found = centroids ? PyList_New(PySequence_Fast_GET_SIZE(centroids)) : NULL;
    for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(found); i++) {
        PyObject *measured = PySequence_Fast_GET_ITEM(centroids, i), *keys, *total, *one = NULL;
        double n, centroid_squared;
        if (!PyTuple_Check(measured)) {
            PyErr_SetString(PyExc_TypeError, "centroids must be tuples");
        } else if (PyArg_ParseTuple(measured, "O!dOd", &PyList_Type, &keys, &n, &total, &centroid_squared)) {
            Py_ssize_t d = PyObject_Size(total);
            if (d >= 0) one = one_distances(keys, n, centroid_squared, (double)d, 1e6 / scale);
        }
        if (!one) Py_CLEAR(found);
        else PyList_SET_ITEM(found, i, one);
    }
    Py_XDECREF(centroids);
    return found;
}

static PyMethodDef methods[] = {
    {"products", (PyCFunction)(void (*)(void))products, METH_FASTCALL, products_doc},
    {"add", (PyCFunction)(void (*)(void))add, METH_FASTCALL, add_doc},
    {"drift", (PyCFunction)(void (*)(void))drift, METH_FASTCALL, drift_doc},
    {"distances", (PyCFunction)(void (*)(void))distances, METH_FASTCALL, distances_doc},
    {"join", (PyCFunction)(void (*)(void))join, METH_FASTCALL, join_doc},
    {"nearest", (PyCFunction)(void (*)(void))nearest, METH_FASTCALL, nearest_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled", "Inner loops of a step.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&module); }
