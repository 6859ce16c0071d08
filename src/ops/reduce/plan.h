#pragma once

#include <cstdint>
#include <vector>

#include "ops/common/index.h"
#include "smelt/tensor.h"

namespace smelt {

/// Which element of the input goes to which element of the output, with runs of equally treated dimensions merged.
/// The reduced dimensions lie in `axes` (ascending).
class ReducePlan {
 public:
  ReducePlan(const Shape& in, const std::vector<int>& axes) {
    uint32_t reduced = 0;  // a bit for each dimension
    for (int a : axes) reduced |= uint32_t{1} << a;
    for (int d = 0; d < in.rank(); ++d) {
      const bool r = ((reduced >> d) & 1) != 0;
      (r ? count_ : outputs_) *= in[d];
      if (in[d] == 1) continue;
      if (dims_.rank() > 0 && is_reduced(dims_.rank() - 1) == r)
        dims_[dims_.rank() - 1] *= in[d];
      else
        add(in[d], r);
    }
    if (dims_.rank() == 0) add(1, true);
    strides_ = Shape::of_rank(dims_.rank(), 0);
    int64_t stride = 1;
    for (int d = dims_.rank() - 1; d >= 0; --d)
      if (!is_reduced(d)) {
        strides_[d] = stride;
        stride *= dims_[d];
      }
  }
  int64_t outputs() const { return outputs_; }
  /// Elements that fall into one output.
  int64_t count() const { return count_; }

  /// Calls row(in_offset, out_offset, n, reduced) for runs of n consecutive inputs in order; they all go to one output
  /// when `reduced`, else to n consecutive outputs.
  template <class F>
  void each_row(F&& row) const {
    const int last = dims_.rank() - 1;
    if (dims_.elements() == 0) return;
    Shape outer = dims_;
    outer.erase(last);
    int64_t in = 0;
    for (Odometer o(outer); !o.done(); o.next(), in += dims_[last])
      row(in, o.offset(strides_), dims_[last], is_reduced(last));
  }
  /// Calls each(in_index, out_index).
  template <class F>
  void each(F&& f) const {
    each_row([&](int64_t in, int64_t out, int64_t n, bool reduced) {
      for (int64_t i = 0; i < n; ++i) f(in + i, reduced ? out : out + i);
    });
  }

 private:
  bool is_reduced(int d) const { return ((reduced_ >> d) & 1) != 0; }
  void add(int64_t extent, bool reduced) {
    reduced_ |= static_cast<uint32_t>(reduced) << dims_.rank();
    dims_.push_back(extent);
  }
  Shape dims_, strides_;
  uint32_t reduced_ = 0;  ///< a bit for each of dims_
  int64_t outputs_ = 1, count_ = 1;
};

}  // namespace smelt
