// The Python door of planes and volumes: checks everything that they take for granted, then releases the interpreter.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "planes.hpp"
#include "volume.hpp"

namespace nb = nanobind;

namespace gyrfalcon {
namespace {

using std::size_t;
using Sizes = std::vector<std::vector<size_t>>;

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using Offsets = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const std::string& message) {
    if (!condition) throw std::invalid_argument(message);
}

// The data of an array of exactly this shape.
template <class Array>
auto* shaped(const Array& array, std::initializer_list<size_t> shape, const char* name) {
    bool same = array.ndim() == shape.size();
    size_t axis = 0;
    for (size_t length : shape) {
        same = same && array.shape(axis) == length;
        ++axis;
    }
    require(same, std::string(name) + ": wrong shape");
    return array.data();
}

template <class Array>
auto* shaped_or_null(const std::optional<Array>& array, std::initializer_list<size_t> shape, const char* name) {
    return array ? shaped(*array, shape, name) : nullptr;
}

Execution execution_of(int threads) { return {std::clamp(threads, 1, 1024), 0, {}}; }

// Rows of an array with so many columns.
template <class Array>
size_t rows_of(const Array& array, size_t columns, const char* name) {
    require(array.ndim() == 2 && array.shape(1) == columns, std::string(name) + ": wrong number of columns");
    return array.shape(0);
}

size_t checked_offsets(const Offsets& offsets, size_t samples) {
    require(offsets.shape(0) > 0, "offsets: needs the end of every ray");
    const std::int64_t *begin = offsets.data(), *end = begin + offsets.shape(0);
    require(*begin == 0 && std::is_sorted(begin, end) && static_cast<size_t>(end[-1]) == samples,
            "offsets: do not fit the samples");
    return offsets.shape(0) - 1;
}

template <class T>
void features_checked(const In<T>& parameters, const Sizes& sizes, size_t features, bool multiplies, const In<T>& points,
                      const Out<T>& out, int threads) {
    const PlaneLayout layout = make_layout(sizes, features, multiplies);
    const T* p = shaped(parameters, {layout.parameters}, "parameters");
    const size_t count = rows_of(points, layout.axes, "points");
    T* to = shaped(out, {count, layout.width()}, "out");
    nb::gil_scoped_release release;
    run_features(layout, p, points.data(), count, to, execution_of(threads));
}

template <class T>
void features_backward_checked(const In<T>& parameters, const Sizes& sizes, size_t features, bool multiplies,
                               const In<T>& points, const In<T>& in_features, const Out<T>& in_parameters,
                               const std::optional<Out<T>>& in_points, int threads) {
    const PlaneLayout layout = make_layout(sizes, features, multiplies);
    const T* p = shaped(parameters, {layout.parameters}, "parameters");
    const size_t count = rows_of(points, layout.axes, "points");
    const FeatureGradient<T> gradient{shaped(in_features, {count, layout.width()}, "in_features"),
                                      shaped(in_parameters, {layout.parameters}, "in_parameters"),
                                      shaped_or_null(in_points, {count, layout.axes}, "in_points")};
    nb::gil_scoped_release release;
    run_features_backward(layout, p, points.data(), count, gradient, execution_of(threads));
}

template <class T>
Decoding<T> checked_decoding(const PlaneLayout& layout, const In<T>& parameters, const In<T>& points,
                             const Offsets& offsets, const std::optional<In<T>>& basis, const In<T>& density_basis) {
    Decoding<T> decoding{};
    decoding.layout = &layout;
    decoding.parameters = shaped(parameters, {layout.parameters}, "parameters");
    decoding.rays = checked_offsets(offsets, rows_of(points, layout.axes, "points"));
    decoding.points = points.data();
    decoding.offsets = offsets.data();
    decoding.colors = basis ? most_colors : 0;
    decoding.basis = shaped_or_null(basis, {decoding.rays, most_colors, layout.width()}, "basis");
    decoding.density_basis = shaped(density_basis, {layout.width()}, "density_basis");
    return decoding;
}

template <class T>
void decode_checked(const In<T>& parameters, const Sizes& sizes, size_t features, bool multiplies, const In<T>& points,
                    const Offsets& offsets, const std::optional<In<T>>& basis, const In<T>& density_basis,
                    const std::optional<In<T>>& lengths, double shift, double most, const Out<T>& out,
                    const Counts& counts, int threads) {
    const PlaneLayout layout = make_layout(sizes, features, multiplies);
    const Decoding<T> decoding = checked_decoding(layout, parameters, points, offsets, basis, density_basis);
    const size_t samples = points.shape(0);
    const Stopping<T> stopping{shaped_or_null(lengths, {samples}, "lengths"), static_cast<T>(shift),
                               static_cast<T>(most)};
    T* to = shaped(out, {samples, 1 + decoding.colors}, "out");
    std::int64_t* evaluated = shaped(counts, {decoding.rays}, "counts");
    nb::gil_scoped_release release;
    run_decode(decoding, stopping, to, evaluated, execution_of(threads));
}

template <class T>
void decode_backward_checked(const In<T>& parameters, const Sizes& sizes, size_t features, bool multiplies,
                             const In<T>& points, const Offsets& offsets, const Offsets& counts,
                             const std::optional<In<T>>& basis, const In<T>& density_basis, const In<T>& in_outputs,
                             const Out<T>& in_parameters, const std::optional<Out<T>>& in_basis,
                             const Out<T>& in_density_basis, int threads) {
    const PlaneLayout layout = make_layout(sizes, features, multiplies);
    const Decoding<T> decoding = checked_decoding(layout, parameters, points, offsets, basis, density_basis);
    const std::int64_t* evaluated = shaped(counts, {decoding.rays}, "counts");
    for (size_t r = 0; r < decoding.rays; ++r)
        require(evaluated[r] >= 0 && evaluated[r] <= decoding.offsets[r + 1] - decoding.offsets[r],
                "counts: more than the samples of a ray");
    require(basis.has_value() == in_basis.has_value(), "in_basis: wrong shape");
    const DecodingGradient<T> gradient{evaluated,
                                       shaped(in_outputs, {points.shape(0), 1 + decoding.colors}, "in_outputs"),
                                       shaped(in_parameters, {layout.parameters}, "in_parameters"),
                                       shaped_or_null(in_basis, {decoding.rays, most_colors, layout.width()}, "in_basis"),
                                       shaped(in_density_basis, {layout.width()}, "in_density_basis")};
    nb::gil_scoped_release release;
    run_decode_backward(decoding, gradient, execution_of(threads));
}

template <class T>
void update_checked(const Out<T>& parameters, const Out<T>& gradient, const Out<T>& mean, const Out<T>& square,
                    const Sizes& sizes, size_t features, const nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>& penalties,
                    double rate, double first_decay, double second_decay, double epsilon, size_t step, int threads) {
    const PlaneLayout layout = make_layout(sizes, features, true);
    const size_t planes = layout.scales.size() * layout.planes;
    const double* weight = shaped(penalties, {planes, 4}, "penalties");
    require(step > 0, "step: begins with one");
    std::vector<Penalties<T>> each;
    for (size_t i = 0; i < planes; ++i)
        each.push_back({static_cast<T>(weight[4 * i]), static_cast<T>(weight[4 * i + 1]), static_cast<T>(weight[4 * i + 2]),
                        static_cast<T>(weight[4 * i + 3])});
    const double number = static_cast<double>(step);
    const Adam<T> adam{static_cast<T>(rate), static_cast<T>(first_decay), static_cast<T>(second_decay),
                       static_cast<T>(epsilon), static_cast<T>(1 / (1 - std::pow(first_decay, number))),
                       static_cast<T>(1 / (1 - std::pow(second_decay, number)))};
    T *p = shaped(parameters, {layout.parameters}, "parameters"), *g = shaped(gradient, {layout.parameters}, "gradient"),
      *m = shaped(mean, {layout.parameters}, "mean"), *v = shaped(square, {layout.parameters}, "square");
    nb::gil_scoped_release release;
    run_update(layout, adam, each, p, g, m, v, execution_of(threads));
}

// An array that owns what a vector held.
template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T>&& values, std::initializer_list<size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.begin(), owner);
}

template <class T>
nb::tuple march_checked(const In<T>& origins, const In<T>& directions, const In<T>& nearest, const In<T>& farthest,
                        const In<T>& jitter, const std::optional<In<T>>& times,
                        const nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>& occupied,
                        double step, bool contracted, int threads) {
    const size_t rays = rows_of(origins, 3, "origins"), cells = occupied.shape(0);
    require(cells > 0 && occupied.shape(1) == cells && occupied.shape(2) == cells, "occupied: must be a cube");
    require(std::isfinite(step) && static_cast<T>(step) > 0, "step: must be positive");
    const MarchRequest<T> request{rays,
                                  origins.data(),
                                  shaped(directions, {rays, 3}, "directions"),
                                  shaped(nearest, {rays}, "nearest"),
                                  shaped(farthest, {rays}, "farthest"),
                                  shaped(jitter, {rays}, "jitter"),
                                  shaped_or_null(times, {rays}, "times"),
                                  occupied.data(),
                                  cells,
                                  static_cast<T>(step),
                                  contracted};
    Samples<T> samples;
    {
        nb::gil_scoped_release release;
        samples = march(request, execution_of(threads));
    }
    const size_t count = samples.distances.size();
    return nb::make_tuple(owned(std::move(samples.offsets), {rays + 1}), owned(std::move(samples.distances), {count}),
                          owned(std::move(samples.lengths), {count}),
                          owned(std::move(samples.points), {count, times ? size_t{4} : size_t{3}}));
}

template <class T>
Composite<T> checked_composite(const Offsets& offsets, const In<T>& distances, const In<T>& lengths, const In<T>& outputs,
                               double shift, const std::optional<In<T>>& background) {
    require(distances.ndim() == 1, "distances: wrong shape");
    const size_t samples = distances.shape(0), rays = checked_offsets(offsets, samples);
    const size_t colors = background ? most_colors : 0;
    return {rays, offsets.data(), distances.data(), shaped(lengths, {samples}, "lengths"),
            shaped(outputs, {samples, 1 + colors}, "outputs"), colors, static_cast<T>(shift),
            shaped_or_null(background, {rays, colors}, "background")};
}

template <class T>
void composite_checked(const Offsets& offsets, const In<T>& distances, const In<T>& lengths, const In<T>& outputs,
                       double shift, const std::optional<In<T>>& background, const std::optional<Out<T>>& color,
                       const Out<T>& depth, const Out<T>& opacity, const Out<T>& weights, int threads) {
    const Composite<T> scan = checked_composite(offsets, distances, lengths, outputs, shift, background);
    require(color.has_value() == background.has_value(), "color: wrong shape");
    T *c = shaped_or_null(color, {scan.rays, scan.colors}, "color"), *d = shaped(depth, {scan.rays}, "depth"),
      *o = shaped(opacity, {scan.rays}, "opacity"), *w = shaped(weights, {distances.shape(0)}, "weights");
    nb::gil_scoped_release release;
    composite(scan, c, d, o, w, execution_of(threads));
}

template <class T>
void composite_backward_checked(const Offsets& offsets, const In<T>& distances, const In<T>& lengths, const In<T>& outputs,
                                double shift, const std::optional<In<T>>& background,
                                const std::optional<In<T>>& in_color, const std::optional<In<T>>& in_depth,
                                const std::optional<In<T>>& in_opacity, const std::optional<In<T>>& in_weights,
                                const Out<T>& in_outputs, int threads) {
    const Composite<T> scan = checked_composite(offsets, distances, lengths, outputs, shift, background);
    require(in_color.has_value() == background.has_value(), "in_color: wrong shape");
    const size_t samples = distances.shape(0);
    const T *c = shaped_or_null(in_color, {scan.rays, scan.colors}, "in_color"),
            *d = shaped_or_null(in_depth, {scan.rays}, "in_depth"),
            *o = shaped_or_null(in_opacity, {scan.rays}, "in_opacity"),
            *w = shaped_or_null(in_weights, {samples}, "in_weights");
    T* to = shaped(in_outputs, {samples, 1 + scan.colors}, "in_outputs");
    nb::gil_scoped_release release;
    composite_backward(scan, c, d, o, w, to, execution_of(threads));
}

template <class T>
void distortion_checked(const Offsets& offsets, const In<T>& distances, const In<T>& lengths, const In<T>& weights,
                        const Out<T>& values, const Out<T>& in_weights, int threads) {
    require(distances.ndim() == 1, "distances: wrong shape");
    const size_t samples = distances.shape(0), rays = checked_offsets(offsets, samples);
    const T *l = shaped(lengths, {samples}, "lengths"), *w = shaped(weights, {samples}, "weights");
    T *v = shaped(values, {rays}, "values"), *g = shaped(in_weights, {samples}, "in_weights");
    nb::gil_scoped_release release;
    distortion(rays, offsets.data(), distances.data(), l, w, v, g, execution_of(threads));
}

// Nothing is converted: copies of outputs would be filled and lost.
template <class T>
void bind_type(nb::module_& module) {
    module.def("plane_features", &features_checked<T>, nb::arg("parameters").noconvert(), nb::arg("sizes"),
               nb::arg("features"), nb::arg("multiplies"), nb::arg("points").noconvert(), nb::arg("out").noconvert(),
               nb::arg("threads"));
    module.def("plane_features_backward", &features_backward_checked<T>, nb::arg("parameters").noconvert(),
               nb::arg("sizes"), nb::arg("features"), nb::arg("multiplies"), nb::arg("points").noconvert(),
               nb::arg("in_features").noconvert(), nb::arg("in_parameters").noconvert(),
               nb::arg("in_points").noconvert().none(), nb::arg("threads"));
    module.def("plane_decode", &decode_checked<T>, nb::arg("parameters").noconvert(), nb::arg("sizes"),
               nb::arg("features"), nb::arg("multiplies"), nb::arg("points").noconvert(), nb::arg("offsets").noconvert(),
               nb::arg("basis").noconvert().none(), nb::arg("density_basis").noconvert(),
               nb::arg("lengths").noconvert().none(), nb::arg("shift"), nb::arg("most"), nb::arg("out").noconvert(),
               nb::arg("counts").noconvert(), nb::arg("threads"));
    module.def("plane_decode_backward", &decode_backward_checked<T>, nb::arg("parameters").noconvert(), nb::arg("sizes"),
               nb::arg("features"), nb::arg("multiplies"), nb::arg("points").noconvert(), nb::arg("offsets").noconvert(),
               nb::arg("counts").noconvert(), nb::arg("basis").noconvert().none(), nb::arg("density_basis").noconvert(),
               nb::arg("in_outputs").noconvert(), nb::arg("in_parameters").noconvert(),
               nb::arg("in_basis").noconvert().none(), nb::arg("in_density_basis").noconvert(), nb::arg("threads"));
    module.def("plane_update", &update_checked<T>, nb::arg("parameters").noconvert(), nb::arg("gradient").noconvert(),
               nb::arg("mean").noconvert(), nb::arg("square").noconvert(), nb::arg("sizes"), nb::arg("features"),
               nb::arg("penalties").noconvert(), nb::arg("rate"), nb::arg("first_decay"), nb::arg("second_decay"),
               nb::arg("epsilon"), nb::arg("step"), nb::arg("threads"));
    module.def("march", &march_checked<T>, nb::arg("origins").noconvert(), nb::arg("directions").noconvert(),
               nb::arg("nearest").noconvert(), nb::arg("farthest").noconvert(), nb::arg("jitter").noconvert(),
               nb::arg("times").noconvert().none(), nb::arg("occupied").noconvert(), nb::arg("step"),
               nb::arg("contracted"), nb::arg("threads"));
    module.def("composite", &composite_checked<T>, nb::arg("offsets").noconvert(), nb::arg("distances").noconvert(),
               nb::arg("lengths").noconvert(), nb::arg("outputs").noconvert(), nb::arg("shift"),
               nb::arg("background").noconvert().none(), nb::arg("color").noconvert().none(),
               nb::arg("depth").noconvert(), nb::arg("opacity").noconvert(), nb::arg("weights").noconvert(),
               nb::arg("threads"));
    module.def("composite_backward", &composite_backward_checked<T>, nb::arg("offsets").noconvert(),
               nb::arg("distances").noconvert(), nb::arg("lengths").noconvert(), nb::arg("outputs").noconvert(),
               nb::arg("shift"), nb::arg("background").noconvert().none(), nb::arg("in_color").noconvert().none(),
               nb::arg("in_depth").noconvert().none(), nb::arg("in_opacity").noconvert().none(),
               nb::arg("in_weights").noconvert().none(), nb::arg("in_outputs").noconvert(), nb::arg("threads"));
    module.def("distortion", &distortion_checked<T>, nb::arg("offsets").noconvert(), nb::arg("distances").noconvert(),
               nb::arg("lengths").noconvert(), nb::arg("weights").noconvert(), nb::arg("values").noconvert(),
               nb::arg("in_weights").noconvert(), nb::arg("threads"));
}

}  // namespace

void bind_fields(nb::module_& module) {
    bind_type<float>(module);
    bind_type<double>(module);
}

}  // namespace gyrfalcon
