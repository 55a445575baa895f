// What the compiled core offers, free of Python and of any instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "families.hpp"

namespace gyrfalcon {

// One kernel of the expression: profile(gain * s), where s is a distance or an inner product of z = map(x).
struct Leaf {
    Family family = Family::gaussian;
    double gain = 1, first = 0, second = 0;  // the profile's constants
    std::size_t width = 0;                   // length of z
    std::vector<double> shift;               // z = (x - shift) * scale, entrywise, or times the matrix
    std::vector<double> scale;               // width entries, or inputs x width where has_matrix
    bool has_matrix = false;
    std::size_t first_input = 0;             // x are the columns from here on, as many as there are shifts
};

// The expression in postfix order.
enum class Operation : int { leaf, add, multiply, scale };
constexpr const char* operation_names[] = {"leaf", "add", "multiply", "scale"};

struct Step {
    Operation operation = Operation::leaf;
    int leaf = 0;
    double value = 1;
};

struct Program {
    std::size_t inputs = 0;  // columns of X and C
    std::vector<Leaf> leaves;
    std::vector<Step> steps;
};

// A matrix as it lies in the caller's memory; strides count elements and may be zero or negative.
template <class T>
struct Strided {
    T* data = nullptr;
    std::size_t rows = 0, columns = 0;
    std::ptrdiff_t row_stride = 0, column_stride = 0;

    T& operator()(std::size_t i, std::size_t j) const {
        return data[static_cast<std::ptrdiff_t>(i) * row_stride + static_cast<std::ptrdiff_t>(j) * column_stride];
    }
    bool operator==(const Strided&) const = default;  // the same memory, not the same values
};

struct Execution {
    int threads = 1;
    std::size_t partial_bytes = 0;        // what the partial sums of transposed products may take
    std::function<bool()> interrupted;    // asked now and then by the calling thread
};

enum class Task : int { multiply, multiply_transposed, multiply_gram, evaluate };
constexpr const char* task_names[] = {"multiply", "multiply_transposed", "multiply_gram", "evaluate"};

// multiply             out (n x t) = K V
// multiply_transposed  out (m x t) = K' V, V has n rows
// multiply_gram        out (m x t) = K' diag(weights) K V
// evaluate             out (n x m) = K
// Throws Interrupted when the caller asked for it.
template <class T>
struct Request {
    Task task = Task::multiply;
    Program program;
    Strided<const T> x, c, v;
    Strided<const T> weights;  // n x 1, or no data
    Strided<T> out;
    Strided<double> sums;  // instead of out, for transposed and gram products whose sums over n stay in double
};

// Derivatives of sum_ij a_ij k(x_i, c_j), with a = left right' or dense. With q = gain |x - c|^2 in the leaf's
// coordinates and g = a phi'(q), sums over all i and j:
//   in_centers[j, k] = sum_i g (x - c)_k     m x width, or no data
//   in_scales[0, k]  = sum_ij g (x - c)_k^2  1 x width, or no data
// and, returned, sum_ij g q. For families of the absolute distance, q = gain sum_k |x - c|_k, the sign of (x - c)_k
// takes its place and |x - c|_k that of its square.
template <class T>
struct GradientRequest {
    std::size_t inputs = 0;
    Leaf leaf;  // of a family that has_slope
    Strided<const T> x, c;
    Strided<const T> left, right;  // n x t and m x t; without right, left is a itself, n x m
    bool dense = false;
    Strided<double> in_centers, in_scales;
};

// Waves of structured frequencies. With z = x * scale, padded with zeros to the length of a block, and turns
// q = radii * H D1 H D2 H D3 z in each block, H not normalized:
//   out[i, 2j] and out[i, 2j + 1] = amplitude cos(2 pi (q_j - 1/8)) and amplitude cos(2 pi (-q_j - 1/8))
constexpr std::size_t shortest_block = 64;  // four vectors of every instruction set

template <class T>
struct WaveRequest {
    Strided<const T> x;          // n x d
    std::vector<double> scale;   // d
    Strided<const T> signs;      // 3 blocks x length: D3, D2, D1 of each block in turn
    Strided<const T> radii;      // blocks x length
    double amplitude = 1;
    Strided<T> out;              // n x m, m no more than 2 blocks length, and more than a block less
};

struct Interrupted {};

template <class T>
void run(const Request<T>& request, const Execution& execution);

template <class T>
double run_gradient(const GradientRequest<T>& request, const Execution& execution);

template <class T>
void run_waves(const WaveRequest<T>& request, const Execution& execution);

// Nanoseconds per element of the exponential alone, on data in the first-level cache: the roofline's second term.
template <class T>
double exponential_nanoseconds();

const char* instruction_set();

}  // namespace gyrfalcon
