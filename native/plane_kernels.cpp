// Products of planes, written once and compiled once per instruction set: see planes.hpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "buffer.hpp"
#include "planes.hpp"
#include "simd.hpp"

namespace {

using namespace gyrfalcon;
using std::size_t;

// A few features side by side, in as few registers as they take.
template <class T, int count>
struct Channels {
    static constexpr int width = count < lanes<T> ? count : lanes<T>;
    static constexpr int parts = count / width;
    typedef T Vector __attribute__((vector_size(width * sizeof(T))));
    typedef T Loose __attribute__((vector_size(width * sizeof(T)), aligned(alignof(T)), may_alias));
    Vector part[parts];

    static GYRFALCON_INLINE Channels load(const T* p) {
        Channels c;
        for (int i = 0; i < parts; ++i) c.part[i] = *reinterpret_cast<const Loose*>(p + i * width);
        return c;
    }
    static GYRFALCON_INLINE Channels zero() {
        Channels c;
        for (int i = 0; i < parts; ++i) c.part[i] = Vector{};
        return c;
    }
    GYRFALCON_INLINE void store(T* p) const {
        for (int i = 0; i < parts; ++i) *reinterpret_cast<Loose*>(p + i * width) = part[i];
    }
    GYRFALCON_INLINE T sum() const {
        Vector total = part[0];
        for (int i = 1; i < parts; ++i) total += part[i];
        T lane[width];
        std::memcpy(lane, &total, sizeof(total));
        for (int half = width / 2; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
        return lane[0];
    }
    GYRFALCON_INLINE Channels& operator+=(const Channels& b) {
        for (int i = 0; i < parts; ++i) part[i] += b.part[i];
        return *this;
    }
    friend GYRFALCON_INLINE Channels operator+(Channels a, const Channels& b) { return a += b; }
    friend GYRFALCON_INLINE Channels operator-(Channels a, const Channels& b) {
        for (int i = 0; i < parts; ++i) a.part[i] -= b.part[i];
        return a;
    }
    friend GYRFALCON_INLINE Channels operator*(Channels a, const Channels& b) {
        for (int i = 0; i < parts; ++i) a.part[i] *= b.part[i];
        return a;
    }
    friend GYRFALCON_INLINE Channels operator*(Channels a, T b) {
        for (int i = 0; i < parts; ++i) a.part[i] *= b;
        return a;
    }
};

// Where a point lies between the nodes of an axis.
template <class T>
struct Between {
    size_t node;
    T share;  // of the way to the next node
};

template <class T>
GYRFALCON_INLINE void locate(const Scale& scale, size_t axes, const T* point, Between<T>* found) {
    for (size_t axis = 0; axis < axes; ++axis) {
        const size_t last = scale.sizes[axis] - 1;
        const T inside = point[axis] > 0 ? std::min(point[axis], T(1)) : T(0);  // also for NaN
        const T place = inside * static_cast<T>(last);
        const size_t node = std::min(static_cast<size_t>(static_cast<std::int64_t>(place)), last - 1);
        found[axis] = {node, place - static_cast<T>(node)};
    }
}

// The four nodes around a point in a plane: their places in memory, and the shares of the way to the next ones.
template <class T>
struct Corners {
    size_t base, right, down;
    T across, along;
};

template <class T>
GYRFALCON_INLINE Corners<T> corners_of(const Scale& scale, const Plane& plane, size_t features, const Between<T>* at) {
    const Between<T>&a = at[plane.first], &b = at[plane.second];
    const size_t row = scale.sizes[plane.first] * features;
    return {plane.offset + b.node * row + a.node * features, features, row, a.share, b.share};
}

template <int count, class T>
GYRFALCON_INLINE Channels<T, count> interpolate(const T* parameters, const Corners<T>& c) {
    using C = Channels<T, count>;
    const T* p = parameters + c.base;
    const C left = C::load(p), low = C::load(p + c.down);
    const C upper = left + (C::load(p + c.right) - left) * c.across;
    const C lower = low + (C::load(p + c.down + c.right) - low) * c.across;
    return upper + (lower - upper) * c.along;  // exact where all four are the same
}

template <class C, class T>
GYRFALCON_INLINE void scatter(T* gradient, const Corners<T>& c, const C& value) {
    T* p = gradient + c.base;
    const C lower = value * c.along, upper = value - lower;
    const C far = lower * c.across, right = upper * c.across;
    (C::load(p) + (upper - right)).store(p);
    (C::load(p + c.right) + right).store(p + c.right);
    (C::load(p + c.down) + (lower - far)).store(p + c.down);
    (C::load(p + c.down + c.right) + far).store(p + c.down + c.right);
}

template <class T>
GYRFALCON_INLINE void all_corners(const PlaneLayout& layout, const Scale& scale, size_t planes, const T* point,
                                  Corners<T>* corners) {
    Between<T> at[most_axes];
    locate(scale, layout.axes, point, at);
    for (size_t c = 0; c < planes; ++c) corners[c] = corners_of(scale, scale.planes[c], layout.features, at);
}

// `known` planes is a constant that lets the loops unroll, or zero.
template <int count, size_t known, class T>
GYRFALCON_INLINE Channels<T, count> combined(const PlaneLayout& layout, const T* parameters, const Corners<T>* corners) {
    const size_t planes = known ? known : layout.planes;
    Channels<T, count> f = interpolate<count>(parameters, corners[0]);
    if (layout.multiplies)
        for (size_t c = 1; c < planes; ++c) f = f * interpolate<count>(parameters, corners[c]);
    else
        for (size_t c = 1; c < planes; ++c) f += interpolate<count>(parameters, corners[c]);
    return f;
}

// The combined features, and before[c], after[c] with before * after the derivative of the product in plane c.
template <int count, size_t known, class T>
GYRFALCON_INLINE Channels<T, count> with_slopes(const PlaneLayout& layout, const T* parameters,
                                                const Corners<T>* corners, Channels<T, count>* slope) {
    using C = Channels<T, count>;
    constexpr size_t room = known ? known : most_planes;
    const size_t planes = known ? known : layout.planes;
    C value[room];
    for (size_t c = 0; c < planes; ++c) value[c] = interpolate<count>(parameters, corners[c]);
    if (!layout.multiplies) {
        C one = C::zero();
        for (int i = 0; i < C::parts; ++i) one.part[i] += T(1);
        for (size_t c = 1; c < planes; ++c) value[0] += value[c];
        for (size_t c = 0; c < planes; ++c) slope[c] = one;
        return value[0];
    }
    C before = value[0];
    for (size_t c = 1; c < planes; ++c) {
        slope[c] = before;
        before = before * value[c];
    }
    C after = value[planes - 1];
    for (size_t c = planes - 1; c-- > 1;) {
        slope[c] = slope[c] * after;
        after = after * value[c];
    }
    slope[0] = planes > 1 ? after : C::zero();
    if (planes == 1)
        for (int i = 0; i < C::parts; ++i) slope[0].part[i] += T(1);
    return before;
}

// Calls run.template operator()<features at once, known planes>() with what fits the layout.
template <class T, class Run>
void specialized(const PlaneLayout& layout, const Run& run) {
    constexpr int line = static_cast<int>(cache_line / sizeof(T));
    const bool three = layout.planes == 3;
    if (layout.features % line == 0)
        three ? run.template operator()<line, 3>() : run.template operator()<line, 0>();
    else if (layout.features % 4 == 0)
        three ? run.template operator()<4, 3>() : run.template operator()<4, 0>();
    else
        run.template operator()<1, 0>();
}

template <class T>
size_t parts(const PlaneLayout& layout) {
    const size_t line = cache_line / sizeof(T);
    return layout.scales.size() * (layout.features % line == 0 ? layout.features / line : 1);
}

// The scale of a part, and its features.
struct Share {
    const Scale* scale;
    size_t index, begin, end;
};

template <class T>
Share share_of(const PlaneLayout& layout, size_t part) {
    const size_t pieces = parts<T>(layout) / layout.scales.size(), size = layout.features / pieces;
    const size_t index = layout.scales.size() - 1 - part / pieces;  // the finest first: it takes longest
    const size_t begin = part % pieces * size;
    return {&layout.scales[index], index, begin, begin + size};
}

template <class T>
void features(const PlaneLayout& layout, const T* parameters, const T* points, size_t begin, size_t end, T* out) {
    specialized<T>(layout, [&]<int count, size_t known>() {
        Corners<T> corners[known ? known : most_planes];
        for (size_t i = begin; i < end; ++i) {
            T* to = out + i * layout.width();
            for (const Scale& scale : layout.scales) {
                all_corners(layout, scale, known ? known : layout.planes, points + i * layout.axes, corners);
                for (size_t f = 0; f < layout.features; f += count, to += count)
                    combined<count, known>(layout, parameters + f, corners).store(to);
            }
        }
    });
}

// Adds the derivative in the coordinates of one point; `slope` is that in each plane's interpolated features.
template <int count, class T>
void add_in_point(const PlaneLayout& layout, const Scale& scale, const T* parameters, const T* point,
                  const Corners<T>* corners, const Channels<T, count>* slope, T* out) {
    using C = Channels<T, count>;
    Between<T> at[most_axes];
    locate(scale, layout.axes, point, at);
    for (size_t c = 0; c < layout.planes; ++c) {
        const Plane& plane = scale.planes[c];
        const T a = at[plane.first].share, b = at[plane.second].share;
        const T* p = parameters + corners[c].base;
        const C here = C::load(p), right = C::load(p + corners[c].right), down = C::load(p + corners[c].down),
                both = C::load(p + corners[c].down + corners[c].right);
        const auto inside = [&](size_t axis) { return point[axis] >= 0 && point[axis] <= 1; };
        if (inside(plane.first))
            out[plane.first] += (slope[c] * ((right - here) * (1 - b) + (both - down) * b)).sum() *
                                static_cast<T>(scale.sizes[plane.first] - 1);
        if (inside(plane.second))
            out[plane.second] += (slope[c] * ((down - here) * (1 - a) + (both - right) * a)).sum() *
                                 static_cast<T>(scale.sizes[plane.second] - 1);
    }
}

template <class T>
void features_backward(const PlaneLayout& layout, const T* parameters, const T* points, size_t number, size_t part,
                       const FeatureGradient<T>& gradient) {
    const Share share = share_of<T>(layout, part);
    T* const in_points = gradient.in_points ? gradient.in_points + part * number * layout.axes : nullptr;
    specialized<T>(layout, [&]<int count, size_t known>() {
        using C = Channels<T, count>;
        constexpr size_t room = known ? known : most_planes;
        const size_t planes = known ? known : layout.planes;
        Corners<T> corners[room];
        C slope[room];
        for (size_t i = 0; i < number; ++i) {
            const T* point = points + i * layout.axes;
            all_corners(layout, *share.scale, planes, point, corners);
            for (size_t f = share.begin; f < share.end; f += count) {
                with_slopes<count, known>(layout, parameters + f, corners, slope);
                const C in = C::load(gradient.in_features + i * layout.width() + share.index * layout.features + f);
                for (size_t c = 0; c < planes; ++c) {
                    slope[c] = slope[c] * in;
                    scatter(gradient.in_parameters + f, corners[c], slope[c]);
                }
                if (in_points)
                    add_in_point<count>(layout, *share.scale, parameters + f, point, corners, slope,
                                        in_points + i * layout.axes);
            }
        }
    });
}

template <class T>
void decode(const Decoding<T>& d, const Stopping<T>& stopping, size_t begin, size_t end, T* out, std::int64_t* counts) {
    const PlaneLayout& layout = *d.layout;
    const size_t width = layout.width(), outputs = 1 + d.colors;
    specialized<T>(layout, [&]<int count, size_t known>() {
        using C = Channels<T, count>;
        Corners<T> corners[known ? known : most_planes];
        for (size_t r = begin; r < end; ++r) {
            const T* basis = d.basis + r * d.colors * width;
            T depth = 0;
            std::int64_t i = d.offsets[r];
            while (i < d.offsets[r + 1] && !(depth > stopping.most)) {
                C sums[1 + most_colors];
                for (size_t k = 0; k < outputs; ++k) sums[k] = C::zero();
                size_t at = 0;
                for (const Scale& scale : layout.scales) {
                    all_corners(layout, scale, known ? known : layout.planes,
                                d.points + static_cast<size_t>(i) * layout.axes, corners);
                    for (size_t f = 0; f < layout.features; f += count, at += count) {
                        const C value = combined<count, known>(layout, d.parameters + f, corners);
                        sums[0] += value * C::load(d.density_basis + at);
                        if (d.colors)
                            for (size_t k = 0; k < most_colors; ++k)
                                sums[1 + k] += value * C::load(basis + k * width + at);
                    }
                }
                T* const to = out + static_cast<size_t>(i) * outputs;
                for (size_t k = 0; k < outputs; ++k) to[k] = sums[k].sum();
                if (stopping.lengths) depth += std::exp(to[0] + stopping.shift) * stopping.lengths[i];
                ++i;
            }
            counts[r] = i - d.offsets[r];
            for (; i < d.offsets[r + 1]; ++i) {  // not evaluated: nothing is there
                T* const to = out + static_cast<size_t>(i) * outputs;
                std::fill_n(to, outputs, T(0));
                to[0] = -std::numeric_limits<T>::infinity();
            }
        }
    });
}

template <class T>
void decode_backward(const Decoding<T>& d, const DecodingGradient<T>& gradient, size_t part) {
    const PlaneLayout& layout = *d.layout;
    const size_t width = layout.width(), outputs = 1 + d.colors;
    const Share share = share_of<T>(layout, part);
    specialized<T>(layout, [&]<int count, size_t known>() {
        using C = Channels<T, count>;
        constexpr size_t room = known ? known : most_planes;
        const size_t planes = known ? known : layout.planes;
        Corners<T> corners[room];
        C slope[room];
        for (size_t f = share.begin; f < share.end; f += count) {
            const size_t at = share.index * layout.features + f;
            const T* const parameters = d.parameters + f;
            T* const in_parameters = gradient.in_parameters + f;
            const C density = C::load(d.density_basis + at);
            C in_density = C::zero();
            for (size_t r = 0; r < d.rays; ++r) {
                const T* basis = d.basis + r * d.colors * width + at;
                C color[most_colors], in_color[most_colors];
                for (size_t k = 0; k < most_colors; ++k) {
                    color[k] = d.colors ? C::load(basis + k * width) : C::zero();
                    in_color[k] = C::zero();
                }
                for (std::int64_t i = d.offsets[r]; i < d.offsets[r] + gradient.counts[r]; ++i) {
                    const T* in = gradient.in_outputs + static_cast<size_t>(i) * outputs;
                    all_corners(layout, *share.scale, planes, d.points + static_cast<size_t>(i) * layout.axes, corners);
                    const C value = with_slopes<count, known>(layout, parameters, corners, slope);
                    in_density += value * in[0];
                    C in_value = density * in[0];
                    if (d.colors)
                        for (size_t k = 0; k < most_colors; ++k) {
                            in_color[k] += value * in[1 + k];
                            in_value += color[k] * in[1 + k];
                        }
                    for (size_t c = 0; c < planes; ++c) scatter(in_parameters, corners[c], slope[c] * in_value);
                }
                for (size_t k = 0; k < d.colors; ++k) in_color[k].store(gradient.in_basis + (r * d.colors + k) * width + at);
            }
            in_density.store(gradient.in_density_basis + at);
        }
    });
}

// The derivative of the squared differences of neighbors, halved, at one node.
template <class T>
GYRFALCON_INLINE T pull(T here, T one, T other) {
    return (here - one) + (here - other);
}

template <class T>
void update(const Adam<T>& adam, const Penalties<T>& penalty, size_t rows, size_t row_length, size_t features,
            size_t begin, size_t end, const T* above, const T* below, T* parameters, T* gradient, T* mean, T* square,
            T* scratch) {
    // scratch: the two rows before this one and this one, as they were before
    T *before[2] = {scratch, scratch + row_length}, *here = scratch + 2 * row_length;
    std::copy_n(above, row_length, before[0]);
    std::copy_n(above + row_length, row_length, before[1]);
    for (size_t row = begin; row < end; ++row) {
        T* const p = parameters + row * row_length;
        std::copy_n(p, row_length, here);
        const auto behind = [&](size_t k) {  // k rows behind, or the last there is
            return row + k < end ? p + k * row_length : below + (row + k - end) * row_length;
        };
        T* const g = gradient + row * row_length;
        if (penalty.first != 0) {
            const size_t f = features;
            for (size_t i = 0; i < f; ++i) g[i] += penalty.first * (here[i] - here[i + f]);
            for (size_t i = f; i + f < row_length; ++i) g[i] += penalty.first * pull(here[i], here[i - f], here[i + f]);
            for (size_t i = row_length - f; i < row_length; ++i) g[i] += penalty.first * (here[i] - here[i - f]);
        }
        if (penalty.second != 0) {
            const T *up = row > 0 ? before[1] : here, *down = row + 1 < rows ? behind(1) : here;
            for (size_t i = 0; i < row_length; ++i) g[i] += penalty.second * pull(here[i], up[i], down[i]);
        }
        if (penalty.bends != 0) {  // of the bends around this row, the row before and the row behind
            const T* const two = row + 2 < rows ? behind(2) : here;
            const T* const one = row + 1 < rows ? behind(1) : here;
            const T middle = row > 0 && row + 1 < rows ? 2 : 0, first = row > 1 ? 1 : 0, last = row + 2 < rows ? 1 : 0;
            for (size_t i = 0; i < row_length; ++i)
                g[i] += penalty.bends * (middle * pull(here[i], before[1][i], one[i]) +
                                         first * ((before[0][i] - before[1][i]) + (here[i] - before[1][i])) +
                                         last * ((two[i] - one[i]) + (here[i] - one[i])));
        }
        if (penalty.ones != 0)
            for (size_t i = 0; i < row_length; ++i)
                g[i] += penalty.ones * static_cast<T>((here[i] > 1) - (here[i] < 1));
        T *const m = mean + row * row_length, *const v = square + row * row_length;
        for (size_t i = 0; i < row_length; ++i) {
            m[i] = adam.first_decay * m[i] + (1 - adam.first_decay) * g[i];
            v[i] = adam.second_decay * v[i] + (1 - adam.second_decay) * g[i] * g[i];
            p[i] -= adam.rate * (m[i] * adam.first_correction) / (std::sqrt(v[i] * adam.second_correction) + adam.epsilon);
            g[i] = 0;
        }
        std::swap(before[0], before[1]);
        std::swap(before[1], here);
    }
}

template <class T>
constexpr PlaneKernels<T> table = {GYRFALCON_ISA_NAME,  parts<T>,           features<T>, features_backward<T>,
                                   decode<T>, decode_backward<T>, update<T>};

#define GYRFALCON_PASTE(a, b) a##b
#define GYRFALCON_PLANES(isa) GYRFALCON_PASTE(planes_, isa)

}  // namespace

namespace gyrfalcon {

template <>
const PlaneKernels<float>& GYRFALCON_PLANES(GYRFALCON_ISA)<float>() {
    return table<float>;
}

template <>
const PlaneKernels<double>& GYRFALCON_PLANES(GYRFALCON_ISA)<double>() {
    return table<double>;
}

}  // namespace gyrfalcon
