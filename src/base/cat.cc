#include "base/cat.h"

#include <charconv>

namespace smelt {
namespace {

template <class T>
void append_number(std::string& out, T value) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace

void CatPart::append_to(std::string& out) const {
  switch (kind_) {
    case Kind::kText:
      out.append(text_);
      return;
    case Kind::kChar:
      out.push_back(char_);
      return;
    case Kind::kFloat:
      append_number(out, float_);
      return;
    case Kind::kDouble:
      append_number(out, double_);
      return;
    case Kind::kSigned:
      append_number(out, signed_);
      return;
    case Kind::kUnsigned:
      append_number(out, unsigned_);
      return;
  }
}

std::string concatenate(std::initializer_list<CatPart> parts) {
  std::string out;
  for (const CatPart& part : parts) part.append_to(out);
  return out;
}

}  // namespace smelt
