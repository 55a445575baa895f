// Stochastic gradient steps: see sgd.hpp.

#include "sgd.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "parallel.hpp"
#include "tile.hpp"

namespace gyrfalcon {
namespace {

// The slope of a loss that is a function of one number: of f - y, or of the margin <f, y>.
double slope(Loss loss, double parameter, double u) {
    switch (loss) {
        case Loss::squared: return 2 * u;
        case Loss::robust: return std::tanh(u);
        case Loss::absolute: return static_cast<double>((u > 0) - (u < 0));
        case Loss::quantile: return u > 0 ? 1 - parameter : u < 0 ? -parameter : 0.0;
        case Loss::logistic: return -1 / (1 + std::exp(u));
        case Loss::exponential: return -std::exp(std::min(-u, 50.0)) * (1 + std::max(-50.0 - u, 0.0));
        case Loss::hinge: return u < 1 ? -1.0 : 0.0;
        case Loss::softmax: break;
    }
    return 0;
}

void gradient(Loss loss, double parameter, const double* f, const double* y, std::size_t outputs, double* out) {
    const Target target = loss_targets[static_cast<std::size_t>(loss)];
    if (target == Target::outputs) {
        const double most = *std::max_element(f, f + outputs);
        double total = 0;
        for (std::size_t k = 0; k < outputs; ++k) total += out[k] = std::exp(f[k] - most);
        for (std::size_t k = 0; k < outputs; ++k) out[k] = out[k] / total - y[k];
    } else if (target == Target::residual) {
        for (std::size_t k = 0; k < outputs; ++k) out[k] = slope(loss, parameter, f[k] - y[k]);
    } else {
        double margin = 0;
        for (std::size_t k = 0; k < outputs; ++k) margin += f[k] * y[k];
        const double at = slope(loss, parameter, margin);
        for (std::size_t k = 0; k < outputs; ++k) out[k] = at * y[k];
    }
}

constexpr double least_shrink = 0x1p-10;  // beyond, 1 / s would cost digits

// One run. Its model is s (f0 + sum_i g_i k(x_i, .)) + b with s = 1 after a fold; `before` holds, for each row, the sum
// of votes times s since the last fold when its g was set.
class Run {
   public:
    Run(const SgdRequest& request, std::size_t run)
        : r(request), n(r.rows), t(r.outputs), f(r.f + run * t * n), g(r.coefficients + run * t * n),
          averages(r.averages + run * t * n), b(r.intercepts + run * t), sums(r.sums + run * t),
          weights(r.weights + run * n), steps(r.steps + run * r.batches), votes(r.votes + run * r.batches),
          before(t * n), point(t), slopes(t), mean(t) {
        std::fill(g, g + t * n, 0.0);
        std::fill(averages, averages + t * n, 0.0);
    }

    void make(std::size_t batch) {
        const std::size_t first = batch * r.batch, last = std::min(n, first + r.batch);
        const double step = steps[batch], vote = votes[batch];
        for (std::size_t o = 0; o < t; ++o)
            for (std::size_t i = first; i < last; ++i) f[o * n + i] = shrink * f[o * n + i] + b[o];
        if (step == 0) return;
        share += vote * shrink;
        for (std::size_t o = 0; o < t; ++o) sums[o] += vote * b[o];
        shrink *= 1 - 2 * step * r.penalty;
        const auto learned = std::count_if(weights + first, weights + last, [](double w) { return w > 0; });
        const double scale = -step / static_cast<double>(std::max<std::ptrdiff_t>(learned, 1));
        std::fill(mean.begin(), mean.end(), 0.0);
        for (std::size_t i = first; i < last; ++i) {
            if (!(weights[i] > 0)) continue;
            for (std::size_t o = 0; o < t; ++o) point[o] = f[o * n + i];
            gradient(r.loss, r.parameter, point.data(), r.targets + i * t, t, slopes.data());
            for (std::size_t o = 0; o < t; ++o) {
                const double move = scale * weights[i] * slopes[o];
                if (move == 0) continue;
                mean[o] += move;
                g[o * n + i] = move / shrink;
                before[o * n + i] = share;
                if (last < n) add_scaled(n - last, g[o * n + i], r.gram + i * n + last, f + o * n + last);
            }
        }
        for (std::size_t o = 0; o < t; ++o) b[o] += r.rate * mean[o];
        if (shrink < least_shrink) fold(last);
    }

    // Brings s into everything, rows of f before `first` having been met.
    void fold(std::size_t first) {
        for (std::size_t i = 0; i < t * n; ++i) {
            averages[i] += g[i] * (share - before[i]);
            g[i] *= shrink;
            before[i] = 0;
        }
        for (std::size_t o = 0; o < t; ++o)
            for (std::size_t i = first; i < n; ++i) f[o * n + i] *= shrink;
        shares += shrinks * share;
        shrinks *= shrink;
        shrink = 1;
        share = 0;
    }

    double shrinks = 1, shares = 0;

   private:
    const SgdRequest& r;
    const std::size_t n, t;
    double *f, *g, *averages, *b, *sums;
    const double *weights, *steps, *votes;
    std::vector<double> before, point, slopes, mean;
    double shrink = 1, share = 0;
    decltype(InstructionSet<double>::add_scaled) add_scaled = chosen_instruction_set<double>().add_scaled;
};

struct Walk {
    const SgdRequest& request;

    struct Nothing {};
    Nothing workspace() const { return {}; }

    template <class Stop>
    void operator()(Nothing, std::size_t index, const Stop& stop) const {
        Run run(request, index);
        for (std::size_t batch = 0; batch < request.batches && !stop(); ++batch) run.make(batch);
        run.fold(request.rows);
        request.shrinks[index] = run.shrinks;
        request.shares[index] = run.shares;
    }
};

}  // namespace

void run_sgd(const SgdRequest& request, const Execution& execution) {
    parallel(request.runs, execution, Walk{request});
}

}  // namespace gyrfalcon
