#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Pixels of an output line, or of a part of one, that see the same taps.
struct Segment {
  int64_t line, first, count;
  std::vector<ptrdiff_t> at, b_rows;  ///< of the taps, as in GemmRuns, `at` from the image's begin

  GemmRuns runs(const ConvShape& g) const {
    return {at.data(), static_cast<ptrdiff_t>(at.size()), g.c_in, b_rows.data()};
  }
};

/// The output of a dilated convolution, or of one of images of one line, by segments, without the taps that lie in the
/// padding. Empty: too few of them do to pay off; a single line, whose copy with padding is saved, may cost a bit more.
std::vector<Segment> segments_of(const ConvShape& g, int64_t mr);

/// The segments, cut where a part of a line ends: each line has `parts` of `pixels` at most, which take its place in
/// Segment::line.
std::vector<Segment> cut_lines(const std::vector<Segment>& segments, const ConvShape& g, int64_t parts, int64_t pixels);

}  // namespace smelt
