#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "formats/format.h"
#include "formats/onnx/proto.h"
#include "smelt/tensor.h"

namespace smelt::onnx {

/// The element type of a TensorProto.data_type code; kInvalid for codes without one.
DType dtype_of(int64_t code);

/// Turns the tensors of a file into constants. Raw bytes are viewed in place where their alignment allows it.
class TensorReader {
 public:
  explicit TensorReader(const Source& source) : source_(source) {}
  /// The message of an error does not name the tensor; callers add it.
  Result<Tensor> read(const TensorProto& proto);
  /// The dense form. An error when it has more than `max_bytes`.
  Result<Tensor> read_sparse(const SparseTensorProto& proto, size_t max_bytes);

 private:
  Result<Tensor> view_or_copy(DType dtype, const Shape& shape, const void* data, size_t bytes,
                              std::shared_ptr<const void> owner);
  Result<Tensor> read_external(const TensorProto& proto, DType dtype, const Shape& shape);
  Status check_range(const std::vector<uint64_t>& values, DType dtype) const;
  Status check_fields(const TensorProto& t) const;
  Result<Tensor> read_typed(const TensorProto& proto, DType dtype, const Shape& shape);

  const Source& source_;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

/// Dimensions of a tensor in a file: an error unless none is negative, the rank is at most Shape::kMaxRank and the
/// number of elements fits.
Result<Shape> checked_shape(const std::vector<int64_t>& dims);

}  // namespace smelt::onnx
