// Sums of a derivative over a tile: with g = a phi'(q), sums of g (x - c), for the centers, and of g (x - c)^2 feature
// by feature, for the length scales.
//
// Sums of g x, of g and of g x^2 give both with one instruction per entry and feature. Where a row and a center are
// near each other, though, g may be large, x - c small, and the rounding errors of large products all that is left:
// there, points are subtracted before they are multiplied.
#pragma once

#include <limits>

#include "distances.hpp"
#include "profiles.hpp"

namespace {

template <class T, Family family, int together>
GYRFALCON_INLINE void apply_slope_to(const PackedLeaf<T>& leaf, T* entries, const T* weights,
                                     Pack<T, together>& total) {
    constexpr T largest = T(1) / std::numeric_limits<T>::min();  // beyond, zero times infinity would be NaN
    Pack<T, together> q, weight;
    for (int v = 0; v < together; ++v) {
        const Vector<T> scaled = load(entries + v * lanes<T>) * leaf.gain;
        q.part[v] = scaled < largest ? scaled : broadcast<T>(largest);
        weight.part[v] = load(weights + v * lanes<T>);
    }
    const Pack<T, together> g = weight * slope<family>(q, leaf.first);
    total = total + g * q;
    for (int v = 0; v < together; ++v) store(entries + v * lanes<T>, g.part[v]);
}

template <class T, int n>
GYRFALCON_INLINE double sum_all(const Pack<T, n>& a) {
    double total = 0;
    for (const Vector<T>& part : a.part) total += static_cast<double>(sum_lanes<T>(part));
    return total;
}

template <class T, Family family>
double apply_slope_of(const PackedLeaf<T>& leaf, size_t rows, size_t panels, T* tile, size_t stride, const T* weights,
                      size_t weight_stride) {
    Pack<T, 2 * vectors_in_registers> pairs{};
    Pack<T, vectors_in_registers> last{};
    for (size_t i = 0; i < rows; ++i, tile += stride, weights += weight_stride) {
        for (size_t p = 0; p + 1 < panels; p += 2)
            apply_slope_to<T, family>(leaf, tile + p * panel<T>, weights + p * panel<T>, pairs);
        if (panels % 2)
            apply_slope_to<T, family>(leaf, tile + (panels - 1) * panel<T>, weights + (panels - 1) * panel<T>, last);
    }
    return sum_all(pairs) + sum_all(last);
}

template <class T>
double apply_slope(const PackedLeaf<T>& leaf, size_t rows, size_t panels, T* tile, size_t stride, const T* weights,
                   size_t weight_stride) {
    switch (leaf.family) {
#define GYRFALCON_CASE(name, argument, slope) \
    case Family::name:                        \
        if constexpr (slope)                  \
            return apply_slope_of<T, Family::name>(leaf, rows, panels, tile, stride, weights, weight_stride); \
        break;
        GYRFALCON_FAMILIES(GYRFALCON_CASE)
#undef GYRFALCON_CASE
    }
    return 0;  // has_slope is false, and the door is shut
}

// w_j = sum_i g_ij and, spread over lanes, row_sums[i] += sum_j g_ij, over the row panels that are not near.
template <class T, bool rows>
GYRFALCON_INLINE void add_weights(size_t row_panels, const bool* near, const T* tile, size_t stride, T* row_sums,
                                  Vector<T> (&w)[vectors_in_registers]) {
    for (size_t p = 0; p < row_panels; ++p) {
        if (near[p]) continue;
        const T* block = tile + p * rows_in_registers * stride;
        T* block_sums = row_sums + p * rows_in_registers * lanes<T>;
        Vector<T> sum[vectors_in_registers] = {};
#pragma GCC unroll 16
        for (int r = 0; r < rows_in_registers; ++r) {
            Vector<T> row{};
            for (int v = 0; v < vectors_in_registers; ++v) {
                const Vector<T> g = load(block + r * stride + v * lanes<T>);
                sum[v] += g;
                row += g;
            }
            if constexpr (rows) store(block_sums + r * lanes<T>, load(block_sums + r * lanes<T>) + row);
        }
        for (int v = 0; v < vectors_in_registers; ++v) w[v] += sum[v];
    }
}

// The derivative of g |gap|^2 / 2 or g |gap| in gap; the second is zero where points coincide.
template <class T, bool absolute>
GYRFALCON_INLINE Vector<T> weighted_gap(Vector<T> g, Vector<T> gap) {
    if constexpr (!absolute) return g * gap;
    using Wrapping = typename Simd<T>::Wrapping;
    const Wrapping sign = (Wrapping)gap & (Wrapping)broadcast<T>(T(-0.0));
    return (Vector<T>)(((Wrapping)g ^ sign) & (Wrapping)(gap != T(0)));
}

// `features` of them for one panel of centers, over the row panels of a tile that are near, or those that are not.
template <class T, bool difference, bool squares, bool absolute, int features>
GYRFALCON_INLINE void add_features(const T* x, const T* c, size_t width, size_t row_panels, const bool* near,
                                   const T* tile, size_t stride, const Vector<T> (&w)[vectors_in_registers],
                                   double* in_centers, double* in_scales) {
    Vector<T> center[features][vectors_in_registers], sum[features][vectors_in_registers], squared[features];
    for (int k = 0; k < features; ++k) {
        squared[k] = Vector<T>{};
        for (int v = 0; v < vectors_in_registers; ++v) {
            if constexpr (difference) center[k][v] = load(c + k * panel<T> + v * lanes<T>);
            sum[k][v] = Vector<T>{};
        }
    }
    for (size_t p = 0; p < row_panels; ++p, x += rows_in_registers * width, tile += rows_in_registers * stride) {
        if ((!near || near[p]) != difference) continue;
#pragma GCC unroll 2
        for (int r = 0; r < rows_in_registers; ++r) {
            Vector<T> g[vectors_in_registers];
            for (int v = 0; v < vectors_in_registers; ++v) g[v] = load(tile + r * stride + v * lanes<T>);
#pragma GCC unroll 8
            for (int k = 0; k < features; ++k) {
                const T point = x[k * rows_in_registers + r];
#pragma GCC unroll 2
                for (int v = 0; v < vectors_in_registers; ++v) {
                    if constexpr (!difference) {
                        sum[k][v] += g[v] * point;
                    } else if constexpr (!squares) {
                        sum[k][v] += weighted_gap<T, absolute>(g[v], point - center[k][v]);
                    } else {
                        const Vector<T> gap = point - center[k][v], weighted = weighted_gap<T, absolute>(g[v], gap);
                        sum[k][v] += weighted;
                        squared[k] += weighted * gap;
                    }
                }
            }
        }
    }
    for (int k = 0; k < features; ++k) {
        for (int v = 0; v < vectors_in_registers; ++v) {
            Vector<T> gaps = sum[k][v];
            if constexpr (!difference) {
                const Vector<T> here = load(c + k * panel<T> + v * lanes<T>);
                gaps -= w[v] * here;
                if constexpr (squares) squared[k] -= here * (sum[k][v] + gaps);
            }
            if (in_centers) add_to<T>(in_centers + k * panel<T> + v * lanes<T>, gaps);
        }
        if constexpr (squares) add_to<T>(in_scales + k * lanes<T>, squared[k]);
    }
}

template <class T, bool difference, bool squares, bool absolute>
void add_panel(const PackedLeaf<T>& leaf, size_t column, size_t row_panels, const bool* near, const T* tile,
               size_t stride, const Vector<T> (&w)[vectors_in_registers], double* in_centers, double* in_scales) {
    constexpr int most = difference ? 3 : 6;  // what the registers hold
    for (size_t k = 0; k < leaf.width;) {
        const auto add = [&]<int features>() {
            const size_t place = (column * leaf.width + k) * panel<T>;
            add_features<T, difference, squares, absolute, features>(
                leaf.x + k * rows_in_registers, leaf.c + place, leaf.width, row_panels, near, tile, stride, w,
                in_centers ? in_centers + place : nullptr, squares ? in_scales + k * lanes<T> : nullptr);
            k += features;
        };
        const size_t left = leaf.width - k;
        if (left >= most && left != 4)
            add.template operator()<most>();
        else if (left >= 4)  // three and one would be slower: a single feature does not fill the pipelines
            add.template operator()<4>();
        else if (left == 3)
            add.template operator()<3>();
        else if (left == 2)
            add.template operator()<2>();
        else
            add.template operator()<1>();
    }
}

template <class T, bool squares, bool absolute>
void add_gaps_of(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, const T* tile, size_t stride,
                 const bool* near, size_t near_stride, double* in_centers, double* in_scales, T* row_sums) {
    for (size_t column = first; column < last; ++column, tile += panel<T>) {
        Vector<T> w[vectors_in_registers] = {};
        bool some_near = !near;
        if (near) {
            for (size_t p = 0; p < row_panels; ++p) some_near |= near[p];
            add_weights<T, squares>(row_panels, near, tile, stride, row_sums, w);
            add_panel<T, false, squares, false>(leaf, column, row_panels, near, tile, stride, w, in_centers, in_scales);
        }
        if (some_near)
            add_panel<T, true, squares, absolute>(leaf, column, row_panels, near, tile, stride, w, in_centers,
                                                  in_scales);
        if (near) near += near_stride;
    }
}

template <class T>
void add_gaps(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, const T* tile, size_t stride,
              const bool* near, size_t near_stride, double* in_centers, double* in_scales, T* row_sums) {
    const auto add = [&]<bool squares, bool absolute>() {
        add_gaps_of<T, squares, absolute>(leaf, row_panels, first, last, tile, stride, near, near_stride, in_centers,
                                          in_scales, row_sums);
    };
    const bool absolute = gyrfalcon::traits(leaf.family).argument == Argument::absolute_distance;
    if (in_scales)
        absolute ? add.template operator()<true, true>() : add.template operator()<true, false>();
    else
        absolute ? add.template operator()<false, true>() : add.template operator()<false, false>();
}

}  // namespace
