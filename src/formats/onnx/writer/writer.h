#pragma once

#include "formats/common/writer.h"

namespace smelt::onnx {

/// The module's first method as an ONNX model; a variable of the module becomes an input with a default and an output
/// that gives its next value. Constants are views of the module's.
Result<formats::WriteResult> write_onnx(const Module& module, const formats::WriteOptions& options);

}  // namespace smelt::onnx
