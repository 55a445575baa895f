// Structured features: a few rows at a time, block after block of frequencies, whose signs stay in cache meanwhile.

#include <algorithm>
#include <vector>

#include "buffer.hpp"
#include "core.hpp"
#include "parallel.hpp"
#include "tile.hpp"

namespace gyrfalcon {
namespace {

using std::size_t;

constexpr size_t rows_together = 16;

template <class T>
Buffer<T> packed(const Strided<const T>& source) {
    Buffer<T> copy(source.rows * source.columns);
    for (size_t i = 0; i < source.rows; ++i)
        for (size_t j = 0; j < source.columns; ++j) copy.data()[i * source.columns + j] = source(i, j);
    return copy;
}

template <class T>
struct Waves {
    struct Workspace {
        Buffer<T> points, work, out;
    };

    const WaveRequest<T>& request;
    const InstructionSet<T>& isa;
    Buffer<T> signs, radii;

    explicit Waves(const WaveRequest<T>& asked)
        : request(asked), isa(chosen_instruction_set<T>()), signs(packed(asked.signs)), radii(packed(asked.radii)) {}

    size_t length() const { return request.radii.columns; }

    Workspace workspace() const {
        return {Buffer<T>(rows_together * request.x.columns), Buffer<T>(length()), Buffer<T>(2 * length())};
    }

    template <class Stop>
    void operator()(Workspace& space, size_t index, const Stop& stop) const {
        const auto& x = request.x;
        const size_t first = index * rows_together, rows = std::min(rows_together, x.rows - first);
        for (size_t i = 0; i < rows; ++i)
            for (size_t k = 0; k < x.columns; ++k)
                space.points.data()[i * x.columns + k] =
                    static_cast<T>(static_cast<double>(x(first + i, k)) * request.scale[k]);
        for (size_t block = 0; block < request.radii.rows && !stop(); ++block) {
            const size_t column = 2 * block * length(), columns = std::min(2 * length(), request.out.columns - column);
            for (size_t i = 0; i < rows; ++i) {
                const T* point = space.points.data() + i * x.columns;
                std::fill(std::copy(point, point + x.columns, space.work.data()), space.work.data() + length(), T(0));
                isa.waves(space.work.data(), signs.data() + 3 * block * length(), radii.data() + block * length(),
                          length(), static_cast<T>(request.amplitude), space.out.data());
                for (size_t j = 0; j < columns; ++j) request.out(first + i, column + j) = space.out.data()[j];
            }
        }
    }
};

}  // namespace

template <class T>
void run_waves(const WaveRequest<T>& request, const Execution& execution) {
    parallel((request.x.rows + rows_together - 1) / rows_together, execution, Waves<T>(request));
}

template void run_waves<float>(const WaveRequest<float>&, const Execution&);
template void run_waves<double>(const WaveRequest<double>&, const Execution&);

}  // namespace gyrfalcon
