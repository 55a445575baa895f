// Which instruction set runs, decided once.

#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "buffer.hpp"
#include "core.hpp"
#include "tile.hpp"

namespace gyrfalcon {
namespace {

#if defined(GYRFALCON_X86)
bool supported(std::string_view name) {
    if (name == "avx512") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    return name == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

}  // namespace

// The widest set this processor has, or the one GYRFALCON_SIMD names if the processor has it.
template <class T>
const InstructionSet<T>& chosen_instruction_set() {
    static const InstructionSet<T>* const set = [] {
#if defined(GYRFALCON_X86)
        const char* wish = std::getenv("GYRFALCON_SIMD");
        for (const InstructionSet<T>* candidate : {&avx512<T>(), &avx2<T>()})
            if (supported(candidate->name) && (!wish || std::string_view(wish) == candidate->name)) return candidate;
#endif
        return &baseline<T>();
    }();
    return *set;
}

template <class T>
double exponential_nanoseconds() {
    constexpr std::size_t count = 2048;
    constexpr int repeats = 2000;
    Buffer<T> x(count);
    double best = std::numeric_limits<double>::infinity();
    for (int attempt = 0; attempt < 5; ++attempt) {
        for (std::size_t i = 0; i < count; ++i) x.data()[i] = static_cast<T>(i) / static_cast<T>(64);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) chosen_instruction_set<T>().exponential(x.data(), count);
        const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
        best = std::min(best, elapsed.count() / (static_cast<double>(count) * repeats));
    }
    return best;
}

const char* instruction_set() { return chosen_instruction_set<float>().name; }

template const InstructionSet<float>& chosen_instruction_set<float>();
template const InstructionSet<double>& chosen_instruction_set<double>();
template double exponential_nanoseconds<float>();
template double exponential_nanoseconds<double>();

}  // namespace gyrfalcon
