#include <array>
#include <utility>

#include "base/error.h"
#include "base/guard.h"
#include "base/shared_library.h"
#include "smelt/custom_operator.h"
#include "smelt/operators.h"

namespace smelt {
namespace {

using TensorType = CustomOperator::TensorType;

smelt_array array_of(const TensorType& t, void* data) {
  smelt_array a = {};
  a.type = static_cast<int32_t>(t.dtype);
  a.rank = t.ranked ? t.shape.rank() : -1;
  for (int i = 0; i < a.rank; ++i) a.dims[i] = t.shape[i];
  if (t.quant && t.quant->kind == Quantization::Kind::kPerTensor) {
    a.scale = t.quant->scale();
    a.zero_point = t.quant->zero_point();
  }
  a.data = data;
  return a;
}

Result<TensorType> type_of(const smelt_array& a, const QuantPtr& declared) {
  if (a.type <= 0 || a.type > static_cast<int32_t>(DType::kC128) || a.type == static_cast<int32_t>(DType::kString))
    return InvalidInput("infer() gave type ", a.type, ", which an operator of a library cannot have");
  if (a.rank < -1 || a.rank > Shape::kMaxRank) return InvalidInput("infer() gave rank ", a.rank);
  TensorType t{.dtype = static_cast<DType>(a.type), .ranked = a.rank >= 0};
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i] < -1) return InvalidInput("infer() gave dimension ", a.dims[i]);
    t.shape.push_back(a.dims[i]);
  }
  if (a.scale != 0)
    t.quant = std::make_shared<const Quantization>(Quantization{.scales = {a.scale}, .zero_points = {a.zero_point}});
  else if (declared && declared->kind != Quantization::Kind::kPerTensor)
    t.quant = declared;
  return t;
}

std::vector<smelt_array> arrays_of(std::span<const TensorType> types) {
  std::vector<smelt_array> out;
  for (const TensorType& t : types) out.push_back(array_of(t, nullptr));
  return out;
}

std::vector<smelt_array> arrays_of(std::span<const Tensor> tensors) {
  std::vector<smelt_array> out;
  for (const Tensor& t : tensors)
    out.push_back(array_of({t.dtype(), t.defined(), t.shape(), t.quant()}, Tensor(t).raw()));
  return out;
}

/// Calls f(message) -> int.
template <class F>
Status ask(F&& f) {
  std::array<char, SMELT_OPERATOR_MESSAGE> message = {};
  if (const int code = f(message.data()); code != 0) {
    message.back() = 0;
    return InvalidInput(message[0] ? std::string(message.data()) : Cat("failed with ", code));
  }
  return Ok();
}

/// An operator of a shared library, which stays loaded.
class LibraryOperator final : public CustomOperator {
 public:
  explicit LibraryOperator(const smelt_custom_operator& functions) : f_(functions) {}

  std::string name() const override { return f_.name; }

  Result<std::shared_ptr<void>> prepare(std::span<const std::byte> options, std::span<const TensorType> inputs,
                                        std::span<const TensorType> outputs) override {
    void* state = nullptr;
    const auto in = arrays_of(inputs);
    if (f_.prepare)
      SMELT_TRY(ask([&](char* message) {
        return f_.prepare(options.data(), options.size(), in.data(), in.size(), outputs.size(), &state, message);
      }));
    return std::shared_ptr<void>(state, [release = f_.release](void* s) {
      if (release && s) release(s);
    });
  }

  Result<std::vector<TensorType>> infer(const void* prepared, std::span<const TensorType> inputs,
                                        std::span<const TensorType> declared) const override {
    const auto in = arrays_of(inputs);
    auto out = arrays_of(declared);
    SMELT_TRY(ask([&](char* message) {
      return f_.infer(const_cast<void*>(prepared), in.data(), in.size(), out.data(), out.size(), message);
    }));
    std::vector<TensorType> types;
    for (size_t i = 0; i < out.size(); ++i) {
      SMELT_ASSIGN(TensorType t, type_of(out[i], declared[i].quant));
      types.push_back(std::move(t));
    }
    return types;
  }

  Status run(const void* prepared, std::span<const Tensor> inputs, std::span<Tensor> outputs) const override {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i].defined()) return Unsupported("infer() left the shape of output ", i, " open");
    const auto in = arrays_of(inputs);
    auto out = arrays_of(std::span<const Tensor>(outputs));
    return ask([&](char* message) {
      return f_.run(const_cast<void*>(prepared), in.data(), in.size(), out.data(), out.size(), message);
    });
  }

 private:
  smelt_custom_operator f_;
};

}  // namespace

Result<std::vector<std::shared_ptr<CustomOperator>>> load_custom_operators(const std::string& path) {
  return guarded([&]() -> Result<std::vector<std::shared_ptr<CustomOperator>>> {
    SharedLibrary library((path.find('/') == std::string::npos ? "./" + path : path).c_str());
    if (!library.complete()) {
      const char* why = dlerror();
      return Error(ErrorCode::kIo, Cat(path, ": cannot be loaded: ", why ? why : "unknown error"));
    }
    const auto list = library.get<decltype(&smelt_custom_operators)>("smelt_custom_operators");
    if (!list) return InvalidInput(path, ": exports no smelt_custom_operators()");
    size_t count = 0;
    const smelt_custom_operator* operators = list(&count);
    std::vector<std::shared_ptr<CustomOperator>> out;
    for (size_t i = 0; operators && i < count; ++i) {
      const smelt_custom_operator& f = operators[i];
      if (f.size != sizeof(f)) return InvalidInput(path, ": operator ", i, " is for another version of smelt");
      if (!f.name || !f.infer || !f.run) return InvalidInput(path, ": operator ", i, " lacks name, infer or run");
      out.push_back(std::make_shared<LibraryOperator>(f));
    }
    if (out.empty()) return InvalidInput(path, ": lists no operators");
    return out;
  });
}

}  // namespace smelt
