// Squared distances and inner products, built as a matrix product is: a block of `row_panel` rows by two or more
// vectors of centers lives in registers while the features stream past.
#pragma once

#include "simd.hpp"
#include "tile.hpp"

namespace {

using gyrfalcon::Argument;
using gyrfalcon::PackedLeaf;
using std::size_t;

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int rows_in_registers = 12;
#else
constexpr int rows_in_registers = 6;
#endif
constexpr int vectors_in_registers = 2;

template <class T>
constexpr size_t panel = vectors_in_registers * lanes<T>;

// Up to here the difference of two points is squared directly: exact, and as fast while it shares the pipelines with
// the profile; beyond, |x|^2 + |c|^2 - 2 x.c is cheaper.
constexpr size_t widest_direct = 32;
// Features per pass, so that a panel of centers stays in the first-level cache while the rows of a block pass by.
template <class T>
constexpr size_t depth = 1024 / sizeof(T);
// |x|^2 + |c|^2 - 2 x.c has lost digits where it falls below this part of |x|^2 + |c|^2.
constexpr double cancellation = 1.0 / 32;

// Where |x - c|^2 falls below this part of |x|^2 + |c|^2, sums of g x - g c would lose too many digits.
template <class T>
constexpr T nearness = sizeof(T) == 4 ? T(1) / (1 << 6) : T(1) / (1 << 16);

template <class T>
using Registers = Vector<T>[rows_in_registers][vectors_in_registers];

// With AVX-512 a subtraction can broadcast a number from memory by itself. Zen 4 then subtracts and multiplies at its
// full rate, while a broadcast into a register takes the place of a subtraction; so each vector has its own name for x.
#if defined(__AVX512F__)
constexpr bool broadcasts_anew = true;
#else
constexpr bool broadcasts_anew = false;
#endif

enum class Term { product, square, magnitude };  // of x and c, or of their difference

template <class T>
GYRFALCON_INLINE Vector<T> magnitude_of(Vector<T> v) {
    using Wrapping = typename Simd<T>::Wrapping;
    return (Vector<T>)((Wrapping)v & ~(Wrapping)broadcast<T>(T(-0.0)));
}

template <class T, Term term>
GYRFALCON_INLINE void accumulate(const T* x, const T* c, size_t width, Registers<T>& sum) {
    const T* names[vectors_in_registers];
    for (auto& name : names) name = term != Term::product && broadcasts_anew ? another_name(x) : x;
#pragma GCC unroll 2
    for (size_t k = 0; k < width; ++k, c += panel<T>) {
        Vector<T> center[vectors_in_registers];
#pragma GCC unroll 8
        for (int v = 0; v < vectors_in_registers; ++v) center[v] = load(c + v * lanes<T>);
#pragma GCC unroll 16
        for (int r = 0; r < rows_in_registers; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < vectors_in_registers; ++v) {
                if constexpr (term == Term::product) {
                    sum[r][v] += center[v] * names[v][r];
                } else {
                    const Vector<T> gap = center[v] - names[v][r];
                    if constexpr (term == Term::square)
                        sum[r][v] += gap * gap;
                    else
                        sum[r][v] += magnitude_of<T>(gap);
                }
            }
#pragma GCC unroll 8
        for (auto& name : names) name += rows_in_registers;
    }
}

template <class T>
GYRFALCON_INLINE void load_block(const T* block, size_t stride, Registers<T>& sum) {
#pragma GCC unroll 16
    for (int r = 0; r < rows_in_registers; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors_in_registers; ++v) sum[r][v] = load(block + r * stride + v * lanes<T>);
}

template <class T>
GYRFALCON_INLINE void store_block(T* block, size_t stride, const Registers<T>& sum) {
#pragma GCC unroll 16
    for (int r = 0; r < rows_in_registers; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors_in_registers; ++v) store(block + r * stride + v * lanes<T>, sum[r][v]);
}

// One block by differences, apart from the others so that these rare ones do not take their registers.
template <class T>
__attribute__((noinline)) void fill_block_by_differences(const T* x, const T* c, size_t width, T* block,
                                                         size_t stride) {
    Registers<T> sum = {};
    accumulate<T, Term::square>(x, c, width, sum);
    store_block(block, stride, sum);
}

// Squared distances from inner products; where cancellation shows, the whole block again by differences.
template <class T>
GYRFALCON_INLINE void distances(const PackedLeaf<T>& leaf, size_t row, size_t column, T* block, size_t stride,
                                Registers<T>& sum) {
    const T* x_norm = leaf.x_norm + row * rows_in_registers;
    const T* c_norm = leaf.c_norm + column * panel<T>;
    Bits<T> lost{};
#pragma GCC unroll 8
    for (int v = 0; v < vectors_in_registers; ++v) {
        const Vector<T> norm = load(c_norm + v * lanes<T>);
#pragma GCC unroll 16
        for (int r = 0; r < rows_in_registers; ++r) {
            const Vector<T> both = norm + x_norm[r];
            sum[r][v] = both - T(2) * sum[r][v];
            lost |= ~(sum[r][v] >= both * T(cancellation));  // true for NaN too
        }
    }
    if (__builtin_expect(any(lost), 0)) {
        fill_block_by_differences(leaf.x + row * leaf.width * rows_in_registers,
                                  leaf.c + column * leaf.width * panel<T>, leaf.width, block, stride);
        load_block(block, stride, sum);
    }
}

// Whether some of these squared distances are small beside the norms of their points.
template <class T>
GYRFALCON_INLINE bool any_near(const PackedLeaf<T>& leaf, size_t row, size_t column, const Registers<T>& sum) {
    const T* x_norm = leaf.x_norm + row * rows_in_registers;
    const T* c_norm = leaf.c_norm + column * panel<T>;
    Bits<T> found{};
    for (int v = 0; v < vectors_in_registers; ++v) {
        const Vector<T> norm = load(c_norm + v * lanes<T>) * nearness<T>;
#pragma GCC unroll 16
        for (int r = 0; r < rows_in_registers; ++r) found |= ~(sum[r][v] >= norm + x_norm[r] * nearness<T>);
    }
    return any(found);
}

// tile = distances or inner products for row panels [0, row_panels) and center panels [first, last), and a note for
// each pair of panels whether some of their points are near each other.
template <class T, Argument argument, Term term, bool notes>
void fill_tile_by(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, T* tile, size_t stride,
                  bool* near, size_t near_stride) {
    for (size_t k = 0; k == 0 || k < leaf.width; k += depth<T>) {
        const size_t width = leaf.width - k < depth<T> ? leaf.width - k : depth<T>;
        for (size_t column = first; column < last; ++column) {
            const T* c = leaf.c + (column * leaf.width + k) * panel<T>;
            for (size_t row = 0; row < row_panels; ++row) {
                const T* x = leaf.x + (row * leaf.width + k) * rows_in_registers;
                T* block = tile + row * rows_in_registers * stride + (column - first) * panel<T>;
                Registers<T> sum = {};
                if (term != Term::square && k != 0) load_block(block, stride, sum);  // squares take a single pass
                accumulate<T, term>(x, c, width, sum);
                if (argument == Argument::squared_distance && term == Term::product && k + width == leaf.width)
                    distances(leaf, row, column, block, stride, sum);
                if (notes && k + width == leaf.width)
                    near[(column - first) * near_stride + row] = any_near(leaf, row, column, sum);
                store_block(block, stride, sum);
            }
        }
    }
}

template <class T, Argument argument, bool notes>
void fill_tile(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, T* tile, size_t stride,
               bool* near, size_t near_stride) {
    static_assert(widest_direct <= depth<T>);
    constexpr Term sums = argument == Argument::absolute_distance ? Term::magnitude : Term::product;
    if (argument == Argument::squared_distance && leaf.width <= widest_direct)
        fill_tile_by<T, argument, Term::square, notes>(leaf, row_panels, first, last, tile, stride, near, near_stride);
    else
        fill_tile_by<T, argument, sums, notes>(leaf, row_panels, first, last, tile, stride, near, near_stride);
}

template <class T, Argument argument>
void fill(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, T* tile, size_t stride) {
    fill_tile<T, argument, false>(leaf, row_panels, first, last, tile, stride, nullptr, 0);
}

template <class T>
void fill_noting(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, T* tile, size_t stride,
                 bool* near, size_t near_stride) {
    fill_tile<T, Argument::squared_distance, true>(leaf, row_panels, first, last, tile, stride, near, near_stride);
}

}  // namespace
