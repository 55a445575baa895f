// Products with dense points, which are packed as the tiles read them.

#include "core.hpp"

#include "packing.hpp"
#include "product.hpp"

namespace gyrfalcon {
namespace {

template <class T>
class DensePoints {
   public:
    struct Workspace {
        std::vector<Packer<T>> packers;
        std::vector<Packed<T>> rows;
        std::vector<PackedLeaf<T>> leaves;
    };

    DensePoints(const Request<T>& request, const InstructionSet<T>& isa) : request_(request), isa_(isa) {
        const size_t columns = round_up(request.c.rows, isa.column_panel);
        for (const Leaf& leaf : request.program.leaves) {
            widest_ = std::max(widest_, leaf.width);
            centers_.emplace_back(columns, leaf.width);
            Packer<T>(leaf, request.program.inputs)(request.c, 0, request.c.rows, isa.column_panel,
                                                    centers_.back().points.data(), centers_.back().norms.data());
        }
    }

    size_t block_rows() const { return widest_ <= isa_.widest_direct ? narrow_rows : wide_rows; }

    Workspace workspace() const {
        Workspace space;
        for (size_t l = 0; l < centers_.size(); ++l) {
            const Leaf& leaf = request_.program.leaves[l];
            space.packers.emplace_back(leaf, request_.program.inputs);
            space.rows.emplace_back(block_rows(), leaf.width);
            space.leaves.push_back({leaf.family, static_cast<T>(leaf.gain), static_cast<T>(leaf.first),
                                    static_cast<T>(leaf.second), leaf.width, space.rows.back().points.data(),
                                    space.rows.back().norms.data(), centers_[l].points.data(),
                                    centers_[l].norms.data()});
        }
        return space;
    }

    void load(Workspace& space, size_t first_row, size_t rows) const {
        for (size_t l = 0; l < space.rows.size(); ++l)
            space.packers[l](request_.x, first_row, rows, isa_.row_panel, space.rows[l].points.data(),
                             space.rows[l].norms.data());
    }

    void evaluate(Workspace& space, size_t leaf, size_t row_panels, size_t first, size_t last, T* tile,
                  size_t stride) const {
        isa_.evaluate(space.leaves[leaf], row_panels, first / isa_.column_panel, last / isa_.column_panel, tile,
                      stride);
    }

   private:
    const Request<T>& request_;
    const InstructionSet<T>& isa_;
    size_t widest_ = 0;
    std::vector<Packed<T>> centers_;
};

}  // namespace

template <class T>
void run(const Request<T>& request, const Execution& execution) {
    const DensePoints<T> points(request, chosen_instruction_set<T>());
    Product<T, DensePoints<T>>(request, points, points.block_rows(), execution).run();
}

template void run<float>(const Request<float>&, const Execution&);
template void run<double>(const Request<double>&, const Execution&);

}  // namespace gyrfalcon
