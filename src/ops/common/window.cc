#include "ops/common/window.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace smelt {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;

int64_t product(const Window& w, int64_t WindowDim::*member) {
  int64_t n = 1;
  for (int i = 0; i < w.rank; ++i) n *= w.dims[static_cast<size_t>(i)].*member;
  return n;
}

Status check_count(const std::vector<int64_t>& list, int expected, const char* name) {
  if (!list.empty() && static_cast<int>(list.size()) != expected)
    return InvalidModel(name, " has ", list.size(), " numbers, ", expected, " expected");
  return Ok();
}

}  // namespace

int64_t Window::taps() const { return product(*this, &WindowDim::kernel); }
int64_t Window::in_positions() const { return product(*this, &WindowDim::in); }
int64_t Window::out_positions() const { return product(*this, &WindowDim::out); }

Status set_window(Window& w, const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
                  const std::vector<int64_t>& pads) {
  SMELT_TRY(check_count(strides, w.rank, "strides"));
  SMELT_TRY(check_count(dilations, w.rank, "dilations"));
  SMELT_TRY(check_count(pads, 2 * w.rank, "pads"));
  for (int i = 0; i < w.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    WindowDim& d = w.dims[at];
    if (!strides.empty()) d.stride = strides[at];
    if (!dilations.empty()) d.dilation = dilations[at];
    if (!pads.empty()) {
      d.pad_begin = pads[at];
      d.pad_end = pads[at + static_cast<size_t>(w.rank)];
    }
    if (d.stride < 1 || d.stride > kLargest) return InvalidModel("stride ", d.stride, " is not positive or too large");
    if (d.dilation < 1 || d.dilation > kLargest)
      return InvalidModel("dilation ", d.dilation, " is not positive or too large");
    if (d.kernel > kLargest || d.in > kLargest) return LimitReached("a spatial dimension is larger than 2^31");
    if (d.pad_begin < -kLargest || d.pad_begin > kLargest || d.pad_end < -kLargest || d.pad_end > kLargest)
      return InvalidModel("padding of ", d.pad_begin, " and ", d.pad_end, " is out of range");
    if (d.kernel > 0 && (d.kernel - 1) > kLargest / d.dilation)
      return LimitReached("a window spans more than 2^31 elements");
  }
  return Ok();
}

Status slide_window(Window& w, AutoPad auto_pad, bool ceil) {
  for (int i = 0; i < w.rank; ++i) {
    WindowDim& d = w.dims[static_cast<size_t>(i)];
    if (d.kernel < 0) continue;
    if (d.kernel == 0) return InvalidModel("the window has size 0 in spatial dimension ", i);
    if (auto_pad != AutoPad::kExplicit) d.pad_begin = d.pad_end = 0;
    if (d.in < 0) continue;
    if (auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower) {
      d.out = ceil_div(d.in, d.stride);
      const int64_t total = std::max<int64_t>((d.out - 1) * d.stride + d.extent() - d.in, 0);
      d.pad_begin = auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      d.pad_end = total - d.pad_begin;
      continue;
    }
    const int64_t slack = d.in + d.pad_begin + d.pad_end - d.extent();
    if (slack < 0 && !(ceil && slack > -d.stride))
      return InvalidInput("a window of ", d.extent(), " does not fit into a padded image of ",
                          d.in + d.pad_begin + d.pad_end, " in spatial dimension ", i);
    d.out = (slack < 0 ? 0 : ceil ? ceil_div(slack, d.stride) : slack / d.stride) + 1;
    if (ceil && d.out > 1 && (d.out - 1) * d.stride >= d.in + d.pad_begin) --d.out;
  }
  return Ok();
}

}  // namespace smelt
