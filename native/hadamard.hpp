// Waves of structured frequencies: three signed Walsh-Hadamard transforms in place of a product with a random matrix.
#pragma once

#include <utility>

#include "profiles.hpp"
#include "simd.hpp"

namespace {

using std::size_t;

template <class T>
using Lanes = std::make_integer_sequence<int, lanes<T>>;

template <class T, int stride, int... i>
GYRFALCON_INLINE Vector<T> butterfly_in(Vector<T> v, std::integer_sequence<int, i...>) {
    constexpr Vector<T> sign = {(i & stride ? T(-1) : T(1))...};
    return v * sign + __builtin_shufflevector(v, v, (i ^ stride)...);
}

// The transform of the lanes of a vector.
template <class T, int stride = 1>
GYRFALCON_INLINE Vector<T> transform_lanes(Vector<T> v) {
    if constexpr (stride < lanes<T>)
        return transform_lanes<T, 2 * stride>(butterfly_in<T, stride>(v, Lanes<T>{}));
    else
        return v;
}

template <class T>
GYRFALCON_INLINE void transform_four(Vector<T> (&v)[4]) {
    const Vector<T> a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = v[2] - v[3];
    v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
}

// x = H (signs * x), not normalized. The length is a power of two and a multiple of four vectors.
template <class T>
GYRFALCON_INLINE void signed_hadamard(T* x, const T* signs, size_t length) {
    for (size_t i = 0; i < length; i += 4 * lanes<T>) {
        Vector<T> v[4];
        for (int k = 0; k < 4; ++k)
            v[k] = transform_lanes<T>(load(x + i + k * lanes<T>) * load(signs + i + k * lanes<T>));
        transform_four<T>(v);
        for (int k = 0; k < 4; ++k) store(x + i + k * lanes<T>, v[k]);
    }
    size_t stride = 4 * lanes<T>;
    for (; 4 * stride <= length; stride *= 4)
        for (size_t block = 0; block < length; block += 4 * stride)
            for (size_t i = block; i < block + stride; i += lanes<T>) {
                Vector<T> v[4];
                for (int k = 0; k < 4; ++k) v[k] = load(x + i + k * stride);
                transform_four<T>(v);
                for (int k = 0; k < 4; ++k) store(x + i + k * stride, v[k]);
            }
    if (stride < length)
        for (size_t i = 0; i < stride; i += lanes<T>) {
            const Vector<T> a = load(x + i), b = load(x + i + stride);
            store(x + i, a + b);
            store(x + i + stride, a - b);
        }
}

template <class T, int... i>
GYRFALCON_INLINE void store_interleaved(T* out, Vector<T> a, Vector<T> b, std::integer_sequence<int, i...>) {
    store(out, (Vector<T>)__builtin_shufflevector(a, b, (i / 2 + i % 2 * lanes<T>)...));
    store(out + lanes<T>, (Vector<T>)__builtin_shufflevector(a, b, ((i + lanes<T>) / 2 + i % 2 * lanes<T>)...));
}

// With turns q = radii * H D1 H D2 H D3 x, for one point x, which is overwritten, and the signs of D3, D2 and D1 in
// turn: out[2j] and out[2j + 1] = first cos(2 pi (q_j - 1/8)) and first cos(2 pi (-q_j - 1/8)).
template <class T>
void waves(T* x, const T* signs, const T* radii, size_t length, T first, T* out) {
    for (size_t k = 0; k < 3; ++k) signed_hadamard(x, signs + k * length, length);
    constexpr int together = 2;
    for (size_t i = 0; i < length; i += together * lanes<T>) {
        Pack<T, 2 * together> q;
        for (int v = 0; v < together; ++v) {
            q.part[v] = load(x + i + v * lanes<T>) * load(radii + i + v * lanes<T>);
            q.part[together + v] = -q.part[v];
        }
        q = profile<Family::fourier>(q, first, T(0));
        for (int v = 0; v < together; ++v)
            store_interleaved<T>(out + 2 * (i + v * lanes<T>), q.part[v], q.part[together + v], Lanes<T>{});
    }
}

}  // namespace
