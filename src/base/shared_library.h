#pragma once

#include <dlfcn.h>

namespace smelt {

/// A library that is loaded when it is first needed and stays for the rest of the process.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  /// False when the library is absent or lacked a function that was asked for.
  bool complete() const { return handle_ != nullptr && complete_; }
  /// get<decltype(&NAME)>("NAME")
  template <class Function>
  Function get(const char* name) {
    auto f = handle_ ? reinterpret_cast<Function>(dlsym(handle_, name)) : nullptr;
    complete_ = complete_ && f != nullptr;
    return f;
  }

 private:
  void* handle_;
  bool complete_ = true;
};

}  // namespace smelt
