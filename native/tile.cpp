// Tiles of the kernel matrix. Compiled once per instruction set; see CMakeLists.txt for the flags of each.
//
// Vector lanes run along the centers, so neither product needs a shuffle: K V sums over lanes once per row, and K' U
// broadcasts U.

#include "tile.hpp"

#include "derivatives.hpp"
#include "distances.hpp"
#include "hadamard.hpp"
#include "profiles.hpp"
#include "reflections.hpp"

namespace {

using gyrfalcon::InstructionSet;
using gyrfalcon::Operation;

// The profile in place, over rows of a tile that are in the first-level cache: apart from the distances, because there
// the registers are full, while here several vectors at once keep the pipelines full.
template <class T, Family family, int together>
GYRFALCON_INLINE void apply_profile_to(const PackedLeaf<T>& leaf, T* entries) {
    Pack<T, together> values;
    for (int v = 0; v < together; ++v) values.part[v] = load(entries + v * lanes<T>) * leaf.gain;
    values = profile<family>(values, leaf.first, leaf.second);
    for (int v = 0; v < together; ++v) store(entries + v * lanes<T>, values.part[v]);
}

template <class T, Family family>
void apply_profile(const PackedLeaf<T>& leaf, size_t rows, size_t panels, T* tile, size_t stride) {
    for (size_t i = 0; i < rows; ++i, tile += stride) {
        for (size_t p = 0; p + 1 < panels; p += 2)
            apply_profile_to<T, family, 2 * vectors_in_registers>(leaf, tile + p * panel<T>);
        if (panels % 2) apply_profile_to<T, family, vectors_in_registers>(leaf, tile + (panels - 1) * panel<T>);
    }
}

template <class T, Family family>
void evaluate_family(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, T* tile, size_t stride) {
    fill<T, gyrfalcon::traits(family).argument>(leaf, row_panels, first, last, tile, stride);
    apply_profile<T, family>(leaf, row_panels * rows_in_registers, last - first, tile, stride);
}

template <class T>
void apply(const PackedLeaf<T>& leaf, size_t rows, size_t panels, T* tile, size_t stride) {
    switch (leaf.family) {
#define GYRFALCON_CASE(name, argument, slope) \
    case Family::name:                        \
        return apply_profile<T, Family::name>(leaf, rows, panels, tile, stride);
        GYRFALCON_FAMILIES(GYRFALCON_CASE)
#undef GYRFALCON_CASE
    }
}

template <class T>
void evaluate(const PackedLeaf<T>& leaf, size_t row_panels, size_t first, size_t last, T* tile, size_t stride) {
    switch (leaf.family) {
#define GYRFALCON_CASE(name, argument, slope) \
    case Family::name:                        \
        return evaluate_family<T, Family::name>(leaf, row_panels, first, last, tile, stride);
        GYRFALCON_FAMILIES(GYRFALCON_CASE)
#undef GYRFALCON_CASE
    }
}

template <class T>
void combine(Operation operation, T value, T* a, size_t a_stride, const T* b, size_t b_stride, size_t rows,
             size_t columns) {
    for (size_t i = 0; i < rows; ++i, a += a_stride, b += b_stride)
        for (size_t j = 0; j < columns; j += lanes<T>) {
            const Vector<T> left = load(a + j);
            store(a + j, operation == Operation::add        ? left + load(b + j)
                         : operation == Operation::multiply ? left * load(b + j)
                                                            : left * value);
        }
}

// Sums stay spread over the lanes of a vector; `gather` adds those up once per row, not once per tile.
template <class T, int outputs>
void multiply_outputs(const T* tile, size_t stride, size_t rows, size_t columns, const T* v, size_t v_stride, T* out,
                      size_t out_stride) {
    constexpr int at_once = outputs <= 2 ? 6 : rows_in_registers % 4 == 0 ? 4 : 3;  // divides row_panel, and so `rows`
    for (size_t i = 0; i < rows; i += at_once, tile += at_once * stride, out += at_once * out_stride) {
        Vector<T> sum[at_once][outputs];
#pragma GCC unroll 16
        for (int r = 0; r < at_once; ++r)
#pragma GCC unroll 16
            for (int k = 0; k < outputs; ++k) sum[r][k] = load(out + r * out_stride + k * lanes<T>);
        for (size_t j = 0; j < columns; j += lanes<T>) {
#pragma GCC unroll 16
            for (int r = 0; r < at_once; ++r) {
                const Vector<T> kernel = load(tile + r * stride + j);
#pragma GCC unroll 16
                for (int k = 0; k < outputs; ++k) sum[r][k] += kernel * load(v + k * v_stride + j);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < at_once; ++r)
#pragma GCC unroll 16
            for (int k = 0; k < outputs; ++k) store(out + r * out_stride + k * lanes<T>, sum[r][k]);
    }
}

template <class T>
void multiply(const T* tile, size_t stride, size_t rows, size_t columns, const T* v, size_t v_stride, size_t outputs,
              T* out) {
    const size_t out_stride = outputs * lanes<T>;
    for (size_t k = 0; k < outputs;) {
        const T* part = v + k * v_stride;
        T* sums = out + k * lanes<T>;
        const size_t left = outputs - k;
        if (left >= 4) {
            multiply_outputs<T, 4>(tile, stride, rows, columns, part, v_stride, sums, out_stride);
            k += 4;
        } else if (left >= 2) {
            multiply_outputs<T, 2>(tile, stride, rows, columns, part, v_stride, sums, out_stride);
            k += 2;
        } else {
            multiply_outputs<T, 1>(tile, stride, rows, columns, part, v_stride, sums, out_stride);
            k += 1;
        }
    }
}

template <class T>
void gather(T* sums, size_t count, double* out) {
    for (size_t i = 0; i < count; ++i) {
        out[i] += static_cast<double>(sum_lanes<T>(load(sums + i * lanes<T>)));
        store(sums + i * lanes<T>, Vector<T>{});
    }
}

// Sums over the rows of a block are taken in type Sum: T is fast, double keeps digits that a solver may need.
template <class T, class Sum, int outputs>
void transposed_outputs(const T* tile, size_t stride, size_t rows, size_t columns, const T* u, size_t u_stride,
                        double* out, size_t out_stride) {
    constexpr int vectors = panel<T> / lanes<Sum>;
    for (size_t j = 0; j < columns; j += panel<T>) {
        Vector<Sum> sum[outputs][vectors];
        for (auto& output : sum)
            for (auto& s : output) s = Vector<Sum>{};
        const T* kernel_row = tile + j;
        const T* u_row = u;
        for (size_t i = 0; i < rows; ++i, kernel_row += stride, u_row += u_stride) {
            Vector<Sum> kernel[vectors];
#pragma GCC unroll 16
            for (int v = 0; v < vectors; ++v) kernel[v] = load_as<Sum>(kernel_row + v * lanes<Sum>);
#pragma GCC unroll 16
            for (int k = 0; k < outputs; ++k)
                for (int v = 0; v < vectors; ++v) sum[k][v] += kernel[v] * static_cast<Sum>(u_row[k]);
        }
#pragma GCC unroll 16
        for (int k = 0; k < outputs; ++k)
            for (int v = 0; v < vectors; ++v) add_to<Sum>(out + k * out_stride + j + v * lanes<Sum>, sum[k][v]);
    }
}

template <class T, class Sum>
void multiply_transposed(const T* tile, size_t stride, size_t rows, size_t columns, const T* u, size_t outputs,
                         double* out, size_t out_stride) {
    constexpr int most = sizeof(Sum) == sizeof(T) ? 5 : 3;  // as many sums as the registers hold
    for (size_t k = 0; k < outputs;) {
        double* part = out + k * out_stride;
        const size_t left = outputs - k;
        if (left >= most) {
            transposed_outputs<T, Sum, most>(tile, stride, rows, columns, u + k, outputs, part, out_stride);
            k += most;
        } else if (left >= 2) {
            transposed_outputs<T, Sum, 2>(tile, stride, rows, columns, u + k, outputs, part, out_stride);
            k += 2;
        } else {
            transposed_outputs<T, Sum, 1>(tile, stride, rows, columns, u + k, outputs, part, out_stride);
            k += 1;
        }
    }
}

template <class T>
void add_scaled(size_t count, T factor, const T* __restrict x, T* __restrict y) {
    for (size_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

template <class T>
void exponential(T* x, size_t count) {
    constexpr int together = 4;
    for (size_t i = 0; i < count; i += together * lanes<T>) {
        Pack<T, together> values;
        for (int v = 0; v < together; ++v) values.part[v] = -load(x + i + v * lanes<T>);
        values = exp2_of_negative(values);
        for (int v = 0; v < together; ++v) store(x + i + v * lanes<T>, values.part[v]);
    }
}

template <class T>
constexpr InstructionSet<T> table = {GYRFALCON_ISA_NAME, rows_in_registers, panel<T>,   lanes<T>, widest_direct,
                                     evaluate<T>, apply<T>, combine<T>, multiply<T>, gather<T>,
                                     multiply_transposed<T, T>, multiply_transposed<T, double>,
                                     fill<T, Argument::squared_distance>, fill<T, Argument::absolute_distance>,
                                     fill<T, Argument::inner_product>, fill_noting<T>, apply_slope<T>, add_gaps<T>,
                                     add_scaled<T>, reflect<T>, waves<T>, exponential<T>};

}  // namespace

namespace gyrfalcon {

template <>
const InstructionSet<float>& GYRFALCON_ISA<float>() {
    return table<float>;
}

template <>
const InstructionSet<double>& GYRFALCON_ISA<double>() {
    return table<double>;
}

}  // namespace gyrfalcon
