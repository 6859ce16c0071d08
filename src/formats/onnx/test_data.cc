#include "formats/onnx/test_data.h"

#include "base/error.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/tensor.h"

namespace smelt::onnx {

Result<Datum> read_test_value(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                              const ValueType& type) {
  using Kind = ValueType::Kind;
  if (type.kind == Kind::kMap) return Unsupported("maps in test data");
  const TestKind kind = type.kind == Kind::kSequence   ? TestKind::kSequence
                        : type.kind == Kind::kOptional ? TestKind::kOptional
                                                       : TestKind::kTensor;
  SMELT_ASSIGN(const auto protos, parse_test_value({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kind));
  const LoadOptions options;
  const Source source{bytes, owner, "", "", &options};
  TensorReader reader(source);
  std::vector<Datum> items;
  for (const TensorProto& proto : protos) {
    SMELT_ASSIGN(Tensor t, reader.read(proto));
    // Older writers store bfloat16 as the bits in uint16.
    if (type.dtype == DType::kBF16 && t.dtype() == DType::kU16)
      t = Tensor::view(DType::kBF16, t.shape(), t.raw(), t.owner());
    items.emplace_back(std::move(t));
  }
  const bool inner_sequence = type.kind == Kind::kOptional && type.element && type.element->kind == Kind::kSequence;
  if (kind == TestKind::kSequence || inner_sequence) return Datum::sequence(std::move(items));
  if (items.empty()) return Datum{};
  return std::move(items.front());
}

}  // namespace smelt::onnx
