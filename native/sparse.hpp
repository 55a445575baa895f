// Products with sparse points.
#pragma once

#include <cstdint>
#include <vector>

#include "core.hpp"

namespace gyrfalcon {

// Compressed sparse rows as they lie in the caller's memory: row i has the entries [ends[i], ends[i + 1]), whose
// features increase. The caller has checked that they are there and that every feature is below `features`.
template <class T, class Index>
struct SparseRows {
    std::size_t rows = 0;
    const Index* ends = nullptr;  // rows + 1 of them
    const Index* features = nullptr;
    const T* values = nullptr;
};

// As Request, with the points here: `product.x` and `product.c` only say how many there are. The leaves' shift, scale
// and width are not read; leaf l divides its points by the scales[scale_of[l]].
template <class T, class Index>
struct SparseRequest {
    struct Scales {
        const double* values = nullptr;
        std::size_t count = 1;  // one for all features, or one for each
        double operator[](std::size_t feature) const { return values[count == 1 ? 0 : feature]; }
    };

    Request<T> product;
    std::size_t features = 0;
    SparseRows<T, Index> x;
    SparseRows<double, std::int64_t> c;  // or no ends,
    Strided<const double> dense_c;       // and dense centers
    std::vector<Scales> scales;
    std::vector<std::size_t> scale_of;
};

template <class T, class Index>
void run_sparse(const SparseRequest<T, Index>& request, const Execution& execution);

}  // namespace gyrfalcon
