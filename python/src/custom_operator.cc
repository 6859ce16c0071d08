#include "custom_operator.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/cat.h"
#include "base/error.h"

namespace smelt::python {
namespace {

namespace nb = nanobind;

/// A Python object that threads without the GIL may own and drop. It leaks when the interpreter is gone.
std::shared_ptr<void> shared(nb::object object) {
  return {object.release().ptr(), [](void* p) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire acquire;
            Py_DECREF(static_cast<PyObject*>(p));
          }};
}

/// Calls f() with the GIL; Python exceptions become errors that begin with the operator's name.
template <class F>
auto call(const std::string& name, F&& f) -> decltype(f()) {
  const nb::gil_scoped_acquire acquire;
  try {
    return f();
  } catch (const std::exception& e) {
    return InvalidInput("custom operator '", name, "': ", e.what());
  }
}

/// (dtype, shape) of smelt.CustomOperator.infer; dtype "" and shape None: not known.
nb::list to_list(std::span<const CustomOperator::TensorType> types) {
  nb::list out;
  for (const auto& t : types)
    out.append(nb::make_tuple(t.dtype == DType::kInvalid ? "" : to_string(t.dtype),
                              t.ranked ? nb::object(shape_tuple(t.shape)) : nb::none()));
  return out;
}

DType dtype_named(const std::string& name) {
  for (int d = 1; d <= static_cast<int>(DType::kC128); ++d)
    if (name == to_string(static_cast<DType>(d))) return static_cast<DType>(d);
  return DType::kInvalid;
}

class PythonOperator final : public CustomOperator {
 public:
  PythonOperator(std::string name, std::shared_ptr<void> object) : name_(std::move(name)), object_(std::move(object)) {}

  std::string name() const override { return name_; }

  Result<std::shared_ptr<void>> prepare(std::span<const std::byte> options, std::span<const TensorType> inputs,
                                        std::span<const TensorType> outputs) override {
    (void)inputs, (void)outputs;
    return call(name_, [&]() -> Result<std::shared_ptr<void>> {
      return shared(nb::bytes(reinterpret_cast<const char*>(options.data()), options.size()));
    });
  }

  Result<std::vector<TensorType>> infer(const void* prepared, std::span<const TensorType> inputs,
                                        std::span<const TensorType> declared) const override {
    return call(name_, [&]() -> Result<std::vector<TensorType>> {
      const nb::object types = self().attr("infer")(to_list(inputs), to_list(declared), options(prepared));
      std::vector<TensorType> out;
      for (const nb::handle type : types) {
        TensorType& t = out.emplace_back();
        const auto dtype = nb::cast<std::string>(nb::str(type[0]));
        t.dtype = dtype_named(dtype);
        if (t.dtype == DType::kInvalid && !dtype.empty()) return InvalidInput("infer() gives the unknown type ", dtype);
        if (type[1].is_none()) continue;
        t.ranked = true;
        for (const nb::handle d : nb::object(type[1])) {
          if (t.shape.rank() == Shape::kMaxRank) return InvalidInput("infer() gives more than 16 dimensions");
          t.shape.push_back(d.is_none() ? -1 : nb::cast<int64_t>(d));
        }
      }
      return out;
    });
  }

  Status run(const void* prepared, std::span<const Tensor> inputs, std::span<Tensor> outputs) const override {
    return call(name_, [&]() -> Status {
      nb::list arrays;
      for (const Tensor& t : inputs) arrays.append(t.defined() ? to_python(Datum(t)) : nb::none());
      const nb::object results = self().attr("run")(arrays, options(prepared));
      const nb::object list =
          PyTuple_Check(results.ptr()) || PyList_Check(results.ptr()) ? results : nb::make_tuple(results);
      if (nb::len(list) != outputs.size())
        return InvalidInput("run() gives ", nb::len(list), " results, ", outputs.size(), " expected");
      Inputs converted(outputs.size());
      for (size_t i = 0; i < outputs.size(); ++i)
        converted.add(list[i], ValueType::tensor(outputs[i].dtype()), Cat("result ", i));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const Tensor& t = converted.data()[i].tensor;
        Tensor& out = outputs[i];
        if (!out.defined())
          out = t.clone();
        else if (t.dtype() != out.dtype() || !(t.shape() == out.shape()))
          return InvalidInput("result ", i, " of run() is ", to_string(t.dtype()), t.shape().str(), ", ",
                              to_string(out.dtype()), out.shape().str(), " expected");
        else if (t.dtype() == DType::kString)
          std::copy_n(t.data<std::string>(), t.elements(), out.data<std::string>());
        else if (t.bytes() > 0)
          std::memcpy(out.raw(), t.raw(), t.bytes());
      }
      return Ok();
    });
  }

 private:
  nb::handle self() const { return static_cast<PyObject*>(object_.get()); }
  static nb::handle options(const void* prepared) { return static_cast<PyObject*>(const_cast<void*>(prepared)); }
  std::string name_;
  std::shared_ptr<void> object_;
};

}  // namespace

std::shared_ptr<CustomOperator> make_custom_operator(nb::handle object) {
  return std::make_shared<PythonOperator>(nb::cast<std::string>(nb::str(object.attr("name"))),
                                          shared(nb::borrow(object)));
}

}  // namespace smelt::python
