#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace smelt {

/// A string or a number that Cat() writes. It refers to the string.
class CatPart {
 public:
  CatPart(std::string_view text) : kind_(Kind::kText), text_(text) {}    // NOLINT(*-explicit-*)
  CatPart(const std::string& text) : CatPart(std::string_view(text)) {}  // NOLINT(*-explicit-*)
  CatPart(const char* text)
      : CatPart(text ? std::string_view(text) : std::string_view("(null)")) {}  // NOLINT(*-explicit-*)
  CatPart(bool value) : CatPart(value ? "true" : "false") {}                    // NOLINT(*-explicit-*)
  CatPart(char value) : kind_(Kind::kChar), char_(value) {}                     // NOLINT(*-explicit-*)
  CatPart(float value) : kind_(Kind::kFloat), float_(value) {}                  // NOLINT(*-explicit-*)
  CatPart(double value) : kind_(Kind::kDouble), double_(value) {}               // NOLINT(*-explicit-*)
  template <std::signed_integral T>
  CatPart(T value) : kind_(Kind::kSigned), signed_(value) {}  // NOLINT(*-explicit-*)
  template <std::unsigned_integral T>
  CatPart(T value) : kind_(Kind::kUnsigned), unsigned_(value) {}  // NOLINT(*-explicit-*)

  void append_to(std::string& out) const;

 private:
  enum class Kind : uint8_t { kText, kChar, kFloat, kDouble, kSigned, kUnsigned };
  Kind kind_;
  union {
    std::string_view text_;
    char char_;
    float float_;
    double double_;
    int64_t signed_;
    uint64_t unsigned_;
  };
};

std::string concatenate(std::initializer_list<CatPart> parts);

/// Concatenates strings and numbers; floats have the shortest digits that give their value again.
template <class... A>
[[gnu::always_inline]] inline std::string Cat(const A&... args) {
  return concatenate({CatPart(args)...});
}

}  // namespace smelt
