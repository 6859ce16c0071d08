#include "arrays.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/cat.h"
#include "errors.h"

namespace smelt::python {

namespace nb = nanobind;

bool Buffer::open(nb::handle object, int flags) {
  release();
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  open_ = PyObject_GetBuffer(object.ptr(), &view_, flags) == 0;
  if (!open_) PyErr_Clear();
  return open_;
}

void Buffer::release() {
  if (open_) PyBuffer_Release(&view_);
  open_ = false;
}

namespace {

constexpr size_t kElementTypes = static_cast<size_t>(DType::kC128) + 1;
/// Bytes above which a copy is worth releasing the GIL.
constexpr size_t kLongCopy = size_t{1} << 18;
/// Nesting of sequences and maps that conversions follow.
constexpr int kMaxDepth = 8;

/// The element type that a buffer's format says; kInvalid: none of them, or of the other byte order.
DType dtype_of(const Py_buffer& view) {
  const char* format = view.format ? view.format : "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const bool complex = *format == 'Z';
  if (complex) ++format;
  if (format[0] == '\0' || format[1] != '\0') return DType::kInvalid;
  if (complex) return *format == 'f' ? DType::kC64 : *format == 'd' ? DType::kC128 : DType::kInvalid;
  static constexpr DType kSigned[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
  static constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  const int log = view.itemsize == 1 ? 0 : view.itemsize == 2 ? 1 : view.itemsize == 4 ? 2 : 3;
  switch (*format) {
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    case 'e':
      return DType::kF16;
    case '?':
      return DType::kBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return kSigned[log];
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return kUnsigned[log];
    default:
      return DType::kInvalid;
  }
}

/// True if the buffer is dense, row-major and aligned, of a rank that tensors can have.
bool fits_layout(const Py_buffer& view) {
  if (view.ndim > Shape::kMaxRank || (view.suboffsets && view.ndim > 0)) return false;
  if (reinterpret_cast<uintptr_t>(view.buf) % static_cast<size_t>(view.itemsize > 8 ? 8 : view.itemsize) != 0)
    return false;
  return PyBuffer_IsContiguous(&view, 'C') != 0;
}

/// Python objects that conversions use. Made at the first use, so that `import smelt` does not import numpy, and never
/// destroyed: the interpreter may be gone before.
struct Numpy {
  nb::object empty, flatten, unflatten, dtype_of_name;
  std::array<nb::object, kElementTypes> dtypes;  ///< for numpy.empty; null: made by `unflatten`
};

Numpy& numpy() {
  static Numpy* loaded = nullptr;
  if (loaded) return *loaded;
  auto made = std::make_unique<Numpy>();
  const nb::object module = nb::module_::import_("numpy");
  made->empty = module.attr("empty");
  const nb::object helpers = nb::module_::import_("smelt._arrays");
  made->flatten = helpers.attr("flatten");
  made->unflatten = helpers.attr("unflatten");
  for (const DType d : {DType::kF32, DType::kF16, DType::kF64, DType::kI8, DType::kU8, DType::kI16, DType::kU16,
                        DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kBool, DType::kC64, DType::kC128})
    made->dtypes[static_cast<size_t>(d)] = module.attr("dtype")(to_string(d));
  if (!loaded) loaded = made.release();  // the imports may have let another thread in
  return *loaded;
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (bytes < kLongCopy) {
    std::memcpy(to, from, bytes);
    return;
  }
  const nb::gil_scoped_release release;
  std::memcpy(to, from, bytes);
}

/// numpy.empty(shape, dtype).
nb::object empty(const nb::tuple& shape, const nb::object& dtype) {
  PyObject* const arguments[] = {shape.ptr(), dtype.ptr()};
  PyObject* const array = PyObject_Vectorcall(numpy().empty.ptr(), arguments, 2, nullptr);
  if (!array) throw nb::python_error();
  return nb::steal(array);
}

nb::object text(const std::string& s) {
  PyObject* const object = PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "surrogateescape");
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

nb::object strings(const Tensor& t) {
  nb::list items;
  for (int64_t i = 0; i < t.elements(); ++i) items.append(text(t.data<std::string>()[i]));
  return numpy().unflatten(items, to_string(t.dtype()), shape_tuple(t.shape()));
}

/// A tensor as an array that owns its memory.
nb::object array_of(const Tensor& t) {
  if (t.dtype() == DType::kString) return strings(t);
  const nb::object& dtype = numpy().dtypes[static_cast<size_t>(t.dtype())];
  const bool direct = dtype.is_valid();
  const nb::tuple shape = shape_tuple(t.shape());
  nb::object array =
      direct ? empty(shape, dtype) : empty(nb::make_tuple(t.bytes()), numpy().dtypes[static_cast<size_t>(DType::kU8)]);
  Buffer buffer;
  if (!buffer.open(array, PyBUF_SIMPLE | PyBUF_WRITABLE)) raise_input("numpy gives no buffer");
  copy_bytes(buffer.view().buf, t.raw(), t.bytes());
  buffer.release();
  return direct ? array : numpy().unflatten(array, to_string(t.dtype()), shape);
}

Tensor string_tensor(nb::handle items, const Shape& shape, const std::string& name) {
  auto made = Tensor::allocate(DType::kString, shape);
  if (!made.ok()) raise(made.error());
  Tensor t = std::move(made).value();
  int64_t i = 0;
  for (const nb::handle item : items) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (i >= t.elements() || PyBytes_AsStringAndSize(item.ptr(), &data, &size) != 0) {
      PyErr_Clear();
      raise_input(Cat("input '", name, "': strings expected"));
    }
    t.data<std::string>()[i++].assign(data, static_cast<size_t>(size));
  }
  return t;
}

DType dtype_named(const std::string& name) {
  for (size_t d = 1; d < kElementTypes; ++d)
    if (name == to_string(static_cast<DType>(d))) return static_cast<DType>(d);
  return DType::kInvalid;
}

Shape shape_of(nb::handle tuple) {
  Shape shape;
  for (const nb::handle d : tuple) {
    if (shape.rank() == Shape::kMaxRank) raise_input(Cat("a tensor has at most ", Shape::kMaxRank, " dimensions"));
    shape.push_back(nb::cast<int64_t>(d));
  }
  return shape;
}

bool is_list(nb::handle value) { return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()); }

/// Key i of a map: a str or an int.
nb::object map_key(const Tensor& keys, int64_t i) {
  return keys.dtype() == DType::kString ? text(keys.data<std::string>()[i]) : nb::int_(keys.data<int64_t>()[i]);
}

nb::object dict_of(const Datum& map) {
  const Tensor& keys = (*map.items)[0].tensor;
  const Datum& values = (*map.items)[1];
  const nb::object items = values.is_tensor() ? to_python(values).attr("tolist")() : to_python(values);
  nb::dict out;
  for (int64_t i = 0; i < keys.elements(); ++i) out[map_key(keys, i)] = items[i];
  return out;
}

}  // namespace

Inputs::Inputs(size_t expected) { data_.reserve(expected); }

void Inputs::add(nb::handle value, const ValueType& type, const std::string& name) {
  data_.push_back(convert(value, type, name, 0));
}

Datum Inputs::convert(nb::handle value, const ValueType& type, const std::string& name, int depth) {
  if (value.is_none()) return {};
  if (depth > kMaxDepth) raise_input(Cat("input '", name, "': lists nested too deep"));
  static const ValueType unknown;
  const ValueType& element = type.element ? *type.element : unknown;
  switch (type.kind) {
    case ValueType::Kind::kTensor:
      break;
    case ValueType::Kind::kOptional:
      return convert(value, element, name, depth + 1);
    case ValueType::Kind::kSequence: {
      if (!is_list(value)) raise_input(Cat("input '", name, "' takes ", type.str(), ": a list expected"));
      std::vector<Datum> items;
      for (const nb::handle item : value) items.push_back(convert(item, element, name, depth + 1));
      return Datum::sequence(std::move(items));
    }
    case ValueType::Kind::kMap: {
      if (!PyDict_Check(value.ptr())) raise_input(Cat("input '", name, "' takes a map: a dict expected"));
      const nb::dict map = nb::borrow<nb::dict>(value);
      const nb::list keys = map.keys(), values = map.values();
      const bool texts = keys.size() > 0 && PyUnicode_Check(keys[0].ptr());
      return Datum::map(tensor(keys, texts ? DType::kString : DType::kI64, name), tensor(values, type.dtype, name));
    }
  }
  return tensor(value, type.dtype, name);
}

Datum Inputs::tensor(nb::handle value, DType expected, const std::string& name) {
  auto buffer = std::make_unique<Buffer>();
  if (expected != DType::kString && buffer->open(value, PyBUF_RECORDS_RO)) {
    const Py_buffer& view = buffer->view();
    const DType dtype = dtype_of(view);
    if (dtype != DType::kInvalid && view.itemsize * 8 == bit_width(dtype) && fits_layout(view)) {
      const Shape shape(
          std::span<const int64_t>(reinterpret_cast<const int64_t*>(view.shape), static_cast<size_t>(view.ndim)));
      Tensor t = Tensor::view(dtype, shape, view.buf, nullptr);
      buffers_.push_back(std::move(buffer));
      return t;
    }
    buffer->release();
  }
  const nb::object flat =
      numpy().flatten(value, expected == DType::kInvalid ? "" : to_string(expected), name);  // (data, dtype, shape)
  const DType dtype = dtype_named(nb::cast<std::string>(flat[1]));
  const Shape shape = shape_of(flat[2]);
  if (dtype == DType::kString) return string_tensor(flat[0], shape, name);
  const auto elements = shape.checked_elements();
  if (!elements.ok()) raise(elements.error());
  if (!buffer->open(flat[0], PyBUF_SIMPLE) || dtype == DType::kInvalid ||
      static_cast<size_t>(buffer->view().len) < Tensor::byte_size(dtype, *elements))
    raise_input(Cat("input '", name, "' gives no contiguous buffer"));
  Tensor t = Tensor::view(dtype, shape, buffer->view().buf, nullptr);
  buffers_.push_back(std::move(buffer));
  return t;
}

nb::tuple shape_tuple(const Shape& shape) {
  const nb::object tuple = nb::steal(PyTuple_New(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i)
    PyTuple_SetItem(tuple.ptr(), i, shape[i] < 0 ? nb::none().release().ptr() : PyLong_FromLongLong(shape[i]));
  return nb::borrow<nb::tuple>(tuple);
}

nb::object to_python(const Datum& d) {
  switch (d.kind) {
    case Datum::Kind::kTensor:
      return array_of(d.tensor);
    case Datum::Kind::kSequence: {
      nb::list out;
      for (const Datum& item : *d.items) out.append(to_python(item));
      return out;
    }
    case Datum::Kind::kMap:
      return dict_of(d);
    case Datum::Kind::kNone:
      break;
  }
  return nb::none();
}

nb::object view_python(const Datum& d, const nb::object& owner) {
  if (!d.is_tensor() || d.tensor.bytes() == 0 || bit_width(d.tensor.dtype()) < 8) return to_python(d);
  return nb::module_::import_("smelt._arrays")
      .attr("view")(reinterpret_cast<uintptr_t>(d.tensor.raw()), to_string(d.tensor.dtype()),
                    shape_tuple(d.tensor.shape()), owner);
}

void copy_into(const Datum& d, nb::handle array, const std::string& name) {
  if (!d.is_tensor()) raise_input(Cat("output '", name, "' is no tensor: it can't be bound to an array"));
  const Tensor& t = d.tensor;
  Buffer buffer;
  if (!buffer.open(array, PyBUF_RECORDS) || !fits_layout(buffer.view()))
    raise_input(Cat("the array bound to output '", name, "' is not a writable, C-contiguous buffer"));
  const Py_buffer& view = buffer.view();
  const Shape shape(
      std::span<const int64_t>(reinterpret_cast<const int64_t*>(view.shape), static_cast<size_t>(view.ndim)));
  if (dtype_of(view) != t.dtype() || !(shape == t.shape()))
    raise_input(Cat("output '", name, "' is ", to_string(t.dtype()), t.shape().str(), ", the array bound to it is ",
                    to_string(dtype_of(view)), shape.str()));
  copy_bytes(view.buf, t.raw(), t.bytes());
}

}  // namespace smelt::python
