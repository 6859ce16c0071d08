#pragma once

#include <unistd.h>

#include <utility>

namespace smelt {

/// A descriptor of a file, which this closes; negative: none.
class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  explicit operator bool() const { return file_ >= 0; }
  int get() const { return file_; }
  /// The descriptor, for the caller to close.
  int release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

}  // namespace smelt
