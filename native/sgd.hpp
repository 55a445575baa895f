// Stochastic gradient steps in the coordinates of a few points.
#pragma once

#include <cstddef>

#include "core.hpp"

namespace gyrfalcon {

// What a loss is a function of: each residual f_k - y_k, the margin <f, y>, or all outputs together.
enum class Target : int { residual, margin, outputs };

// Name and target. To add a loss: a line here, and its slope in sgd.cpp. Outside, losses are known by these names only.
#define GYRFALCON_LOSSES(LOSS)    \
    LOSS(squared, residual)       \
    LOSS(robust, residual)        \
    LOSS(absolute, residual)      \
    LOSS(quantile, residual)      \
    LOSS(logistic, margin)        \
    LOSS(exponential, margin)     \
    LOSS(hinge, margin)           \
    LOSS(softmax, outputs)

#define GYRFALCON_NAME(name, target) name,
enum class Loss : int { GYRFALCON_LOSSES(GYRFALCON_NAME) };
#undef GYRFALCON_NAME
#define GYRFALCON_NAME(name, target) #name,
constexpr const char* loss_names[] = {GYRFALCON_LOSSES(GYRFALCON_NAME)};
#undef GYRFALCON_NAME
#define GYRFALCON_TARGET(name, target) Target::target,
constexpr Target loss_targets[] = {GYRFALCON_LOSSES(GYRFALCON_TARGET)};
#undef GYRFALCON_TARGET

// Runs that differ in steps and rows, each a model f = s f0 + sum_i g_i k(x_i, .) + b that is taken through the rows,
// batch by batch: with eta the step of a batch, D_i the weighted gradient of row i over the number of rows in it,
//   s and all g times (1 - 2 eta penalty),  g_i = -eta D_i,  b = b - eta rate sum_i D_i.
// All matrices are row-major and contiguous. The steps and votes of a batch are per run; a step of zero leaves it out.
struct SgdRequest {
    Loss loss;
    double parameter;  // the level of a quantile
    std::size_t rows, runs, outputs, batch, batches;
    const double* gram;     // rows x rows, or null if there is one batch
    double* f;              // runs x outputs x rows: in, f0; out, f as it was when the row was met
    const double* targets;  // rows x outputs
    const double* weights;  // runs x rows; zero for rows that a run does not learn from
    const double* steps;    // runs x batches
    const double* votes;    // runs x batches: weight in the average of the model before the step
    double penalty, rate;
    double* coefficients;  // runs x outputs x rows: out, g
    double* averages;      // runs x outputs x rows: out, sum of votes times g as they were
    double* shrinks;       // runs: out, s
    double* shares;        // runs: out, sum of votes times s as it was
    double* intercepts;    // runs x outputs: in and out, b
    double* sums;          // runs x outputs: in and out, sum of votes * b
};

void run_sgd(const SgdRequest& request, const Execution& execution);

}  // namespace gyrfalcon
