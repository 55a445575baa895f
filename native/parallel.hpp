// Threads that live as long as one call.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "core.hpp"

namespace gyrfalcon {

constexpr auto patience = std::chrono::milliseconds(50);  // between two questions whether to stop

// Calls work(index) for every index below count, on up to `threads` threads. Indices are taken in order, so a
// caller that must be bit-identical only has to keep the results of different indices apart.
template <class Work>
void parallel(std::size_t count, const Execution& execution, const Work& work) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stopped{false};
    std::exception_ptr failure;
    std::atomic_flag failed = ATOMIC_FLAG_INIT;
    auto loop = [&](bool asks) {
        try {
            auto workspace = work.workspace();
            auto asked = std::chrono::steady_clock::now();
            auto stop = [&] {
                if (asks && execution.interrupted && std::chrono::steady_clock::now() - asked > patience) {
                    if (execution.interrupted()) stopped = true;
                    asked = std::chrono::steady_clock::now();
                }
                return stopped.load(std::memory_order_relaxed);
            };
            for (std::size_t i = next++; i < count && !stop(); i = next++) work(workspace, i, stop);
        } catch (...) {
            if (!failed.test_and_set()) failure = std::current_exception();
            stopped = true;
        }
    };
    const std::size_t helpers = std::min<std::size_t>(count, static_cast<std::size_t>(std::max(execution.threads, 1)));
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < helpers; ++i) {
        try {
            threads.emplace_back(loop, false);
        } catch (const std::system_error&) {
            break;  // no more threads to be had: the ones there are do the work
        }
    }
    loop(true);
    for (auto& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    if (stopped) throw Interrupted{};
}

// How many parts of the blocks get partial sums of their own: a fixed number, so that the result does not depend on the
// threads, unless memory for so many is missing.
inline std::size_t segments_of(std::size_t blocks, std::size_t sums, std::size_t most, const Execution& execution) {
    const std::size_t affordable = execution.partial_bytes / std::max<std::size_t>(sums * sizeof(double), 1);
    const std::size_t least = static_cast<std::size_t>(std::max(execution.threads, 1));
    return std::min({blocks, most, std::max(least, affordable)});
}

}  // namespace gyrfalcon
