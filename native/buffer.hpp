// Memory for vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

namespace gyrfalcon {

constexpr std::size_t cache_line = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// An odd number of cache lines, so that the rows of a tile do not compete for the same cache sets.
template <class T>
constexpr std::size_t skewed(std::size_t columns, std::size_t panel) {
    const std::size_t line = std::max(panel, cache_line / sizeof(T));
    return (round_up(columns, line) / line | 1) * line;
}

// Starts on a cache line, filled with zeros.
template <class T>
class Buffer {
   public:
    explicit Buffer(std::size_t count) : data_(count ? allocate(count) : nullptr) {
        if (count) std::memset(static_cast<void*>(data_.get()), 0, count * sizeof(T));
    }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }

   private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{cache_line}); }
    };
    static T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
        return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{cache_line}));
    }
    std::unique_ptr<T, Free> data_;
};

}  // namespace gyrfalcon
