#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/executorch/aten/aten.h"
#include "formats/executorch/blob.h"
#include "ops/core/builder.h"

namespace smelt::executorch {

/// A call of a delegate: its blob and the arguments of the program.
struct DelegateCall {
  std::string backend;                ///< "XnnpackBackend", "VulkanBackend"
  std::span<const std::byte> blob;    ///< the processed bytes
  std::shared_ptr<const void> owner;  ///< keeps `blob` and named data
  std::vector<std::pair<std::string, std::span<const std::byte>>> compile_specs;
  /// Looks up the program's (or an external file's) named data; null when there is none of that name.
  std::function<const std::span<const std::byte>*(std::string_view key)> named_data;

  struct Argument {
    aten::Arg value;     ///< kNoValue when the program has not computed it yet (an output)
    ValueType declared;  ///< of tensors: element type and upper bound of the shape as the program states them
    /// Order of the dimensions in the program's memory, outermost first, as channels-last tensors have it; the value
    /// itself is always in the order of the shape. Empty: the same order. A delegate sees memory order.
    std::vector<int> dim_order;
  };
  /// As the program lists them: the backend knows which are inputs and which are outputs.
  std::vector<Argument> args;
};

/// Results by argument index.
using DelegateResults = std::vector<std::pair<size_t, ValueId>>;
using DelegateLowering = Result<DelegateResults> (*)(Builder& builder, const DelegateCall& call);

/// Adds the nodes of a delegate's graph to the builder's graph. An unknown backend is named in the error.
Result<DelegateResults> lower_delegate(Builder& builder, const DelegateCall& call);

/// The bytes and named data of a call, which must outlive it.
DelegateBlob blob_of(const DelegateCall& call);

/// The backends, each in its own folder.
Result<DelegateResults> lower_xnnpack(Builder& builder, const DelegateCall& call);
Result<DelegateResults> lower_vulkan(Builder& builder, const DelegateCall& call);

}  // namespace smelt::executorch
