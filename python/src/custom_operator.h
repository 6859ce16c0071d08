#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "smelt/custom_operator.h"

namespace smelt::python {

/// The operator that a Python object implements (class smelt.CustomOperator). Takes the GIL for every call; exceptions
/// become errors of the load or the run. Precondition: the GIL is held.
std::shared_ptr<CustomOperator> make_custom_operator(nanobind::handle object);

}  // namespace smelt::python
