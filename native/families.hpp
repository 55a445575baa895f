// The kernel families of the core. To add one: a line here, and its profile in profiles.hpp, with its slope if the line
// says so. Outside, families are known by these names only.
#pragma once

#include <cstddef>
#include <string_view>

namespace gyrfalcon {

// What a profile is a function of: |x - c|^2, the sum of all |x_k - c_k|, or x.c, in the leaf's coordinates and times
// its gain.
enum class Argument : int { squared_distance, absolute_distance, inner_product };
constexpr const char* argument_names[] = {"squared_distance", "absolute_distance", "inner_product"};

// Name, argument, whether profiles.hpp has its slope.
#define GYRFALCON_FAMILIES(FAMILY)                      \
    FAMILY(gaussian, squared_distance, true)            \
    FAMILY(laplacian, squared_distance, true)           \
    FAMILY(matern32, squared_distance, true)            \
    FAMILY(matern52, squared_distance, true)            \
    FAMILY(exponential_power, squared_distance, false)  \
    FAMILY(rational_quadratic, squared_distance, false) \
    FAMILY(cauchy, squared_distance, false)             \
    FAMILY(product_laplacian, absolute_distance, true)  \
    FAMILY(product_laplacian_power, absolute_distance, true)  \
    FAMILY(linear, inner_product, false)                \
    FAMILY(polynomial, inner_product, false)            \
    FAMILY(sigmoid, inner_product, false)               \
    FAMILY(fourier, inner_product, false)

#define GYRFALCON_NAME(name, argument, slope) name,
enum class Family : int { GYRFALCON_FAMILIES(GYRFALCON_NAME) };
#undef GYRFALCON_NAME

struct FamilyTraits {
    std::string_view name;
    Argument argument;
    bool has_slope;
};

#define GYRFALCON_TRAITS(name, argument, slope) {#name, Argument::argument, slope},
constexpr FamilyTraits families[] = {GYRFALCON_FAMILIES(GYRFALCON_TRAITS)};
#undef GYRFALCON_TRAITS

constexpr const FamilyTraits& traits(Family family) { return families[static_cast<std::size_t>(family)]; }
constexpr bool is_of_distance(Family family) { return traits(family).argument != Argument::inner_product; }
constexpr bool has_slope(Family family) { return traits(family).has_slope; }

}  // namespace gyrfalcon
