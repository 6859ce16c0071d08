#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "smelt/result.h"

namespace smelt::python {

/// Throws the exception of smelt.errors that belongs to the error's code. Precondition: the GIL is held.
[[noreturn]] void raise(const Error& error);

/// Throws smelt.InvalidInputError with `message`. Precondition: the GIL is held.
[[noreturn]] void raise_input(const std::string& message);

/// The value of a Result; raises its error. Precondition: the GIL is held.
template <class T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

}  // namespace smelt::python
