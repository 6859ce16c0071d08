#pragma once

#include <cstdint>

#include "formats/format.h"
#include "formats/onnx/proto.h"

namespace smelt::onnx {

/// What kind of thing a reader refused or noticed, for callers whose interface has a status for each.
enum class Finding : uint8_t {
  kNone,
  kOperator,      ///< an operator that no opset has, or not the imported one
  kElementType,   ///< an element type (or kind of value) that nothing here computes with
  kRank,          ///< more dimensions than a shape may have
  kDeclaredType,  ///< a declared element type contradicts the inferred one
};

/// Findings of one lowering. Refusals come with an error; a contradicting shape alone does not stop the reader.
struct Findings {
  Finding refusal = Finding::kNone;
  bool declared_shape_differs = false;
};

/// Lowers a parsed model. Its views must stay valid while the module lives, unless source.owner keeps them.
Result<Module> lower_model(const Source& source, const ModelProto& proto, Findings* findings = nullptr);

}  // namespace smelt::onnx
