// Recursive least squares: a triangular factor that takes up rows, and questions to it.
#pragma once

#include <cstddef>

namespace gyrfalcon {

// A row-major table [R Z] of `width` rows: R is upper triangular of order `width`, Z has `outputs` columns. What stands
// below the diagonal does not matter and is not changed. Consecutive rows are `stride` numbers apart, and each has `room`
// numbers of its own; those after Z are zero.
struct Triangle {
    double* data;
    std::size_t width, outputs, stride, room;
};

// Rows [x y], row-major and contiguous, each of width + outputs numbers.
struct Rows {
    double* data;
    std::size_t count;
};

// Reflects the rows into the table, so that [R Z] becomes the factor of [R Z] stacked on the rows. The squares of what
// is left of each y are added to `leftover`, one number per output. Rows of the table have room for whole vectors.
void take_up(const Triangle& triangle, const Rows& rows, double* leftover);

// Replaces each row [x y] by [v y - v'Z] with R'v = x. A zero on the diagonal of R stands for a coordinate that nothing
// is known of: its entry of v is zero.
void project(const Triangle& triangle, const Rows& rows);

// Replaces each row v by (I + R⁻ᵀ diag(missing) R⁻¹)⁻¹ v, to the last digits, by conjugate gradients. They end soon if
// `missing` is small beside R'R. Rows have as many numbers as the triangle is wide.
void with_missing(const Triangle& triangle, const double* missing, const Rows& rows);

}  // namespace gyrfalcon
