#include "ops/strings/utf8.h"

#include <algorithm>

namespace smelt {

std::vector<char32_t> decode_utf8(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
    const uint8_t b = byte(i);
    int extra = 0;
    char32_t c = b;
    if (b >= 0xf0 && b < 0xf5) {
      extra = 3;
      c = b & 0x07;
    } else if (b >= 0xe0 && b < 0xf0) {
      extra = 2;
      c = b & 0x0f;
    } else if (b >= 0xc2 && b < 0xe0) {
      extra = 1;
      c = b & 0x1f;
    } else if (b >= 0x80) {
      extra = -1;
    }
    bool valid = extra >= 0 && i + static_cast<size_t>(extra) < text.size() + (extra == 0);
    for (int k = 1; valid && k <= extra; ++k) {
      valid = (byte(i + static_cast<size_t>(k)) & 0xc0) == 0x80;
      c = c << 6 | (byte(i + static_cast<size_t>(k)) & 0x3f);
    }
    static constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    if (valid) valid = c >= kSmallest[extra] && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000);
    out.push_back(valid ? c : U'\ufffd');
    i += valid ? static_cast<size_t>(extra) + 1 : 1;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string encode_utf8(const char32_t* begin, const char32_t* end) {
  std::string out;
  for (; begin != end; ++begin) append_utf8(out, *begin);
  return out;
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) || (c >= 0x410 && c <= 0x42f))
    return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  if (c == 0x178) return 0xff;
  const bool even_upper = (c >= 0x100 && c <= 0x137 && c != 0x130) || (c >= 0x14a && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f) ||
                          (c >= 0x1e00 && c <= 0x1e95) || (c >= 0x1ea0 && c <= 0x1eff);
  if (even_upper) return c | 1;
  const bool odd_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
  if (odd_upper) return (c & 1) ? c + 1 : c;
  return c;
}

char32_t to_upper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  if ((c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f))
    return c - 32;
  if (c >= 0x450 && c <= 0x45f) return c - 80;
  if (c == 0xff) return 0x178;
  if (c == 0x3c2) return 0x3a3;
  // The other pairs are neighbours: the one that maps down to c, if any.
  if (c > 0x100 && c < 0x1f00 && c != 0x131 && to_lower(c - 1) == c) return c - 1;
  return c;
}

std::string change_case(std::string_view text, bool upper) {
  const char first = upper ? 'a' : 'A', last = upper ? 'z' : 'Z';
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    std::string out(text);
    for (char& c : out) c = c >= first && c <= last ? static_cast<char>(c ^ 0x20) : c;
    return out;
  }
  std::string out;
  for (char32_t c : decode_utf8(text)) append_utf8(out, upper ? to_upper(c) : to_lower(c));
  return out;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

}  // namespace smelt
