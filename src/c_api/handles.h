#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/guard.h"
#include "smelt/model.h"
#include "smelt/smelt.h"

struct smelt_model {
  struct Ports {
    std::vector<smelt::Port> inputs, outputs;
  };
  smelt::Model model;
  std::vector<std::string> methods;
  std::map<std::string, Ports> ports;  ///< by method

  explicit smelt_model(const smelt::Model& m);
  /// nullptr for an unknown method.
  const Ports* find(const char* method) const;
};

struct smelt_pool {
  std::shared_ptr<smelt::ThreadPool> pool;
};

struct smelt_session {
  smelt::Session session;
  std::vector<smelt::ProfileEntry> profile = {};  ///< as taken last
};

struct smelt_value {
  smelt::Datum datum;
};

namespace smelt::c_api {

/// Keeps the error's message for smelt_error_message() of this thread.
smelt_status failed(const Error& error) noexcept;

inline std::string text(const char* string) { return string ? string : ""; }

/// Calls f() -> Status at the boundary: neither errors nor exceptions pass.
template <class F>
smelt_status call(F&& f) noexcept {
  try {
    const Status status = guarded(std::forward<F>(f));
    return status.ok() ? SMELT_OK : failed(status.error());
  } catch (...) {  // no memory for the message
    return SMELT_LIMIT;
  }
}

/// call() of f() -> Result<T*>, whose handle the caller owns. `*out` is nullptr on failure.
template <class T, class F>
smelt_status make(T** out, F&& f) noexcept {
  if (out) *out = nullptr;
  return call([&]() -> Status {
    if (!out) return InvalidInput("the pointer that takes the result is NULL");
    SMELT_ASSIGN(std::unique_ptr<T> made, f());
    *out = made.release();
    return Ok();
  });
}

/// A struct of the caller's version: what it does not have stays as in `defaults`.
template <class T>
Result<T> read_struct(const T* given, const T& defaults) {
  T out = defaults;
  if (!given) return out;
  if (given->size < sizeof(size_t)) return InvalidInput("a struct says that it has ", given->size, " bytes");
  std::memcpy(&out, given, std::min(given->size, sizeof(T)));
  return out;
}

/// Writes as much of `from` as the caller's struct holds; its size stays.
template <class T>
Status write_struct(T* to, T from) {
  if (!to || to->size < sizeof(size_t)) return InvalidInput("the struct that takes the result has no size");
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof(T)));
  return Ok();
}

inline Status require(const void* pointer, const char* name) {
  return pointer ? Ok() : Status(InvalidInput(name, " is NULL"));
}

/// Values of the handles; none for NULL.
inline std::vector<Datum> data_of(const smelt_value* const* values, size_t count) {
  std::vector<Datum> out(count);
  for (size_t i = 0; i < count; ++i)
    if (values[i]) out[i] = values[i]->datum;
  return out;
}

inline LogSink log_sink(smelt_log_function log, void* context) {
  if (!log) return {};
  return [log, context](LogLevel level, std::string_view message) {
    log(context, static_cast<smelt_log_level>(level), std::string(message).c_str());
  };
}

}  // namespace smelt::c_api
