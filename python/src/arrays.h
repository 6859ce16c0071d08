#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "smelt/tensor.h"

namespace smelt::python {

/// An exported buffer of a Python object. Precondition of every member: the GIL is held.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }
  /// False, without a Python error, if the object exports no buffer with these PyBUF flags.
  bool open(nanobind::handle object, int flags);
  void release();
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_{};
  bool open_ = false;
};

/// Inputs of one run, converted from Python. Arrays of the right layout are viewed, not copied: they stay exported
/// while this lives. Precondition of every member: the GIL is held.
class Inputs {
 public:
  explicit Inputs(size_t expected);
  /// Appends a value for an input of type `type`; None is an absent optional. Raises InvalidInputError with `name` for
  /// objects that are no such value. Element type and shape are left to the session's check.
  void add(nanobind::handle value, const ValueType& type, const std::string& name);
  std::span<const Datum> data() const { return data_; }

 private:
  Datum convert(nanobind::handle value, const ValueType& type, const std::string& name, int depth);
  Datum tensor(nanobind::handle value, DType expected, const std::string& name);
  std::vector<Datum> data_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

/// A tensor's shape as a tuple of int; an unknown dimension is None.
nanobind::tuple shape_tuple(const Shape& shape);

/// A new numpy array (tensors), list (sequences), dict (maps) or None (absent optionals) that owns a copy of the value.
/// Raises UnsupportedError for an element type that numpy knows by ml_dtypes only when that is not installed.
nanobind::object to_python(const Datum& datum);

/// A numpy array that views the tensor's memory, read-only, and keeps `owner` alive. Element types that numpy can't
/// view (strings, packed types) are copied.
nanobind::object view_python(const Datum& datum, const nanobind::object& owner);

/// Copies a tensor into a writable, C-contiguous array of its element type and shape. Raises InvalidInputError with
/// `name` if the array is another.
void copy_into(const Datum& datum, nanobind::handle array, const std::string& name);

}  // namespace smelt::python
