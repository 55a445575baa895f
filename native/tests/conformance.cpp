// The compiled core against plain loops in long double, without Python: what can run on a processor that is only
// emulated. Every family, task and type; the derivatives of the families that have them.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../core.hpp"

namespace {

using namespace gyrfalcon;
using Real = long double;

template <class T>
struct Matrix {
    std::size_t rows, columns;
    std::vector<T> entries;

    Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), entries(r * c) {}
    T& operator()(std::size_t i, std::size_t j) { return entries[i * columns + j]; }
    const T& operator()(std::size_t i, std::size_t j) const { return entries[i * columns + j]; }
    Strided<T> view() { return {entries.data(), rows, columns, static_cast<std::ptrdiff_t>(columns), 1}; }
    Strided<const T> view() const { return {entries.data(), rows, columns, static_cast<std::ptrdiff_t>(columns), 1}; }
};

template <class T>
Matrix<T> normal(std::size_t rows, std::size_t columns, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> draw;
    Matrix<T> made(rows, columns);
    for (T& entry : made.entries) entry = static_cast<T>(draw(generator));
    return made;
}

Leaf leaf_of(Family family, std::size_t width) {
    Leaf leaf;
    leaf.family = family;
    leaf.width = width;
    leaf.gain = 0.3 / static_cast<double>(width);
    leaf.first = family == Family::polynomial ? 0.5 : 0.75;
    leaf.second = 3;
    for (std::size_t k = 0; k < width; ++k) {
        leaf.shift.push_back(0.1 * static_cast<double>(k % 3));
        leaf.scale.push_back(1 + 0.05 * static_cast<double>(k % 4));
    }
    return leaf;
}

Real argument(const Leaf& leaf, const std::vector<Real>& x, const std::vector<Real>& c) {
    Real sum = 0;
    for (std::size_t k = 0; k < leaf.width; ++k) {
        const Real difference = x[k] - c[k];
        switch (traits(leaf.family).argument) {
            case Argument::squared_distance: sum += difference * difference; break;
            case Argument::absolute_distance: sum += std::fabs(difference); break;
            case Argument::inner_product: sum += x[k] * c[k]; break;
        }
    }
    return leaf.gain * sum;
}

// The kernel's value as a function of its argument, as the documentation of each family writes it.
Real profile(const Leaf& leaf, Real q) {
    const Real first = leaf.first;
    switch (leaf.family) {
        case Family::gaussian: return std::exp2(-q);
        case Family::laplacian: return std::exp2(-std::sqrt(q));
        case Family::matern32: return (1 + std::sqrt(q)) * std::exp(-std::sqrt(q));
        case Family::matern52: return (1 + std::sqrt(q) + q / 3) * std::exp(-std::sqrt(q));
        case Family::exponential_power: return std::exp(-std::pow(q, first));
        case Family::rational_quadratic: return std::pow(1 + q, -first);
        case Family::cauchy: return 1 / (1 + q);
        case Family::product_laplacian: return std::exp2(-q);
        case Family::product_laplacian_power: return std::exp(-std::pow(q, first));
        case Family::linear: return q;
        case Family::polynomial: return std::pow(q + first, static_cast<Real>(leaf.second));
        case Family::sigmoid: return std::tanh(q + first);
        case Family::fourier: return first * std::cos(2 * std::acos(Real(-1)) * (q - Real(1) / 8));
    }
    throw std::logic_error("a family without a profile");
}

template <class T>
std::vector<Real> mapped(const Leaf& leaf, const Matrix<T>& points, std::size_t row) {
    std::vector<Real> z;
    for (std::size_t k = 0; k < leaf.width; ++k)
        z.push_back((static_cast<Real>(points(row, k)) - leaf.shift[k]) * leaf.scale[k]);
    return z;
}

int failures = 0;

// Compares with an error that is measured in units of what the terms of each sum add up to.
template <class T>
void compare(const std::string& what, const std::vector<Real>& found, const std::vector<Real>& expected,
             const std::vector<Real>& size) {
    // A distance of normal data loses a few digits to cancellation, a sum some more.
    const Real tolerance = 200 * static_cast<Real>(std::numeric_limits<T>::epsilon());
    Real worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const Real error = std::fabs(found[i] - expected[i]) / std::max(size[i], Real(1e-3));
        worst = std::isfinite(found[i]) ? std::max(worst, error) : std::numeric_limits<Real>::infinity();
    }
    if (!(worst <= tolerance)) {
        ++failures;
        std::printf("FAILED %s: error %.3Lg, allowed %.3Lg\n", what.c_str(), worst, tolerance);
    }
}

template <class T>
std::vector<Real> as_reals(const Matrix<T>& matrix) {
    return {matrix.entries.begin(), matrix.entries.end()};
}

// out = op(K) V, entry by entry, and what the absolute values of its terms add up to.
struct Sums {
    std::vector<Real> values, sizes;
};

Sums times(const Matrix<Real>& K, const Matrix<Real>& V, bool transposed) {
    const std::size_t rows = transposed ? K.columns : K.rows, inner = transposed ? K.rows : K.columns;
    Sums sums{std::vector<Real>(rows * V.columns), std::vector<Real>(rows * V.columns)};
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t t = 0; t < V.columns; ++t)
            for (std::size_t j = 0; j < inner; ++j) {
                const Real term = (transposed ? K(j, i) : K(i, j)) * V(j, t);
                sums.values[i * V.columns + t] += term;
                sums.sizes[i * V.columns + t] += std::fabs(term);
            }
    return sums;
}

template <class T>
Matrix<Real> in_reals(const Matrix<T>& matrix) {
    Matrix<Real> made(matrix.rows, matrix.columns);
    std::copy(matrix.entries.begin(), matrix.entries.end(), made.entries.begin());
    return made;
}

template <class T>
void check_products(const Leaf& leaf, std::size_t n, std::size_t m, int threads, const std::string& label) {
    const Matrix<T> x = normal<T>(n, leaf.width, 1), c = normal<T>(m, leaf.width, 2);
    Matrix<Real> K(n, m);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j) K(i, j) = profile(leaf, argument(leaf, mapped(leaf, x, i), mapped(leaf, c, j)));

    Execution execution;
    execution.threads = threads;
    execution.partial_bytes = std::size_t(1) << 24;
    execution.interrupted = [] { return false; };
    const auto run_task = [&](Task task, const Matrix<T>* v, Matrix<T>& out) {
        Request<T> request;
        request.task = task;
        request.program.inputs = leaf.width;
        request.program.leaves = {leaf};
        request.program.steps = {{Operation::leaf, 0, 1}};
        request.x = x.view();
        request.c = c.view();
        if (v) request.v = v->view();
        request.out = out.view();
        run(request, execution);
        return as_reals(out);
    };
    const Matrix<T> of_centers = normal<T>(m, 3, 3), of_rows = normal<T>(n, 3, 4);
    Matrix<T> wide(n, m), tall(n, 3), small(m, 3);

    std::vector<Real> one_each;
    for (const Real& entry : K.entries) one_each.push_back(std::max(std::fabs(entry), Real(1)));
    compare<T>(label + " evaluate", run_task(Task::evaluate, nullptr, wide), K.entries, one_each);

    const Sums forward = times(K, in_reals(of_centers), false);
    compare<T>(label + " multiply", run_task(Task::multiply, &of_centers, tall), forward.values, forward.sizes);
    const Sums backward = times(K, in_reals(of_rows), true);
    compare<T>(label + " multiply_transposed", run_task(Task::multiply_transposed, &of_rows, small), backward.values,
               backward.sizes);

    Matrix<Real> middle(n, 3), middle_size(n, 3), K_size = K;
    middle.entries = forward.values;
    middle_size.entries = forward.sizes;
    for (Real& entry : K_size.entries) entry = std::fabs(entry);
    const Sums gram = times(K, middle, true), size = times(K_size, middle_size, true);
    compare<T>(label + " multiply_gram", run_task(Task::multiply_gram, &of_centers, small), gram.values, size.values);
}

// The derivative of the profile in its argument.
Real slope(const Leaf& leaf, Real q) {
    const Real r = std::sqrt(q), first = leaf.first, ln_2 = std::log(Real(2));
    switch (leaf.family) {
        case Family::gaussian:
        case Family::product_laplacian: return -ln_2 * std::exp2(-q);
        case Family::laplacian: return -ln_2 / (2 * r) * std::exp2(-r);
        case Family::matern32: return -std::exp(-r) / 2;
        case Family::matern52: return -(1 + r) * std::exp(-r) / 6;
        case Family::product_laplacian_power: return -first * std::pow(q, first - 1) * std::exp(-std::pow(q, first));
        default: throw std::logic_error("a family without a slope");
    }
}

template <class T>
void check_gradient(const Leaf& leaf, std::size_t n, std::size_t m, int threads, const std::string& label) {
    const Matrix<T> x = normal<T>(n, leaf.width, 5), c = normal<T>(m, leaf.width, 6);
    const Matrix<T> left = normal<T>(n, 2, 7), right = normal<T>(m, 2, 8);
    const bool absolute = traits(leaf.family).argument == Argument::absolute_distance;
    const std::size_t d = leaf.width;
    std::vector<Real> centers(m * d), centers_size(m * d), scales(d), scales_size(d);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j) {
            const std::vector<Real> z = mapped(leaf, x, i), w = mapped(leaf, c, j);
            Real g = 0;
            for (std::size_t t = 0; t < 2; ++t) g += static_cast<Real>(left(i, t)) * static_cast<Real>(right(j, t));
            g *= slope(leaf, argument(leaf, z, w));
            for (std::size_t k = 0; k < d; ++k) {
                const Real difference = z[k] - w[k];
                const Real in_center = g * (absolute ? (difference > 0) - (difference < 0) : difference);
                const Real in_scale = g * (absolute ? std::fabs(difference) : difference * difference);
                centers[j * d + k] += in_center;
                centers_size[j * d + k] += std::fabs(in_center);
                scales[k] += in_scale;
                scales_size[k] += std::fabs(in_scale);
            }
        }
    Matrix<double> in_centers(m, d), in_scales(1, d);
    GradientRequest<T> request;
    request.inputs = d;
    request.leaf = leaf;
    request.x = x.view();
    request.c = c.view();
    request.left = left.view();
    request.right = right.view();
    request.in_centers = in_centers.view();
    request.in_scales = in_scales.view();
    Execution execution;
    execution.threads = threads;
    execution.partial_bytes = std::size_t(1) << 24;
    execution.interrupted = [] { return false; };
    run_gradient(request, execution);
    compare<T>(label + " in_centers", as_reals(in_centers), centers, centers_size);
    compare<T>(label + " in_scales", as_reals(in_scales), scales, scales_size);
}

template <class T>
int check_type(const std::string& type) {
    int checks = 0;
    for (std::size_t index = 0; index < std::size(families); ++index)
        for (const std::size_t width : {1, 5, 19})
            for (const int threads : {1, 2}) {
                const Leaf leaf = leaf_of(static_cast<Family>(index), width);
                const std::string label = std::string(families[index].name) + " " + type + " d=" +
                                          std::to_string(width) + " threads=" + std::to_string(threads);
                check_products<T>(leaf, 83, 41, threads, label);
                checks += 4;
                if (families[index].has_slope) {
                    check_gradient<T>(leaf, 83, 41, threads, label);
                    checks += 2;
                }
            }
    return checks;
}

}  // namespace

int main() {
    const int checks = check_type<float>("float") + check_type<double>("double");
    std::printf("%s: %d of %d checks passed\n", instruction_set(), checks - failures, checks);
    return failures == 0 ? 0 : 1;
}
