// What one instruction set provides: products on a tile of the kernel matrix that stays in cache.
#pragma once

#include <cstddef>

#include "core.hpp"

namespace gyrfalcon {

// A leaf with its share of the data packed: X in panels of `row_panel` rows, C in panels of `column_panel` centers,
// both with the feature as the slow index inside a panel, both padded with zeros.
template <class T>
struct PackedLeaf {
    Family family;
    T gain, first, second;
    std::size_t width;
    const T *x, *x_norm;
    const T *c, *c_norm;
};

constexpr std::size_t rows_reflected = 8;  // rows that are reflected at once, in registers

// The direction (head, tail) of a reflection I - scale v v'.
template <class T>
struct Reflection {
    T head, scale;
    T tail[rows_reflected];
};

template <class T>
struct InstructionSet {
    const char* name;
    std::size_t row_panel, column_panel, lanes;
    std::size_t widest_direct;  // features up to which distances come from differences
    // tile[i, j] = k(x_i, c_j) for row panels [0, row_panels) and center panels [first, last); the tile starts at `first`
    using Fill = void(const PackedLeaf<T>&, std::size_t row_panels, std::size_t first, std::size_t last, T* tile,
                      std::size_t tile_stride);
    Fill* evaluate;
    // the profile alone, in place, of a tile of squared distances or inner products
    void (*apply_profile)(const PackedLeaf<T>&, std::size_t rows, std::size_t panels, T* tile, std::size_t tile_stride);
    // a = a + b, a * b, or a * value
    void (*combine)(Operation, T value, T* a, std::size_t a_stride, const T* b, std::size_t b_stride, std::size_t rows,
                    std::size_t columns);
    // sums[i, k] += sum_j tile[i, j] v[k, j], each sum spread over the lanes of a vector
    void (*multiply)(const T* tile, std::size_t tile_stride, std::size_t rows, std::size_t columns, const T* v,
                     std::size_t v_stride, std::size_t outputs, T* sums);
    // out[i] += the lanes of sums[i], which are then zero
    void (*gather)(T* sums, std::size_t count, double* out);
    // out[k, j] += sum_i tile[i, j] u[i, k], the sum over the tile's rows in T or in double
    using MultiplyTransposed = void(const T* tile, std::size_t tile_stride, std::size_t rows, std::size_t columns,
                                    const T* u, std::size_t outputs, double* out, std::size_t out_stride);
    MultiplyTransposed *multiply_transposed, *multiply_transposed_in_double;
    // the same before the profile
    Fill *squared_distances, *absolute_distances, *inner_products;
    // squared distances, with near[column panel, row panel] = whether some are small beside the norms
    void (*distances_noting_near)(const PackedLeaf<T>&, std::size_t row_panels, std::size_t first, std::size_t last,
                                  T* tile, std::size_t tile_stride, bool* near, std::size_t near_stride);
    // With q = gain tile: tile = weights phi'(q); returns the sum of tile q.
    double (*apply_slope)(const PackedLeaf<T>&, std::size_t rows, std::size_t panels, T* tile, std::size_t tile_stride,
                          const T* weights, std::size_t weight_stride);
    // With gap = x_i - c_j: in_centers += sum_i tile[i, j] gap, laid out as c, and in_scales += sum_ij tile[i, j] gap^2
    // feature by feature, spread over lanes; either may be null. With `near`, in_scales still lacks sum_i r_i x_i^2,
    // and r_i is added to row_sums[i], spread over lanes; without, points are subtracted everywhere. For families of
    // the absolute distance, which never have `near`, the signs of the gaps take their place and magnitudes that of
    // their squares.
    void (*add_gaps)(const PackedLeaf<T>&, std::size_t row_panels, std::size_t first, std::size_t last, const T* tile,
                     std::size_t tile_stride, const bool* near, std::size_t near_stride, double* in_centers,
                     double* in_scales, T* row_sums);
    void (*add_scaled)(std::size_t count, T factor, const T* x, T* y);  // y = y + factor x, at any address
    // one or two reflections of columns [first, columns), each of a row `a` and up to `rows_reflected` rows x, in whole
    // vectors: all have room for them, the rows x are aligned, and what stands there before `first` changes too
    void (*reflect)(std::size_t first, std::size_t columns, const Reflection<T>*, std::size_t steps, std::size_t rows,
                    T* a, std::size_t a_stride, T* x, std::size_t stride);
    // the waves of one block of structured frequencies at one point, which is overwritten; see WaveRequest
    void (*waves)(T* x, const T* signs, const T* radii, std::size_t length, T first, T* out);
    void (*exponential)(T* x, std::size_t count);  // x = 2^-x, x >= 0, count a multiple of 64
};

template <class T>
const InstructionSet<T>& chosen_instruction_set();
template <class T>
const InstructionSet<T>& baseline();
#if defined(GYRFALCON_X86)
template <class T>
const InstructionSet<T>& avx2();
template <class T>
const InstructionSet<T>& avx512();
#endif

}  // namespace gyrfalcon
