#pragma once

#include <exception>
#include <new>
#include <stdexcept>

#include "base/error.h"

namespace smelt {

/// Calls f() -> Result or Status and turns exceptions into errors. Stands at the library's boundary.
template <class F>
auto guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kLimit, "out of memory");
  } catch (const std::length_error&) {
    return Error(ErrorCode::kLimit, "out of memory");
  } catch (const std::exception& e) {
    return Internal(e.what());
  } catch (...) {
    return Internal("an exception of an unknown type");
  }
}

}  // namespace smelt
