#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "ops/core/strided_copy.h"

namespace smelt::vulkan {

/// Elements that go from one input to one output.
struct ElementCopy {
  StridedCopy strided;             ///< where index_map is not empty: only input and output count
  std::vector<int32_t> index_map;  ///< by element of the output: the element of the input, or -1: left as it is
};

/// What a node that only moves elements does on the device.
struct CopyPlan {
  std::vector<ElementCopy> copies;  ///< run in order: a later one overwrites what an earlier one wrote
  Tensor fill;                      ///< one element that fills output 0 before the copies; undefined: none needed
};

/// The plan of a node of an operator with strided copies. Many copies between the same two operands become one index
/// map. Nullopt where the copies depend on computed inputs; says so where no other kernel takes the operator.
std::optional<CopyPlan> plan_strided_copies(const KernelSpec& spec);

/// The plan of a node that gathers or scatters by constant indices, of at most 2^24 elements. Nullopt where the node
/// combines elements or its indices are computed; says so where no other kernel takes the operator.
std::optional<CopyPlan> plan_index_map(const KernelSpec& spec);

/// Copies between the same two operands, in order, as one index map for that many elements of the output; nullopt
/// where it would be too large.
std::optional<ElementCopy> as_index_map(std::span<const ElementCopy> copies, int64_t outputs);

/// The bytes of one element of at most 8 bytes, in a word.
uint64_t bit_pattern(const Tensor& element);

}  // namespace smelt::vulkan
