// Products: cuts the rows into blocks, hands the blocks to threads and sums what they return.
#pragma once

#include <algorithm>
#include <vector>

#include "buffer.hpp"
#include "core.hpp"
#include "parallel.hpp"
#include "tile.hpp"

namespace gyrfalcon {

using std::size_t;

constexpr size_t narrow_rows = 24;          // rows of a block, a multiple of every row_panel: few where the exponential
constexpr size_t wide_rows = 96;            // dominates, many where C would otherwise stream past too often
// Of 24 rows: a tile stays in the first-level cache, or in the second. Vectors of 64 bytes leave a row sooner, and sums
// over its columns would be loaded and stored too often.
constexpr size_t tile_bytes(size_t vector_bytes) { return (vector_bytes == 64 ? 16 : 12) << 10; }
constexpr size_t terms_per_gather = 512;    // that a lane adds up before its sum over centers leaves the narrow type
constexpr size_t most_segments = 64;        // unless there are more threads

inline size_t stack_depth(const Program& program) {
    size_t depth = 0, deepest = 1;
    for (const Step& step : program.steps) {
        if (step.operation == Operation::leaf) deepest = std::max(deepest, ++depth);
        if (step.operation == Operation::add || step.operation == Operation::multiply) --depth;
    }
    return deepest;
}

// Points know how to evaluate a leaf. They have
//   Workspace workspace() const                                       of one thread
//   void load(Workspace&, first_row, rows) const                      get ready for a block of rows
//   void evaluate(Workspace&, leaf, row_panels, first, last, tile, stride) const
//                                                                     the leaf's kernel for its columns [first, last)
template <class T, class Points>
class Product {
   public:
    Product(const Request<T>& request, const Points& points, size_t block_rows, const Execution& execution)
        : request_(request),
          points_(points),
          execution_(execution),
          isa_(chosen_instruction_set<T>()),
          transposed_(request.sums.data ? isa_.multiply_transposed_in_double : isa_.multiply_transposed),
          n_(request.x.rows),
          m_(request.c.rows),
          outputs_(request.task == Task::evaluate ? 0 : request.v.columns),
          columns_(round_up(m_, isa_.column_panel)),
          block_rows_(block_rows),
          tile_columns_(std::min(columns_, round_up(tile_bytes(isa_.lanes * sizeof(T)) / (narrow_rows * sizeof(T)),
                                                    isa_.column_panel))),
          tiles_per_gather_(std::max<size_t>(1, terms_per_gather * isa_.lanes / std::max<size_t>(1, tile_columns_))),
          stride_(skewed<T>(request.task == Task::multiply_gram ? columns_ : tile_columns_, isa_.column_panel)),
          depth_(stack_depth(request.program)),
          symmetric_(request.task == Task::evaluate && request.x.data && request.x == request.c),
          v_(needs_v() ? outputs_ * columns_ : 0) {
        if (needs_v())
            for (size_t k = 0; k < outputs_; ++k)
                for (size_t j = 0; j < m_; ++j) v_.data()[k * columns_ + j] = request.v(j, k);
    }

    void run() {
        const size_t blocks = (n_ + block_rows_ - 1) / block_rows_;
        if (request_.task == Task::multiply || request_.task == Task::evaluate) {
            parallel(blocks, execution_, ByBlock{this});
            return;
        }
        const size_t sums = outputs_ * columns_;
        const size_t threads = static_cast<size_t>(std::max(execution_.threads, 1));
        const size_t segments = segments_of(blocks, sums, std::max(threads, most_segments), execution_);
        Buffer<double> partial(segments * sums);
        parallel(segments, execution_, BySegment{this, blocks, segments, partial.data()});
        for (size_t k = 0; k < outputs_; ++k)
            for (size_t j = 0; j < m_; ++j) {
                double total = 0;
                for (size_t s = 0; s < segments; ++s) total += partial.data()[s * sums + k * columns_ + j];
                if (request_.sums.data)
                    request_.sums(j, k) = total;
                else
                    request_.out(j, k) = static_cast<T>(total);
            }
    }

   private:
    struct Workspace {
        typename Points::Workspace points;
        std::vector<Buffer<T>> scratch;  // the stack above its first entry
        Buffer<T> tile, u, lane_sums;
        Buffer<double> sums;
    };

    struct ByBlock {
        Product* product;
        Workspace workspace() const { return product->make_workspace(); }
        template <class Stop>
        void operator()(Workspace& space, size_t block, const Stop&) const {
            product->block(space, block, nullptr);
        }
    };

    struct BySegment {
        Product* product;
        size_t blocks, segments;
        double* partial;
        Workspace workspace() const { return product->make_workspace(); }
        template <class Stop>
        void operator()(Workspace& space, size_t segment, const Stop& stop) const {
            double* sums = partial + segment * product->outputs_ * product->columns_;
            for (size_t b = segment * blocks / segments; b < (segment + 1) * blocks / segments && !stop(); ++b)
                product->block(space, b, sums);
        }
    };

    bool needs_v() const { return request_.task == Task::multiply || request_.task == Task::multiply_gram; }

    Workspace make_workspace() const {
        Workspace space{points_.workspace(), {}, Buffer<T>(block_rows_ * stride_), Buffer<T>(block_rows_ * outputs_),
                        Buffer<T>(needs_v() ? block_rows_ * outputs_ * isa_.lanes : 0),
                        Buffer<double>(block_rows_ * outputs_)};
        for (size_t s = 1; s < depth_; ++s) space.scratch.emplace_back(block_rows_ * stride_);
        return space;
    }

    // K for the packed rows and columns [first, last), into tile.
    void evaluate(Workspace& space, size_t row_panels, size_t first, size_t last, T* tile) const {
        const size_t rows = row_panels * isa_.row_panel;
        size_t top = 0;
        auto entry = [&](size_t s) { return s == 0 ? tile : space.scratch[s - 1].data(); };
        for (const Step& step : request_.program.steps) {
            if (step.operation == Operation::leaf) {
                points_.evaluate(space.points, static_cast<size_t>(step.leaf), row_panels, first, last, entry(top),
                                 stride_);
                ++top;
                continue;
            }
            if (step.operation != Operation::scale) --top;
            isa_.combine(step.operation, static_cast<T>(step.value), entry(top - 1), stride_,
                         step.operation == Operation::scale ? entry(top - 1) : entry(top), stride_, rows,
                         last - first);
        }
    }

    void block(Workspace& space, size_t index, double* sums) const {
        const size_t first_row = index * block_rows_, rows = std::min(block_rows_, n_ - first_row);
        const size_t row_panels = (rows + isa_.row_panel - 1) / isa_.row_panel, padded = row_panels * isa_.row_panel;
        points_.load(space.points, first_row, rows);
        const bool gram = request_.task == Task::multiply_gram;
        if (needs_v()) std::fill_n(space.sums.data(), block_rows_ * outputs_, 0.0);
        if (request_.task == Task::multiply_transposed)
            for (size_t i = 0; i < rows; ++i)
                for (size_t k = 0; k < outputs_; ++k)
                    space.u.data()[i * outputs_ + k] = weight(first_row + i) * request_.v(first_row + i, k);

        for (size_t first = symmetric_ ? first_row / tile_columns_ * tile_columns_ : 0; first < columns_;
             first += tile_columns_) {
            const size_t last = std::min(columns_, first + tile_columns_);
            T* tile = space.tile.data() + (gram ? first : 0);
            evaluate(space, row_panels, first, last, tile);
            if (needs_v()) {
                isa_.multiply(tile, stride_, padded, last - first, v_.data() + first, columns_, outputs_,
                              space.lane_sums.data());
                if (last == columns_ || first / tile_columns_ % tiles_per_gather_ == tiles_per_gather_ - 1)
                    isa_.gather(space.lane_sums.data(), padded * outputs_, space.sums.data());
            }
            if (request_.task == Task::multiply_transposed)
                transposed_(tile, stride_, rows, last - first, space.u.data(), outputs_, sums + first, columns_);
            if (request_.task == Task::evaluate) copy(tile, first_row, rows, first, std::min(last, m_));
        }

        if (request_.task == Task::multiply)
            for (size_t i = 0; i < rows; ++i)
                for (size_t k = 0; k < outputs_; ++k)
                    request_.out(first_row + i, k) = static_cast<T>(space.sums.data()[i * outputs_ + k]);
        if (gram) {
            for (size_t i = 0; i < rows; ++i)
                for (size_t k = 0; k < outputs_; ++k)
                    space.u.data()[i * outputs_ + k] =
                        weight(first_row + i) * static_cast<T>(space.sums.data()[i * outputs_ + k]);
            for (size_t first = 0; first < columns_; first += tile_columns_)  // so that all outputs find it in cache
                transposed_(space.tile.data() + first, stride_, rows, std::min(tile_columns_, columns_ - first),
                            space.u.data(), outputs_, sums + first, columns_);
        }
    }

    T weight(size_t i) const { return request_.weights.data ? request_.weights(i, 0) : T(1); }

    // Of a symmetric K, what lies above the diagonal is written once more below it.
    void copy(const T* tile, size_t first_row, size_t rows, size_t first, size_t last) const {
        for (size_t i = 0; i < rows; ++i)
            for (size_t j = symmetric_ ? std::max(first, first_row + i) : first; j < last; ++j)
                request_.out(first_row + i, j) = tile[i * stride_ + j - first];
        if (!symmetric_) return;
        for (size_t j = std::max(first, first_row); j < last; ++j)
            for (size_t i = 0; i < std::min(rows, j - first_row); ++i)
                request_.out(j, first_row + i) = tile[i * stride_ + j - first];
    }

    const Request<T>& request_;
    const Points& points_;
    const Execution& execution_;
    const InstructionSet<T>& isa_;
    typename InstructionSet<T>::MultiplyTransposed* const transposed_;
    const size_t n_, m_, outputs_, columns_, block_rows_, tile_columns_, tiles_per_gather_, stride_, depth_;
    const bool symmetric_;  // K is, and half of it is computed
    Buffer<T> v_;  // outputs x columns
};

}  // namespace gyrfalcon
