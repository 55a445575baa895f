// The Python door: checks everything that the core takes for granted, then releases the interpreter.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "core.hpp"
#include "sgd.hpp"

namespace nb = nanobind;

namespace gyrfalcon {
void bind_recursive(nb::module_& module);  // recursive.cpp
}
using namespace gyrfalcon;

namespace {

using Doubles = std::vector<double>;
// family, gain, first, second, shift, scale, has_matrix
using LeafTuple = std::tuple<int, double, double, double, Doubles, Doubles, bool>;
// operation, leaf, value
using StepTuple = std::tuple<int, int, double>;

template <class T>
using Input = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

void require(bool condition, const std::string& message) {
    if (!condition) throw std::invalid_argument(message);
}

template <class T, class Array>
Strided<T> strided(const Array& array) {
    return {array.data(), array.shape(0), array.shape(1), static_cast<std::ptrdiff_t>(array.stride(0)),
            static_cast<std::ptrdiff_t>(array.stride(1))};
}

Program make_program(std::size_t inputs, const std::vector<LeafTuple>& leaves, const std::vector<StepTuple>& steps) {
    Program program;
    program.inputs = inputs;
    for (const auto& [family, gain, first, second, shift, scale, has_matrix] : leaves) {
        require(family >= 0 && family <= static_cast<int>(Family::fourier), "leaves: unknown kernel family");
        require(std::isfinite(gain) && std::isfinite(first) && std::isfinite(second), "leaves: constants not finite");
        require(shift.size() == inputs, "leaves: shift needs one entry per column of X");
        require(has_matrix ? inputs != 0 && scale.size() % inputs == 0 : scale.size() == inputs,
                "leaves: scale does not fit the columns of X");
        Leaf leaf;
        leaf.family = static_cast<Family>(family);
        leaf.gain = gain;
        leaf.first = first;
        leaf.second = second;
        leaf.width = has_matrix ? scale.size() / inputs : inputs;
        leaf.shift = shift;
        leaf.scale = scale;
        leaf.has_matrix = has_matrix;
        program.leaves.push_back(std::move(leaf));
    }
    std::size_t depth = 0;
    for (const auto& [operation, leaf, value] : steps) {
        require(operation >= 0 && operation <= static_cast<int>(Operation::scale), "steps: unknown operation");
        const auto kind = static_cast<Operation>(operation);
        const bool pops = kind == Operation::add || kind == Operation::multiply;
        require(depth >= (pops ? 2u : kind == Operation::scale ? 1u : 0u), "steps: operand missing");
        require(kind != Operation::leaf || (leaf >= 0 && static_cast<std::size_t>(leaf) < leaves.size()),
                "steps: no such leaf");
        depth += kind == Operation::leaf ? 1 : 0;
        depth -= pops ? 1 : 0;
        program.steps.push_back({kind, leaf, value});
    }
    require(depth == 1, "steps: the expression must leave one value");
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

template <class T>
void run_checked(int task, const std::vector<LeafTuple>& leaves, const std::vector<StepTuple>& steps,
                 const Input<T>& x, const Input<T>& c, const std::optional<Input<T>>& v,
                 const std::optional<Input<T>>& weights, const std::optional<Output<T>>& out,
                 const std::optional<Output<double>>& sums, int threads, std::size_t partial_bytes) {
    require(task >= 0 && task <= static_cast<int>(Task::evaluate), "task: unknown");
    Request<T> request;
    request.task = static_cast<Task>(task);
    request.program = make_program(x.shape(1), leaves, steps);
    request.x = strided<const T>(x);
    request.c = strided<const T>(c);
    require(c.shape(1) == x.shape(1), "C: needs as many columns as X");
    const std::size_t n = x.shape(0), m = c.shape(0);
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
    const Execution execution{std::clamp(threads, 1, 1024), partial_bytes, interrupted};
    released([&] { run(request, execution); });
}

template <class T>
double run_gradient_checked(const LeafTuple& leaf, const Input<T>& x, const Input<T>& c, const Input<T>& left,
                            const std::optional<Input<T>>& right, const std::optional<Output<double>>& in_centres,
                            const std::optional<Output<double>>& in_scales, int threads, std::size_t partial_bytes) {
    GradientRequest<T> request;
    request.inputs = x.shape(1);
    request.leaf = make_program(x.shape(1), {leaf}, {{0, 0, 1.0}}).leaves[0];
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
    if (in_centres) {
        require(in_centres->shape(0) == m && in_centres->shape(1) == width, "in_centres: wrong shape");
        request.in_centres = strided<double>(*in_centres);
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

void run_sgd_checked(int loss, double parameter, std::size_t batch, const std::optional<Contiguous>& gram,
                     const Written& f, const Contiguous& targets, const Contiguous& weights, const Contiguous& steps,
                     const Contiguous& votes, double penalty, double rate, const Written& coefficients,
                     const Written& averages, const Written& shrinks, const Written& shares, const Written& intercepts,
                     const Written& sums, int threads) {
    require(loss >= 0 && loss <= static_cast<int>(Loss::softmax), "loss: unknown");
    require(std::isfinite(parameter) && std::isfinite(penalty) && std::isfinite(rate),
            "parameter, penalty, rate: not finite");
    SgdRequest request{};
    request.loss = static_cast<Loss>(loss);
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
               nb::arg("in_centres").noconvert().none(), nb::arg("in_scales").noconvert().none(), nb::arg("threads"),
               nb::arg("partial_bytes"));
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Products with kernel matrices that are never stored.";
    bind_run<float>(module);
    bind_run<double>(module);
    module.def("run_sgd", &run_sgd_checked, nb::arg("loss"), nb::arg("parameter"), nb::arg("batch"),
               nb::arg("gram").noconvert().none(), nb::arg("f").noconvert(), nb::arg("targets").noconvert(),
               nb::arg("weights").noconvert(), nb::arg("steps").noconvert(), nb::arg("votes").noconvert(),
               nb::arg("penalty"), nb::arg("rate"), nb::arg("coefficients").noconvert(),
               nb::arg("averages").noconvert(), nb::arg("shrinks").noconvert(), nb::arg("shares").noconvert(),
               nb::arg("intercepts").noconvert(), nb::arg("sums").noconvert(), nb::arg("threads"));
    bind_recursive(module);
    module.def("instruction_set", &instruction_set);
    module.def("exponential_nanoseconds",
               [](bool single) { return single ? exponential_nanoseconds<float>() : exponential_nanoseconds<double>(); });
}
