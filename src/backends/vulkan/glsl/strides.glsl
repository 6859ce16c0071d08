// Push constants of walks with two or three operands: Walk of backends/vulkan/core/strides.h.
//@ block Walk<2> walk backends/vulkan/core/strides.h
#define WALK_2(x, y) uint n, rank; uint size[8]; int x##_stride[8], y##_stride[8];
//@ block Walk<2,6> walk backends/vulkan/core/strides.h
#define WALK_2_6(x, y) uint n, rank; uint size[6]; int x##_stride[6], y##_stride[6];
//@ block Walk<3> walk backends/vulkan/core/strides.h
#define WALK_3(x, y, z) uint n, rank; uint size[6]; int x##_stride[6], y##_stride[6], z##_stride[6];

// Element `at` of a walk over merged dimensions, innermost first (backends/vulkan/core/strides.h), as an offset into an
// operand.
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
