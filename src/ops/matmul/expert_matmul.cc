// Products of a mixture of experts: each row has a matrix that another operand names.
#include <vector>

#include "base/error.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/matmul/experts.h"
#include "tensor/numeric.h"

namespace smelt {

Result<ExpertGeometry> expert_geometry(const ExpertMatMulAttrs& a, const Shape& x, const Shape& ids,
                                       const Shape& matrix) {
  if (ids.rank() != 2 || matrix.rank() != 2 || x.rank() < 2 || x.rank() > 3)
    return InvalidModel("rows ", x.str(), ", experts ", ids.str(), " and a matrix ", matrix.str(),
                        " do not have ranks 2 or 3, 2 and 2");
  ExpertGeometry g{.tokens = ids[0], .each = ids[1], .in = matrix[a.transposed ? 1 : 0]};
  g.out = matrix[a.transposed ? 0 : 1];
  g.shared = x.rank() == 2;
  g.one_x = x[0] == 1 && ids[0] > 1;
  g.one_ids = ids[0] == 1 && x[0] > 1;
  if (ids[0] == 1 || (ids[0] < 0 && x[0] != 1)) g.tokens = x[0];
  const auto differ = [](int64_t p, int64_t q) { return p >= 0 && q >= 0 && p != q; };
  if ((differ(x[0], ids[0]) && !g.one_x && !g.one_ids) || differ(x.back(), g.in) || (!g.shared && differ(x[1], g.each)))
    return InvalidModel("rows ", x.str(), ", experts ", ids.str(), " and a matrix ", matrix.str(), " do not fit");
  return g;
}

Result<int64_t> ExpertGeometry::expert_of(const Tensor& ids, int64_t row, int64_t experts) const {
  const int64_t id = get_int(ids, one_ids ? row % each : row);
  if (id < -experts || id >= experts) return InvalidInput("expert ", id, " of ", experts);
  return id < 0 ? id + experts : id;
}

Tensor matrix_of(const Tensor& matrices, int64_t e) {
  const auto bytes = static_cast<int64_t>(matrices.bytes()) / matrices.dim(0);
  return Tensor::view(matrices.dtype(), Shape{matrices.dim(1), matrices.dim(2)}, matrices.unaligned_bytes() + e * bytes,
                      matrices.owner());
}

Status infer_ExpertMatMul(InferContext& ctx) {
  const ValueType &x = ctx.input(0), &ids = ctx.input(1);
  if (is_float(ids.dtype)) return InvalidModel("experts are ", to_string(ids.dtype), ", integers expected");
  for (int i = kFirstExpert; i < ctx.inputs(); ++i) {
    if (!ctx.has(i)) return InvalidModel("expert ", i - kFirstExpert, " has no matrix");
    const ValueType& w = ctx.input(i);
    if (!x.ranked || !ids.ranked || !w.ranked) {
      ctx.set(0, ValueType::tensor(x.dtype));
      return Ok();
    }
    SMELT_ASSIGN(const ExpertGeometry g, expert_geometry(ctx.attrs<ExpertMatMulAttrs>(), x.shape, ids.shape, w.shape));
    if (w.shape != ctx.input(kFirstExpert).shape)
      return InvalidModel("matrices of shapes ", ctx.input(kFirstExpert).shape.str(), " and ", w.shape.str());
    ctx.set(0, ValueType::tensor(x.dtype, Shape{g.tokens, g.each, g.out}));
  }
  return Ok();
}

Status reference_ExpertMatMul(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &ids = ctx.input(1);
  const auto& a = ctx.attrs<ExpertMatMulAttrs>();
  SMELT_ASSIGN(const ExpertGeometry g, expert_geometry(a, x.shape(), ids.shape(), ctx.input(kFirstExpert).shape()));
  const std::vector<float> rows = to_real_vector(x);
  std::vector<float> y(static_cast<size_t>(ctx.output(0).elements()));
  for (int64_t row = 0; row < g.tokens * g.each; ++row) {
    SMELT_TRY(ctx.tick());
    SMELT_ASSIGN(const int64_t id, g.expert_of(ids, row, ctx.inputs() - kFirstExpert));
    const std::vector<float> matrix = to_real_vector(ctx.input(kFirstExpert + static_cast<int>(id)));
    const float* const from = rows.data() + g.row_of_x(row) * g.in;
    for (int64_t j = 0; j < g.out; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < g.in; ++i)
        sum += static_cast<double>(from[i]) *
               static_cast<double>(matrix[static_cast<size_t>(a.transposed ? j * g.in + i : i * g.out + j)]);
      y[static_cast<size_t>(row * g.out + j)] = static_cast<float>(sum);
    }
  }
  store_real(y.data(), ctx.output(0));
  return Ok();
}

}  // namespace smelt
