#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace smelt {
namespace detail {

/// How an argument of Cat() is passed on: a letter that concatenate() reads.
template <class T>
constexpr char part_kind() {
  if constexpr (std::is_same_v<T, bool>)
    return 'b';
  else if constexpr (std::is_same_v<T, char>)
    return 'c';
  else if constexpr (std::is_same_v<T, float>)
    return 'f';
  else if constexpr (std::is_same_v<T, double>)
    return 'd';
  else if constexpr (std::signed_integral<T>)
    return 'i';
  else if constexpr (std::unsigned_integral<T>)
    return 'u';
  else if constexpr (std::is_same_v<T, std::string>)
    return 's';
  else if constexpr (std::is_convertible_v<const T&, const char*>)
    return 't';
  else
    return 'v';
}

template <char... kKinds>
struct PartKinds {
  static constexpr char kText[] = {kKinds..., 0};
};

/// The argument of the variadic functions below for a part.
template <class T>
[[gnu::always_inline]] inline auto part(const T& value) {
  constexpr char kKind = part_kind<T>();
  if constexpr (kKind == 'b' || kKind == 'c')
    return static_cast<int>(value);
  else if constexpr (kKind == 'f' || kKind == 'd')
    return static_cast<double>(value);
  else if constexpr (kKind == 'i')
    return static_cast<int64_t>(value);
  else if constexpr (kKind == 'u')
    return static_cast<uint64_t>(value);
  else if constexpr (kKind == 's')
    return &value;
  else if constexpr (kKind == 't')
    return static_cast<const char*>(value);
  else {
    static_assert(std::is_same_v<T, std::string_view>);
    return &value;
  }
}

/// One text of the parts behind `kinds`, which has a letter for each (part_kind()). A call of it is the shortest code
/// for a message: strings of the program are passed by address, numbers by value.
std::string concatenate(const char* kinds, ...);  // NOLINT(*-vararg)

}  // namespace detail

/// Concatenates strings and numbers; floats have the shortest digits that give their value again. A null const char* is
/// "(null)".
template <class... A>
[[gnu::always_inline]] inline std::string Cat(const A&... args) {
  return detail::concatenate(detail::PartKinds<detail::part_kind<A>()...>::kText,  // NOLINT(*-vararg)
                             detail::part(args)...);
}

}  // namespace smelt
