// The scalar part of each kernel family: from a squared distance or inner product, times the leaf's gain, to a value.
// To add a family: name it in core.hpp, write its profile here, list it in tile.cpp.
#pragma once

#include "core.hpp"
#include "simd.hpp"

namespace {

using gyrfalcon::Family;

constexpr double log2_e = 1.4426950408889634074;

template <class T, Family family>
GYRFALCON_INLINE Vector<T> profile(Vector<T> q, T first, [[maybe_unused]] T second) {
    if constexpr (family == Family::gaussian) {
        return exp2_of_negative<T>(-q);
    } else if constexpr (family == Family::laplacian) {
        return exp2_of_negative<T>(-square_root(q));
    } else if constexpr (family == Family::matern32) {
        const Vector<T> r = square_root(q);
        return (r + T(1)) * exp2_of_negative<T>(r * T(-log2_e));
    } else if constexpr (family == Family::matern52) {
        const Vector<T> r = square_root(q);
        return (q * T(1.0 / 3) + r + T(1)) * exp2_of_negative<T>(r * T(-log2_e));
    } else if constexpr (family == Family::exponential_power) {  // first: half the power
        const Vector<T> power = exp2_clamped<T>(log2_of_positive<T>(q) * first);
        return exp2_of_negative<T>(T(-log2_e) * (q == T(0) ? q : power));
    } else if constexpr (family == Family::rational_quadratic) {  // first: alpha
        return exp2_of_negative<T>(log2_of_one_plus<T>(q) * -first);
    } else if constexpr (family == Family::cauchy) {
        return T(1) / (q + T(1));
    } else if constexpr (family == Family::linear) {
        return q;
    } else if constexpr (family == Family::polynomial) {  // first: offset, second: degree
        const Vector<T> base = q + first;
        Vector<T> power = base;
        for (int i = 1; i < static_cast<int>(second); ++i) power = power * base;
        return power;
    } else {
        return hyperbolic_tangent<T>(q + first);
    }
}

}  // namespace
