// Derivatives: the same blocks and tiles as for products, with sums over the rows for every feature of every center.

#include <algorithm>
#include <numeric>

#include "buffer.hpp"
#include "core.hpp"
#include "packing.hpp"
#include "parallel.hpp"
#include "tile.hpp"

namespace gyrfalcon {
namespace {

using std::size_t;

constexpr size_t block_rows = 96;            // many, because sums leave the registers once per block
constexpr size_t step_rows = 24;             // of them at once up to g, a multiple of every row_panel
constexpr size_t tile_bytes = 24 << 10;      // of all rows of a block: it stays in the first-level cache
constexpr size_t widest_squared = 4;         // features up to which squares cost little when taken one by one

// Partial sums are as many as C has entries, so a segment should have some blocks, unless few threads could work then.
constexpr size_t segments_for(size_t blocks) {
    return std::max<size_t>(std::min<size_t>(blocks / 4, 32), std::clamp<size_t>(blocks / 2, 1, 4));
}

template <class T>
class Gradient {
   public:
    Gradient(const GradientRequest<T>& request, const Execution& execution)
        : request_(request),
          execution_(execution),
          isa_(chosen_instruction_set<T>()),
          symmetric_(!request.dense && !request.in_centers.data && request.x == request.c),
          factors_(as_points(request.dense ? 0 : (symmetric_ ? 2 : 1) * request.left.columns)),
          n_(request.x.rows),
          m_(request.c.rows),
          columns_(round_up(m_, isa_.column_panel)),
          tile_columns_(std::min(columns_, round_up(tile_bytes / (block_rows * sizeof(T)), isa_.column_panel))),
          stride_(skewed<T>(tile_columns_, isa_.column_panel)),
          center_sums_(request.in_centers.data ? columns_ * request.leaf.width : 0),
          scale_sums_(request.in_scales.data ? request.leaf.width * isa_.lanes : 0),
          centers_(columns_, request.leaf.width),
          right_(columns_, factors_.width),
          joined_(symmetric_ ? n_ * 3 * request.left.columns : 0) {
        pack(request.leaf, request.inputs, request.c, centers_);
        if (symmetric_) join_factors();
        if (!request.dense) pack(factors_, factors_.width, factors(false), right_);
    }

    double run() {
        const size_t blocks = (n_ + block_rows - 1) / block_rows;
        const size_t sums = round_up(center_sums_ + scale_sums_ + 1, cache_line / sizeof(double));
        const size_t segments = segments_of(blocks, sums, segments_for(blocks), execution_);
        Buffer<double> partial(std::max<size_t>(segments, 1) * sums);
        parallel(segments, execution_, BySegment{this, blocks, segments, sums, partial.data()});
        double* total = partial.data();
        for (size_t s = 1; s < segments; ++s)
            for (size_t i = 0; i < sums; ++i) total[i] += partial.data()[s * sums + i];
        const size_t width = request_.leaf.width, panel = isa_.column_panel;
        if (request_.in_centers.data)
            for (size_t j = 0; j < m_; ++j)
                for (size_t k = 0; k < width; ++k)
                    request_.in_centers(j, k) = total[(j / panel * width + k) * panel + j % panel];
        for (size_t k = 0; k < scale_sums_ / isa_.lanes; ++k) {
            const double* lanes = total + center_sums_ + k * isa_.lanes;
            request_.in_scales(0, k) = std::accumulate(lanes, lanes + isa_.lanes, 0.0);
        }
        return total[center_sums_ + scale_sums_];
    }

   private:
    struct Workspace {
        Packer<T> point_packer, factor_packer;
        Packed<T> points, factors;
        Buffer<T> tile, weights, row_sums;
        Buffer<bool> near;
    };

    struct BySegment {
        Gradient* gradient;
        size_t blocks, segments, sums;
        double* partial;
        Workspace workspace() const { return gradient->make_workspace(); }
        template <class Stop>
        void operator()(Workspace& space, size_t segment, const Stop& stop) const {
            for (size_t b = segment * blocks / segments; b < (segment + 1) * blocks / segments && !stop(); ++b)
                gradient->block(space, b, partial + segment * sums);
        }
    };

    // left and right are packed as points are, so that their product is one of inner products.
    static Leaf as_points(size_t columns) {
        Leaf leaf;
        leaf.family = Family::linear;
        leaf.width = columns;
        leaf.shift.assign(columns, 0.0);
        leaf.scale.assign(columns, 1.0);
        return leaf;
    }

    // Where K is symmetric, each entry beside the diagonal stands for two: it has the weight a + a', as a product of left
    // and right side by side with right and left.
    void join_factors() {
        const size_t t = request_.left.columns;
        for (size_t i = 0; i < n_; ++i) {
            T* row = joined_.data() + i * 3 * t;
            for (size_t k = 0; k < t; ++k) {
                row[k] = row[2 * t + k] = request_.left(i, k);
                row[t + k] = request_.right(i, k);
            }
        }
    }

    Strided<const T> factors(bool of_rows) const {
        if (!symmetric_) return of_rows ? request_.left : request_.right;
        const size_t t = request_.left.columns;
        return {joined_.data() + (of_rows ? 0 : t), n_, 2 * t, static_cast<std::ptrdiff_t>(3 * t), 1};
    }

    // Weights of a + a' for columns [first, last) of rows whose block is the columns [begin, end).
    void halve_own_block(T* weights, size_t rows, size_t first, size_t last, size_t begin, size_t end) const {
        for (size_t i = 0; i < rows; ++i, weights += stride_) {
            for (size_t j = first; j < std::min(begin, last); ++j) weights[j - first] = T(0);
            for (size_t j = std::max(begin, first); j < std::min(end, last); ++j) weights[j - first] /= 2;
        }
    }

    void pack(const Leaf& leaf, size_t inputs, Strided<const T> source, Packed<T>& out) const {
        Packer<T>(leaf, inputs)(source, 0, source.rows, isa_.column_panel, out.points.data(), out.norms.data());
    }

    Workspace make_workspace() const {
        return {Packer<T>(request_.leaf, request_.inputs), Packer<T>(factors_, factors_.width),
                Packed<T>(block_rows, request_.leaf.width), Packed<T>(block_rows, factors_.width),
                Buffer<T>(block_rows * stride_), Buffer<T>(step_rows * stride_), Buffer<T>(block_rows * isa_.lanes),
                Buffer<bool>(tile_columns_ / isa_.column_panel * near_stride())};
    }

    PackedLeaf<T> leaf_at(const Leaf& leaf, const Packed<T>& rows, const Packed<T>& columns, size_t row) const {
        return {leaf.family, static_cast<T>(leaf.gain), static_cast<T>(leaf.first), T(0), leaf.width,
                rows.points.data() + row * leaf.width, rows.norms.data() + row, columns.points.data(),
                columns.norms.data()};
    }

    void block(Workspace& space, size_t index, double* sums) const {
        const size_t first_row = index * block_rows, rows = std::min(block_rows, n_ - first_row);
        const size_t row_panels = (rows + isa_.row_panel - 1) / isa_.row_panel, panel = isa_.column_panel;
        space.point_packer(request_.x, first_row, rows, isa_.row_panel, space.points.points.data(),
                           space.points.norms.data());
        if (!request_.dense)
            space.factor_packer(factors(true), first_row, rows, isa_.row_panel, space.factors.points.data(),
                                space.factors.norms.data());
        double* in_centers = center_sums_ ? sums : nullptr;
        double* in_scales = scale_sums_ ? sums + center_sums_ : nullptr;
        const bool gaps = in_centers || in_scales;
        const size_t widest_by_differences = in_scales ? widest_squared : isa_.widest_direct;
        const bool absolute = traits(request_.leaf.family).argument == Argument::absolute_distance;
        bool* near = gaps && !absolute && request_.leaf.width > widest_by_differences ? space.near.data() : nullptr;
        for (size_t first = symmetric_ ? first_row / tile_columns_ * tile_columns_ : 0; first < columns_;
             first += tile_columns_) {
            const size_t last = std::min(columns_, first + tile_columns_);
            for (size_t row = 0; row < row_panels * isa_.row_panel; row += step_rows) {
                const size_t panels = std::min(row_panels - row / isa_.row_panel, step_rows / isa_.row_panel);
                const PackedLeaf<T> leaf = leaf_at(request_.leaf, space.points, centers_, row);
                T* tile = space.tile.data() + row * stride_;
                if (near)
                    isa_.distances_noting_near(leaf, panels, first / panel, last / panel, tile, stride_,
                                               near + row / isa_.row_panel, near_stride());
                else
                    (absolute ? isa_.absolute_distances : isa_.squared_distances)(leaf, panels, first / panel,
                                                                                  last / panel, tile, stride_);
                if (request_.dense)
                    copy_weights(first_row + row, std::min(rows - row, step_rows), first, last, space.weights.data());
                else
                    isa_.inner_products(leaf_at(factors_, space.factors, right_, row), panels, first / panel,
                                        last / panel, space.weights.data(), stride_);
                if (symmetric_ && first < first_row + rows)
                    halve_own_block(space.weights.data(), panels * isa_.row_panel, first, last, first_row,
                                    first_row + rows);
                sums[center_sums_ + scale_sums_] +=
                    isa_.apply_slope(leaf, panels * isa_.row_panel, (last - first) / panel, tile, stride_,
                                     space.weights.data(), stride_);
            }
            if (gaps)
                isa_.add_gaps(leaf_at(request_.leaf, space.points, centers_, 0), row_panels, first / panel,
                              last / panel, space.tile.data(), stride_, near, near_stride(), in_centers, in_scales,
                              space.row_sums.data());
        }
        if (near && in_scales) add_squares(space, rows, in_scales);
    }

    // What add_gaps left out of the expanded squares: sum_i r_i x_i^2. Leaves the row sums zero.
    void add_squares(Workspace& space, size_t rows, double* in_scales) const {
        const size_t width = request_.leaf.width, panel = isa_.row_panel;
        for (size_t i = 0; i < rows; ++i) {
            T* lanes = space.row_sums.data() + i * isa_.lanes;
            const double sum = std::accumulate(lanes, lanes + isa_.lanes, 0.0);
            const T* point = space.points.points.data() + i / panel * panel * width + i % panel;
            for (size_t k = 0; k < width; ++k) {
                const double value = static_cast<double>(point[k * panel]);
                in_scales[k * isa_.lanes] += sum * value * value;
            }
        }
        std::fill_n(space.row_sums.data(), block_rows * isa_.lanes, T(0));
    }

    size_t near_stride() const { return block_rows / isa_.row_panel; }

    // Zeros for the rows and columns that only fill the panels.
    void copy_weights(size_t first_row, size_t rows, size_t first, size_t last, T* out) const {
        const size_t end = std::min(last, m_);
        for (size_t i = 0; i < step_rows; ++i, out += stride_) {
            const size_t known = i < rows ? end - first : 0;
            if (known != 0 && request_.left.column_stride == 1) {
                const T* weights = &request_.left(first_row + i, first);
                std::copy_n(weights, known, out);
                // What the next tile needs: too short a run in each row for the processor to see it coming.
                for (size_t j = last; j < std::min(last + tile_columns_, m_); j += cache_line / sizeof(T))
                    __builtin_prefetch(weights + (j - first));
            } else {
                for (size_t j = 0; j < known; ++j) out[j] = request_.left(first_row + i, first + j);
            }
            std::fill(out + known, out + (last - first), T(0));
        }
    }

    const GradientRequest<T>& request_;
    const Execution& execution_;
    const InstructionSet<T>& isa_;
    const bool symmetric_;  // K is, and half of it is computed
    const Leaf factors_;
    const size_t n_, m_, columns_, tile_columns_, stride_, center_sums_, scale_sums_;
    Packed<T> centers_, right_;
    Buffer<T> joined_;  // left, right and left again, if K is symmetric
};

}  // namespace

template <class T>
double run_gradient(const GradientRequest<T>& request, const Execution& execution) {
    return Gradient<T>(request, execution).run();
}

template double run_gradient<float>(const GradientRequest<float>&, const Execution&);
template double run_gradient<double>(const GradientRequest<double>&, const Execution&);

}  // namespace gyrfalcon
