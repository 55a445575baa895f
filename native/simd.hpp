// The one place that knows what a vector register is.
//
// Vectors are GCC/Clang vector extensions, so the same source becomes SSE2, AVX2, AVX-512 or NEON by the flags it is
// compiled with; GYRFALCON_VECTOR_BYTES says how wide. Everything here has internal linkage: the files that include it
// are compiled once per instruction set, and a shared symbol could otherwise end up in the wrong one.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define GYRFALCON_INLINE inline __attribute__((always_inline))

namespace {

constexpr int vector_bytes = GYRFALCON_VECTOR_BYTES;

template <class T>
struct Simd;

template <>
struct Simd<float> {
    typedef float Vector __attribute__((vector_size(vector_bytes)));
    typedef std::int32_t Bits __attribute__((vector_size(vector_bytes)));
    typedef std::uint32_t Wrapping __attribute__((vector_size(vector_bytes)));  // where overflow is meant
    static constexpr int mantissa_bits = 23;
    static constexpr float round_magic = 0x1.8p23f;   // adding it rounds to the nearest integer
    static constexpr float smallest_exponent = -125;  // that stays normal times the root of a half
    static constexpr std::int32_t sqrt_half = 0x3f3504f3;
};

template <>
struct Simd<double> {
    typedef double Vector __attribute__((vector_size(vector_bytes)));
    typedef std::int64_t Bits __attribute__((vector_size(vector_bytes)));
    typedef std::uint64_t Wrapping __attribute__((vector_size(vector_bytes)));
    static constexpr int mantissa_bits = 52;
    static constexpr double round_magic = 0x1.8p52;
    static constexpr double smallest_exponent = -1021;
    static constexpr std::int64_t sqrt_half = 0x3fe6a09e667f3bcd;
};

template <class T>
using Vector = typename Simd<T>::Vector;
template <class T>
using Bits = typename Simd<T>::Bits;
template <class T>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

template <class T>
GYRFALCON_INLINE Vector<T> load(const T* p) {
    return *reinterpret_cast<const Vector<T>*>(p);
}

template <class T>
GYRFALCON_INLINE void store(T* p, Vector<T> v) {
    *reinterpret_cast<Vector<T>*>(p) = v;
}

// Half a vector of floats as doubles; GCC makes many instructions of the portable form.
GYRFALCON_INLINE Vector<double> load_as_doubles(const float* p) {
#if defined(__AVX512F__) && GYRFALCON_VECTOR_BYTES == 64
    return (Vector<double>)_mm512_cvtps_pd(_mm256_load_ps(p));
#elif defined(__AVX__) && GYRFALCON_VECTOR_BYTES == 32
    return (Vector<double>)_mm256_cvtps_pd(_mm_load_ps(p));
#else
    typedef float Half __attribute__((vector_size(vector_bytes / 2)));
    return __builtin_convertvector(*reinterpret_cast<const Half*>(p), Vector<double>);
#endif
}

// The same numbers in a type at least as wide.
template <class To, class From>
GYRFALCON_INLINE Vector<To> load_as(const From* p) {
    if constexpr (sizeof(To) == sizeof(From))
        return load(p);
    else
        return load_as_doubles(p);
}

template <class T>
GYRFALCON_INLINE Vector<T> broadcast(T x) {
    Vector<T> v;
    for (int i = 0; i < lanes<T>; ++i) v[i] = x;
    return v;
}

// The same address, but the compiler does not know it, so that it loads again what it has already loaded.
template <class T>
GYRFALCON_INLINE const T* another_name(const T* p) {
    __asm__("" : "+r"(p));
    return p;
}

template <class T>
GYRFALCON_INLINE T sum_lanes(Vector<T> v) {
    T lane[lanes<T>];
    std::memcpy(lane, &v, sizeof(v));
    for (int width = lanes<T> / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
    return lane[0];
}

// out[i] += v[i]
template <class T>
GYRFALCON_INLINE void add_to(double* out, Vector<T> v) {
    alignas(vector_bytes) T lane[lanes<T>];
    store(lane, v);
    for (int i = 0; i < lanes<T>; i += lanes<double>) store(out + i, load(out + i) + load_as<double>(lane + i));
}

template <class B>
GYRFALCON_INLINE bool any(B mask) {
    std::int64_t word[vector_bytes / 8], all = 0;
    std::memcpy(word, &mask, sizeof(mask));
    for (std::int64_t w : word) all |= w;
    return all != 0;
}

GYRFALCON_INLINE Vector<float> square_root(Vector<float> v) {
#if defined(__AVX512F__) && GYRFALCON_VECTOR_BYTES == 64
    return (Vector<float>)_mm512_sqrt_ps((__m512)v);
#elif defined(__AVX__) && GYRFALCON_VECTOR_BYTES == 32
    return (Vector<float>)_mm256_sqrt_ps((__m256)v);
#elif defined(__SSE2__) && GYRFALCON_VECTOR_BYTES == 16
    return (Vector<float>)_mm_sqrt_ps((__m128)v);
#elif defined(__aarch64__) && GYRFALCON_VECTOR_BYTES == 16
    return (Vector<float>)vsqrtq_f32((float32x4_t)v);
#else
    for (int i = 0; i < lanes<float>; ++i) v[i] = __builtin_sqrtf(v[i]);
    return v;
#endif
}

GYRFALCON_INLINE Vector<double> square_root(Vector<double> v) {
#if defined(__AVX512F__) && GYRFALCON_VECTOR_BYTES == 64
    return (Vector<double>)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX__) && GYRFALCON_VECTOR_BYTES == 32
    return (Vector<double>)_mm256_sqrt_pd((__m256d)v);
#elif defined(__SSE2__) && GYRFALCON_VECTOR_BYTES == 16
    return (Vector<double>)_mm_sqrt_pd((__m128d)v);
#elif defined(__aarch64__) && GYRFALCON_VECTOR_BYTES == 16
    return (Vector<double>)vsqrtq_f64((float64x2_t)v);
#else
    for (int i = 0; i < lanes<double>; ++i) v[i] = __builtin_sqrt(v[i]);
    return v;
#endif
}

// Several vectors treated as one value. Formulas written for a pack interleave the instructions of its parts, which
// hides their latency; a chain of dependent instructions on one vector at a time would not fill the pipelines.
template <class T, int n>
struct Pack {
    Vector<T> part[n];
};

template <class T, int n>
struct Mask {
    Bits<T> part[n];
};

#define GYRFALCON_FOR_PARTS _Pragma("GCC unroll 8") for (int i = 0; i < n; ++i)
#define GYRFALCON_OPERATOR(op)                                                           \
    template <class T, int n>                                                            \
    GYRFALCON_INLINE Pack<T, n> operator op(const Pack<T, n>& a, const Pack<T, n>& b) {  \
        Pack<T, n> result;                                                               \
        GYRFALCON_FOR_PARTS result.part[i] = a.part[i] op b.part[i];                     \
        return result;                                                                   \
    }                                                                                    \
    template <class T, int n>                                                            \
    GYRFALCON_INLINE Pack<T, n> operator op(const Pack<T, n>& a, T b) {                  \
        Pack<T, n> result;                                                               \
        GYRFALCON_FOR_PARTS result.part[i] = a.part[i] op b;                             \
        return result;                                                                   \
    }                                                                                    \
    template <class T, int n>                                                            \
    GYRFALCON_INLINE Pack<T, n> operator op(T a, const Pack<T, n>& b) {                  \
        Pack<T, n> result;                                                               \
        GYRFALCON_FOR_PARTS result.part[i] = a op b.part[i];                             \
        return result;                                                                   \
    }
GYRFALCON_OPERATOR(+)
GYRFALCON_OPERATOR(-)
GYRFALCON_OPERATOR(*)
GYRFALCON_OPERATOR(/)
#undef GYRFALCON_OPERATOR

#define GYRFALCON_COMPARISON(op)                                         \
    template <class T, int n>                                            \
    GYRFALCON_INLINE Mask<T, n> operator op(const Pack<T, n>& a, T b) {  \
        Mask<T, n> result;                                               \
        GYRFALCON_FOR_PARTS result.part[i] = a.part[i] op b;             \
        return result;                                                   \
    }
GYRFALCON_COMPARISON(<)
GYRFALCON_COMPARISON(>=)
GYRFALCON_COMPARISON(==)
#undef GYRFALCON_COMPARISON

template <class T, int n>
GYRFALCON_INLINE Pack<T, n> operator-(const Pack<T, n>& a) {
    Pack<T, n> result;
    GYRFALCON_FOR_PARTS result.part[i] = -a.part[i];
    return result;
}

template <class T, int n>
GYRFALCON_INLINE Pack<T, n> select(const Mask<T, n>& mask, const Pack<T, n>& a, const Pack<T, n>& b) {
    Pack<T, n> result;
    GYRFALCON_FOR_PARTS result.part[i] = mask.part[i] ? a.part[i] : b.part[i];
    return result;
}

template <class T, int n>
GYRFALCON_INLINE Pack<T, n> square_root(const Pack<T, n>& a) {
    Pack<T, n> result;
    GYRFALCON_FOR_PARTS result.part[i] = square_root(a.part[i]);
    return result;
}

template <class T, int n, int terms>
GYRFALCON_INLINE Pack<T, n> horner(const Pack<T, n>& x, const T (&coefficient)[terms]) {
    Pack<T, n> p = x * coefficient[terms - 1] + coefficient[terms - 2];
#pragma GCC unroll 16
    for (int k = terms - 3; k >= 0; --k) p = p * x + coefficient[k];
    return p;
}

// Coefficients are near-minimax fits (Chebyshev interpolation in 40 digits); the first of exp2 is exactly one, so
// that a kernel is exactly one at distance zero.
template <class T>
struct Fit;

template <>
struct Fit<float> {  // relative errors 9e-8, 7e-10, 5e-10, 7e-9: one unit in the last place, and below half of one
    static constexpr float exp2[] = {1.0f,           0.693146977478f,  0.240222421406f,
                                     0.05550734029f, 0.00967151089137f, 0.00132646353383f};
    static constexpr float log2[] = {2.8853900798033f, 0.96179883880211f, 0.57671518601902f, 0.43171769745887f};
    static constexpr float tanh[] = {0.99999999957726f, -0.33333316061414f, 0.13332199490112f, -0.05370609452575f,
                                     0.01936030859551f};
    static constexpr float sine[] = {6.28318528015f, -41.3416806133f, 81.6024763689f, -76.5811726443f, 39.7598270853f};
};

template <>
struct Fit<double> {  // relative errors 6e-16, 1e-18, 9e-18, 4e-19
    static constexpr double exp2[] = {1.0,
                                      0.69314718055994615897,
                                      0.24022650695910076139,
                                      0.055504108664651672007,
                                      0.0096181291076186655706,
                                      0.0013333558200794592645,
                                      0.00015403530424776527587,
                                      0.000015252672924850736404,
                                      1.3215451633221434374e-6,
                                      1.0205905413765595794e-7,
                                      7.0709778665081385558e-9};
    static constexpr double log2[] = {2.8853900817779268115,  0.96179669392598972877, 0.5770780163455202295,
                                      0.41219858584090053448, 0.32059853491395986095, 0.26233435250418301904,
                                      0.22091308423117679618, 0.21365895694319269427};
    static constexpr double tanh[] = {0.9999999999999999909,   -0.33333333333332129433, 0.13333333333070852257,
                                      -0.05396825374761495753, 0.02186947922841551624,  -0.008863014364175524069,
                                      0.0035890268905966949744, -0.0014302639288521508309, 0.00047380894711132857795};
    static constexpr double sine[] = {6.2831853071795864756,  -41.341702240399756862, 81.605249276073615183,
                                      -76.705859752824919209, 42.05869392542868225,   -15.094641676117900093,
                                      3.8199280942271642021,  -0.71773379214134533133, 0.10089695501646811163};
};

// value times 2^whole where shifted >= least, zero elsewhere; whole is in the lowest bits of shifted.
template <class T>
GYRFALCON_INLINE Vector<T> times_power(Vector<T> value, Vector<T> shifted, T least) {
    using Wrapping = typename Simd<T>::Wrapping;
    const Wrapping exponent = (Wrapping)shifted << Simd<T>::mantissa_bits;
#if defined(__AVX512F__) && GYRFALCON_VECTOR_BYTES == 64  // the sum is masked by the instruction that makes it
    if constexpr (sizeof(T) == 4) {
        const __mmask16 kept = _mm512_cmp_ps_mask((__m512)shifted, _mm512_set1_ps(least), _CMP_GE_OQ);
        return (Vector<T>)_mm512_maskz_add_epi32(kept, (__m512i)value, (__m512i)exponent);
    } else {
        const __mmask8 kept = _mm512_cmp_pd_mask((__m512d)shifted, _mm512_set1_pd(least), _CMP_GE_OQ);
        return (Vector<T>)_mm512_maskz_add_epi64(kept, (__m512i)value, (__m512i)exponent);
    }
#else
    return (Vector<T>)(((Wrapping)value + exponent) & (Wrapping)(shifted >= least));
#endif
}

// 2^x for x <= 0, times a factor if there is one; zero where 2^x would be subnormal, or nearly, even if the factor is
// infinite there. Only sums take x, so that a product behind it becomes part of them.
template <class T, int n, class... Factor>
GYRFALCON_INLINE Pack<T, n> exp2_of_negative(const Pack<T, n>& x, const Factor&... factor) {
    constexpr T least = Simd<T>::round_magic + Simd<T>::smallest_exponent;
    const Pack<T, n> shifted = x + Simd<T>::round_magic;
    const Pack<T, n> fraction = x - (shifted - Simd<T>::round_magic);
    Pack<T, n> result = horner(fraction, Fit<T>::exp2);
    if constexpr (sizeof...(factor) == 0) {
        GYRFALCON_FOR_PARTS result.part[i] = times_power<T>(result.part[i], shifted.part[i], least);
    } else {
        using Wrapping = typename Simd<T>::Wrapping;
        GYRFALCON_FOR_PARTS result.part[i] =
            (Vector<T>)((Wrapping)result.part[i] + ((Wrapping)shifted.part[i] << Simd<T>::mantissa_bits));
        result = (result * ... * factor);
        GYRFALCON_FOR_PARTS result.part[i] =
            (Vector<T>)((Wrapping)result.part[i] & (Wrapping)(shifted.part[i] >= least));
    }
    return result;
}

// 2^x for any x, held inside the range of normal numbers.
template <class T, int n>
GYRFALCON_INLINE Pack<T, n> exp2_clamped(const Pack<T, n>& x) {
    const T most = -Simd<T>::smallest_exponent;
    const Mask<T, n> negative = x < T(0);
    const Pack<T, n> below = select(negative, x, -x);
    const Pack<T, n> small = exp2_of_negative(select(below >= -most, below, T(0) * x - most));
    return select(negative, small, T(1) / small);
}

// log2 of positive normal numbers.
template <class T, int n>
GYRFALCON_INLINE Pack<T, n> log2_of_positive(const Pack<T, n>& x) {
    const Vector<T> magic = broadcast<T>(Simd<T>::round_magic);
    Pack<T, n> mantissa, whole;
    GYRFALCON_FOR_PARTS {
        const Bits<T> bits = (Bits<T>)x.part[i];
        const Bits<T> exponent = (bits - Simd<T>::sqrt_half) >> Simd<T>::mantissa_bits;
        mantissa.part[i] = (Vector<T>)(bits - (exponent << Simd<T>::mantissa_bits));
        whole.part[i] = (Vector<T>)(exponent + (Bits<T>)magic) - magic;
    }
    const Pack<T, n> z = (mantissa - T(1)) / (mantissa + T(1));
    return whole + z * horner(z * z, Fit<T>::log2);
}

// log2(1 + x) for x >= 0, right also where 1 + x rounds to one.
template <class T, int n>
GYRFALCON_INLINE Pack<T, n> log2_of_one_plus(const Pack<T, n>& x) {
    const Pack<T, n> u = x + T(1), kept = u - T(1);
    const Pack<T, n> y = log2_of_positive(u) * (x / kept);
    return select(kept == T(0), x * T(1.4426950408889634074), y);
}

template <class T, int n>
GYRFALCON_INLINE Pack<T, n> hyperbolic_tangent(const Pack<T, n>& x) {
    const Mask<T, n> negative = x < T(0);
    const Pack<T, n> magnitude = select(negative, -x, x);
    const Pack<T, n> e = exp2_of_negative(magnitude * T(-2.8853900817779268147));
    const Pack<T, n> far = (T(1) - e) / (T(1) + e);
    const Pack<T, n> near = x * horner(x * x, Fit<T>::tanh);
    return select(magnitude < T(0.35), near, select(negative, -far, far));
}

// cos(2 pi x) as the sine of what is left to a quarter of a turn. In turns the nearest whole number is subtracted
// exactly; beyond those that leave no fraction of x, the result has no meaning but is at most one.
template <class T, int n>
GYRFALCON_INLINE Pack<T, n> cosine_of_turns(const Pack<T, n>& x) {
    Pack<T, n> part = x - ((x + Simd<T>::round_magic) - Simd<T>::round_magic);
    GYRFALCON_FOR_PARTS {
        using Wrapping = typename Simd<T>::Wrapping;
        part.part[i] = (Vector<T>)((Wrapping)part.part[i] << 1 >> 1);
    }
    const Pack<T, n> s = T(0.25) - select(part < T(0.5), part, part * T(0) + T(0.5));
    return s * horner(s * s, Fit<T>::sine);
}

#undef GYRFALCON_FOR_PARTS

}  // namespace
