#include "compare/paired_values.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "compare/compare.h"
#include "compare/discrepancy.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Elements that are looked at together.
constexpr int64_t kTogether = int64_t{1} << 15;

/// `count` runs of `length` elements, `stride` elements from one to the next.
struct Runs {
  int64_t begin = 0, count = 1, length = 0, stride = 0;
  int64_t elements() const { return count * length; }
};
/// The same elements in both sides' storage. Of several runs on one side, the other side has element i of each side by
/// side.
struct Tile {
  Runs first, second;
};

std::vector<Tile> tiles_of(const Shape& first, ElementOrder layout) {
  std::vector<Tile> out;
  const int64_t elements = first.elements();
  if (layout == ElementOrder::kSame || first.rank() < 3) {
    for (int64_t at = 0; at < elements; at += kTogether) {
      const Runs runs{at, 1, std::min(kTogether, elements - at), 0};
      out.push_back({runs, runs});
    }
    return out;
  }
  const bool last = layout == ElementOrder::kChannelsLast;
  const int64_t channels = first[last ? 1 : first.rank() - 1];
  if (elements == 0) return out;
  const int64_t spatial = elements / first[0] / channels, most = std::max<int64_t>(16, kTogether / channels);
  for (int64_t n = 0; n < first[0]; ++n)
    for (int64_t at = 0; at < spatial; at += most) {
      const int64_t length = std::min(most, spatial - at), image = n * channels * spatial;
      const Runs planes{image + at, channels, length, spatial};
      const Runs pixels{image + at * channels, 1, length * channels, 0};
      out.push_back(last ? Tile{planes, pixels} : Tile{pixels, planes});
    }
  return out;
}

/// Rows of `columns` values become columns.
void transpose(const std::vector<float>& from, int64_t rows, int64_t columns, std::vector<float>& to) {
  to.resize(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
}

bool may_be_cut(const Tensor& t) {
  if (!is_float(t.dtype()) && !is_integer(t.dtype()) && t.dtype() != DType::kBool) return false;
  return Tensor::byte_size(t.dtype(), 2) == 2 * Tensor::byte_size(t.dtype(), 1) &&
         (!t.quant() || is_per_tensor(t.quant()));
}

/// A tensor of the type of another with elements in a row.
Result<Tensor> row_of(const Tensor& type, int64_t elements) {
  SMELT_ASSIGN(Tensor t, Tensor::allocate(type.dtype(), {elements}, false));
  t.set_quant(type.quant());
  return t;
}

bool same_representation(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.bytes() == b.bytes() && same_quant_params(a.quant(), b.quant());
}

}  // namespace

PairedValues::PairedValues(const Recording& recording, const Pair& pair, Tensor& second)
    : recording_(recording), pair_(pair), second_(second) {}

Status PairedValues::walk(const Visit& visit, bool replaces) const {
  const Tensor& type = first();
  if (!may_be_cut(type) || !may_be_cut(second_) || type.elements() != second_.elements())
    return walk_whole(visit, replaces);
  const size_t first_width = Tensor::byte_size(type.dtype(), 1), width = Tensor::byte_size(second_.dtype(), 1);
  char* const bytes = second_.data<char>();
  std::vector<float> turned;
  for (const Tile& tile : tiles_of(type.shape(), pair_.layout)) {
    const int64_t n = tile.second.elements();
    SMELT_ASSIGN(Tensor a, row_of(type, n));
    for (int64_t r = 0; r < tile.first.count; ++r)
      SMELT_TRY(recording_.read(pair_.first, tile.first.begin + r * tile.first.stride, tile.first.length,
                                a.data<char>() + static_cast<size_t>(r * tile.first.length) * first_width));
    SMELT_ASSIGN(Tensor b, row_of(second_, n));
    const auto for_each_run = [&](const auto& copy) {
      for (int64_t r = 0; r < tile.second.count; ++r)
        copy(b.data<char>() + static_cast<size_t>(r * tile.second.length) * width,
             bytes + static_cast<size_t>(tile.second.begin + r * tile.second.stride) * width,
             static_cast<size_t>(tile.second.length) * width);
    };
    for_each_run([](char* part, const char* whole, size_t size) { std::memcpy(part, whole, size); });
    std::vector<float> want = reals(a);
    if (tile.first.count != tile.second.count) {
      const bool planes = tile.first.count > 1;
      transpose(want, planes ? tile.first.count : tile.second.length, planes ? tile.first.length : tile.second.count,
                turned);
      want.swap(turned);
    }
    visit(want, reals(b));
    if (!replaces) continue;
    if (tile.first.count == tile.second.count && same_representation(a, b))
      std::memcpy(b.raw(), a.raw(), b.bytes());
    else
      write_reals(want, b);
    for_each_run([](const char* part, char* whole, size_t size) { std::memcpy(whole, part, size); });
  }
  return Ok();
}

Status PairedValues::walk_whole(const Visit& visit, bool replaces) const {
  SMELT_ASSIGN(const Tensor expected, recording_.read(pair_.first));
  const std::vector<float> want = laid_out(reals(expected), expected.shape(), pair_.layout);
  visit(want, reals(second_));
  if (!replaces || want.size() != static_cast<size_t>(second_.elements())) return Ok();
  if (pair_.layout != ElementOrder::kSame || !same_representation(expected, second_))
    write_reals(want, second_);
  else if (second_.bytes() > 0)
    std::memcpy(second_.raw(), expected.raw(), second_.bytes());
  return Ok();
}

void visit_reals(const Tensor& t, const std::function<void(int64_t at, std::span<const float> values)>& visit) {
  if (!may_be_cut(t) || !t.identity()) {
    if (const std::vector<float> values = reals(t); !values.empty()) visit(0, values);
    return;
  }
  const size_t width = Tensor::byte_size(t.dtype(), 1);
  for (int64_t at = 0; at < t.elements(); at += kTogether) {
    Tensor part = Tensor::view(t.dtype(), {std::min(kTogether, t.elements() - at)},
                               t.data<char>() + static_cast<size_t>(at) * width, nullptr);
    part.set_quant(t.quant());
    visit(at, reals(part));
  }
}

}  // namespace smelt
