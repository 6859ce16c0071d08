#include <gtest/gtest.h>

#include <vector>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "tests/support/compare.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// Products, or convolutions, of x with integers in the same bytes, as files may have them: of other scales, other zero
/// points, another type.
void check_shared_bytes(bool convolves, bool dynamic, DType narrow, DType other) {
  SCOPED_TRACE(Cat(convolves ? "Conv " : "MatMul ", dynamic ? "dynamic " : "", to_string(narrow)));
  const auto module = module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const Shape rows = convolves ? Shape{1, 4, 4, 32} : Shape{3, 32};
  const Shape filter = convolves ? Shape{16, 1, 1, 32} : Shape{16, 32};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, rows));
  const auto multiply = [&](const Tensor& weights) {
    const ValueId w = f.b.constant("", weights);
    if (!convolves) {
      MatMulAttrs a;
      a.transpose_b = true;
      a.dynamic_quant = dynamic;
      return f.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), {x, w});
    }
    ConvAttrs a;
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kOSI;
    a.strides = a.dilations = {1, 1};
    a.dynamic_quant = dynamic;
    return f.op(Op::kConv, make_attrs<ConvAttrs>(a), {x, w});
  };
  Tensor weights = random_tensor(narrow, filter, is_signed_integer(narrow) ? -7 : 0, 7, 1);
  for (const float scale : {0.1F, 0.3F}) {
    weights.set_quant(per_tensor(scale, 0));
    f.b.graph().outputs.push_back(multiply(weights));
  }
  Tensor read = Tensor::view(other, filter, weights.raw(), weights.owner());
  read.set_quant(per_tensor(0.1F, is_signed_integer(other) ? 0 : 3));
  f.b.graph().outputs.push_back(multiply(read));
  const Model model = ModelAccess::make(module);
  const std::vector<Datum> fed{random_tensor(DType::kF32, rows, -1, 1, 2)};
  expect_same(run_on(BackendKind::kCpu, model, fed), run_on_reference(model, fed), {1e-4, 1e-4});
}

TEST(ConstantKey, ConstantsInTheSameBytesAreToldApart) {
  for (const bool convolves : {false, true})
    for (const bool dynamic : {false, true}) {
      check_shared_bytes(convolves, dynamic, DType::kI8, DType::kI8);
      check_shared_bytes(convolves, dynamic, DType::kI4, DType::kI4);
      if (!dynamic) check_shared_bytes(convolves, dynamic, DType::kI8, DType::kU8);
      if (!dynamic) check_shared_bytes(convolves, dynamic, DType::kI4, DType::kU4);
    }
}

}  // namespace
}  // namespace smelt
