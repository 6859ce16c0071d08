// Element-wise operators on 8-bit values as tables, filled by the reference kernel itself: equal to it by construction.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/cat.h"
#include "cpu/broadcast.h"
#include "cpu/kernel.h"

namespace smelt {
namespace {

/// Runs the reference kernel of one node on given inputs.
class TableContext final : public KernelContext {
 public:
  TableContext(const Node& node, std::vector<Datum> inputs, Tensor output)
      : inputs_(std::move(inputs)), output_(std::move(output)), pool_(1) {
    node_ = &node;
  }
  ~TableContext() override {
    for (void* p : memory_) std::free(p);
  }
  const Datum& datum(int i) const override { return inputs_[static_cast<size_t>(i)]; }
  Tensor& output(int) override { return output_; }
  Result<Tensor*> allocate(int, DType, const Shape&) override {
    return Error(ErrorCode::kInternal, "a table's operator allocates");
  }
  void set_output(int, Datum) override {}
  void* scratch(size_t bytes) override {
    memory_.push_back(std::aligned_alloc(64, (bytes + 128) / 64 * 64));
    return memory_.back();
  }
  ThreadPool& threads() override { return pool_; }
  Result<std::vector<Datum>> call(int, std::span<const Datum>) override {
    return Error(ErrorCode::kInternal, "a table's operator calls a graph");
  }
  Datum& state(int) override { return state_; }
  Status tick() override { return Ok(); }
  uint64_t random() override { return 0; }
  const Module& module() const override { return module_; }
  QuantPtr output_quant(int) const override { return output_.quant(); }

 private:
  std::vector<Datum> inputs_;
  Tensor output_;
  ThreadPool pool_;
  std::vector<void*> memory_;
  Datum state_;
  Module module_;
};

bool byte_type(const ValueType& t) {
  if (t.dtype != DType::kI8 && t.dtype != DType::kU8 && t.dtype != DType::kBool) return false;
  return !t.quant || (t.quant->kind == Quantization::Kind::kPerTensor && t.quant->scales.size() == 1);
}

std::string quant_key(const ValueType& t) {
  return t.quant ? Cat(static_cast<int>(t.dtype), ':', t.quant->scale(), ':', t.quant->zero_point(), ':',
                       static_cast<int>(t.quant->rounding), ' ')
                 : Cat(static_cast<int>(t.dtype), ' ');
}

/// Every value of a byte in order, as a tensor of that type.
Tensor all_values(const ValueType& type, const Shape& shape) {
  Tensor t(type.dtype, shape);
  for (int i = 0; i < 256; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  t.set_quant(type.quant);
  return t;
}

/// The results of the reference kernel for all values of the inputs (one, or two in rows and columns); null when it
/// fails.
Packed make_table(const KernelSpec& spec, size_t inputs) {
  const OpInfo& info = op_info(spec.node.op);
  if (!info.reference) return nullptr;
  std::string key = Cat("table ", static_cast<int>(spec.node.op), ' ');
  for (size_t i = 0; i < inputs; ++i) key += quant_key(spec.inputs[i]);
  key += quant_key(spec.outputs[0]);
  for (size_t i = inputs; i < spec.inputs.size(); ++i)
    if (spec.has(i)) key += Cat(reinterpret_cast<uintptr_t>(spec.constant(i)->raw()), ' ');
  return spec.packs.get(spec.node.attrs.get(), key, [&]() -> Packed {
    std::vector<Datum> in;
    in.emplace_back(all_values(spec.inputs[0], inputs == 2 ? Shape{256, 1} : Shape{256}));
    if (inputs == 2) in.emplace_back(all_values(spec.inputs[1], Shape{1, 256}));
    for (size_t i = inputs; i < spec.inputs.size(); ++i) in.push_back(spec.has(i) ? Datum(*spec.constant(i)) : Datum());
    Tensor out(spec.outputs[0].dtype, inputs == 2 ? Shape{256, 256} : Shape{256});
    out.set_quant(spec.outputs[0].quant);
    TableContext ctx(spec.node, std::move(in), out);
    if (!info.reference(ctx).ok()) return nullptr;
    auto packed = std::make_shared<AlignedBytes>(out.bytes());
    std::memcpy(packed->data<char>(), ctx.output(0).raw(), out.bytes());
    return packed;
  });
}

template <class T>
class UnaryTable final : public Kernel {
 public:
  UnaryTable(Packed table, int64_t n) : table_(std::move(table)), n_(n) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    T* y = ctx.output(0).data<T>();
    const T* table = table_->data<T>();
    ctx.threads().parallel_for(n_, 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = table[x[i]];
    });
    return Ok();
  }

 private:
  Packed table_;
  int64_t n_;
};

class BinaryTable final : public Kernel {
 public:
  BinaryTable(Packed table, const BroadcastLoops& loops) : table_(std::move(table)), loops_(loops) {}
  Status run(KernelContext& ctx) const override {
    const auto* a = ctx.input(0).data<uint8_t>();
    const auto* b = ctx.input(1).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const BroadcastLoops& l = loops_;
    if (l.outer == 1) {
      ctx.threads().parallel_for(l.inner, 8192, [&](int64_t begin, int64_t end) {
        row(a + begin * l.inner_a, b + begin * l.inner_b, y + begin, end - begin);
      });
      return Ok();
    }
    ctx.threads().parallel_for(l.outer, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, l.inner)),
                               [&](int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i) {
                                   int64_t oa, ob;
                                   l.at(i, oa, ob);
                                   row(a + oa, b + ob, y + i * l.inner, l.inner);
                                 }
                               });
    return Ok();
  }

 private:
  void row(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n) const {
    const auto* table = table_->data<uint8_t>();
    if (loops_.inner_a && loops_.inner_b) {
      for (int64_t i = 0; i < n; ++i) y[i] = table[a[i] * 256 + b[i]];
    } else if (loops_.inner_b) {
      const uint8_t* line = table + *a * 256;
      for (int64_t i = 0; i < n; ++i) y[i] = line[b[i]];
    } else {
      const uint8_t* column = table + *b;
      for (int64_t i = 0; i < n; ++i) y[i] = column[a[i * loops_.inner_a] * 256];
    }
  }
  Packed table_;
  BroadcastLoops loops_;
};

}  // namespace

std::unique_ptr<Kernel> make_unary_table(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const bool real = y.dtype == DType::kF32 && !y.quant;
  if (!byte_type(x) || (!byte_type(y) && !real) || x.shape != y.shape) return nullptr;
  Packed table = make_table(spec, 1);
  if (!table) return nullptr;
  const int64_t n = x.shape.elements();
  if (real) return std::make_unique<UnaryTable<float>>(std::move(table), n);
  return std::make_unique<UnaryTable<uint8_t>>(std::move(table), n);
}
std::unique_ptr<Kernel> make_quantize_table(const KernelSpec& spec) { return make_unary_table(spec); }
std::unique_ptr<Kernel> make_dequantize_table(const KernelSpec& spec) { return make_unary_table(spec); }

std::unique_ptr<Kernel> make_dequantize_linear_table(const KernelSpec& spec) {
  for (size_t i = 1; i < spec.inputs.size(); ++i)  // one scale and zero point, known now
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1)) return nullptr;
  return make_unary_table(spec);
}

std::unique_ptr<Kernel> make_binary_table(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (!byte_type(a) || !byte_type(b) || !byte_type(y)) return nullptr;
  // Below this size the reference kernel is done before its table would be.
  constexpr int64_t kWorthATable = 2048;
  if (y.shape.elements() < kWorthATable) return nullptr;
  Packed table = make_table(spec, 2);
  if (!table) return nullptr;
  return std::make_unique<BinaryTable>(std::move(table), BroadcastLoops::make(a.shape, b.shape, y.shape));
}

}  // namespace smelt
