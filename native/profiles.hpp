// The scalar part of each kernel family: from a distance, squared or absolute, or an inner product, times the leaf's
// gain, to a value.
// To add a family, list it in families.hpp and write its profile here, and its slope if the list says that it has one.
#pragma once

#include "core.hpp"
#include "simd.hpp"

namespace {

using gyrfalcon::Family;

constexpr double log2_e = 1.4426950408889634074;
constexpr double ln_2 = 0.69314718055994530942;

template <Family family, class T, int n>
GYRFALCON_INLINE Pack<T, n> profile(const Pack<T, n>& q, T first, [[maybe_unused]] T second) {
    if constexpr (family == Family::gaussian) {
        return exp2_of_negative(-q);
    } else if constexpr (family == Family::laplacian) {
        return exp2_of_negative(-square_root(q));
    } else if constexpr (family == Family::matern32) {
        const Pack<T, n> r = square_root(q);
        return exp2_of_negative(r * T(-log2_e), r + T(1));
    } else if constexpr (family == Family::matern52) {
        const Pack<T, n> r = square_root(q);
        return exp2_of_negative(r * T(-log2_e), q * T(1.0 / 3) + r + T(1));
    } else if constexpr (family == Family::exponential_power) {  // first: half the power
        const Pack<T, n> power = exp2_clamped(log2_of_positive(q) * first);
        return exp2_of_negative(T(-log2_e) * select(q == T(0), q, power));
    } else if constexpr (family == Family::rational_quadratic) {  // first: alpha
        return exp2_of_negative(log2_of_one_plus(q) * -first);
    } else if constexpr (family == Family::product_laplacian) {
        return exp2_of_negative(-q);
    } else if constexpr (family == Family::product_laplacian_power) {  // first: the power
        const Pack<T, n> power = exp2_clamped(log2_of_positive(q) * first);
        return exp2_of_negative(T(-log2_e) * select(q == T(0), q, power));
    } else if constexpr (family == Family::cauchy) {
        return T(1) / (q + T(1));
    } else if constexpr (family == Family::linear) {
        return q;
    } else if constexpr (family == Family::polynomial) {  // first: offset, second: degree
        const Pack<T, n> base = q + first;
        Pack<T, n> power = base;
        for (int i = 1; i < static_cast<int>(second); ++i) power = power * base;
        return power;
    } else if constexpr (family == Family::sigmoid) {
        return hyperbolic_tangent(q + first);
    } else {  // q in turns; first: the root of two times the amplitude
        static_assert(family == Family::fourier, "the family has no profile");
        return cosine_of_turns(q - T(1.0 / 8)) * first;
    }
}

// The profile's derivative in q. Where it is infinite at zero, it only ever meets a factor of zero there.
template <Family family, class T, int n>
GYRFALCON_INLINE Pack<T, n> slope(const Pack<T, n>& q, [[maybe_unused]] T first) {
    if constexpr (family == Family::gaussian || family == Family::product_laplacian) {
        return exp2_of_negative(-q) * T(-ln_2);
    } else if constexpr (family == Family::laplacian) {
        const Pack<T, n> r = square_root(q);
        return select(q == T(0), q, exp2_of_negative(-r) * T(-ln_2 / 2) / r);
    } else if constexpr (family == Family::product_laplacian_power) {
        const Pack<T, n> power = exp2_clamped(log2_of_positive(q) * first);
        return select(q == T(0), q, exp2_of_negative(T(-log2_e) * power) * -first * (power / q));
    } else if constexpr (family == Family::matern32) {
        return exp2_of_negative(square_root(q) * T(-log2_e)) * T(-1.0 / 2);
    } else {
        static_assert(family == Family::matern52, "the family has no slope");
        const Pack<T, n> r = square_root(q);
        return (r + T(1)) * exp2_of_negative(r * T(-log2_e)) * T(-1.0 / 6);
    }
}

}  // namespace
