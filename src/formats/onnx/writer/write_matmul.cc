// Matrix products.
#include <algorithm>

#include "formats/onnx/writer/op_writers.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/matmul.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::onnx {
namespace {

std::vector<int64_t> last_two_swapped(int rank) {
  std::vector<int64_t> perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  if (rank >= 2) std::swap(perm[static_cast<size_t>(rank) - 1], perm[static_cast<size_t>(rank) - 2]);
  return perm;
}

/// Writes one matrix product; the operands as the product sees them are a_ and b_.
class Product {
 public:
  explicit Product(NodeWriter& n) : n_(n), attrs_(n.attrs<MatMulAttrs>()) {}

  void write() {
    if (attrs_.conjugate_a || attrs_.conjugate_b) return n_.fail("conjugated operands");
    if (attrs_.trans_batch_a || attrs_.trans_batch_b) return fused();
    const ValueType& out = n_.out_type(0);
    if (!out.quant && is_integer(out.dtype) && n_.quantized(0) && n_.quantized(1)) return accumulators();
    read_a();
    if (!n_.ok()) return;
    if (four_bit_blocks()) return n_.bind(0, biased(block_product()), attrs_.act);
    const bool matrices = rank_a_ == 2 && n_.type(1).ranked && n_.type(1).shape.rank() == 2;
    const bool scaled = attrs_.alpha != 1 || n_.has(2) || attrs_.transpose_a || attrs_.transpose_b;
    const Name y = matrices && scaled && gemm_bias_fits() && is_float(real_) ? gemm() : product();
    n_.bind(0, y, attrs_.act);
  }

 private:
  Name fit(Name x, int i) {
    return n_.real_dtype(i) == real_ || (is_integer(n_.dtype(i)) && n_.quantized(0)) ? x : n_.cast(x, real_);
  }

  void read_a() {
    real_ = n_.has(3) ? DType::kF32 : n_.real_dtype(0);
    if (n_.has(3)) {
      // Rows of integers with parameters of their own.
      a_ = n_.cast(n_.raw(0), DType::kF32);
      if (n_.has(4)) a_ = n_.op("Sub", {a_, n_.cast(n_.raw(4), DType::kF32)});
      a_ = n_.op("Mul", {a_, n_.in(3)});
    } else {
      a_ = n_.in(0);
    }
    rank_a_ = attrs_.flatten_a ? 2 : n_.type(0).ranked ? n_.type(0).shape.rank() : -1;
    if (attrs_.flatten_a && !(n_.type(0).ranked && n_.type(0).shape.rank() == 2)) {
      const Shape& b = n_.type(1).shape;
      const int64_t k = n_.rank(1) == 2 ? b[attrs_.transpose_b ? 1 : 0] : -1;
      if (k < 0) return n_.fail("the size of the matrix must be known");
      a_ = n_.reshape(a_, {-1, k});
    }
    if (attrs_.dynamic_quant) a_ = dynamically_rounded(n_, a_, {-1}, attrs_.asymmetric_inputs);
  }

  /// Integer sums of products of integers.
  void accumulators() {
    const auto side = [&](int i, bool transposed) {
      return transposed ? n_.transpose(n_.raw(i), last_two_swapped(n_.rank(i))) : n_.raw(i);
    };
    const auto zero = [&](int i) { return n_.scalar(n_.dtype(i), n_.type(i).quant->zero_point()); };
    if (n_.has(2) || !is_per_tensor(n_.type(0).quant) || bit_width(n_.dtype(0)) != 8 || attrs_.flatten_a)
      return n_.fail("integer sums of this form");
    const Name a = side(0, attrs_.transpose_a), b = side(1, attrs_.transpose_b);
    const Name y = n_.op("MatMulInteger", {a, b, zero(0), zero(1)});
    const DType to = n_.out_type(0).dtype;
    n_.bind_raw(0, to == DType::kI32 ? y : n_.cast(y, to));
  }

  bool gemm_bias_fits() const { return !n_.has(2) || (n_.type(2).ranked && n_.type(2).shape.rank() <= 2); }

  Name gemm() {
    std::vector<Attribute> attributes;
    if (attrs_.alpha != 1) attributes.emplace_back("alpha", attrs_.alpha);
    if (attrs_.beta != 1) attributes.emplace_back("beta", attrs_.beta);
    if (attrs_.transpose_a) attributes.emplace_back("transA", true);
    if (attrs_.transpose_b) attributes.emplace_back("transB", true);
    return n_.op("Gemm", {a_, fit(n_.in(1), 1), n_.has(2) ? fit(bias_in(n_, 2), 2) : kNoName}, attributes);
  }

  Name product() {
    Name b = fit(attrs_.transpose_b ? in_permuted(n_, 1, last_two_swapped(n_.rank(1))) : n_.in(1), 1);
    if (attrs_.transpose_a) {
      if (rank_a_ < 0) n_.fail("the rank of input 0 must be known");
      a_ = n_.transpose(a_, last_two_swapped(std::max(rank_a_, 1)));
    }
    Name y = n_.op("MatMul", {a_, b});
    if (attrs_.alpha != 1) y = n_.op("Mul", {y, n_.scalar(real_, attrs_.alpha)});
    return biased(y);
  }

  Name biased(Name y) {
    if (!n_.has(2) || attrs_.beta == 0) return y;
    Name c = fit(bias_in(n_, 2), 2);
    if (attrs_.beta != 1) c = n_.op("Mul", {c, n_.scalar(real_, attrs_.beta)});
    return n_.op("Add", {y, c});
  }

  /// True for constant 4-bit weights [N, K] with a scale for each block of a row.
  bool four_bit_blocks() const {
    const Tensor* w = n_.constant(1);
    const QuantPtr& q = n_.type(1).quant;
    if (!w || !q || q->kind != Quantization::Kind::kPerBlock || q->axis != 1 || w->rank() != 2) return false;
    const bool size = q->block >= 16 && (q->block & (q->block - 1)) == 0;
    return size && bit_width(w->dtype()) == 4 && is_integer(w->dtype()) && attrs_.transpose_b && !attrs_.transpose_a &&
           attrs_.alpha == 1 && !attrs_.dynamic_quant && (real_ == DType::kF32 || real_ == DType::kF16);
  }

  /// com.microsoft.MatMulNBits: unsigned 4-bit weights, packed by blocks.
  Name block_product() {
    const Tensor& w = *n_.constant(1);
    const Quantization& q = *n_.type(1).quant;
    const int64_t rows = w.dim(0), depth = w.dim(1), blocks = (depth + q.block - 1) / q.block;
    std::vector<Attribute> attributes{{"K", depth}, {"N", rows}, {"bits", 4}, {"block_size", q.block}};
    if (attrs_.row_block > 0) attributes.emplace_back("accuracy_level", 4);
    if (n_.model().dry()) return n_.op("com.microsoft.MatMulNBits", {a_}, attributes);
    const int64_t offset = is_signed_integer(w.dtype()) ? 8 : 0;
    Tensor packed(DType::kU4, Shape{rows, blocks, q.block}), zeros(DType::kU4, Shape{rows, (blocks + 1) / 2 * 2});
    Tensor scales(DType::kF32, Shape{rows * blocks});
    bool centred = true;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at = r * blocks + b, zero = q.zero_point(at) + offset;
        scales.data<float>()[at] = q.scale(at);
        set_int(zeros, r * zeros.dim(1) + b, zero);
        centred = centred && zero == 8;
        for (int64_t k = 0; k < q.block; ++k) {
          const int64_t column = b * q.block + k;
          set_int(packed, at * q.block + k, column < depth ? get_int(w, r * depth + column) + offset : zero);
        }
      }
    const auto as_bytes = [](const Tensor& t, const Shape& shape) {
      return Tensor::view(DType::kU8, shape, t.raw(), t.owner());
    };
    const Name weights = n_.model().constant(as_bytes(packed, Shape{rows, blocks, q.block / 2}), "weights_4bit");
    Name scale = n_.tensor(scales);
    if (real_ != DType::kF32) scale = n_.cast(scale, real_);
    const Name zero = centred ? kNoName : n_.tensor(as_bytes(zeros, Shape{rows, zeros.dim(1) / 2}));
    return n_.op("com.microsoft.MatMulNBits", {a_, weights, scale, zero}, attributes);
  }

  void fused() {
    if (n_.has(2) || n_.quantized(0) || n_.quantized(1)) return n_.fail("batches in the middle with a bias");
    std::vector<Attribute> attributes{{"alpha", attrs_.alpha},
                                      {"transA", attrs_.transpose_a},
                                      {"transB", attrs_.transpose_b},
                                      {"transBatchA", attrs_.trans_batch_a},
                                      {"transBatchB", attrs_.trans_batch_b}};
    n_.bind(0, n_.op("com.microsoft.FusedMatMul", {n_.in(0), n_.in(1)}, attributes), attrs_.act);
  }

  NodeWriter& n_;
  const MatMulAttrs& attrs_;
  DType real_ = DType::kF32;
  Name a_ = kNoName;
  int rank_a_ = -1;
};

void write_matmul(NodeWriter& n) { Product(n).write(); }

void write_matmul_integer(NodeWriter& n) {
  const auto& a = n.attrs<MatMulAttrs>();
  const auto side = [&](int i, bool transposed) {
    return transposed ? n.transpose(n.raw(i), last_two_swapped(n.rank(i))) : n.raw(i);
  };
  const Name x = side(0, a.transpose_a), w = side(1, a.transpose_b);
  n.bind_raw(0, n.op("MatMulInteger", {x, w, n.raw(2), n.raw(3)}));
}

void write_einsum(NodeWriter& n) {
  n.bind(0, n.op("Einsum", n.all_in(), {{"equation", n.attrs<EinsumAttrs>().equation}}));
}

/// Matrices that are gathered for each row: ONNX has no operator that leaves them where they are.
void write_expert_matmul(NodeWriter& n) {
  const bool transposed = n.attrs<ExpertMatMulAttrs>().transposed;
  std::vector<Name> matrices;
  for (int i = kFirstExpert; i < n.inputs(); ++i) matrices.push_back(n.unsqueeze(n.in(i), {0}));
  const Name chosen = n.op("Gather", {n.op("Concat", matrices, {{"axis", 0}}), n.in(1)}, {{"axis", 0}});
  // Columns behind matrices [out, in], rows before matrices [in, out].
  const int64_t one = transposed ? 3 : 2;
  const Name x = n.rank(0) == 2 ? n.unsqueeze(n.in(0), {1, one}) : n.unsqueeze(n.in(0), {one});
  n.bind(0, n.squeeze(transposed ? n.op("MatMul", {chosen, x}) : n.op("MatMul", {x, chosen}), {one}));
}

void write_det(NodeWriter& n) { n.bind(0, n.op("Det", {n.in(0)})); }
void write_inverse(NodeWriter& n) { n.bind(0, n.op("com.microsoft.Inverse", {n.in(0)})); }

constexpr OpWriter kMatmul[] = {
    {Op::kMatMul, write_matmul, "MatMul, Gemm; com.microsoft.MatMulNBits, com.microsoft.FusedMatMul"},
    {Op::kMatMulInteger, write_matmul_integer, "MatMulInteger"},
    {Op::kEinsum, write_einsum, "Einsum"},
    {Op::kExpertMatMul, write_expert_matmul, "Concat, Gather, MatMul"},
    {Op::kDet, write_det, "Det"},
    {Op::kInverse, write_inverse, "com.microsoft.Inverse"},
};

}  // namespace

std::span<const OpWriter> matmul_writers() { return kMatmul; }

}  // namespace smelt::onnx
