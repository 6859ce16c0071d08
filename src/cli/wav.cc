#include "cli/wav.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string_view>

#include "base/error.h"
#include "base/little_endian.h"

namespace smelt::cli {
namespace {

constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

struct Format {
  uint16_t coding = 0, channels = 0, bits = 0;
  uint32_t rate = 0;
};

template <class T>
T number(std::span<const std::byte> bytes, size_t at) {
  return read_le<T>(bytes, at);
}

bool tagged(std::span<const std::byte> bytes, size_t at, std::string_view tag) {
  return bytes.size() >= at + tag.size() && std::memcmp(bytes.data() + at, tag.data(), tag.size()) == 0;
}

/// One sample of `bits` at the begin of `bytes`.
float sample(std::span<const std::byte> bytes, const Format& f) {
  switch (f.bits) {
    case 8:
      return (static_cast<float>(std::to_integer<int>(bytes[0])) - 128) / 128;
    case 16:
      return static_cast<float>(number<int16_t>(bytes, 0)) / 32768;
    case 24: {
      const auto word = std::to_integer<uint32_t>(bytes[0]) << 8 | std::to_integer<uint32_t>(bytes[1]) << 16 |
                        std::to_integer<uint32_t>(bytes[2]) << 24;
      return static_cast<float>(static_cast<int32_t>(word)) / 2147483648.0f;
    }
    default:
      return f.coding == kFloat ? number<float>(bytes, 0)
                                : static_cast<float>(number<int32_t>(bytes, 0)) / 2147483648.0f;
  }
}

Status check(const Format& f, const std::string& name) {
  const bool integers = f.coding == kPcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
  if (!integers && !(f.coding == kFloat && f.bits == 32))
    return InvalidInput(name, ": coding ", f.coding, " of ", f.bits, " bits; integers or 32-bit floats expected");
  if (f.channels == 0 || f.rate == 0) return InvalidInput(name, ": ", f.channels, " channels at ", f.rate, " Hz");
  return Ok();
}

}  // namespace

bool is_wav(std::span<const std::byte> bytes) { return tagged(bytes, 0, "RIFF") && tagged(bytes, 8, "WAVE"); }

Result<Sound> read_wav(std::span<const std::byte> bytes, const std::string& name) {
  Format f;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const size_t size = number<uint32_t>(bytes, at + 4), data = at + 8, left = bytes.size() - data;
    if (tagged(bytes, at, "fmt ")) {
      if (size < 16 || size > left) return InvalidInput(name, ": a damaged header");
      f = {number<uint16_t>(bytes, data), number<uint16_t>(bytes, data + 2), number<uint16_t>(bytes, data + 14),
           number<uint32_t>(bytes, data + 4)};
      if (f.coding == kExtensible && size >= 26) f.coding = number<uint16_t>(bytes, data + 24);
      SMELT_TRY(check(f, name));
    } else if (tagged(bytes, at, "data")) {
      if (f.rate == 0) return InvalidInput(name, ": the samples come before their format");
      const size_t width = f.bits / 8, frame = width * f.channels, frames = std::min(size, left) / frame;
      Sound out{static_cast<double>(f.rate), std::vector<float>(frames)};
      for (size_t i = 0; i < frames; ++i) {
        float sum = 0;
        for (size_t c = 0; c < f.channels; ++c) sum += sample(bytes.subspan(data + i * frame + c * width), f);
        out.samples[i] = sum / static_cast<float>(f.channels);
      }
      return out;
    }
    if (size > left) break;
    at = data + size + size % 2;
  }
  return InvalidInput(name, ": has no samples");
}

Sound resampled(const Sound& sound, double rate) {
  if (rate == sound.rate || sound.samples.empty()) return sound;
  constexpr double kCrossings = 16;  // zeros of the kernel on each side
  const double step = sound.rate / rate, cutoff = std::min(1.0, 1 / step), reach = kCrossings / cutoff;
  const auto n = static_cast<int64_t>(sound.samples.size());
  Sound out{rate, std::vector<float>(static_cast<size_t>(std::llround(static_cast<double>(n) / step)))};
  for (size_t i = 0; i < out.samples.size(); ++i) {
    const double centre = static_cast<double>(i) * step;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - reach)));
    const auto last = std::min<int64_t>(n - 1, static_cast<int64_t>(std::floor(centre + reach)));
    double sum = 0, weights = 0;
    for (int64_t k = first; k <= last; ++k) {
      const double x = (static_cast<double>(k) - centre) * cutoff, a = std::numbers::pi * x;
      const double window = 0.5 + 0.5 * std::cos(a / kCrossings);
      const double weight = (a == 0 ? 1 : std::sin(a) / a) * window;
      sum += weight * sound.samples[static_cast<size_t>(k)];
      weights += weight;
    }
    out.samples[i] = static_cast<float>(weights == 0 ? 0 : sum / weights);
  }
  return out;
}

std::optional<double> sample_rate(const Model& model) {
  for (const auto& [key, value] : model.metadata()) {
    double rate = 0;
    if (key != "sample_rate" && key != "sampling_rate") continue;
    const char* end = value.data() + value.size();
    if (std::from_chars(value.data(), end, rate).ptr == end && rate >= 1 && rate <= 1e6) return rate;
  }
  return std::nullopt;
}

}  // namespace smelt::cli
