#include "errors.h"

namespace smelt::python {
namespace {

namespace nb = nanobind;

const char* exception_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidModel:
      return "InvalidModelError";
    case ErrorCode::kUnsupported:
      return "UnsupportedError";
    case ErrorCode::kInvalidInput:
      return "InvalidInputError";
    case ErrorCode::kLimit:
      return "LimitError";
    case ErrorCode::kCancelled:
      return "CancelledError";
    case ErrorCode::kIo:
      return "FileError";
    case ErrorCode::kDevice:
      return "DeviceError";
    case ErrorCode::kInternal:
      break;
  }
  return "InternalError";
}

}  // namespace

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("smelt.errors").attr(exception_name(error.code()));
  // Names in models may hold any bytes.
  const std::string& text = error.message();
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (message.is_valid()) PyErr_SetObject(type.ptr(), message.ptr());
  throw nb::python_error();
}

void raise_input(const std::string& message) { raise(Error(ErrorCode::kInvalidInput, message)); }

}  // namespace smelt::python
