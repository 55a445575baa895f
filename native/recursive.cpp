// Recursive least squares: see recursive.hpp. The Python door is at the end.

#include "recursive.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "buffer.hpp"
#include "core.hpp"
#include "tile.hpp"

namespace gyrfalcon {
namespace {

using std::size_t;

constexpr double tiny_square = 0x1p-600, huge_square = 0x1p+600;  // beyond, products of three would lose digits
constexpr size_t widest_vector = 8;                               // doubles
constexpr int most_steps = 60;      // of conjugate gradients, for eigenvalues between 1 and 4: half of them suffice
constexpr double smallest = 1e-16;  // residual, relative to the right side

// The reflection that takes the column (top, tail), where top is not negative, to (length, 0); the length replaces `top`.
// The head is top - length, written so that nothing cancels.
bool reflection_of(double& top, const double* x, size_t stride, size_t rows, Reflection<double>& found) {
    double square = 0, largest = std::abs(top);
    for (size_t r = 0; r < rows; ++r) {
        found.tail[r] = x[r * stride];
        square += found.tail[r] * found.tail[r];
        largest = std::max(largest, std::abs(found.tail[r]));
    }
    double unit = 1, alpha = top;
    if (!(square > tiny_square && square + alpha * alpha < huge_square)) {
        square = 0;
        for (size_t r = 0; r < rows; ++r) square += found.tail[r] != 0;
        if (square == 0) return false;
        unit = largest;
        alpha /= unit;
        square = 0;
        for (size_t r = 0; r < rows; ++r) {
            found.tail[r] /= unit;
            square += found.tail[r] * found.tail[r];
        }
        if (square < tiny_square) return false;  // below all digits of the top
    }
    const double length = std::sqrt(alpha * alpha + square);
    found.head = -square / (alpha + length);
    found.scale = (alpha + length) / (length * square);  // 2 / ‖v‖²
    top = unit * length;
    return true;
}

// Applies a reflection to one column.
void reflect_entry(const Reflection<double>& reflection, double& a, double* x, size_t stride, size_t rows) {
    double sum = reflection.head * a;
    for (size_t r = 0; r < rows; ++r) sum += reflection.tail[r] * x[r * stride];
    sum *= reflection.scale;
    a -= reflection.head * sum;
    for (size_t r = 0; r < rows; ++r) x[r * stride] -= reflection.tail[r] * sum;
}

// A few rows x, aligned and padded, into a table that has room for whole vectors.
void take_up_some(const Triangle& triangle, double* x, size_t stride, size_t rows) {
    const auto reflect = chosen_instruction_set<double>().reflect;
    const size_t columns = triangle.width + triangle.outputs;
    for (size_t i = 0; i < triangle.width; i += 2) {
        double *const a = triangle.data + i * triangle.stride, *const b = a + triangle.stride;
        Reflection<double> pair[2];
        const bool second = i + 1 < triangle.width;
        const bool turns = reflection_of(a[i], x + i, stride, rows, pair[0]);
        if (turns && second) reflect_entry(pair[0], a[i + 1], x + i + 1, stride, rows);
        if (second && reflection_of(b[i + 1], x + i + 1, stride, rows, pair[1])) {
            if (turns)
                reflect(i + 2, columns, pair, 2, rows, a, triangle.stride, x, stride);
            else
                reflect(i + 2, columns, pair + 1, 1, rows, b, 0, x, stride);
        } else if (turns) {
            reflect(i + 1 + second, columns, pair, 1, rows, a, 0, x, stride);
        }
    }
}

}  // namespace

void take_up(const Triangle& triangle, const Rows& rows, double* leftover) {
    const size_t columns = triangle.width + triangle.outputs, stride = skewed<double>(columns, widest_vector);
    Buffer<double> scratch(rows_reflected * stride);
    double* const x = scratch.data();
    for (size_t start = 0; start < rows.count; start += rows_reflected) {
        const size_t count = std::min(rows.count - start, rows_reflected);
        for (size_t r = 0; r < count; ++r) std::copy_n(rows.data + (start + r) * columns, columns, x + r * stride);
        take_up_some(triangle, x, stride, count);
        for (size_t r = 0; r < count; ++r)
            for (size_t k = 0; k < triangle.outputs; ++k) {
                const double rest = x[r * stride + triangle.width + k];
                leftover[k] += rest * rest;
            }
    }
}

void project(const Triangle& triangle, const Rows& rows) {
    const auto add_scaled = chosen_instruction_set<double>().add_scaled;
    const size_t columns = triangle.width + triangle.outputs;
    for (size_t i = 0; i < triangle.width; ++i) {
        const double* const a = triangle.data + i * triangle.stride;
        for (size_t r = 0; r < rows.count; ++r) {
            double* const x = rows.data + r * columns;
            if (x[i] == 0) continue;
            x[i] = a[i] == 0 ? 0 : x[i] / a[i];
            add_scaled(columns - i - 1, -x[i], a + i + 1, x + i + 1);
        }
    }
}

namespace {

double dot(const double* a, const double* b, size_t count) {
    double sums[widest_vector] = {};
    size_t k = 0;
    for (; k + widest_vector <= count; k += widest_vector)
        for (size_t lane = 0; lane < widest_vector; ++lane) sums[lane] += a[k + lane] * b[k + lane];
    double total = 0;
    for (; k < count; ++k) total += a[k] * b[k];
    for (const double sum : sums) total += sum;
    return total;
}

// Solves R u = v in place.
void substitute_back(const Triangle& triangle, double* v) {
    for (size_t i = triangle.width; i-- > 0;) {
        const double* const a = triangle.data + i * triangle.stride;
        v[i] = a[i] == 0 ? 0 : (v[i] - dot(a + i + 1, v + i + 1, triangle.width - i - 1)) / a[i];
    }
}

}  // namespace

void with_missing(const Triangle& triangle, const double* missing, const Rows& rows) {
    const size_t d = triangle.width;
    const Triangle alone{triangle.data, d, 0, triangle.stride, triangle.room};
    const auto add_scaled = chosen_instruction_set<double>().add_scaled;
    Buffer<double> scratch(3 * d);
    double *const residual = scratch.data(), *const direction = residual + d, *const image = direction + d;
    const auto multiply = [&](const double* p) {  // image = R⁻ᵀ diag(missing) R⁻¹ p
        std::copy_n(p, d, image);
        substitute_back(alone, image);
        for (size_t i = 0; i < d; ++i) image[i] *= missing[i];
        project(alone, {image, 1});
    };
    for (size_t r = 0; r < rows.count; ++r) {
        double* const u = rows.data + r * d;
        const double least = smallest * smallest * dot(u, u, d);
        multiply(u);
        for (size_t i = 0; i < d; ++i) direction[i] = residual[i] = -image[i];
        double square = dot(residual, residual, d);
        for (int step = 0; step < most_steps && square > least; ++step) {
            multiply(direction);
            add_scaled(d, 1, direction, image);
            const double length = square / dot(direction, image, d), before = square;
            add_scaled(d, length, direction, u);
            add_scaled(d, -length, image, residual);
            square = dot(residual, residual, d);
            for (size_t i = 0; i < d; ++i) direction[i] = residual[i] + square / before * direction[i];
        }
    }
}

namespace {

namespace nb = nanobind;
using Table = nb::ndarray<double, nb::ndim<2>, nb::device::cpu>;
using ReadOnlyTable = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;
using Contiguous = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

bool same_text(PyObject* a, PyObject* b) {
    return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

// The numbers of a dictionary in the order of names, not looked up while its keys have that order too. False if it has
// other names, or numbers that are too large or none.
bool read_row(nb::dict row, nb::list names, const nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>& out,
              double largest) {
    const Py_ssize_t count = PyList_Size(names.ptr());
    require(static_cast<size_t>(count) == out.shape(0), "out: needs one entry per name");
    if (PyDict_Size(row.ptr()) != count) return false;
    double* const values = out.data();
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    nb::ft_object_guard guard(row);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const name = PyList_GetItem(names.ptr(), i);
        if (position < 0 || !PyDict_Next(row.ptr(), &position, &key, &value) || !same_text(key, name)) {
            position = -1;  // another order: look up from here on
            value = PyDict_GetItemWithError(row.ptr(), name);
            if (value == nullptr) {
                if (PyErr_Occurred()) throw nb::python_error();
                return false;
            }
        }
        values[i] = PyFloat_AsDouble(value);
        if (values[i] == -1.0 && PyErr_Occurred()) throw nb::python_error();
    }
    bool fine = true;
    for (Py_ssize_t i = 0; i < count; ++i) fine &= std::abs(values[i]) <= largest;
    return fine;
}

template <class AnyTable>
Triangle checked_triangle(const AnyTable& table, size_t outputs) {
    const size_t width = table.shape(0), columns = table.shape(1);
    require(columns >= width && columns - width >= outputs, "table: needs a column for each of its rows and outputs");
    require(width == 0 || columns <= 1 || table.stride(1) == 1, "table: the numbers of a row must stand side by side");
    require(width <= 1 || (table.stride(0) > 0 && static_cast<size_t>(table.stride(0)) >= columns),
            "table: its rows must not overlap");
    const size_t stride = static_cast<size_t>(std::max<std::ptrdiff_t>(table.stride(0), 0));
    return {const_cast<double*>(table.data()), width, outputs, stride, columns};
}

Rows checked_rows(const Contiguous& rows, const Triangle& triangle) {
    require(rows.shape(1) == triangle.width + triangle.outputs, "rows: needs as many columns as the table");
    return {rows.data(), rows.shape(0)};
}

void take_up_checked(const Table& table, const Contiguous& rows, const Contiguous& leftover) {
    const Triangle triangle = checked_triangle(table, leftover.shape(1));
    const Rows checked = checked_rows(rows, triangle);
    require(leftover.shape(0) == 1, "leftover: needs one row");
    require(triangle.room >= round_up(triangle.width + triangle.outputs, widest_vector),
            "table: needs room for whole vectors of eight numbers in each row");
    double* const rest = leftover.data();
    nb::gil_scoped_release release;
    take_up(triangle, checked, rest);
}

void project_checked(const ReadOnlyTable& table, const Contiguous& rows) {
    const size_t width = table.shape(0);
    require(rows.shape(1) >= width, "rows: needs as many columns as the table");
    const Triangle triangle = checked_triangle(table, rows.shape(1) - width);
    const Rows checked = checked_rows(rows, triangle);
    nb::gil_scoped_release release;
    project(triangle, checked);
}

void with_missing_checked(const ReadOnlyTable& table,
                          const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>& missing,
                          const Contiguous& rows) {
    const Triangle triangle = checked_triangle(table, 0);
    require(missing.shape(0) == triangle.width, "missing: needs one number for each row of the table");
    const Rows checked = checked_rows(rows, triangle);
    const double* const numbers = missing.data();
    nb::gil_scoped_release release;
    with_missing(triangle, numbers, checked);
}

}  // namespace

void bind_recursive(nb::module_& module) {
    // Never converted: a copy would be changed and lost.
    module.def("take_up", &take_up_checked, nb::arg("table").noconvert(), nb::arg("rows").noconvert(),
               nb::arg("leftover").noconvert());
    module.def("read_row", &read_row, nb::arg("row"), nb::arg("names"), nb::arg("out").noconvert(), nb::arg("largest"));
    module.def("with_missing", &with_missing_checked, nb::arg("table").noconvert(), nb::arg("missing").noconvert(),
               nb::arg("rows").noconvert());
    module.def("project", &project_checked, nb::arg("table").noconvert(), nb::arg("rows").noconvert());
}

}  // namespace gyrfalcon
