// Points as the tiles read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "buffer.hpp"
#include "core.hpp"

namespace gyrfalcon {

// Writes points [first, first + count) of `source` as panels of `panel` points, zero-padded, and their squared norms.
template <class T>
class Packer {
   public:
    explicit Packer(const Leaf& leaf, std::size_t inputs) : leaf_(leaf), input_(inputs), mapped_(leaf.width) {}

    void operator()(Strided<const T> source, std::size_t first, std::size_t count, std::size_t panel, T* out, T* norm) {
        const std::size_t width = leaf_.width;
        const double most = static_cast<double>(std::numeric_limits<T>::max()) / 4;  // differences stay finite
        for (std::size_t i = 0; i < round_up(count, panel); ++i) {
            T* point = out + i / panel * panel * width + i % panel;
            double squared = 0;
            if (i < count) map(source, first + i);
            for (std::size_t k = 0; k < width; ++k) {
                double value = i < count ? mapped_[k] : 0;
                if (is_of_distance(leaf_.family)) value = std::clamp(value, -most, most);
                const T rounded = static_cast<T>(value);
                point[k * panel] = rounded;
                squared += static_cast<double>(rounded) * static_cast<double>(rounded);
            }
            norm[i] = static_cast<T>(squared);
        }
    }

   private:
    void map(Strided<const T> source, std::size_t i) {
        const std::size_t inputs = leaf_.shift.size(), first = leaf_.first_input;
        const double* shift = leaf_.shift.data();
        if (inputs != 0 && source.column_stride == 1) {  // without columns there may be no memory to point at
            const T* x = &source(i, first);
            for (std::size_t k = 0; k < inputs; ++k) input_[k] = static_cast<double>(x[k]) - shift[k];
        } else {
            for (std::size_t k = 0; k < inputs; ++k) input_[k] = static_cast<double>(source(i, first + k)) - shift[k];
        }
        if (!leaf_.has_matrix) {
            for (std::size_t k = 0; k < inputs; ++k) mapped_[k] = input_[k] * leaf_.scale[k];
            return;
        }
        std::fill(mapped_.begin(), mapped_.end(), 0.0);
        for (std::size_t k = 0; k < inputs; ++k) {
            const double value = input_[k], *row = leaf_.scale.data() + k * leaf_.width;
            for (std::size_t l = 0; l < leaf_.width; ++l) mapped_[l] += value * row[l];
        }
    }

    const Leaf& leaf_;
    std::vector<double> input_, mapped_;
};

template <class T>
struct Packed {
    Buffer<T> points, norms;
    Packed(std::size_t count, std::size_t width) : points(count * width), norms(count) {}
};

}  // namespace gyrfalcon
