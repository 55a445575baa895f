// Products of planes: interpolation, decoding, gradients and the optimizer's pass over the parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core.hpp"

namespace gyrfalcon {

constexpr std::size_t most_axes = 8, most_planes = most_axes * (most_axes - 1) / 2;
constexpr std::size_t most_colors = 3;

// A grid of nodes over two axes, stored as [second][first][feature] from `offset` on.
struct Plane {
    std::size_t offset, first, second;
};

// All pairs of axes at one resolution. The node i of an axis with s nodes stands at i / (s - 1).
struct Scale {
    std::size_t sizes[most_axes];
    Plane planes[most_planes];
};

// f(q) of a scale is the product, or the sum, of its planes at q in [0, 1]^axes; points outside are moved to the border.
// The features of all scales stand side by side.
struct PlaneLayout {
    std::size_t axes, features, planes;  // features and planes of each scale
    bool multiplies;
    std::vector<Scale> scales;
    std::size_t parameters;

    std::size_t width() const { return scales.size() * features; }
};

// Samples of a ray stand side by side: those of ray r are [offsets[r], offsets[r + 1]).
// The outputs of a sample are the inner products of its features with the density basis and with the color bases of its
// ray, in this order.
template <class T>
struct Decoding {
    const PlaneLayout* layout;
    const T *parameters, *points;
    std::size_t rays;
    const std::int64_t* offsets;
    std::size_t colors;              // 0 or most_colors
    const T *basis, *density_basis;  // rays x colors x width, and width
};

// Stops a ray behind the sample where its optical depth, the sum of exp(output + shift) * length, exceeds `most`.
template <class T>
struct Stopping {
    const T* lengths;  // of samples, or null: never stops
    T shift, most;
};

// Derivatives; those in parameters are added to what is there.
template <class T>
struct DecodingGradient {
    const std::int64_t* counts;  // samples of each ray that were evaluated
    const T* in_outputs;
    T *in_parameters, *in_basis, *in_density_basis;
};

template <class T>
struct FeatureGradient {
    const T* in_features;
    T *in_parameters, *in_points;  // in_points may be null
};

// Weights of the penalties of one plane, with all constants: total variation along both axes, second differences and
// the distance to one along the second axis.
template <class T>
struct Penalties {
    T first, second, bends, ones;
};

template <class T>
struct Adam {
    T rate, first_decay, second_decay, epsilon, first_correction, second_correction;
};

// What one instruction set provides. Parts are cuts of a scale's features into pieces that share no cache line.
template <class T>
struct PlaneKernels {
    const char* name;
    std::size_t (*parts)(const PlaneLayout&);
    void (*features)(const PlaneLayout&, const T* parameters, const T* points, std::size_t begin, std::size_t end, T* out);
    // one part: in_parameters of its features, and in_points of all points
    void (*features_backward)(const PlaneLayout&, const T* parameters, const T* points, std::size_t count,
                              std::size_t part, const FeatureGradient<T>&);
    // rays [begin, end)
    void (*decode)(const Decoding<T>&, const Stopping<T>&, std::size_t begin, std::size_t end, T* out,
                   std::int64_t* counts);
    void (*decode_backward)(const Decoding<T>&, const DecodingGradient<T>&, std::size_t part);
    // rows [begin, end) of a plane; `above` and `below` are the two rows before and behind them as they were before
    void (*update)(const Adam<T>&, const Penalties<T>&, std::size_t rows, std::size_t row_length, std::size_t features,
                   std::size_t begin, std::size_t end, const T* above, const T* below, T* parameters, T* gradient, T* mean,
                   T* square, T* scratch);
};

// Planes of all pairs of axes, one scale behind the other, from the nodes of each axis in each scale.
PlaneLayout make_layout(const std::vector<std::vector<std::size_t>>& sizes, std::size_t features, bool multiplies);

template <class T>
void run_features(const PlaneLayout& layout, const T* parameters, const T* points, std::size_t count, T* out,
                  const Execution& execution);
template <class T>
void run_features_backward(const PlaneLayout& layout, const T* parameters, const T* points, std::size_t count,
                           const FeatureGradient<T>& gradient, const Execution& execution);
template <class T>
void run_decode(const Decoding<T>& decoding, const Stopping<T>& stopping, T* out, std::int64_t* counts,
                const Execution& execution);
template <class T>
void run_decode_backward(const Decoding<T>& decoding, const DecodingGradient<T>& gradient, const Execution& execution);
// One step of Adam on all planes, which leaves the gradient zero. Penalties are given for each plane.
template <class T>
void run_update(const PlaneLayout& layout, const Adam<T>& adam, const std::vector<Penalties<T>>& penalties, T* parameters,
                T* gradient, T* mean, T* square, const Execution& execution);

template <class T>
const PlaneKernels<T>& chosen_plane_kernels();
template <class T>
const PlaneKernels<T>& planes_baseline();
#if defined(GYRFALCON_X86)
template <class T>
const PlaneKernels<T>& planes_avx2();
template <class T>
const PlaneKernels<T>& planes_avx512();
#endif

}  // namespace gyrfalcon
