// Products of planes on threads: see planes.hpp. Results do not depend on how many there are.

#include "planes.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "buffer.hpp"
#include "parallel.hpp"

namespace gyrfalcon {
namespace {

using std::size_t;

constexpr size_t points_per_block = 1024, rays_per_block = 32, rows_per_band = 32;

// Work without a workspace of its own.
template <class Body>
struct Items {
    Body body;
    int workspace() const { return 0; }
    template <class Stop>
    void operator()(int, size_t i, const Stop&) const {
        body(i);
    }
};

template <class Body>
void for_items(size_t count, const Execution& execution, const Body& body) {
    parallel(count, execution, Items<Body>{body});
}

size_t divided(size_t count, size_t by) { return (count + by - 1) / by; }

// A band of rows of one plane, and where the rows around it are kept.
struct Band {
    size_t plane, begin, end;
    size_t halo;
};

}  // namespace

template <class T>
const PlaneKernels<T>& chosen_plane_kernels() {
#if defined(GYRFALCON_X86)
    const std::string_view name = instruction_set();
    if (name == "avx512") return planes_avx512<T>();
    if (name == "avx2") return planes_avx2<T>();
#endif
    return planes_baseline<T>();
}

PlaneLayout make_layout(const std::vector<std::vector<size_t>>& sizes, size_t features, bool multiplies) {
    if (sizes.empty() || features == 0) throw std::invalid_argument("sizes, features: need a scale and a feature");
    PlaneLayout layout{sizes[0].size(), features, 0, multiplies, {}, 0};
    if (layout.axes < 2 || layout.axes > most_axes) throw std::invalid_argument("sizes: needs 2 to 8 axes");
    layout.planes = layout.axes * (layout.axes - 1) / 2;
    constexpr size_t most = std::numeric_limits<std::int32_t>::max();
    for (const auto& axes : sizes) {
        if (axes.size() != layout.axes) throw std::invalid_argument("sizes: needs as many axes in each scale");
        Scale scale{};
        for (size_t axis = 0; axis < layout.axes; ++axis) {
            if (axes[axis] < 2 || axes[axis] > 1 << 15) throw std::invalid_argument("sizes: 2 to 32768 nodes an axis");
            scale.sizes[axis] = axes[axis];
        }
        size_t c = 0;
        for (size_t a = 0; a < layout.axes; ++a)
            for (size_t b = a + 1; b < layout.axes; ++b, ++c) {
                scale.planes[c] = {layout.parameters, a, b};
                if (features > most / (axes[a] * axes[b])) throw std::invalid_argument("sizes: too many parameters");
                layout.parameters += axes[a] * axes[b] * features;
            }
        layout.scales.push_back(scale);
    }
    return layout;
}

template <class T>
void run_features(const PlaneLayout& layout, const T* parameters, const T* points, size_t count, T* out,
                  const Execution& execution) {
    const auto features = chosen_plane_kernels<T>().features;
    for_items(divided(count, points_per_block), execution, [&](size_t i) {
        features(layout, parameters, points, i * points_per_block, std::min(count, (i + 1) * points_per_block), out);
    });
}

template <class T>
void run_features_backward(const PlaneLayout& layout, const T* parameters, const T* points, size_t count,
                           const FeatureGradient<T>& gradient, const Execution& execution) {
    const auto& kernels = chosen_plane_kernels<T>();
    const size_t parts = kernels.parts(layout), entries = count * layout.axes;
    Buffer<T> of_parts(gradient.in_points ? parts * entries : 0);
    FeatureGradient<T> own = gradient;
    own.in_points = gradient.in_points ? of_parts.data() : nullptr;
    for_items(parts, execution,
              [&](size_t part) { kernels.features_backward(layout, parameters, points, count, part, own); });
    if (gradient.in_points)
        for (size_t i = 0; i < entries; ++i) {
            T sum = 0;
            for (size_t part = 0; part < parts; ++part) sum += of_parts.data()[part * entries + i];
            gradient.in_points[i] = sum;
        }
}

template <class T>
void run_decode(const Decoding<T>& decoding, const Stopping<T>& stopping, T* out, std::int64_t* counts,
                const Execution& execution) {
    const auto decode = chosen_plane_kernels<T>().decode;
    for_items(divided(decoding.rays, rays_per_block), execution, [&](size_t i) {
        decode(decoding, stopping, i * rays_per_block, std::min(decoding.rays, (i + 1) * rays_per_block), out, counts);
    });
}

template <class T>
void run_decode_backward(const Decoding<T>& decoding, const DecodingGradient<T>& gradient, const Execution& execution) {
    const auto& kernels = chosen_plane_kernels<T>();
    for_items(kernels.parts(*decoding.layout), execution,
              [&](size_t part) { kernels.decode_backward(decoding, gradient, part); });
}

template <class T>
void run_update(const PlaneLayout& layout, const Adam<T>& adam, const std::vector<Penalties<T>>& penalties, T* parameters,
                T* gradient, T* mean, T* square, const Execution& execution) {
    std::vector<Band> bands;
    size_t kept = 0;
    const auto plane_of = [&](size_t i) -> const Plane& {
        return layout.scales[i / layout.planes].planes[i % layout.planes];
    };
    const auto nodes = [&](size_t i, size_t axis) { return layout.scales[i / layout.planes].sizes[axis]; };
    for (size_t i = 0; i < layout.scales.size() * layout.planes; ++i) {
        const size_t rows = nodes(i, plane_of(i).second), length = nodes(i, plane_of(i).first) * layout.features;
        for (size_t begin = 0; begin < rows; begin += rows_per_band) {
            bands.push_back({i, begin, std::min(rows, begin + rows_per_band), kept});
            kept += 4 * length;
        }
    }
    // Rows around each band before any of them changes: two above and two below, repeated at the border.
    Buffer<T> halos(kept);
    for (const Band& band : bands) {
        const size_t rows = nodes(band.plane, plane_of(band.plane).second);
        const size_t length = nodes(band.plane, plane_of(band.plane).first) * layout.features;
        const T* const plane = parameters + plane_of(band.plane).offset;
        const size_t around[4] = {band.begin < 2 ? 0 : band.begin - 2, band.begin < 1 ? 0 : band.begin - 1,
                                  std::min(band.end, rows - 1), std::min(band.end + 1, rows - 1)};
        for (size_t k = 0; k < 4; ++k)
            std::copy_n(plane + around[k] * length, length, halos.data() + band.halo + k * length);
    }
    const auto update = chosen_plane_kernels<T>().update;
    for_items(bands.size(), execution, [&](size_t i) {
        const Band& band = bands[i];
        const Plane& plane = plane_of(band.plane);
        const size_t length = nodes(band.plane, plane.first) * layout.features;
        const T* const above = halos.data() + band.halo;
        std::vector<T> scratch(3 * length);
        update(adam, penalties[band.plane], nodes(band.plane, plane.second), length, layout.features, band.begin,
               band.end, above, above + 2 * length, parameters + plane.offset, gradient + plane.offset,
               mean + plane.offset, square + plane.offset, scratch.data());
    });
}

#define GYRFALCON_INSTANTIATE(T)                                                                                   \
    template const PlaneKernels<T>& chosen_plane_kernels<T>();                                                     \
    template void run_features(const PlaneLayout&, const T*, const T*, size_t, T*, const Execution&);              \
    template void run_features_backward(const PlaneLayout&, const T*, const T*, size_t, const FeatureGradient<T>&, \
                                        const Execution&);                                                         \
    template void run_decode(const Decoding<T>&, const Stopping<T>&, T*, std::int64_t*, const Execution&);         \
    template void run_decode_backward(const Decoding<T>&, const DecodingGradient<T>&, const Execution&);           \
    template void run_update(const PlaneLayout&, const Adam<T>&, const std::vector<Penalties<T>>&, T*, T*, T*, T*, \
                             const Execution&);
GYRFALCON_INSTANTIATE(float)
GYRFALCON_INSTANTIATE(double)
#undef GYRFALCON_INSTANTIATE

}  // namespace gyrfalcon
