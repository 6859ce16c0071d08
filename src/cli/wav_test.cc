#include "cli/wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>

namespace smelt::cli {
namespace {

/// A RIFF file with a chunk of another kind in front of the samples.
std::string wav(uint16_t coding, uint16_t channels, uint32_t rate, uint16_t bits, const std::string& samples) {
  const auto word = [](uint32_t v, size_t bytes) { return std::string(reinterpret_cast<const char*>(&v), bytes); };
  const std::string format = word(coding, 2) + word(channels, 2) + word(rate, 4) + word(rate * channels * bits / 8, 4) +
                             word(channels * bits / 8u, 2) + word(bits, 2);
  const std::string chunks = "WAVEfmt " + word(16, 4) + format + "LIST" + word(3, 4) + "abc" + std::string(1, '\0') +
                             "data" + word(static_cast<uint32_t>(samples.size()), 4) + samples;
  return "RIFF" + word(static_cast<uint32_t>(chunks.size()), 4) + chunks;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string raw(const std::vector<int16_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 2};
}

TEST(Wav, ReadsEveryCoding) {
  const std::string stereo = wav(1, 2, 8000, 16, raw({16384, 0, -32768, -32768}));
  ASSERT_TRUE(is_wav(bytes_of(stereo)));
  const Sound s = read_wav(bytes_of(stereo), "x.wav").value();
  EXPECT_EQ(s.rate, 8000);
  EXPECT_EQ(s.samples, (std::vector<float>{0.25f, -1}));
  EXPECT_EQ(read_wav(bytes_of(wav(1, 1, 8000, 8, "\xC0")), "").value().samples[0], 0.5f);
  EXPECT_EQ(read_wav(bytes_of(wav(1, 1, 8000, 24, std::string("\0\0\xC0", 3))), "").value().samples[0], -0.5f);
  EXPECT_EQ(read_wav(bytes_of(wav(1, 1, 8000, 32, std::string("\0\0\0\x40", 4))), "").value().samples[0], 0.5f);
  const float quarter = 0.25f;
  EXPECT_EQ(read_wav(bytes_of(wav(3, 1, 8000, 32, std::string(reinterpret_cast<const char*>(&quarter), 4))), "")
                .value()
                .samples[0],
            quarter);
}

TEST(Wav, DamagedFilesAreErrors) {
  const std::string good = wav(1, 1, 8000, 16, raw({1, 2, 3}));
  for (size_t n = 0; n < good.size(); ++n) (void)read_wav(bytes_of(good.substr(0, n)), "cut.wav");
  EXPECT_FALSE(read_wav(bytes_of(good.substr(0, 40)), "cut.wav").ok());
  EXPECT_FALSE(read_wav(bytes_of(wav(2, 1, 8000, 4, "ab")), "adpcm.wav").ok());
  EXPECT_FALSE(read_wav(bytes_of(wav(1, 0, 8000, 16, "ab")), "none.wav").ok());
  EXPECT_FALSE(read_wav(bytes_of(wav(1, 1, 0, 16, "ab")), "still.wav").ok());
}

TEST(Wav, TonesKeepTheirPitch) {
  Sound s{16000, std::vector<float>(1600)};
  for (size_t i = 0; i < s.samples.size(); ++i)
    s.samples[i] = static_cast<float>(std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / 16000));
  const Sound half = resampled(s, 8000);
  ASSERT_EQ(half.samples.size(), 800u);
  for (size_t i = 50; i < 750; ++i)
    EXPECT_NEAR(half.samples[i], std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / 8000), 2e-3) << i;
  EXPECT_EQ(resampled(s, 16000).samples, s.samples);
}

}  // namespace
}  // namespace smelt::cli
