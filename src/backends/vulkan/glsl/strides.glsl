// Element `at` of a walk over merged dimensions, innermost first (backends/vulkan/core/strides.h), as an offset into an operand.
#define STRIDED_OFFSET(result, at, rank, size, stride)    \
  {                                                       \
    uint rest_ = (at);                                    \
    int sum_ = 0;                                         \
    for (uint d_ = 0; d_ < (rank); ++d_) {                \
      const uint next_ = rest_ / size[d_];                \
      sum_ += int(rest_ - next_ * size[d_]) * stride[d_]; \
      rest_ = next_;                                      \
    }                                                     \
    result = sum_;                                        \
  }
