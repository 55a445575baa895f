// Samples along rays, and what rays gather from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core.hpp"

namespace gyrfalcon {

// Rays origin + t direction through a scene in the cube [-1, 1]^3, or in all of space, where it is contracted to
// [-2, 2]^3. Points leave in [0, 1]^3, with the time of the ray behind them if there are times.
template <class T>
struct MarchRequest {
    std::size_t rays;
    const T *origins, *directions;    // rays x 3
    const T *nearest, *farthest;      // rays: t is between them
    const T *jitter, *times;          // rays: in [0, 1); times may be null
    const std::uint8_t* occupied;     // cells x cells x cells, x the fastest
    std::size_t cells;
    T step;                           // in t; beyond the cube of contracted space it grows with the distance
    bool contracted;
};

template <class T>
struct Samples {
    std::vector<std::int64_t> offsets;
    std::vector<T> distances, lengths, points;
};

template <class T>
Samples<T> march(const MarchRequest<T>& request, const Execution& execution);

// With density s = exp(output + shift), x = s length, T the transmittance before a sample and w = T (1 - exp(-x)):
//   color = sum w sigmoid(outputs) + T_end background, depth = sum w distance, opacity = sum w.
template <class T>
struct Composite {
    std::size_t rays;
    const std::int64_t* offsets;
    const T *distances, *lengths, *outputs;  // samples; outputs are samples x (1 + colors)
    std::size_t colors;
    T shift;
    const T* background;  // rays x colors
};

constexpr double largest_log_density = 30, largest_log_slope = 15;  // density is truncated, its derivative sooner

template <class T>
void composite(const Composite<T>& scan, T* color, T* depth, T* opacity, T* weights, const Execution& execution);

// Derivatives in the outputs from those in color, depth, opacity and weights, of which all but color may be null.
template <class T>
void composite_backward(const Composite<T>& scan, const T* in_color, const T* in_depth, const T* in_opacity,
                        const T* in_weights, T* in_outputs, const Execution& execution);

// values[r] = sum_ij w_i w_j |m_i - m_j| + sum_i w_i^2 length_i / 3 of each ray, and its derivatives in the weights.
template <class T>
void distortion(std::size_t rays, const std::int64_t* offsets, const T* distances, const T* lengths, const T* weights,
                T* values, T* in_weights, const Execution& execution);

}  // namespace gyrfalcon
