// TensorFlow's tensor lists as Keras' recurrent layers use them in loops. A list is a tensor of its elements, one
// behind the other; an element that was never set is zeros. An extent that nobody knows before the first element comes
// is 0 until then.
#include <algorithm>

#include "formats/tflite/custom.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

Status need_list(OperatorContext& c, const ValueType& list, int inputs) {
  if (c.inputs() != inputs || c.outputs() != 1)
    return InvalidModel(c.inputs(), " inputs and ", c.outputs(), " outputs, ", inputs, " and 1 expected");
  for (int i = 0; i < inputs; ++i)
    if (!c.has(i))
      return InvalidModel("input ", i, " is absent, or a list whose elements' type the file does not state");
  if (list.dtype == DType::kInvalid || (list.ranked && list.shape.rank() < 1))
    return Unsupported("a list of type ", list.str());
  return Ok();
}

/// `scalar` as a vector of one int64.
ValueId single(OperatorContext& c, ValueId scalar) { return c.reshape(c.cast(scalar, DType::kI64), {1}); }

}  // namespace

/// (element shape, number of elements) -> zeros. The type of the output states the element's; where it leaves an extent
/// open, the element shape may give it.
Status lower_list_reserve(OperatorContext& c) {
  const TensorSlot& slot = c.out_slot(0);
  SMELT_TRY(need_list(c, c.out_type(0), 2));
  std::vector<int64_t> extents(slot.shape.dims().begin() + 1, slot.shape.dims().end());
  const Tensor* given = c.const_tensor(0);
  const bool usable = given && given->rank() == 1 && given->elements() == static_cast<int64_t>(extents.size());
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 0 && usable) extents[i] = get_int(*given, static_cast<int64_t>(i));
    extents[i] = std::max<int64_t>(extents[i], 0);
  }
  const ValueId shape = extents.empty() ? single(c, c.in(1)) : c.concat({single(c, c.in(1)), c.i64(extents)}, 0);
  return c.emit(Op::kFill, {shape, c.scalar(c.out_type(0).dtype, 0)});
}

Status lower_list_from_tensor(OperatorContext& c) {
  SMELT_TRY(need_list(c, c.in_type(0), 2));
  return c.alias(0, c.in(0));
}

/// (list, index, element) -> list.
Status lower_list_set_item(OperatorContext& c) {
  SMELT_TRY(need_list(c, c.in_type(0), 3));
  ValueId list = c.in(0);
  const Shape& shape = c.in_type(0).shape;
  const auto dims = shape.dims();
  if (std::ranges::any_of(dims.begin() + 1, dims.end(), [](int64_t d) { return d < 0; })) {
    // Extents that are 0 so far become the element's.
    const ValueId missing = c.binary(Binary::kSub, c.dims_of(c.in(2)), c.dims_of(list, 1));
    const ValueId before = c.i64(std::vector<int64_t>(static_cast<size_t>(shape.rank()) + 1, 0));
    list = c.add(Op::kPad, PadAttrs(), {list, c.concat({before, missing}, 0)});
  }
  const ValueId index = c.reshape(c.cast(c.in(1), DType::kI64), {1, 1});
  return c.emit(Op::kScatterND, ScatterAttrs(), {list, index, c.unsqueeze(c.in(2), {0})});
}

/// (list, index, element shape) -> element.
Status lower_list_get_item(OperatorContext& c) {
  SMELT_TRY(need_list(c, c.in_type(0), 3));
  const ValueId element = c.add(Op::kGather, GatherAttrs(), {c.in(0), single(c, c.in(1))});
  const ValueId shape = c.dims_of(element, 1);
  return c.emit(Op::kReshape, ReshapeAttrs(), {element, shape});
}

/// (list, element shape) -> the elements, one behind the other.
Status lower_list_stack(OperatorContext& c) {
  SMELT_TRY(need_list(c, c.in_type(0), 2));
  return c.alias(0, c.in(0));
}

Status lower_list_length(OperatorContext& c) {
  SMELT_TRY(need_list(c, c.in_type(0), 1));
  return c.alias(0, c.cast(c.reshape(c.dims_of(c.in(0), 0, 1), {}), DType::kI32));
}

}  // namespace smelt::tflite
