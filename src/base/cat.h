#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace smelt {
namespace detail {
inline void append(std::string& out, std::string_view s) { out.append(s); }
inline void append(std::string& out, const char* s) { out.append(s ? s : "(null)"); }
inline void append(std::string& out, char c) { out.push_back(c); }
inline void append(std::string& out, bool b) { out.append(b ? "true" : "false"); }
template <std::integral T>
void append(std::string& out, T v) {
  char buf[24];
  auto r = std::to_chars(buf, buf + sizeof buf, v);
  out.append(buf, r.ptr);
}
template <std::floating_point T>
void append(std::string& out, T v) {
  char buf[40];
  auto r = std::to_chars(buf, buf + sizeof buf, v);
  out.append(buf, r.ptr);
}
}  // namespace detail

/// Concatenates strings and numbers.
template <class... A>
std::string Cat(const A&... args) {
  std::string out;
  (detail::append(out, args), ...);
  return out;
}

}  // namespace smelt
