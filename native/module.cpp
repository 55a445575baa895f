// The Python door: checks everything that the core takes for granted, then releases the interpreter.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core.hpp"
#include "sgd.hpp"
#include "sparse.hpp"

namespace nb = nanobind;

namespace gyrfalcon {
void bind_fields(nb::module_& module);     // fields_door.cpp
void bind_recursive(nb::module_& module);  // recursive.cpp
}
using namespace gyrfalcon;

namespace {

using Doubles = std::vector<double>;
// family, gain, first, second, shift, scale, has_matrix, first_input
using LeafTuple = std::tuple<std::string, double, double, double, Doubles, Doubles, bool, std::size_t>;
// operation, leaf, value
using StepTuple = std::tuple<std::string, int, double>;

template <class T>
using Input = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

void require(bool condition, const std::string& message) {
    if (!condition) throw std::invalid_argument(message);
}

// The value of an enumeration whose names are listed in its order.
template <class Enum, class Names>
Enum named(const Names& names, const std::string& name, const char* what) {
    const auto found = std::find_if(std::begin(names), std::end(names), [&](std::string_view n) { return n == name; });
    require(found != std::end(names), std::string(what) + ": unknown name '" + name + "'");
    return static_cast<Enum>(found - std::begin(names));
}

Family family_named(const std::string& name) {
    const auto found = std::find_if(std::begin(families), std::end(families),
                                    [&](const FamilyTraits& family) { return family.name == name; });
    require(found != std::end(families), "leaves: unknown kernel family '" + name + "'");
    return static_cast<Family>(found - std::begin(families));
}

nb::dict described_families() {
    nb::dict described;
    for (const FamilyTraits& family : families) {
        nb::dict entry;
        entry["argument"] = argument_names[static_cast<std::size_t>(family.argument)];
        entry["differentiable"] = family.has_slope;
        described[nb::str(family.name.data(), family.name.size())] = entry;
    }
    return described;
}

nb::list described_losses() {
    nb::list described;
    for (const char* name : loss_names) described.append(name);
    return described;
}

template <class T, class Array>
Strided<T> strided(const Array& array) {
    return {array.data(), array.shape(0), array.shape(1), static_cast<std::ptrdiff_t>(array.stride(0)),
            static_cast<std::ptrdiff_t>(array.stride(1))};
}

void check_constants(double gain, double first, double second) {
    require(std::isfinite(gain) && std::isfinite(first) && std::isfinite(second), "leaves: constants not finite");
}

std::vector<Step> make_steps(const std::vector<StepTuple>& steps, std::size_t leaves) {
    std::vector<Step> made;
    std::size_t depth = 0;
    for (const auto& [operation, leaf, value] : steps) {
        const auto kind = named<Operation>(operation_names, operation, "steps");
        const bool pops = kind == Operation::add || kind == Operation::multiply;
        require(depth >= (pops ? 2u : kind == Operation::scale ? 1u : 0u), "steps: operand missing");
        require(kind != Operation::leaf || (leaf >= 0 && static_cast<std::size_t>(leaf) < leaves),
                "steps: no such leaf");
        depth += kind == Operation::leaf ? 1 : 0;
        depth -= pops ? 1 : 0;
        made.push_back({kind, leaf, value});
    }
    require(depth == 1, "steps: the expression must leave one value");
    return made;
}

Program make_program(std::size_t inputs, const std::vector<LeafTuple>& leaves, const std::vector<StepTuple>& steps) {
    Program program;
    program.inputs = inputs;
    for (const auto& [family, gain, first, second, shift, scale, has_matrix, first_input] : leaves) {
        const std::size_t own = shift.size();  // columns of X that this leaf sees
        check_constants(gain, first, second);
        require(first_input <= inputs && own <= inputs - first_input, "leaves: shift goes beyond the columns of X");
        require(has_matrix ? own != 0 && scale.size() % own == 0 : scale.size() == own,
                "leaves: scale needs an entry, or a row, for each entry of shift");
        Leaf leaf;
        leaf.family = family_named(family);
        leaf.gain = gain;
        leaf.first = first;
        leaf.second = second;
        leaf.width = has_matrix ? scale.size() / own : own;
        leaf.shift = shift;
        leaf.scale = scale;
        leaf.has_matrix = has_matrix;
        leaf.first_input = first_input;
        program.leaves.push_back(std::move(leaf));
    }
    program.steps = make_steps(steps, leaves.size());
    return program;
}

bool interrupted() {
    nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

// Calls work without the interpreter.
template <class Work>
auto released(const Work& work) {
    try {
        nb::gil_scoped_release release;
        return work();
    } catch (const Interrupted&) {
        throw nb::python_error();  // the signal handler has set it
    }
}

// What every product takes beside its points, n and m of them.
template <class T>
void check_vectors(Request<T>& request, const std::string& task, std::size_t n, std::size_t m,
                   const std::optional<Input<T>>& v, const std::optional<Input<T>>& weights,
                   const std::optional<Output<T>>& out, const std::optional<Output<double>>& sums) {
    request.task = named<Task>(task_names, task, "task");
    require(out.has_value() != sums.has_value(), "out, sums: give one of them");
    const std::size_t out_rows = out ? out->shape(0) : sums->shape(0), out_columns = out ? out->shape(1) : sums->shape(1);
    if (request.task == Task::evaluate) {
        require(out_rows == n && out_columns == m, "out: wrong shape");
    } else {
        require(v.has_value(), "V: missing");
        request.v = strided<const T>(*v);
        const bool from_rows = request.task == Task::multiply_transposed, to_rows = request.task == Task::multiply;
        require(v->shape(0) == (from_rows ? n : m), "V: wrong number of rows");
        require(out_rows == (to_rows ? n : m) && out_columns == v->shape(1), "out: wrong shape");
    }
    require(!sums || request.task == Task::multiply_transposed || request.task == Task::multiply_gram,
            "sums: only transposed and gram products sum over the rows");
    if (weights) {
        require(weights->shape(0) == n && weights->shape(1) == 1, "weights: needs one entry per row of X");
        request.weights = strided<const T>(*weights);
    }
    if (out) request.out = strided<T>(*out);
    if (sums) request.sums = strided<double>(*sums);
}

template <class T>
void run_checked(const std::string& task, const std::vector<LeafTuple>& leaves, const std::vector<StepTuple>& steps,
                 const Input<T>& x, const Input<T>& c, const std::optional<Input<T>>& v,
                 const std::optional<Input<T>>& weights, const std::optional<Output<T>>& out,
                 const std::optional<Output<double>>& sums, int threads, std::size_t partial_bytes) {
    Request<T> request;
    request.program = make_program(x.shape(1), leaves, steps);
    request.x = strided<const T>(x);
    request.c = strided<const T>(c);
    require(c.shape(1) == x.shape(1), "C: needs as many columns as X");
    check_vectors(request, task, x.shape(0), c.shape(0), v, weights, out, sums);
    const Execution execution{std::clamp(threads, 1, 1024), partial_bytes, interrupted};
    released([&] { run(request, execution); });
}

template <class T>
using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// family, gain, first, second, which scales
using SparseLeafTuple = std::tuple<std::string, double, double, double, int>;
using SparseTuple = std::tuple<Flat<std::int64_t>, Flat<std::int64_t>, Flat<double>>;

// Rows whose every entry is there, with features below `width`.
template <class T, class Index>
SparseRows<T, Index> checked_rows(const Flat<Index>& ends, const Flat<Index>& features, const Flat<T>& values,
                                  std::size_t width, const std::string& name) {
    require(ends.shape(0) > 0, name + ": needs the end of every row");
    require(features.shape(0) == values.shape(0), name + ": needs a feature for every value");
    const SparseRows<T, Index> rows{ends.shape(0) - 1, ends.data(), features.data(), values.data()};
    require(rows.ends[0] >= 0 && std::is_sorted(rows.ends, rows.ends + ends.shape(0)) &&
                static_cast<std::size_t>(rows.ends[rows.rows]) <= features.shape(0),
            name + ": the ends of its rows are corrupt");
    bool inside = true;
    for (Index e = rows.ends[0]; e < rows.ends[rows.rows]; ++e)
        inside &= rows.features[e] >= 0 && static_cast<std::size_t>(rows.features[e]) < width;
    require(inside, name + ": a feature is beyond its columns");
    return rows;
}

template <class T, class Index>
void run_sparse_checked(const std::string& task, const std::vector<SparseLeafTuple>& leaves,
                        const std::vector<StepTuple>& steps, std::size_t features, const Flat<Index>& x_ends,
                        const Flat<Index>& x_features, const Flat<T>& x_values, const std::optional<SparseTuple>& c,
                        const std::optional<Input<double>>& dense_c, const std::vector<Flat<double>>& scales,
                        const std::optional<Input<T>>& v, const std::optional<Input<T>>& weights,
                        const std::optional<Output<T>>& out, const std::optional<Output<double>>& sums, int threads,
                        std::size_t partial_bytes) {
    SparseRequest<T, Index> request;
    request.features = features;
    request.x = checked_rows<T, Index>(x_ends, x_features, x_values, features, "X");
    require(c.has_value() != dense_c.has_value(), "C: sparse or dense");
    if (c) {
        const auto& [c_ends, c_features, c_values] = *c;
        request.c = checked_rows<double, std::int64_t>(c_ends, c_features, c_values, features, "C");
    } else {
        require(dense_c->shape(1) == features, "C: needs as many columns as X");
        request.dense_c = strided<const double>(*dense_c);
    }
    const std::size_t n = request.x.rows, m = c ? request.c.rows : request.dense_c.rows;
    const std::size_t most = std::numeric_limits<std::int32_t>::max();
    require(m <= most && (!c || std::get<1>(*c).shape(0) <= most), "C: too large");
    for (const auto& [family, gain, first, second, which] : leaves) {
        check_constants(gain, first, second);
        require(which >= 0 && static_cast<std::size_t>(which) < scales.size(), "leaves: no such scales");
        Leaf leaf;
        leaf.family = family_named(family);
        require(traits(leaf.family).argument != Argument::absolute_distance, "leaves: a family that needs dense points");
        leaf.gain = gain;
        leaf.first = first;
        leaf.second = second;
        request.product.program.leaves.push_back(std::move(leaf));
        request.scale_of.push_back(static_cast<std::size_t>(which));
    }
    for (const auto& scale : scales) {
        require(scale.shape(0) == 1 || scale.shape(0) == features, "scales: needs one, or one per feature");
        request.scales.push_back({scale.data(), scale.shape(0)});
    }
    request.product.program.steps = make_steps(steps, leaves.size());
    request.product.x.rows = n;
    request.product.c.rows = m;
    check_vectors(request.product, task, n, m, v, weights, out, sums);
    const Execution execution{std::clamp(threads, 1, 1024), partial_bytes, interrupted};
    released([&] { run_sparse(request, execution); });
}

template <class T>
double run_gradient_checked(const LeafTuple& leaf, const Input<T>& x, const Input<T>& c, const Input<T>& left,
                            const std::optional<Input<T>>& right, const std::optional<Output<double>>& in_centers,
                            const std::optional<Output<double>>& in_scales, int threads, std::size_t partial_bytes) {
    GradientRequest<T> request;
    request.inputs = x.shape(1);
    request.leaf = make_program(x.shape(1), {leaf}, {{"leaf", 0, 1.0}}).leaves[0];
    require(has_slope(request.leaf.family), "leaf: this family has no derivative here");
    require(c.shape(1) == x.shape(1), "C: needs as many columns as X");
    request.x = strided<const T>(x);
    request.c = strided<const T>(c);
    const std::size_t n = x.shape(0), m = c.shape(0), width = request.leaf.width;
    require(left.shape(0) == n, "left: needs as many rows as X");
    require(left.shape(1) == (right ? right->shape(1) : m), "left: wrong number of columns");
    require(!right || right->shape(0) == m, "right: needs as many rows as C");
    request.left = strided<const T>(left);
    request.dense = !right;
    if (right) request.right = strided<const T>(*right);
    if (in_centers) {
        require(in_centers->shape(0) == m && in_centers->shape(1) == width, "in_centers: wrong shape");
        request.in_centers = strided<double>(*in_centers);
    }
    if (in_scales) {
        require(in_scales->shape(0) == 1 && in_scales->shape(1) == width, "in_scales: wrong shape");
        request.in_scales = strided<double>(*in_scales);
    }
    const Execution execution{std::clamp(threads, 1, 1024), partial_bytes, interrupted};
    return released([&] { return run_gradient(request, execution); });
}

using Contiguous = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Written = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Array>
auto* shaped(const Array& array, std::size_t rows, std::size_t columns, const char* name) {
    require(array.shape(0) == rows && array.shape(1) == columns, std::string(name) + ": wrong shape");
    return array.data();
}

void run_sgd_checked(const std::string& loss, double parameter, std::size_t batch, const std::optional<Contiguous>& gram,
                     const Written& f, const Contiguous& targets, const Contiguous& weights, const Contiguous& steps,
                     const Contiguous& votes, double penalty, double rate, const Written& coefficients,
                     const Written& averages, const Written& shrinks, const Written& shares, const Written& intercepts,
                     const Written& sums, int threads) {
    require(std::isfinite(parameter) && std::isfinite(penalty) && std::isfinite(rate),
            "parameter, penalty, rate: not finite");
    SgdRequest request{};
    request.loss = named<Loss>(loss_names, loss, "loss");
    request.parameter = parameter;
    const std::size_t n = request.rows = targets.shape(0), t = request.outputs = targets.shape(1);
    const std::size_t runs = request.runs = weights.shape(0);
    require(t > 0, "targets: needs a column");
    require(batch > 0, "batch: must be positive");
    request.batch = batch;
    const std::size_t batches = request.batches = n / batch + (n % batch != 0);
    require(runs == 0 || t <= static_cast<std::size_t>(-1) / runs, "weights: too many runs");
    require(gram.has_value() || batches <= 1, "gram: needed for more than one batch");
    request.gram = gram ? shaped(*gram, n, n, "gram") : nullptr;
    request.targets = targets.data();
    request.weights = shaped(weights, runs, n, "weights");
    request.steps = shaped(steps, runs, batches, "steps");
    request.votes = shaped(votes, runs, batches, "votes");
    request.penalty = penalty;
    request.rate = rate;
    request.f = shaped(f, runs * t, n, "f");
    request.coefficients = shaped(coefficients, runs * t, n, "coefficients");
    request.averages = shaped(averages, runs * t, n, "averages");
    request.shrinks = shaped(shrinks, runs, 1, "shrinks");
    request.shares = shaped(shares, runs, 1, "shares");
    request.intercepts = shaped(intercepts, runs, t, "intercepts");
    request.sums = shaped(sums, runs, t, "sums");
    const Execution execution{std::clamp(threads, 1, 1024), 0, interrupted};
    released([&] { run_sgd(request, execution); });
}

template <class T>
void run_waves_checked(const Input<T>& x, const Doubles& scale, const Input<T>& signs, const Input<T>& radii,
                       double amplitude, const Output<T>& out, int threads) {
    const std::size_t blocks = radii.shape(0), length = radii.shape(1);
    require(length >= shortest_block && (length & (length - 1)) == 0, "radii: blocks need a power of two, 64 or more");
    require(x.shape(1) <= length, "x: more columns than a block is long");
    require(scale.size() == x.shape(1), "scale: needs one entry per column of x");
    require(signs.shape(0) == 3 * blocks && signs.shape(1) == length, "signs: wrong shape");
    require(std::isfinite(amplitude), "amplitude: not finite");
    require(out.shape(0) == x.shape(0), "out: needs as many rows as x");
    require(blocks != 0 && out.shape(1) <= 2 * blocks * length && out.shape(1) > 2 * (blocks - 1) * length,
            "out: wrong number of columns");
    const WaveRequest<T> request{strided<const T>(x), scale, strided<const T>(signs), strided<const T>(radii),
                                 amplitude, strided<T>(out)};
    const Execution execution{std::clamp(threads, 1, 1024), 0, interrupted};
    released([&] { run_waves(request, execution); });
}

template <class T>
void bind_run(nb::module_& module) {
    // Never converted: a copy of `out` would be filled and lost, and a copy of X would break the memory budget.
    module.def("run", &run_checked<T>, nb::arg("task"), nb::arg("leaves"), nb::arg("steps"), nb::arg("x").noconvert(),
               nb::arg("c").noconvert(), nb::arg("v").noconvert().none(), nb::arg("weights").noconvert().none(),
               nb::arg("out").noconvert().none(), nb::arg("sums").noconvert().none(), nb::arg("threads"), nb::arg("partial_bytes"));
    module.def("run_waves", &run_waves_checked<T>, nb::arg("x").noconvert(), nb::arg("scale"),
               nb::arg("signs").noconvert(), nb::arg("radii").noconvert(), nb::arg("amplitude"),
               nb::arg("out").noconvert(), nb::arg("threads"));
    module.def("run_gradient", &run_gradient_checked<T>, nb::arg("leaf"), nb::arg("x").noconvert(),
               nb::arg("c").noconvert(), nb::arg("left").noconvert(), nb::arg("right").noconvert().none(),
               nb::arg("in_centers").noconvert().none(), nb::arg("in_scales").noconvert().none(), nb::arg("threads"),
               nb::arg("partial_bytes"));
}

template <class T, class Index>
void bind_run_sparse(nb::module_& module) {
    module.def("run_sparse", &run_sparse_checked<T, Index>, nb::arg("task"), nb::arg("leaves"), nb::arg("steps"),
               nb::arg("features"), nb::arg("x_ends").noconvert(), nb::arg("x_features").noconvert(),
               nb::arg("x_values").noconvert(), nb::arg("c").noconvert().none(), nb::arg("dense_c").noconvert().none(),
               nb::arg("scales"), nb::arg("v").noconvert().none(), nb::arg("weights").noconvert().none(),
               nb::arg("out").noconvert().none(), nb::arg("sums").noconvert().none(), nb::arg("threads"),
               nb::arg("partial_bytes"));
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Products with kernel matrices that are never stored.";
    bind_run<float>(module);
    bind_run<double>(module);
    bind_run_sparse<float, std::int32_t>(module);
    bind_run_sparse<float, std::int64_t>(module);
    bind_run_sparse<double, std::int32_t>(module);
    bind_run_sparse<double, std::int64_t>(module);
    module.def("run_sgd", &run_sgd_checked, nb::arg("loss"), nb::arg("parameter"), nb::arg("batch"),
               nb::arg("gram").noconvert().none(), nb::arg("f").noconvert(), nb::arg("targets").noconvert(),
               nb::arg("weights").noconvert(), nb::arg("steps").noconvert(), nb::arg("votes").noconvert(),
               nb::arg("penalty"), nb::arg("rate"), nb::arg("coefficients").noconvert(),
               nb::arg("averages").noconvert(), nb::arg("shrinks").noconvert(), nb::arg("shares").noconvert(),
               nb::arg("intercepts").noconvert(), nb::arg("sums").noconvert(), nb::arg("threads"));
    module.def("families", &described_families);
    module.def("losses", &described_losses);
    bind_fields(module);
    bind_recursive(module);
    module.def("instruction_set", &instruction_set);
    module.def("exponential_nanoseconds",
               [](bool single) { return single ? exponential_nanoseconds<float>() : exponential_nanoseconds<double>(); });
}
