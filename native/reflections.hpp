// Householder reflections of a few rows and one more, for recursive least squares. Included where vectors have a width.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "simd.hpp"
#include "tile.hpp"

namespace {

// [a; x] -= scale v (v'[a; x]) with v = (head, tail), for the lanes of a vector; the new a is returned.
template <class T, std::size_t rows>
GYRFALCON_INLINE Vector<T> reflect_lanes(const gyrfalcon::Reflection<T>& reflection, Vector<T> a, Vector<T>* row) {
    Vector<T> sum = reflection.head * a;
    for (std::size_t r = 0; r < rows; ++r) sum += reflection.tail[r] * row[r];
    sum *= reflection.scale;
    for (std::size_t r = 0; r < rows; ++r) row[r] -= reflection.tail[r] * sum;
    return a - reflection.head * sum;
}

// The lanes of `before` up to a number, and those of `after` from there on.
template <class T>
GYRFALCON_INLINE Vector<T> joined(Vector<T> before, Vector<T> after, std::size_t number) {
    typedef decltype(Bits<T>{}[0] + 0) Integer;
    Bits<T> lane;
    for (int i = 0; i < lanes<T>; ++i) lane[i] = i;
    return lane < static_cast<Integer>(number) ? before : after;
}

// One reflection after the other, each with a row `a` of its own, `a_stride` apart, while the rows x are in registers.
template <class T, std::size_t rows, std::size_t steps>
void reflect_rows(std::size_t first, std::size_t columns, const gyrfalcon::Reflection<T>* reflections, T* a,
                  std::size_t a_stride, T* x, std::size_t stride) {
    std::size_t k = first / lanes<T> * lanes<T>;
    for (std::size_t kept = first - k; k < columns; k += lanes<T>, kept = 0) {
        Vector<T> row[rows];
        for (std::size_t r = 0; r < rows; ++r) row[r] = load(x + r * stride + k);
        for (std::size_t step = 0; step < steps; ++step) {
            T* const at = a + step * a_stride + k;
            Vector<T> before;
            std::memcpy(&before, at, sizeof before);
            Vector<T> after = reflect_lanes<T, rows>(reflections[step], before, row);
            if (kept > 0) after = joined<T>(before, after, kept);
            std::memcpy(at, &after, sizeof after);
        }
        for (std::size_t r = 0; r < rows; ++r) store(x + r * stride + k, row[r]);
    }
}

template <class T, std::size_t steps, std::size_t... rows>
constexpr auto reflections_of(std::index_sequence<rows...>) {
    return std::array{reflect_rows<T, rows + 1, steps>...};
}

template <class T>
void reflect(std::size_t first, std::size_t columns, const gyrfalcon::Reflection<T>* reflections, std::size_t steps,
             std::size_t rows, T* a, std::size_t a_stride, T* x, std::size_t stride) {
    using Rows = std::make_index_sequence<gyrfalcon::rows_reflected>;
    static constexpr auto one = reflections_of<T, 1>(Rows()), two = reflections_of<T, 2>(Rows());
    (steps == 1 ? one : two)[rows - 1](first, columns, reflections, a, a_stride, x, stride);
}

}  // namespace
