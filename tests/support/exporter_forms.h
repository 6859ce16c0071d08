#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"

namespace smelt::test {

/// Builds graphs of exporters' forms; a failing node fails the test.
struct Forms {
  Builder b;

  ValueId op(Op op, AttrsPtr attrs, std::vector<ValueId> in) {
    auto made = b.op(op, std::move(attrs), std::move(in));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made.ok() ? *made : 0;
  }
  ValueId unary(Unary fn, ValueId x) { return op(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}); }
  ValueId binary(Binary fn, ValueId x, ValueId y) { return op(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y}); }
  ValueId binary(Binary fn, ValueId x, double y) { return binary(fn, x, b.f32_scalar(static_cast<float>(y))); }
  ValueId mul(ValueId x, ValueId y) { return binary(Binary::kMul, x, y); }
  ValueId mul(ValueId x, double y) { return binary(Binary::kMul, x, y); }
  ValueId add(ValueId x, double y) { return binary(Binary::kAdd, x, y); }
  ValueId weights(const Shape& shape, uint32_t seed = 3) {
    return b.constant("", random_tensor(DType::kF32, shape, -1, 1, seed));
  }
  ValueId mean(ValueId x, int64_t axis = -1) {
    ReduceAttrs a;
    a.fn = Reduction::kMean;
    a.keep_dims = true;
    return op(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, b.i64({axis})});
  }
  ValueId reshape(ValueId x, std::initializer_list<int64_t> shape) {
    ReshapeAttrs a;
    a.allow_zero = false;
    return op(Op::kReshape, make_attrs<ReshapeAttrs>(a), {x, b.i64(shape)});
  }
  ValueId transpose(ValueId x, std::vector<int64_t> perm) {
    return op(Op::kTranspose, make_attrs<TransposeAttrs>(std::move(perm)), {x});
  }
  ValueId matmul(ValueId x, ValueId y) { return op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, y}); }
  ValueId softmax(ValueId x) { return op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}); }
};

using Form = std::function<ValueId(Forms&, ValueId x)>;

/// Runs y = form(x) unfused on the reference back-end and fused on the CPU. `expected`: the operators that must have
/// run there in the end, in order, without those that move elements. Results may differ by `tolerance`.
inline void check_fused(const Shape& shape, const Form& form, const std::vector<std::string>& expected,
                        double tolerance = 2e-5) {
  auto module = test::module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const ValueId y = form(f, f.b.input("x", ValueType::tensor(DType::kF32, shape)));
  f.b.graph().outputs = {y};
  ASSERT_TRUE(verify(*module).ok());
  const std::vector<Datum> in{random_tensor(DType::kF32, shape, -3, 3, 1)};
  Tensor results[2];
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    SessionOptions options;
    options.backend = backend;
    options.profile = true;
    auto session = Session::create(ModelAccess::make(module), options);
    ASSERT_TRUE(session.ok()) << session.error().message();
    auto out = session->run(in);
    ASSERT_TRUE(out.ok()) << out.error().message();
    results[backend == BackendKind::kCpu] = (*out)[0].tensor;
    if (backend == BackendKind::kReference) continue;
    std::vector<std::string> ops;
    for (const ProfileEntry& e : session->profile())
      if (e.op != "Transpose" && e.op != "Reshape") ops.push_back(e.op);
    EXPECT_EQ(ops, expected);
  }
  ASSERT_EQ(results[0].shape(), results[1].shape());
  for (int64_t i = 0; i < results[0].elements(); ++i)
    ASSERT_NEAR(get_double(results[0], i), get_double(results[1], i), tolerance) << "element " << i;
}

inline const Shape kRowsOf24{2, 5, 24};

}  // namespace smelt::test
