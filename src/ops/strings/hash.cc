#include "ops/strings/hash.h"

#include <bit>
#include <cstring>
#include <utility>

namespace smelt {
namespace {

// Odd constants of the fingerprint's mixing steps.
constexpr uint64_t kA = 0xc3a5c85c97cb3127, kB = 0xb492b66fbe98f273, kC = 0x9ae16a3b2f90404f;

template <class T>
T load(const unsigned char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
uint64_t word(const unsigned char* p) { return load<uint64_t>(p); }
uint64_t fold(uint64_t v) { return v ^ (v >> 47); }

/// Two words into one.
uint64_t mix(uint64_t u, uint64_t v, uint64_t factor) {
  const uint64_t a = fold((u ^ v) * factor);
  return fold((v ^ a) * factor) * factor;
}

uint64_t up_to_16(const unsigned char* p, size_t n) {
  if (n >= 8) {
    const uint64_t factor = kC + n * 2, a = word(p) + kC, b = word(p + n - 8);
    return mix(std::rotr(b, 37) * factor + a, (std::rotr(a, 25) + b) * factor, factor);
  }
  if (n >= 4) return mix(n + (uint64_t{load<uint32_t>(p)} << 3), load<uint32_t>(p + n - 4), kC + n * 2);
  if (n == 0) return kC;
  const uint32_t y = p[0] + (uint32_t{p[n >> 1]} << 8), z = static_cast<uint32_t>(n) + (uint32_t{p[n - 1]} << 2);
  return fold(y * kC ^ z * kA) * kC;
}

uint64_t up_to_32(const unsigned char* p, size_t n) {
  const uint64_t factor = kC + n * 2;
  const uint64_t a = word(p) * kB, b = word(p + 8), c = word(p + n - 8) * factor, d = word(p + n - 16) * kC;
  return mix(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kC, 18) + c, factor);
}

uint64_t up_to_64(const unsigned char* p, size_t n) {
  const uint64_t factor = kC + n * 2;
  const uint64_t a = word(p) * kC, b = word(p + 8), c = word(p + n - 8) * factor, d = word(p + n - 16) * kC;
  const uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const uint64_t z = mix(y, a + std::rotr(b + kC, 18) + c, factor);
  const uint64_t e = word(p + 16) * factor, f = word(p + 24);
  const uint64_t g = (y + word(p + n - 32)) * factor, h = (z + word(p + n - 24)) * factor;
  return mix(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, factor);
}

struct Pair {
  uint64_t first = 0, second = 0;
};

/// 32 bytes and two seeds into two words.
Pair stir(const unsigned char* p, uint64_t a, uint64_t b) {
  a += word(p);
  b = std::rotr(b + a + word(p + 24), 21);
  const uint64_t c = a;
  a += word(p + 8) + word(p + 16);
  b += std::rotr(a, 44);
  return {a + word(p + 24), b + c};
}

struct Running {
  uint64_t x, y, z;
  Pair v, w;
  /// One block of 64 bytes. `nine` weighs w and v in the last block.
  void block(const unsigned char* p, uint64_t factor, uint64_t nine) {
    x = std::rotr(x + y + v.first + word(p + 8), 37) * factor;
    y = std::rotr(y + v.second + word(p + 48), 42) * factor;
    x ^= w.second * nine;
    y += v.first * nine + word(p + 40);
    z = std::rotr(z + w.first, 33) * factor;
    v = stir(p, v.second * factor, x + w.first);
    w = stir(p + 32, z + w.second, y + word(p + 16));
    std::swap(z, x);
  }
};

}  // namespace

uint64_t fingerprint64(const void* data, size_t n) {
  const auto* p = static_cast<const unsigned char*>(data);
  if (n <= 16) return up_to_16(p, n);
  if (n <= 32) return up_to_32(p, n);
  if (n <= 64) return up_to_64(p, n);
  constexpr uint64_t kSeed = 81;
  Running r{kSeed, kSeed * kB + 113, 0, {}, {}};
  r.z = fold(r.y * kC + 113) * kC;
  r.x = r.x * kC + word(p);
  const size_t tail = (n - 1) & 63;
  const unsigned char* end = p + (n - 1) / 64 * 64;
  const unsigned char* last = end + tail - 63;
  for (; p != end; p += 64) r.block(p, kB, 1);
  const uint64_t factor = kB + ((r.z & 0xff) << 1);
  r.w.first += tail;
  r.v.first += r.w.first;
  r.w.first += r.v.first;
  r.block(last, factor, 9);
  return mix(mix(r.v.first, r.w.first, factor) + fold(r.y) * kA + r.z, mix(r.v.second, r.w.second, factor) + r.x,
             factor);
}

uint32_t murmur3(const void* data, size_t n, uint32_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  const auto scramble = [](uint32_t k) { return std::rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u; };
  uint32_t h = seed;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) h = std::rotl(h ^ scramble(load<uint32_t>(p + i)), 13) * 5 + 0xe6546b64u;
  uint32_t rest = 0;
  for (size_t k = n; k > i; --k) rest = rest << 8 | p[k - 1];
  if (i < n) h ^= scramble(rest);
  h ^= static_cast<uint32_t>(n);
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

}  // namespace smelt
