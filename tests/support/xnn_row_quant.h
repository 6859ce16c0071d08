#pragma once

// The matrix of tests: a row is one node of the XNNPACK schema with values of certain data types. Included by tests
// only.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "smelt/model.h"
#include "support/xnn_blob.h"
#include "tensor/numeric.h"

namespace smelt::executorch::testing {

using Reals = std::vector<double>;

inline constexpr auto kF32 = XNNDatatype::xnn_datatype_fp32, kF16 = XNNDatatype::xnn_datatype_fp16;
inline constexpr auto kBF16 = XNNDatatype::xnn_datatype_bf16, kI32 = XNNDatatype::xnn_datatype_int32;
inline constexpr auto kQ8 = XNNDatatype::xnn_datatype_qint8, kQU8 = XNNDatatype::xnn_datatype_quint8;
inline constexpr auto kQ32 = XNNDatatype::xnn_datatype_qint32, kQC32 = XNNDatatype::xnn_datatype_qcint32;
inline constexpr auto kQC8 = XNNDatatype::xnn_datatype_qcint8, kQC4 = XNNDatatype::xnn_datatype_qcint4;
inline constexpr auto kQB4 = XNNDatatype::xnn_datatype_qbint4, kQD8 = XNNDatatype::xnn_datatype_qdint8;
inline constexpr auto kQP8 = XNNDatatype::xnn_datatype_qpint8, kPF32 = XNNDatatype::xnn_datatype_pfp32;

/// What a value is to its node. The second operand of a batched product counts as a filter.
enum class Slot { kInput, kFilter, kBias, kOutput, kIndex };

struct Row {
  XNodeUnion node;
  std::string name;  ///< what the operands and parameters are, for a test's name
  std::vector<std::pair<Slot, XNNDatatype>> operands;
  std::function<void(BackendKind)> check;  ///< builds a blob, runs it and compares with the operator's definition
};

std::vector<Row> elementwise_rows();
std::vector<Row> shape_rows();
std::vector<Row> weight_rows();

/// Numbers without pattern in [lo, hi].
Reals spread(size_t n, double lo, double hi, int seed);
size_t elements(const Dims& dims);
Shape shape_of(const Dims& dims);
/// The element type that a value of this data type is stored as.
DType element_type(XNNDatatype type);
/// Position along dimension `dim` of element i.
size_t coordinate(size_t i, const Dims& dims, int dim);
/// Replaces n values of a row by those that XNNPACK's dynamic quantization makes of them.
void quantize_row(double* row, size_t n);
/// "qint8"
std::string short_name(XNNDatatype type);

}  // namespace smelt::executorch::testing
