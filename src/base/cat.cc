#include <charconv>
#include <cstdarg>

#include "base/error.h"

namespace smelt {
namespace {

template <class T>
void append_number(std::string& out, T value) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// NOLINTBEGIN(*-vararg)
std::string concatenate_list(const char* kinds, va_list parts) {
  std::string out;
  for (; *kinds != 0; ++kinds) switch (*kinds) {
      case 'b':
        out.append(va_arg(parts, int) ? "true" : "false");
        break;
      case 'c':
        out.push_back(static_cast<char>(va_arg(parts, int)));
        break;
      case 'f':
        append_number(out, static_cast<float>(va_arg(parts, double)));
        break;
      case 'd':
        append_number(out, va_arg(parts, double));
        break;
      case 'i':
        append_number(out, va_arg(parts, int64_t));
        break;
      case 'u':
        append_number(out, va_arg(parts, uint64_t));
        break;
      case 's':
        out.append(*va_arg(parts, const std::string*));
        break;
      case 't': {
        const char* text = va_arg(parts, const char*);
        out.append(text ? text : "(null)");
        break;
      }
      default:
        out.append(*va_arg(parts, const std::string_view*));
    }
  return out;
}

}  // namespace

std::string detail::concatenate(const char* kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  std::string out = concatenate_list(kinds, parts);
  va_end(parts);
  return out;
}

#define SMELT_ERROR(name, code)                        \
  Error detail::name(const char* kinds, ...) {         \
    va_list parts;                                     \
    va_start(parts, kinds);                            \
    Error error(code, concatenate_list(kinds, parts)); \
    va_end(parts);                                     \
    return error;                                      \
  }
SMELT_ERROR(invalid_model, ErrorCode::kInvalidModel)
SMELT_ERROR(unsupported, ErrorCode::kUnsupported)
SMELT_ERROR(invalid_input, ErrorCode::kInvalidInput)
SMELT_ERROR(limit_reached, ErrorCode::kLimit)
SMELT_ERROR(internal, ErrorCode::kInternal)
#undef SMELT_ERROR
// NOLINTEND(*-vararg)

}  // namespace smelt
