// Samples along rays, and what rays gather from them: see volume.hpp.

#include "volume.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel.hpp"

namespace gyrfalcon {
namespace {

using std::size_t;

constexpr size_t rays_per_block = 64, most_steps = 1 << 16;

// Work on blocks of rays; Block is called with a workspace and the first and last ray.
template <class Workspace, class Block>
struct Blocks {
    size_t rays;
    Block block;
    Workspace workspace() const { return {}; }
    template <class Stop>
    void operator()(Workspace& workspace, size_t i, const Stop&) const {
        block(workspace, i, i * rays_per_block, std::min(rays, (i + 1) * rays_per_block));
    }
};

template <class Workspace, class Block>
void in_blocks(size_t rays, const Execution& execution, const Block& block) {
    parallel((rays + rays_per_block - 1) / rays_per_block, execution, Blocks<Workspace, Block>{rays, block});
}

// x / max(1, |x|) (2 - 1 / max(1, |x|)) in the maximum norm
template <class T>
T contract(T (&p)[3]) {
    const T size = std::max({T(1), std::abs(p[0]), std::abs(p[1]), std::abs(p[2])});
    const T factor = (2 - 1 / size) / size;
    for (T& coordinate : p) coordinate *= factor;
    return size;
}

template <class T>
struct Ray {
    T origin[3], direction[3], begin, end;
    T per_cell[3];  // distance along the ray from one border of cells to the next, along each axis; signed
};

// The part of a ray inside the cube.
template <class T>
void clip(Ray<T>& ray) {
    for (int axis = 0; axis < 3; ++axis) {
        const T o = ray.origin[axis], d = ray.direction[axis];
        if (d == 0) {
            if (std::abs(o) > 1) ray.end = ray.begin;
            continue;
        }
        const T one = (-1 - o) / d, other = (1 - o) / d;
        ray.begin = std::max(ray.begin, std::min(one, other));
        ray.end = std::min(ray.end, std::max(one, other));
    }
}

template <class T>
Ray<T> ray_of(const MarchRequest<T>& request, size_t r) {
    Ray<T> ray;
    for (size_t axis = 0; axis < 3; ++axis) {
        ray.origin[axis] = request.origins[3 * r + axis];
        ray.direction[axis] = request.directions[3 * r + axis];
        ray.per_cell[axis] = 2 / (ray.direction[axis] * static_cast<T>(request.cells));
    }
    ray.begin = request.nearest[r];
    ray.end = request.farthest[r];
    if (!request.contracted) clip(ray);
    return ray;
}

// How many steps it takes to leave the cell of a point; `place` and `cell` count in cells.
template <class T>
T steps_to_leave(const Ray<T>& ray, const T (&place)[3], const size_t (&cell)[3], T length) {
    T nearest = std::numeric_limits<T>::max();
    for (int axis = 0; axis < 3; ++axis) {
        if (ray.direction[axis] == 0) continue;
        const T border = static_cast<T>(cell[axis] + (ray.direction[axis] > 0 ? 1 : 0));
        nearest = std::min(nearest, (border - place[axis]) * ray.per_cell[axis]);
    }
    const T steps = std::min(nearest / length, static_cast<T>(most_steps));
    const T whole = static_cast<T>(static_cast<std::int64_t>(steps));
    return std::max(whole < steps ? whole + 1 : whole, T(1));
}

template <class T>
void walk(const MarchRequest<T>& request, size_t r, Samples<T>& found) {
    const Ray<T> ray = ray_of(request, r);
    const size_t cells = request.cells;
    const T half = request.contracted ? T(0.25) : T(0.5), scale = static_cast<T>(cells);
    T length = request.step, t = ray.begin + request.jitter[r] * length;
    for (size_t steps = 0; t < ray.end && steps < most_steps; ++steps) {
        T place[3], in_cells[3];
        size_t cell[3];
        for (int axis = 0; axis < 3; ++axis) place[axis] = ray.origin[axis] + t * ray.direction[axis];
        if (request.contracted) length = request.step * contract(place);
        for (int axis = 0; axis < 3; ++axis) {
            place[axis] = place[axis] * half + T(0.5);
            in_cells[axis] = place[axis] * scale;
            const T inside = in_cells[axis] > 0 ? std::min(in_cells[axis], scale) : T(0);  // also for NaN
            cell[axis] = std::min(static_cast<size_t>(static_cast<std::int64_t>(inside)), cells - 1);
        }
        if (request.occupied[(cell[2] * cells + cell[1]) * cells + cell[0]]) {
            found.distances.push_back(t);
            found.lengths.push_back(length);
            for (T coordinate : place) found.points.push_back(coordinate);
            if (request.times) found.points.push_back(request.times[r]);
            t += length;
        } else if (request.contracted) {
            t += length;
        } else {  // to the first sample behind the cell
            t += length * steps_to_leave(ray, in_cells, cell, length);
        }
    }
}

template <class T>
T density_of(T output, T shift) {
    return std::exp(std::min(output + shift, static_cast<T>(largest_log_density)));
}

template <class T>
T sigmoid(T x) {
    return 1 / (1 + std::exp(-x));
}

struct Nothing {};

}  // namespace

template <class T>
Samples<T> march(const MarchRequest<T>& request, const Execution& execution) {
    Samples<T> all;
    all.offsets.assign(request.rays + 1, 0);
    const size_t axes = request.times ? 4 : 3;
    std::vector<Samples<T>> blocks((request.rays + rays_per_block - 1) / rays_per_block);
    in_blocks<Nothing>(request.rays, execution, [&](Nothing&, size_t block, size_t begin, size_t end) {
        for (size_t r = begin; r < end; ++r) {
            const size_t before = blocks[block].distances.size();
            walk(request, r, blocks[block]);
            all.offsets[r + 1] = static_cast<std::int64_t>(blocks[block].distances.size() - before);
        }
    });
    for (size_t r = 0; r < request.rays; ++r) all.offsets[r + 1] += all.offsets[r];
    const size_t count = static_cast<size_t>(all.offsets[request.rays]);
    all.distances.resize(count);
    all.lengths.resize(count);
    all.points.resize(count * axes);
    for (size_t block = 0; block < blocks.size(); ++block) {
        const std::int64_t first = all.offsets[block * rays_per_block];
        std::copy(blocks[block].distances.begin(), blocks[block].distances.end(), all.distances.begin() + first);
        std::copy(blocks[block].lengths.begin(), blocks[block].lengths.end(), all.lengths.begin() + first);
        std::copy(blocks[block].points.begin(), blocks[block].points.end(),
                  all.points.begin() + first * static_cast<std::int64_t>(axes));
    }
    return all;
}

template <class T>
void composite(const Composite<T>& scan, T* color, T* depth, T* opacity, T* weights, const Execution& execution) {
    const size_t colors = scan.colors, outputs = 1 + colors;
    in_blocks<Nothing>(scan.rays, execution, [&](Nothing&, size_t, size_t begin, size_t end) {
        for (size_t r = begin; r < end; ++r) {
            T seen = 1, optical = 0, far = 0, mixed[3] = {};
            for (std::int64_t i = scan.offsets[r]; i < scan.offsets[r + 1]; ++i) {
                const T* output = scan.outputs + static_cast<size_t>(i) * outputs;
                optical += density_of(output[0], scan.shift) * scan.lengths[i];
                const T next = std::exp(-optical), weight = seen - next;
                weights[i] = weight;
                seen = next;
                far += weight * scan.distances[i];
                if (weight > 0)
                    for (size_t k = 0; k < colors; ++k) mixed[k] += weight * sigmoid(output[1 + k]);
            }
            for (size_t k = 0; k < colors; ++k)
                color[r * colors + k] = mixed[k] + seen * scan.background[r * colors + k];
            depth[r] = far;
            opacity[r] = 1 - seen;
        }
    });
}

template <class T>
void composite_backward(const Composite<T>& scan, const T* in_color, const T* in_depth, const T* in_opacity,
                        const T* in_weights, T* in_outputs, const Execution& execution) {
    const size_t colors = scan.colors, outputs = 1 + colors;
    const T steepest = std::exp(static_cast<T>(largest_log_slope));
    in_blocks<std::vector<T>>(scan.rays, execution, [&](std::vector<T>& room, size_t, size_t begin, size_t end) {
        for (size_t r = begin; r < end; ++r) {
            const std::int64_t first = scan.offsets[r], count = scan.offsets[r + 1] - first;
            room.resize(2 * static_cast<size_t>(count));
            T *const seen = room.data(), *const value = seen + count;  // transmittance behind samples; dL/dw
            T in_seen = in_opacity ? -in_opacity[r] : T(0);            // dL/dT_end
            for (size_t k = 0; k < colors; ++k)
                in_seen += in_color[r * colors + k] * scan.background[r * colors + k];
            T before = 1, optical = 0;
            for (std::int64_t j = 0; j < count; ++j) {
                const size_t i = static_cast<size_t>(first + j);
                const T* output = scan.outputs + i * outputs;
                T* const in = in_outputs + i * outputs;
                optical += density_of(output[0], scan.shift) * scan.lengths[i];
                seen[j] = std::exp(-optical);
                const T weight = before - seen[j];
                before = seen[j];
                value[j] = (in_depth ? in_depth[r] * scan.distances[i] : T(0)) + (in_weights ? in_weights[i] : T(0));
                for (size_t k = 0; k < colors; ++k) {
                    if (!(weight > 0)) {
                        in[1 + k] = 0;
                        continue;
                    }
                    const T c = sigmoid(output[1 + k]);
                    value[j] += in_color[r * colors + k] * c;
                    in[1 + k] = in_color[r * colors + k] * weight * c * (1 - c);
                }
            }
            // What lies behind a sample: dL/dx = T_after dL/dw - sum behind w dL/dw - T_end dL/dT_end.
            T behind = before * in_seen;
            for (std::int64_t j = count; j-- > 0;) {
                const size_t i = static_cast<size_t>(first + j);
                const T density = density_of(scan.outputs[i * outputs], scan.shift);
                const T slope = std::min(density, steepest) * scan.lengths[i];
                in_outputs[i * outputs] = slope * (seen[j] * value[j] - behind);
                behind += ((j > 0 ? seen[j - 1] : T(1)) - seen[j]) * value[j];
            }
        }
    });
}

template <class T>
void distortion(size_t rays, const std::int64_t* offsets, const T* distances, const T* lengths, const T* weights, T* values,
                T* in_weights, const Execution& execution) {
    in_blocks<Nothing>(rays, execution, [&](Nothing&, size_t, size_t begin, size_t end) {
        for (size_t r = begin; r < end; ++r) {
            double mass = 0, moment = 0, sum = 0;
            for (std::int64_t i = offsets[r]; i < offsets[r + 1]; ++i) {
                mass += weights[i];
                moment += static_cast<double>(weights[i]) * distances[i];
            }
            double before = 0, moment_before = 0;
            for (std::int64_t i = offsets[r]; i < offsets[r + 1]; ++i) {
                const double w = weights[i], m = distances[i], own = w * lengths[i] / 3;
                const double behind = mass - before - w, moment_behind = moment - moment_before - w * m;
                const double spread = m * before - moment_before + moment_behind - m * behind;
                sum += w * (spread + own);
                in_weights[i] = static_cast<T>(2 * (spread + own));
                before += w;
                moment_before += w * m;
            }
            values[r] = static_cast<T>(sum);
        }
    });
}

#define GYRFALCON_INSTANTIATE(T)                                                                                       \
    template Samples<T> march(const MarchRequest<T>&, const Execution&);                                               \
    template void composite(const Composite<T>&, T*, T*, T*, T*, const Execution&);                                    \
    template void composite_backward(const Composite<T>&, const T*, const T*, const T*, const T*, T*, const Execution&); \
    template void distortion(size_t, const std::int64_t*, const T*, const T*, const T*, T*, T*, const Execution&);
GYRFALCON_INSTANTIATE(float)
GYRFALCON_INSTANTIATE(double)
#undef GYRFALCON_INSTANTIATE

}  // namespace gyrfalcon
