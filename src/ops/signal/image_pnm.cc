// The portable bit, gray and pixel maps (P1 to P6), plain and raw.
#include <algorithm>

#include "ops/signal/image_codecs.h"

namespace smelt::image {
namespace {

bool is_space(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13); }
bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

struct Header {
  int kind = 0;  ///< 1 to 6
  Size size;
  int64_t most = 1;  ///< the value of white
  size_t data = 0;   ///< where the pixels begin
};

/// White space and comments up to the next token.
void skip_blanks(Bytes b, size_t& at) {
  while (at < b.size() && (is_space(b[at]) || b[at] == '#')) {
    if (b[at] == '#')
      while (at < b.size() && b[at] != '\n') ++at;
    else
      ++at;
  }
}

Result<int64_t> number(Bytes b, size_t& at) {
  skip_blanks(b, at);
  if (at >= b.size() || !is_digit(b[at])) return InvalidInput("a PNM image with no number at byte ", at);
  int64_t v = 0;
  for (; at < b.size() && is_digit(b[at]); ++at) {
    v = v * 10 + (b[at] - '0');
    if (v > INT32_MAX) return InvalidInput("a PNM image with a number above ", INT32_MAX);
  }
  return v;
}

Result<Header> header_of(Bytes b) {
  Header h;
  h.kind = b[1] - '0';
  size_t at = 2;
  SMELT_ASSIGN(h.size.width, number(b, at));
  SMELT_ASSIGN(h.size.height, number(b, at));
  if (h.kind != 1 && h.kind != 4) {
    SMELT_ASSIGN(h.most, number(b, at));
    if (h.most < 1 || h.most > 65535) return InvalidInput("a PNM image of values up to ", h.most);
  }
  h.data = std::min(at + 1, b.size());
  return h;
}

/// Rounds to a value of 255.
uint8_t scaled(int64_t v, int64_t most) { return static_cast<uint8_t>((std::min(v, most) * 255 + most / 2) / most); }

Status too_short() { return InvalidInput("a PNM image whose data end too early"); }

Status decode_plain(Bytes b, const Header& h, int64_t samples, uint8_t* out) {
  size_t at = h.data;
  for (int64_t i = 0; i < samples; ++i) {
    if (h.kind == 1) {  // single digits, 1 is black
      skip_blanks(b, at);
      if (at >= b.size()) return too_short();
      out[i] = b[at++] == '1' ? 0 : 255;
    } else {
      SMELT_ASSIGN(const int64_t v, number(b, at));
      out[i] = scaled(v, h.most);
    }
  }
  return Ok();
}

Status decode_raw(Bytes b, const Header& h, int64_t samples, uint8_t* out) {
  const Bytes data = b.subspan(h.data);
  if (h.kind == 4) {
    const int64_t stride = (h.size.width + 7) / 8;
    if (static_cast<int64_t>(data.size()) < stride * h.size.height) return too_short();
    for (int64_t y = 0; y < h.size.height; ++y)
      for (int64_t x = 0; x < h.size.width; ++x)
        *out++ = data[static_cast<size_t>(y * stride + x / 8)] >> (7 - x % 8) & 1 ? 0 : 255;
    return Ok();
  }
  const int64_t wide = h.most > 255 ? 2 : 1;
  if (static_cast<int64_t>(data.size()) < samples * wide) return too_short();
  for (int64_t i = 0; i < samples; ++i) {
    const auto k = static_cast<size_t>(i * wide);
    out[i] = scaled(wide == 2 ? data[k] << 8 | data[k + 1] : data[k], h.most);
  }
  return Ok();
}

Status decode(Bytes b, Size size, uint8_t* rgb) {
  SMELT_ASSIGN(const Header h, header_of(b));
  const bool color = h.kind == 3 || h.kind == 6;
  const int64_t pixels = size.width * size.height;
  SMELT_TRY(h.kind <= 3 ? decode_plain(b, h, pixels * (color ? 3 : 1), rgb)
                        : decode_raw(b, h, pixels * (color ? 3 : 1), rgb));
  if (!color)  // from the end: gray values lie where the colors come
    for (int64_t i = pixels; i-- > 0;) rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = rgb[i];
  return Ok();
}

}  // namespace

const Codec kPnm = {"PNM",
                    [](Bytes b) { return b.size() > 3 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6' && is_space(b[2]); },
                    [](Bytes b) -> Result<Size> {
                      SMELT_ASSIGN(const Header h, header_of(b));
                      return h.size;
                    },
                    decode};

}  // namespace smelt::image
