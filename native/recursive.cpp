// Recursive least squares: see recursive.hpp. The Python door is at the end.

#include "recursive.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core.hpp"
#include "tile.hpp"

namespace gyrfalcon {
namespace {

using std::size_t;

constexpr size_t rows_together = 8;  // rows that are rotated into one row of R while it is in the first-level cache
constexpr double tiny_square = 0x1p-900, huge_square = 0x1p+900;  // beyond, squares would lose digits

// a = c a + s x, x = c x - s a
[[gnu::always_inline]] inline void rotate_body(size_t count, double c, double s, double* __restrict a,
                                               double* __restrict x) {
    for (size_t k = 0; k < count; ++k) {
        const double old = a[k], row = x[k];
        a[k] = c * old + s * row;
        x[k] = c * row - s * old;
    }
}

void rotate_baseline(size_t count, double c, double s, double* a, double* x) { rotate_body(count, c, s, a, x); }
#if defined(GYRFALCON_X86)
[[gnu::target("avx2,fma")]] void rotate_avx2(size_t count, double c, double s, double* a, double* x) {
    rotate_body(count, c, s, a, x);
}
[[gnu::target("avx512f,avx512dq,fma,prefer-vector-width=512")]] void rotate_avx512(size_t count, double c, double s, double* a,
                                                         double* x) {
    rotate_body(count, c, s, a, x);
}
#endif

using Rotate = void(size_t, double, double, double*, double*);

Rotate* chosen_rotation() {
#if defined(GYRFALCON_X86)
    const std::string_view name = chosen_instruction_set<double>().name;
    if (name == "avx512") return rotate_avx512;
    if (name == "avx2") return rotate_avx2;
#endif
    return rotate_baseline;
}

double length(double a, double b) {
    const double square = a * a + b * b;
    return square > tiny_square && square < huge_square ? std::sqrt(square) : std::hypot(a, b);
}

}  // namespace

void take_up(const Triangle& triangle, const Rows& rows, double* leftover) {
    static Rotate* const rotate = chosen_rotation();
    const size_t columns = triangle.width + triangle.outputs;
    for (size_t first = 0; first < rows.count; first += rows_together) {
        const size_t last = std::min(rows.count, first + rows_together);
        for (size_t i = 0; i < triangle.width; ++i) {
            double* const a = triangle.data + i * triangle.stride;
            for (size_t r = first; r < last; ++r) {
                double* const x = rows.data + r * columns;
                if (x[i] == 0) continue;
                const double norm = length(a[i], x[i]), c = a[i] / norm, s = x[i] / norm;
                a[i] = norm;
                rotate(columns - i - 1, c, s, a + i + 1, x + i + 1);
            }
        }
        for (size_t r = first; r < last; ++r)
            for (size_t k = 0; k < triangle.outputs; ++k) {
                const double rest = rows.data[r * columns + triangle.width + k];
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

namespace nb = nanobind;
using Table = nb::ndarray<double, nb::ndim<2>, nb::device::cpu>;
using Contiguous = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

Triangle checked_triangle(const Table& table) {
    const size_t width = table.shape(0), columns = table.shape(1);
    require(columns >= width, "table: needs at least as many columns as rows");
    require(width == 0 || columns <= 1 || table.stride(1) == 1, "table: the numbers of a row must stand side by side");
    require(width <= 1 || (table.stride(0) > 0 && static_cast<size_t>(table.stride(0)) >= columns),
            "table: its rows must not overlap");
    return {table.data(), width, columns - width, static_cast<size_t>(std::max<std::ptrdiff_t>(table.stride(0), 0))};
}

Rows checked_rows(const Contiguous& rows, const Triangle& triangle) {
    require(rows.shape(1) == triangle.width + triangle.outputs, "rows: needs as many columns as the table");
    return {rows.data(), rows.shape(0)};
}

void take_up_checked(const Table& table, const Contiguous& rows, const Contiguous& leftover) {
    const Triangle triangle = checked_triangle(table);
    const Rows checked = checked_rows(rows, triangle);
    require(leftover.shape(0) == 1 && leftover.shape(1) == triangle.outputs, "leftover: needs one entry per output");
    double* const rest = leftover.data();
    nb::gil_scoped_release release;
    take_up(triangle, checked, rest);
}

void project_checked(const Table& table, const Contiguous& rows) {
    const Triangle triangle = checked_triangle(table);
    const Rows checked = checked_rows(rows, triangle);
    nb::gil_scoped_release release;
    project(triangle, checked);
}

}  // namespace

void bind_recursive(nb::module_& module) {
    // Never converted: a copy would be changed and lost.
    module.def("take_up", &take_up_checked, nb::arg("table").noconvert(), nb::arg("rows").noconvert(),
               nb::arg("leftover").noconvert());
    module.def("project", &project_checked, nb::arg("table").noconvert(), nb::arg("rows").noconvert());
}

}  // namespace gyrfalcon
