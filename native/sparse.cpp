// Products with sparse points: inner products and norms in double, row by row, through lists of the centers that have
// a feature. Features are renumbered to those of the centers, so there may be any number of them.

#include "sparse.hpp"

#include <cmath>

#include "product.hpp"

namespace gyrfalcon {
namespace {

// |x|^2 + |c|^2 - 2 x.c has lost digits where it falls below this part of |x|^2 + |c|^2.
constexpr double cancellation = 1.0 / 32;

// From the features that some center has to their numbers. A few bits say of most others that no center has them.
class Places {
   public:
    static constexpr std::int32_t none = -1;

    explicit Places(std::size_t count) {
        while (slots_ < 2 * count) slots_ *= 2;
        keys_.assign(slots_, -1);
        places_.assign(slots_, none);
        sieve_.assign(sieve_bits / 64, 0);
    }

    // The number of a feature, a new one if it has none.
    std::int32_t add(std::int64_t feature) {
        const std::size_t slot = find(feature);
        if (places_[slot] == none) {
            keys_[slot] = feature;
            places_[slot] = count_++;
            sieve_[word(feature)] |= bit(feature);
        }
        return places_[slot];
    }

    std::int32_t operator[](std::int64_t feature) const { return places_[find(feature)]; }

    // False only if no center has the feature.
    bool may_have(std::int64_t feature) const { return (sieve_[word(feature)] & bit(feature)) != 0; }

    std::size_t count() const { return static_cast<std::size_t>(count_); }

   private:
    static constexpr std::size_t sieve_bits = 1 << 20;
    static std::size_t word(std::int64_t feature) { return (static_cast<std::size_t>(feature) % sieve_bits) / 64; }
    static std::uint64_t bit(std::int64_t feature) { return std::uint64_t{1} << (static_cast<std::size_t>(feature) % 64); }

    std::size_t find(std::int64_t feature) const {
        std::size_t slot = (static_cast<std::size_t>(feature) * 0x9e3779b97f4a7c15u >> 20) & (slots_ - 1);
        while (places_[slot] != none && keys_[slot] != feature) slot = (slot + 1) & (slots_ - 1);
        return slot;
    }

    std::size_t slots_ = 64;  // a power of two
    std::int32_t count_ = 0;
    std::vector<std::int64_t> keys_;
    std::vector<std::int32_t> places_;
    std::vector<std::uint64_t> sieve_;
};

// The centers under one set of scales: their norms and, feature by feature, the centers that have it.
template <class T>
struct Side {
    std::vector<double> norms, scaled;  // `scaled` goes with `SparsePoints::members_`, or is features x centers
    std::vector<T> rounded;             // the norms
};

template <class T, class Index>
class SparsePoints {
   public:
    struct Known {
        std::size_t entry, place;
    };

    struct Workspace {
        std::vector<double> inner;           // of one row with all centers; zero between rows
        std::vector<std::int32_t> touched;   // centers whose inner product may not be zero
        std::vector<unsigned char> marked;   // whether a center is among them; zero between rows
        std::vector<Known> known;            // the entries of one row whose features some center has
        std::vector<double> row, center;     // of one row and one center, by place; zero between uses
        std::vector<Buffer<T>> arguments;    // by leaf: squared distances or inner products of a block
    };

    SparsePoints(const SparseRequest<T, Index>& request, const InstructionSet<T>& isa, std::size_t block_rows)
        : request_(request),
          isa_(isa),
          m_(request.product.c.rows),
          block_rows_(block_rows),
          stride_(skewed<T>(round_up(m_, isa.column_panel), isa.column_panel)),
          sparse_(request.c.ends != nullptr),
          places_(sparse_ ? static_cast<std::size_t>(request.c.ends[m_] - request.c.ends[0]) : 0) {
        if (sparse_) list_centers();
        for (const auto& scales : request.scales) {
            sides_.push_back(sparse_ ? sparse_side(scales) : dense_side(scales));
            Side<T>& side = sides_.back();
            for (double norm : side.norms) side.rounded.push_back(static_cast<T>(norm));
        }
    }

    Workspace workspace() const {
        Workspace space;
        const std::size_t width = sparse_ ? places_.count() : request_.features;
        space.inner.assign(m_, 0.0);
        space.touched.reserve(m_);
        space.marked.assign(m_, 0);
        space.row.assign(width, 0.0);
        space.center.assign(sparse_ ? width : 0, 0.0);
        for (std::size_t l = 0; l < leaves().size(); ++l) space.arguments.emplace_back(block_rows_ * stride_);
        return space;
    }

    void load(Workspace& space, std::size_t first_row, std::size_t rows) const {
        for (std::size_t i = 0; i < rows; ++i) {
            if (sparse_) look_up(space, first_row + i);
            for (std::size_t l = 0; l < leaves().size(); ++l) fill_row(space, first_row + i, i, l);
        }
    }

    void evaluate(Workspace& space, std::size_t leaf, std::size_t row_panels, std::size_t first, std::size_t last,
                  T* tile, std::size_t stride) const {
        const Leaf& l = leaves()[leaf];
        const std::size_t rows = row_panels * isa_.row_panel;
        for (std::size_t i = 0; i < rows; ++i)
            std::copy_n(space.arguments[leaf].data() + i * stride_ + first, last - first, tile + i * stride);
        const PackedLeaf<T> packed{l.family, static_cast<T>(l.gain), static_cast<T>(l.first), static_cast<T>(l.second),
                                   0, nullptr, nullptr, nullptr, nullptr};
        isa_.apply_profile(packed, rows, (last - first) / isa_.column_panel, tile, stride);
    }

   private:
    using Scales = typename SparseRequest<T, Index>::Scales;

    const std::vector<Leaf>& leaves() const { return request_.product.program.leaves; }

    // The centers that have a feature, feature by feature.
    void list_centers() {
        const auto& c = request_.c;
        const std::size_t count = static_cast<std::size_t>(c.ends[m_] - c.ends[0]);
        std::vector<std::int32_t> place(count);
        for (std::size_t e = 0; e < count; ++e) place[e] = places_.add(c.features[static_cast<std::size_t>(c.ends[0]) + e]);
        list_ends_.assign(places_.count() + 1, 0);
        for (std::int32_t p : place) ++list_ends_[static_cast<std::size_t>(p) + 1];
        for (std::size_t p = 0; p < places_.count(); ++p) list_ends_[p + 1] += list_ends_[p];
        members_.resize(count);
        entries_.resize(count);
        feature_of_.resize(places_.count());
        center_places_ = place;
        std::vector<std::size_t> next(list_ends_.begin(), list_ends_.end() - 1);
        for (std::size_t j = 0; j < m_; ++j)
            for (std::size_t e = begin(c, j); e < begin(c, j + 1); ++e) {
                const std::size_t p = static_cast<std::size_t>(place[e - begin(c, 0)]);
                feature_of_[p] = static_cast<std::size_t>(c.features[e]);
                members_[next[p]] = static_cast<std::int32_t>(j);
                entries_[next[p]++] = c.values[e];
            }
    }

    Side<T> sparse_side(const Scales& scales) const {
        Side<T> side{std::vector<double>(m_, 0.0), std::vector<double>(entries_.size()), {}};
        for (std::size_t p = 0; p < places_.count(); ++p)
            for (std::size_t e = list_ends_[p]; e < list_ends_[p + 1]; ++e) {
                const double value = side.scaled[e] = entries_[e] / scales[feature_of_[p]];
                side.norms[static_cast<std::size_t>(members_[e])] += value * value;
            }
        return side;
    }

    Side<T> dense_side(const Scales& scales) const {
        Side<T> side{std::vector<double>(m_, 0.0), std::vector<double>(m_ * request_.features), {}};
        for (std::size_t j = 0; j < m_; ++j)
            for (std::size_t f = 0; f < request_.features; ++f) {
                const double value = side.scaled[f * m_ + j] = request_.dense_c(j, f) / scales[f];
                side.norms[j] += value * value;
            }
        return side;
    }

    template <class Rows>
    static std::size_t begin(const Rows& rows, std::size_t i) {
        return static_cast<std::size_t>(rows.ends[i]);
    }

    // Most entries are of features that no center has: they are passed over without a branch.
    void look_up(Workspace& space, std::size_t i) const {
        const std::size_t first = begin(request_.x, i), last = begin(request_.x, i + 1);
        space.known.resize(last - first + 1);
        std::size_t candidates = 0, count = 0;
        for (std::size_t e = first; e < last; ++e) {
            space.known[candidates].entry = e;
            candidates += places_.may_have(static_cast<std::int64_t>(request_.x.features[e]));
        }
        for (std::size_t k = 0; k < candidates; ++k) {
            const std::size_t e = space.known[k].entry;
            const std::int32_t place = places_[static_cast<std::int64_t>(request_.x.features[e])];
            if (place != Places::none) space.known[count++] = {e, static_cast<std::size_t>(place)};
        }
        space.known.resize(count);
    }

    // The squared distances or inner products of row i of X, in the r-th row of the block.
    void fill_row(Workspace& space, std::size_t i, std::size_t r, std::size_t leaf) const {
        const std::size_t which = request_.scale_of[leaf];
        const Scales& scales = request_.scales[which];
        const Side<T>& side = sides_[which];
        const double norm = sparse_ ? add_sparse(space, i, scales, side) : add_dense(space, i, scales, side);
        T* out = space.arguments[leaf].data() + r * stride_;
        if (traits(leaves()[leaf].family).argument == Argument::squared_distance) {
            // Where the inner product is zero nothing cancels.
            const T rounded = static_cast<T>(norm), *others = side.rounded.data();
            for (std::size_t j = 0; j < m_; ++j) out[j] = rounded + others[j];
            for (std::int32_t t : space.touched) {
                const std::size_t j = static_cast<std::size_t>(t);
                const double both = norm + side.norms[j], squared = both - 2 * space.inner[j];
                out[j] = static_cast<T>(squared >= cancellation * both ? squared : difference(space, i, j, scales));
            }
        } else {
            std::fill_n(out, m_, T(0));
            for (std::int32_t t : space.touched) out[t] = static_cast<T>(space.inner[static_cast<std::size_t>(t)]);
        }
        for (std::int32_t t : space.touched) {
            space.inner[static_cast<std::size_t>(t)] = 0;
            space.marked[static_cast<std::size_t>(t)] = 0;
        }
        space.touched.clear();
    }

    // Inner products of row i with the centers; returns its squared norm.
    double add_sparse(Workspace& space, std::size_t i, const Scales& scales, const Side<T>& side) const {
        const auto& x = request_.x;
        double norm = 0;
        for (std::size_t e = begin(x, i); e < begin(x, i + 1); ++e) {
            const double value = static_cast<double>(x.values[e]) / scales[static_cast<std::size_t>(x.features[e])];
            norm += value * value;
        }
        for (const auto [e, place] : space.known) {
            const double value = static_cast<double>(x.values[e]) / scales[static_cast<std::size_t>(x.features[e])];
            for (std::size_t k = list_ends_[place]; k < list_ends_[place + 1]; ++k) {
                const std::size_t j = static_cast<std::size_t>(members_[k]);
                if (!space.marked[j]) {
                    space.marked[j] = 1;
                    space.touched.push_back(members_[k]);
                }
                space.inner[j] += value * side.scaled[k];
            }
        }
        return norm;
    }

    double add_dense(Workspace& space, std::size_t i, const Scales& scales, const Side<T>& side) const {
        const auto& x = request_.x;
        double norm = 0;
        for (std::size_t e = begin(x, i); e < begin(x, i + 1); ++e) {
            const std::size_t feature = static_cast<std::size_t>(x.features[e]);
            const double value = static_cast<double>(x.values[e]) / scales[feature];
            norm += value * value;
            isa_in_double_.add_scaled(m_, value, side.scaled.data() + feature * m_, space.inner.data());
        }
        for (std::size_t j = 0; j < m_; ++j) space.touched.push_back(static_cast<std::int32_t>(j));
        return norm;
    }

    // |x_i - c_j|^2, subtracted before scaling, which would round.
    double difference(Workspace& space, std::size_t i, std::size_t j, const Scales& scales) const {
        const auto& x = request_.x;
        double total = 0;
        const auto add = [&](double gap, std::size_t feature) {
            const double scaled = gap / scales[feature];
            total += scaled * scaled;
        };
        if (!sparse_) {
            for (std::size_t e = begin(x, i); e < begin(x, i + 1); ++e)
                space.row[static_cast<std::size_t>(x.features[e])] = static_cast<double>(x.values[e]);
            for (std::size_t f = 0; f < request_.features; ++f) add(space.row[f] - request_.dense_c(j, f), f);
            for (std::size_t e = begin(x, i); e < begin(x, i + 1); ++e)
                space.row[static_cast<std::size_t>(x.features[e])] = 0;
            return total;
        }
        const auto& c = request_.c;
        const std::size_t first = begin(c, 0);
        for (std::size_t e = begin(c, j); e < begin(c, j + 1); ++e)
            space.center[static_cast<std::size_t>(center_places_[e - first])] = c.values[e];
        auto known = space.known.begin();
        for (std::size_t e = begin(x, i); e < begin(x, i + 1); ++e) {
            double gap = static_cast<double>(x.values[e]);
            if (known != space.known.end() && known->entry == e) {
                gap -= space.center[known->place];
                space.center[known++->place] = 0;  // what is left has no counterpart in x
            }
            add(gap, static_cast<std::size_t>(x.features[e]));
        }
        for (std::size_t e = begin(c, j); e < begin(c, j + 1); ++e) {
            double& left = space.center[static_cast<std::size_t>(center_places_[e - first])];
            add(left, static_cast<std::size_t>(c.features[e]));
            left = 0;
        }
        return total;
    }

    const SparseRequest<T, Index>& request_;
    const InstructionSet<T>& isa_;
    const InstructionSet<double>& isa_in_double_ = chosen_instruction_set<double>();
    const std::size_t m_, block_rows_, stride_;
    const bool sparse_;
    Places places_;
    std::vector<std::size_t> list_ends_, feature_of_;   // by place
    std::vector<std::int32_t> members_;                 // centers, place by place
    std::vector<double> entries_;                       // and what they have there
    std::vector<std::int32_t> center_places_;           // of the entries of c, in their order
    std::vector<Side<T>> sides_;
};

}  // namespace

template <class T, class Index>
void run_sparse(const SparseRequest<T, Index>& request, const Execution& execution) {
    using Points = SparsePoints<T, Index>;
    const Points points(request, chosen_instruction_set<T>(), narrow_rows);
    Product<T, Points>(request.product, points, narrow_rows, execution).run();
}

template void run_sparse(const SparseRequest<float, std::int32_t>&, const Execution&);
template void run_sparse(const SparseRequest<float, std::int64_t>&, const Execution&);
template void run_sparse(const SparseRequest<double, std::int32_t>&, const Execution&);
template void run_sparse(const SparseRequest<double, std::int64_t>&, const Execution&);

}  // namespace gyrfalcon
